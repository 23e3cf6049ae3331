// Internal: the key under which an imported graph is stored.
// Parameter name: text
MATCH (i:Import {id: $name}), (g:Graph {id: i.graph})
RETURN g.id AS device, g.content AS content
