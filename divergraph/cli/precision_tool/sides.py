"""The comparison a data folder is for, and the dump files of its ops."""

from __future__ import annotations

from pathlib import Path

from divergraph.cli.precision_tool.place import ToolPlace
from divergraph.cli.say import say_note
from graphstore.errors import InputError
from importers.dumps.ascend.index import is_device_dump
from importers.dumps.names import written


def comparison(
    place: ToolPlace,
    *,
    device: Path | None = None,
    device_dump: Path | None = None,
    golden_dump: Path | None = None,
) -> int:
    """Compare the folder's sides, or those given; where there is a second run on the device and no
    golden side, both runs with each other.

    Raises:
        InputError: something is missing; says what.
    """
    folder = place.folder
    sides = {
        "--golden": folder.golden_graph,
        "--golden-dump": golden_dump or folder.golden_dump,
        "--device": device or folder.device.graph,
        "--device-dump": device_dump or folder.device.dump,
    }
    if None not in sides.values():
        words = [word for side in sides.items() for word in side]
        return place.ours("compare", *words, "--run", place.run_name, "--replace")
    dumps = [device.dump for device in folder.devices if device.dump is not None]
    if len(dumps) > 1 and sides["--device"] is not None and folder.golden_dump is None:
        say_note("there is no golden side: the two runs on the device are compared")
        return place.ours(
            "consistency", dumps[0], "--graph", sides["--device"], "--against", dumps[1]
        )
    raise InputError(
        f"to compare, there is still missing: {', '.join(folder.missing)}", where=str(place.data)
    )


def dump_files(place: ToolPlace, name: str | None) -> list[Path]:
    """The dump files called *name*, those of the op *name*, or the folder of all.

    Raises:
        InputError: there is none.
    """
    dump = place.folder.device.dump if name is None or not Path(name).exists() else Path(name)
    if dump is None:
        raise InputError("there is no dump of the device here", where=str(place.data))
    if name is None:
        return [_leaf(dump)]
    if Path(name).exists():
        return [Path(name)]
    paths = [path for path in sorted(dump.rglob("*")) if path.is_file()]
    exact = [path for path in paths if path.name == name]
    named = [path for path in paths if f".{written(name)}." in path.name]
    of_op = [path for path in named if is_device_dump(path.name, {})] or named
    if not (exact or of_op):
        raise InputError("no dump file of this op", where=name, hint="`ls -n` finds its name")
    return exact or of_op


def _leaf(folder: Path) -> Path:
    """The folder with the files, below levels of one folder each."""
    inner = [path for path in folder.iterdir() if path.is_dir()]
    return _leaf(inner[0]) if len(inner) == 1 else folder
