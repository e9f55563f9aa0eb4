"""TOML to checked objects: all faults of a file are found in one go, each with its path.

A number may stand alone (``memory = "80 GB"``) or with its source
(``memory = { value = "80 GB", source = "datasheet", date = "2022-09" }``), or with how it was
worked out (``derived = "…"`` in place of ``source``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from scalewall.errors import InputError, InputErrors, nearest
from scalewall.hardware.cluster import Cluster, Source, Tier
from scalewall.hardware.device import Cache, Device
from scalewall.units import check_bounds, parse

T = TypeVar("T")
_WRAPPED = {"value", "source", "derived", "date"}


def read(path: Path) -> dict[str, Any]:
    """Return the tables of the TOML file at `path`.

    Raises
    ------
    InputError
        If the file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("file", "a readable TOML file", str(path), f"{error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("file", "a valid TOML file", str(path), f"{error}.") from None


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


def structure(tables: Any, cls: type[T]) -> T:
    """Return an object of `cls` made of `tables`.

    Raises
    ------
    InputErrors
        All that is wrong with `tables`, each with its path.
    """
    try:
        return _CONVERTER.structure(tables, cls)
    except (cattrs.BaseValidationError, InputError) as error:
        faults = list(_faults(error, ""))
        raise (faults[0] if len(faults) == 1 else InputErrors(faults)) from None


def _faults(error: BaseException, path: str) -> list[InputError]:
    if isinstance(error, InputErrors):
        return [found for fault in error.errors for found in _faults(fault, path)]
    if isinstance(error, InputError):
        # A field's own hook names the field already; an owner's check names it below the path.
        parent, _, last = path.rpartition(".")
        if last == error.field.split(".")[0]:
            return [error.within(parent) if parent else error]
        return [error.within(path) if path else error]
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = [a.name for a in attrs.fields(cast(Any, error.cl))]
        return [
            InputError(f"{path}.{key}" if path else key, "absent or a known field", key, nearest(key, known))
            for key in sorted(error.extra_fields)
        ]
    if isinstance(error, cattrs.IterableValidationError):
        return [f for e, note in error.group_exceptions()[0] for f in _faults(e, f"{path}[{note.index}]")]
    if isinstance(error, cattrs.ClassValidationError):
        named, bare = error.group_exceptions()
        found = [f for e, note in named for f in _faults(e, f"{path}.{note.name}" if path else note.name)]
        return found + [f for e in bare for f in _faults(e, path)]
    if isinstance(error, KeyError):
        name = str(error.args[0])
        missing = path if path.rpartition(".")[2] == name else f"{path}.{name}".lstrip(".")
        return [InputError(missing, "given", None)]
    return [InputError(path or "file", "of the documented form", str(error))]


def _number_hook(attribute: attrs.Attribute[Any]) -> Callable[[Any, Any], Any]:
    def hook(value: Any, _: Any) -> float | None:
        if value is None and attribute.metadata["optional"]:
            return None
        number = parse(value, attribute.metadata["unit"], attribute.name)
        check_bounds(number, attribute.name, attribute.metadata, got=value)
        return number

    return hook


def _text_hook(attribute: attrs.Attribute[Any]) -> Callable[[Any, Any], str]:
    def hook(value: Any, _: Any) -> str:
        if isinstance(value, (dict, list)):
            raise InputError(attribute.name, "a text", value)
        return str(value)

    return hook


def _flag_hook(attribute: attrs.Attribute[Any]) -> Callable[[Any, Any], bool]:
    def hook(value: Any, _: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(attribute.name, "true or false", value)
        return value

    return hook


def _peak_hook(value: Any, _: Any) -> Mapping[str, float]:
    if not isinstance(value, dict):
        raise InputError("peak", "a table of rates by precision", value)
    rates: dict[str, float] = {}
    faults: list[InputError] = []
    for name, rate in value.items():
        try:
            rates[name] = parse(rate, "FLOP/s", name)
        except InputError as fault:
            faults.append(fault)
    if faults:
        raise InputErrors([fault.within("peak") for fault in faults])
    return rates


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    for cls in (Cache, Device, Tier, Cluster):
        hooks: dict[str, Any] = {}
        for a in attrs.fields(cast(Any, cls)):
            if "open_below" in a.metadata:
                hooks[a.name] = override(struct_hook=_number_hook(a))
            elif a.name == "peak":
                hooks[a.name] = override(struct_hook=_peak_hook)
            elif a.name in {"instances", "tile", "token_tile"}:
                hooks[a.name] = override(struct_hook=lambda value, _: value)
            elif a.name == "pooled":
                hooks[a.name] = override(struct_hook=_flag_hook(a))
            elif a.type in ("str", str):
                hooks[a.name] = override(struct_hook=_text_hook(a))
            elif a.name == "sources":
                hooks[a.name] = override(struct_hook=lambda value, _: value)
        converter.register_structure_hook(cls, make_dict_structure_fn(cls, converter, **hooks))
    return converter


_CONVERTER = _converter()
