"""Bounds are bounds: of all strategies of small spaces, no part of a step takes less than is said."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from scalewall.cost import block, collective, pipeline, step
from scalewall.cost.block import total
from scalewall.cost.step import AXES
from scalewall.strategy import bounds
from scalewall.strategy.question import Question
from tests.strategy import brute, scenarios

ALMOST = 1 + 1e-9
BLOCKS = [range(first, first + 10) for first in range(300, 400, 10)]
FAR = [range(first, first + 10) for first in range(2200, 2260, 10)]
"""Seeds of questions whose last tier is far slower than the others."""


@attrs.frozen
class Every:
    """All strategies of a question with their parts, and the degrees of each axis in all."""

    question: Question
    strategies: brute.Table
    parts: step.StepParts
    totals: dict[str, np.ndarray]

    @classmethod
    def from_seed(cls, seed: int, *, far: bool = False) -> Every:
        question, every = scenarios.question(seed, far=far)
        parts = step.parts(question.cluster, question.workload, every.strategies, question.how)
        totals = {axis: total(every.strategies.degrees[axis]) for axis in AXES}
        return cls(question, every, parts, totals)

    @property
    def degrees(self):
        return self.strategies.strategies.degrees

    @property
    def one_f_one_b(self):
        return ~self.strategies.strategies.zero_bubble

    def family(self) -> bounds.Families:
        """The families of all strategies, the layout of their tensor axes left open."""
        q = self.question
        sizes = [np.unique(self.totals[axis]) for axis in ("tp_model", "tp_ff", "ep")]
        everything = bounds.families(q.cluster, q.workload, q.how, *sizes)
        found = zip(everything.tp_model, everything.tp_ff, everything.ep, strict=True)
        place = {degrees: i for i, degrees in enumerate(found)}
        rows = zip(*(self.totals[axis] for axis in ("tp_model", "tp_ff", "ep")), strict=True)
        return everything.take(np.array([place[row] for row in rows]))


@pytest.fixture(scope="module", params=[*BLOCKS, *FAR], ids=lambda seeds: f"from {seeds[0]}")
def some(request: pytest.FixtureRequest) -> list[Every]:
    return [Every.from_seed(seed, far=request.param in FAR) for seed in request.param]


def test_the_tensor_network(some):
    for every in some:
        q, tiers = every.question, every.question.cluster.tiers
        split = {axis: every.totals[axis] for axis in ("tp_model", "tp_ff")}
        least = bounds.tensor_seconds(tiers, q.workload, split, q.how)
        reducing = collective.in_network(tiers)
        sent = block.tensor_bytes(q.workload.block, every.degrees, q.how, q.workload.whole, reducing)
        assert (least <= collective.slowest(tiers, sent) * ALMOST).all()
        waits = block.tensor_latency(q.cluster, q.workload.block, every.degrees)
        assert (bounds.tensor_wait(tiers, q.workload, split) <= waits * ALMOST).all()


def test_the_tensor_network_is_bounded_well():
    """On one tier there is nothing to lay out, so the bound is what it takes."""
    for seed in range(40):
        every = Every.from_seed(seed)
        q, tiers = every.question, every.question.cluster.tiers[-1:]
        split = {axis: every.totals[axis] for axis in ("tp_model", "tp_ff")}
        flat = {axis: [degree] for axis, degree in split.items()}
        plain = (attrs.evolve(tiers[0], in_network_reduction=False),)
        sent = block.tensor_bytes(q.workload.block, flat, q.how, q.workload.whole)
        least = bounds.tensor_seconds(plain, q.workload, split, q.how)
        np.testing.assert_allclose(least, collective.slowest(plain, sent), rtol=1e-12)


def test_blocks(some):
    for every in some:
        parts, family = every.parts, every.family()
        least = bounds.block_seconds(family, parts.tokens)
        busy = np.maximum(parts.multiplying, parts.network) + parts.exposed_network
        assert (least <= busy * ALMOST).all()
        for m in (1.0, 1.5, 4.0):  # all micro-batches together take no less where there are more
            assert (least <= m * bounds.block_seconds(family, parts.tokens / m) * ALMOST).all()
            assert (least * ALMOST >= bounds.block_seconds(family, parts.tokens / m)).all()


def test_exchanges(some):
    for every in some:
        q, chosen = every.question, every.strategies.strategies
        fixed, chunk = bounds.exchange_wait(
            q.cluster.tiers, q.workload, every.totals["pp"], every.totals["ep"]
        )
        exact = block.exchange_latency(q.cluster, every.degrees, chosen.interleave, q.workload.layers)
        real = every.strategies.allowed  # a chunk of less than a block has borders that are not there
        least = fixed + chunk * chosen.interleave
        assert (least[real] <= exact[real] * ALMOST + 1e-15).all()


def test_the_reduction(some):
    for every in some:
        q, parts, family = every.question, every.parts, every.family()
        size = q.how.word * q.workload.parameters / (family.width * every.totals["pp"])
        least = bounds.reduction_seconds(q.cluster.tiers, size, every.totals["dp"], family.room, q.how)
        assert (least <= (parts.reduction + parts.reduction_latency) * ALMOST).all()


def test_all_beside_the_blocks(some):
    for every in some:
        q, parts, family = every.question, every.parts, every.family()
        chosen = every.strategies.strategies
        replicas = every.totals["dp"] * every.totals["pp"]
        filled, hidden = bounds.beside_blocks(q.cluster.tiers, q.workload, family, replicas, q.how)
        reduction = parts.reduction + parts.reduction_latency
        exchange = block.exchange_latency(q.cluster, every.degrees, chosen.interleave, q.workload.layers)
        real = every.strategies.allowed
        assert (hidden <= reduction * ALMOST)[real].all()
        assert (filled <= (reduction + exchange) * ALMOST)[real & every.one_f_one_b].all()


def crossing(every: Every, family: bounds.Families, busy: np.ndarray, **words) -> np.ndarray:
    """The least device-seconds of every strategy, at its own blocks' seconds."""
    q, totals = every.question, every.totals
    replicas = totals["dp"] * totals["pp"]
    most = totals["dp"], totals["pp"]
    one_f_one_b = every.one_f_one_b
    return q.borders.device_seconds(
        family, busy, replicas=replicas, most=most, one_f_one_b=one_f_one_b, **words
    )


