"""Result tables of other tools, opened as runs: judged, browsed, judged again."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing

import pytest

from divergraph.api.runs.opened_results import open_result
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import Metric, OpState, Reason, Verdict
from importers.results.table import kind_of

MSACCUCMP = """\
Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow,\
CosineSimilarity,MaxAbsoluteError,AccumulatedRelativeError,RelativeEuclideanDistance,\
KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,RootMeanSquareError,\
MaxRelativeError,MeanRelativeError,CompareFailReason
0,Data,x,NaN,NaN,x,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,NaN,\
There is no dump file for my output operator "x".
1,Conv2D,conv,float16,0,"conv,relu",float32,conv:output:0,"[20,30]",NO,1.000000,0.000968,0.35,0.000209,0.0,\
"(0.026;1.019),(0.026;1.019)",0.000143,0.000213,0.000478,0.000177,
2,MatMulV2,dense,float16,0,dense,float32,dense:output:0,"[20,30]",YES,0.951390,1.436292,773.5,0.781296,0.0,\
"(0.372;0.708),(0.081;0.472)",0.311511,0.374411,19109.4,4.931260,
3,Cast,trans_Cast_1,float16,0,*,float32,trans_Cast_1:output:0,"[20,30]",NO,0.951390,1.436292,773.5,0.781296,0.0,\
"(0.372;0.708),(0.081;0.472)",0.311511,0.374411,19109.4,4.931260,
"""
MSPROBE = """\
NPU Name,Bench Name,NPU Tensor Dtype,Bench Tensor Dtype,NPU Tensor Shape,Bench Tensor Shape,Cosine,\
MaxAbsErr,Accuracy Reached or Not,Err_message
Functional.linear.0.forward.input.0,Functional.linear.0.forward.input.0,torch.float32,torch.float32,\
"[3, 2]","[3, 2]",1.0,0.0,Yes,
Functional.linear.0.forward.output.0,Functional.linear.0.forward.output.0,torch.float32,\
torch.float32,"[3, 3]","[3, 3]",0.2,4.5,No,
Functional.relu.0.forward.output.0,N/A,torch.float32,N/A,"[3, 3]",N/A,N/A,\
N/A,N/A,No bench data matched.
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "result_1.csv"
    path.write_text(MSACCUCMP, newline="")
    return path


def test_the_first_row_over_a_limit_is_the_origin(table):
    run = open_result(table)
    assert run.verdict is Verdict.DIVERGED
    assert [origin.op for origin in run.data.origins] == ["dense"]
    compared = {item.op: item for item in run.data.comparisons}
    assert compared["dense"].overflow is True
    assert compared["dense"].metrics.value(Metric.ROOT_MEAN_SQUARE_ERROR) == 0.374411
    assert compared["x"].reason is Reason.NO_DEVICE_DUMP
    assert run.data.device.op_index()["conv"].original_names == ("conv", "relu")
    assert "one after the other" in run.data.run.warnings[0]


def test_the_graph_of_the_device_says_where_errors_come_from(table, tmp_path):
    graph = tmp_path / "ge_proto_00001_Build.txt"
    ops = "".join(
        f'op {{ name: "{name}" type: "{kind}" {given} output_desc {{ name: "y" }} }}\n'
        for name, kind, given in (
            ("x", "Data", ""),
            ("conv", "Conv2D", 'input: "x:0"'),
            ("dense", "MatMulV2", 'input: "x:0"'),
            ("trans_Cast_1", "Cast", 'input: "conv:0"'),
            ("unlisted", "Abs", 'input: "conv:0"'),
        )
    )
    graph.write_text(f'graph {{ name: "g"\n{ops}}}\n')
    found = open_result(table, device=graph)
    assert [origin.op for origin in found.data.origins] == ["dense", "trans_Cast_1"]
    unlisted = next(each for each in found.data.comparisons if each.op == "unlisted")
    assert "no tensor of it" in unlisted.detail
    graph.write_text('graph { name: "g"\nop { name: "other" type: "Abs" }\n}\n')
    with pytest.raises(InputError, match="no op of the table"):
        open_result(table, device=graph)


def test_rows_of_msprobe_are_calls(tmp_path):
    path = tmp_path / "compare_result_1.csv"
    path.write_text(MSPROBE)
    run = open_result(path)
    assert [origin.op for origin in run.data.origins] == ["Functional.linear.0.forward"]
    assert run.data.device.op_index()["Functional.linear.0.forward"].type == "linear"
    found = {(item.op, item.io.value): item for item in run.data.comparisons}
    assert found["Functional.linear.0.forward", "output"].detail == "msprobe: No"
    assert not found["Functional.relu.0.forward", "output"].compared


