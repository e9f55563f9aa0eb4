"""How large an AI training run can get on given hardware, how to parallelise it, and what binds.

``limits`` asks how far training scales on a device; ``wall`` gives the latency wall's closed form.
``sweep`` asks such questions of many scenarios. They take the words of the commands and return the
objects that the commands print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewall.errors import InputError, InputErrors, NoAnswer, ScalewallError

if TYPE_CHECKING:
    import polars as pl

    from scalewall.hardware.cluster import Cluster
    from scalewall.study.closed_form import Wall
    from scalewall.study.limits import Limits, Progress
    from scalewall.study.sweep import Swept

__all__ = [
    "InputError",
    "InputErrors",
    "NoAnswer",
    "ScalewallError",
    "limits",
    "load_hardware",
    "open_sweep",
    "sweep",
    "to_xarray",
    "wall",
]


def limits(
    hardware: str | Sequence[str] = "h100-sxm", *, progress: Progress | None = None, **words: Any
) -> Limits:
    """Return how far training scales on `hardware`: MFU against compute, the knee and the wall.

    Parameters
    ----------
    hardware
        Names of the catalogue, or paths of TOML files.
    progress
        Called with how many points are done, how many there are, and what is being done.
    **words
        As `scalewall.study.scenario.scenario` takes them: ``preset``, ``duration``, ``batch_law``,
        ``depth_law``, ``sparse``, ``threshold``, ``from_flop``, ``to_flop``, ``points``, and more.

    Raises
    ------
    InputError
        If a word is wrong; several are reported together.
    NoAnswer
        If nothing is feasible in the range that is asked for.

    Examples
    --------
    >>> answer = limits("h100-sxm", preset="epoch-2024", to_flop=1e25)
    >>> answer.curves[0].points[0].n_devices
    2048
    """
    from scalewall.study import limits as study
    from scalewall.study.scenario import scenario

    return study.limits(scenario(hardware=hardware, **words), progress)


def wall(**words: Any) -> Wall:
    """Return the closed form of the latency wall; see `scalewall.study.closed_form.wall`."""
    from scalewall.study import closed_form

    return closed_form.wall(**words)


def load_hardware(name: str, preset: str | None = None) -> Cluster:
    """Return the catalogue's entry called `name`, or the one in the TOML file at that path."""
    from scalewall.hardware import catalogue

    return catalogue.load(name, preset)


def sweep(source: str | Path | Mapping[str, Any], out: str | Path, **words: Any) -> Swept:
    """Answer many scenarios into the folder `out`; what is there already is not computed again.

    Parameters
    ----------
    source
        A TOML file, or a table of the same form.
    out
        The folder of the rows.
    **words
        As `scalewall.study.sweep.sweep` takes them: ``executor`` (any of `concurrent.futures`),
        ``workers``, ``scheduler``, ``mix``, ``progress``.

    Raises
    ------
    InputError
        If the sweep is wrong, or the folder cannot be written or holds another one.
    NoAnswer
        If no scenario has an answer.
    ScalewallError
        If disk or workers are gone; the same call goes on from there.

    Examples
    --------
    >>> table = {"ask": "wall", "grid": {"latency": ["9us", "4us"], "layers": [60, 120]}}
    >>> sweep(table, "rows", workers=2).computed  # doctest: +SKIP
    4
    """
    from scalewall.study import sweep as study

    return study.sweep(source, out, **words)


def open_sweep(folder: str | Path) -> pl.LazyFrame:
    """Return the rows of the sweep in `folder` as a lazy polars frame, in no particular order."""
    from scalewall.study import sweep_open

    return sweep_open.open_sweep(folder)


def to_xarray(folder: str | Path) -> Any:
    """Return the sweep in `folder` as an `xarray.Dataset`, a dimension for each axis of its grid."""
    from scalewall.study import sweep_open

    return sweep_open.to_xarray(folder)
