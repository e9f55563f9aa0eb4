"""Answers as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalewall.hardware.cluster import Cluster
from scalewall.study.closed_form import Wall
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point
from scalewall.study.uncertainty import SHARES, Draws, Spread
from scalewall.units import YEAR, show

WIDTH = f"{SHARES[0]:.0%} to {SHARES[-1]:.0%}"
"""The interval that is given of what is uncertain, in words."""


def show_table(console: Console, table: Table) -> None:
    """Print a table at the width it needs: a narrow terminal breaks its lines, no number is cut."""
    wide = console.options.update(max_width=10_000)
    own = console.width
    console.width = max(own, console.measure(table, options=wide).maximum)
    console.print(table, crop=False)
    console.width = own


def show_limits(console: Console, answer: Limits, explain: bool = False) -> None:
    """Print the limits of every device: a summary, the curve, and what was derived."""
    for curve in answer.curves:
        show_table(console, limits_table(curve))
        for line in summary(curve, answer):
            console.print(Text(line))
        if explain:
            console.print(explanation(curve, answer.scenario.objective))
        console.print()


def limits_table(curve: Curve) -> Table:
    """Return a curve as a table, one row a training compute."""
    table = points_table(curve.points, curve.threshold_mfu, curve.spread)
    table.title, table.title_justify = Text(f"{curve.hardware}: {curve.cluster.title}"), "left"
    return table


def points_table(points: Sequence[Point], threshold_mfu: float = 0.0, spread: Spread | None = None) -> Table:
    """Return points as a table, one row each; those far below the threshold are dim.

    With a `spread` at the points' computes, the median and the interval of MFU stand beside it.
    """
    table = Table(box=None, pad_edge=False)
    columns = ["FLOP", "MFU"]
    columns += ["median", WIDTH] if spread is not None else []
    columns += ["devices", "months", "dp", "tp", "pp"]
    sparse = any(p.strategy.ep > 1 for p in points)
    columns += ["ep"] if sparse else []
    columns += ["micro-batches", "chunks", "schedule", "binds"]
    for name in columns:
        table.add_column(name, justify="left" if name in {"schedule", "binds"} else "right", no_wrap=True)
    bands = spread.band().T.tolist() if spread is not None else [None] * len(points)
    for point, band in zip(points, bands, strict=True):
        s = point.strategy
        cells = [
            f"{point.training_flop:.2e}",
            f"{point.mfu:.1%}",
            *([f"{band[1]:.1%}", f"{band[0]:.1%} to {band[2]:.1%}"] if band is not None else []),
            count(s.devices),
            f"{point.duration_s / (YEAR / 12):.2f}",
            str(s.dp),
            f"{s.tp_model}×{s.tp_ff}",
            str(s.pp),
            *([str(s.ep)] if sparse else []),
            str(s.microbatches),
            str(s.interleave),
            s.schedule,
            point.binding,
        ]
        table.add_row(*cells, style="dim" if point.mfu < threshold_mfu / 2 else None)
    return table


def show_best(console: Console, found: Mapping[str, Sequence[Point]], explain: bool = False) -> None:
    """Print the best strategies for one training compute by device, and where a step's time goes."""
    for name, points in found.items():
        table = points_table(points)
        table.title, table.title_justify = Text(name), "left"
        show_table(console, table)
        console.print("where a step's time goes")
        show_table(console, causes_table(points))
        if explain and (c := points[0].certificate) is not None:
            console.print(
                Text(
                    f"Of {c.space:.3g} strategies {c.priced:,} were priced and the rest ruled out by "
                    f"{c.bounded:,} bounds."
                )
            )
        console.print()


def causes_table(points: Sequence[Point]) -> Table:
    """Return where the time of a step goes, one column a strategy in their order."""
    table = Table(box=None, pad_edge=False)
    table.add_column("cause")
    for i in range(len(points)):
        table.add_column(f"{i + 1}", justify="right")
    table.add_row("step", *(show(p.step_seconds, "s", 3) for p in points))
    for cause in points[0].seconds_by_cause:
        shares = [p.seconds_by_cause[cause] / p.step_seconds for p in points]
        if max(shares) > 5e-5:
            table.add_row(cause.replace("_", " "), *(f"{share:.2%}" for share in shares))
    return table


