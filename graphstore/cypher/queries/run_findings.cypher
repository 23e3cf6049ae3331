// Internal: what was found in a run, in the order it was saved.
MATCH (f:Finding {run: $run})
RETURN f.kind AS kind, f.label AS label, f.sentence AS sentence, f.op AS node, f.op_name AS op,
       f.io AS io, f.port AS port, f.confidence AS confidence, f.evidence_json AS evidence
ORDER BY f.seq
