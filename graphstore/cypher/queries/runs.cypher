// Answers: all runs, oldest first.
MATCH (r:Run)
RETURN r.name AS run, r.created AS created, r.verdict AS verdict, r.method AS method,
       r.ops AS ops, r.tensors AS tensors, r.compared AS compared, r.over AS over,
       r.not_compared AS not_compared
ORDER BY created, run
