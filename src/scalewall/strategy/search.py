r"""The best strategies of a space, exactly, by branch and bound.

The search narrows the space in stages, and drops at each what provably cannot be among the best:

1. *families*, the shardings of a block: priced once each, bounded over all the rest;
2. *configurations*, a family with its `pp` and `dp`: bounded over micro-batches, interleaving and
   layouts. More data parallelism only lowers a bound's MFU, so `dp` climbs from the least that memory
   and the deadline allow until the bound itself is too poor;
3. *counts*, a configuration with its micro-batches: the bound is convex in them, so those that are
   still good enough lie in one interval;
4. *layouts* over the tiers and interleaving, which are priced exactly with `cost.step`.

Every stage takes the most promising first and uses the best found so far as its bar. Bounds are
compared with a slack far above rounding error, so that rounding never drops an optimum. What is
returned was priced by the same functions that anyone can call.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from scalewall.cost import block, collective, step
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.step import AXES, StepParts, Strategies
from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import bounds
from scalewall.strategy.bounds import Families
from scalewall.strategy.space import Space, Strategy
from scalewall.workload.scaling import Workload

Array = Any

OBJECTIVES = ("mfu", "devices", "time")
SLACK = 1.0 + 1e-9
_FIRST_FAMILIES = 64
_FIRST_CONFIGURATIONS = 32
_BLOCK = 1 << 15  # array elements priced at once: a few of them fit the cache together


@attrs.frozen(kw_only=True)
class Question:
    """What to search, for what, and within what.

    `duration` is the longest the run may take, in seconds. The objective is the highest ``mfu``,
    the fewest ``devices`` (and on these the fastest), or the shortest ``time`` on `devices`.
    """

    cluster: Cluster
    workload: Workload
    how: Assumptions
    duration: float = math.inf
    objective: str = "mfu"
    devices: int | None = None
    space: Space = attrs.field(factory=Space)
    top: int = 1

    @property
    def step_limit(self) -> float:
        """The longest a step may take, in seconds."""
        return self.duration / self.workload.steps

    def score(self, devices: Array, seconds: Array) -> Array:
        """Return what is to be smallest; it rises with both arguments."""
        if self.objective == "mfu":
            return devices * seconds
        return seconds if self.objective == "time" else devices + 0.0 * seconds


@attrs.frozen(kw_only=True)
class Certificate:
    """What a search did to be sure.

    Attributes
    ----------
    space
        Strategies in the space.
    priced
        Strategies priced exactly.
    bounded
        Bounds computed for families, configurations and counts.
    best_discarded
        The best score that any discarded strategy could have had, by its bound; never better than
        the worst score returned, but for the slack.
    """

    space: float
    priced: int
    bounded: int
    best_discarded: float


@attrs.frozen(kw_only=True)
class Result:
    """The best strategies, best first, with their scores, and the certificate."""

    strategies: tuple[Strategy, ...]
    scores: tuple[float, ...]
    certificate: Certificate

    @property
    def best(self) -> Strategy | None:
        """The best strategy; None if none is feasible."""
        return self.strategies[0] if self.strategies else None


def search(question: Question, hints: tuple[Strategy, ...] = ()) -> Result:
    """Return the best strategies of the question's space.

    Parameters
    ----------
    question
        What to search.
    hints
        Strategies thought to be good, such as the best ones of a similar question; they only save time.

    Raises
    ------
    InputError
        If the question contradicts itself.
    """
    if question.objective not in OBJECTIVES:
        raise InputError("objective", f"one of {', '.join(OBJECTIVES)}", question.objective)
    if question.objective == "time" and question.devices is None:
        raise InputError("devices", "a whole number where the objective is time", None)
    found = _Search(question).run(hints)
    if question.objective == "devices" and found.best is not None:
        fewest = attrs.evolve(question, objective="time", devices=found.best.devices)
        fastest = _Search(fewest).run((found.best,))
        return attrs.evolve(fastest, certificate=found.certificate)
    return found


@attrs.frozen(kw_only=True)
class _Configurations:
    """Families with `pp`, `dp` and a schedule, as flat arrays, and a bound on each one's score."""

    families: Array
    pp: Array
    dp: Array
    zero_bubble: Array
    score: Array

    def take(self, at: Array) -> _Configurations:
        return _Configurations(**{f.name: getattr(self, f.name)[at] for f in attrs.fields(_Configurations)})


