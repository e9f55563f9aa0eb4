"""How sure the limits are: knee, wall and utilisation where inputs are not known but distributed.

Quasi-random draws of the inputs, a search of the limits for each, and what the spread of the answers is
due to: Sobol indices of first order and in total.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.errors import InputError, NoAnswer, ScalewallError
from scalewall.hardware.cluster import Cluster
from scalewall.schema import read_toml, whole
from scalewall.strategy.space import Strategy
from scalewall.study.boundary import coarse_wall, find_knee, find_wall
from scalewall.study.distributions import Uncertainty, need_scipy, read, unit_cube
from scalewall.study.inputs import inputs
from scalewall.study.points import Point, best_point
from scalewall.study.scenario import Scenario
from scalewall.study.variance import Indices, base_samples, sobol_indices
from scalewall.units import parse, show

Array = Any
Progress = Callable[[int, int, str], None]

SHARES = (0.05, 0.5, 0.95)
"""The shares of draws that lie below the ends of an interval, and below its middle."""

MOST_SAMPLES = 1 << 14
_POINTS = 9  # between which the knee is looked for first; the same computes for every draw
_FIRST = ("sustained", "peak_rate")  # set before caches, whose bandwidth moves with them


def _power_of_two(samples: int | str) -> int:
    n = whole(samples, "samples", 2, MOST_SAMPLES)
    if n & (n - 1):
        below = 1 << (n.bit_length() - 1)
        raise InputError("samples", "a power of two", samples, f"Nearest: {below}, {2 * below}.")
    return n


def _seed(seed: int | str) -> int:
    return whole(seed, "seed", 0)


def _jobs(jobs: int | str) -> int:
    return whole(jobs, "jobs", 1, 1024)


@attrs.frozen(kw_only=True)
class Draws:
    """How uncertain inputs are drawn.

    Attributes
    ----------
    samples
        How often, a power of two.
    seed
        The same seed gives the same draws.
    jobs
        Processes that share the work; a script that asks for more than one needs the usual guard
        ``if __name__ == "__main__"``.
    """

    samples: int = attrs.field(default=64, converter=_power_of_two)
    seed: int = attrs.field(default=0, converter=_seed)
    jobs: int = attrs.field(default=1, converter=_jobs)


@attrs.frozen(kw_only=True)
class Outcome:
    """The limits under one draw: knee and wall in FLOP, and MFU at each compute, 0 beyond the wall."""

    knee_flop: float
    wall_flop: float
    mfu: tuple[float, ...]


@attrs.frozen(kw_only=True, eq=False)
class Spread:
    """One device's limits with their spread.

    Attributes
    ----------
    baseline
        The limits with every input at its value in the scenario.
    uncertainty, drawn
        The uncertain inputs, and their values by draw: (draws, inputs).
    computes
        Training computes of the MFUs, FLOP.
    outcomes
        The limits by draw.
    indices
        Of log10 of the knee and of the wall, in this order; None if not asked for.
    """

    cluster: Cluster
    baseline: Outcome
    uncertainty: Uncertainty
    drawn: Array
    computes: tuple[float, ...]
    outcomes: tuple[Outcome, ...]
    indices: Indices | None = None

    @property
    def without_knee(self) -> int:
        """In how many draws MFU stays above the threshold up to the wall, which then stands for the knee."""
        return sum(o.knee_flop >= o.wall_flop for o in self.outcomes)

    @property
    def late(self) -> int:
        """In how many draws the largest of the runs does not end in time: its MFU counts as 0."""
        return sum(min(o.mfu) == 0.0 for o in self.outcomes)

    def interval(self, answer: str) -> tuple[float, float, float]:
        """Return the 5%, 50% and 95% quantiles of ``knee_flop`` or ``wall_flop``."""
        low, middle, high = np.quantile([getattr(o, answer) for o in self.outcomes], SHARES)
        return float(low), float(middle), float(high)

    def band(self) -> Array:
        """Return the 5%, 50% and 95% quantiles of MFU: (quantiles, computes)."""
        return np.quantile([o.mfu for o in self.outcomes], SHARES, axis=0)


@attrs.frozen(kw_only=True)
class Answer:
    """The limits with their spread, by device."""

    scenario: Scenario
    samples: int
    seed: int
    spreads: tuple[Spread, ...]


def uncertainty(
    scenario: Scenario,
    *,
    samples: int | str = 64,
    seed: int | str = 0,
    at: Sequence[float | str] = (),
    sobol: bool = False,
    jobs: int | str = 1,
    progress: Progress | None = None,
) -> Answer:
    """Return the limits of every device of the scenario with their spread.

    Parameters
    ----------
    scenario
        What is asked; without a table ``uncertain``, the one in ``data/uncertainties.toml`` is used. Under
        a preset its devices are searched over the whole space, not on its grid.
    samples
        Draws, a power of two.
    seed
        The same seed gives the same draws.
    at
        Further training computes at which MFU is wanted, FLOP.
    sobol
        Whether to find Sobol indices, which takes ``samples·(inputs + 2)`` searches.
    jobs
        Processes that share the work; a script that asks for more than one needs the usual guard
        ``if __name__ == "__main__"``.
    progress
        Called with how many draws are done, of how many.

    Raises
    ------
    InputErrors
        All that is wrong with the table.
    NoAnswer
        If no run ends in time under some draw.
    """
    draws = Draws(samples=samples, seed=seed, jobs=jobs)
    computes = [parse(flop, "FLOP", "at") for flop in at]
    for flop, text in zip(computes, at, strict=True):
        if not 0.0 < flop < math.inf:
            raise InputError("at", "a positive number of FLOP", text)
    uncertain = uncertain_inputs(scenario)
    for some in uncertain:
        if sobol and some.is_correlated:
            raise InputError(
                "sobol", "left out where inputs are correlated: variance has no shares then", sobol
            )
    spreads = [
        _spread(scenario, cluster, some, draws, computes, sobol, progress)
        for cluster, some in zip(scenario.clusters, uncertain, strict=True)
    ]
    return Answer(scenario=scenario, samples=draws.samples, seed=draws.seed, spreads=tuple(spreads))


def uncertain_inputs(scenario: Scenario) -> list[Uncertainty]:
    """Return the uncertain inputs of each device of the scenario: those of its table, or the baseline's.

    Raises
    ------
    InputErrors
        All that is wrong with the table.
    ScalewallError
        If SciPy is not installed.
    """
    need_scipy()
    tables, lenient = (scenario.uncertain, False) if scenario.uncertain else (defaults(), True)
    return [read(tables, inputs(scenario, cluster), lenient) for cluster in scenario.clusters]


def as_drawn(scenario: Scenario) -> Scenario:
    """Return a scenario with the table of uncertain inputs that counts for it: its own, or the baseline's."""
    return scenario if scenario.uncertain else attrs.evolve(scenario, uncertain=defaults())


