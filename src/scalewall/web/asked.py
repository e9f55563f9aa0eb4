"""From a visitor's entries to the objects that `study` takes. Nothing here trusts what it gets.

A visitor names entries of the catalogues or pastes text. Names are looked up, never opened; a pasted
text is written to a file of a folder that exists for one job, and may itself be based on a name alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from scalewall.errors import InputError, nearest
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.schema import whole
from scalewall.study.inputs import Input, inputs
from scalewall.study.planning import PlanScenario, plan_scenario
from scalewall.study.scenario import PAPER_PRESET, Scenario, scenario
from scalewall.units import parse, show
from scalewall.web import toml
from scalewall.web.fields import MOST_POINTS, MOST_STRATEGIES, POINTS, limits_fields, plan_fields
from scalewall.workload.formats import model_names

MOST_RUNS = 7
"""Scenarios on the page, as many as there are colours."""

MOST_TEXT, MOST_PASTE, MOST_NAME = 200, 20_000, 60
LIMITS_WORDS = frozenset(field.key for field in limits_fields())
PLAN_WORDS = frozenset(field.key for field in plan_fields())


@attrs.frozen(kw_only=True)
class Entry:
    """One scenario as a visitor entered it: words by field, changed numbers of the device, pasted texts."""

    name: str = ""
    words: Mapping[str, str] = attrs.field(factory=dict)
    device: Mapping[str, str] = attrs.field(factory=dict)
    paste: str = ""
    model: str = ""


def read_entry(value: object, words: frozenset[str]) -> Entry:
    """Return what a visitor's browser sent as an entry.

    Raises
    ------
    InputError
        If it is none.
    """
    must = "a scenario of this page"
    if not isinstance(value, Mapping):
        raise InputError("link", must, value)
    texts = {name: value.get(name, "") for name in ("name", "paste", "model")}
    tables = {name: value.get(name) or {} for name in ("words", "device")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise InputError(name, "text", text)
        texts[name] = _whole_characters(text)
    texts["name"] = texts["name"][:MOST_NAME]
    for name, table in tables.items():
        if not isinstance(table, Mapping) or len(table) > 60:
            raise InputError(name, "a table", table)
        for key, text in table.items():
            if not isinstance(key, str) or len(key) > 60:
                raise InputError(name, "a table of texts", key)
            if name == "words" and key not in words:
                raise InputError(key, "a field of this page", text)
            if not isinstance(text, str) or len(text) > MOST_TEXT:
                raise InputError(key, f"text of at most {MOST_TEXT} characters", text)
    given, changed = (
        {key: _whole_characters(text.strip()) for key, text in table.items() if text.strip()}
        for table in tables.values()
    )
    return Entry(**texts, words=given, device=changed)


def _whole_characters(text: str) -> str:
    """Return `text` with half characters, which JSON may hold and no file can, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_limits(value: object) -> Entry:
    """Return an entry of the limits page."""
    return read_entry(value, LIMITS_WORDS)


def read_plan(value: object) -> Entry:
    """Return an entry of the plan page."""
    return read_entry(value, PLAN_WORDS)


@contextlib.contextmanager
def folder() -> Iterator[None]:
    """Work in a new folder, which is removed after; for a process that does one thing at a time."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="scalewall-") as path:
        os.chdir(path)
        try:
            yield
        finally:
            os.chdir(before)


def limits_scenario(entry: Entry) -> Scenario:
    """Return the scenario of an entry of the limits page; within `folder`.

    Raises
    ------
    InputError
        For all that is wrong.
    """
    words: dict[str, Any] = dict(entry.words)
    for name, text in words.items():
        if name.startswith("overlap_"):
            words[name] = {"true": True, "false": False}.get(text, text)
    if words.get("preset") != PAPER_PRESET:
        words.setdefault("points", POINTS)
    whole(words.get("points", 2), "points", 2, MOST_POINTS)
    hardware = _hardware(entry, words.pop("hardware", "h100-sxm"), words.get("preset"))
    plain = scenario(hardware=hardware, **words)
    if not entry.device:
        plain.clusters  # noqa: B018  read now, while the folder is there
        return plain
    made = scenario(hardware=_changed(entry, plain), **words)
    made.clusters  # noqa: B018
    return made


def plan_words(entry: Entry) -> PlanScenario:
    """Return the scenario of an entry of the plan page; within `folder`.

    Raises
    ------
    InputError
        For all that is wrong.
    """
    words: dict[str, Any] = {field.key: field.default for field in plan_fields() if field.default}
    words |= entry.words
    whole(words["top"], "top", 1, MOST_STRATEGIES)
    name = words["model"]
    if entry.model.strip():
        words["model"] = _pasted_model(entry.model)
    elif name not in model_names():
        raise InputError("model", "a model of the catalogue", name, nearest(name, model_names()))
    hardware = _hardware(entry, words["hardware"], words.get("preset"))
    if entry.device:
        hardware = _changed(entry, scenario(hardware=hardware, preset=words.get("preset")))
    return plan_scenario(**{**words, "hardware": hardware})


def _hardware(entry: Entry, name: str, preset: str | None) -> str:
    """Return the name of a catalogue's device, or that of the file which a pasted one was written to."""
    if preset is not None and preset not in catalogue.presets():
        raise InputError("preset", "a known preset", preset, nearest(preset, catalogue.presets()))
    known = catalogue.names(preset)
    if entry.paste.strip():
        tables = _parsed(entry.paste, "paste", "TOML", tomllib.loads)
        base = tables.get("base")
        if base is not None and base not in known:
            raise InputError("base", "a device of the catalogue", base, nearest(str(base), known))
        return _written(entry.paste, tables.get("name"), "my-device", ".toml")
    if name not in known:
        where = f"a device of the preset {preset}" if preset else "a device of the catalogue"
        raise InputError("hardware", where, name, nearest(name, known))
    return name