def test_statistics_alone_are_no_metrics(tmp_path):
    path = tmp_path / "compare_result_1.csv"
    path.write_text(
        "NPU Name,Bench Name,NPU Dtype,Max diff,MaxRelativeErr,Result,Err_message\n"
        "Functional.relu.0.forward.output.0,Functional.relu.0.forward.output.0,torch.float32,"
        "0.5,50%,Warning,[]\n"
    )
    (found,) = open_result(path).data.comparisons
    assert found.reason is Reason.STATISTICS_ONLY
    assert found.detail == "statistics only: Max diff 0.5, Result Warning"


SHARED = "torch.float32,torch.float32"
CALL = "Tensor.__matmul__.3.forward.output.0"
GRAD = "Module.fc.Linear.parameters_grad.0"


def opened(tmp_path, *lines):
    path = tmp_path / "compare_result_1.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return open_result(path)


def test_the_distance_of_msprobe_counts_over_the_golden_norm(tmp_path):
    run = opened(
        tmp_path,
        "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Cosine,"
        "EucDist,MaxAbsErr,Bench l2norm,Result",
        f'{CALL},{CALL},{SHARED},"[4, 4]","[4, 4]",1.0,3.0,1.5,10.0,pass',
        f"{CALL[:-8]}input.1,{CALL[:-8]}input.1,N/A,N/A,N/A,N/A,unsupported,unsupported,"
        "unsupported,None,pass",
        f'{GRAD}.bias,{GRAD}.bias,{SHARED},"[4]","[4]",1.0,0.0,0.0,1.0,pass',
        f'{GRAD}.weight,{GRAD}.weight,{SHARED},"[4, 4]","[4, 4]",1.0,0.0,0.0,1.0,pass',
    )
    assert [origin.op for origin in run.data.origins] == ["Tensor.__matmul__.3.forward"]
    first, *others = run.data.comparisons
    assert first.metrics.value(Metric.RELATIVE_EUCLIDEAN_DISTANCE) == pytest.approx(0.3)
    assert first.metrics.value(Metric.ROOT_MEAN_SQUARE_ERROR) == pytest.approx(0.75)
    assert [(item.op, item.port) for item in others] == [(GRAD, 0), (GRAD, 1)]
    assert run.data.device.op_index()[GRAD].type == "Linear.parameters_grad"


def test_statistics_of_both_sides_are_bounds(tmp_path):
    run = opened(
        tmp_path,
        "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Max diff,"
        "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm,Result",
        f'{CALL},{CALL},{SHARED},"[4, 4]","[4, 4]",3,13,-1,0,13,10,-1,0,10,pass',
    )
    (found,) = run.data.comparisons
    assert found.metrics.value(Metric.RELATIVE_EUCLIDEAN_DISTANCE) == pytest.approx(0.3)
    assert "lower bounds" in found.detail
    assert run.verdict is Verdict.DIVERGED


@pytest.mark.parametrize(
    ("checksum", "verdict"), [("1f", Verdict.CLEAN), ("2f", Verdict.UNDECIDED)]
)
def test_checksums_tell_equal_tensors_from_others(tmp_path, checksum, verdict):
    run = opened(
        tmp_path,
        "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,NPU MD5,"
        "BENCH MD5,Result",
        f'{GRAD},{GRAD},{SHARED},"[4]","[4]",1f,1f,pass',
        f'{CALL},{CALL},{SHARED},"[4, 4]","[4, 4]",1f,{checksum},Different',
    )
    assert run.verdict is verdict
    assert ("checksums differ of 1 tensor" in run.record.analysis.doubt) == (checksum == "2f")


def test_a_workbook_is_read_as_its_first_sheet_of_results(tmp_path):
    rows = [
        line.split(";") for line in ("NPU Name;Bench Name;Cosine", "a.0.output.0;a.0.output.0;0.1")
    ]
    cells = "".join(
        f'<row r="{r}">'
        + "".join(
            f'<c r="{"ABC"[c]}{r}" t="inlineStr"><is><t>{text}</t></is></c>'
            for c, text in enumerate(row)
        )
        + "</row>"
        for r, row in enumerate(rows, 1)
    )
    path = tmp_path / "compare_result.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        rich = cells.replace("<t>NPU Name</t>", "<r><t>NPU </t></r><r><t>Name</t></r>")
        for number, content in enumerate(('<row><c t="str"><v>notes</v></c></row>', rich), 1):
            book.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f"<worksheet><sheetData>{content}</sheetData></worksheet>",
            )
    assert open_result(path).verdict is Verdict.DIVERGED
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/worksheets/sheet1.xml", '<!DOCTYPE a [<!ENTITY b "c">]><worksheet/>')
    with pytest.raises(ImportFormatError, match="document type"):
        open_result(path)


