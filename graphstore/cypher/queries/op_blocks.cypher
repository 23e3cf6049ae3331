// Internal: some blocks of the stored form of a graph's ops.
// Parameter firsts: numbers
MATCH (b:OpBlock {graph: $graph}) WHERE b.first IN $firsts
RETURN b.first AS first, b.data AS data
