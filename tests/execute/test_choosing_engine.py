"""Which executor runs a model, where several could."""

import pytest

from divergraph.execute.installed import ENGINE_VARIABLE, factory_for
from graphstore.errors import InputError
from graphstore.model import Framework, GraphKind, ModelGraph


def of_framework(framework: Framework) -> ModelGraph:
    return ModelGraph("m", GraphKind.ORIGINAL, framework, "", ())


def test_the_user_can_prefer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    step = of_framework(Framework.TENSORFLOW)
    for name in ("tensorflow", "tensorflow_as_onnx"):
        monkeypatch.setenv(ENGINE_VARIABLE, name)
        found = factory_for(step)
        assert found is not None
        assert found.name == name


def test_a_preference_for_another_framework_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "tensorflow")
    found = factory_for(of_framework(Framework.ONNX))
    assert found is not None
    assert found.name == "onnxruntime"


def test_a_name_that_runs_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, "tensorrt")
    with pytest.raises(InputError, match="'tensorrt', which runs nothing here") as error:
        factory_for(of_framework(Framework.ONNX))
    assert "tensorflow_as_onnx" in error.value.hint
