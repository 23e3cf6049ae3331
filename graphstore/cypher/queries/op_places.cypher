// Internal: where in the file some ops are.
// Parameter ids: numbers
MATCH (o:Op) WHERE o.id IN $ids
RETURN o.name AS op, o.place AS place
