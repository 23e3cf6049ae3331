// Internal: the stored form of a graph without its ops.
MATCH (g:Graph {id: $graph}) RETURN g.header_json AS header, g.ops AS ops
