"""Models by name, from the catalogue, and by path, from the files that other programs keep them in.

The catalogue is the TOML files of ``scalewall/models``, one a family: a table for each model with the
fields of `Model`. A table may name another as its ``base`` and say only what differs; its title,
source and published count are its own. A user's own file has the same fields, without a table.
"""

from __future__ import annotations

import functools
import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from scalewall.errors import InputError, nearest
from scalewall.schema import read_toml, structure
from scalewall.workload.huggingface import model_from_hf
from scalewall.workload.megatron import model_from_megatron
from scalewall.workload.model import Model

__all__ = ["model_from_hf", "model_from_megatron", "model_names", "read_model"]

_ROOT = Path(str(files("scalewall"))) / "models"
_OWN = ("title", "source", "published_parameters", "published_exact")  # what a base does not pass on
_MUST = (
    "a model of the catalogue, or the path of a config.json (Hugging Face), "
    "a .toml file, or Megatron-LM arguments (.sh, .txt)"
)
MOST_BYTES = 10_000_000
"""No file is larger that describes a model."""


def model_names() -> list[str]:
    """Return the names of all models of the catalogue."""
    return sorted(_catalogue())


def read_model(name_or_path: str | Path) -> Model:
    """Return a model by its name in the catalogue, or from a file.

    Parameters
    ----------
    name_or_path
        A name such as ``llama-3.1-70b``; or the path of a Hugging Face ``config.json``, a
        ``.toml`` file with the fields of `Model` (and perhaps a ``base``), or Megatron-LM
        arguments, ``.sh`` or ``.txt``.

    Raises
    ------
    InputError
        If there is no such model, or the file is wrong; all its faults are reported in one go.
    """
    text = str(name_or_path)
    if text in _catalogue():
        return _cached(text)
    path = Path(text)
    readers = {".json": _from_json, ".toml": _from_toml, ".sh": _from_arguments, ".txt": _from_arguments}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        hint = "Name its config.json." if _is_folder(path) else nearest(text, _catalogue())
        raise InputError("model", _MUST, text, hint)
    return reader(path)


@functools.cache
def _catalogue() -> dict[str, dict[str, Any]]:
    """Return the tables of all models by name."""
    tables: dict[str, dict[str, Any]] = {}
    for path in sorted(_ROOT.glob("*.toml")):
        tables |= tomllib.loads(path.read_text(encoding="utf-8"))
    return tables


@functools.cache
def _cached(name: str) -> Model:
    return structure({"name": name, **_over_base(_catalogue()[name], Path(), ())}, Model)


def _over_base(table: dict[str, Any], path: Path, seen: tuple[str, ...]) -> dict[str, Any]:
    """Return a model's fields, laid over those of its base, a name or the path of a TOML file."""
    fields = dict(table)
    base = fields.pop("base", None)
    if base is None:
        return fields
    if not isinstance(base, str):
        raise InputError("base", "the name of a model of the catalogue, or the path of a .toml file", base)
    if base in _catalogue():
        where, under = base, _catalogue()[base]
    elif base.endswith(".toml"):
        path = path.parent / base
        where, under = str(path.resolve()), _toml(path)
    else:
        must = "the name of a model of the catalogue, or the path of a .toml file"
        raise InputError("base", must, base, nearest(base, _catalogue()))
    if where in seen:
        raise InputError("base", "a model that is not based on this one", base)
    below = _over_base(under, path, (*seen, where))
    return {**{key: value for key, value in below.items() if key not in (*_OWN, "name")}, **fields}


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _text(path: Path, what: str) -> str:
    """Return the text of a file, which must be an ordinary one and not too large."""
    try:
        if _is_folder(path) or not path.is_file():
            hint = "It is a folder." if _is_folder(path) else "There is no such file."
            raise InputError("model", f"a readable {what}", str(path), hint)
        if path.stat().st_size > MOST_BYTES:
            raise InputError("model", f"a {what} of at most {MOST_BYTES:g} bytes", str(path))
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError("model", f"a readable {what}", str(path), f"{error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError("model", f"a {what}", str(path), "It is not UTF-8 text.") from None


def _from_json(path: Path) -> Model:
    text = _text(path, "config.json of a model")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, or numbers and nesting without bounds
        hint = f"{str(error).splitlines()[0]}."
        raise InputError("model", "valid JSON", str(path), hint) from None
    # A file's own folder is named after its model; the file itself is usually config.json.
    return model_from_hf(config, path.resolve().parent.name if path.stem == "config" else path.stem)


def _toml(path: Path) -> dict[str, Any]:
    _text(path, "TOML file of a model")
    return read_toml(path)


def _from_toml(path: Path) -> Model:
    fields = _over_base(_toml(path), path, (str(path.resolve()),))
    return structure({"name": path.stem, **fields}, Model)


def _from_arguments(path: Path) -> Model:
    return model_from_megatron(_text(path, "file of Megatron-LM arguments"), path.stem)
