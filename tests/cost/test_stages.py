"""Stages of a pipeline: layers given out one by one, and seconds against a schedule run event by event."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost.stages import pipeline_seconds, stage_layers

# How many layers each stage has


def split(layers, pp, v):
    first, middle, last = (float(count) for count in stage_layers(layers, pp, v))
    return [first] if pp == 1 else [first, *[middle] * (pp - 2), last]


@pytest.mark.parametrize("layers", [1, 2, 7, 12, 30, 32, 62, 64, 80, 96, 105, 118, 126, 128])
def test_stages_add_up_to_the_model(layers):
    """Those between are given as the fullest of them, so that some may have a layer less."""
    for pp in range(1, layers + 1):
        for v in range(1, layers // pp + 1):
            stages = split(layers, pp, v)
            short = sum(stages) - layers
            assert 0 <= short <= max(pp - 3, 0), (pp, v)
            assert all(count == round(count) for count in stages), (pp, v)


@pytest.mark.parametrize("layers", [1, 2, 7, 12, 30, 32, 62, 64, 80, 96, 105, 118, 126, 128])
def test_stages_differ_by_a_layer_at_most(layers):
    for pp in range(1, layers + 1):
        for v in range(1, layers // pp + 1):
            stages = split(layers, pp, v)
            assert min(stages) >= 1, (pp, v)
            assert max(stages) - min(stages) <= 1, (pp, v)
            assert max(stages) >= layers / pp, (pp, v)


def test_even_stages_where_chunks_are_even():
    assert split(96, 8, 12) == [12.0] * 8
    assert split(96, 8, 3) == [12.0] * 8
    assert split(7, 1, 1) == [7.0]
    assert split(4, 4, 1) == [1.0] * 4


@pytest.mark.parametrize(
    ("layers", "pp", "v", "stages"),
    [
        (126, 16, 1, [7.0, *[8.0] * 14, 7.0]),  # Llama 3 405B: 128 with embedding and head
        (126, 8, 8, [15.0, *[16.0] * 6, 15.0]),
        (62, 4, 8, [15.0, 16.0, 16.0, 15.0]),
        (6, 2, 2, [3.0, 3.0]),
    ],
)
def test_embedding_and_head_as_a_layer_each(layers, pp, v, stages):
    assert split(layers, pp, v) == stages


@pytest.mark.parametrize(
    ("layers", "pp", "stages"),
    [
        (100, 6, [16.0, *[17.0] * 4, 16.0]),
        (70, 12, [5.0, *[6.0] * 10, 5.0]),
        (13, 2, [7.0, 6.0]),
        (32, 3, [11.0, 11.0, 10.0]),
        (7, 6, [1.0, *[2.0] * 4, 1.0]),  # one of those between has two
        (78, 12, [6.0, *[7.0] * 10, 6.0]),  # six of them have seven
        (126, 28, [4.0, *[5.0] * 26, 4.0]),
    ],
)
def test_uneven_stages_leave_the_ends_with_less(layers, pp, stages):
    assert split(layers, pp, 1) == stages


def test_layers_of_many_pipelines_at_once():
    pp, v = np.array([1, 2, 3, 4, 8, 16])[:, None], np.array([1, 2, 4, 8])
    found = np.broadcast_arrays(*stage_layers(126, pp, v))
    for i, stages in enumerate(pp[:, 0]):
        for k, chunks in enumerate(v):
            one = [float(count) for count in stage_layers(126, int(stages), int(chunks))]
            assert [float(counts[i, k]) for counts in found] == one


# How long the pipeline takes


def orders(p, m, v):
    """What each stage does in turn: 1F1B, or interleaved 1F1B as Megatron-LM runs it (arXiv 2104.04473)."""

    def chunk_of(turn, backward):
        group, place = divmod(turn, p * v)
        chunk = place // p
        return group * p + place % p, v - 1 - chunk if backward else chunk

    found = []
    for stage in range(p):
        ahead = p - stage - 1 if v == 1 else 2 * (p - stage - 1) + (v - 1) * p
        if v > 1 and m == p:
            ahead = m * v  # all forward first: there is nothing to alternate with
        ahead = min(ahead, m * v)
        forward = [(False, *chunk_of(turn, backward=False)) for turn in range(m * v)]
        backward = [(True, *chunk_of(turn, backward=True)) for turn in range(m * v)]
        steady = [work for pair in zip(forward[ahead:], backward, strict=False) for work in pair]
        found.append([*forward[:ahead], *steady, *backward[m * v - ahead :]])
    return found


def before(backward, microbatch, chunk, stage, p, v):
    """What has to be done first, on another stage or on this one; None for what enters the pipeline."""
    if not backward:
        if stage:
            return False, microbatch, chunk, stage - 1
        return (False, microbatch, chunk - 1, p - 1) if chunk else None
    if stage < p - 1:
        return True, microbatch, chunk, stage + 1
    return (True, microbatch, chunk + 1, 0) if chunk < v - 1 else (False, microbatch, chunk, stage)


def simulated(times, m, v, backward=2.0):
    """Seconds until all is done; `times` are a micro-batch's by stage, `backward` that pass over forward."""
    p = len(times)
    orderly, done = orders(p, m, v), {}
    clock, place = [0.0] * p, [0] * p
    while any(place[i] < len(orderly[i]) for i in range(p)):
        stuck = True
        for stage in range(p):
            while place[stage] < len(orderly[stage]):
                back, microbatch, chunk = orderly[stage][place[stage]]
                needed = before(back, microbatch, chunk, stage, p, v)
                if needed is not None and needed not in done:
                    break
                ready = 0.0 if needed is None else done[needed]
                share = (backward if back else 1.0) / (1.0 + backward) / v
                clock[stage] = max(clock[stage], ready) + share * times[stage]
                done[back, microbatch, chunk, stage] = clock[stage]
                place[stage] += 1
                stuck = False
        assert not stuck, "a schedule that waits for itself"
    return max(clock)


