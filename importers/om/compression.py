"""Undo GE's ``om_compress``: attribute names and texts of a model replaced by numbers.

Source: GE's base/common/model/model_compress_manager.cc and
graph_metadef/graph/utils/enum_attr_utils.cc. The tables lie in attributes of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from importers.proto.values import Fields, Value, message, text, truth, whole

_CODE = "\0"
_BASE = 127
_TABLES = {"om_compress_version", "attr_name_enum", "attr_value_enum", "attrs_use_string_value"}


@dataclass(frozen=True, slots=True)
class Tables:
    """What the codes of a model stand for; *root* are those of the file's first model.

    A later model shares ops with the first one, which was compressed before it: what its
    own tables give may again be a code of *root*.
    """

    names: tuple[str, ...] = ()
    texts: tuple[Value, ...] = ()
    is_text: tuple[bool, ...] = ()
    root: Tables | None = None

    def op(self, fields: Fields) -> Fields:
        """The fields of an op, or of a descriptor in it, with all attributes as named."""
        if not self.names:
            return fields
        return [(name, self._named(name, value)) for name, value in fields]

    def _named(self, name: bytes, value: Value) -> Value:
        if name == b"attr":
            return self._entry(message(value))
        return self.op(message(value)) if name in (b"input_desc", b"output_desc") else value

    def _entry(self, fields: Fields) -> Fields:
        key: str = next((text(value) for name, value in fields if name == b"key"), "")
        if not key.startswith(_CODE):
            return fields
        values: list[Value] = [value for name, value in fields if name == b"value"]
        content: Fields = message(values[-1]) if values else []
        tables: Tables | None = self
        while tables is not None and key.startswith(_CODE):
            index = _index(key)
            if index >= len(tables.names):
                raise ValueError(f"attribute code {index} of {len(tables.names)}")
            key = tables.names[index]
            if index < len(tables.is_text) and tables.is_text[index]:
                content = tables._texts(content)
            tables = tables.root
        return [(b"key", key), (b"value", content)]

    def _texts(self, content: Fields) -> Fields:
        """Numbers of texts as the texts: of a single value, or of each in a list."""
        return [
            (b"s", self._text(value))
            if name == b"i"
            else (name, self._texts(message(value)) if name == b"list" else value)
            for name, value in content
        ]

    def _text(self, value: Value) -> Value:
        index = whole(value)
        if not 0 <= index < len(self.texts):
            raise ValueError(f"text {index} of {len(self.texts)}")
        return self.texts[index]


def read_tables(attrs: list[Fields], root: Tables | None) -> Tables:
    """The tables in the attributes of a model; empty ones if it is not compressed.

    Raises:
        ValueError: they are damaged, or of a way of compression nobody here knows.
    """
    fields_by_key: dict[str, Fields] = {}
    for entry in attrs:
        key: Value = next((value for name, value in entry if name == b"key"), "")
        if isinstance(key, str) and key in _TABLES:
            fields_by_key[key] = next(
                (message(value) for name, value in entry if name == b"value"), []
            )
    version = next((whole(value) for _, value in fields_by_key.get("om_compress_version", ())), 0)
    if version == 0:
        return Tables(root=root)
    if version != 1:
        raise ValueError(f"attributes compressed in way {version}; only way 1 is known")
    return Tables(
        names=tuple(text(value) for value in _listed(fields_by_key, "attr_name_enum", b"s")),
        texts=tuple(_listed(fields_by_key, "attr_value_enum", b"s")),
        is_text=tuple(
            truth(value) for value in _listed(fields_by_key, "attrs_use_string_value", b"b")
        ),
        root=root,
    )


def _listed(fields_by_key: dict[str, Fields], key: str, kind: bytes) -> list[Value]:
    return [
        item
        for name, content in fields_by_key.get(key, ())
        if name == b"list"
        for item_kind, item in message(content)
        if item_kind == kind
    ]


def _index(key: str) -> int:
    """The number behind a code: digits to the base 127, the lowest first, each plus one."""
    digits = key[1:].encode("utf-8", "surrogatepass")
    if not 1 <= len(digits) <= 8 or min(digits) == 0 or max(digits) > _BASE:
        raise ValueError(f"{key[:20]!r} is not an attribute code")
    return sum((digit - 1) * _BASE**place for place, digit in enumerate(digits))
