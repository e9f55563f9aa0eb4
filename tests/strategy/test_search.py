"""The search finds what brute force finds, on hundreds of small questions of every kind."""

from __future__ import annotations

import math
from random import Random

import attrs
import numpy as np
import pytest

from scalewall.cost import step
from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.strategy.search import Question, Result, ruled_out, search
from scalewall.strategy.space import SCHEDULES, Space, Strategy
from scalewall.workload.scaling import Workload
from tests.strategy import brute, scenarios

BLOCKS = [list(range(first, first + 15)) for first in range(0, 180, 15)]
BLOCKS.append([1000, 1655])  # more micro-batches than zero-bubble needs, to hide the data-parallel reduction
FAR = [range(first, first + 20) for first in range(2000, 2120, 20)]
"""Seeds of questions whose last tier is far slower than the others."""


@attrs.frozen
class Asked:
    """A question, all of its strategies, and the scores of its answer by brute force."""

    seed: int
    question: Question
    every: brute.Table
    wanted: list[float]

    @classmethod
    def from_seed(cls, seed: int, *, far: bool = False) -> Asked:
        question, every = scenarios.question(seed, far=far)
        return cls(seed, question, every, brute.best_scores(question, every))


@pytest.fixture(scope="module", params=[*BLOCKS, *FAR], ids=lambda seeds: f"from {seeds[0]}")
def some(request: pytest.FixtureRequest) -> list[Asked]:
    return [Asked.from_seed(seed, far=request.param in FAR) for seed in request.param]


def agrees(found: Result, wanted: list[float]) -> bool:
    """Whether a search found as many strategies of the same scores, but for rounding."""
    return len(found.scores) == len(wanted) and np.allclose(found.scores, wanted, rtol=1e-12, atol=0.0)


def test_finds_what_brute_force_finds(some):
    for asked in some:
        found = search(asked.question)
        assert agrees(found, asked.wanted), asked.seed
        assert found.certificate.space == asked.every.size
        assert len({degrees(s) for s in found.strategies}) == len(found.strategies)
        for strategy, score in zip(found.strategies, found.scores, strict=True):
            check(asked.question, strategy, score)
        if asked.wanted and asked.question.objective != "devices":
            assert found.certificate.best_discarded >= found.scores[-1] * (1 - 1e-9)


def test_at_any_deadline(some):
    """Above all at those that some strategies just meet."""
    for asked in some:
        dice = Random(asked.seed)
        seconds = asked.every.seconds[asked.every.allowed]
        for limit in [dice.choice(seconds) for _ in range(3)] if seconds.size else []:
            duration = float(limit) * asked.question.workload.steps * (1 + 1e-12)
            question = attrs.evolve(asked.question, duration=duration)
            assert agrees(search(question), brute.best_scores(question, asked.every)), (asked.seed, limit)


def degrees(s: Strategy) -> tuple[int, ...]:
    return s.dp, s.tp_model, s.tp_ff, s.pp, s.ep


def check(question: Question, strategy: Strategy, score: float) -> None:
    """What is returned exists, ends in time, obeys the question, and takes what it is said to."""
    arrays, space = strategy.arrays, question.space
    seconds = float(step.parts(question.cluster, question.workload, arrays, question.how).seconds[0])
    assert step.allowed(question.cluster, question.workload, arrays, question.how)[0]
    assert seconds <= question.step_limit
    assert seconds * (strategy.devices if question.objective == "mfu" else 1) == pytest.approx(
        score, rel=1e-12
    )
    assert strategy.devices <= question.cluster.capacity
    if question.devices:
        assert strategy.devices <= question.devices
    if question.objective == "time":
        assert strategy.devices == question.devices
    for axis, layout in strategy.layout.items():
        assert getattr(strategy, axis) == math.prod(layout)
        assert getattr(strategy, axis) in (getattr(space, axis) or [getattr(strategy, axis)])
        assert layout[:-1] == space.inner.get(axis, layout[:-1])
    assert strategy.microbatches == (space.microbatches or strategy.microbatches)
    assert strategy.interleave == (space.interleave or strategy.interleave)
    assert strategy.schedule in space.schedules
    for t, tier in enumerate(question.cluster.tiers[:-1]):
        assert tier.size % math.prod(layout[t] for layout in strategy.layout.values()) == 0


def test_hints_change_nothing(some):
    """Good ones, bad ones, and some that break every rule of the question."""
    for asked in some:
        dice, every = Random(asked.seed), asked.every
        hints = [Strategy.of(every.strategies, (dice.randrange(every.size),)) for _ in range(3)]
        hints.append(attrs.evolve(hints[0], pp=7, tp_ff=5))
        found = search(asked.question, tuple(hints))
        assert agrees(found, asked.wanted), asked.seed
        assert agrees(search(asked.question, found.strategies), asked.wanted), asked.seed


