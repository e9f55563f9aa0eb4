"""How far training scales on a device: utilisation against compute, the knee, and the latency wall."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs
import numpy as np

from scalewall.cost import step
from scalewall.errors import InputError, NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import paper
from scalewall.strategy.search import Certificate, Question, ruled_out, search
from scalewall.strategy.space import Strategy
from scalewall.study.scenario import Scenario
from scalewall.units import parse, show
from scalewall.workload import grid
from scalewall.workload.scaling import Workload

Found = TypeVar("Found")

Progress = Callable[[int, int, str], None]
"""Called with how many points are done, how many there are, and what is being done."""

GROUPS = {
    "arithmetic": ("arithmetic", "padding"),
    "memory bandwidth": ("memory_bandwidth", "cache_bandwidth"),
    "network bandwidth": ("network_bandwidth", "data_parallel_bandwidth"),
    "latency": ("kernel_latency", "network_latency", "data_parallel_latency", "pipeline_bubble"),
}
"""What can bind, and the causes of seconds that each gathers. A pipeline's bubble counts as latency:
it is there because a micro-batch passes the stages one after another, however fast each of them is."""

WALL_PRECISION = 1e-3
KNEE_PRECISION = 1e-3
_LEAST_FLOP = 1e12  # no wall is looked for below this
_WALL_STEP, _NEAR = 2.0, 1.002  # steps of compute in which the wall is looked for, far from it and near
_MOST_DP = 4  # degrees of data parallelism among which the fastest run is looked for first
_PAPER_POINTS = 32  # about as many as the paper's grid has below the wall, for the progress shown


@attrs.frozen(kw_only=True)
class Point:
    """The best run of one training compute: how it is parallelised, how long it takes and why."""

    workload: Workload
    strategy: Strategy
    mfu: float
    duration_s: float
    step_seconds: float
    seconds_by_cause: dict[str, float]
    memory_bytes: float
    binding: str
    certificate: Certificate | None = None

    @property
    def training_flop(self) -> float:
        """Training compute in FLOP."""
        return self.workload.training_flop

    @property
    def n_devices(self) -> int:
        """Number of devices."""
        return self.strategy.devices


@attrs.frozen(kw_only=True)
class Curve:
    """One device's limits.

    Attributes
    ----------
    sustained_mfu
        The most utilisation there is: the sustained share of the peak.
    knee_flop, knee_binding
        The least compute at which MFU is below the threshold's share of that (the linear-scaling
        limit), and what binds there. None if MFU is not below it before the wall.
    wall_flop, wall_binding
        The largest compute that any strategy on any number of devices finishes in time, and what
        binds there.
    points
        The curve, by rising compute; only runs that end in time.
    """

    cluster: Cluster
    sustained_mfu: float
    threshold_mfu: float
    knee_flop: float | None
    knee_binding: str | None
    wall_flop: float
    wall_binding: str
    points: tuple[Point, ...]

    @property
    def hardware(self) -> str:
        """The device's name."""
        return self.cluster.name

    @property
    def derived(self) -> dict[str, str]:
        """Numbers behind the curve that no source states, and how each was worked out."""
        unused = ("device.power", "device.price")
        return {path: how for path, how in self.cluster.derived.items() if path not in unused}

    @property
    def binding(self) -> str:
        """What binds at the knee, or at the wall where there is no knee before it."""
        return self.knee_binding or self.wall_binding


@attrs.frozen(kw_only=True)
class Limits:
    """The answer to a scenario: a curve for each device."""

    scenario: Scenario
    curves: tuple[Curve, ...]


def limits(scenario: Scenario, progress: Progress | None = None) -> Limits:
    """Return the limits of every device of the scenario.

    Parameters
    ----------
    scenario
        What is asked.
    progress
        Called as points are done.

    Raises
    ------
    NoAnswer
        If nothing is feasible on a device in the range that is asked for.
    """
    finder = _paper_curve if scenario.is_papers else _curve
    tell = progress or (lambda done, total, what: None)
    return Limits(scenario=scenario, curves=tuple(finder(scenario, c, tell) for c in scenario.clusters))


