// Internal: all imported graphs.
MATCH (i:Import), (g:Graph {id: i.graph})
RETURN i.name AS name, g.name AS graph_name, g.sha256 AS sha256, g.kind AS kind,
       g.framework AS framework, g.format AS format, g.ops AS ops, g.edges AS edges,
       g.subgraphs AS subgraphs, g.fused_ops AS fused_ops, i.created AS created,
       g.source AS source
