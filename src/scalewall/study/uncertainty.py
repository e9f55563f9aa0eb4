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

from scalewall.errors import InputError, NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.schema import read_toml, whole
from scalewall.strategy.space import Strategy
from scalewall.study.boundary import find_knee, find_wall
from scalewall.study.distributions import Uncertainty, need_scipy, read, unit_cube
from scalewall.study.inputs import inputs
from scalewall.study.points import Point, best_point
from scalewall.study.scenario import Scenario
from scalewall.units import parse

Array = Any
Progress = Callable[[int, int, str], None]

SHARES = (0.05, 0.5, 0.95)
"""The shares of draws that lie below the ends of an interval, and below its middle."""

MOST_SAMPLES = 1 << 14
_POINTS = 9  # between which the knee is looked for first; the same computes for every draw
_RESAMPLES = 1000
_FIRST = ("sustained", "peak_rate")  # set before caches, whose bandwidth moves with them


@attrs.frozen(kw_only=True)
class Outcome:
    """The limits under one draw: knee and wall in FLOP, and MFU at each compute, 0 beyond the wall."""

    knee_flop: float
    wall_flop: float
    mfu: tuple[float, ...]


@attrs.frozen(kw_only=True, eq=False)
class Indices:
    """Which share of an answer's variance is due to which input.

    Attributes
    ----------
    first, total
        By output and input: the share that goes if only this input were known, and the share that is
        left if all others were.
    first_interval, total_interval
        Their 5-95% intervals by the bootstrap: (ends, outputs, inputs).
    n
        Points of either base sample; the model was run ``n·(inputs + 2)`` times.
    """

    first: Array
    total: Array
    first_interval: Array
    total_interval: Array
    n: int


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
    n = _power_of_two(samples)
    first, processes = whole(seed, "seed", 0), whole(jobs, "jobs", 1, 1024)
    computes = [parse(flop, "FLOP", "at") for flop in at]
    for flop, text in zip(computes, at, strict=True):
        if not 0.0 < flop < math.inf:
            raise InputError("at", "a positive number of FLOP", text)
    need_scipy()
    tables, lenient = (scenario.uncertain, False) if scenario.uncertain else (defaults(), True)
    sure = [read(tables, inputs(scenario, cluster), lenient) for cluster in scenario.clusters]
    for some in sure:
        if sobol and some.is_correlated:
            raise InputError(
                "sobol", "left out where inputs are correlated: variance has no shares then", sobol
            )
    spreads = [
        _spread(scenario, cluster, some, (n, first, computes, sobol, processes), progress)
        for cluster, some in zip(scenario.clusters, sure, strict=True)
    ]
    return Answer(scenario=scenario, samples=n, seed=first, spreads=tuple(spreads))


def defaults() -> dict[str, Any]:
    """Return the table of what is uncertain about the baseline, each with its reason."""
    return read_toml(Path(str(files("scalewall"))) / "data" / "uncertainties.toml")


def _power_of_two(samples: int | str) -> int:
    n = whole(samples, "samples", 2, MOST_SAMPLES)
    if n & (n - 1):
        below = 1 << (n.bit_length() - 1)
        raise InputError("samples", "a power of two", samples, f"Nearest: {below}, {2 * below}.")
    return n


