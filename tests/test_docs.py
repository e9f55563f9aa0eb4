"""What the documentation says of constants is what the code has."""

from __future__ import annotations

from pathlib import Path

from scalewall.present import tables_plan
from scalewall.study.planning import plan_scenario
from scalewall.study.records_plan import practice
from scalewall.units import show

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_every_column_of_a_plans_table_is_explained() -> None:
    scenario = plan_scenario(model="llama-3.1-8b", hardware="h100-sxm", gpus=8, batch=8, seq=4096)
    columns = [str(column.header) for column in tables_plan.strategies_table(scenario, []).columns]
    table = (DOCS / "plan.md").read_text(encoding="utf-8").split("| column |")[1].split("\n\n")[0]
    told = [row.split(" | ")[0].strip("| `") for row in table.splitlines()[2:]]
    assert told == [name for name in columns if name]


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
