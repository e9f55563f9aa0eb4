"""How large an AI training run can get on given hardware, how to parallelise it, and what binds.

``limits`` asks how far training scales on a device; ``wall`` gives the latency wall's closed form.
Both take the words of the commands and return the objects that the commands print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scalewall.errors import InputError, InputErrors, NoAnswer, ScalewallError

if TYPE_CHECKING:
    from scalewall.hardware.cluster import Cluster
    from scalewall.study.closed_form import Wall
    from scalewall.study.limits import Limits, Progress

__all__ = [
    "InputError",
    "InputErrors",
    "NoAnswer",
    "ScalewallError",
    "limits",
    "load_hardware",
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


def load_hardware(name: str, preset: str | None = None) -> Cluster:
    """Return the catalogue's entry called `name`, or the one in the TOML file at that path."""
    from scalewall.hardware import catalogue

    return catalogue.load(name, preset)