def _spread(
    scenario: Scenario,
    cluster: Cluster,
    uncertain: Uncertainty,
    asked: tuple[int, int, list[float], bool, int],
    progress: Progress | None,
) -> Spread:
    n, seed, at, sobol, jobs = asked
    names = tuple(some.name for some in uncertain.inputs)
    wall = find_wall(scenario, cluster)
    last = min(scenario.to_flop or math.inf, wall.training_flop)
    if scenario.from_flop >= last:
        raise NoAnswer(
            f"No run of {scenario.from_flop:.3g} FLOP ends in time on {cluster.name}: the latency wall is at "
            f"{wall.training_flop:.3g} FLOP."
        )
    grid = np.geomspace(scenario.from_flop, last, _POINTS + 1)[:-1]
    computes = tuple(sorted({*grid.tolist(), *at}))
    points = [best_point(scenario, cluster, flop) for flop in computes]
    hints = tuple(None if point is None else point.strategy for point in points)
    run = functools.partial(outcome, scenario, cluster, names, computes, hints)

    def model(rows: Array) -> Iterator[Outcome]:
        yield from _in_turn(run, rows, jobs, progress, cluster.name)

    found: list[Outcome] = []
    if not sobol:
        drawn, indices = uncertain.draw(unit_cube(n, len(names), seed)), None
        found += model(drawn)
    else:

        def limits(shares: Array) -> Array:
            found.extend(model(uncertain.draw(shares)))
            return np.log10([[o.knee_flop for o in found], [o.wall_flop for o in found]])

        indices = sobol_indices(limits, len(names), n, seed)
        # Of all these draws the two base samples are fair ones; the others share values with them.
        drawn = uncertain.draw(_base_samples(len(names), n, seed).reshape(2 * n, -1))
        found = found[: 2 * n]
    return Spread(
        cluster=cluster,
        baseline=outcome(scenario, cluster, (), computes, hints, ()),
        uncertainty=uncertain,
        drawn=drawn,
        computes=computes,
        outcomes=tuple(found),
        indices=indices,
    )


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
    values: Sequence[float],
) -> Outcome:
    """Return the limits with the inputs `names` at `values`, in SI; `hints` only save time.

    The knee is the first crossing that the `computes` below the wall show.

    Raises
    ------
    NoAnswer
        If no run ends in time.
    """
    known = inputs(scenario, cluster)
    drawn = dict(zip(names, values, strict=True))
    for name in sorted(drawn, key=lambda name: name not in _FIRST):
        scenario, cluster = known[name].set(scenario, cluster, drawn[name])
    wall = find_wall(scenario, cluster)
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


# Sobol indices ---------------------------------------------------------------------------------------


def sobol_indices(
    model: Callable[[Array], Array], dimensions: int, n: int, seed: int = 0, resamples: int = _RESAMPLES
) -> Indices:
    """Return the Sobol indices of a vectorised model over the unit cube.

    Parameters
    ----------
    model
        From points, (points, dimensions), to outputs, (outputs, points). Called once, with the two base
        samples and then, for each input, the first with this input taken from the second.
    dimensions, n, seed
        Inputs; points of a base sample, a power of two; seed of the points and of the bootstrap.
    resamples
        Resamples of the bootstrap.

    Notes
    -----
    First order ``mean(f_B · (f_AB − f_A)) / V``, total ``mean((f_A − f_AB)²) / 2V``, of outputs less their
    mean. An output that does not vary has indices of zero. Estimates from few points can be below 0 or
    above 1; they are not cut.

    Source: Saltelli et al., *Variance based sensitivity analysis of model output* (2010). `scipy.stats`
    has the same estimators, but a bootstrap that takes no seed.
    """
    a, b = _base_samples(dimensions, n, seed)
    mixed = []
    for i in range(dimensions):
        one = np.array(a)
        one[:, i] = b[:, i]
        mixed.append(one)
    outputs = np.asarray(model(np.concatenate([a, b, *mixed])), dtype=float)
    outputs = outputs.reshape(outputs.shape[0], dimensions + 2, n)
    first, total = _shares(outputs)
    dice = np.random.default_rng(seed)
    again = [_shares(outputs[:, :, dice.integers(0, n, n)]) for _ in range(resamples)]
    ends = (SHARES[0], SHARES[-1])
    return Indices(
        first=first,
        total=total,
        first_interval=np.quantile([one for one, _ in again], ends, axis=0),
        total_interval=np.quantile([one for _, one in again], ends, axis=0),
        n=n,
    )


def _base_samples(dimensions: int, n: int, seed: int) -> Array:
    """Return two base samples: (2, points, dimensions)."""
    points = unit_cube(n, 2 * dimensions, seed)
    return np.stack([points[:, :dimensions], points[:, dimensions:]])


def _shares(outputs: Array) -> tuple[Array, Array]:
    """Return first-order and total indices, (outputs, inputs), of (outputs, samples, points)."""
    base = outputs[:, :2]
    centred = outputs - base.mean(axis=(1, 2), keepdims=True)
    variance = base.var(axis=(1, 2))[:, None]
    f_a, f_b, mixed = centred[:, :1], centred[:, 1:2], centred[:, 2:]
    first, total = (f_b * (mixed - f_a)).mean(axis=2), 0.5 * ((f_a - mixed) ** 2).mean(axis=2)
    varies = variance > 1e-24
    known: Mapping[str, Any] = {"where": varies}
    return (
        np.divide(first, variance, out=np.zeros_like(first), **known),
        np.divide(total, variance, out=np.zeros_like(total), **known),
    )