def test_a_tolerance_is_kept(some):
    for asked in some:
        tolerance = 1.0 if asked.seed % 2 else 0.2
        found = search(attrs.evolve(asked.question, tolerance=tolerance))
        assert bool(found.scores) == bool(asked.wanted), asked.seed
        if asked.wanted and asked.question.objective != "devices":
            assert found.scores[0] * (1 - tolerance) <= asked.wanted[0] * (1 + 1e-9), asked.seed
        for strategy, score in zip(found.strategies, found.scores, strict=True):
            check(asked.question, strategy, score)


def test_what_is_ruled_out_has_no_answer(some):
    ruled = []
    for asked in some:
        assert not (asked.wanted and ruled_out(asked.question)), asked.seed
        least = asked.every.seconds[asked.every.allowed].min(initial=math.inf) * asked.question.workload.steps
        for share in (0.9, 1e-4):
            hurried = attrs.evolve(asked.question, duration=share * float(least))
            if math.isfinite(least):
                assert search(hurried).best is None
                ruled.append(ruled_out(hurried))
    assert sum(ruled) > 0.4 * len(ruled)


def test_scenarios_have_some_of_everything():
    """Else the tests above would say little."""
    everything = [scenarios.question(seed) for seed in range(120)]
    questions = [question for question, _ in everything]
    assert {q.objective for q in questions} == {"mfu", "devices", "time"}
    assert {len(q.cluster.tiers) for q in questions} == {1, 2, 3}
    assert {q.workload.whole for q in questions} == {True, False}
    assert sum(q.workload.sparsity > 1 for q in questions) > 40
    assert sum(math.isfinite(q.duration) for q in questions) > 40
    assert sum(q.top > 1 for q in questions) > 40
    for name, least in (("inner", 10), ("microbatches", 5), ("interleave", 5)):
        assert sum(bool(getattr(q.space, name)) for q in questions) > least, name
    feasible = [(q, every) for q, every in everything if brute.best_scores(q, every)]
    assert 60 < len(feasible) < 110
    best = [search(question).best for question, _ in feasible]
    for name in ("dp", "tp_model", "tp_ff", "pp", "ep", "interleave"):
        assert sum(getattr(s, name) > 1 for s in best) > 3, name
    assert sum(s.microbatches < s.pp for s in best) > 3
    assert min(sum(s.schedule == schedule for s in best) for schedule in SCHEDULES) > 20


def test_far_tiers_are_crossed_by_every_axis():
    """Else the questions with such a tier would say little."""
    questions = [scenarios.question(seed, far=True)[0] for seeds in FAR for seed in seeds]
    best = [strategy for strategy in (search(question).best for question in questions) if strategy]
    assert len(best) > 60
    for axis, least in (("dp", 8), ("pp", 8), ("tp_model", 4), ("tp_ff", 4), ("ep", 4)):
        assert sum(s.layout[axis][-1] > 1 for s in best) >= least, axis


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": "cost"}, "The 'objective' must be one of mfu, devices, time"),
        ({"objective": "time", "devices": None}, "The 'devices' must be a whole number"),
        ({"top": 0}, "The 'top' must be a whole number of at least 1"),
    ],
)
def test_questions_that_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        attrs.evolve(scenarios.question(0)[0], **fields)


def test_a_deadline_that_only_the_last_degree_meets():
    """Eight micro-batches of at least one token: of 17 degrees six are left, and five are too slow."""
    slow, _ = scenarios.question(0)
    w = Workload(
        training_flop=6.0 * 2 * 64 * 64 * 4 * 64,
        d_model=64,
        d_ff=64,
        layers=4,
        sparsity=1,
        batch_tokens=64,
        tokens=64,
    )
    device = attrs.evolve(slow.cluster.device, memory=1e9, kernel_latency=1.0, peak={"bf16": 1e6}, caches=())
    one = {axis: (1,) for axis in ("tp_model", "tp_ff", "pp", "ep")}
    question = attrs.evolve(
        slow,
        cluster=Cluster(name="slow", device=device, tiers=(Tier(name="t", bandwidth=1e9, latency=0.0),)),
        workload=w,
        space=Space(**one, microbatches=8, schedules=("1f1b",)),
        objective="mfu",
        devices=None,
        duration=math.inf,
    )
    every = brute.table(question)
    just = attrs.evolve(question, duration=float(every.seconds.min()) * (1 + 1e-12))
    assert [s.dp for s in search(just).strategies] == [8]
    assert agrees(search(just), brute.best_scores(just, every))
