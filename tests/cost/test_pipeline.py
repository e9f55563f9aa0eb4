"""Pipelines: idle time against a pipeline run slot by slot, and borders counted one by one."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost import block, pipeline
from scalewall.cost.assumptions import Assumptions
from scalewall.workload.operators import ideal_block

counts = st.integers(1, 12)


@given(st.integers(1, 64), st.integers(1, 256), st.integers(1, 16))
def test_the_bubbles_fraction(p, m, v):
    z = (v - 1) * max(0, p - m)
    idle = float(pipeline.idle_microbatches(float(p), float(m), float(v)))
    assert idle / (idle + m) == pytest.approx((z + p - 1) / (z + p - 1 + v * m), rel=1e-12, abs=1e-15)


def slots(p: int, m: int, v: int) -> int:
    """Slots until `m` micro-batches have passed `v` chunks on each of `p` stages, one chunk a slot.

    A stage takes micro-batches in groups of at most `p`: a group through its first chunk, then the
    same group through its second, and so on (arXiv 2104.04473).
    """
    order = [
        (microbatch, chunk)
        for first in range(0, m, p)
        for chunk in range(v)
        for microbatch in range(first, min(first + p, m))
    ]
    done: dict[tuple[int, int, int], int] = {}
    clock = [0] * p
    for microbatch, chunk in order:
        for stage in range(p):
            before = (microbatch, chunk, stage - 1) if stage else (microbatch, chunk - 1, p - 1)
            start = max(clock[stage], done.get(before, 0))
            done[microbatch, chunk, stage] = clock[stage] = start + 1
    return max(clock)


@given(counts, st.integers(1, 4), st.integers(1, 5))
def test_a_full_pipeline_slot_by_slot(p, groups, v):
    idle = float(pipeline.idle_microbatches(float(p), float(groups * p), float(v)))
    assert slots(p, groups * p, v) / v - groups * p == pytest.approx(idle, abs=1e-12)


@given(counts, st.data(), st.integers(1, 5))
def test_a_starved_pipeline_slot_by_slot(p, data, v):
    m = data.draw(st.integers(1, p))
    idle = float(pipeline.idle_microbatches(float(p), float(m), float(v)))
    assert slots(p, m, v) / v - m == pytest.approx(idle, abs=1e-12)


@pytest.mark.parametrize(
    ("p", "m", "v", "allowed"),
    [
        (4, 8, 1, True),
        (4, 7, 1, False),
        (4, 8, 2, False),
        (1, 2, 1, True),
        (1, 1, 1, False),
        (3, 100, 1, True),
    ],
)
def test_when_zero_bubble_is_allowed(p, m, v, allowed):
    assert pipeline.zero_bubble_allowed(p, m, v) == allowed


def place(stage: int, degrees: list[int]) -> list[int]:
    """A stage's place in each tier: neighbours lie in the innermost."""
    found = []
    for degree in degrees:
        found.append(stage % degree)
        stage //= degree
    return found


def tier_between(one: list[int], other: list[int]) -> int:
    """The highest tier in which two places differ; -1 if none."""
    return max((t for t, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), default=-1)


def borders(degrees: list[int], v: int) -> list[int]:
    """The tier of each of the ``v·p − 1`` borders of a pipeline; chunks go round the stages `v` times."""
    p = math.prod(degrees)
    if p == 1:
        return []
    places = [place(chunk % p, degrees) for chunk in range(v * p)]
    return [tier_between(a, b) for a, b in itertools.pairwise(places)]


pipelines = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(pipelines, st.integers(1, 5), st.integers(0, 20))
def test_borders_counted_one_by_one(degrees, v, more):
    v = v if math.prod(degrees) > 1 else 1
    layers = v * math.prod(degrees) + more
    crossed = borders(degrees, v)
    inside, *counted = (float(count) for count in pipeline.crossings(degrees, v, layers))
    assert counted == [crossed.count(t) for t in range(len(degrees))]
    assert inside == layers - 1 - len(crossed)


@given(pipelines, st.lists(st.integers(1, 4), min_size=3, max_size=3), st.integers(1, 3), st.integers(0, 9))
def test_exchanges_counted_one_by_one(degrees, experts, v, more):
    """At each interface of two blocks, to every expert the next token may need."""
    experts = experts[: len(degrees)]
    v = v if math.prod(degrees) > 1 else 1
    layers = v * math.prod(degrees) + more
    crossed = borders(degrees, v)
    interfaces = crossed + [-1] * (layers - 1 - len(crossed))
    n = math.prod(experts)
    moves = [tier_between(place(0, experts), place(expert, experts)) for expert in range(n)]
    expected = [
        sum(max(border, move) == t for border in interfaces for move in moves) / n
        for t in range(-1, len(degrees))
    ]
    found = block.exchanges({"pp": degrees, "ep": experts}, v, layers)
    assert [float(count) for count in found] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_exchanged_bytes_by_hand():
    """Eight blocks, two stages of two on each tier: 2 of 7 interfaces within, 1 between; 4 inside."""
    degrees = {"tp_model": [2, 1], "tp_ff": [1, 5], "pp": [2, 2], "ep": [1, 1]}
    assert [float(n) for n in block.exchanges(degrees, 1, 8)] == [4, 2, 1]
    sent = block.exchange_bytes(ideal_block(1000, 4000), degrees, 1, 8, Assumptions())
    a_hop = 2 * 2 * 1000 / (2 * 5)  # there and back, two bytes a number, spread over ten devices
    assert [float(size) for size in sent] == pytest.approx([a_hop * 2 / 8, a_hop * 1 / 8])