def test_limits_can_be_changed_on_a_run_without_its_files(table, tmp_path):
    run = open_result(table, store=tmp_path / "store", run="r")
    limits = tmp_path / "limits.toml"
    limits.write_text(
        "[fail]\ncosine_similarity = 0.5\nrelative_euclidean_distance = 2.0\nworst_error = 1e9\n"
    )
    again = run.analyse(thresholds=limits)
    assert again.verdict is not Verdict.DIVERGED
    assert OpState.ORIGIN not in again.data.states.values()
    assert again.data.run.thresholds["cosine_similarity"] == 0.5
    with pytest.raises(InputError, match="does not say where") as refused:
        run.analyse()
    assert "result_1.csv" in (refused.value.hint or "")


TENSOR = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": "[2, 4]", "Max": "1.0"}
GOOD = TENSOR | {"Cosine": "1.0", "MaxAbsErr": "0.0", "Result": "pass", "Err_message": "[]"}
BAD = TENSOR | {"Cosine": "0.9", "MaxAbsErr": "0.4", "Result": "error", "Err_message": "[]"}
NUMBER = {"type": "int", "value": "1", "dtype": "<class int>", "shape": "[]"}
BLOCK, LINEAR = "Module.b.Block.forward.0", "Functional.linear.0.forward"
OF_WEIGHTS = "Module.b.Block.parameters_grad"
COLUMNS = (
    "node_order node_name up_node precision_index overflow_level matched_node_link input_data "
    "output_data data_source step rank"
).split()


def node_rows(step: int = 0) -> list[tuple]:
    """What msprobe writes of one module with one call in it and its weight's gradient."""
    rows = []
    for side, out in (("NPU", BAD), ("Bench", TENSOR)):
        index = 1.0 if side == "NPU" else None
        given = {
            f"{LINEAR}.input.0": GOOD if side == "NPU" else TENSOR,
            f"{LINEAR}.input.1": NUMBER,
            f"{LINEAR}.input.2.0": GOOD if side == "NPU" else TENSOR,
            f"{LINEAR}.input.2.1": GOOD if side == "NPU" else TENSOR,
        }
        nodes = [
            (LINEAR, BLOCK, index, given, {f"{LINEAR}.output.0": out}),
            (BLOCK, "Model", 0, {f"{BLOCK}.parameters.weight": TENSOR}, {f"{BLOCK}.output.0": out}),
            (
                OF_WEIGHTS,
                "Model",
                None,
                {f"{OF_WEIGHTS}.weight": TENSOR, f"{OF_WEIGHTS}.bias": TENSOR},
                {},
            ),
            ("Model", "", None, {}, {}),
        ]
        for order, (name, around, worst, inputs, outputs) in enumerate(nodes):
            link = json.dumps(["Model", name])
            texts = (link, json.dumps(inputs), json.dumps(outputs))
            rows.append((order, name, around, worst, None, *texts, side, step, 0))
    return rows


def graph_database(path, rows, columns=COLUMNS):
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"CREATE TABLE tb_nodes ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        base.executemany(f"INSERT INTO tb_nodes VALUES ({marks})", rows)
        base.commit()
    return path


def test_a_database_of_compared_graphs_is_browsed(tmp_path):
    path = graph_database(tmp_path / "compare_1.vis.db", node_rows())
    tmp_path.chmod(0o500)
    run = open_result(path)
    tmp_path.chmod(0o700)
    assert [each.name for each in tmp_path.iterdir()] == [path.name], "nothing is written beside it"
    assert [origin.op for origin in run.data.origins] == [LINEAR]
    ops = run.data.device.op_index()
    assert {op.name: (op.type, op.subgraph) for op in ops.values()} == {
        LINEAR: ("linear", BLOCK),
        BLOCK: ("Block", ""),
        OF_WEIGHTS: (ops[OF_WEIGHTS].type, ""),
    }
    assert ops[LINEAR].attrs["precision_index"] == 1.0
    assert {op.name: op.subgraph for op in run.data.golden.ops}[LINEAR] == BLOCK
    places = [(each.op, each.io.value, each.port) for each in run.data.comparisons]
    assert places == [
        *((LINEAR, "input", 0), (LINEAR, "input", 2), (LINEAR, "input", 3)),
        (LINEAR, "output", 0),
        *(
            (BLOCK, "input", 0),
            (BLOCK, "output", 0),
            (OF_WEIGHTS, "output", 0),
            (OF_WEIGHTS, "output", 1),
        ),
    ]
    assert any(f"marks 2 calls as wrong: {LINEAR}" in said for said in run.data.run.warnings)


