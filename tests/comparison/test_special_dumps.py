"""Dumps that hold something else than one plain file for each op, through the pipeline."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from divergraph.ask.details import op_detail
from divergraph.ask.facts import op_rows
from divergraph.comparison import CompareRequest, compare
from divergraph.comparison.dump_remarks import problem_remarks
from divergraph.present.declared_answer import answer_json
from divergraph.rootcause.options import MethodChoice
from divergraph.text.words import verdict_text
from graphstore.errors import InputError
from graphstore.model import DType, DumpTensorRef, Metric, Reason, TensorIO, Verdict
from graphstore.open_store import open_store
from importers.dumps.ascend.file import read_device_file
from importers.dumps.contract import ANY_DUMP, DumpChoice
from importers.dumps.index import DumpIndex, DumpProblem
from importers.dumps.read import read_array
from importers.proto.messages import dump_data_pb2 as pb

pytestmark = pytest.mark.thorough

HEAD = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,"
    "Nan Count,Negative Inf Count,Positive Inf Count,l2norm"
)
FAULTY = "Conv2D.LeNet_conv2_Conv2DRelu"


def run_of(lenet, side, dump=None, choice=ANY_DUMP):
    request = CompareRequest(
        lenet / "model.ckpt.meta",
        lenet / "golden",
        lenet / side / "graph",
        dump or lenet / side / "dump",
        choice=choice,
        method=MethodChoice.THRESHOLDS,  # what is asked here is what was read
    )
    return compare(request)


def step_folder(dump):
    (folder,) = dump.glob("*/*/*/*/*")
    return folder


def statistics_line(ref: DumpTensorRef) -> str:
    """What the device writes of a tensor, padding of its layout included."""
    values = read_array(ref).astype(np.float64).reshape(-1)
    shape = "x".join(map(str, ref.shape or ())) or "-"
    numbers = (values.max(), values.min(), values.mean(), values.size, 0, 0, 0)
    said = ",".join(f"{number:.7g}" for number in (*numbers, np.linalg.norm(values)))
    return f"{ref.io.title()},{ref.port},{ref.nbytes},DT_{ref.dtype},{ref.layout},{shape},{said}"


@pytest.fixture
def as_statistics(lenet, tmp_path):
    """Turns a dump of values into the statistics the device would have written."""

    def turn(side):
        dump = tmp_path / side
        shutil.copytree(lenet / side / "dump", dump)
        for path in step_folder(dump).iterdir():
            refs = [ref for ref in read_device_file(path).tensors if ref.nbytes]
            lines = [HEAD, *map(statistics_line, refs)]
            path.with_name(f"{path.name}.csv").write_text("\n".join(lines) + "\n")
            path.unlink()
        return dump

    return turn


@pytest.mark.parametrize("side", ["npu_clean", "npu_fault"])
def test_statistics_never_say_more_than_the_values(lenet, as_statistics, side):
    whole = {(item.op, item.io, item.port): item for item in run_of(lenet, side).comparisons}
    data = run_of(lenet, side, as_statistics(side))
    compared = [item for item in data.comparisons if item.compared]
    assert len(compared) > 100
    for item in compared:
        true = whole[item.op, item.io, item.port]
        assert item.detail.startswith("by statistics only")
        if item.over:
            assert true.over, item.op
        bound, error = item.metrics, true.metrics
        if true.device_dtype is not DType.BOOL:
            assert bound.relative_euclidean_distance <= error.relative_euclidean_distance + 1e-4
        assert np.isnan(bound.cosine_similarity)
    (said,) = [text for text in data.run.warnings if "by statistics only" in text]
    assert said.startswith(f"{len(compared)} tensors")


def test_statistics_on_the_golden_side_will_do_too(lenet, as_statistics):
    dump = as_statistics("npu_clean")
    data = compare(
        CompareRequest(
            lenet / "npu_clean" / "graph",
            dump,
            lenet / "npu_fault" / "graph",
            lenet / "npu_fault" / "dump",
            method=MethodChoice.THRESHOLDS,
        )
    )
    compared = [item for item in data.comparisons if item.compared]
    assert compared
    assert all("lower bounds" in item.detail for item in compared)
    assert Metric.COSINE_SIMILARITY not in {m for item in compared for m in item.failed}


def write_debug(path, task, stream, status):
    record = bytearray(2048)
    struct.pack_into("<6Q", record, 256, 1, stream, task, 0, 0, 0)
    struct.pack_into("<3Q", record, 1024, 0, 0, status)
    header = pb.DumpData(version=b"2.0")
    entry = header.output.add(data_type=4, format=2, size=len(record))
    entry.shape.dim.append(len(record))
    raw = header.SerializeToString()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + record)


def test_a_recorded_overflow_is_told_of_its_op_also_by_a_store(lenet, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(lenet / "npu_fault" / "dump", dump)
    folder = step_folder(dump)
    (path,) = folder.glob(f"{FAULTY}.*")
    _, _, task, stream, stamp = path.name.split(".")
    write_debug(
        folder / f"Opdebug.Node_OpDebug.99.5.{int(stamp) + 1}", int(task), int(stream), 0x120
    )
    data = run_of(lenet, "npu_fault", dump)
    said = "AI Core: floating point, float32 or int32 to float16 (status 0x120)"
    assert f"device dump: overflow in op LeNet/conv2/Conv2DRelu, {said}" in data.run.warnings
    marked = [item for item in data.comparisons if "overflow recorded" in item.detail]
    assert {item.op for item in marked} == {"LeNet/conv2/Conv2DRelu"}
    for item in marked:
        assert (item.io, item.overflow) == (TensorIO.OUTPUT, True)
        assert item.compared
        assert said in item.detail
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(data)
        rows = {row.id: row for row in op_rows(store, "run")}
        detail = op_detail(store, "run", "LeNet/conv2/Conv2DRelu")
    said = f"overflow recorded by the device: {said}"
    assert answer_json(rows["LeNet/conv2/Conv2DRelu"])["detail"] == said
    assert detail.explanation.endswith(said)
    assert detail.outputs[0].comparison.overflow is True
    assert rows["LeNet/conv1/Conv2DRelu"].detail == ""


def test_a_recorded_overflow_stands_before_the_verdict(lenet, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(lenet / "npu_clean" / "dump", dump)
    write_debug(step_folder(dump) / "Opdebug.Node_OpDebug.99.5.1795727148374619", 5, 3, 0x20)
    said = "the device recorded an overflow in op learning_rate_schedule/Greater (AI Core: "
    assert verdict_text(run_of(lenet, "npu_clean", dump).run).startswith(said)


def test_a_recorded_overflow_is_told_where_nothing_else_was_dumped(lenet, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(lenet / "npu_clean" / "dump", dump)
    folder = step_folder(dump)
    for path in folder.iterdir():
        path.unlink()
    write_debug(folder / "Opdebug.Node_OpDebug.99.5.1795727148374619", 5, 3, 0x120)
    run = run_of(lenet, "npu_clean", dump).run
    assert run.verdict is Verdict.NOT_COMPARED
    assert run.analysis.doubt == (
        "the device recorded an overflow in task 5 of stream 3 (AI Core: floating point, float32 "
        "or int32 to float16 (status 0x120))"
    )


def test_an_older_dump_of_an_op_is_passed_over_and_said(lenet, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(lenet / "npu_clean" / "dump", dump)
    (path,) = step_folder(dump).glob(f"{FAULTY}.*")
    head, _, stamp = path.name.rpartition(".")
    shutil.copy(path, path.with_name(f"{head}.{int(stamp) - 5}"))
    data = run_of(lenet, "npu_clean", dump)
    (said,) = [text for text in data.run.warnings if "passed over" in text]
    assert said.startswith("device dump: 1 older file passed over")
    assert data.run.counts == run_of(lenet, "npu_clean").run.counts


@pytest.mark.slow
def test_a_step_is_chosen_or_what_there_is_is_listed(lenet, tmp_path):
    dump = tmp_path / "dump"
    shutil.copytree(lenet / "npu_clean" / "dump", dump)
    folder = step_folder(dump)
    (fault,) = [step_folder(lenet / "npu_fault" / "dump")]
    shutil.copytree(fault, folder.with_name("7"))
    assert run_of(lenet, "npu_clean", dump).origins == run_of(lenet, "npu_clean").origins
    chosen = run_of(lenet, "npu_clean", dump, DumpChoice(step=7))
    assert chosen.origins == run_of(lenet, "npu_fault").origins
    with pytest.raises(InputError, match="--step is one of 0, 7"):
        run_of(lenet, "npu_clean", dump, DumpChoice(step=3))


def test_a_choice_that_chooses_nothing_is_refused(lenet):
    folder = step_folder(lenet / "npu_clean" / "dump")
    with pytest.raises(InputError, match="--step 0: neither dump has a choice of that kind"):
        run_of(lenet, "npu_clean", folder, DumpChoice(step=0))


@pytest.mark.parametrize(("files", "lines"), [(3, 3), (4, 1)])
def test_many_files_with_the_same_trouble_take_one_line(files, lines):
    problems = [
        DumpProblem(
            Path(f"c{n}.npy"), f"c{n}", TensorIO.OUTPUT, 0, Reason.UNREADABLE_DUMP, "a pipe"
        )
        for n in range(files)
    ]
    said = list(problem_remarks("device", DumpIndex(problems=tuple(problems))))
    assert len(said) == lines
    assert said[0].endswith(": a pipe")
    assert lines > 1 or said == ["device dump: 4 files (c0, c1, c2, …): a pipe"]
