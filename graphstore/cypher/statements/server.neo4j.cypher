// The server itself.

// terminate: ends the query that was sent under a name.
SHOW TRANSACTIONS YIELD transactionId AS id, metaData WHERE metaData[$key] = $name
TERMINATE TRANSACTIONS id YIELD message RETURN message

// access: whether a database, or the home database, may be written.
SHOW DATABASES YIELD name, access, home WHERE home AND $name IS NULL OR name = $name
RETURN access
