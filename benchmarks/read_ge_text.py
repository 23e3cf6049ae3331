"""How fast a GE text graph is read, beside protobuf's own text parser in the same run.

    python benchmarks/read_ge_text.py [MEGABYTES]

Prints MB of text per second of processor time: the reader alone, the whole import, and
``text_format`` (on a tenth of the text, it is that slow) and the peak memory of the import.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from importers.ge_proto.importer import read_ge_text
from importers.proto.text_reader import TextReader
from importers.source import mapped

_SCHEMA = Path(__file__).parents[1] / "tests" / "importers" / "ge_ir.txtpb"

_DESC = """    {kind}_desc {{
      dtype: DT_FLOAT16
      shape {{
        dim: {n}
        dim: 4
        dim: 112
        dim: 112
        dim: 16
      }}
      layout: "NC1HWC0"
      attr {{
        key: "origin_format"
        value {{
          s: "NCHW"
        }}
      }}
      attr {{
        key: "origin_shape"
        value {{
          list {{
            i: {n}
            i: 64
            i: 112
            i: 112
            val_type: VT_LIST_INT
          }}
        }}
      }}
      has_out_attr: true
      size: 1605664
      device_type: "NPU"
    }}
"""
_ATTR = """    attr {{
      key: "{key}"
      value {{
        {value}
      }}
    }}
"""


_BLOB = "\\000\\177E" * 60


def op_text(number: int) -> str:
    """One op of some 3 kB, shaped like those of real Build graphs."""
    names = "\n          ".join(f's: "layer{number}/part{k}"' for k in range(3))
    attrs = {
        "_datadump_original_op_names": f"list {{\n          {names}\n        }}",
        "_ge_attr_op_kernel_lib_name": 's: "AIcoreEngine"',
        "_op_slice_info": 's: "{\\"splitMaps\\": [{\\"inputList\\": [{\\"idx\\": 0}]}]}"',
        "_tbe_kernel_buffer": f'bt: "{_BLOB}"',
        "fusion_scope": f"i: {number}",
        "tvm_blockdim": "i: 2",
        "OwnerGraphIsUnknown": "b: false",
    }
    before = f'    input: "layer{number - 1}:0"\n' if number else ""
    return (
        f'  op {{\n    name: "layer{number}"\n    type: "Conv2D"\n{before}'
        + "".join(_ATTR.format(key=key, value=value) for key, value in sorted(attrs.items()))
        + f"    has_out_attr: true\n    id: {number}\n    stream_id: 3\n    output_i: 1606144\n"
        + _DESC.format(kind="input", n=number)
        + _DESC.format(kind="output", n=number)
        + "  }\n"
    )


def graph_text(megabytes: float) -> str:
    """A chain of ops of about *megabytes*."""
    count = max(1, int(megabytes * 1e6 / len(op_text(1000))))
    return 'graph {\n  name: "bench"\n' + "".join(map(op_text, range(count))) + "}\n"


def speed(size: int, work: Callable[[], object], rounds: int = 3) -> float:
    """The best of some rounds, in MB per second of processor time."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return size / 1e6 / best


def read_only(path: Path) -> int:
    """Read every op block and build nothing."""
    with mapped(path) as buffer:
        return sum(1 for _ in TextReader(buffer, path).events(b"graph"))


def parse_with_protobuf(text: str) -> object:
    """The same text through ``text_format``."""
    pool = descriptor_pool.DescriptorPool()
    schema = _SCHEMA.read_text(encoding="utf-8")
    pool.Add(text_format.Parse(schema, descriptor_pb2.FileDescriptorProto()))
    kind = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("divergraph.test.ge.ModelDef")
    )
    return text_format.Parse(text, kind(), allow_unknown_field=True)


def peak_growth(path: Path) -> float:
    """MB that importing *path* adds to a fresh interpreter with the importer loaded."""
    # VmHWM, since ru_maxrss of a child starts at what its parent had.
    code = (
        "import re, sys; from pathlib import Path\n"
        "from importers.ge_proto.importer import read_ge_text\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "before = peak(); read_ge_text(Path(sys.argv[1])); print((peak() - before) / 1024)"
    )
    command = [sys.executable, "-c", code, str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ge_proto_00000001_Build.txt"
        path.write_text(graph_text(megabytes), encoding="utf-8")
        size = path.stat().st_size
        reader = speed(size, lambda: read_only(path))
        whole = speed(size, lambda: read_ge_text(path))
        memory = peak_growth(path)
        small = graph_text(megabytes / 10)
        official = speed(len(small), lambda: parse_with_protobuf(small), rounds=1)
    print(f"text           {size / 1e6:8.1f} MB")
    print(f"reader         {reader:8.1f} MB/s   {reader / official:5.1f} x text_format")
    print(f"whole import   {whole:8.1f} MB/s   {whole / official:5.1f} x text_format")
    print(f"text_format    {official:8.1f} MB/s")
    print(f"peak memory    {memory:8.1f} MB more than the bare interpreter, mapped file included")


if __name__ == "__main__":
    main()
