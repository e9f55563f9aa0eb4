"""Commands on what answers rest on: hardware and assumptions."""

from __future__ import annotations

from scalewall.cli.shown import console, print_json
from scalewall.cli.words import Json, Word

TITLES = {
    "practice": "Real runs: what systems do that hardware does not say (--set of 'plan' and 'validate')",
    "allowance": "Real runs: memory that no formula gives (--set of 'plan' and 'validate')",
    "software": "Real runs: frameworks (--software of 'plan')",
}


def hardware(name: str | None = None, /, *, preset: Word = None, json: Json = False) -> None:
    """The hardware catalogue, or one entry with the unit and source of every number.

    Parameters
    ----------
    name
        A name of the catalogue or the path of a .toml file; all if left out.
    preset
        Preset whose entries are meant.
    json
        Print one JSON document instead of a table.
    """
    from scalewall.hardware import catalogue
    from scalewall.present import tables
    from scalewall.study import records

    if name is None:
        entries = catalogue.load_all(preset)
        if json:
            print_json({"hardware": [records.of_hardware(entry) for entry in entries]})
        else:
            console().print(tables.hardware_list(entries))
        return
    entry = catalogue.load(name, preset)
    if json:
        print_json(records.of_hardware(entry))
    else:
        console().print(tables.hardware_entry(entry))


def assumptions(*, json: Json = False) -> None:
    """Every assumption that belongs to no device: meaning, unit, default and source.

    Those of limits come first, then the constants of plans of real runs, then what frameworks do.

    Parameters
    ----------
    json
        Print one JSON document instead of a table.
    """
    from scalewall.present import tables, tables_models
    from scalewall.study import records, records_plan

    sections = {
        "assumptions": records.assumptions(),
        "practice": records_plan.practice(),
        "allowance": records_plan.allowance(),
    }
    if json:
        print_json({**sections, "software": records_plan.frameworks()})
        return
    screen = console()
    for title, entries in sections.items():
        if title != "assumptions":
            screen.print(f"\n{TITLES[title]}\n", style="bold")
        screen.print(tables.assumptions_table(entries))
    screen.print(f"\n{TITLES['software']}\n", style="bold")
    screen.print(tables_models.frameworks_table(records_plan.frameworks()))
