"""How large an AI training run can get on given hardware, how to parallelise it, and what binds.

``limits`` asks how far training scales on a device; ``wall`` gives the latency wall's closed form.
``plan`` asks how to train a real model on a real cluster; ``validate`` compares predicted with
measured step times; ``sweep`` asks such questions of many scenarios. All take the words of the commands and
return the objects that the commands print.
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
    from scalewall.study.plan import Planning
    from scalewall.study.sweep import Swept
    from scalewall.study.validation import Validation
    from scalewall.workload.model import Model

__all__ = [
    "InputError",
    "InputErrors",
    "NoAnswer",
    "ScalewallError",
    "limits",
    "load_hardware",
    "load_model",
    "open_sweep",
    "plan",
    "serve",
    "sweep",
    "to_xarray",
    "validate",
    "wall",
]


def limits(
    hardware: str | Sequence[str] = "h100-sxm",
    *,
    progress: Progress | None = None,
    samples: int = 64,
    seed: int = 0,
    jobs: int = 1,
    **words: Any,
) -> Limits:
    """Return how far training scales on `hardware`: MFU against compute, the knee and the wall.

    Parameters
    ----------
    hardware
        Names of the catalogue, or paths of TOML files.
    progress
        Called with how many points are done, how many there are, and what is being done.
    samples, seed, jobs
        How inputs are drawn that ``uncertain`` says to be distributed: how often (a power of two), from
        which seed, and by how many processes.
    **words
        As `scalewall.study.scenario.scenario` takes them: ``preset``, ``duration``, ``batch_law``,
        ``depth_law``, ``sparse``, ``threshold``, ``from_flop``, ``to_flop``, ``points``,
        ``uncertain``, and more.

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
    from scalewall.study.uncertainty import Draws

    draws = Draws(samples=samples, seed=seed, jobs=jobs)
    return study.limits(scenario(hardware=hardware, **words), progress, draws=draws)


def wall(**words: Any) -> Wall:
    """Return the closed form of the latency wall; see `scalewall.study.closed_form.wall`."""
    from scalewall.study import closed_form

    return closed_form.wall(**words)


def plan(
    model: str | Path,
    hardware: str,
    *,
    gpus: int | str | None = None,
    batch: int | str,
    seq: int | str,
    min_gpus: bool = False,
    **words: Any,
) -> Planning:
    """Return the best strategies for training `model` on so many devices, or what a given one does.

    Parameters
    ----------
    model
        A name of the catalogue, or the path of a ``config.json``, a TOML file, or Megatron-LM arguments.
    hardware
        A name of the catalogue, or the path of a TOML file.
    gpus, batch, seq
        Devices, sequences a step, tokens a sequence.
    min_gpus
        Whether to plan for the fewest devices that fit; `gpus` is then not needed.
    **words
        As `scalewall.study.planning.PlanScenario` has them: ``tp``, ``pp``, ``dp``, ``cp``, ``vpp``,
        ``micro_batch``, ``zero``, ``recompute``, ``precision``, ``software``, ``tokens`` and more; and
        the constants of `scalewall.cost.practice.Practice`.

    Raises
    ------
    InputError
        If a word is wrong, or what is fixed cannot be; it says what would work.
    NoAnswer
        If no strategy fits the memory.

    Examples
    --------
    >>> answer = plan("llama-3.1-8b", "h100-sxm", gpus=8, batch=64, seq=8192, top=1)
    >>> answer.strategies[0].fits
    True
    """
    from scalewall.study import plan as study
    from scalewall.study.planning import plan_scenario

    words |= {"model": str(model), "hardware": hardware, "batch": batch, "seq": seq}
    scenario = plan_scenario(gpus=1 if min_gpus else gpus, **words)
    return study.fewest(scenario) if min_gpus else study.plan(scenario)


def validate(runs: str | Path | None = None, **constants: Any) -> Validation:
    """Return predicted against measured step times of the runs in a CSV file, or of those that ship.

    Parameters
    ----------
    runs
        Path of the file.
    **constants
        Constants of `scalewall.cost.practice.Practice` in place of the defaults.

    Raises
    ------
    InputError
        If the file is no table of runs, or a constant is wrong.
    """
    from scalewall.study import validation

    return validation.validate_file(runs, **constants)


def load_model(name: str | Path) -> Model:
    """Return the catalogue's model called `name`, or the one that the file at that path describes."""
    from scalewall.workload import formats

    return formats.read_model(name)


def load_hardware(name: str, preset: str | None = None) -> Cluster:
    """Return the catalogue's entry called `name`, or the one in the TOML file at that path."""
    from scalewall.hardware import catalogue

    return catalogue.load(name, preset)


def serve(host: str = "127.0.0.1", port: int | str = 8050, processes: int | str | None = None) -> None:
    """Serve the interactive page until interrupted.

    Parameters
    ----------
    host, port
        Where to listen; another host than this machine's own shows the page to others.
    processes
        Processes that compute curves (default: as many as there are processors, at most 4).

    Raises
    ------
    InputError
        If the port or the processes are none, or the port cannot be listened at.
    ScalewallError
        If the extra ``web`` is not installed.
    """
    try:
        from scalewall.web import server
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in {"dash", "flask", "waitress"}:
            raise
        raise ScalewallError(f"The page needs {error.name}: pip install 'scalewall[web]'.") from None
    server.serve(host, port, processes)


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
