// Internal: the graphs, shown or pending, stored under an id or one made from it.
// Parameter id: text
MATCH (g:Graph|PendingGraph) WHERE g.id = $id OR g.id STARTS WITH $id + '+'
RETURN g.id AS id, g.content AS content, g:Graph AS shown
