// The server itself.

// terminate: ends the query that was sent under a name.
SHOW TRANSACTIONS YIELD transactionId AS id, metaData WHERE metaData[$key] = $name
TERMINATE TRANSACTIONS id YIELD message RETURN message

// running_on: the queries that were ended and run all the same.
SHOW TRANSACTIONS YIELD metaData, status
WHERE metaData[$key] IS NOT NULL AND status STARTS WITH 'Terminated'
RETURN metaData[$key] AS name

// access: whether a database, or the home database, may be written.
SHOW DATABASES YIELD name, access, home WHERE home AND $name IS NULL OR name = $name
RETURN access

// version: the schema version of the store.
MATCH (s:SchemaVersion {id: 'divergraph'}) RETURN s.version

// mark: says the schema version of a store that was just made.
MATCH (s:SchemaVersion {id: 'divergraph'}) SET s.version = $version

// count_ops: how many ops all graphs have.
MATCH (g:Graph) RETURN coalesce(sum(g.ops), 0)
