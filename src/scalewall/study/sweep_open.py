"""Reads the folder of a sweep, also while it is being written: a lazy frame, or labelled arrays."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalewall.errors import InputError, NoAnswer, ScalewallError
from scalewall.study.sweep_store import parts_in, read_manifest

if TYPE_CHECKING:
    import polars as pl


def open_sweep(folder: str | Path) -> pl.LazyFrame:
    """Return all rows of the sweep in `folder` as a lazy polars frame, in no particular order.

    Raises
    ------
    InputError
        If the folder holds no sweep.
    NoAnswer
        If it holds no rows yet.
    """
    import polars as pl

    folder = Path(folder)
    entries = read_manifest(folder)["sweeps"]
    parts = parts_in(folder)[0]
    if not parts:
        raise NoAnswer(f"The sweep in '{folder}' has no rows yet.")
    names = [entry["sweep"] for entry in entries]
    frames = []
    for name in sorted({part.sweep for part in parts}, key=lambda n: names.index(n) if n in names else -1):
        frames.append(pl.scan_parquet([part.path for part in parts if part.sweep == name], glob=False))
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def to_xarray(folder: str | Path) -> Any:
    """Return the sweep in `folder` as an `xarray.Dataset`.

    Its dimensions are the axes of the grid and, where there are such, ``case`` for rows of the list and
    ``draw`` for draws of the sample; what has no row yet is not a number.

    Raises
    ------
    InputError
        If the folder holds no sweep, or several.
    ScalewallError
        If xarray is not installed.
    """
    try:
        xarray: Any = importlib.import_module("xarray")
    except ImportError:
        raise ScalewallError("xarray is not installed: pip install 'scalewall[xarray]'.") from None
    entries = read_manifest(Path(folder))["sweeps"]
    frame = open_sweep(folder).collect()
    if len(entries) != 1:
        raise InputError("folder", "one with the rows of a single sweep", str(folder))
    entry = entries[0]
    content, shape = entry["content"], entry["shape"]
    dims = ["draw", "case", *content["axes"]]
    where = frame["index"].to_numpy()
    variables: dict[str, Any] = {}
    for name, kind in entry["columns"].items():
        if name in content["axes"] or name == "index" or kind == "floats":
            continue
        full: Any = np.full(int(np.prod(shape)), np.nan if kind in ("float", "int") else None, dtype=None)
        full[where] = frame[name].to_numpy() if kind in ("float", "int") else frame[name].to_list()
        variables[name] = (dims, full.reshape(shape))
    coords = {name: content["grid"][name] for name in content["axes"]}
    found = xarray.Dataset(variables, coords=coords)
    lone = [dim for dim, length in zip(dims[:2], shape[:2], strict=True) if length == 1]
    return found.squeeze(lone) if lone else found