def predicted(times, m, v):
    p = len(times)
    return float(pipeline_seconds(times[0], times[min(1, p - 1)], times[-1], p, m, v))


def test_the_simulation_by_hand():
    """Two stages, a second forward and two backward: six seconds each, and one second and two to fill."""
    assert simulated([3.0, 3.0], 2, 1) == 9.0
    assert simulated([3.0, 3.0], 2, 2) == pytest.approx(7.5)
    assert simulated([3.0], 5, 1) == 15.0


@given(st.integers(1, 8), st.integers(1, 24), st.floats(0.5, 4))
def test_equal_stages_are_exact(p, m, backward):
    assert predicted([3.0] * p, m, 1) == pytest.approx(simulated([3.0] * p, m, 1, backward), rel=1e-12)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 5), st.floats(0.5, 4))
def test_equal_stages_interleaved_are_exact(p, groups, v, backward):
    v = v if p > 1 else 1
    found = simulated([3.0] * p, groups * p, v, backward)
    assert predicted([3.0] * p, groups * p, v) == pytest.approx(found, rel=1e-12)


def unequal(seed, slowest, spread):
    """Random stages, the `slowest` of them ``spread`` times the least that any can take."""
    dice = Random(seed)
    p, v = dice.choice([2, 3, 4, 6, 8]), dice.choice([1, 1, 2, 3, 4])
    m = p * dice.randint(1, 5) if v > 1 else dice.randint(1, 32)
    ends = {name: dice.uniform(1.0, spread) for name in ("first", "middle", "last")}
    ends[slowest] = spread
    times = [ends["first"], *[ends["middle"]] * (p - 2), ends["last"]]
    return times, m, v, dice.uniform(1.0, 3.0)


@given(st.integers(0, 10**9), st.floats(1.0, 4.0))
def test_a_slowest_last_stage_is_exact(seed, spread):
    """As it mostly is: the last stage has the output head."""
    times, m, v, backward = unequal(seed, "last", spread)
    assert predicted(times, m, v) == pytest.approx(simulated(times, m, v, backward), rel=1e-12)


@pytest.mark.parametrize(("slowest", "most"), [("middle", 0.11), ("first", 0.16)])
@given(st.integers(0, 10**9))
def test_other_stages_at_most_a_third_slower(slowest, most, seed):
    """A bound, as a slow stage fills its own wait with forward passes: a sixth more at the very most."""
    times, m, v, backward = unequal(seed, slowest, 4.0 / 3.0)
    error = predicted(times, m, v) / simulated(times, m, v, backward) - 1.0
    assert -1e-3 < error < most


@given(st.integers(0, 10**9), st.sampled_from(["first", "middle", "last"]), st.floats(1.0, 10.0))
def test_within_what_no_schedule_can_beat_and_the_slowest_everywhere(seed, slowest, spread):
    times, m, v, _ = unequal(seed, slowest, spread)
    found, p = predicted(times, m, v), len(times)
    assert m * max(times) <= found * (1 + 1e-12)
    assert found <= predicted([max(times)] * p, m, v) * (1 + 1e-12)


@given(st.integers(0, 10**9), st.sampled_from(["first", "middle", "last"]), st.floats(1.0, 3.0))
def test_a_slower_stage_never_speeds_up_the_pipeline(seed, which, factor):
    times, m, v, _ = unequal(seed, "middle", 2.0)
    p = len(times)
    parts = [times[0], times[min(1, p - 1)], times[-1]]
    slower = [t * (factor if name == which else 1.0) for t, name in zip(parts, STAGES, strict=True)]
    assert float(pipeline_seconds(*slower, p, m, v)) >= float(pipeline_seconds(*parts, p, m, v)) * (1 - 1e-12)


STAGES = ("first", "middle", "last")


def test_one_stage_ignores_the_others():
    assert float(pipeline_seconds(3.0, 99.0, 99.0, 1, 5, 1)) == 15.0


def test_two_stages_ignore_those_between():
    assert float(pipeline_seconds(3.0, 99.0, 2.0, 2, 5, 1)) == 5 * 3.0 + 2.0


def test_pipelines_at_once():
    pp, m = np.array([1, 2, 4, 8])[:, None], np.array([1, 2, 8, 64])
    found = pipeline_seconds(3.0, 2.0, 4.0, pp, m, 1)
    for i, stages in enumerate(pp[:, 0]):
        for k, count in enumerate(m):
            assert found[i, k] == float(pipeline_seconds(3.0, 2.0, 4.0, int(stages), int(count), 1))
