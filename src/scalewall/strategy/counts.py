"""Configurations and their micro-batches: which counts there may be, and bounds on a step with each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scalewall.strategy import bounds
from scalewall.strategy.bounds import Families
from scalewall.strategy.question import Question

Array = Any


class Portion:
    """Some families with `pp` and `dp`, as flat arrays, and what is true of all their strategies.

    With as many micro-batches and the same layout, zero-bubble without interleaving is never slower
    than 1F1B. So where both are free, 1F1B is only of use below ``2·pp`` micro-batches.

    Attributes
    ----------
    first_1f1b, last_1f1b, first_zero_bubble, last_zero_bubble
        The least and the most micro-batches under each schedule; none where the least is more.
    least_v, most_v
        The least and the most chunks a stage.
    reduction, wait, chunk_wait
        At least a step's seconds beside its blocks: the data-parallel reduction, and 1F1B's latency,
        a fixed part and one a chunk.
    """

    def __init__(self, question: Question, family: Families, pp: Array, dp: Array) -> None:
        self.question, self.family, self.pp, self.dp = question, family, pp, dp
        w, space = question.workload, question.space
        self.devices = dp * pp * family.width
        self.sequences = w.batch_tokens / (w.sparsity * dp)
        most_v = np.where(pp > 1, np.floor(w.layers / pp), 1.0)
        first = np.full_like(pp, space.microbatches or 1.0)
        # Not rounded down yet: bounds compare different `dp` at equal ``dp·m``, where `m` is real.
        last = np.minimum(self.sequences, space.microbatches or math.inf)
        none = -np.ones_like(pp)
        zero_bubble = "zero-bubble" in space.schedules and space.interleave in (None, 1)
        self.first_1f1b, self.first_zero_bubble = first, np.maximum(first, 2.0 * pp)
        self.last_zero_bubble = last if zero_bubble else none
        last_1f1b = np.minimum(last, 2.0 * pp - 1.0) if zero_bubble else last
        self.last_1f1b = last_1f1b if "1f1b" in space.schedules else none
        self.least_v, self.most_v = np.ones_like(pp), most_v
        if space.interleave:
            self.last_1f1b = np.where(space.interleave <= most_v, self.last_1f1b, none)
            self.least_v = self.most_v = np.full_like(pp, space.interleave)

    @functools.cached_property
    def reduction(self) -> Array:
        """At least the seconds of the data-parallel reduction."""
        q, tiers = self.question, self.question.cluster.tiers
        size = q.how.word * q.workload.parameters / (self.family.width * self.pp)
        return bounds.reduction_seconds(tiers, size, self.dp, self.family.room, q.how)

    @functools.cached_property
    def _exchange_wait(self) -> tuple[Array, Array]:
        q = self.question
        return bounds.exchange_wait(q.cluster.tiers, q.workload, self.pp, self.family.ep)

    @property
    def wait(self) -> Array:
        """At least the seconds of latency under 1F1B that do not depend on the chunks."""
        return self.family.wait + self._exchange_wait[0]

    @property
    def chunk_wait(self) -> Array:
        """At least the seconds of latency under 1F1B a chunk."""
        return self._exchange_wait[1]

    def stage(self, m: Array) -> Array:
        """Return at least the seconds of a stage's blocks on one of `m` micro-batches."""
        q = self.question
        tokens = self.sequences / np.maximum(m, 1.0)
        return q.workload.layers / self.pp * bounds.block_seconds(self.family, tokens)

    def beyond(self, seconds: Array, one_f_one_b: Array | bool, *, convex: bool = False) -> Array:
        """Return at least a step's seconds, of which blocks take `seconds`, with what crosses borders."""
        q, busy = self.question, self.devices * seconds
        if not q.borders.each:
            return seconds
        replicas, most = self.dp * self.pp, (self.dp, self.pp)
        bound = q.borders.device_seconds(
            self.family, busy, replicas=replicas, most=most, one_f_one_b=one_f_one_b, convex=convex
        )
        return bound / self.devices

    def take(self, at: Array) -> Portion:
        """Return the configurations at the indices `at`."""
        some = object.__new__(Portion)
        some.question, some.family = self.question, self.family.take(at)
        for name, values in vars(self).items():
            if name not in ("question", "family"):
                chosen = tuple(v[at] for v in values) if isinstance(values, tuple) else values[at]
                some.__dict__[name] = chosen
        return some


