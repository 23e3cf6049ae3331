// Internal: how much the database holds.
OPTIONAL MATCH (r:Run) WITH count(r) AS runs
OPTIONAL MATCH (i:Import) WITH runs, count(i) AS graphs
OPTIONAL MATCH (g:Graph)
RETURN runs, graphs, coalesce(sum(g.ops), 0) AS ops
