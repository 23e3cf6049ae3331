// Internal: the stored form of the ops of a graph in file order, a slice of them.
// Parameter first: number
// Parameter until: number
MATCH (o:Op {graph: $graph}) WHERE o.place >= $first AND o.place < $until
RETURN o.record_json AS record, o.attrs_json AS attrs
ORDER BY o.place