def best_point(
    scenario: Scenario,
    cluster: Cluster,
    training_flop: float,
    hints: Iterable[Strategy] = (),
    tolerance: float = 0.0,
) -> Point | None:
    """Return the best run of `training_flop` on `cluster`, or None if none ends in time.

    `hints` only save time; the score may miss the optimum by the share `tolerance`.
    """
    question = _question(scenario, cluster, training_flop, tolerance)
    result = search(question, tuple(hints)) if question else None
    if question is None or result is None or result.best is None:
        return None
    return price_point(scenario, cluster, question.workload, result.best, result.certificate)


def _question(
    scenario: Scenario, cluster: Cluster, training_flop: float, tolerance: float = 0.0
) -> Question | None:
    """Return what to search for a run of `training_flop`; None if that is too little for one block."""
    try:
        workload = scenario.scaling.workload(training_flop)
    except InputError as error:
        if error.field == "training_flop":
            return None
        raise
    return Question(
        cluster=cluster,
        workload=workload,
        how=scenario.how,
        duration=scenario.duration,
        objective=scenario.objective,
        space=scenario.space,
        tolerance=tolerance,
    )


def price_point(
    scenario: Scenario,
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    certificate: Certificate | None = None,
) -> Point:
    """Return what a run of `workload` under `strategy` takes."""
    parts = step.parts(cluster, workload, strategy.arrays, scenario.how)
    seconds = float(parts.seconds[0])
    causes = step.seconds_by_cause(cluster, workload, parts)
    by_cause = {cause: float(np.ravel(time)[0]) for cause, time in causes.items()}
    mfu = float(step.mfu(cluster, workload, strategy.devices, seconds, scenario.how))
    return Point(
        workload=workload,
        strategy=strategy,
        mfu=mfu,
        duration_s=seconds * workload.steps,
        step_seconds=seconds,
        seconds_by_cause=by_cause,
        memory_bytes=float(np.ravel(step.memory_bytes(workload, strategy.arrays.degrees, scenario.how))[0]),
        binding=binding(by_cause, mfu >= scenario.threshold * cluster.device.sustained),
        certificate=certificate,
    )


def binding(seconds_by_cause: dict[str, float], efficient: bool) -> str:
    """Return which of `GROUPS` binds: arithmetic while a run is efficient, else the costliest other one."""
    if efficient:
        return "arithmetic"
    costs = {group: sum(seconds_by_cause[c] for c in causes) for group, causes in GROUPS.items()}
    return max((group for group in costs if group != "arithmetic"), key=costs.__getitem__)


# The default: any compute, the whole space of strategies ---------------------------------------------


def _curve(scenario: Scenario, cluster: Cluster, tell: Progress) -> Curve:
    threshold = scenario.threshold * cluster.device.sustained
    total = scenario.points + 1
    tell(0, total, f"{cluster.name}: the wall")
    wall = find_wall(scenario, cluster)
    last = min(scenario.to_flop or math.inf, wall.training_flop)
    if scenario.from_flop > last:
        raise NoAnswer(
            f"No strategy on any number of {cluster.name} ends a run of {scenario.from_flop:.3g} FLOP within "
            f"{show(scenario.duration, 's')}: the latency wall is at {wall.training_flop:.3g} FLOP."
        )
    if last < wall.training_flop:
        grid_flop = np.geomspace(scenario.from_flop, last, scenario.points)
    else:  # the wall itself is no point of the curve: what just ends in time there is not efficient
        grid_flop = np.geomspace(scenario.from_flop, last, scenario.points + 1)[:-1]
    points: list[Point] = []
    for i, flop in enumerate(grid_flop):
        tell(i + 1, total, f"{cluster.name}: {flop:.2g} FLOP")
        hints = [p.strategy for p in points[-1:]]
        point = best_point(scenario, cluster, float(flop), hints)
        if point is not None:
            points.append(point)
    knee = find_knee(scenario, cluster, [*points, wall], threshold)
    tell(total, total, f"{cluster.name}: done")
    return _as_curve(cluster, threshold, knee, wall, tuple(points))


