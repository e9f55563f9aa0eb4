"""Elasticities and inverse design as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalewall.present.tables import count
from scalewall.study.inverse import MOST_FACTOR, Design
from scalewall.study.sensitivity import Elasticity, Sensitivities, Sensitivity
from scalewall.units import show

HEADS = {"knee": "knee", "wall": "wall", "mfu": "MFU"}


def show_sensitivity(console: Console, answer: Sensitivities) -> None:
    """Print for every device its elasticities, and what makes a larger run efficient if that was asked."""
    for found in answer.devices:
        console.print(elasticities_table(found))
        for line in explanation(answer, found):
            console.print(Text(line))
        if found.design is not None:
            console.print()
            console.print(design_table(found.design))
            for line in _of_design(answer, found.design):
                console.print(Text(line))
        console.print()


def elasticities_table(found: Sensitivity) -> Table:
    """Return elasticities as a table, one row an input and two columns an output, largest first."""
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.title = f"{found.cluster.name}: per cent more for one per cent more of each input alone"
    by_output: dict[str, dict[str, Elasticity]] = {}
    for e in found.elasticities:
        by_output.setdefault(e.output, {})[e.input.name] = e
    table.add_column("input", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for output in by_output:
        table.add_column(HEADS[output], justify="right", no_wrap=True)
        table.add_column("down, up", justify="right", no_wrap=True, style="dim")
    first = next(iter(by_output.values()))
    for name, e in first.items():
        cells = [cell for of in by_output.values() for cell in _cells(of[name])]
        table.add_row(name, show(e.input.value, e.input.unit), *cells)
    return table


def _cells(e: Elasticity) -> tuple[str, str]:
    if e.elasticity is None:
        return "none", ""
    decimals = 1 if e.error >= 0.5 else 2
    shown = f"{_signed(e.elasticity, decimals)} ±{e.error:.{decimals}f}"
    one_sided = e.up is None or e.down is None
    sides = ", ".join("–" if v is None else _signed(v, decimals) for v in (e.down, e.up))
    return shown, sides if e.kinked or one_sided else ""


def _signed(value: float, decimals: int) -> str:
    text = f"{value:+.{decimals}f}"
    return text if float(text) else text[1:]  # nothing has no sign


def explanation(answer: Sensitivities, found: Sensitivity) -> Iterator[str]:
    """Yield what the table's outputs are and how the differences were taken."""
    outputs, share = found.outputs, found.step
    if "knee" in outputs and found.knee_flop is not None:
        yield (
            f"Knee: {outputs['knee']:.3g} FLOP on the fitted curve; the first crossing is at "
            f"{found.knee_flop:.3g}."
        )
    if "wall" in outputs:
        yield f"Wall: {outputs['wall']:.3g} FLOP."
    if "mfu" in outputs:
        yield f"MFU: {outputs['mfu']:.1%} on the fitted curve at {found.at_flop:.3g} FLOP."
    yield (
        f"Inputs {share:.0%} up and down, exponents {share / 10:.1%}, sizes by two; each side searched anew. "
        "± is one standard error."
    )
    if any(e.kinked for e in found.elasticities):
        yield "Where a side stands apart, both are given: downward, upward."
    if answer.scenario.is_papers:
        yield "The preset's devices over the default space: the paper's grid would hide small changes."


def design_table(design: Design) -> Table:
    """Return what each input alone must become, the least changes first."""
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.title = f"What alone makes a run of {design.target_flop:.3g} FLOP efficient"
    for name in ("input", "today", "needed", "factor", "MFU", "devices"):
        table.add_column(name, justify="left" if name == "input" else "right", no_wrap=True)
    for r in design.remedies:
        if r.value is None or r.factor is None or r.point is None:
            continue
        unit = r.input.unit
        factor = f"×{r.factor:.3g}" if r.factor > 1 else f"÷{1 / r.factor:.3g}"
        cells = (show(r.input.value, unit), show(r.value, unit), factor)
        table.add_row(r.input.name, *cells, f"{r.point.mfu:.1%}", count(r.point.n_devices))
    return table


def _of_design(answer: Sensitivities, design: Design) -> Iterator[str]:
    today = design.today
    if today is None:
        yield "Today no such run ends in time."
    else:
        yield f"Today its best run has an MFU of {today.mfu:.1%}; {today.binding} binds."
    none = [r.input.name for r in design.remedies if r.value is None]
    if none:
        yield f"None up to ×{MOST_FACTOR:g} or ÷{MOST_FACTOR:g} or the input's own bounds: {', '.join(none)}."
    yield f"Efficient: at least {answer.scenario.threshold:.0%} of what the changed device sustains."
