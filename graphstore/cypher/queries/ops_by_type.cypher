// Answers: how many ops of each type a graph (of a run: the device graph) has.
MATCH (o:Op {graph: $graph})
RETURN o.type AS type, count(*) AS ops
ORDER BY ops DESC, type
