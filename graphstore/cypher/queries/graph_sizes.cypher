// Internal: how many ops the graphs of a database have.
MATCH (g:Graph) RETURN g.id AS graph, g.content AS content, g.ops AS ops ORDER BY graph
