"""Reads what a sweep asks for, from a TOML file or a table, and checks it before anything is computed."""

from __future__ import annotations

import hashlib
import itertools
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.errors import InputError, InputErrors, nearest
from scalewall.schema import read_toml, whole
from scalewall.study.distributions import SEQUENCES
from scalewall.study.sweep_asks import ASKS, device_numbers, number
from scalewall.study.sweep_design import RESERVED, TABLES, Design, Sample
from scalewall.units import parse
from scalewall.workload.formats import model_names

MOST_SCENARIOS = 10_000_000
_PARTS = ("ask", "scenario", "grid", "list", "sample")
_SPACED = ("from", "to", "points", "spacing")
_MOST_PROBES = 2_000  # values and rows that are tried before the sweep begins


def read_sweep(source: str | Path | Mapping[str, Any]) -> Design:
    """Return the sweep that a TOML file, or a table of the same form, asks for.

    Raises
    ------
    InputError
        If it is wrong; several faults are reported together.
    """
    tables = _plain(dict(source)) if isinstance(source, Mapping) else read_toml(Path(source))
    for name in sorted(set(tables) - set(_PARTS)):
        raise InputError(name, "absent or a part of a sweep", name, nearest(name, _PARTS))
    ask = tables.get("ask", "limits")
    if ask not in ASKS:
        raise InputError("ask", f"one of {', '.join(ASKS)}", ask, nearest(str(ask), ASKS))
    base = _table(tables.get("scenario", {}), "scenario")
    grid = _table(tables.get("grid", {}), "grid")
    listed = tables.get("list", [{}])
    if not isinstance(listed, list) or not listed or not all(isinstance(row, dict) for row in listed):
        raise InputError("list", "at least one table of fields, as [[list]]", listed)
    sample = _sample(tables["sample"]) if "sample" in tables else None
    if not grid and sample is None and not any(listed):
        raise InputError("grid", "given, or a list or a sample", None)
    design = Design(ask=ask, base=base, grid={}, listed=tuple(listed), sample=sample)
    known = _known(design, grid)
    _check_names(design, grid, known)
    design = attrs.evolve(
        design,
        base={n: v if n in TABLES else _value(ask, n, v, f"scenario.{n}") for n, v in base.items()},
        grid={name: _axis(ask, name, values, known) for name, values in grid.items()},
        listed=tuple(
            {n: _value(ask, n, v, f"list[{i}].{n}") for n, v in row.items()} for i, row in enumerate(listed)
        ),
    )
    if design.size > MOST_SCENARIOS:
        raise InputError("file", f"a sweep of at most {MOST_SCENARIOS:,} scenarios", f"{design.size:,}")
    design = attrs.evolve(design, files=_files(design))
    _probe(design)
    return design


