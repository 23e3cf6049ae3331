// Who writes to the server: signs of life, and batches done exactly once.

// sign_in: a writer with its lanes.
UNWIND $lanes AS lane MERGE (w:Writer {id: lane})
SET w += $facts, w.done = 0, w.beat = timestamp()

// sign: a sign of life, and the number of the batch that is done with it.
MATCH (w:Writer {id: $lane}) WITH w, w.done AS done
SET w.beat = timestamp(), w.done = $number RETURN done

// sign_off: a writer that has ended.
MATCH (w:Writer {writer: $token}) DELETE w

// turn: one change of state at a time, to the end of its transaction.
MERGE (s:SchemaVersion {id: 'divergraph'}) SET s.turn = $token

// known: writers, and for how many seconds they were silent.
MATCH (w:Writer)
RETURN w.writer AS writer, w.place AS place, w.host AS host, w.process AS process,
  w.process_start AS process_start, (timestamp() - max(w.beat)) / 1000.0 AS silent

// is_known: whether a writer is signed in.
MATCH (w:Writer {writer: $token}) RETURN w.id LIMIT 1

// touch: waits for what these writers are doing just now.
MATCH (w:Writer) WHERE w.writer IN $dead SET w.asked = $token

// remove: writers that are dead.
MATCH (w:Writer) WHERE w.writer IN $gone DELETE w
