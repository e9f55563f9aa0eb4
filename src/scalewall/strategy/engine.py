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
from scalewall.strategy.pricing import convex_argmin, price
from scalewall.strategy.search import Certificate, Question, Result
from scalewall.strategy.space import Strategy

Array = Any

_FIRST_FAMILIES = 64
_CELLS = 1 << 14  # array elements priced at once: a few such arrays fit the cache together
_TENSOR = [AXES.index("tp_model"), AXES.index("tp_ff")]


@attrs.frozen(kw_only=True)
class _Configurations:
    """Families with `pp`, `dp` and a schedule, as flat arrays, and a bound on each one's score."""

    family: Array
    pp: Array
    dp: Array
    zero_bubble: Array
    score: Array

    def take(self, at: Array) -> _Configurations:
        return _Configurations(**{f.name: getattr(self, f.name)[at] for f in attrs.fields(_Configurations)})


class Engine:
    """One search: the question's arrays, the best so far, and the certificate's counts."""

    def __init__(self, question: Question) -> None:
        self.q = question
        self.cluster, self.w, self.how = question.cluster, question.workload, question.how
        self.axes = {axis: question.space.degrees(axis, self.w) for axis in AXES}
        self.layouts = question.space.layouts(self.cluster)
        tensor = self.layouts[:, _TENSOR].reshape(len(self.layouts), -1)
        unique, self.tensor_layout = np.unique(tensor, axis=0, return_inverse=True)
        self.tensor_layouts = unique.reshape(len(unique), 2, self.layouts.shape[2])
        self.best = Best(question.top, question.tolerance)
        self.priced = self.bounded = 0
        self.rate = self.cluster.device.sustained_rate(self.how.precision)
        self.most_devices = question.devices or self.cluster.capacity

    def run(self, hints: tuple[Strategy, ...]) -> Result:
        """Return the best strategies."""
        size = self.q.space.size(self.cluster, self.w)
        if size:
            tensor = [self.axes[axis] for axis in ("tp_model", "tp_ff", "ep")]
            everything = bounds.families(self.cluster, self.w, self.how, *tensor)
            for hint in hints:
                self.try_hint(everything, hint)
            score, _ = self.family_bounds(everything)
            order = np.argsort(score, kind="stable")
            order = order[np.isfinite(score[order])]
            for some in (order[:_FIRST_FAMILIES], order[_FIRST_FAMILIES:]):
                hopeful = everything.take(some[self.best.survives(score[some])])
                family = bounds.laid_out(self.cluster, self.w, self.how, hopeful, self.tensor_layouts)
                score_laid_out, replicas = self.family_bounds(family)
                hope = self.best.survives(score_laid_out)
                self.settle(family.take(hope), replicas[hope])
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

    def try_hint(self, everything: Families, hint: Strategy) -> None:
        """Price the best strategies with a hint's degrees, as far as the space has them."""
        if any(getattr(hint, axis) not in self.axes[axis] for axis in ("pp", "dp")):
            return
        same = (
            (everything.tp_model == hint.tp_model)
            & (everything.tp_ff == hint.tp_ff)
            & (everything.ep == hint.ep)
        )
        family = bounds.laid_out(
            self.cluster, self.w, self.how, everything.take(np.flatnonzero(same)), self.tensor_layouts
        )
        at = np.arange(family.width.size)
        ones = np.ones(at.size)
        some, _ = self.bound(family, at, hint.pp * ones, hint.dp * ones)
        for portion in self.promising([some]):
            self.price_portion(family, portion)

    # 1. Families ------------------------------------------------------------------------------------

    def family_bounds(self, family: Families) -> tuple[Array, Array]:
        """Return a bound on each family's score over all the rest of a strategy, and one on ``dp·pp``.

        With ``P = dp·m`` micro-batches in all, ``n·step ≥ L·width·P·block(B/(S·P))``, which rises with
        `P`, and ``P ≥ 2·dp·pp`` under zero-bubble. Under 1F1B the same holds for
        ``P = dp·max(m, pp)``, and the latency is added. A micro-batch must pass all blocks in time,
        under zero-bubble twice, which bounds its tokens and so `P`; and `n` is at least what all this
        work takes within the deadline, which is put in again a few times.
        """
        w, q, limit = self.w, self.q, self.q.step_limit
        sequences = w.batch_tokens / w.sparsity
        ways = [(1.0, family.wait)] if "1f1b" in q.space.schedules else []
        ways += [(2.0, 0.0 * family.wait)] if "zero-bubble" in q.space.schedules else []
        fewest = []
        for fill, wait in ways:
            with np.errstate(divide="ignore"):
                most = bounds.most_tokens(self.cluster, w, family, (limit - wait) / (fill * w.layers))
                fewest.append(sequences / most)
        replicas = np.min([p / fill for p, (fill, _) in zip(fewest, ways, strict=True)], axis=0)
        self.bounded += family.width.size
        n = np.maximum(family.width, w.training_flop / w.steps / self.rate / limit)
        n = np.maximum(n, family.width * np.minimum(replicas, sequences))
        n = np.maximum(n, float(q.devices or 1) if q.objective == "time" else 1.0)
        work = np.zeros_like(n)
        for _ in range(3):
            works = []
            for p, (fill, wait) in zip(fewest, ways, strict=True):
                total = np.maximum(fill * n / family.width, np.minimum(p, sequences))
                busy = bounds.block_seconds(self.cluster, w, family, sequences / total)
                seconds = w.layers * family.width * total * busy + n * wait
                works.append(np.where(np.isfinite(p), seconds, math.inf))
            work = np.min(works, axis=0)
            n = np.where(np.isfinite(work), np.maximum(n, work / limit), n)
        possible = (n <= self.most_devices * SLACK) & np.isfinite(work)
        return np.where(possible, q.score(n, work / n), math.inf), n / family.width

    # 2. Configurations --------------------------------------------------------------------------------

    def settle(self, family: Families, replicas: Array) -> None:
        """Find the best strategies of `family`, whose ``dp·pp`` is at least `replicas`."""
        pps = self.axes["pp"]
        per = max(1, _CELLS // len(pps))
        found: list[_Configurations] = []
        for start in range(0, family.width.size, per):
            some = np.arange(start, min(start + per, family.width.size))
            at, pp = np.repeat(some, len(pps)), np.tile(pps, len(some))
            for portion in self.climb(family, at, pp, replicas[at] / pp):
                found.append(portion)
                if not math.isfinite(self.best.bar):  # nothing found yet: price a few at once, to have a bar
                    for few in itertools.islice(self.promising([portion]), 1):
                        self.price_portion(family, few)
        for portion in self.promising(found):
            self.price_portion(family, portion)

    def promising(self, found: list[_Configurations]) -> Iterator[_Configurations]:
        """Yield `found`, best bounds first, in growing portions, while there is hope."""
        if not found:
            return
        names = [f.name for f in attrs.fields(_Configurations)]
        everything = _Configurations(**{n: np.concatenate([getattr(c, n) for c in found]) for n in names})
        everything = everything.take(np.isfinite(everything.score))
        order = np.argsort(everything.score, kind="stable")
        start, size = 0, 16
        while start < len(order):
            some = everything.take(order[start : start + size])
            some = some.take(self.best.survives(some.score))
            if not some.score.size:
                return
            yield some
            start, size = start + size, min(2 * size, 1024)

    def climb(self, family: Families, at: Array, pp: Array, least: Array) -> Iterator[_Configurations]:
        """Yield configurations with growing `dp`, from the `least` that the deadline allows and memory.

        At equal ``dp·m`` devices times seconds rise with `dp`: fewer micro-batches fill the pipeline
        less, latency and reduction are paid on more devices. So once a bound, deadline aside, is too
        poor, it stays so. Blocks take at least ``dp/dp'`` of their time under ``dp' > dp`` and nothing
        else gets shorter, so where a step is too long by a factor, `dp` must grow by at least that.
        """
        dps, q, w = self.axes["dp"], self.q, self.w
        width = family.width[at] * pp
        share = w.parameters / width
        least = np.maximum(least / SLACK, bounds.least_dp(w, self.how, self.cluster.device.memory, share))
        if q.objective == "time":
            least = np.maximum(least, float(q.devices or 1) / width)
        rank: Array = np.searchsorted(dps, least, side="left")
        while True:
            here = dps[np.minimum(rank, len(dps) - 1)]
            open_ = np.logical_and(rank < len(dps), here * width <= self.most_devices)
            at, pp, rank, width = at[open_], pp[open_], rank[open_], width[open_]
            if not at.size:
                return
            dp = dps[rank]
            some, seconds = self.bound(family, at, pp, dp)
            exact = np.tile(dp * width == q.devices, 2) if q.objective == "time" else True
            hope = self.best.survives(some.score) & exact
            if hope.any():
                yield some.take(hope)
            go_on = np.isfinite(seconds) & (q.score(dp * width, seconds) < self.best.reachable)
            rank = np.maximum(
                rank + 1, np.searchsorted(dps, dp * (seconds / q.step_limit) / SLACK, side="left")
            )
            at, pp, rank, width = at[go_on], pp[go_on], rank[go_on], width[go_on]

    def bound(self, family: Families, at: Array, pp: Array, dp: Array) -> tuple[_Configurations, Array]:
        """Return configurations under both schedules with a bound on their scores, and on the step's seconds.

        1F1B's counts are cut at ``pp/2`` and `pp`, see `bounds.one_f_one_b`: blocks fall with the
        count, and from `pp` on ``m · block`` rises, so each piece is bounded by its ends.
        """
        some, stage, q = family.take(at), self.w.layers / pp, self.q
        first, last, v = self.ranges(pp, dp)

        def busy(m: Array) -> Array:
            tokens = self.w.batch_tokens / (self.w.sparsity * dp * np.maximum(m, 1.0))
            return stage * bounds.block_seconds(self.cluster, self.w, some, tokens)

        reduction, wait, chunk_wait = self.beside(some, pp, dp)
        low, high = first[0], np.maximum(first[0], last[0])
        half, full = np.clip(pp / 2.0, low, high), np.clip(pp, low, high)
        at_half, at_full, at_end = busy(half), busy(full), busy(high)
        pieces = [
            np.where(from_ < pp, bounds.one_f_one_b(pp, from_, busy_, busy_, chunk_wait, *v), math.inf)
            for from_, busy_ in ((low, at_half), (half, at_full))
        ]
        tail = bounds.one_f_one_b(pp, full, at_full, at_end, chunk_wait, *v)
        seconds = np.minimum(np.minimum(*pieces), np.where(high >= pp, tail, math.inf)) + wait + reduction
        both = [
            np.where(low <= last[0], seconds, math.inf),
            np.where(first[1] <= last[1], first[1] * busy(first[1]) + reduction, math.inf),
        ]
        self.bounded += 2 * at.size
        devices = dp * pp * some.width
        scores = [np.where(s <= q.step_limit * SLACK, q.score(devices, s), math.inf) for s in both]
        twice = {"family": np.tile(at, 2), "pp": np.tile(pp, 2), "dp": np.tile(dp, 2)}
        schedule = np.repeat([False, True], at.size)
        return _Configurations(**twice, zero_bubble=schedule, score=np.concatenate(scores)), np.minimum(*both)

    def ranges(self, pp: Array, dp: Array) -> tuple[list[Array], list[Array], tuple[Array, Array]]:
        """Return the least and most micro-batches by schedule (1F1B first), and the most and least chunks.

        With as many micro-batches and the same layout, zero-bubble without interleaving is never
        slower than 1F1B. So where both are free, 1F1B is only of use below ``2·pp``.
        """
        space, nothing = self.q.space, -np.ones_like(pp)
        most = np.floor(self.w.batch_tokens / (self.w.sparsity * dp))
        low = np.full_like(pp, space.microbatches or 1.0)
        high = np.minimum(most, space.microbatches or math.inf)
        most_v = np.where(pp > 1, np.floor(self.w.layers / pp), 1.0)
        one_chunk = space.interleave in (None, 1)
        last_1f1b = (
            np.minimum(high, 2.0 * pp - 1.0) if one_chunk and "zero-bubble" in space.schedules else high
        )
        if space.interleave:
            last_1f1b = np.where(space.interleave <= most_v, last_1f1b, nothing)
            most_v = np.full_like(pp, space.interleave)
        last = [
            last_1f1b if "1f1b" in space.schedules else nothing,
            high if one_chunk and "zero-bubble" in space.schedules else nothing,
        ]
        return (
            [low, np.maximum(low, 2.0 * pp)],
            last,
            (most_v, most_v if space.interleave else np.ones_like(pp)),
        )

    def beside(self, some: Families, pp: Array, dp: Array) -> tuple[Array, Array, Array]:
        """Return at least a step's seconds beside its blocks: reduction, 1F1B's latency, and that a chunk."""
        tiers = self.cluster.tiers
        size = self.how.word * self.w.parameters / (some.width * pp)
        reduction = bounds.reduction_seconds(tiers, size, dp, some.room, self.how)
        wait, chunk_wait = bounds.exchange_wait(tiers, self.w, pp, some.ep)
        return reduction, some.wait + wait, chunk_wait

    # 3. Counts ------------------------------------------------------------------------------------------

    def price_portion(self, family: Families, some: _Configurations) -> None:
        """Price every strategy of some configurations that may be among the best, exactly.

        The most promising count of each comes first, so that the bar is good before the others.
        """
        least, left, right = self.counts(family, some)
        self.price_hopeful(family, some, least)
        left, right = (self.edge(family, some, least, end) for end in (left, right))
        spans = np.maximum(0.0, right - left + 1.0).astype(int)
        at = np.repeat(np.arange(spans.size), spans)
        m = left[at] + np.arange(at.size) - np.repeat(np.cumsum(spans) - spans, spans)
        other = m != least[at]
        self.price_hopeful(family, some.take(at[other]), m[other])

    def price_hopeful(self, family: Families, some: _Configurations, m: Array) -> None:
        """Price configurations with `m` micro-batches, best bounds first, while there is hope."""
        score = self.count_bounds(family, some, m)
        order = np.argsort(score, kind="stable")
        start, size = 0, 16
        while start < order.size:
            now = order[start : start + size]
            now = now[self.best.survives(score[now])]
            if not now.size:
                return
            tensor_layout = family.tensor_layout[some.family[now]]
            for layout, zero_bubble in itertools.product(np.unique(tensor_layout), (False, True)):
                rows = now[(tensor_layout == layout) & (some.zero_bubble[now] == zero_bubble)]
                if rows.size:
                    layouts = self.layouts[self.tensor_layout == layout]
                    self.price_counts(family, some.take(rows), m[rows], layouts, zero_bubble)
            start, size = start + size, min(2 * size, 512)

    def seconds_bound(self, some: Families, c: _Configurations, m: Array, joint: bool) -> Array:
        """Return at least the seconds of a step with `m` micro-batches.

        Convex in `m` unless `joint`, which weighs interleaving's borders against its idle time.
        """
        tokens = self.w.batch_tokens / (self.w.sparsity * c.dp * m)
        stage = self.w.layers / c.pp * bounds.block_seconds(self.cluster, self.w, some, tokens)
        reduction, wait, chunk_wait = self.beside(some, c.pp, c.dp)
        v = self.ranges(c.pp, c.dp)[2]
        free = bounds.one_f_one_b(c.pp, m, stage, stage, chunk_wait if joint else 0.0 * chunk_wait, *v)
        return np.where(c.zero_bubble, m * stage, free + wait) + reduction

    def count_bounds(self, family: Families, c: _Configurations, m: Array) -> Array:
        """Return a bound on the score of configurations with `m` micro-batches."""
        some = family.take(c.family)
        seconds = self.seconds_bound(some, c, m, joint=True)
        self.bounded += m.size
        return np.where(
            seconds <= self.q.step_limit * SLACK, self.q.score(c.dp * c.pp * some.width, seconds), math.inf
        )

    def counts(self, family: Families, c: _Configurations) -> tuple[Array, Array, Array]:
        """Return the most promising micro-batch count of each configuration, the least one and the most.

        The bound is convex in the count: a sum of products of lines that stay positive,
        ``(a + m)·(c + d/m)``.
        """
        first, last, _ = self.ranges(c.pp, c.dp)
        low = np.where(c.zero_bubble, first[1], first[0])
        high = np.where(c.zero_bubble, last[1], last[0])
        some = family.take(c.family)
        return convex_argmin(lambda m: self.seconds_bound(some, c, m, joint=False), low, high), low, high

    def edge(self, family: Families, c: _Configurations, least: Array, end: Array) -> Array:
        """Return the count farthest from `least` towards `end` that may be among the best.

        Since the bound is convex, these are an interval around `least`; none where that has no hope.
        """
        some = family.take(c.family)
        bar = np.full_like(least, self.q.step_limit * SLACK)
        if self.q.objective != "devices":
            devices = c.dp * c.pp * some.width if self.q.objective == "mfu" else 1.0
            bar = np.minimum(bar, self.best.reachable / devices)
        inside, outside = least, end + np.sign(end - least)
        while (np.abs(outside - inside) > 1.0).any():
            middle = np.where(np.abs(outside - inside) > 1.0, np.trunc((inside + outside) / 2.0), inside)
            good = self.seconds_bound(some, c, middle, joint=False) <= bar
            inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
        return inside

    # 4. Exact prices --------------------------------------------------------------------------------------

    def price_counts(
        self, family: Families, c: _Configurations, m: Array, layouts: Array, zero_bubble: bool
    ) -> None:
        """Price configurations with `m` micro-batches over `layouts` and all interleavings."""
        some = family.take(c.family)
        totals = {"dp": c.dp, "tp_model": some.tp_model, "tp_ff": some.tp_ff, "pp": c.pp, "ep": some.ep}
        most, least = (np.ones(m.size),) * 2 if zero_bubble else self.ranges(c.pp, c.dp)[2]
        score, chosen, priced = price(self.q, totals, m, (least, most), layouts, zero_bubble)
        self.priced += priced
        for row in np.argsort(score.min(axis=1), kind="stable"):
            column = int(np.argmin(score[row]))
            if not score[row, column] < self.best.bar:
                break
            self.best.keep(float(score[row, column]), Strategy.of(chosen, (int(row), column)))
