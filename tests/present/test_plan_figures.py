"""Figures of plans and of measured runs: what is drawn is what was found, and it stays small."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest

from scalewall.cost.training_memory import MEMORY_ITEMS
from scalewall.present import files, tables_plan
from scalewall.present.figures_plan import KINDS, MOST_BARS, planning_figure
from scalewall.present.figures_timeline import COLOURS, MOST_ROWS, is_cut
from scalewall.present.figures_validation import ERRORS, validation_figure
from scalewall.study.plan import Planning, plan
from scalewall.study.run_table import SHIPPED, read_table
from scalewall.study.timeline import BACKWARD, FORWARD, WEIGHTS, timeline
from scalewall.study.validation import Validation, validate

GPT3 = {"model": "gpt3-175b", "hardware": "a100-80gb-sxm", "gpus": 512, "batch": 64, "seq": 2048}
SHORT: dict[str, Any] = {**GPT3, "tp": 8, "pp": 8, "vpp": 1, "micro_batch": 1, "top": 2}
LONG: dict[str, Any] = {**GPT3, "batch": 4096, "tp": 8, "pp": 32, "top": 1}


@functools.cache
def answer(long: bool = False, schedule: str = "1f1b") -> Planning:
    words = {name: word for name, word in SHORT.items() if name != "vpp" or schedule == "1f1b"}
    return plan(**(LONG if long else words), schedule=schedule)


@functools.cache
def measured() -> Validation:
    rows = [
        row for row in read_table(SHIPPED) if row["id"].startswith(("llama3", "seqsel", "sc21", "mlperf"))
    ]
    return validate(rows)


def bars(figure: Any, axis: str) -> list[Any]:
    return [trace for trace in figure.data if trace.xaxis == axis]


def test_the_waterfall_goes_from_the_peak_to_the_mfu() -> None:
    best = answer().strategies[0]
    (trace,) = bars(planning_figure(answer()), "x")
    assert trace.y[0] == "dense peak"
    assert trace.y[-1] == "MFU"
    assert (trace.x[0], trace.x[-1]) == (1.0, best.mfu)
    left = 1.0
    for name, base, share in zip(trace.y[1:-1], trace.base[1:-1], trace.x[1:-1], strict=True):
        cause = name.replace(" ", "_")
        assert share == pytest.approx(best.seconds_by_cause[cause] / best.step_time_s)
        left -= share
        assert base == pytest.approx(left)
    assert left == pytest.approx(best.mfu, abs=5e-3)  # causes too small to draw are left out
    assert set(KINDS) == {name for name in best.seconds_by_cause if name != "arithmetic"}


def test_memory_stands_against_the_capacity() -> None:
    found = answer()
    figure = planning_figure(found)
    traces = bars(figure, "x2")
    assert {trace.name for trace in traces} <= set(MEMORY_ITEMS)
    shown = found.strategies[:MOST_BARS]
    for i, one in enumerate(shown):
        assert sum(trace.x[i] for trace in traces) == pytest.approx(one.memory / 1e9)
    assert any(
        shape.x0 == shape.x1 == found.strategies[0].memory_capacity / 1e9 for shape in figure.layout.shapes
    )
    assert len({trace.marker.color for trace in traces}) == len(traces)


@pytest.mark.parametrize(("long", "schedule"), [(False, "1f1b"), (True, "1f1b"), (False, "zero-bubble")])
def test_the_timeline_is_that_of_the_step(long: bool, schedule: str) -> None:
    found = answer(long, schedule)
    step = timeline(found.scenario.question(), found.strategies[0].plan)
    assert is_cut(step) is long
    traces = [trace for trace in planning_figure(found).data if trace.xaxis in ("x3", "x4")]
    assert {FORWARD, BACKWARD} <= {trace.name for trace in traces}
    assert (WEIGHTS in {trace.name for trace in traces}) is (schedule == "zero-bubble")
    ends = [base + length for trace in traces for base, length in zip(trace.base, trace.x, strict=True)]
    if schedule == "1f1b":
        assert max(ends) == pytest.approx(step.seconds, rel=5e-3)
    else:  # stages are out of step: as the last ends, the first is at the next step already
        assert step.seconds < max(ends) < 1.3 * step.seconds
    assert min(base for trace in traces for base in trace.base) == 0.0
    assert min(length for trace in traces for length in trace.x) >= 0.0
    rows = {stage for trace in traces for stage in trace.y}
    assert {"1", str(step.stages)} <= rows
    assert len(rows) <= MOST_ROWS
    assert sum(len(trace.x) for trace in traces) < 12_000
    shown = [trace.name for trace in traces if trace.showlegend]
    assert len(shown) == len(set(shown))


def test_no_pass_is_drawn_over_another() -> None:
    traces = [trace for trace in planning_figure(answer()).data if trace.xaxis in ("x3", "x4")]
    passes = [trace for trace in traces if trace.name in (FORWARD, BACKWARD, WEIGHTS)]
    for stage in {stage for trace in passes for stage in trace.y}:
        spans = sorted(
            (base, base + length)
            for trace in passes
            for base, length, row in zip(trace.base, trace.x, trace.y, strict=True)
            if row == stage
        )
        assert all(one[1] <= later[0] + 1e-9 for one, later in itertools.pairwise(spans))


def test_colours_of_what_is_told_apart_differ() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_the_figure_of_a_plan_is_small(tmp_path: Path) -> None:
    path = tmp_path / "plan.html"
    files.write_figure(planning_figure(answer(long=True)), path)
    assert path.stat().st_size < 7_000_000  # of which 4.8 are Plotly


# Predicted against measured


def test_every_run_is_drawn_with_what_it_is() -> None:
    figure = validation_figure(measured())
    points = [trace for trace in figure.data if trace.mode == "markers"]
    upper = [trace for trace in points if trace.yaxis == "y"]
    rows = {(row.measured_step_time_s, row.predicted_step_time_s) for row in measured().rows}
    assert {pair for trace in upper for pair in zip(trace.x, trace.y, strict=True)} == rows
    assert {trace.name.split(":")[0] for trace in upper} == set(measured().summary.by_source)
    texts = " ".join(text for trace in upper for text in trace.text)
    assert all(f"<b>{row.id}</b>" in texts for row in measured().rows)
    assert all(
        ERRORS[0] <= error <= ERRORS[1] for trace in points if trace.yaxis == "y2" for error in trace.y
    )
    assert len({(t.marker.color, t.marker.symbol) for t in upper}) == len(upper)


def test_the_diagonal_and_its_band() -> None:
    lines = [trace for trace in validation_figure(measured()).data if trace.mode == "lines"]
    band, same = lines[0], lines[1]
    assert list(same.x) == list(same.y)
    assert [y / x for x, y in zip(band.x, band.y, strict=True)] == pytest.approx([1.1, 1.1, 0.9, 0.9])


def test_mlperf_is_said_not_to_be_verified() -> None:
    figure = validation_figure(measured())
    notes = [note.text.replace("<br>", " ") for note in figure.layout.annotations]
    assert any("not verified by MLCommons" in note for note in notes)
    none = validate([row for row in read_table(SHIPPED) if row["id"].startswith("llama3")])
    notes = [note.text or "" for note in validation_figure(none).layout.annotations]
    assert not any("MLCommons" in note for note in notes)


def test_a_validation_of_nothing_is_drawn() -> None:
    assert validation_figure(Validation(rows=(), skipped={})).data


# Tables


def test_differences_are_told_from_the_largest_on() -> None:
    table = tables_plan.differences_table({"optimizer": 0.1, "host": -0.5, "straggling": 1e-9}, 1.0)
    assert list(table.columns[0].cells) == ["host", "optimizer"]
    assert list(table.columns[1].cells) == ["-500 ms", "100 ms"]