class Counts:
    """Configurations with a schedule each: the micro-batch counts they may have."""

    def __init__(self, portion: Portion, zero_bubble: Array) -> None:
        self.portion, self.zero_bubble = portion, zero_bubble

    def take(self, at: Array) -> Counts:
        """Return the configurations at the indices `at`."""
        return Counts(self.portion.take(at), self.zero_bubble[at])

    @property
    def low(self) -> Array:
        """The least micro-batches there may be."""
        return np.where(self.zero_bubble, self.portion.first_zero_bubble, self.portion.first_1f1b)

    @property
    def high(self) -> Array:
        """The most micro-batches there may be.

        Of real dimensions, ``m · block`` is not only bounded by what rises with `m` but rises itself
        under any layout. So under zero-bubble, where nothing else depends on `m`, the least will do,
        unless a longer step hides more of the data-parallel reduction.
        """
        q, here = self.portion.question, self.portion
        only_least = not q.workload.whole and not q.how.overlap_data
        last = np.floor(here.last_zero_bubble)
        if only_least:
            last = np.minimum(last, here.first_zero_bubble)
        return np.where(self.zero_bubble, last, np.floor(here.last_1f1b))

    def seconds(self, m: Array, joint: bool) -> Array:
        """Return at least the seconds of a step with `m` micro-batches.

        Convex in `m` unless `joint`, which weighs interleaving's borders against its idle time: a
        sum of products of lines that stay positive, ``(a + m)·(c + d/m)``.
        """
        here = self.portion
        stage = here.stage(m)
        chunk_wait = here.chunk_wait if joint else 0.0 * here.chunk_wait
        free = bounds.one_f_one_b(here.pp, m, stage, stage, chunk_wait, here.least_v, here.most_v)
        busy = np.where(self.zero_bubble, m * stage, free + here.wait)
        beyond = here.beyond(busy, ~self.zero_bubble, convex=not joint)
        return np.maximum(busy + here.reduction, beyond)

    def most_promising(self) -> Array:
        """Return the count of the least bound."""
        low, high = self.low, np.maximum(self.low, self.high)
        least = np.array(low)
        wide = np.flatnonzero(low < high)
        if wide.size:
            some = self.take(wide)
            least[wide] = convex_argmin(lambda m: some.seconds(m, joint=False), low[wide], high[wide])
        return least

    def interval(self, least: Array, most_seconds: Array) -> tuple[Array, Array]:
        """Return the least and the most counts whose bound is within `most_seconds`.

        Since the bound is convex, what is good enough is an interval around `least`, its lowest point.
        """
        ends = []
        for end in (self.low, self.high):
            inside, outside = np.array(least), end + np.sign(end - least)
            wide = np.flatnonzero(np.abs(outside - inside) > 1.0)
            while wide.size:
                some, middle = self.take(wide), np.trunc((inside[wide] + outside[wide]) / 2.0)
                good = some.seconds(middle, joint=False) <= most_seconds[wide]
                inside[wide] = np.where(good, middle, inside[wide])
                outside[wide] = np.where(good, outside[wide], middle)
                wide = wide[np.abs(outside[wide] - inside[wide]) > 1.0]
            ends.append(inside)
        return ends[0], ends[1]


def convex_argmin(value: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the whole numbers between `low` and `high` at which a convex `value` is least, elementwise."""
    low, high = np.array(low, dtype=float), np.array(np.maximum(low, high), dtype=float)
    while (low < high).any():
        middle = np.floor((low + high) / 2.0)
        rising = ~(value(np.minimum(middle + 1.0, high)) < value(middle))
        high = np.where(rising, middle, high)
        low = np.where(rising, low, np.minimum(middle + 1.0, high))
    return low
