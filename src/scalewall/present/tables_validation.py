"""Predicted against measured as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalewall.present.tables import show_table
from scalewall.study.records_plan import credit, reasons
from scalewall.study.validation import Compared, Validation
from scalewall.units import show

MOST_REASONS = 25


def show_validation(console: Console, answer: Validation, rows: bool = False) -> None:
    """Print how far predictions are from measurements: in all, by source, by device; and what was skipped."""
    summary = answer.summary
    if rows:
        show_table(console, rows_table(answer))
        console.print()
    for title, groups in (("source", summary.by_source), ("device", summary.by_device)):
        if groups:
            show_table(console, groups_table(title, groups))
            console.print()
    found = reasons(answer)
    if found:
        show_table(console, _reasons_table(found))
        console.print()
    for line in words(answer):
        console.print(Text(line), soft_wrap=True)


def words(answer: Validation) -> Iterator[str]:
    """Yield the errors in all, and whose the measurements are."""
    summary = answer.summary
    if summary.n:
        yield (
            f"{summary.n} runs: median absolute error {summary.median_abs_error:.1%}, 90th percentile "
            f"{summary.p90_abs_error:.1%}, mean {summary.mean_abs_error:.1%}. {summary.skipped} rows skipped."
        )
    else:
        yield f"No run says enough to be simulated; {summary.skipped} rows skipped."
    if said := credit(answer.rows):
        yield said


def groups_table(title: str, groups: Mapping[str, Mapping[str, float]]) -> Table:
    """Return errors by group, one a row; the bias is the median of what is predicted over measured."""
    table = Table(box=None, pad_edge=False)
    for name in (title, "runs", "median error", "mean error", "bias"):
        table.add_column(name, justify="left" if name == title else "right", no_wrap=True)
    for key, group in groups.items():
        errors = (f"{group[name]:.1%}" for name in ("median_abs_error", "mean_abs_error"))
        table.add_row(Text(key), str(group["n"]), *errors, f"{group['median_error']:+.1%}")
    return table


def rows_table(answer: Validation) -> Table:
    """Return every run, one a row, with what it left open."""
    table = Table(box=None, pad_edge=False)
    right = {"devices", "measured", "predicted", "error", "micro-batch", "vpp", "MFU"}
    for name in ("id", "model", "device", "devices", "precision", "software", "measured", "predicted"):
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for name in ("error", "MFU", "micro-batch", "vpp", "recomputed", "searched, settled"):
        table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    for row in answer.rows:
        table.add_row(
            Text(row.id),
            Text(row.model),
            Text(row.device),
            f"{row.devices:,}",
            row.precision,
            row.software,
            show(row.measured_step_time_s, "s"),
            show(row.predicted_step_time_s, "s"),
            f"{row.error:+.1%}",
            f"{row.mfu:.1%}",
            str(row.micro_batch),
            str(row.interleave),
            _recomputed(row),
            Text(open_points(row)),
        )
    return table


def open_points(row: Compared) -> str:
    """Return what a run left open: what was searched, and how the rest was settled."""
    searched = (
        [f"searched: {', '.join(name.replace('_', '-') for name in row.searched)}"] if row.searched else []
    )
    return "; ".join([*searched, *row.settled])


def _recomputed(row: Compared) -> str:
    if row.recomputed:
        return f"{row.recomputed:.0%} of layers"
    return "selective" if row.selective else "nothing"


def _reasons_table(found: list[tuple[str, int]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("skipped", justify="right")
    table.add_column("as the row", no_wrap=True)
    for reason, count in found[:MOST_REASONS]:
        table.add_row(str(count), Text(reason))
    rest = found[MOST_REASONS:]
    if rest:
        table.add_row(str(sum(count for _, count in rest)), f"({len(rest)} further reasons; --json has all)")
    return table
