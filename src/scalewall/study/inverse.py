"""Inverse design: the least change of one input that makes a run of a given size efficient.

Each input alone is scanned by factors away from its value, both ways, and the first factor that works is
drawn in by halving. A scan is needed because utilisation does not rise with every input alone, and has
bumps along most: what is found is the least factor between two that were tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import attrs

from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.space import Strategy
from scalewall.study.inputs import Input
from scalewall.study.limits import Progress
from scalewall.study.points import Point, best_point
from scalewall.study.scenario import Scenario

MOST_FACTOR = 1000.0
"""No input is changed by more than this, up or down."""

SCANNED = 12
"""Factors tried on either side, evenly spaced in the logarithm."""

PRECISION = 1e-3
"""To which share a factor is found."""


@attrs.frozen(kw_only=True)
class Remedy:
    """What one input must become.

    Attributes
    ----------
    value, factor
        The value nearest to the input's own at which the run is efficient, and how many times its own
        that is; None if there is none within bounds.
    point
        The run there.
    threshold_mfu
        The MFU that counts as efficient there: it moves with the sustained share.
    least, most
        The values within which it was sought.
    """

    input: Input
    value: float | None
    point: Point | None
    threshold_mfu: float
    least: float
    most: float

    @property
    def factor(self) -> float | None:
        """How many times the input's own value the value is."""
        return None if self.value is None else self.value / self.input.value


@attrs.frozen(kw_only=True)
class Design:
    """What makes a run of `target_flop` efficient: a remedy for each input, the least changes first.

    `today` is the best run with nothing changed; None if none ends in time.
    """

    target_flop: float
    today: Point | None
    remedies: tuple[Remedy, ...]


def design(
    scenario: Scenario,
    cluster: Cluster,
    known: Mapping[str, Input],
    target: float,
    knee: float | None,
    tell: Progress,
) -> Design:
    """Return for each of the inputs `known` the least change that makes a run of `target` FLOP efficient.

    Raises
    ------
    InputError
        If it is efficient already.
    """
    today = _efficient(scenario, cluster, target, ())
    if today is not None:
        must = f"more than the knee ({knee:.4g} FLOP)" if knee else "a run that is not efficient today"
        hint = f"At {target:.4g} FLOP the best run has {today.mfu:.1%} MFU, which is efficient today."
        raise InputError("target", must, target, hint)
    now = best_point(scenario, cluster, target)
    hints = (now.strategy,) if now else ()
    remedies = []
    for i, number in enumerate(known.values()):
        tell(i, len(known), f"{cluster.name}: {target:.2g} FLOP by {number.name}")
        remedies.append(remedy(scenario, cluster, number, target, hints))
    remedies.sort(key=lambda r: abs(math.log(r.factor)) if r.factor else math.inf)
    return Design(target_flop=target, today=now, remedies=tuple(remedies))


def remedy(
    scenario: Scenario, cluster: Cluster, number: Input, target: float, hints: tuple[Strategy, ...] = ()
) -> Remedy:
    """Return the least change of the input `number` that makes a run of `target` FLOP efficient."""
    least = max(number.least, number.value / MOST_FACTOR)
    most = min(number.most, number.value * MOST_FACTOR)

    def run(value: float) -> Point | None:
        return _efficient(*number.set(scenario, cluster, value), target, hints)

    found: list[tuple[float, Point]] = []
    for pair in _outward(number, least, most):
        for inner, value in pair:
            point = run(value)
            if point is not None:
                found.append((value, point) if number.whole else _drawn_in(run, inner, value, point))
        if found:
            break
    best = min(found, key=lambda f: abs(math.log(f[0] / number.value))) if found else None
    changed = number.set(scenario, cluster, best[0])[1] if best else cluster
    return Remedy(
        input=number,
        value=best[0] if best else None,
        point=best[1] if best else None,
        threshold_mfu=scenario.threshold * changed.device.sustained,
        least=least,
        most=most,
    )


def _efficient(
    scenario: Scenario, cluster: Cluster, target: float, hints: tuple[Strategy, ...]
) -> Point | None:
    """Return the best run of `target` FLOP if it is efficient and has at least one step, else None."""
    try:
        point = best_point(scenario, cluster, target, hints)
    except (InputError, OverflowError):  # laws that leave no model at all
        return None
    if point is None or point.workload.steps < 1.0:
        return None
    return point if point.mfu >= scenario.threshold * cluster.device.sustained else None


def _outward(number: Input, least: float, most: float) -> Iterator[list[tuple[float, float]]]:
    """Yield values at growing distance from an input's own, each behind the one before it on its side.

    Those of one item are equally far, but where a bound is nearer: it is the last on its side.
    """
    if number.whole:
        powers = range(math.ceil(math.log2(MOST_FACTOR)))
        factors = [f for k in powers for f in (1.5 * 2.0**k, 2.0 * 2.0**k) if f <= MOST_FACTOR]
    else:
        factors = [MOST_FACTOR ** ((k + 1) / SCANNED) for k in range(SCANNED)]
    inner = {-1: number.value, 1: number.value}
    for factor in factors:
        pair = []
        for sign in (1, -1):
            value = min(max(number.value * factor**sign, least), most)
            if value != inner[sign] and number.allows(value):
                pair.append((inner[sign], value))
                inner[sign] = value
        yield pair


def _drawn_in(
    run: Callable[[float], Point | None], inner: float, value: float, point: Point
) -> tuple[float, Point]:
    """Return a value that works, and its run, at most `PRECISION` beyond one that fails."""
    while abs(math.log(value / inner)) > PRECISION:
        middle = math.sqrt(inner * value)
        tried = run(middle)
        if tried is None:
            inner = middle
        else:
            value, point = middle, tried
    return value, point
