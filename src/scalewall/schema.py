"""Tables (of TOML, or of a call) to checked objects: all faults are found in one go, each with its path.

An attrs class is its own schema. A field made by `units.quantity` reads text with a unit; a field
whose metadata has a function ``read`` is read by it; the others by their type.
"""

from __future__ import annotations

import math
import tomllib
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from scalewall.errors import InputError, InputErrors, nearest
from scalewall.units import check_bounds, parse

T = TypeVar("T")


def read_toml(path: Path) -> dict[str, Any]:
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
    except (ValueError, RecursionError) as error:  # TOML, text or numbers that are none
        raise InputError("file", "a valid TOML file", str(path), f"{str(error).splitlines()[0]}.") from None


def structure(tables: Any, cls: type[T]) -> T:
    """Return an object of the attrs class `cls` made of `tables`.

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


def whole(value: object, field: str, least: int = 1, most: float = math.inf) -> int:
    """Return `value` as a whole number from `least` to `most`.

    Raises
    ------
    InputError
        If it is none.
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0
    if isinstance(value, str) and value.strip().isdecimal():
        value, good = int(value), True
    if not good or not isinstance(value, (int, float)) or not least <= value <= most:
        bounds = f"of at least {least}" if math.isinf(most) else f"from {least} to {most:g}"
        raise InputError(field, f"a whole number {bounds}", value)
    return int(value)


def _faults(error: BaseException, path: str) -> list[InputError]:
    """Return the faults that an error of cattrs holds, each with its path."""
    if isinstance(error, InputErrors):
        return [found for fault in error.errors for found in _faults(fault, path)]
    if isinstance(error, InputError) and not error.field:
        return [InputError(path or "file", error.must, error.got, error.hint)]
    if isinstance(error, InputError):
        # A field's own reader names the field already; an owner's check names it below the path.
        parent, _, last = path.rpartition(".")
        if last == error.field.split(".")[0]:
            return [error.within(parent) if parent else error]
        return [error.within(path) if path else error]
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = [a.name for a in attrs.fields(error.cl)]
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


def _reader(attribute: attrs.Attribute[Any], kind: Any) -> Callable[[Any, Any], Any] | None:
    """Return the function that reads a field, or None where cattrs knows best (classes and lists of them)."""
    name, metadata = attribute.name, attribute.metadata
    optional = isinstance(kind, types.UnionType) and type(None) in typing.get_args(kind)
    if optional:
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    read: Callable[[Any], Any] | None = metadata.get("read")
    if read is None and "open_below" in metadata:

        def read(value: Any) -> float:
            number = parse(value, metadata["unit"], name)
            check_bounds(number, name, metadata, got=value)
            return number

    if read is None and kind is int:

        def read(value: Any) -> int:
            return whole(value, name)

    if read is None and kind in (str, bool):
        must = "a text" if kind is str else "true or false"

        def read(value: Any) -> Any:
            if not isinstance(value, kind):
                raise InputError(name, must, value)
            return value

    if read is None and typing.get_origin(kind) is tuple:

        def read(value: Any) -> Any:
            if not isinstance(value, (list, tuple)):
                raise InputError(name, "a list", value)
            return _CONVERTER.structure(value, kind)

    if read is None:
        return None
    chosen = read

    def hook(value: Any, _: Any) -> Any:
        if optional and value is None:
            return None
        try:
            return chosen(value)
        except InputError:
            raise
        except (TypeError, AttributeError, ValueError):  # Python's words for a value of another kind
            raise InputError(name, "of the documented form", value) from None

    return hook


def _class_hook(cls: Any) -> Callable[[Any, Any], Any]:
    kinds = typing.get_type_hints(cls)
    readers = {a.name: _reader(a, kinds[a.name]) for a in attrs.fields(cls)}
    hooks: Any = {name: override(struct_hook=reader) for name, reader in readers.items() if reader}
    inner = make_dict_structure_fn(cls, _CONVERTER, **hooks)

    def hook(tables: Any, kind: Any) -> Any:
        if not isinstance(tables, dict):
            raise InputError("", "a table", tables)
        return inner(tables, kind)

    return hook


_CONVERTER = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
_CONVERTER.register_structure_hook_factory(attrs.has, _class_hook)
