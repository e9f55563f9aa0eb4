"""Figures: the traces hold the answer, the marks stand where the limits are, hovering explains."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from scalewall.present import figures
from scalewall.study import closed_form
from scalewall.study.limits import Limits
from tests.study.answers import papers_answer, searched


def renamed(n: int) -> Limits:
    """Return an answer of `n` devices, which are one under several names."""
    (curve,) = papers_answer().curves
    curves = [attrs.evolve(curve, cluster=attrs.evolve(curve.cluster, name=f"device-{i}")) for i in range(n)]
    return attrs.evolve(papers_answer(), curves=tuple(curves))


def lines(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.mode == "lines+markers"]


def marks(figure: Any, kind: str) -> list[Any]:
    return [t for t in figure.data if t.mode == "markers" and f": {kind} at" in (t.hovertemplate or "")]


@pytest.mark.parametrize("find", [papers_answer, searched], ids=["paper", "search"])
def test_the_curve_of_one_device(find: Any) -> None:
    (curve,) = find().curves
    figure = figures.limits_figure(find())
    mfu, *degrees = lines(figure)
    assert list(mfu.x) == [p.training_flop for p in curve.points]
    assert list(mfu.y) == [p.mfu for p in curve.points]
    assert curve.hardware in mfu.name
    assert [trace.name for trace in degrees] == ["data", "tensor", "pipeline"]
    assert list(degrees[0].y) == [p.strategy.dp for p in curve.points]
    assert list(degrees[1].y) == [p.strategy.tp_model * p.strategy.tp_ff for p in curve.points]
    assert list(degrees[2].y) == [p.strategy.pp for p in curve.points]
    assert len({trace.line.color for trace in (mfu, *degrees)}) == 4
    assert len({trace.line.dash for trace in degrees}) == 3


def test_expert_parallelism_is_drawn_where_there_is_some() -> None:
    answer = papers_answer(sparse=True)
    expert = lines(figures.limits_figure(answer))[-1]
    assert expert.name == "expert"
    assert list(expert.y) == [p.strategy.ep for p in answer.curves[0].points]
    assert "baseline sparsity" in figures.limits_figure(answer).layout.title.text


def test_the_knee_and_the_wall_are_marked() -> None:
    (curve,) = papers_answer().curves
    figure = figures.limits_figure(papers_answer())
    (knee,), (wall,) = marks(figure, "knee"), marks(figure, "wall")
    assert (knee.x[0], knee.y[0]) == (curve.knee_flop, curve.threshold_mfu)
    assert wall.x[0] == curve.wall_flop
    assert knee.marker.symbol != wall.marker.symbol
    assert "2.05e+28" in knee.hovertemplate
    assert "network bandwidth binds" in knee.hovertemplate
    assert "latency binds" in wall.hovertemplate
    said = {a.text: a.x for a in figure.layout.annotations}
    assert said["knee 2.0e28"] == pytest.approx(math.log10(2.0484e28), abs=1e-4)
    assert said["wall 2.7e31"] == pytest.approx(math.log10(2.7074e31), abs=1e-4)


def test_no_knee_no_mark() -> None:
    (curve,) = papers_answer().curves
    without = attrs.evolve(papers_answer(), curves=(attrs.evolve(curve, knee=None),))
    figure = figures.limits_figure(without)
    assert not marks(figure, "knee")
    assert "no knee" in lines(figure)[0].name


def test_the_closed_form_is_drawn_at_its_value() -> None:
    answer = papers_answer()
    flop = closed_form.wall(duration=answer.scenario.duration).training_flop
    figure = figures.limits_figure(answer)
    assert [shape.x0 for shape in figure.layout.shapes] == [flop]
    assert any(a.text == "closed form 1.6e31" for a in figure.layout.annotations)


@pytest.mark.parametrize("n", [2, 7, 9])
def test_devices_can_be_told_apart(n: int) -> None:
    figure = figures.limits_figure(renamed(n))
    curves = [t for t in lines(figure) if t.yaxis == "y"]
    assert len(curves) == n
    assert len({(t.line.color, t.line.dash, t.marker.symbol) for t in curves}) == n
    assert len({t.name for t in curves}) == n
    for i, trace in enumerate(curves):
        same = [t for t in figure.data if t.legendgroup == f"device-{i}" and t.mode == "markers"]
        assert {t.marker.color for t in same} == {trace.line.color}
        assert len(same) == 2


def test_hovering_tells_the_strategy_and_what_binds() -> None:
    (curve,) = papers_answer().curves
    figure = figures.limits_figure(papers_answer())
    texts = lines(figure)[0].text
    assert len(texts) == 31
    for text, point in zip(texts, curve.points, strict=True):
        s = point.strategy
        assert text == figures.hover(curve, point)
        assert f"binds: {point.binding}" in text
        assert f"{s.schedule}, {s.microbatches} micro-batches, {s.interleave} chunks a stage" in text
        assert f"MFU {point.mfu:.1%}" in text
        assert f"{point.training_flop:.3g} FLOP" in text
    first = curve.points[0].strategy
    degrees = next(line for line in texts[0].split("<br>") if line.startswith("degrees by tier"))
    assert f"pp {'·'.join(map(str, first.layout['pp']))}" in degrees
    assert "dp" not in degrees  # a degree of one is not worth a word
    shares = [float(part.rsplit(" ", 1)[1][:-1]) for part in _shares(texts[0])]
    assert sum(shares) == pytest.approx(100.0, abs=0.5)


def _shares(text: str) -> list[str]:
    """Return the parts of a hover text after what binds: the causes of a step's time."""
    after = text.split("<br>")
    start = next(i for i, line in enumerate(after) if line.startswith("binds:"))
    return ", ".join(after[start + 1 :]).split(", ")


def test_the_axes_hold_everything() -> None:
    figure = figures.limits_figure(papers_answer())
    assert figure.layout.xaxis.type == figure.layout.xaxis2.type == "log"
    low, high = figure.layout.yaxis.range
    assert low == 0
    assert high > papers_answer().curves[0].sustained_mfu
    assert figure.layout.yaxis.title.text == "MFU"
    assert "training compute (FLOP)" in figure.layout.xaxis2.title.text
    assert "3 months" in figure.layout.title.text
    assert "epoch-2024" in figure.layout.title.text


def test_a_knee_below_the_range_does_not_break_the_figure() -> None:
    (curve,) = papers_answer().curves
    part = attrs.evolve(curve, points=curve.points[-3:])
    figure = figures.limits_figure(attrs.evolve(papers_answer(), curves=(part,)))
    assert len(lines(figure)[0].x) == 3


@pytest.mark.parametrize(("value", "text"), [(2.0484e28, "2.0e28"), (1e24, "1.0e24"), (9.96e30, "1.0e31")])
def test_a_power(value: float, text: str) -> None:
    assert figures.power(value) == text
