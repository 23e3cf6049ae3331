"""Models as offline files hold them: ops, weights, compressed names of attributes."""

from __future__ import annotations

FLOAT16 = 2


def const(name, stored, layout, origin=None, offset=0, size=None, dtype=FLOAT16, data=b""):
    desc = {
        "dtype": dtype,
        "shape": {"dim": list(stored)},
        "layout": layout,
        "data_offset": offset,
        "weight_size": size or 0,
    }
    if origin:
        shape, form = origin
        desc["attr"] = {
            "origin_shape": {"list": {"i": list(shape), "val_type": 2}},
            "origin_format": {"s": form.encode()},
        }
    return {
        "name": name,
        "type": "Const",
        "attr": {"value": {"t": {"desc": desc, "data": data}}},
        "output_desc": [{"dtype": dtype, "shape": {"dim": list(stored)}, "layout": layout}],
    }


def model(ge_model, *ops, name="g", **attrs):
    return ge_model(graph=[{"name": name, "op": list(ops)}], attr=attrs).SerializeToString()


ABS = {"name": "abs", "type": "Abs", "input": ["x:0"]}
DATA = {"name": "x", "type": "Data", "input": [""]}


def code(index):
    digits = []
    while True:
        index, digit = divmod(index, 127)
        digits.append(digit + 1)
        if not index:
            return "\0" + bytes(digits).decode()


NAMES = [f"key{number}" for number in range(300)]
NAMES[2] = "_datadump_original_op_names"
NAMES[129] = "_datadump_origin_name"
NAMES[130] = "_parent_node_index"


def compressed(names, texts, flags):
    return {
        "om_compress_version": {"i": 1},
        "attr_name_enum": {"list": {"s": [name.encode() for name in names]}},
        "attr_value_enum": {"list": {"s": texts}},
        "attrs_use_string_value": {"list": {"b": flags}},
    }