def defaults() -> dict[str, Any]:
    """Return the table of what is uncertain about the baseline, each with its reason."""
    return read_toml(Path(str(files("scalewall"))) / "data" / "uncertainties.toml")


def _spread(
    scenario: Scenario,
    cluster: Cluster,
    uncertain: Uncertainty,
    draws: Draws,
    at: Sequence[float],
    sobol: bool,
    progress: Progress | None,
) -> Spread:
    wall = find_wall(scenario, cluster)
    last = min(scenario.to_flop or math.inf, wall.training_flop)
    if scenario.from_flop >= last:
        raise NoAnswer(
            f"No run of {scenario.from_flop:.3g} FLOP ends in time on {cluster.name}: the latency wall is at "
            f"{wall.training_flop:.3g} FLOP."
        )
    grid = np.geomspace(scenario.from_flop, last, _POINTS + 1)[:-1]
    found = {flop: best_point(scenario, cluster, flop) for flop in sorted({*grid.tolist(), *at})}
    there = [point for point in found.values() if point is not None]
    knee = find_knee(scenario, cluster, [*there, wall], scenario.threshold * cluster.device.sustained)
    return spread_of(scenario, cluster, uncertain, draws, found, knee, wall, progress, sobol=sobol)


def spread_of(
    scenario: Scenario,
    cluster: Cluster,
    uncertain: Uncertainty,
    draws: Draws,
    points: Mapping[float, Point | None],
    knee: Point | None,
    wall: Point,
    progress: Progress | None = None,
    *,
    sobol: bool = False,
) -> Spread:
    """Return the spread of limits that are known with every input at its value in the scenario.

    Parameters
    ----------
    scenario, cluster, uncertain, draws
        What is asked, of which device, what is uncertain about it, and how that is drawn.
    points
        Best runs by training compute, rising, None beyond the wall: where MFU is wanted, and between
        which a draw's knee is looked for.
    knee, wall
        The limits.
    progress
        Called with how many draws are done, of how many.
    sobol
        Whether to find Sobol indices, from ``samples·(inputs + 2)`` draws.
    """
    names = tuple(some.name for some in uncertain.inputs)
    hints = tuple(None if point is None else point.strategy for point in points.values())
    run = functools.partial(outcome, scenario, cluster, names, tuple(points), hints, wall.training_flop)

    def model(rows: Array) -> Iterator[Outcome]:
        yield from _in_turn(run, rows, draws.jobs, progress, f"{cluster.name}: draws")

    drawn, found, indices = (_with_indices if sobol else _plain)(model, uncertain, draws)
    return Spread(
        cluster=cluster,
        baseline=Outcome(
            knee_flop=(knee or wall).training_flop,
            wall_flop=wall.training_flop,
            mfu=tuple(0.0 if point is None else point.mfu for point in points.values()),
        ),
        uncertainty=uncertain,
        drawn=drawn,
        computes=tuple(points),
        outcomes=tuple(found),
        indices=indices,
    )


