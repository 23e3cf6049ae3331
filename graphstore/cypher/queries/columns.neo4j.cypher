// Internal: packed columns of a graph or run, in parts.
// Parameter of: text
// Parameter kind: text
MATCH (c:Columns {of: $of, kind: $kind})
RETURN c.part AS part, c.data AS data
ORDER BY part
