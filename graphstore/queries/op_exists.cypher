// Internal: whether there is an op; its id in the store is asked for, not its name.
// Parameter id: text
MATCH (o:Op {id: $id}) RETURN o.op AS op
