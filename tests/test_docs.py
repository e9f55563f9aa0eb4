"""What the documentation says of constants is what the code has."""

from __future__ import annotations

from pathlib import Path

from scalewall.study.records_plan import practice
from scalewall.units import show

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_the_constants_of_real_runs_are_those_of_the_code() -> None:
    told = (
        (DOCS / "plan.md")
        .read_text(encoding="utf-8")
        .split("<!-- practice -->\n")[1]
        .split("<!-- end -->")[0]
    )
    rows = [line.strip("| ").split(" | ") for line in told.splitlines()[2:]]
    wanted = [
        [f"`{one['name']}`", show(one["default"], one["unit"]), one["doc"], one["source"]]
        for one in practice()
    ]
    assert rows == wanted, "run scripts/make_plan_docs.py"