def _plain(value: Any) -> Any:
    """Return tables of Python, NumPy or polars as TOML would hold them."""
    if hasattr(value, "to_dicts"):
        return value.to_dicts()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _table(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(field, "a table of fields", value)
    return value


def _sample(table: Any) -> Sample:
    known = [a.name for a in attrs.fields(Sample)]
    table = _table(table, "sample")
    for name in sorted(set(table) - set(known)):
        raise InputError(f"sample.{name}", "absent or a known field", name, nearest(name, known))
    for name in ("size", "seed", "inputs"):
        if name not in table:
            raise InputError(f"sample.{name}", "given", None)
    sequence = table.get("sequence", "sobol")
    if sequence not in SEQUENCES:
        raise InputError("sample.sequence", f"one of {', '.join(SEQUENCES)}", sequence)
    inputs = _table(table["inputs"], "sample.inputs")
    if not set(inputs) - {"correlation"}:
        raise InputError("sample.inputs", "a table with at least one field", inputs)
    return Sample(
        size=whole(table["size"], "sample.size", 1, MOST_SCENARIOS),
        seed=whole(table["seed"], "sample.seed", 0, 2**63 - 1),
        sequence=sequence,
        inputs=inputs,
    )


# Names and values ------------------------------------------------------------------------------------


def _devices(design: Design, grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the words for device and preset that scenarios may have, a few of them."""
    choices = []
    for name in ("hardware", "preset"):
        values = [design.base.get(name)]
        values += [row.get(name) for row in design.listed]
        axis = grid.get(name)
        values = axis if isinstance(axis, list) else values
        choices.append(list(dict.fromkeys(v for v in values if v is None or isinstance(v, str)))[:64])
    pairs = itertools.product(choices[0] or [None], choices[1] or [None])
    found = [{n: v for n, v in zip(("hardware", "preset"), pair, strict=True) if v} for pair in pairs]
    return found[:64]


def _known(design: Design, grid: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that may vary, those of devices with what they are."""
    found: dict[str, Any] = dict.fromkeys(ASKS[design.ask].words)
    for device in _devices(design, grid):
        try:
            found = {**device_numbers(design.ask, device), **found}
        except InputError:
            continue  # what is wrong with it is said where scenarios are tried
    return found


def _check_names(design: Design, grid: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    faults = []
    must = f"a field of '{design.ask}'"
    sampled = design.sample.names if design.sample else ()
    places = [("scenario", name) for name in design.base if name not in TABLES]
    places += [("grid", name) for name in grid] + [("sample.inputs", name) for name in sampled]
    places += [(f"list[{i}]", name) for i, row in enumerate(design.listed) for name in row]
    for place, name in places:
        if name not in known or name in RESERVED:
            faults.append(InputError(f"{place}.{name}", must, name, nearest(name, known)))
        if len(faults) == 20:
            break
    of_list = {name for row in design.listed for name in row}
    for name in grid:
        if name in of_list or name in sampled or name in design.base:
            other = "list" if name in of_list else "sample" if name in sampled else "scenario"
            faults.append(InputError(f"grid.{name}", f"left out here or in '{other}'", name))
    for name in of_list & set(sampled):
        faults.append(InputError(f"sample.inputs.{name}", "left out here or in 'list'", name))
    for name in ASKS[design.ask].needs:
        if name not in {*design.base, *grid, *of_list, *sampled}:
            faults.append(InputError(f"scenario.{name}", f"given where 'ask' is {design.ask}", None))
    if faults:
        raise faults[0] if len(faults) == 1 else InputErrors(faults)


def _axis(ask: str, name: str, values: Any, known: Mapping[str, Any]) -> tuple[Any, ...]:
    field = f"grid.{name}"
    if isinstance(values, dict):
        return _spaced(ask, name, values, known)
    if not isinstance(values, list) or not values:
        raise InputError(field, "a list of at least one value, or { from, to, points, spacing }", values)
    if len(values) > MOST_SCENARIOS:
        raise InputError(field, f"at most {MOST_SCENARIOS:,} values", len(values))
    found = tuple(_value(ask, name, value, f"{field}[{i}]") for i, value in enumerate(values))
    if len({repr(value) for value in found}) < len(found):
        twice = next(value for i, value in enumerate(found) if value in found[:i])
        raise InputError(field, "a list of different values", twice)
    return found


def _spaced(ask: str, name: str, table: dict[str, Any], known: Mapping[str, Any]) -> tuple[Any, ...]:
    field = f"grid.{name}"
    for key in sorted(set(table) - set(_SPACED)):
        raise InputError(f"{field}.{key}", "absent or a known field", key, nearest(key, _SPACED))
    for key in _SPACED[:3]:
        if key not in table:
            raise InputError(f"{field}.{key}", "given", None)
    given = number(ask, name) if name in ASKS[ask].words else known[name]
    if given is None:
        raise InputError(field, "a list of values, as this field is no number", table)
    points = whole(table["points"], f"{field}.points", 2, MOST_SCENARIOS)
    spacing = table.get("spacing", "linear")
    if spacing not in ("linear", "log"):
        raise InputError(f"{field}.spacing", "linear or log", spacing)
    low, high = (parse(table[key], given.unit, f"{field}.{key}") for key in ("from", "to"))
    if not (low < high < math.inf and (spacing == "linear" or low > 0)):
        must = "more than 'from', which must be positive where the spacing is log"
        raise InputError(f"{field}.to", must, table["to"])
    spaced = np.geomspace(low, high, points) if spacing == "log" else np.linspace(low, high, points)
    values = spaced.tolist()
    return tuple(dict.fromkeys(round(v) for v in values) if given.whole else values)


def _value(ask: str, name: str, value: Any, field: str) -> Any:
    """Return a value in SI where it is a number; what cannot be read stays, to be complained of."""
    given = number(ask, name) if name in ASKS[ask].words else None
    if isinstance(value, (dict, list)) and not value:
        raise InputError(field, "not empty", value)
    if given is None or not isinstance(value, (int, float, str)) or isinstance(value, bool):
        return value
    try:
        found = parse(value, given.unit, field)
        return int(found) if given.whole and found % 1 == 0 else found
    except (InputError, OverflowError):
        return value


# Files and trials ------------------------------------------------------------------------------------


def _files(design: Design) -> dict[str, tuple[str, str]]:
    """Return where each file is that a scenario names, and its content's digest."""
    texts = []
    for name in ("hardware", "model"):
        values = [
            design.base.get(name),
            *design.grid.get(name, ()),
            *(row.get(name) for row in design.listed),
        ]
        for value in values:
            for text in value if isinstance(value, list) else (value,):
                if isinstance(text, str) and (
                    text.endswith(".toml") if name == "hardware" else _is_model_file(text)
                ):
                    texts.append(text)
    return {text: (str(Path(text).absolute()), file_digest(text)) for text in dict.fromkeys(texts)}


def _is_model_file(text: str) -> bool:
    return text not in model_names() and bool(Path(text).suffix)


def file_digest(path: str | Path) -> str:
    """Return a digest of a file's content, and of the files that it is based on; empty if unreadable."""
    found, here, seen = hashlib.sha256(), Path(path), set[Path]()
    while here not in seen:
        seen.add(here)
        try:
            content = here.read_bytes()
        except OSError:
            return ""  # what is wrong with it is said where scenarios are tried
        found.update(content)
        try:
            base = tomllib.loads(content.decode()).get("base") if here.suffix == ".toml" else None
        except (ValueError, RecursionError):
            base = None
        if not (isinstance(base, str) and base.endswith(".toml")):
            break
        here = (here.parent / base).resolve()
    return found.hexdigest()[:32]


def _probe(design: Design) -> None:
    """Raise what is wrong with a value whatever goes with it: each is tried with the others' first and last.

    What only some combinations make impossible is no fault of the sweep; their rows say so.
    """
    _check_draws(design)
    sampled = design.sample.names if design.sample else ()
    ends = []
    for end in (0, -1):
        words = {**design.base, **{n: v[end] for n, v in design.grid.items()}, **design.listed[end]}
        words |= _middle(design, words) if sampled else {}
        ends.append(words)
    trials: list[tuple[str, dict[str, Any]]] = [("", {})]
    trials += [(f"grid.{n}", {n: v}) for n, values in design.grid.items() for v in values[:_MOST_PROBES]]
    rows = enumerate(design.listed[:_MOST_PROBES])
    trials += [(f"list[{i}]", dict(row)) for i, row in rows if row]
    faults: list[InputError] = []
    of_rows = {name for row in design.listed for name in row}
    for place, own in trials[: 2 * _MOST_PROBES]:
        found: list[InputError] = []
        for words in ends:
            row = {
                name: value
                for name, value in words.items()
                if not (place.startswith("list") and name in of_rows)
            }
            try:
                _try(design, {**row, **own})
                break
            except InputError as error:
                found.append(error)
        else:
            faults += _placed(design, place, found[0])
            if not place or len(faults) >= 20:
                break
    if faults:
        unique = list({str(fault): fault for fault in faults}.values())
        raise unique[0] if len(unique) == 1 else InputErrors(unique)


def _middle(design: Design, words: Mapping[str, Any]) -> dict[str, Any]:
    drawn = design.distributions(words.get("hardware"), words.get("preset"))
    values = drawn.draw(np.full((1, len(drawn.inputs)), 0.5))[0].tolist()
    known = zip(drawn.inputs, values, strict=True)
    return {some.name: int(value) if some.given.whole else value for some, value in known}


def _try(design: Design, words: Mapping[str, Any]) -> None:
    own = {*ASKS[design.ask].words, *TABLES}
    said = {name: _path(design, value) for name, value in words.items() if value is not None}
    ASKS[design.ask].read(
        {name: value for name, value in said.items() if name in own},
        {name: value for name, value in said.items() if name not in own},
    )


def _path(design: Design, value: Any) -> Any:
    return [design.path(v) for v in value] if isinstance(value, list) else design.path(value)


def _placed(design: Design, place: str, fault: InputError) -> list[InputError]:
    """Return faults with the field's place in the file before it."""
    if isinstance(fault, InputErrors):
        return [found for one in fault.errors for found in _placed(design, place, one)]
    name = fault.field.split(".")[0].split("[")[0]
    if name in design.grid:
        return [fault.within("grid")]
    if place.startswith("list") or (name not in design.base and any(name in row for row in design.listed)):
        return [fault.within(place if place.startswith("list") else "list[0]")]
    if design.sample and name in design.sample.names:
        return [fault.within("sample.inputs")]
    return [fault.within("scenario")]


def _check_draws(design: Design) -> None:
    """Raise what is wrong with the distributions, on each device."""
    if design.sample is None:
        return
    for device in _devices(design, {n: list(v) for n, v in design.grid.items()}):
        try:
            design.distributions(device.get("hardware"), device.get("preset"))
        except InputErrors as errors:
            raise InputErrors([_of_sample(error) for error in errors.errors]) from None
        except InputError as error:
            raise _of_sample(error) from None


def _of_sample(error: InputError) -> InputError:
    if not error.field.startswith("uncertain"):
        return error.within("scenario")
    field = "sample.inputs" + error.field.removeprefix("uncertain")
    return InputError(field, error.must, error.got, error.hint)
