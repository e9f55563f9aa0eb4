r"""The exact search, by branch and bound.

The search narrows the space in stages, and drops at each what provably cannot be among the best:

1. *families*, the shardings of a block: priced once each, bounded over all the rest, first with the
   tensor axes' layout open, then for each layout of them;
2. *configurations*, a family with its `pp` and `dp`: bounded over micro-batches, interleaving and
   the other axes' layout. More data parallelism only lowers a bound's MFU, so `dp` climbs from the
   least that memory and the deadline allow until the bound itself is too poor;
3. *counts*, a configuration with its micro-batches: the bound is convex in them, so those that are
   still good enough lie in one interval;
4. layouts of the other axes and interleaving, priced exactly with `cost.step`.

Every stage takes the most promising first and uses the best found so far as its bar. Bounds are
compared with a slack far above rounding error, so that rounding never drops an optimum. What is
returned was priced by the same functions that anyone can call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from scalewall.cost.step import AXES
from scalewall.strategy import bounds
from scalewall.strategy.best import SLACK, Best
from scalewall.strategy.bounds import Families
from scalewall.strategy.configurations import Bound, Configurations, bound
from scalewall.strategy.counts import Counts, Portion
from scalewall.strategy.pricing import price
from scalewall.strategy.question import Certificate, Question, Result
from scalewall.strategy.space import Strategy

Array = Any

_FIRST_FAMILIES = 64
_LAID_OUT = 1 << 18  # families laid out at once, at most: so much fits the memory
_FIRST_SETTLED = 16
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # its multiples, but for whole numbers, are spread evenly
_ROUNDS = 24  # of putting a bound into itself
_SETTLED = 1.01
_HINT_REACH = 4
_SPARE, _PROMISE = 0.95, 0.8  # shares of the deadline, and of the best score so far
_MISSES = 3  # of the deadline in a row, before bisection
_CELLS = 1 << 15  # array elements priced at once: a few such arrays fit the cache together


class Engine:
    """One search: the question's arrays, the best so far, and the certificate's counts."""

    def __init__(self, question: Question) -> None:
        self.q = question
        self.cluster, self.w, self.how = question.cluster, question.workload, question.how
        self.axes = {axis: question.space.degrees(axis, self.w) for axis in AXES}
        self.layouts = question.space.layouts(self.cluster, self.w)
        self.best = Best(question.top, question.tolerance)
        self.priced = self.bounded = 0
        self.rate = self.cluster.device.sustained_rate(self.how.precision)
        self.any_will_do = question.tolerance >= 1.0
        self.most_devices = min(question.devices or math.inf, self.cluster.capacity)

    def run(self, hints: tuple[Strategy, ...]) -> Result:
        """Return the best strategies."""
        size = self.q.space.size(self.cluster, self.w)
        if size:
            everything = self.families()
            for hint in hints:
                self.try_hint(everything, hint)
            score, replicas = self.family_bounds(everything)
            for some in self.portions(score, replicas):
                self.settle(*self.laid_out(everything.take(some[self.best.survives(score[some])])))
        return Result(
            strategies=tuple(strategy for _, strategy in self.best.ranked),
            scores=tuple(score for score, _ in self.best.ranked),
            certificate=Certificate(
                space=size,
                priced=self.priced,
                bounded=self.bounded,
                best_discarded=self.best.discarded,
            ),
        )

    def ruled_out(self) -> bool:
        """Return whether no family can end in time, by its bounds."""
        if any(not len(degrees) for degrees in self.axes.values()) or not len(self.layouts.degrees):
            return True
        everything = self.families()
        portions = self.portions(*self.family_bounds(everything))
        return not any(self.laid_out(everything.take(some))[1].size for some in portions)

    def families(self) -> Families:
        """Return all families, the layout of their tensor axes left open."""
        tensor = [self.axes[axis] for axis in ("tp_model", "tp_ff", "ep")]
        return bounds.families(self.cluster, self.w, self.how, *tensor)

    def laid_out(self, family: Families) -> tuple[Families, Array]:
        """Return families under each tensor layout, as far as hopeful, and the least ``dp·pp`` of each."""
        some = bounds.laid_out(self.cluster, self.w, self.how, family, self.layouts.tensor)
        score, replicas = self.family_bounds(some)
        hope = np.flatnonzero(self.best.survives(score))
        if self.any_will_do:  # where any will do, a few of each kind first, in an even sequence
            hope = hope[np.argsort(replicas[hope], kind="stable")]
            hope = hope[np.argsort(np.arange(hope.size) * _GOLDEN % 1.0)]
        return some.take(hope), replicas[hope]

    def promise(self, score: Array, strain: Array) -> Array:
        """Return by what to take strategies up: the score, or where any will do, what strains the time."""
        return strain if self.any_will_do else score

    def portions(self, score: Array, replicas: Array) -> list[Array]:
        """Return the indices of families that are not ruled out, most promising first: a few, then many."""
        order = np.argsort(self.promise(score, replicas), kind="stable")
        order = order[np.isfinite(score[order])]
        many = max(_FIRST_FAMILIES, _LAID_OUT // len(self.layouts.tensor))
        return np.split(order, range(_FIRST_FAMILIES, order.size, many))

    def try_hint(self, everything: Families, hint: Strategy) -> None:
        """Price the best strategies with a hint's degrees, or more `dp`, as far as the space has them."""
        if hint.pp not in self.axes["pp"]:
            return
        same = (
            (everything.tp_model == hint.tp_model)
            & (everything.tp_ff == hint.tp_ff)
            & (everything.ep == hint.ep)
        )
        family = bounds.laid_out(
            self.cluster, self.w, self.how, everything.take(np.flatnonzero(same)), self.layouts.tensor
        )
        dps = self.axes["dp"]
        dps = dps[(dps >= hint.dp) & (dps <= _HINT_REACH * hint.dp)]
        at, dp = (grid.ravel() for grid in np.meshgrid(np.arange(family.width.size), dps))
        some = self.bound(family, at, np.full(at.size, float(hint.pp)), dp).configurations
        devices = some.dp * some.pp * family.width[some.family]
        fits = devices <= self.most_devices
        if self.q.objective == "time":
            fits = fits & (devices == self.q.devices)
        some = some.take(np.flatnonzero(fits))
        for portion in self.promising([some]):
            self.price_portion(family, portion)

    # 1. Families ------------------------------------------------------------------------------------

    def family_bounds(self, family: Families) -> tuple[Array, Array]:
        """Return a bound on each family's score over all the rest of a strategy, and one on ``dp·pp``.

        With ``P = dp·m`` micro-batches in all, ``n·step ≥ L·width·P·block(B/(S·P))``, which rises with
        `P`, and ``P ≥ 2·dp·pp`` under zero-bubble. Under 1F1B the same holds for
        ``P = dp·max(m, pp)``, and the latency is added; what goes on beside the blocks is added under
        both. `n` is at least what this work takes within the deadline, which is put in again until it
        settles. And a micro-batch of one token must pass all blocks in time, under zero-bubble twice.
        """
        w, q, limit = self.w, self.q, self.q.step_limit * SLACK
        sequences = w.batch_tokens / w.sparsity
        ways = [
            (0, 1.0, family.wait, sequences * w.layers),
            (1, 2.0, np.zeros_like(family.wait), sequences / 2.0),
        ]
        ways = [way for way, allowed in zip(ways, q.space.schedules_left, strict=True) if allowed]
        n = np.maximum(family.width, w.training_flop / w.steps / self.rate / limit)
        n = np.maximum(n, float(q.devices or 1) if q.objective == "time" else 1.0)
        most = sequences, w.layers
        one_token = w.layers * bounds.block_seconds(family, np.ones(1))
        work, rising = np.full_like(n, math.inf), np.arange(n.size)
        for _ in range(_ROUNDS):
            some, more = family.take(rising), n[rising]
            beside = bounds.beside_blocks(self.cluster.tiers, w, some, more / some.width, self.how)
            seconds = []
            for which, fill, wait, most_replicas in ways:
                fixed = wait[rising] + beside[which]
                total = np.minimum(fill * more / some.width, sequences)
                blocks = w.layers * some.width * total * bounds.block_seconds(some, sequences / total)
                inside = blocks + more * wait[rising]
                beyond = q.borders.device_seconds(
                    some, inside, replicas=more / some.width, most=most, one_f_one_b=which == 0
                )
                in_time = fill * one_token[rising] + fixed <= limit
                in_time = in_time & (more <= some.width * most_replicas * SLACK)
                seconds.append(np.where(in_time, np.maximum(blocks + more * fixed, beyond), math.inf))
            work[rising] = np.minimum.reduce(seconds)
            self.bounded += rising.size
            rising, more = (some[np.isfinite(work[rising])] for some in (rising, more))
            n[rising] = np.maximum(more, work[rising] / limit)
            rising = rising[n[rising] > more * _SETTLED]
            if not rising.size:
                break
        score = np.where(n <= self.most_devices * SLACK, q.score(n, work / n), math.inf)
        return np.where(np.isfinite(work), score, math.inf), n / family.width

    # 2. Configurations --------------------------------------------------------------------------------

    def settle(self, family: Families, replicas: Array) -> None:
        """Find the best strategies of `family`, whose ``dp·pp`` is at least `replicas`."""
        pps = self.axes["pp"]
        most = max(1, _CELLS // len(pps))
        found: list[Configurations] = []
        start, size = 0, min(most, _FIRST_SETTLED) if self.any_will_do else most
        while start < family.width.size:
            some = np.arange(start, min(start + size, family.width.size))
            start, size = start + size, min(2 * size, most)
            at, pp = np.repeat(some, len(pps)), np.tile(pps, len(some))
            for portion in self.climb(family, at, pp, replicas[at] / pp):
                if self.any_will_do:
                    for few in self.promising([portion]):
                        self.price_portion(family, few)
                    continue
                found.append(portion)
                self.raise_bar(family, portion)
        for portion in self.promising(found):
            self.price_portion(family, portion)

    def raise_bar(self, family: Families, some: Configurations) -> None:
        """Price a few configurations now if they promise a far better bar: with time to spare first."""
        for spare in (_SPARE, 1.0):
            early = some.take(np.flatnonzero(some.seconds <= spare * self.q.step_limit))
            if early.score.size and early.score.min() < _PROMISE * self.best.bar:
                for few in itertools.islice(self.promising([early]), 1):
                    self.price_portion(family, few)

    def promising(self, found: list[Configurations]) -> Iterator[Configurations]:
        """Yield `found`, best bounds first, in growing portions, while there is hope."""
        if not found:
            return
        names = [f.name for f in attrs.fields(Configurations)]
        everything = Configurations(**{n: np.concatenate([getattr(c, n) for c in found]) for n in names})
        everything = everything.take(np.isfinite(everything.score))
        order = np.argsort(self.promise(everything.score, everything.seconds), kind="stable")
        start, size = 0, 16
        while start < len(order):
            some = everything.take(order[start : start + size])
            some = some.take(self.best.survives(some.score))
            if not some.score.size:
                return
            yield some
            start, size = start + size, min(2 * size, 1024)

    def climb(self, family: Families, at: Array, pp: Array, least: Array) -> Iterator[Configurations]:
        """Yield configurations with growing `dp`, from the `least` that the deadline allows and memory.

        At equal ``dp·m`` devices times seconds rise with `dp`: fewer micro-batches fill the pipeline
        less, latency and reduction are paid on more devices. So once a bound, deadline aside, is too
        poor, it stays so. Blocks take at least ``dp/dp'`` of their time under ``dp' > dp`` and nothing
        else gets shorter, so where a step is too long by a factor, `dp` must grow by at least that.
        """
        dps, q, w = self.axes["dp"], self.q, self.w
        width = family.width[at] * pp
        share = w.parameters / width
        memory = self.cluster.device.memory * SLACK
        least = np.maximum(least / SLACK, bounds.least_dp(w, self.how, memory, share))
        if q.objective == "time":
            least = np.maximum(least, float(q.devices or 1) / width)
        rank: Array = np.searchsorted(dps, least, side="left")
        misses = np.zeros_like(rank)
        while True:
            wanted = dps[np.minimum(rank, len(dps) - 1)]
            open_ = np.flatnonzero((rank < len(dps)) & (wanted * width <= self.most_devices))
            at, pp, rank, width, misses = at[open_], pp[open_], rank[open_], width[open_], misses[open_]
            if not at.size:
                return
            here = self.bound(family, at, pp, dps[rank])
            some, seconds = here.configurations, here.seconds
            hope = self.best.survives(some.score)
            if q.objective == "time":
                hope = hope & np.tile(dps[rank] * width == q.devices, 2)
            if hope.any():
                yield some.take(hope)
            if q.objective == "time":
                return
            go_on = np.flatnonzero(q.score(dps[rank] * width, seconds) < self.best.reachable)
            late = np.maximum(seconds[go_on] / q.step_limit / SLACK, 1.0)
            jump = np.searchsorted(dps, dps[rank[go_on]] * late, side="left")
            at, pp, width = at[go_on], pp[go_on], width[go_on]
            rank = np.maximum(rank[go_on] + 1, jump)
            misses = np.where(late > 1.0, misses[go_on] + 1, 0)
            stuck = np.flatnonzero(misses >= _MISSES)
            if stuck.size:
                below = here.reduction[go_on][stuck]
                rank[stuck] = self.in_time(family, at[stuck], pp[stuck], rank[stuck], below)
                misses[stuck] = 0

    def in_time(self, family: Families, at: Array, pp: Array, rank: Array, reduction: Array) -> Array:
        """Return the least rank of `dp`, from `rank` up, at which a bound is within the deadline.

        But for the reduction, which only grows, each schedule's bound falls with `dp`, until its
        micro-batches run out. From where they do on, nothing is said; a schedule that has none is left out.
        """
        dps, limit = self.axes["dp"], self.q.step_limit * SLACK

        def blocks(rank: Array) -> Array:
            return self.bound(family, at, pp, dps[np.minimum(rank, len(dps) - 1)]).inside

        runs = np.isfinite(blocks(rank))
        low, high = np.array(rank), np.full_like(rank, len(dps))
        while (low < high).any():
            middle = (low + high) // 2
            seconds = blocks(middle)
            good = (runs & ((seconds + reduction <= limit) | np.isinf(seconds))).any(axis=0) | (low == high)
            high = np.where(good, middle, high)
            low = np.where(good, low, np.minimum(middle + 1, high))
        return low

    def bound(self, family: Families, at: Array, pp: Array, dp: Array) -> Bound:
        """Return bounds for configurations of the families at the indices `at`."""
        self.bounded += 2 * at.size
        return bound(self.q, family, at, pp, dp)

    # 3. Counts ------------------------------------------------------------------------------------------

    def price_portion(self, family: Families, some: Configurations) -> None:
        """Price every strategy of some configurations that may be among the best, exactly.

        The most promising count of each comes first, so that the bar is good before the others.
        """
        here = Counts(Portion(self.q, family.take(some.family), some.pp, some.dp), some.zero_bubble)
        least = here.most_promising()
        self.price_hopeful(here, least)
        left, right = here.interval(least, self.most_seconds(here.portion.devices))
        spans = np.maximum(0.0, right - left + 1.0).astype(int)
        at = np.repeat(np.arange(spans.size), spans)
        m = left[at] + np.arange(at.size) - np.repeat(np.cumsum(spans) - spans, spans)
        other = np.flatnonzero(m != least[at])
        if other.size:
            self.price_hopeful(here.take(at[other]), m[other])

    def most_seconds(self, devices: Array) -> Array:
        """Return the longest step with which a strategy on `devices` may be among the best."""
        longest = np.full_like(devices, self.q.step_limit * SLACK)
        if self.q.objective == "mfu":
            return np.minimum(longest, self.best.reachable / devices)
        return np.minimum(longest, self.best.reachable) if self.q.objective == "time" else longest

    def price_hopeful(self, here: Counts, m: Array) -> None:
        """Price configurations with `m` micro-batches, best bounds first, while there is hope."""
        seconds = here.seconds(m, joint=True)
        score = self.q.score(here.portion.devices, seconds)
        score = np.where(seconds <= self.q.step_limit * SLACK, score, math.inf)
        self.bounded += m.size
        order = np.argsort(score, kind="stable")
        start, size = 0, 4
        while start < order.size:
            now = order[start : start + size]
            now = now[self.best.survives(score[now])]
            if not now.size:
                return
            self.price_counts(here.take(now), m[now])
            start, size = start + size, min(2 * size, 512)

    # 4. Exact prices --------------------------------------------------------------------------------------

    def price_counts(self, here: Counts, m: Array) -> None:
        """Price configurations with `m` micro-batches over all layouts and interleavings."""
        tensor_layout = here.portion.family.tensor_layout
        many = self.layouts.count[tensor_layout]
        row = np.repeat(np.arange(m.size), many)
        place = np.arange(row.size) - np.repeat(np.cumsum(many) - many, many)
        layout = self.layouts.order[self.layouts.first[tensor_layout][row] + place]
        for start in range(0, row.size, _CELLS):
            cut = slice(start, start + _CELLS)
            for zero_bubble in (False, True):
                rows = np.flatnonzero(here.zero_bubble[row[cut]] == zero_bubble) + start
                if rows.size:
                    portion = here.portion.take(row[rows])
                    self.keep_best(portion, m[row[rows]], self.layouts.degrees[layout[rows]], zero_bubble)

    def keep_best(self, portion: Portion, m: Array, layouts: Array, zero_bubble: bool) -> None:
        """Price configurations, each under its layout, and keep what is among the best."""
        score, chosen, priced = price(self.q, portion, m, layouts, zero_bubble)
        self.priced += priced
        for i in np.argsort(score, kind="stable"):
            if not score[i] < self.best.bar:
                break
            self.best.keep(float(score[i]), Strategy.of(chosen, (int(i),)))
