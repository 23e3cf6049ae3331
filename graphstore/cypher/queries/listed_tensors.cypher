// Internal: the outputs of the ops of a graph by topo and port, for a slice of the ops,
// which $first_node and $end_node say as node ids.
// Parameter first: number
MATCH (t:Tensor) WHERE t.op >= $first_node AND t.op < $end_node
RETURN t.op - $first_node + $first AS topo, t.shape AS shape, t.dtype AS dtype, t.layout AS layout
ORDER BY topo, t.port
