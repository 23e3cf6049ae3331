// Internal: the schema version the database was written with, if any.
MATCH (s:Store {id: 'divergraph'}) RETURN s.schema AS schema
