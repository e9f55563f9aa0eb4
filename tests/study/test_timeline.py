"""One step stage by stage: the schedules' orders, and that following them takes what the formulas say."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from scalewall.study.plan import plan
from scalewall.study.timeline import BACKWARD, FORWARD, WEIGHTS, follow, order, timeline

GPT3 = {"model": "gpt3-175b", "hardware": "a100-80gb-sxm", "gpus": 1024, "batch": 1536, "seq": 2048}
LLAMA = {"model": "llama-3.1-405b", "hardware": "h100-sxm", "gpus": 4096, "batch": 512, "seq": 8192}


@pytest.mark.parametrize(
    ("pp", "chunks", "micro_batches", "zero_bubble"),
    [
        (1, 1, 3, False),
        (4, 1, 2, False),
        (4, 1, 9, False),
        (4, 3, 8, False),
        (4, 2, 4, False),
        (4, 1, 8, True),
    ],
)
def test_every_stage_does_every_pass_once_and_in_a_possible_order(
    pp: int, chunks: int, micro_batches: int, zero_bubble: bool
) -> None:
    orders = [order(pp, stage, chunks, micro_batches, zero_bubble=zero_bubble) for stage in range(pp)]
    kinds = (FORWARD, BACKWARD, *((WEIGHTS,) if zero_bubble else ()))
    wanted = set(itertools.product(kinds, range(chunks), range(micro_batches)))
    for own in orders:
        assert len(own) == len(wanted)
        assert set(own) == wanted
    blocks = follow(orders, {kind: [1.0] * pp for kind in (FORWARD, BACKWARD, WEIGHTS)}, chunks)
    assert len(blocks) == pp * len(wanted)  # nothing waits for ever
    for stage in range(pp):
        own = sorted((b.start, b.start + b.seconds) for b in blocks if b.stage == stage)
        assert all(one[1] <= next_[0] + 1e-12 for one, next_ in itertools.pairwise(own))


def test_what_is_passed_on_has_been_worked_out() -> None:
    pp, chunks, micro_batches = 3, 2, 6
    orders = [order(pp, stage, chunks, micro_batches) for stage in range(pp)]
    blocks = follow(orders, {FORWARD: [1.0, 2.0, 1.5], BACKWARD: [2.0, 4.0, 3.0]}, chunks)
    start = {(b.kind, b.chunk, b.micro_batch, b.stage): b.start for b in blocks}
    end = {(b.kind, b.chunk, b.micro_batch, b.stage): b.start + b.seconds for b in blocks}
    way = list(itertools.product(range(chunks), range(pp)))  # of a micro-batch through the model
    for m in range(micro_batches):
        steps = [(FORWARD, chunk, m, stage) for chunk, stage in way]
        steps += [(BACKWARD, chunk, m, stage) for chunk, stage in reversed(way)]
        for one, later in itertools.pairwise(steps):
            assert end[one] <= start[later] + 1e-12


@pytest.mark.parametrize(
    "words",
    [
        GPT3 | {"tp": 8, "pp": 8, "vpp": 1},
        GPT3 | {"tp": 8, "pp": 16, "vpp": 6},
        GPT3 | {"tp": 8, "pp": 8, "vpp": 2, "batch": 128},
        LLAMA | {"tp": 8, "pp": 16, "vpp": 1},
        LLAMA | {"tp": 8, "pp": 16, "vpp": 8},
        LLAMA | {"tp": 8, "pp": 8},
        LLAMA | {"model": "llama-3.1-8b", "gpus": 64, "pp": 1},
        LLAMA | {"model": "llama-3.1-8b", "gpus": 64, "pp": 1, "zero": 3},
    ],
)
def test_following_a_step_takes_what_the_formula_says(words: dict[str, Any]) -> None:
    answer = plan(**words, top=1)
    (one,) = answer.strategies
    found = timeline(answer.scenario.question(), one.plan)
    assert found.followed == found.micro_batches
    assert found.flow + sum(found.ends.values()) == pytest.approx(one.step_time_s, rel=5e-3)
    assert found.ends["optimizer"] == pytest.approx(one.seconds_by_cause["optimizer"])
    assert found.ends["straggling"] == pytest.approx(one.seconds_by_cause["straggling"])
    assert found.seconds == one.step_time_s


def test_zero_bubble_stages_never_wait_once_they_have_begun() -> None:
    answer = plan(**GPT3, tp=8, pp=8, schedule="zero-bubble", top=1)
    found = timeline(answer.scenario.question(), answer.strategies[0].plan)
    idle = []
    for stage in range(found.stages):
        own = [b for b in found.blocks if b.stage == stage]
        span = max(b.start + b.seconds for b in own) - min(b.start for b in own)
        idle.append(span - sum(b.seconds for b in own))
    # Forward, backward and weight gradients are not equally long, so a little is left.
    assert max(idle) < 0.05 * found.flow


def test_a_long_step_is_followed_in_part() -> None:
    answer = plan(**GPT3 | {"batch": 1536 * 64}, tp=8, pp=32, micro_batch=1, top=1)
    found = timeline(answer.scenario.question(), answer.strategies[0].plan)
    assert found.followed < found.micro_batches
    assert found.followed % found.stages == 0
    assert found.flow + found.left_out + sum(found.ends.values()) == pytest.approx(found.seconds, rel=5e-3)
    assert len(found.blocks) < 100_000
    assert Counter(b.stage for b in found.blocks)[0] == 2 * found.chunks * found.followed