def find_wall(scenario: Scenario, cluster: Cluster) -> Point:
    """Return the largest run that ends in time, found to `WALL_PRECISION`.

    Bounds rule runs out that are too large, cheaply, so bisection in log compute on these comes
    first. Just below what they rule out an example of a run in time is looked for: among the
    strategies with the most data parallelism, which are the fastest, and failing that among all.
    Where there is none, the wall is lower, and bisection goes on with searches. The strategy returned
    is such an example, not the one of the highest MFU.

    Raises
    ------
    NoAnswer
        If no run ends in time.
    """
    guess = wall(duration=scenario.duration).training_flop
    found = _bracket(
        lambda flop: not _ruled_out(scenario, cluster, flop) or None, guess, math.inf, _WALL_STEP
    )
    above = found[0] if found else 0.0
    example = _example(scenario, cluster, above)
    if example is None:
        nearest = _bracket(lambda flop: _example(scenario, cluster, flop), above / _NEAR, above, _NEAR)
        example = nearest[1] if nearest else None
    if example is None:
        raise NoAnswer(f"No strategy on any number of {cluster.name} ends any run in time.")
    return example


def _bracket(
    find: Callable[[float], Found | None], start: float, above: float, step_factor: float
) -> tuple[float, Found] | None:
    """Return the largest compute at which `find` finds something, to half of `WALL_PRECISION`, and what.

    Looked for from `start`, up and down in steps that grow, then by halving; nothing is found at `above`.
    """
    below, found, flop = 0.0, None, start
    while not below or above / below > 1.0 + WALL_PRECISION / 2.0:
        if flop < _LEAST_FLOP:
            return None
        if (what := find(flop)) is not None:
            below, found = flop, what
        else:
            above = flop
        step_factor = step_factor**1.5
        if below:
            flop = below * step_factor if math.isinf(above) else math.sqrt(below * above)
        else:
            flop = flop / step_factor
    return (below, found) if found is not None else None


def _ruled_out(scenario: Scenario, cluster: Cluster, training_flop: float) -> bool:
    question = _question(scenario, cluster, training_flop)
    return question is None or ruled_out(question)


def _example(scenario: Scenario, cluster: Cluster, training_flop: float) -> Point | None:
    """Return any run of `training_flop` that ends in time, or None if there is none."""
    question = _question(scenario, cluster, training_flop, tolerance=1.0)
    if question is None:
        return None
    space = question.space
    most_dp = tuple(int(p) for p in space.degrees("dp", question.workload)[-_MOST_DP:])
    one_each = attrs.evolve(space, dp=most_dp or None, microbatches=space.microbatches or 1)
    for tried in (one_each, space):
        found = search(attrs.evolve(question, space=tried))
        if found.best is not None:
            return price_point(scenario, cluster, question.workload, found.best)
    return None


def find_knee(scenario: Scenario, cluster: Cluster, points: list[Point], threshold: float) -> Point | None:
    """Return the least run whose MFU is below `threshold`, found to `KNEE_PRECISION` between two `points`.

    A curve need not fall everywhere: this is the first crossing that `points` show. Where the first
    of them is below already, it is looked for at less compute. MFU is taken for a line in log
    compute, and the interval halved in turn.
    """
    at = next((i for i, point in enumerate(points) if point.mfu < threshold), None)
    if at is None:
        return None
    knee, above = points[at], points[at - 1] if at else None
    while above is None:
        lower = best_point(scenario, cluster, knee.training_flop / 4.0, [knee.strategy])
        if lower is None:
            return knee
        knee, above = (lower, None) if lower.mfu < threshold else (knee, lower)
    halve = False
    while knee.training_flop / above.training_flop > 1.0 + KNEE_PRECISION:
        span = math.log(knee.training_flop / above.training_flop)
        part = 0.5 if halve else (above.mfu - threshold) / (above.mfu - knee.mfu)
        part = min(max(part, 0.25 * KNEE_PRECISION / span), 1.0 - 0.25 * KNEE_PRECISION / span)
        flop = above.training_flop * math.exp(span * part)
        middle = best_point(scenario, cluster, flop, [above.strategy, knee.strategy])
        if middle is None:
            return knee
        knee, above = (middle, above) if middle.mfu < threshold else (knee, middle)
        halve = not halve
    return knee


