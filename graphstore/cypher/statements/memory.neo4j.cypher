// What a team keeps beside its runs: nodes Memory, each with a text.

// all: the texts of a kind.
MATCH (m:Memory) WHERE m.kind = $kind RETURN m.text AS text

// keep: a text, in place of an earlier one.
MERGE (m:Memory {id: $id}) SET m.kind = $kind, m.text = $text

// forget: a text goes.
MATCH (m:Memory {id: $id}) DETACH DELETE m RETURN count(*) AS n