Model = Callable[[Array], Iterator[Outcome]]
Drawn = tuple[Array, list[Outcome], Indices | None]


def _plain(model: Model, uncertain: Uncertainty, draws: Draws) -> Drawn:
    drawn = uncertain.draw(unit_cube(draws.samples, len(uncertain.inputs), draws.seed))
    return drawn, list(model(drawn)), None


def _with_indices(model: Model, uncertain: Uncertainty, draws: Draws) -> Drawn:
    found: list[Outcome] = []
    n, inputs = draws.samples, len(uncertain.inputs)

    def limits(shares: Array) -> Array:
        found.extend(model(uncertain.draw(shares)))
        return np.log10([[o.knee_flop for o in found], [o.wall_flop for o in found]])

    indices = sobol_indices(limits, inputs, n, draws.seed)
    # Of all these draws the two base samples are fair ones; the others share values with them.
    drawn = uncertain.draw(base_samples(inputs, n, draws.seed).reshape(2 * n, -1))
    return drawn, found[: 2 * n], indices


def _in_turn(
    run: Callable[[tuple[float, ...]], Outcome], rows: Array, jobs: int, progress: Progress | None, name: str
) -> Iterator[Outcome]:
    """Yield the outcome of each of `rows`, in order, however many processes work on them."""
    tell = progress or (lambda done, total, what: None)
    draws = [tuple(row) for row in np.asarray(rows).tolist()]
    tell(0, len(draws), name)
    if jobs == 1:
        for i, row in enumerate(draws):
            yield run(row)
            tell(i + 1, len(draws), name)
        return
    # New processes, not copies of this one, which may have threads (such as the one that shows progress).
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        for i, found in enumerate(pool.map(run, draws)):
            yield found
            tell(i + 1, len(draws), name)


def outcome(
    scenario: Scenario,
    cluster: Cluster,
    names: Sequence[str],
    computes: Sequence[float],
    hints: Sequence[Strategy | None],
    wall_near: float,
    values: Sequence[float],
) -> Outcome:
    """Return the limits with the inputs `names` at `values`, in SI.

    The knee is the first crossing that the `computes` below the wall show. `hints` and a guess of the
    wall only save time.

    Raises
    ------
    NoAnswer
        If no run ends in time.
    """
    known = inputs(scenario, cluster)
    drawn = dict(zip(names, values, strict=True))
    try:
        for name in sorted(drawn, key=lambda name: name not in _FIRST):
            scenario, cluster = known[name].set(scenario, cluster, drawn[name])
        wall = coarse_wall(scenario, cluster, wall_near)
    except ScalewallError as error:
        where = ", ".join(f"{name} {show(value, known[name].unit)}" for name, value in drawn.items())
        raise NoAnswer(f"One of the draws has no limits: {where}. {error}") from None
    points: list[Point | None] = []
    for flop, hint in zip(computes, hints, strict=True):
        late = flop >= wall.training_flop
        near = () if hint is None else (hint,)
        points.append(None if late else best_point(scenario, cluster, flop, near))
    there = [point for point in points if point is not None]
    knee = find_knee(scenario, cluster, [*there, wall], scenario.threshold * cluster.device.sustained)
    return Outcome(
        knee_flop=(knee or wall).training_flop,
        wall_flop=wall.training_flop,
        mfu=tuple(0.0 if point is None else point.mfu for point in points),
    )
