// Internal: the outputs of the ops of a graph by topo and port, for a slice of the ops.
// Parameter first: number
// Parameter until: number
MATCH (o:Op {graph: $graph}) WHERE o.topo >= $first AND o.topo < $until
MATCH (t:Tensor) WHERE t.op = o.id
RETURN o.topo AS topo, t.shape AS shape, t.dtype AS dtype, t.layout AS layout
ORDER BY topo, t.port
