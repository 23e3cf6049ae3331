"""Plain frozen values every part of the product speaks: graphs, lineage, dumps, results.

Imports only the standard library and numpy, and nothing else of ours.
"""

from graphstore.model.comparison import (
    Comparison,
    Counts,
    Level,
    Method,
    Metric,
    MetricSet,
    OpState,
    Origin,
    Reason,
    Run,
    Verdict,
)
from graphstore.model.dtypes import DType
from graphstore.model.dumps import (
    DumpFormat,
    DumpTensorRef,
    Side,
    TensorIO,
    TensorPart,
    TensorStatistics,
)
from graphstore.model.figures import Figures, SideFigures
from graphstore.model.graph import (
    AttrValue,
    Constant,
    Edge,
    EdgeKind,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    Subgraph,
    Tensor,
    TensorOrigin,
    TensorRef,
    op_id,
)
from graphstore.model.lineage import LineageLink, LineageRule, Reorder, TensorMatch
from graphstore.model.root_cause import ErrorSplit, Finding, FindingKind, Guilt, Role

__all__ = [
    "AttrValue",
    "Comparison",
    "Constant",
    "Counts",
    "DType",
    "DumpFormat",
    "DumpTensorRef",
    "Edge",
    "EdgeKind",
    "ErrorSplit",
    "Figures",
    "Finding",
    "FindingKind",
    "Framework",
    "GraphKind",
    "Guilt",
    "InputRef",
    "Level",
    "LineageLink",
    "LineageRule",
    "Method",
    "Metric",
    "MetricSet",
    "ModelGraph",
    "Op",
    "OpState",
    "Origin",
    "Reason",
    "Reorder",
    "Role",
    "Run",
    "Shape",
    "Side",
    "SideFigures",
    "Subgraph",
    "Tensor",
    "TensorIO",
    "TensorMatch",
    "TensorOrigin",
    "TensorPart",
    "TensorRef",
    "TensorStatistics",
    "Verdict",
    "op_id",
]