# The paper's grid and space --------------------------------------------------------------------------


def _paper_curve(scenario: Scenario, cluster: Cluster, tell: Progress) -> Curve:
    threshold = scenario.threshold * cluster.device.sustained
    points: list[Point] = []
    widths = grid.widths()
    while True:
        workload = grid.workload(scenario.scaling, next(widths))
        if workload.training_flop < scenario.from_flop:
            continue
        tell(len(points), _PAPER_POINTS, f"{cluster.name}: {workload.training_flop:.2g} FLOP")
        best = paper.smallest_cluster(cluster, workload, scenario.duration, scenario.how)
        if best is None:
            break
        points.append(price_point(scenario, cluster, workload, best))
    shown = tuple(p for p in points if p.training_flop <= (scenario.to_flop or math.inf))
    if not shown:
        raise NoAnswer(
            f"No run on the paper's grid within the range ends within {show(scenario.duration, 's')} on "
            f"{cluster.name}."
        )
    knee = next((point for point in points if point.mfu < threshold), None)
    return _as_curve(cluster, threshold, knee, points[-1], shown)


def _as_curve(
    cluster: Cluster, threshold: float, knee: Point | None, wall: Point, points: tuple[Point, ...]
) -> Curve:
    return Curve(
        cluster=cluster,
        sustained_mfu=cluster.device.sustained,
        threshold_mfu=threshold,
        knee_flop=knee.training_flop if knee else None,
        knee_binding=knee.binding if knee else None,
        wall_flop=wall.training_flop,
        wall_binding=wall.binding,
        points=points,
    )


# The closed form ---------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Wall:
    """The latency wall's closed form: the largest model whose steps fit the run, and its compute."""

    parameters: float
    training_flop: float
    latency: float
    layers: float
    batch: float
    duration: float


def wall(
    *,
    latency: float | str = 9e-6,
    layers: float | str = 120,
    batch: float | str = 4e6,
    duration: float | str = 0.25 * 3.154e7,
    tokens_per_parameter: float | str = 20.0,
) -> Wall:
    """Return the closed form of the latency wall.

    Parameters
    ----------
    latency
        Seconds that one matrix multiplication waits whatever its size: a kernel's start and the
        network operations after it (4.5 µs and four of 1.125 µs).
    layers
        Number of blocks.
    batch
        Tokens a step.
    duration
        Seconds the run may take.
    tokens_per_parameter
        Training tokens a parameter.

    Notes
    -----
    A step waits for two multiplications a block, forward and backward: ``4·L·latency``. A run has
    ``r·N/B`` steps. So ``N ≤ duration · B / (4·r·L·latency)``, with ``r = 20`` and ``C = 6·r·N²``.

    Source: Epoch AI, *Data movement bottlenecks to large-scale model training* (2024).
    """
    values = {
        "latency": parse(latency, "s", "latency"),
        "layers": parse(layers, "1", "layers"),
        "batch": parse(batch, "tokens", "batch"),
        "duration": parse(duration, "s", "duration"),
    }
    ratio = parse(tokens_per_parameter, "1", "tokens_per_parameter")
    for name, value in {**values, "tokens_per_parameter": ratio}.items():
        if not 0 < value < math.inf:
            raise InputError(name, "a positive number", value)
    slots = 4.0 * ratio * values["layers"] * values["latency"]
    parameters = values["duration"] * values["batch"] / slots
    return Wall(parameters=parameters, training_flop=6.0 * ratio * parameters**2, **values)
