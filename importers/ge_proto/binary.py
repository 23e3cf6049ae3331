"""Read GE's binary messages (``ge.proto.ModelDef`` in an offline model) field by field.

Field numbers follow ge_ir.proto; unknown ones are passed over. Nothing is allocated for a
length that the message around it does not hold, binaries stay in their file, and errors
name the byte. Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from pathlib import Path

from importers.proto.schema_reader import SchemaReader, schema
from importers.proto.text_reader import Buffer

# Field numbers, names and what they hold. Enums are integers; bytes that are text are text. The
# graph of a model is entered block by block; of functions and graphs in attributes only the name
# is of interest.
_MESSAGES = """
    ModelDef: 1=name/text 2=version/integer 3=custom_version/text 7=graph/binary 11=attr/AttrEntry
    GraphDef: 1=name/text 4=input/text 5=output/text 6=op/OpDef 11=attr/AttrEntry
    OpDef: 1=name/text 2=type/text 5=input/text 10=attr/AttrEntry 21=id/integer
        33=input_desc/TensorDescriptor 34=output_desc/TensorDescriptor 35=subgraph_name/text
    TensorDescriptor: 1=name/text 2=dtype/integer 3=shape/ShapeDef 4=layout/text 5=attr/AttrEntry
        10=size/integer 11=weight_size/integer 18=data_offset/integer
    ShapeDef: 1=dim/integer
    TensorDef: 1=desc/TensorDescriptor 2=data/binary
    AttrEntry: 1=key/text 2=value/AttrDef
    AttrDef: 1=list/ListValue 2=s/text 3=i/integer 4=f/float 5=b/truth 7=bt/binary 10=func/Named
        11=td/TensorDescriptor 12=t/TensorDef 13=g/Named 14=list_list_int/ListListInt 15=dt/integer
        16=list_list_float/ListListFloat 17=expression/text
    ListValue: 2=s/text 3=i/integer 4=f/float 5=b/truth 7=bt/binary 8=td/TensorDescriptor
        9=t/TensorDef 10=g/Named 11=na/Named 12=dt/integer
    ListListInt: 1=list_list_i/ListInt
    ListInt: 1=list_i/integer
    ListListFloat: 1=list_list_f/ListFloat
    ListFloat: 1=list_f/float
    Named: 1=name/text
"""
_SCHEMA = schema(_MESSAGES)


class BinaryReader(SchemaReader):
    """Reads messages of GE in *buffer*, the bytes of *path* (named in errors)."""

    def __init__(self, buffer: Buffer, path: Path) -> None:
        super().__init__(buffer, path, _SCHEMA, repeated="AttrEntry")
