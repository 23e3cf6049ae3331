// Rows of graphs and runs, sent in batches; <properties> are columns by their place in a row.

// nodes: nodes of one label.
UNWIND $rows AS row CREATE (n:<label> <properties>)

// relationships: relationships of one type between nodes that are there.
UNWIND $rows AS row MATCH (a:<source> {id: row[0]}) MATCH (b:<target> {id: row[1]})
CREATE (a)-[:<type> <properties>]->(b)

// ops: ops of a claimed graph.
MATCH (g:PendingGraph {id: $graph}) UNWIND $rows AS row CREATE (g)-[:HAS_OP]->(:Op <properties>)

// tensors: tensors of ops that are there.
UNWIND $rows AS row MATCH (o:Op {id: row[<op>]}) CREATE (o)-[:PRODUCES]->(:Tensor <properties>)

// into: relationships into one op come together, so that it is looked up once.
UNWIND $rows AS into MATCH (b:Op {id: into[0]}) UNWIND into[1] AS row
MATCH (a:<source> {id: row[0]}) CREATE (a)-[:<type> <properties>]->(b)

// metrics: metrics of a claimed run.
MATCH (r:PendingRun {id: $run}) UNWIND $rows AS row MATCH (o:Op {id: row[<op>]})
CREATE (m:Metric <properties>)-[:OF]->(o) CREATE (r)-[:COMPARED]->(m)

// findings: findings of a claimed run.
MATCH (r:PendingRun {id: $run}) UNWIND $rows AS row
CREATE (r)-[:FOUND]->(f:Finding <properties>)
WITH f, row MATCH (o:Op {id: row[<op>]}) CREATE (f)-[:ABOUT]->(o)

// model: the model graphs are of.
UNWIND $rows AS row MERGE (m:Model {id: row.id}) SET m += row

// facts: the properties of a claimed node.
MATCH (n:Pending<label> {id: $facts.id, writer: $token}) SET n += $facts
