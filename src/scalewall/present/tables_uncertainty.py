"""The spread of the limits as tables for a terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalewall.present.tables import doubts
from scalewall.study.uncertainty import SHARES, Answer, Spread
from scalewall.units import show

_ENDS = [f"{share:.0%}" if share != 0.5 else "median" for share in SHARES]


def show_uncertainty(console: Console, answer: Answer) -> None:
    """Print for every device what is uncertain, the spread of its limits, and what it is due to."""
    for spread in answer.spreads:
        console.print(Text(f"{spread.cluster.name}: {spread.cluster.title}", style="bold"))
        console.print(inputs_table(spread))
        console.print()
        console.print(limits_table(spread))
        if spread.indices is not None:
            console.print()
            console.print(indices_table(spread))
        console.print(Text(_note(answer, spread)))
        console.print()


def inputs_table(spread: Spread) -> Table:
    """Return the uncertain inputs with their distributions and the reasons for these."""
    table = Table(box=None, pad_edge=False)
    for name in ("input", "baseline", "distribution", "reason"):
        table.add_column(name, no_wrap=name == "input", overflow="fold")
    for some in spread.uncertainty.inputs:
        table.add_row(some.name, show(some.given.value, some.given.unit), some.text, some.source)
    return table


def limits_table(spread: Spread) -> Table:
    """Return knee, wall and MFU: the baseline, and the quantiles over all draws."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("baseline", *_ENDS):
        table.add_column(name, justify="right")
    for name, field in (("knee, FLOP", "knee_flop"), ("wall, FLOP", "wall_flop")):
        values = (getattr(spread.baseline, field), *spread.interval(field))
        table.add_row(name, *(f"{value:.3g}" for value in values))
    for flop, mfu, band in zip(spread.computes, spread.baseline.mfu, spread.band().T, strict=True):
        table.add_row(f"MFU at {flop:.2e} FLOP", f"{mfu:.1%}", *(f"{value:.1%}" for value in band))
    return table


def indices_table(spread: Spread) -> Table:
    """Return the Sobol indices of knee and wall with their intervals, the largest total first."""
    found = spread.indices
    table = Table(title="What the spread is due to: Sobol indices", title_justify="left", box=None)
    if found is None:
        return table
    table.add_column("input")
    for answer in ("knee", "wall"):
        for order in ("alone", "in total"):
            table.add_column(f"{answer}, {order}", justify="right")
    for i in np.argsort(-found.total.max(axis=0)):
        cells = []
        for output in range(2):
            for value, ends in (
                (found.first, found.first_interval),
                (found.total, found.total_interval),
            ):
                low, high = ends[:, output, i]
                cells.append(f"{value[output, i]:.2f} ({low:.2f} to {high:.2f})")
        table.add_row(spread.uncertainty.inputs[i].name, *cells)
    return table


def _note(answer: Answer, spread: Spread) -> str:
    drawn = f"{len(spread.outcomes)} quasi-random draws, seed {answer.seed}."
    drawn += doubts(spread)
    if spread.indices is not None:
        drawn += (
            f"\nShares of the variance of log10 FLOP, from two samples of {spread.indices.n}, with 90% "
            "intervals by the bootstrap;\n'alone' is the first order, 'in total' holds all interactions."
        )
    return drawn
