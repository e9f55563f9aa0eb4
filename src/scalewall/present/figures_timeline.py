"""One step as a Plotly figure: a row a pipeline stage, its passes as blocks, and where it waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalewall.present.figures import PALETTE
from scalewall.study.timeline import BACKWARD, FORWARD, WEIGHTS, Block, Timeline
from scalewall.units import show

COLOURS = {
    FORWARD: PALETTE[5],
    BACKWARD: PALETTE[0],
    WEIGHTS: PALETTE[2],
    "data_parallel": PALETTE[1],
    "optimizer": "#000000",
    "host": "#8a8a8a",
    "straggling": PALETTE[3],
    "waiting": "#f6e3c5",
}
MOST_ROWS = 16
LEAST_NUMBERED = 0.017
"""Share of both columns' width that a block must have to bear its micro-batch's number."""

AFTER_WARM_UP = 24
"""Blocks of the first stage that a part shows beyond those that fill the pipeline."""


def is_cut(step: Timeline) -> bool:
    """Return whether a step is too long to draw whole: then how it begins and how it ends are drawn."""
    return step.followed < step.micro_batches or 2.0 * window(step) < 0.9 * step.flow


def window(step: Timeline) -> float:
    """Return how many seconds a part shows: filling the pipeline, and some blocks more."""
    pp, v = step.stages, step.chunks
    ahead = pp if v == 1 else 2 * (pp - 1) + (v - 1) * pp
    first = [block.seconds for block in step.blocks if block.stage == 0]
    # At most half of what was followed, so that a part never reaches what was left out.
    return min((ahead + AFTER_WARM_UP) * sum(first) / len(first), step.flow / 2.0)


def add_timeline(figure: Any, step: Timeline) -> None:
    """Add the step to the second row of `figure`, in two columns if it is cut."""
    rows = _rows(step.stages)
    ends = sum(step.ends.values())
    seen: set[str] = set()
    zero_bubble = any(block.kind == WEIGHTS for block in step.blocks)
    title = "seconds; each stage goes on to the next step" if zero_bubble else "seconds"
    if not is_cut(step):
        _add_part(figure, step, rows, (0.0, step.flow + ends), 0.0, 1, seen)
        _axes(figure, rows, 1, title, (0.0, 1.005 * (step.flow + ends)))
        return
    length, later = window(step), step.left_out
    _add_part(figure, step, rows, (0.0, length), 0.0, 1, seen)
    # The end is drawn at its true time: what was not followed has run in between.
    _add_part(figure, step, rows, (step.flow - length, step.flow + ends), later, 2, seen)
    _axes(figure, rows, 1, f"seconds; {step.micro_batches} micro-batches in all", (0.0, length))
    start, end = step.flow - length + later, step.flow + ends + later
    _axes(figure, rows, 2, title, (start, end + 0.01 * (end - start)))


def _rows(stages: int) -> list[int]:
    """Return the stages that are drawn: all, or as many as can be told apart, the ends among them."""
    if stages <= MOST_ROWS:
        return list(range(stages))
    return sorted({round(i * (stages - 1) / (MOST_ROWS - 1)) for i in range(MOST_ROWS)})


def _add_part(
    figure: Any,
    step: Timeline,
    rows: Sequence[int],
    span: tuple[float, float],
    later: float,
    column: int,
    seen: set[str],
) -> None:
    """Add what happens from ``span[0]`` to ``span[1]``, drawn `later` than that by so many seconds."""
    start, end = span
    least = LEAST_NUMBERED * (end - start) * (2.0 if is_cut(step) else 1.0)
    finished = {row: _finished(step, row) for row in rows}
    _add_bars(
        figure,
        "waiting",
        [(row, start, finished[row] - start, "") for row in rows if finished[row] > start],
        (later, end),
        column,
        seen,
    )
    for kind in (FORWARD, BACKWARD, WEIGHTS):
        blocks = [b for b in step.blocks if b.kind == kind and b.stage in finished]
        inside = [b for b in blocks if b.start + b.seconds > start and b.start < end]
        if not inside:
            continue
        bars = [
            (
                b.stage,
                max(b.start, start),
                min(b.start + b.seconds, end) - max(b.start, start),
                _text(b, step),
            )
            for b in inside
        ]
        numbers = [str(b.micro_batch + 1) for b in inside] if inside[0].seconds > least else None
        _add_bars(figure, kind, bars, (later, end), column, seen, numbers)
    if end <= step.flow:
        return
    for name, seconds in step.ends.items():
        text = f"{name.replace('_', ' ')}: {show(seconds, 's', 3)}"
        bars = [(row, finished[row], seconds, text) for row in rows]
        if seconds > 0:
            _add_bars(figure, name, bars, (later, end), column, seen)
        finished = {row: at + seconds for row, at in finished.items()}


def _finished(step: Timeline, row: int) -> float:
    """Return when a stage's passes are over: with all others', or if it need not wait for them, its own."""
    if not any(block.kind == WEIGHTS for block in step.blocks):
        return step.flow
    return max(block.start + block.seconds for block in step.blocks if block.stage == row)


def _text(block: Block, step: Timeline) -> str:
    chunk = f", chunk {block.chunk + 1}" if step.chunks > 1 else ""
    return (
        f"stage {block.stage + 1}, {block.kind} of micro-batch {block.micro_batch + 1}{chunk}"
        f": {show(block.seconds, 's', 3)}"
    )


def _add_bars(
    figure: Any,
    name: str,
    bars: Sequence[tuple[int, float, float, str]],
    shift: tuple[float, float],
    column: int,
    seen: set[str],
    numbers: list[str] | None = None,
) -> None:
    import plotly.graph_objects as go

    later, end = shift
    bars = [(row, base, min(length, end - base), text) for row, base, length, text in bars]
    edge = 0.5 if len(bars) < 600 else 0.0
    figure.add_trace(
        go.Bar(
            orientation="h",
            name=name.replace("_", " "),
            legend="legend2",
            legendgroup=name,
            showlegend=name not in seen,
            y=[str(row + 1) for row, *_ in bars],
            base=[base + later for _, base, *_ in bars],
            x=[length for _, _, length, _ in bars],
            width=0.9,
            marker={"color": COLOURS[name], "line": {"width": edge, "color": "white"}},
            text=numbers,
            textposition="inside" if numbers else None,
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 9, "color": "white" if name == BACKWARD else "black"},
            customdata=[text for *_, text in bars],
            hovertemplate="%{customdata}<extra></extra>" if name != "waiting" else None,
            hoverinfo="skip" if name == "waiting" else None,
        ),
        row=2,
        col=column,
    )
    seen.add(name)


def _axes(figure: Any, rows: Sequence[int], column: int, title: str, span: tuple[float, float]) -> None:
    figure.update_xaxes(title_text=title, range=span, row=2, col=column)
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=[str(row + 1) for row in rows],
        autorange="reversed",
        title_text="pipeline stage" if column == 1 else None,
        showticklabels=column == 1,
        row=2,
        col=column,
    )
