"""The catalogue: one TOML file a device with its usual network, a source for every number.

Entries of the product stand in ``scalewall/catalogue/NAME.toml``; those of a preset in a folder of
the preset's name. A user's own file is accepted wherever a name is. An
entry may name another as its ``base`` and say only what differs.

A number may stand alone (``memory = "80 GB"``) or with its source
(``memory = { value = "80 GB", source = "datasheet", date = "2022-09" }``), or with how it was
worked out (``derived = "…"`` in place of ``source``).
"""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path
from typing import Any

from scalewall.errors import InputError, nearest
from scalewall.hardware.cluster import Cluster, Source
from scalewall.hardware.device import GENERIC
from scalewall.schema import read_toml, structure

_WRAPPED = {"value", "source", "derived", "date"}
_ROOT = Path(str(files("scalewall"))) / "catalogue"


def presets() -> list[str]:
    """Return the names of the presets, each a set of hardware entries from one study."""
    return sorted(folder.name for folder in _ROOT.iterdir() if folder.is_dir())


def names(preset: str | None = None) -> list[str]:
    """Return the names of all entries that `preset` (or the catalogue proper) has."""
    return sorted(path.stem for path in _folder(preset).glob("*.toml"))


def load(name: str, preset: str | None = None) -> Cluster:
    """Return the entry called `name`, or the one in the TOML file at the path `name`.

    Parameters
    ----------
    name
        A name of the catalogue (``h100-sxm``), or the path of a file that ends in ``.toml``.
    preset
        A preset whose entries are used in place of the catalogue's.

    Raises
    ------
    InputError
        If there is no such entry, or the file is wrong; all its faults are reported in one go.
    """
    if name.endswith(".toml"):
        return _cluster(Path(name), preset)
    return _cached(name, preset)


def load_all(preset: str | None = None) -> list[Cluster]:
    """Return every entry, in order of name."""
    return [load(name, preset) for name in names(preset)]


@functools.cache
def _cached(name: str, preset: str | None) -> Cluster:
    return _cluster(_path(name, preset), preset)


def _folder(preset: str | None) -> Path:
    if preset is None:
        return _ROOT
    if preset not in presets():
        raise InputError("preset", "a known preset", preset, nearest(preset, presets()))
    return _ROOT / preset


def _path(name: str, preset: str | None) -> Path:
    known = names(preset)
    if name not in known:
        where = f"a device of the preset {preset}" if preset else "a device of the catalogue"
        raise InputError("hardware", f"{where} or the path of a .toml file", name, nearest(name, known))
    return _folder(preset) / f"{name}.toml"


def _cluster(path: Path, preset: str | None) -> Cluster:
    tables, sources = _tables(path, preset, ())
    if "sources" in tables:
        raise InputError(
            "sources", "given beside each number, as in { value = …, source = … }", tables["sources"]
        )
    tables.setdefault("device", {})
    if isinstance(tables["device"], dict):
        tables["device"].setdefault("name", path.stem)
    cluster = structure({"name": path.stem, **tables, "sources": sources}, Cluster)
    if cluster.device.curves not in (known := {GENERIC, *names()}):
        must, said = f"a device of the catalogue, or {GENERIC}", cluster.device.curves
        raise InputError("device.curves", must, said, nearest(said, known))
    return cluster


def _tables(
    path: Path, preset: str | None, seen: tuple[Path, ...]
) -> tuple[dict[str, Any], dict[str, Source]]:
    """Return an entry's tables, laid over those of its base, and the sources of both."""
    if path in seen:
        raise InputError("base", "an entry that is not based on this one", str(path))
    tables, sources = split_sources(read_toml(path))
    base = tables.pop("base", None)
    if base is None:
        if _ROOT in path.parents:  # what is laid over an entry keeps its curves
            tables["device"].setdefault("curves", path.stem)
        return tables, sources
    if not isinstance(base, str):
        raise InputError("base", "the name of an entry", base)
    under_path = (path.parent / base).resolve() if base.endswith(".toml") else _path(base, preset)
    under, under_sources = _tables(under_path, preset, (*seen, path))
    under_sources = {p: s for p, s in under_sources.items() if not _replaced(p, tables)}
    return _overlay(under, tables), {**under_sources, **sources}


def split_sources(tables: Any, path: str = "") -> tuple[Any, dict[str, Source]]:
    """Return `tables` with every wrapped value laid bare, and the sources by path."""
    if isinstance(tables, dict) and "value" in tables:
        for key in sorted(set(tables) - _WRAPPED):
            raise InputError(f"{path}.{key}", "absent or a known field", key, nearest(key, _WRAPPED))
        derived = tables.get("derived")
        source = Source(
            text=str(derived or tables.get("source", "")),
            date=str(tables.get("date", "")),
            derived=derived is not None,
        )
        return tables["value"], {path: source}
    sources: dict[str, Source] = {}
    if isinstance(tables, dict):
        bare: dict[str, Any] = {}
        for key, value in tables.items():
            bare[key], found = split_sources(value, f"{path}.{key}" if path else key)
            sources |= found
        return bare, sources
    if isinstance(tables, list):
        parts = [split_sources(value, f"{path}[{i}]") for i, value in enumerate(tables)]
        for _, found in parts:
            sources |= found
        return [value for value, _ in parts], sources
    return tables, sources


def _overlay(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(under.get(key), dict)
        merged[key] = _overlay(under[key], value) if both else value
    return merged


def _replaced(path: str, over: dict[str, Any]) -> bool:
    """Whether the field at `path` of a base is replaced by the tables laid over it."""
    here: Any = over
    for key in path.replace("[", ".[").split("."):
        if not isinstance(here, dict):
            return True
        if key not in here:
            return False
        here = here[key]
    return True
