// Internal: the stored form of some ops.
// Parameter ops: device ops
UNWIND $ops AS id
MATCH (o:Op {id: id})
RETURN o.op AS op, o.record_json AS record, o.attrs_json AS attrs