def summary(curve: Curve, answer: Limits) -> Iterator[str]:
    """Yield the answer in words: where utilisation falls, where it ends, and which numbers are derived."""
    scenario = answer.scenario
    time = show(scenario.duration, "s")
    at = f"{scenario.threshold:.0%} of the sustained {curve.sustained_mfu:.1%}"
    if curve.knee_flop is None:
        yield f"Knee: none before the wall; MFU stays above {at}."
    else:
        yield (f"Knee: {curve.knee_flop:.3g} FLOP. From there MFU is below {at}; {curve.knee_binding} binds.")
    yield f"Wall: {curve.wall_flop:.3g} FLOP. No larger run ends within {time}; {curve.wall_binding} binds."
    if curve.spread is not None and answer.draws is not None:
        yield from _sure(curve.spread, answer.draws)
    if scenario.to_flop is not None and scenario.to_flop > curve.wall_flop:
        yield f"The curve ends at the wall, before the {scenario.to_flop:.3g} FLOP asked for."
    if scenario.how.precision not in {"bf16", "fp16"} and scenario.how.word == 2.0:
        yield f"Numbers that move have 2 bytes, not {scenario.how.precision}'s: --set word=… changes that."
    if curve.derived:
        yield f"Derived, not stated by a source: {', '.join(curve.derived)}."
        yield f"  ('scalewall hardware {curve.hardware}' says how.)"


def _sure(spread: Spread, draws: Draws) -> Iterator[str]:
    """Yield how sure the limits are, where inputs are uncertain."""
    names = ", ".join(some.name for some in spread.uncertainty.inputs)
    yield f"With {names} uncertain, {draws.samples} quasi-random draws, seed {draws.seed}:"
    for limit in ("knee", "wall"):
        low, middle, high = spread.interval(f"{limit}_flop")
        yield f"  {limit}: median {middle:.3g} FLOP, {WIDTH} from {low:.3g} to {high:.3g}."
    if said := doubts(spread):
        yield f" {said}"


def doubts(spread: Spread) -> str:
    """Return in how many draws a number stands for what is not there."""
    said = ""
    if spread.late:
        said += (
            f" In {spread.late} of them the largest of these runs does not end in time: its MFU counts as 0."
        )
    if spread.without_knee:
        said += f" In {spread.without_knee} of them there is no knee before the wall, which stands for it."
    return said


def explanation(curve: Curve, objective: str = "mfu") -> RenderableType:
    """Return what the search did at every point to be sure of its optimum."""
    table = Table(title="How sure: strategies in the space, bounded, priced", title_justify="left", box=None)
    for name in ("FLOP", "in the space", "bounds", "priced", "best discarded over best"):
        table.add_column(name, justify="right")
    for point in curve.points:
        c = point.certificate
        if c is None:
            return Text(
                "Every strategy of the paper's space was priced on every cluster up to the one shown."
            )
        best = point.n_devices * (point.step_seconds if objective == "mfu" else 1.0)
        gap = c.best_discarded / best
        shown = "nothing discarded" if math.isinf(gap) else f"{gap:.6f}"
        table.add_row(
            f"{point.training_flop:.2e}", f"{c.space:.2e}", f"{c.bounded:,}", f"{c.priced:,}", shown
        )
    return table


def count(n: float) -> str:
    """Return a number of devices as text, short if it is large."""
    return f"{int(n):,}" if n < 1e7 else f"{n:.3g}"


def show_wall(console: Console, answer: Wall) -> None:
    """Print the closed form of the latency wall."""
    console.print(
        Text(
            f"A run of {show(answer.duration, 's')} with batches of {answer.batch:.3g} tokens, "
            f"{answer.layers:g} blocks and {show(answer.latency, 's')} a multiplication trains at most\n"
            f"  {answer.parameters:.3g} parameters with {answer.training_flop:.3g} FLOP,\n"
            "on however many devices. This is the closed form; 'scalewall limits' finds the wall by search."
        )
    )


