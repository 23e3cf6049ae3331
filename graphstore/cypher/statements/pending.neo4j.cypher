// Claims on names and graphs: nodes PendingRun, PendingGraph and PendingImport carry the token
// of their writer, no named query sees them, and they become Run, Graph and Import in one step.

// all: every node that is not shown, with its writer and the graphs it uses.
MATCH (n:PendingRun|PendingGraph|PendingImport)
RETURN labels(n)[0] AS label, n.id AS id, coalesce(n.name, n.id) AS name, n.writer AS writer,
  coalesce(n.hidden, false) AS hidden,
  [key IN [n.golden, n.device, n.graph] WHERE key IS NOT NULL] AS graphs

// shown_run: the run of a name.
MATCH (n:Run {name: $name}) RETURN n.id AS id, n.golden AS golden, n.device AS device

// shown_graph: the imported graph of a name.
MATCH (n:Import {id: $name}) RETURN n.id AS id, n.graph AS device

// users: the runs and imports that use a graph.
MATCH (r:Run|PendingRun) WHERE r.hidden IS NULL AND (r.golden = $key OR r.device = $key)
RETURN r.id AS user
UNION MATCH (i:Import|PendingImport {graph: $key}) RETURN i.id AS user

// graph: a graph by its key, shown or not.
MATCH (g:Graph|PendingGraph {id: $id})
RETURN g.content AS content, g:Graph AS shown, g.writer AS writer

// contents: the graphs of a key, and of the keys made from it for other contents.
MATCH (g:Graph|PendingGraph) WHERE g.id = $id OR g.id STARTS WITH $id + '+'
RETURN g.id AS id, g.content AS content

// claim_graph: a graph that is going to be written.
CREATE (:PendingGraph {id: $id, content: $content, name: $name, writer: $token})

// claim_run: a run that is going to be written.
CREATE (:PendingRun {id: $id, name: $name, golden: $golden, device: $device, writer: $token})

// claim_import: a name for a graph that is going to be written.
CREATE (:PendingImport {id: $token, name: $name, graph: $graph, writer: $token})

// any_run: whether a key of a run is taken.
MATCH (r:Run|PendingRun {id: $key}) RETURN r.id

// own_run: whether a claimed run is still the writer's.
MATCH (r:PendingRun {id: $key, writer: $token}) RETURN r.id

// own_import: whether a claimed name is still the writer's.
MATCH (i:PendingImport {id: $token}) RETURN i.id

// show_run: a written run becomes visible.
MATCH (r:PendingRun {id: $key}) REMOVE r:PendingRun, r.writer SET r:Run, r.stamp = $token

// show_import: a written name becomes visible.
MATCH (i:PendingImport {id: $token}) REMOVE i:PendingImport, i.writer
SET i:Import, i.id = i.name, i.created = $created

// show_graphs: written graphs become visible.
UNWIND $keys AS key MATCH (g:PendingGraph {id: key}) REMOVE g:PendingGraph, g.writer SET g:Graph

// join_run: a shown run belongs to its graphs.
MATCH (r:Run {id: $key}) MATCH (d:Graph {id: r.device}) MATCH (g:Graph {id: r.golden})
MERGE (r)-[:OF_DEVICE]->(d) MERGE (r)-[:OF_GOLDEN]->(g)

// join_import: a shown name belongs to its graph.
MATCH (i:Import {id: $name}) MATCH (g:Graph {id: i.graph}) MERGE (i)-[:OF_GRAPH]->(g)

// join_graphs: shown graphs belong to their models.
UNWIND $keys AS key MATCH (g:Graph {id: key}) MATCH (m:Model {id: g.model})
MERGE (m)-[:HAS_GRAPH]->(g)

// hide_run: a run goes out of sight, to be deleted by this writer.
MATCH (r:Run {name: $name}) REMOVE r:Run
SET r:PendingRun, r.writer = $token, r.hidden = true
RETURN [r.golden, r.device] AS graphs

// drop_import: the name of an imported graph goes.
MATCH (i:Import {id: $name}) WITH i, [i.graph] AS graphs DETACH DELETE i RETURN graphs

// hide_graph: a graph goes out of sight, to be deleted by this writer.
MATCH (g:Graph {id: $key}) REMOVE g:Graph
SET g:PendingGraph, g.writer = $token, g.hidden = true

// rename_run: another name for a run; its record keeps the one it was written with.
MATCH (r:Run {name: $name}) SET r.name = $new

// rename_import: another name for an imported graph.
MATCH (i:Import {id: $name}) SET i.id = $new, i.name = $new

// take_over: what a dead writer left becomes this writer's.
MATCH (n:<label> {id: $id, writer: $old}) SET n.writer = $token
