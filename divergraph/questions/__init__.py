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
        "findings": "verdicts:Findings",
        "trace": "propagation:Trace",
        "advise": "propagation:Advice",
        "lineage": "lineages:Lineage",
        "unmatched": "lineages:Unmatched",
        "fusion": "fusions:Fusion",
        "fusion-trial": "fusions:FusionTrial",
        "blame": "parts:KeptBlame",
        "minimize": "parts:KeptMinimize",
        "submodel": "parts:Submodel",
        "tensor": "tensors:Tensor",
        "tensor-values": "tensors:TensorSlice",
        "tensor-histogram": "tensors:TensorHistogram",
        "notes": "memory:Notes",
        "baselines": "memory:Baselines",
        "queries": "cypher:NamedQueries",
    }.items()
}
"""Where each is, by name."""
