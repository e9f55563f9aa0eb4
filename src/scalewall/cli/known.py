"""Commands on what answers rest on: hardware and assumptions."""

from __future__ import annotations

from scalewall.cli.shown import console, print_json
from scalewall.cli.words import Json, Word


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

    Parameters
    ----------
    json
        Print one JSON document instead of a table.
    """
    from scalewall.present import tables
    from scalewall.study import records

    if json:
        print_json({"assumptions": records.assumptions()})
    else:
        console().print(tables.assumptions_table(records.assumptions()))