class _Search:
    """One search: the question's arrays, the best so far, and the certificate's counts."""

    def __init__(self, question: Question) -> None:
        self.q = question
        self.cluster, self.workload, self.how = question.cluster, question.workload, question.how
        self.axes = {axis: question.space.degrees(axis, self.workload) for axis in AXES}
        self.layouts = question.space.layouts(self.cluster)
        self.best: list[tuple[float, int, Strategy]] = []  # a heap, worst first
        self.tick = itertools.count()
        self.priced = self.bounded = 0
        self.best_discarded = math.inf
        self.rate = self.cluster.device.sustained_rate(self.how.precision)
        self.most_devices = question.devices or self.cluster.capacity

    # -- the best so far ---------------------------------------------------------------------------

    @property
    def bar(self) -> float:
        """The score that a strategy must beat."""
        return -self.best[0][0] if len(self.best) == self.q.top else math.inf

    def keep(self, score: float, strategy: Strategy) -> None:
        """Take `strategy` among the best if it is; of one set of degrees only the best stays."""
        same = [i for i, (_, _, other) in enumerate(self.best) if _degrees(other) == _degrees(strategy)]
        entry = (-score, next(self.tick), strategy)
        if same:
            if score < -self.best[same[0]][0]:
                self.best[same[0]] = entry
                heapq.heapify(self.best)
        elif len(self.best) < self.q.top:
            heapq.heappush(self.best, entry)
        elif score < self.bar:
            heapq.heapreplace(self.best, entry)

    def survives(self, score: Array) -> Array:
        """Return where a bound on the score leaves hope, and note the best that is discarded."""
        hope = score < self.bar * SLACK if math.isfinite(self.bar) else np.isfinite(score)
        dropped = score[~hope]
        if dropped.size:
            self.best_discarded = min(self.best_discarded, float(dropped.min()))
        return hope

    # -- the stages ----------------------------------------------------------------------------------

    def run(self, hints: tuple[Strategy, ...]) -> Result:
        size = self.q.space.size(self.cluster, self.workload)
        if size and len(self.layouts):
            for hint in hints:
                self.try_hint(hint)
            found = bounds.families(
                self.cluster, self.workload, self.how, *(self.axes[a] for a in ("tp_model", "tp_ff", "ep"))
            )
            score = self.family_bounds(found)
            order = np.argsort(score, kind="stable")
            order = order[np.isfinite(score[order])]
            first, rest = order[:_FIRST_FAMILIES], order[_FIRST_FAMILIES:]
            for some in (first, rest):
                some = some[self.survives(score[some])]
                for configurations in self.configurations(found.take(some)):
                    self.price(found.take(some), configurations)
        ranked = sorted(self.best, reverse=True)
        return Result(
            strategies=tuple(s for _, _, s in ranked),
            scores=tuple(-score for score, _, _ in ranked),
            certificate=Certificate(
                space=size, priced=self.priced, bounded=self.bounded, best_discarded=self.best_discarded
            ),
        )

    def try_hint(self, hint: Strategy) -> None:
        """Price the best strategies with a hint's degrees, as far as the space has them."""
        at = {axis: np.flatnonzero(self.axes[axis] == getattr(hint, axis)) for axis in AXES}
        if any(not len(i) for i in at.values()):
            return
        one = {axis: self.axes[axis][i] for axis, i in at.items()}
        family = bounds.families(self.cluster, self.workload, self.how, one["tp_model"], one["tp_ff"], one["ep"])
        self.price(family, self.bound(family, np.zeros(1, int), one["pp"], one["dp"]))

    def family_bounds(self, family: Families) -> Array:
        """Return a bound on each family's score over all the rest of a strategy.

        With ``P = dp·m`` micro-batches in all, ``n·step ≥ L·width·P·block(B/(S·P))``, which rises
        with `P`, and ``P ≥ 2·n/width`` under zero-bubble. Under 1F1B the same holds for
        ``P = dp·max(m, pp) ≥ n/width``, and the latency is added. `n` itself is at least what this
        work takes within the deadline, which is put in again a few times.
        """
        w, q = self.workload, self.q
        limit = q.step_limit
        arithmetic = w.training_flop / w.steps / self.rate
        n = np.full(family.width.shape, max(arithmetic / limit, 1.0))
        n = np.maximum(n, float(q.devices or 1.0) if q.objective == "time" else 1.0)
        work = np.zeros_like(n)
        for _ in range(3):
            n = np.maximum(n, family.width)
            work = np.full_like(n, math.inf)
            for schedule, fill in (("1f1b", 1.0), ("zero-bubble", 2.0)):
                if schedule in q.space.schedules:
                    total = np.maximum(1.0, fill * n / family.width)
                    tokens = w.batch_tokens / (w.sparsity * total)
                    busy = bounds.block_seconds(self.cluster, w, family, tokens)
                    bound = w.layers * family.width * total * busy
                    work = np.minimum(work, bound + (n * family.wait if schedule == "1f1b" else 0.0))
            n = np.maximum(n, work / limit)
        self.bounded += n.size
        possible = n <= self.most_devices * SLACK
        return np.where(possible, q.score(n, work / n), math.inf)

    def configurations(self, family: Families) -> Iterator[_Configurations]:
        """Yield the configurations that may be among the best, the most promising first."""
        if not family.width.size:
            return
        cells = max(1, _BLOCK // len(self.axes["pp"]))
        found = []
        for start in range(0, family.width.size, cells):
            some = np.arange(start, min(start + cells, family.width.size))
            at = np.repeat(some, len(self.axes["pp"]))
            pp = np.tile(self.axes["pp"], len(some))
            found += list(self.climb(family, at, pp))
            if not math.isfinite(self.bar) and found:
                yield from self.promising(found, most=_FIRST_CONFIGURATIONS)
        yield from self.promising(found)

    def promising(self, found: list[_Configurations], most: int | None = None) -> Iterator[_Configurations]:
        """Yield `found`, best bounds first, in growing portions, while there is hope."""
        if not found:
            return
        names = [f.name for f in attrs.fields(_Configurations)]
        everything = _Configurations(**{n: np.concatenate([getattr(c, n) for c in found]) for n in names})
        order = np.argsort(everything.score, kind="stable")[:most]
        start, size = 0, 16
        while start < len(order):
            some = everything.take(order[start : start + size])
            some = some.take(self.survives(some.score))
            if some.score.size:
                yield some
            start, size = start + size, min(2 * size, 256)

    def climb(self, family: Families, at: Array, pp: Array) -> Iterator[_Configurations]:
        """Yield configurations with growing `dp`, from the least that memory and the deadline allow."""
        dps, w = self.axes["dp"], self.workload
        share = w.parameters / (family.width[at] * pp)
        least = bounds.least_dp(w, self.how, self.cluster.device.memory, share)
        needed = w.training_flop / (w.steps * self.q.step_limit * self.rate * family.width[at] * pp)
        least = np.maximum(least, needed / SLACK)
        if self.q.objective == "time":
            least = np.maximum(least, float(self.q.devices or 1) / (family.width[at] * pp))
        rank = np.searchsorted(dps, least, side="left")
        while True:
            open_ = rank < len(dps)
            at, pp, rank = at[open_], pp[open_], rank[open_]
            if not at.size:
                return
            dp = dps[rank]
            if self.q.objective == "time":
                exact = dp * family.width[at] * pp == self.q.devices
                at, pp, rank, dp = at[exact], pp[exact], rank[exact], dp[exact]
            here = self.bound(family, at, pp, dp)
            hope = self.survives(here.score)
            if hope.any():
                yield here.take(hope)
            if self.q.objective == "time":
                return
            best = np.minimum(*np.split(here.score, 2))
            # A step too long for the deadline has no score, but more replicas may make it shorter.
            late = ~np.isfinite(best) & (dp * family.width[at] * pp < self.most_devices)
            go_on = (best < self.bar * SLACK) | late
            at, pp, rank = at[go_on], pp[go_on], rank[go_on] + 1

    def bound(self, family: Families, at: Array, pp: Array, dp: Array) -> _Configurations:
        """Return configurations under both schedules with a bound on their scores (infinite if impossible)."""
        w, q, tiers = self.workload, self.q, self.cluster.tiers
        some = family.take(at)
        first, last, most_v = self.count_ranges(pp, dp)
        at_tokens = w.batch_tokens / (w.sparsity * dp)

        def busy(m: Array) -> Array:
            return bounds.block_seconds(self.cluster, w, some, at_tokens / np.maximum(m, 1.0))

        fixed = self.fixed_seconds(some, pp, dp)
        scores = []
        for zero_bubble in (False, True):
            low, high = first[zero_bubble], last[zero_bubble]
            possible = (low <= high) & (dp * pp * some.width <= self.most_devices)
            if zero_bubble:
                seconds = low * busy(low)
            else:
                seconds = bounds.one_f_one_b(pp, most_v, low, np.maximum(low, high), busy)
            seconds = w.layers / pp * seconds + fixed[zero_bubble]
            possible &= seconds <= q.step_limit * SLACK
            scores.append(np.where(possible, q.score(dp * pp * some.width, seconds), math.inf))
        self.bounded += 2 * at.size
        twice = {"families": np.tile(at, 2), "pp": np.tile(pp, 2), "dp": np.tile(dp, 2)}
        schedule = np.repeat([False, True], at.size)
        return _Configurations(**twice, zero_bubble=schedule, score=np.concatenate(scores))

    def count_ranges(self, pp: Array, dp: Array) -> tuple[list[Array], list[Array], Array]:
        """Return the least and most micro-batches by schedule (1F1B first), and the most chunks.

        With as many micro-batches and the same layout, zero-bubble without interleaving is never
        slower than 1F1B. So where both are free, 1F1B is only of use below ``2·pp``.
        """
        space, w = self.q.space, self.workload
        most = np.floor(w.batch_tokens / (w.sparsity * dp))
        m = space.microbatches
        low = np.full_like(pp, m or 1.0)
        high = np.minimum(most, m or math.inf)
        both = len(set(space.schedules)) == 2 and space.interleave in (None, 1)
        most_v = np.where(pp > 1, np.floor(w.layers / pp), 1.0)
        if space.interleave is not None:
            low = np.where(space.interleave <= most_v, low, math.inf)
            most_v = np.minimum(most_v, space.interleave)
        last_1f1b = np.minimum(high, 2.0 * pp - 1.0) if both else high
        last = [last_1f1b if "1f1b" in space.schedules else -np.ones_like(pp)]
        unfit = "zero-bubble" not in space.schedules or space.interleave not in (None, 1)
        last.append(-np.ones_like(pp) if unfit else high)
        return [low, np.maximum(low, 2.0 * pp)], last, np.maximum(most_v, 1.0)

    def fixed_seconds(self, some: Families, pp: Array, dp: Array) -> list[Array]:
        """Return at least the seconds a step takes beside its blocks, by schedule (1F1B first)."""
        w, tiers = self.workload, self.cluster.tiers
        share = w.parameters / (some.width * pp)
        reduction = bounds.reduction_seconds(tiers, self.how.word * share, dp, self.how)
        return [some.wait + bounds.exchange_wait(tiers, w, pp, some.ep) + reduction, reduction]

    # -- exact prices ----------------------------------------------------------------------------------

    def price(self, family: Families, some: _Configurations) -> None:
        """Price every strategy of some configurations that may be among the best, exactly."""
        some = some.take(np.isfinite(some.score))
        if not some.score.size:
            return
        at, m = self.counts(family, some)
        per = max(1, _BLOCK // max(1, len(self.layouts)))
        for start in range(0, at.size, per):
            cut = slice(start, start + per)
            hope = self.survives(self.count_bounds(family, some.take(at[cut]), m[cut]))
            if hope.any():
                self.price_counts(family, some.take(at[cut][hope]), m[cut][hope])

    def count_bounds(self, family: Families, some: _Configurations, m: Array) -> Array:
        """Return a bound on the score of configurations with `m` micro-batches."""
        w = self.workload
        part = family.take(some.families)
        most_v = self.count_ranges(some.pp, some.dp)[2]
        idle = np.where(some.zero_bubble, 0.0, step.pipeline.idle_microbatches(some.pp, m, most_v))
        tokens = w.batch_tokens / (w.sparsity * some.dp * m)
        seconds = w.layers / some.pp * (m + idle) * bounds.block_seconds(self.cluster, w, part, tokens)
        fixed = self.fixed_seconds(part, some.pp, some.dp)
        seconds = seconds + np.where(some.zero_bubble, fixed[1], fixed[0])
        self.bounded += m.size
        score = self.q.score(some.dp * some.pp * part.width, seconds)
        return np.where(seconds <= self.q.step_limit * SLACK, score, math.inf)

    def counts(self, family: Families, some: _Configurations) -> tuple[Array, Array]:
        """Return which micro-batch counts each configuration may have: indices and counts, flat.

        For a given configuration the bound is convex in the count: a sum of products of lines that
        stay positive, ``(a + m)·(c + d/m)``. So what is good enough is an interval around its least.
        """
        first, last, _ = self.count_ranges(some.pp, some.dp)
        low = np.where(some.zero_bubble, first[1], first[0])
        high = np.where(some.zero_bubble, last[1], last[0])

        def value(m: Array) -> Array:
            w, part = self.workload, family.take(some.families)
            most_v = self.count_ranges(some.pp, some.dp)[2]
            idle = np.where(some.zero_bubble, 0.0, step.pipeline.idle_microbatches(some.pp, m, most_v))
            tokens = w.batch_tokens / (w.sparsity * some.dp * m)
            fixed = self.fixed_seconds(part, some.pp, some.dp)
            seconds = w.layers / some.pp * (m + idle) * bounds.block_seconds(self.cluster, w, part, tokens)
            return seconds + np.where(some.zero_bubble, fixed[1], fixed[0])

        least = convex_argmin(value, low, high)
        devices = some.dp * some.pp * family.width[some.families]
        bar = np.minimum(self.q.step_limit, self.bar / devices if self.q.objective == "mfu" else math.inf)
        if self.q.objective == "time":
            bar = np.minimum(bar, self.bar)
        bar = bar * SLACK
        good = value(least) <= bar
        left = _edge(value, least, low, bar)
        right = _edge(value, least, high, bar)
        spans = np.where(good, right - left + 1.0, 0.0).astype(int)
        at = np.repeat(np.arange(spans.size), spans)
        offset = np.arange(at.size) - np.repeat(np.cumsum(spans) - spans, spans)
        return at, left[at] + offset

    def price_counts(self, family: Families, some: _Configurations, m: Array) -> None:
        """Price configurations with `m` micro-batches over all layouts and interleavings."""
        part = family.take(some.families)
        w = self.workload
        totals = {"dp": some.dp, "tp_model": part.tp_model, "tp_ff": part.tp_ff, "pp": some.pp, "ep": part.ep}
        degrees: dict[str, list[Array]] = {}
        for i, axis in enumerate(AXES):
            inner = [self.layouts[None, :, i, t] for t in range(self.layouts.shape[2])]
            outer = totals[axis][:, None] / self.layouts[:, i].prod(axis=1)[None]
            degrees[axis] = [*inner, np.where(outer == np.floor(outer), outer, np.nan)]
        split = {axis: totals[axis][:, None] for axis in ("tp_model", "tp_ff")}
        products = block.multiplications(self.cluster, w.block, split, self.how, w.whole)
        zero_bubble, m = some.zero_bubble[:, None], m[:, None]
        most_v = np.where(zero_bubble, 1.0, self.count_ranges(some.pp, some.dp)[2][:, None])
        shape = np.broadcast_shapes(most_v.shape, (1, len(self.layouts)))

        def at(v: Array) -> tuple[Strategies, StepParts]:
            chosen = Strategies(degrees=degrees, microbatches=m, interleave=v, zero_bubble=zero_bubble)
            self.priced += math.prod(shape)
            return chosen, step.parts(self.cluster, w, chosen, self.how, products)

        fixed_v = self.q.space.interleave
        low = np.broadcast_to(np.float64(fixed_v or 1.0), shape)
        high = np.broadcast_to(np.where(zero_bubble, 1.0, np.float64(fixed_v)) if fixed_v else most_v, shape)
        v = convex_argmin(lambda v: np.broadcast_to(at(v)[1].seconds, shape), low, high)
        chosen, parts = at(v)
        fits = step.allowed(self.cluster, w, chosen, self.how) & (parts.seconds <= self.q.step_limit)
        score = np.where(fits, self.q.score(chosen.devices, parts.seconds), math.inf)
        score = np.broadcast_to(score, shape)
        for row in np.argsort(score.min(axis=1), kind="stable"):
            column = int(np.argmin(score[row]))
            if not score[row, column] < self.bar:
                break
            self.keep(float(score[row, column]), Strategy.of(chosen, (int(row), column)))


def _degrees(strategy: Strategy) -> tuple[int, ...]:
    return tuple(getattr(strategy, axis) for axis in AXES)


def convex_argmin(value: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the whole numbers between `low` and `high` at which a convex `value` is least, elementwise."""
    low, high = np.array(low, dtype=float), np.array(np.maximum(low, high), dtype=float)
    while (low < high).any():
        middle = np.floor((low + high) / 2.0)
        rising = value(np.minimum(middle + 1.0, high)) >= value(middle)
        high = np.where(rising, middle, high)
        low = np.where(rising, low, np.minimum(middle + 1.0, high))
    return low


def _edge(value: Callable[[Array], Array], least: Array, end: Array, bar: Array) -> Array:
    """Return the whole number farthest from `least` towards `end` whose `value` is within `bar`."""
    inside, outside = least, end + np.sign(end - least)
    while (np.abs(outside - inside) > 1.0).any():
        middle = np.where(np.abs(outside - inside) > 1.0, np.trunc((inside + outside) / 2.0), inside)
        good = value(middle) <= bar
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    return inside