def test_of_many_steps_one_is_chosen(tmp_path):
    path = graph_database(tmp_path / "x.vis.db", [*node_rows(0), *node_rows(3)])
    with pytest.raises(InputError, match="2 graphs are in this database") as refused:
        open_result(path)
    assert "--step and --rank: step 0 rank 0, step 3 rank 0" in refused.value.hint
    assert open_result(path, step=3, rank=0).verdict is Verdict.DIVERGED
    with pytest.raises(InputError, match="no such step and rank"):
        open_result(path, step=4)


def test_a_graph_alone_has_no_comparison(tmp_path):
    rows = [row for row in node_rows() if row[COLUMNS.index("data_source")] == "NPU"]
    run = open_result(graph_database(tmp_path / "build_1.vis.db", rows)).data.run
    assert any("one graph and no comparison" in said for said in run.warnings)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:4096] + bytes(len(data) - 4096), "a damaged database"),
        (lambda data: data[:5000], "a damaged database"),
        (lambda data: data.replace(b'{"Model', b'"{Model'), None),
        (lambda data: data.replace(b'["Model"', b'["Model<'), "is no JSON"),
        (lambda data: data.replace(b"up_node", b"on_node"), "has no column up_node"),
        (lambda data: data.replace(b"CREATE TABLE tb_nodes", b"CREATE TABLE xb_nodes"), "damaged"),
    ],
)
def test_damaged_databases_end_in_one_sentence(tmp_path, change, said):
    path = graph_database(tmp_path / "x.vis.db", node_rows())
    path.write_bytes(change(path.read_bytes()))
    if said is None:
        open_result(path)
        return
    with pytest.raises(ImportFormatError, match=said):
        open_result(path)


def test_a_database_that_is_still_written_to_is_refused(tmp_path):
    path = graph_database(tmp_path / "x.vis.db", node_rows())
    (tmp_path / "x.vis.db-wal").write_bytes(b"rows")
    with pytest.raises(ImportFormatError, match=r"still in x\.vis\.db-wal"):
        open_result(path)


def test_the_older_json_of_compared_graphs(tmp_path):
    sides: dict[str, dict] = {"NPU": {"node": {}}, "Bench": {"node": {}}}
    for _, name, around, index, _, link, inputs, outputs, side, *_ in reversed(node_rows()):
        sides[side]["node"][name] = {
            "upnode": around or "None",
            "data": {} if index is None else {"precision_index": index},
            "matched_node_link": json.loads(link),
            "input_data": json.loads(inputs),
            "output_data": json.loads(outputs),
        }
    path = tmp_path / "compare.vis"
    path.write_text(json.dumps(sides))
    run = open_result(path)
    assert [origin.op for origin in run.data.origins] == [LINEAR]
    assert next(op.name for op in run.data.device.ops if op.subgraph) == LINEAR


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.db", b"SQLite format 3\0" + bytes(84), "an SQLite database, not a table"),
        ("net.prototxt", b'layer { name: "a" type: "ReLU" bottom: "x" top: "y" }', "a graph, not"),
        ("a.npy", b"\x93NUMPY\x01\0", "a numpy array, not a table"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        open_result(tmp_path / name)


def test_a_folder_is_none_and_its_tables_are_offered(tmp_path):
    (tmp_path / "result_1.csv").touch()
    with pytest.raises(InputError, match="this is a folder") as refused:
        open_result(tmp_path)
    assert "result_1.csv" in refused.value.hint


def test_other_tables_are_refused(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ImportFormatError, match="no table of results"):
        open_result(path)


def test_bytes_that_are_no_text_are_no_table():
    assert kind_of(bytes(range(256))) is None
    assert kind_of(b'NPU Name,Bench Name,"a\rb\n') in (None, "msprobe")
    assert kind_of(MSPROBE.encode()) == "msprobe"
