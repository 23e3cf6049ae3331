// Internal: the stored form of a graph's ops, those from a place in the file on.
// Parameter first: number
// Parameter until: number
MATCH (b:OpBlock {graph: $graph}) WHERE b.first >= $first AND b.first < $until
RETURN b.first AS first, b.data AS data
