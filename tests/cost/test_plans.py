"""How the groups of a plan lie over the tiers: against a walk through the tiers, and what always holds."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost.plans import PLACED, Plans, farthest
from scalewall.hardware.cluster import Tier

AXES = (*PLACED, "copies", "shard")


def tiers(*sizes):
    return [
        Tier(name=f"tier {i}", size=float(size), bandwidth=1e9, latency=0.0) for i, size in enumerate(sizes)
    ]


NODES = tiers(8, math.inf)
RACKS = tiers(4, 18, math.inf)


def layout(plans, network=NODES):
    return {axis: [float(d) for d in degrees] for axis, degrees in plans.layout(network).items()}


def walked(plans, network):
    """Tier by tier and axis by axis: the largest divisor of what is left that still has room."""
    room = [tier.size for tier in network]
    placed = {}
    for axis in PLACED:
        left, degrees = getattr(plans, axis), []
        for i in range(len(network) - 1):
            here = max(d for d in range(1, left + 1) if left % d == 0 and d <= room[i])
            room[i] = room[i] // here
            left //= here
            degrees.append(here)
        placed[axis] = [*degrees, left]
    return placed


def drawn(seed, most=48):
    """A random plan on a random network; sizes and degrees are no powers of two as often as they are."""
    dice = Random(seed)
    sizes = [dice.choice([1, 2, 3, 4, 6, 8, 12, 18, 72]) for _ in range(dice.randint(0, 3))]
    degrees = {axis: dice.choice([1, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16, most]) for axis in PLACED}
    return Plans(**degrees), tiers(*sizes, math.inf)


seeds = st.integers(0, 10**9)


# Degrees


@given(seeds)
def test_degrees_multiply_to_the_axis(seed):
    plans, network = drawn(seed)
    found = layout(plans, network)
    for axis in PLACED:
        assert math.prod(found[axis]) == getattr(plans, axis)
    assert math.prod(found["copies"]) == plans.dp * plans.cp
    assert math.prod(found["shard"]) == plans.shard


@given(seeds)
def test_degrees_are_whole_and_fit_the_tier(seed):
    plans, network = drawn(seed)
    found = layout(plans, network)
    for i, tier in enumerate(network):
        assert math.prod(found[axis][i] for axis in PLACED) <= tier.size
        for axis in AXES:
            assert found[axis][i] >= 1
            assert found[axis][i] == int(found[axis][i])


@given(seeds)
def test_against_a_walk_through_the_tiers(seed):
    plans, network = drawn(seed)
    found = layout(plans, network)
    assert {axis: found[axis] for axis in PLACED} == walked(plans, network)


@given(seeds)
def test_every_axis_names_every_tier(seed):
    plans, network = drawn(seed)
    assert {axis: len(degrees) for axis, degrees in layout(plans, network).items()} == dict.fromkeys(
        AXES, len(network)
    )


# Order


def test_tensor_groups_come_first_and_the_pipeline_last():
    found = layout(Plans(tp=4, cp=2, dp=16, pp=8))
    assert found["tp"] == [4, 1]
    assert found["cp"] == [2, 1]
    assert found["dp"] == [1, 16]
    assert found["pp"] == [1, 8]


def test_data_parallelism_takes_what_is_left_of_a_node():
    found = layout(Plans(tp=2, dp=16, pp=8))
    assert found["dp"] == [4, 4]
    assert found["pp"] == [1, 8]


def test_a_pipeline_alone_stays_in_the_node():
    assert layout(Plans(pp=8))["pp"] == [8, 1]
    assert layout(Plans(pp=16))["pp"] == [8, 2]


def test_a_tensor_group_larger_than_the_node():
    assert layout(Plans(tp=16, dp=4)) == {
        "tp": [8, 2],
        "cp": [1, 1],
        "dp": [1, 4],
        "pp": [1, 1],
        "copies": [1, 4],
        "shard": [1, 1],
    }


def test_degrees_that_do_not_divide_the_node():
    """Six of eight devices take part; three stages do not fit beside a pair."""
    assert layout(Plans(tp=3, dp=2))["dp"] == [2, 1]
    assert layout(Plans(tp=2, pp=5))["pp"] == [1, 5]
    assert layout(Plans(tp=12))["tp"] == [6, 2]


def test_three_tiers():
    found = layout(Plans(tp=2, cp=2, dp=24, pp=6), RACKS)
    assert found["tp"] == [2, 1, 1]
    assert found["cp"] == [2, 1, 1]
    assert found["dp"] == [1, 12, 2]
    assert found["pp"] == [1, 1, 6]


def test_one_tier_takes_all():
    assert layout(Plans(tp=8, dp=3), tiers(math.inf))["dp"] == [3]


def test_layouts_at_once():
    plans = Plans(
        tp=np.array([1, 2, 4, 8, 16])[:, None, None],
        dp=np.array([1, 2, 12, 64])[:, None],
        pp=np.array([1, 3, 8]),
        cp=2,
        shard=2,
    )
    shape = np.broadcast_shapes(np.shape(plans.tp), np.shape(plans.dp), np.shape(plans.pp))
    for network in (NODES, RACKS):
        found = plans.layout(network)
        for at in np.ndindex(shape):
            tp, dp, pp = (int(np.broadcast_to(getattr(plans, a), shape)[at]) for a in ("tp", "dp", "pp"))
            one = Plans(tp=tp, dp=dp, pp=pp, cp=2, shard=2).layout(network)
            for axis in AXES:
                many = [float(np.broadcast_to(degree, shape)[at]) for degree in found[axis]]
                assert many == [float(degree) for degree in one[axis]]


# Those who hold the same weights


def test_copies_are_data_and_context_parallel():
    found = layout(Plans(tp=2, cp=2, dp=16))
    assert found["copies"] == [4, 8]


@given(seeds, st.data())
def test_shards_and_replicas_make_up_the_copies(seed, data):
    """Where a shard's group fills whole tiers from the inside, as groups of a device's neighbours do."""
    plans, network = drawn(seed)
    copies = [int(degree) for degree in layout(plans, network)["copies"]]
    full = data.draw(st.integers(0, len(copies) - 1))
    part = data.draw(st.sampled_from([d for d in range(1, copies[full] + 1) if copies[full] % d == 0]))
    shard = math.prod(copies[:full]) * part
    plans = Plans(**{axis: getattr(plans, axis) for axis in PLACED}, shard=shard)
    found = plans.layout(network)
    replicas = [float(degree) for degree in plans.replicas(found)]
    assert math.prod(replicas) * shard == pytest.approx(plans.dp * plans.cp)
    assert found["shard"][:full] == copies[:full]
    for copy, sharded, replica in zip(copies, found["shard"], replicas, strict=True):
        assert sharded * replica == copy
        assert replica == int(replica)


def test_plain_sharding_has_no_replicas():
    plans = Plans(tp=2, dp=32, shard=32)
    assert plans.replicas(plans.layout(NODES)) == [1, 1]


def test_hybrid_shards_are_innermost():
    plans = Plans(dp=64, shard=8)
    found = plans.layout(NODES)
    assert found["shard"] == [8, 1]
    assert plans.replicas(found) == [1, 8]
    plans = Plans(dp=64, shard=16)
    found = plans.layout(NODES)
    assert found["shard"] == [8, 2]
    assert plans.replicas(found) == [1, 4]


@pytest.mark.parametrize(
    ("dp", "shard", "network"),
    [
        (12, 4, NODES),  # 6 x 2: two of four ranks, replicated 3 times within; not 4 of 6
        (6, 2, tiers(3, math.inf)),
        (72, 8, tiers(18, math.inf)),
    ],
)
def test_shards_divide_the_copies_of_every_tier(dp, shard, network):
    plans = Plans(dp=dp, shard=shard)
    replicas = [float(degree) for degree in plans.replicas(plans.layout(network))]
    assert math.prod(replicas) == pytest.approx(dp / shard)
    assert all(replica == int(replica) for replica in replicas)


# The farthest tier


@pytest.mark.parametrize(
    ("degrees", "tier"),
    [([1, 1], -1), ([8, 1], 0), ([1, 4], 1), ([8, 4], 1), ([2, 1, 3], 2), ([2, 3, 1], 1), ([1], -1)],
)
def test_the_farthest_tier(degrees, tier):
    assert farthest(degrees) == tier


def test_farthest_tiers_at_once():
    found = farthest([np.array([1, 8, 1, 8]), np.array([1, 1, 4, 4])])
    assert found.tolist() == [-1, 0, 1, 1]


# Counts


def test_devices_and_micro_batches():
    plans = Plans(tp=8, cp=2, dp=16, pp=4, micro_batch=2)
    assert plans.devices == 1024
    assert plans.microbatches(1536) == 48
    assert Plans(dp=np.array([1, 2, 4])).microbatches(8).tolist() == [8, 4, 2]
