"""A baseline as a file to keep beside the model: what a run said of each output, one on a line.

A continuous build has no store of older runs; this file stands for one, and its changes can be read
in a review. What is accepted takes the place of what the baseline said, with who, when and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from divergraph.ask.gate.judged_outputs import JudgedOutput
from divergraph.files.whole_files import whole_file
from graphstore.errors import InputError
from graphstore.model import Guilt, Method, Run, TensorRef

_VERSION = 1
_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_HINT = "rewrite it: divergraph gate RUN --baseline FILE --update"


@dataclass(frozen=True, slots=True)
class AcceptedOutput:
    """That somebody takes what an output is now for right."""

    golden: str
    reason: str
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class GateBaseline:
    """What stands in the file; ``suspect`` is the suspicion from which its run called ops suspect.

    ``name`` is the run's name.
    """

    name: str
    created: str
    method: Method
    suspect: float
    outputs: tuple[JudgedOutput, ...]
    accepted: tuple[AcceptedOutput, ...] = ()

    @classmethod
    def of(cls, run: Run, outputs: Iterable[JudgedOutput]) -> GateBaseline:
        """The baseline that *run* makes."""
        sorted_outputs = tuple(sorted(outputs, key=lambda one: (str(one.golden), one.op)))
        return cls(run.name, run.created, run.method, run.analysis.suspect, sorted_outputs)

    def accepting(
        self, new_outputs: Iterable[JudgedOutput], accepted: Iterable[AcceptedOutput]
    ) -> GateBaseline:
        """The same with outputs as they are now."""
        now = tuple(new_outputs)
        replaced = {one.golden for one in now}
        unchanged = (one for one in self.outputs if one.golden not in replaced)
        outputs = tuple(sorted((*unchanged, *now), key=lambda one: (str(one.golden), one.op)))
        return replace(self, outputs=outputs, accepted=(*self.accepted, *accepted))

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            InputError: it cannot be written.
        """
        head = {
            "divergraph_baseline": _VERSION,
            "run": self.name,
            "created": self.created,
            "method": self.method.value,
            "suspect": self.suspect,
            "accepted": [
                {"golden": one.golden, "reason": one.reason, "by": one.by, "at": one.at}
                for one in self.accepted
            ],
        }
        lines = ",\n".join("  " + json.dumps(_entry(one)) for one in self.outputs)
        text = json.dumps(head, indent=1)[:-2] + ',\n "outputs": [\n' + lines + "\n ]\n}\n"
        with whole_file(path, "baseline") as place:
            place.write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> GateBaseline:
        """What stands in the file.

        Raises:
            InputError: there is none, or it is no such file.
        """
        try:
            document = json.loads(path.read_bytes())
            if document["divergraph_baseline"] != _VERSION:
                raise InputError(
                    f"a baseline of version {document['divergraph_baseline']}, which is not known",
                    where=str(path),
                    hint=_HINT,
                )
            return cls(
                str(document["run"]),
                str(document["created"]),
                Method(document["method"]),
                float(document["suspect"]),
                tuple(map(_output, document["outputs"])),
                tuple(AcceptedOutput(**entry) for entry in document["accepted"]),
            )
        except FileNotFoundError:
            raise InputError(
                "no such baseline: neither a file nor a run", where=str(path), hint=_HINT
            ) from None
        except OSError as error:
            raise InputError(str(error.strerror), where=str(path)) from error
        except json.JSONDecodeError as error:
            where = f"{path}, line {error.lineno}"
            raise InputError(f"no baseline: {error.msg}", where=where, hint=_HINT) from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            what = f"no baseline: {type(error).__name__}: {error}"
            raise InputError(what, where=str(path), hint=_HINT) from None


def _entry(one: JudgedOutput) -> Mapping[str, Any]:
    return {
        "golden": [one.golden.op, one.golden.port],
        "op": one.op,
        "type": one.type,
        "guilt": one.guilt.value,
        "error": _plain(one.error),
        "weight": [one.weight[0], _plain(one.weight[1])],
        "group": sorted(one.group),
        "split": one.by_split,
    }


def _output(fields: Mapping[str, Any]) -> JudgedOutput:
    (op, port), (rank, weight) = fields["golden"], fields["weight"]
    return JudgedOutput(
        str(fields["op"]),
        str(fields["type"]),
        TensorRef(str(op), int(port)),
        Guilt(fields["guilt"]),
        _value(fields["error"]),
        (int(rank), _value(weight) or 0.0),
        frozenset(map(str, fields["group"])),
        bool(fields["split"]),
    )


def _plain(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _value(number: float | str | None) -> float | None:
    return _WORDS[number] if isinstance(number, str) else None if number is None else float(number)
