"""The messages of GE's graphs (``ge.proto``) as protobuf classes, whole.

Field numbers follow ge_ir.proto of the open-sourced GE. Text is kept as bytes, since files
hold names that are not UTF-8, and maps as lists of their entries, which is the same on the
wire and keeps their order. Serialized graphs of any age fit: what they have not is empty.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "divergraph.conversion.ge"
# message: "number name type"; * is a repeated field, | one of the oneof `value`.
_MESSAGES = {
    "ModelDef": "1 name bytes, 2 version uint32, 3 custom_version bytes, 7 graph* GraphDef, "
    "11 attr* Entry",
    "GraphDef": "1 name bytes, 4 input* bytes, 5 output* bytes, 6 op* OpDef, 11 attr* Entry",
    "OpDef": "1 name bytes, 2 type bytes, 5 input* bytes, 10 attr* Entry, "
    "20 has_out_attr bool, 21 id int64, 22 stream_id int64, 23 input_name* bytes, "
    "24 src_name* bytes, 25 src_index* int64, 26 dst_name* bytes, 27 dst_index* int64, "
    "28 input_i* int64, 29 output_i* int64, 30 workspace* int64, 31 workspace_bytes* int64, "
    "32 is_input_const* bool, 33 input_desc* TensorDescriptor, "
    "34 output_desc* TensorDescriptor, 35 subgraph_name* bytes",
    "TensorDescriptor": "1 name bytes, 2 dtype DataType, 3 shape ShapeDef, 4 layout bytes, "
    "5 attr* Entry, 9 has_out_attr bool, 10 size int64, 11 weight_size int64, "
    "12 reuse_input bool, 13 output_tensor bool, 14 device_type bytes, 15 input_tensor bool, "
    "16 real_dim_cnt int64, 17 reuse_input_index int64, 18 data_offset int64, "
    "19 cmps_size int64, 20 cmps_tab bytes, 21 cmps_tab_offset int64",
    "ShapeDef": "1 dim* int64",
    "TensorDef": "1 desc TensorDescriptor, 2 data bytes",
    "NamedAttrs": "1 name bytes, 2 attr* Entry",
    "Entry": "1 key bytes, 2 value AttrDef",
    "AttrDef": "1 list| ListValue, 2 s| bytes, 3 i| int64, 4 f| float, 5 b| bool, 7 bt| bytes, "
    "10 func| NamedAttrs, 11 td| TensorDescriptor, 12 t| TensorDef, 13 g| GraphDef, "
    "14 list_list_int| ListListInt, 15 dt| int64, 16 list_list_float| ListListFloat, "
    "17 expression| bytes",
    "ListValue": "2 s* bytes, 3 i* int64, 4 f* float, 5 b* bool, 7 bt* bytes, "
    "8 td* TensorDescriptor, 9 t* TensorDef, 10 g* GraphDef, 11 na* NamedAttrs, 12 dt* int64, "
    "20 val_type ListValueType",
    "ListListInt": "1 list_list_i* ListInt",
    "ListInt": "1 list_i* int64",
    "ListListFloat": "1 list_list_f* ListFloat",
    "ListFloat": "1 list_f* float",
}
_TYPES = (
    "UNDEFINED FLOAT FLOAT16 INT8 UINT8 INT16 UINT16 INT32 INT64 UINT32 UINT64 BOOL DOUBLE STRING "
    "DUAL_SUB_INT8 DUAL_SUB_UINT8 COMPLEX64 COMPLEX128 QINT8 QINT16 QINT32 QUINT8 QUINT16 "
    "RESOURCE STRING_REF DUAL VARIANT BF16 INT4 UINT1 INT2 UINT2 COMPLEX32 HIFLOAT8 FLOAT8_E5M2 "
    "FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT6_E3M2 FLOAT6_E2M3 FLOAT4_E2M1 FLOAT4_E1M2 HIFLOAT4"
)
_LIST_TYPES = "NONE STRING INT FLOAT BOOL BYTES TENSOR_DESC TENSOR GRAPH NAMED_ATTRS DATA_TYPE"
_ENUMS = {
    "DataType": [f"DT_{name}" for name in _TYPES.split()],
    "ListValueType": [f"VT_LIST_{name}" for name in _LIST_TYPES.split()],
}
_SCALARS = ("bytes", "int64", "uint32", "bool", "float")
LIST_TYPES = {
    "s": "VT_LIST_STRING",
    "i": "VT_LIST_INT",
    "f": "VT_LIST_FLOAT",
    "b": "VT_LIST_BOOL",
}


@cache
def model_class() -> Any:
    """The class ``ModelDef``."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelDef"))


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="divergraph/convert/ge.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, words in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, word in enumerate(words):
            enum.value.add(name=word, number=number)
    for name, fields in _MESSAGES.items():
        _describe(file.message_type.add(name=name), fields)
    return file


def _describe(message: descriptor_pb2.DescriptorProto, fields: str) -> None:
    proto = descriptor_pb2.FieldDescriptorProto
    for text in fields.split(", "):
        number, name, kind = text.split()
        field = message.field.add(name=name.rstrip("*|"), number=int(number))
        field.label = proto.LABEL_REPEATED if name.endswith("*") else proto.LABEL_OPTIONAL
        if kind in _SCALARS:
            field.type = proto.Type.Value(f"TYPE_{kind.upper()}")
        else:
            field.type = proto.TYPE_ENUM if kind in _ENUMS else proto.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{kind}"
        if name.endswith("|"):
            if not message.oneof_decl:
                message.oneof_decl.add(name="value")
            field.oneof_index = 0