def assumptions_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return assumptions as a table, one a row."""
    table = Table(box=None, pad_edge=False)
    for name in ("name", "default", "meaning", "source"):
        table.add_column(name, no_wrap=name == "name", overflow="fold")
    for entry in entries:
        default, unit = entry["default"], entry["unit"]
        number = isinstance(default, float) and unit
        shown = "the wall" if default is None else show(default, unit) if number else str(default).lower()
        table.add_row(entry["name"], shown, entry["doc"], entry["source"])
    return table


def hardware_list(clusters: Sequence[Cluster]) -> Table:
    """Return the catalogue as a table, one device a row."""
    table = Table(box=None, pad_edge=False)
    for name in (
        "name",
        "device",
        "16-bit peak",
        "sustained",
        "memory",
        "bandwidth",
        "scale-up",
        "scale-out",
        "derived",
    ):
        table.add_column(
            name, justify="left" if name in {"name", "device"} else "right", no_wrap=name == "name"
        )
    for c in clusters:
        d, inner, outer = c.device, c.tiers[0], c.tiers[-1]
        size = "∞" if math.isinf(inner.size) else f"{inner.size:.0f}"
        table.add_row(
            Text(c.name),
            Text(c.title),
            show(d.peak_rate(), "FLOP/s"),
            f"{d.sustained:.0%}",
            show(d.memory, "B"),
            show(d.memory_bandwidth, "B/s"),
            f"{size} at {show(inner.bandwidth, 'B/s')}",
            show(outer.bandwidth, "B/s"),
            str(len(c.derived)) if c.derived else "",
        )
    return table


def hardware_entry(cluster: Cluster) -> Group:
    """Return one entry: every number with its unit and where it comes from."""
    table = Table(box=None, pad_edge=False)
    for name in ("field", "value", "meaning", "source"):
        table.add_column(name, no_wrap=name == "field", overflow="fold")
    for path, value, doc in _numbers(cluster):
        source = cluster.sources.get(path)
        if source is None:
            said = "default or the user's file"
        else:
            said = ("derived: " if source.derived else "") + source.text
            said += f" ({source.date})" if source.date else ""
        table.add_row(path, value, Text(doc), Text(said, style="yellow" if source and source.derived else ""))
    head = f"{cluster.name}: {cluster.title}"
    facts = ", ".join(
        part for part in (cluster.vendor, cluster.released and f"released {cluster.released}") if part
    )
    lines: list[RenderableType] = [Text(head, style="bold"), *([Text(facts)] if facts else []), table]
    return Group(*lines, *([Text(f"Notes: {cluster.notes}")] if cluster.notes else []))


def _numbers(cluster: Cluster) -> Iterator[tuple[str, str, str]]:
    """Yield path, value with unit, and meaning of every number of an entry."""

    def fields(owner: Any, path: str) -> Iterator[tuple[str, str, str]]:
        for a in attrs.fields(type(owner)):
            value, unit, doc = getattr(owner, a.name), a.metadata.get("unit"), a.metadata.get("doc", "")
            if isinstance(value, Mapping):
                for key, rate in value.items():
                    yield f"{path}.{a.name}.{key}", show(rate, unit or "1"), doc
            elif unit is not None and value is not None:
                shown = "no end" if a.name == "size" and math.isinf(value) else show(value, unit)
                yield f"{path}.{a.name}", shown, doc

    yield from fields(cluster.device, "device")
    for i, cache in enumerate(cluster.device.caches):
        for path, value, doc in fields(cache, f"device.caches[{i}]"):
            yield path, value, f"{cache.name}: {doc}"
    for i, tier in enumerate(cluster.tiers):
        for path, value, doc in fields(tier, f"tiers[{i}]"):
            yield path, value, f"{tier.name}: {doc}"