def _pasted_model(text: str) -> str:
    if text.lstrip().startswith("{"):
        _parsed(text, "model", "JSON", json.loads)
        return _written(text, None, "my-model", ".json")
    tables = _parsed(text, "model", "TOML", tomllib.loads)
    base = tables.get("base")
    if base is not None and base not in model_names():
        raise InputError("base", "a model of the catalogue", base, nearest(str(base), model_names()))
    return _written(text, tables.get("name"), "my-model", ".toml")


def _parsed(text: str, field: str, language: str, parse: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    if len(text) > MOST_PASTE:
        hint = f"It has {len(text):,} characters."
        raise InputError(field, f"text of at most {MOST_PASTE:,} characters", text, hint)
    try:
        return parse(text)
    except (ValueError, RecursionError) as error:
        raise InputError(field, f"valid {language}", text, f"{str(error).splitlines()[0]}.") from None


def _written(text: str, name: object, default: str, ending: str) -> str:
    """Write a text to the folder, under its name of letters, digits and hyphens; over no other text."""
    stem = slug(name if isinstance(name, str) else default, default)
    paths = (Path(f"{stem}{f'-{n}' if n > 1 else ''}{ending}") for n in itertools.count(1))
    path = next(path for path in paths if not path.exists() or path.read_text(encoding="utf-8") == text)
    path.write_text(text, encoding="utf-8")
    return path.name


def slug(name: str, default: str = "my-device") -> str:
    """Return `name` as what a file can be called: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:MOST_NAME] or default


def device_inputs(asked: Scenario, cluster: Cluster) -> Iterator[tuple[Input, str]]:
    """Yield the numbers of a device and its network that a form changes, and the path of each."""
    for name, one in inputs(asked, cluster).items():
        near = (v for v in (one.value + 1.0, 0.5 * one.value, 1.5 * one.value) if one.allows(v))
        after, changed = one.set(asked, cluster, next(near, one.value))
        paths = toml.changes(cluster, changed)
        if after == asked and name != "latency":  # which is all latencies together
            own = f"device.peak.{asked.how.precision}"  # of all precisions, which change together
            yield one, own if name == "peak_rate" and own in paths else paths[0]


def _changed(entry: Entry, asked: Scenario) -> str:
    """Return the file of the scenario's device with what the entry changes of it."""
    (base,) = asked.clusters
    cluster, known, faults = base, dict(inputs(asked, base)), []
    for name, text in entry.device.items():
        if name not in known:
            raise InputError(name, "a number of this device", text, nearest(name, known))
        try:
            asked_value = parse(text, known[name].unit, name)
            cluster = inputs(asked, cluster)[name].set(asked, cluster, asked_value)[1]
        except InputError as fault:
            faults.append(InputError(name, fault.must, text, fault.hint))
    if faults:
        raise faults[0]
    text = toml.overlaid(base, cluster, asked.hardware[0])
    return _written(text, f"my-{base.name.removeprefix('my-')}", "my-device", ".toml")


@attrs.frozen(kw_only=True)
class Fact:
    """One number of a scenario's device: what it is, what it stands at, and where that comes from."""

    key: str
    label: str
    unit: str
    doc: str
    shown: str
    value: float
    source: str
    derived: bool


def facts(entry: Entry) -> list[Fact]:
    """Return the numbers of an entry's device before it was changed; within `folder`."""
    bare = attrs.evolve(
        entry, device={}, words={k: v for k, v in entry.words.items() if k in {"hardware", "preset"}}
    )
    asked = limits_scenario(bare)
    (cluster,) = asked.clusters
    found = []
    for one, path in device_inputs(asked, cluster):
        source = cluster.sources.get(path)
        found.append(
            Fact(
                key=one.name,
                label=one.name.replace("_", " ").capitalize(),
                unit=one.unit,
                doc=one.doc,
                shown=show(one.value, one.unit, 6),
                value=one.value,
                source=source.text if source else "default, or the pasted text",
                derived=bool(source and source.derived),
            )
        )
    return found
