// Internal: where in the file some ops are.
// Parameter ids: numbers
MATCH (o:Op) WHERE o.id IN $ids
RETURN o.id AS id, o.name AS op, o.place AS place
