"""The questions whose JSON is not the fields of their answer, and those that read files."""

PLACES = {
    name: f"divergraph.questions.{place}Question"
    for name, place in {
        "runs": "listings:Entries",
        "verdict": "verdicts:Run",
        "ops": "listings:Ops",
        "op": "verdicts:Op",
        "neighbourhood": "verdicts:Neighbourhood",
        "origins": "propagation:Origins",
        "trace": "propagation:Trace",
        "advise": "propagation:Advice",
        "blame": "parts:KeptBlame",
        "minimize": "parts:KeptMinimize",
        "submodel": "parts:Submodel",
        "consistency": "parts:Consistency",
        "tensor": "tensors:Tensor",
        "tensor-values": "tensors:TensorSlice",
        "tensor-histogram": "tensors:TensorHistogram",
        "queries": "cypher:NamedQueries",
    }.items()
}
"""Where each is, by name."""
