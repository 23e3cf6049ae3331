"""Messages of GE as protobuf knows them: the oracle of the text reader's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format


@pytest.fixture(scope="session")
def ge_model() -> Any:
    """The message class ``ModelDef``."""
    text = (Path(__file__).parent / "ge_ir.txtpb").read_text(encoding="utf-8")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    found = pool.FindMessageTypeByName("divergraph.test.ge.ModelDef")
    return message_factory.GetMessageClass(found)