def laid_out(every: Every) -> bounds.Families:
    """The families of all strategies, under the layout that each has."""
    q, at = every.question, every.degrees
    layouts = q.space.layouts(q.cluster)
    tensor = np.stack([np.stack(at[axis][:-1], axis=-1) for axis in ("tp_model", "tp_ff")], axis=1)
    place = {part.tobytes(): i for i, part in enumerate(layouts.tensor)}
    wanted = np.array([place[part.tobytes()] for part in np.ascontiguousarray(tensor)])
    sizes = [np.unique(every.totals[axis]) for axis in ("tp_model", "tp_ff", "ep")]
    everything = bounds.families(q.cluster, q.workload, q.how, *sizes)
    found = bounds.laid_out(q.cluster, q.workload, q.how, everything, layouts.tensor)
    keys = zip(found.tp_model, found.tp_ff, found.ep, found.tensor_layout, strict=True)
    index = {key: i for i, key in enumerate(keys)}
    totals = (every.totals[axis] for axis in ("tp_model", "tp_ff", "ep"))
    return found.take(np.array([index[key] for key in zip(*totals, wanted, strict=True)]))


def test_what_crosses_borders(some):
    """Whether the layout of the tensor axes is open or known, and in the form that is convex."""
    for every in (each for each in some if each.question.borders.each):
        parts, q = every.parts, every.question
        n = every.strategies.devices
        blocks = np.maximum(parts.multiplying, every.family().network * parts.tokens) * parts.blocks
        least_wait = bounds.tensor_wait(
            q.cluster.tiers, q.workload, {axis: every.totals[axis] for axis in ("tp_model", "tp_ff")}
        )
        waits = np.where(every.one_f_one_b, q.workload.layers * least_wait, 0.0)
        fixed, chunk = bounds.exchange_wait(
            q.cluster.tiers, q.workload, every.totals["pp"], every.totals["ep"]
        )
        chunks = every.strategies.strategies.interleave
        waits = waits + np.where(every.one_f_one_b, fixed + chunk * chunks, 0.0)
        busy = np.maximum(0.0, n * (blocks + parts.idle * parts.multiplying + waits))
        real = every.strategies.allowed
        for family in (every.family(), laid_out(every)):
            for convex in (False, True):
                least = crossing(every, family, busy, convex=convex)
                assert (least <= n * parts.seconds * ALMOST)[real].all()
                assert (least >= busy)[real].all()


def test_what_crosses_borders_is_convex(some):
    """In the seconds of the blocks, as the search for micro-batch counts takes for granted."""
    for every in (each for each in some if each.question.borders.each):
        low = np.linspace(1e-3, 1e3, every.strategies.size)
        high = low[::-1] * 3.0
        at = [crossing(every, laid_out(every), busy, convex=True) for busy in (low, (low + high) / 2.0, high)]
        finite = np.isfinite(at[1])
        assert (at[1] <= (at[0] + at[2]) / 2.0 * ALMOST)[finite].all()


def test_one_f_one_b(some):
    """Over all interleavings of a strategy, at its own blocks' seconds."""
    for every in some:
        totals, chosen = every.totals, every.strategies.strategies
        pp, m, v = totals["pp"], chosen.microbatches, chosen.interleave
        stage = np.linspace(0.1, 2.0, pp.size)
        chunk_wait = np.linspace(0.0, 3.0, pp.size) * (pp > 1)
        most_v = np.maximum(v, np.floor(every.question.workload.layers / pp))
        least = bounds.one_f_one_b(pp, m, stage, stage, chunk_wait, np.ones_like(pp), most_v)
        idle = pipeline.idle_microbatches(pp, m, v)
        assert (least <= ((m + idle) * stage + chunk_wait * v) * ALMOST).all()


def test_memory(some):
    for every in some:
        q, totals = every.question, every.totals
        share = q.workload.parameters / (totals["tp_model"] * totals["tp_ff"] * totals["pp"] * totals["ep"])
        held = step.memory_bytes(q.workload, every.degrees, q.how)
        least = bounds.least_dp(q.workload, q.how, q.cluster.device.memory * ALMOST, share)
        assert (least <= totals["dp"] * ALMOST)[held <= q.cluster.device.memory].all()
        assert (least > totals["dp"])[held > q.cluster.device.memory * (1 + 1e-6)].all()
