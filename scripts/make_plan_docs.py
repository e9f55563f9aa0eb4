"""Make what docs/plan.md and docs/validation.md show of the constants and of the runs that ship.

    python scripts/make_plan_docs.py [--no-pictures]

The tables between the marks are written anew, and the pictures drawn; these need kaleido and a browser.
Run it whenever a constant or a formula of `plan` changes. Needs SciPy, a development dependency.
"""

import sys
from pathlib import Path

import numpy as np
from fit_runs import FITTED_TO

from scalewall.present.figures_plan import planning_figure
from scalewall.present.figures_validation import validation_figure
from scalewall.study.plan import plan
from scalewall.study.records_plan import practice
from scalewall.study.validation import Validation, validate_file
from scalewall.units import show

DOCS = Path(__file__).resolve().parents[1] / "docs"


def put(page: str, mark: str, lines: list[str]) -> None:
    """Write `lines` between the marks of a page."""
    path = DOCS / page
    before, rest = path.read_text(encoding="utf-8").split(f"<!-- {mark} -->\n")
    after = rest.split("<!-- end -->\n", 1)[1]
    text = f"{before}<!-- {mark} -->\n{chr(10).join(lines)}\n<!-- end -->\n{after}"
    path.write_text(text, encoding="utf-8")


def constants() -> list[str]:
    """Return the constants of real runs as a table."""
    rows = [
        f"| `{one['name']}` | {show(one['default'], one['unit'])} | {one['doc']} | {one['source']} |"
        for one in practice()
    ]
    return ["| constant | default | what it is | source |", "|---|---|---|---|", *rows]


def summary(answer: Validation, fitted: bool) -> str:
    """Return the errors of the runs that were fitted to, or of the others, in a line."""
    errors = np.abs([row.error for row in answer.rows if (row.source in FITTED_TO) is fitted])
    return (
        f"{len(errors)} runs, median {np.median(errors):.1%}, "
        f"90th percentile {np.quantile(errors, 0.9):.1%}, mean {np.mean(errors):.1%}"
    )


def errors_by_source(answer: Validation) -> list[str]:
    """Return the errors by source as a table, below those of all."""
    found = answer.summary
    rows = [
        f"| {name} | {'fitted' if name in FITTED_TO else 'held out'} | {group['n']} "
        f"| {group['median_abs_error']:.1%} | {group['mean_abs_error']:.1%} | {group['median_error']:+.1%} |"
        for name, group in found.by_source.items()
    ]
    return [
        f"All: {found.n} runs, median absolute error {found.median_abs_error:.1%}, 90th percentile "
        f"{found.p90_abs_error:.1%}, mean {found.mean_abs_error:.1%}; {found.skipped} rows skipped.",
        f"Fitted to: {summary(answer, True)}.",
        f"Held out: {summary(answer, False)}.",
        "",
        "| source | | runs | median error | mean error | bias |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def main(arguments: list[str]) -> None:
    """Write tables, and pictures unless told not to."""
    answer = validate_file()
    put("plan.md", "practice", constants())
    put("validation.md", "errors", errors_by_source(answer))
    if "--no-pictures" not in arguments:
        words = {"model": "gpt3-175b", "hardware": "a100-80gb-sxm", "gpus": 512, "batch": 64, "seq": 2048}
        planned = plan(**words, tp=8, pp=8, vpp=1, micro_batch=1)
        planning_figure(planned).write_image(DOCS / "plan.png", scale=1)
        validation_figure(answer).write_image(DOCS / "validation.png", scale=1)


if __name__ == "__main__":
    main(sys.argv[1:])
