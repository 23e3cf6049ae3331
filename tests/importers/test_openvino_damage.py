"""OpenVINO files that are damaged, cut or meant to harm: one error with file and line."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from graphstore.errors import ImportFormatError
from importers.openvino.importer import OpenVinoImporter

DATA = Path(__file__).parents[1] / "data" / "openvino"
QUICK = 250
READ = OpenVinoImporter().read

HEAD = '<?xml version="1.0"?>\n<net name="n" version="11">\n<layers>\n'
INPUT = """<layer id="0" name="x" type="Parameter" version="opset1">
<output><port id="0" precision="FP32"><dim>2</dim></port></output></layer>
"""
RELU = """<layer id="1" name="r" type="ReLU" version="opset1">
<input><port id="0" precision="FP32"><dim>2</dim></port></input>
<output><port id="1" precision="FP32"><dim>2</dim></port></output></layer>
"""
EDGE = '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>\n'


def page(layers: str, edges: str = EDGE) -> str:
    return f"{HEAD}{layers}</layers>\n<edges>\n{edges}</edges>\n</net>\n"


GOOD = page(INPUT + RELU)


def error_of(tmp_path: Path, text: str | bytes) -> ImportFormatError:
    path = tmp_path / "net.xml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ImportFormatError) as caught:
        READ(path)
    return caught.value


def test_the_page_these_are_made_from_is_read(tmp_path):
    (tmp_path / "net.xml").write_text(GOOD)
    graph = READ(tmp_path / "net.xml")
    assert [op.name for op in graph.ops] == ["r"]


CONST = (
    '<layer id="2" name="w" type="Const"><data element_type="f32" shape="3" offset="{}" size="{}"/>'
    '<output><port id="0" precision="FP32"><dim>3</dim></port></output></layer>\n'
)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        (GOOD[:-40], "damaged XML", None),
        (GOOD.replace('version="11"', 'version="6"'), "of version 6; 10 and later ones", 2),
        (GOOD.replace('version="11"', ""), "<net> has no version", 2),
        (GOOD.replace(' version="11"', ' version="999999999999999999999"'), "as its version", 2),
        (page(INPUT + RELU.replace("ReLU", "")), "'r' has no type", 6),
        (page(INPUT + RELU.replace('id="1" name', 'id="0" name')), "has the id 0, too", 6),
        (page(INPUT + RELU.replace("<dim>2", "<dim>two")), "'two' is no dimension", 7),
        (page(INPUT + RELU, EDGE.replace('er="0" f', 'er="7" f')), "layer 7, which is not", 11),
        (page(INPUT + RELU, EDGE.replace('t="0"/', 't="5"/')), "the input 5 of 'r'", 11),
        (page(INPUT + RELU, EDGE * 2), "an edge already, in line 11", 12),
        (page(RELU, EDGE.replace('r="0" from-port="0"', 'r="1" from-port="1"')), "feeds itself", 4),
        (page(CONST.format(0, 4), ""), "take 12 bytes and have 4", 4),
        (page(CONST.format("-1", 12), ""), "have no place", 4),
        (page(CONST.format("9" * 30, 12), ""), "have no place", 4),
        (HEAD.replace("layers", "input") + "<port id='0'/></input></net>", "outside of a la", 4),
        ("<html><body/></html>", "an XML page of <html>", 1),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, text, said, line):
    error = error_of(tmp_path, text)
    assert said in str(error)
    assert error.hint
    assert error.line is not None
    assert line in (None, error.line)


def test_values_past_the_end_of_the_bin(tmp_path):
    (tmp_path / "net.bin").write_bytes(bytes(8))
    error = error_of(tmp_path, page(CONST.format(0, 12), ""))
    assert "the values of 'w' end at byte 12 of net.bin, which has 8" in str(error)
    assert error.line == 4


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE net [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE net [<!ENTITY passwords SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE net SYSTEM "http://127.0.0.1:1/net.dtd">',
    ],
)
def test_entities_are_refused_before_they_do_anything(tmp_path, doctype):
    text = GOOD.replace("<net name", doctype + "<net name").replace('"n"', '"&l11;&passwords;"')
    begun = time.monotonic()
    assert "a document type" in str(error_of(tmp_path, text))
    assert time.monotonic() - begun < 2


def test_nesting_and_ranks_have_an_end(tmp_path):
    inner = "<body><layers><layer id='0' name='n' type='Loop'>"
    deep = HEAD + "<layer id='0' name='n' type='Loop'>" + inner * 100_000
    assert "nested deeper than" in str(error_of(tmp_path, deep))
    wide = INPUT.replace("<dim>2</dim>", "<dim>999999999999999999</dim>" * 200_000)
    assert "dimensions" in str(error_of(tmp_path, page(wide + RELU)))


def test_bodies_whose_ports_are_not_there(tmp_path):
    text = (DATA / "bodies.xml").read_text()
    for wrong in ('external_port_id="77"', 'internal_layer_id="77"'):
        name = wrong.split("=")[0]
        at = text.index(name)
        end = text.index('"', at + len(name) + 2) + 1
        assert "which is not there" in str(error_of(tmp_path, text[:at] + wrong + text[end:]))


@pytest.mark.parametrize("name", ["net.xml", "fused.xml", "bodies.xml"])
def test_flipped_bits_and_cuts_are_an_error_or_a_graph(tmp_path, name):
    data = (DATA / name).read_bytes()
    chosen = random.Random(5)
    path = tmp_path / "net.xml"
    lines = []
    for number in range(QUICK):
        damaged = bytearray(data)
        if number % 4:
            at = chosen.randrange(len(data))
            damaged[at] ^= 1 << chosen.randrange(8)
        else:
            del damaged[chosen.randrange(1, len(data)) :]
        path.write_bytes(damaged)
        try:
            READ(path)
        except ImportFormatError as error:
            lines.append(error.line)
    assert None not in lines
    assert len(lines) > QUICK // 4
