"""Pictures of runs and tensors, as SVG."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from full_run import sample_run
from hypothesis import given
from hypothesis import strategies as st

import divergraph as dg
from divergraph.ask.facts import op_numbers
from divergraph.present.pictures.metric_curve import PLOTTED, metric_curve
from divergraph.present.pictures.scales import PlotScale, beyond_filter
from divergraph.present.pictures.scatter_plot import (
    BOTTOM,
    HEIGHT,
    TOP,
    WIDTH,
    counted_values,
    scatter_plot,
)
from divergraph.present.pictures.svg import SvgPicture, scatter, standing_alone
from divergraph.text.short_names import ShortNames
from graphstore.errors import InputError
from graphstore.filter import parse_filter
from graphstore.model import Side
from graphstore.open_store import open_store

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("values", "is_log", "texts"),
    [
        ([3e-4, 2.0], True, ["1e1", "1e0", "1e-1", "1e-2", "1e-3", "1e-4"]),
        ([0.91, 1.0], False, ["0.9", "0.92", "0.94", "0.96", "0.98", "1"]),
        ([], True, ["1e1", "1e0", "1e-1", "1e-2", "1e-3"]),
        ([5.0], False, ["5", "5.2", "5.4", "5.6", "5.8", "6"]),
    ],
)
def test_an_axis_has_round_numbers(values: list[float], is_log: bool, texts: list[str]) -> None:
    scale = PlotScale.over(values, 100, 0, is_log=is_log)
    assert [tick.text for tick in scale.ticks()] == texts
    assert all(0 <= scale.place(value) <= 100 for value in values)


@given(
    st.lists(st.floats(width=32) | st.sampled_from([0.05, 0.052, -0.9, 0.0, 1e-7]), max_size=50),
    st.integers(-999, 999),
    st.integers(-9, 3),
)
def test_counted_values_tell_how_many_are_beyond_a_limit_of_three_digits(
    values: list[float], digits: int, decade: int
) -> None:
    limit = float(f"{digits}e{decade}")
    pairs = [part.split("*") for part in counted_values(np.array(values))]
    assert sum(int(count) for _, count in pairs) == len(values)
    above = sum(int(count) for value, count in pairs if float(value) > limit)
    finite = [value for value in values if np.isfinite(value)]
    near = sum(abs(value - limit) <= 1e-5 * abs(limit) for value in finite)
    assert abs(above - sum(value > limit for value in finite)) <= near


@pytest.fixture(scope="module")
def lenet_run(demo_store: Path) -> dg.Run:
    return dg.open_store(demo_store).run("fault")


def circles(picture: SvgPicture) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture.svg).iter(f"{SVG}circle"))


def test_a_run_is_a_picture_with_its_origin_marked(lenet_run: dg.Run, tmp_path: Path) -> None:
    picture = lenet_run.plot()
    titles = [mark[0].text or "" for mark in circles(picture)]
    assert any(title.startswith("LeNet/conv2/Conv2DRelu: 0.131") for title in titles)
    assert "1" in [text.text for text in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]
    assert picture.save(tmp_path / "run.svg").read_text() == picture.svg == picture._repr_svg_()
    assert "var(" not in picture.svg  # which drawing programs do not know
    with pytest.raises(InputError, match=r"\.svg"):
        picture.save(tmp_path / "run.png")
    with pytest.raises(InputError, match="nothing of this name"):
        lenet_run.plot("loudness")


def test_a_limit_is_counted_as_the_filter_does(
    demo_store: Path,
) -> None:
    with open_store(str(demo_store)) as store:
        for metric, limit in (
            ("cosine_similarity", 0.99),
            ("relative_euclidean_distance", 0.05),
            ("standard_deviation", 0.1),
        ):
            curve = metric_curve(store, "fault", metric, [parse_filter("type:Conv2D*")])
            assert {curve.ids[at].count("Conv2D") > 0 for at in curve.numbers} == {True}
            whole = metric_curve(store, "fault", metric)
            listed = op_numbers(store, "fault", where=parse_filter(beyond_filter(metric, limit)))[1]
            beyond = whole.numbers[whole.beyond(limit)]
            assert len(beyond) > 20
            assert set(beyond.tolist()) == set(listed.tolist())


@pytest.mark.parametrize("metric", PLOTTED)
def test_all_points_lie_inside_whatever_the_values_are(metric: str, tmp_path: Path) -> None:
    """The run has NaN and infinite metrics; ops whose metric is not defined have no point."""
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(sample_run("first"))
        plot = scatter_plot(metric_curve(store, "first", metric), 1e-3)
    assert all(0 <= point.x <= WIDTH and TOP - 7 <= point.y <= HEIGHT for point in plot.points)
    assert all(TOP <= y <= BOTTOM for y in plot.limits.values())


def test_hostile_names_are_only_text(hostile_store: Path) -> None:
    with open_store(str(hostile_store)) as store:
        (name,) = [run.name for run in store.runs()]
        drawing = scatter(scatter_plot(metric_curve(store, name)), lambda op: f"/op?{op}")
    picture = standing_alone([drawing], name)
    assert {node.tag for node in ElementTree.fromstring(picture.svg).iter()} <= {
        SVG + tag for tag in ("svg", "style", "rect", "text", "g", "line", "a", "circle", "title")
    }


def test_a_tensor_is_a_picture_of_its_errors(lenet_run: dg.Run) -> None:
    picture = lenet_run.plot_tensor("LeNet/conv2/Conv2DRelu")
    texts = [text.text or "" for text in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]
    assert "equal" in texts
    assert "axis 3 (C), 0 to 15" in texts
    shades = {rect.get("class") for rect in ElementTree.fromstring(picture.svg).iter(f"{SVG}rect")}
    assert "heat-7" in shades


def test_names_of_a_list_stay_apart_when_they_are_short(demo_store: Path) -> None:
    """A part that many names have goes first; 35 of 164 names were alike in 24 cells before."""
    with open_store(str(demo_store)) as store:
        names = list(store.arrays("fault", Side.DEVICE).ids)
    short_names = ShortNames(names)
    for width, alike in ((36, 0), (24, 10)):
        shown = Counter(short_names.short(name, width) for name in names)
        assert max(map(len, shown)) <= width
        assert sum(count for count in shown.values() if count > 1) <= alike
    name = "gradients/LeNet/fc4/BiasAdd_grad/tuple/control_dependency"
    assert short_names.short(name, 36) == "…/fc4/B…rad/tuple/control_dependency"


def test_a_call_loses_the_modules_around_it_before_its_own_name():
    layers = [f"Module.encoder.layer.{at}.output.LayerNorm.forward.0" for at in range(4)]
    names = [*layers, *(f"{each}/Functional.norm.{at}.forward" for at, each in enumerate(layers))]
    short_names = ShortNames(names)
    assert short_names.short(names[5], 48) == "….1.output.LayerNorm.…/Functional.norm.1.forward"
    assert short_names.short(names[5], 30) == "…/Functional.norm.1.forward"
    assert len({short_names.short(name, 30) for name in names}) == len(names)


def test_a_tensor_shows_itself_in_a_notebook(lenet_run: dg.Run) -> None:
    tensor = lenet_run.tensor("LeNet/conv2/Conv2DRelu")
    assert tensor._repr_svg_() == lenet_run.plot_tensor("LeNet/conv2/Conv2DRelu").svg
