// Databases of entries: made of tables, and those of earlier versions read column by column.

// count: how many nodes of a label each run has.
MATCH (n:<label>) RETURN n.run, count(*)

// node_slice: columns of the nodes of a label in a range of ids.
MATCH (n:<label>) WHERE <range> RETURN <columns>

// relationship_slice: columns of the relationships of a type in a range of ids.
MATCH (a:<source>)-[r:<type>]->(b:<target>) WHERE <range> RETURN <columns>

// copy: rows of an Arrow table into a table.
COPY <table><columns> FROM $rows
