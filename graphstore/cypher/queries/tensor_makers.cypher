// Internal: which outputs of the ops of a graph are called like this, by topo and port; the node
// ids of its ops begin at $first_node. Names that follow from the op and the port are not kept: of
// such a name, those two are given.
// Parameter name: text
// Parameter node: number
// Parameter port: number
MATCH (t:Tensor) WHERE t.op >= $first_node AND t.op < $end_node
  AND (t.name = $name OR t.name IS NULL AND t.op = $node AND t.port = $port)
RETURN t.op - $first_node AS topo, t.port AS port
ORDER BY topo, port
