// The databases of entries: read column by column, copied and named anew.

// count: how many nodes of a label each run has.
MATCH (n:<label>) RETURN n.run, count(*)

// nodes: columns of all nodes of a label.
MATCH (n:<label>) RETURN <columns>

// node_slice: columns of the nodes of a label in a range of ids.
MATCH (n:<label>) WHERE <range> RETURN <columns>

// relationship_slice: columns of the relationships of a type in a range of ids.
MATCH (a:<source>)-[r:<type>]->(b:<target>) WHERE <range> RETURN <columns>

// name_run: another name for the run of a database.
MATCH (r:Run) SET r.name = $name

// drop_imports: the names of the graph go; a primary key cannot be set.
MATCH (i:Import) DETACH DELETE i

// name_graph: a name for the graph of a database.
MATCH (g:Graph)
CREATE (:Import {id: $name, name: $name, graph: g.id, created: $created})-[:OF_GRAPH]->(g)

// copy: rows of an Arrow table into a table.
COPY <table><columns> FROM $rows
