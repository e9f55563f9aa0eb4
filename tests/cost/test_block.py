"""A block's multiplications and its tensor-parallel traffic, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from scalewall.cost import block, memory
from scalewall.cost.assumptions import Assumptions
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.workload.operators import Exchange, Linear, ideal_block

H100 = catalogue.load("h100-sxm", "epoch-2024")
HOW = Assumptions()
TWO_TIERS = Cluster(
    name="two tiers",
    device=H100.device,
    tiers=(
        Tier(name="near", size=8, bandwidth=1.0, latency=1.0),
        Tier(name="far", bandwidth=1.0, latency=10.0),
    ),
)
ONE = {"tp_model": 1.0, "tp_ff": 1.0}


def test_the_ideal_block():
    up, down, exchange = ideal_block(100, 400)
    assert (up.out_features, up.in_features, up.out_split, up.in_split) == (400, 100, "tp_ff", "tp_model")
    assert (down.out_features, down.in_features) == (100, 400)
    assert exchange == Exchange(100)


def test_six_multiplications_of_which_three_differ():
    products = block.multiplications(H100, ideal_block(1024, 4096), ONE, HOW, whole=True)
    assert sorted(times for times, _ in products.counted) == [2, 2, 2]
    useful = sum(times * line.useful for times, line in products.counted)
    assert useful * H100.device.sustained_rate() == pytest.approx(6 * 2 * 1024 * 4096, rel=1e-14)


def test_layers_that_differ_are_priced_apart():
    layers = (Linear(64, 32, "tp_ff", "tp_model"), Linear(128, 32, "tp_ff", "tp_model"))
    products = block.multiplications(H100, layers, ONE, HOW, whole=True)
    assert [times for times, _ in products.counted] == [1] * 6


def test_tensor_traffic_by_hand():
    """d = 1000 over 2 (one tier), f = 4000 over 4 (two on each tier)."""
    degrees = {"tp_model": [1, 2], "tp_ff": [2, 2]}
    inner, outer = block.tensor_bytes(ideal_block(1000, 4000), degrees, HOW, whole=True)
    f, d = 2 * 1000, 2 * 500  # bytes a token of a shard
    assert inner == 2 * (2 * 1 / 2 * d)  # twice: forward and backward
    assert outer == 2 * (2 * 1 / 2 * f) + 2 * (2 * 1 / 2 * d / 2)


@pytest.mark.parametrize(
    ("model", "ff", "latency"),
    [
        ([1, 1], [1, 1], 0),
        ([2, 1], [1, 1], 4 * 1),
        ([2, 1], [4, 1], 8 * 1),
        ([2, 3], [1, 5], 4 * (1 + 10) + 4 * 10),
    ],
)
def test_tensor_latency_by_hand(model, ff, latency):
    """Two all-reduces over either group, two latencies a tier each."""
    degrees = {"tp_model": model, "tp_ff": ff}
    assert block.tensor_latency(TWO_TIERS, ideal_block(8, 8), degrees) == latency


@pytest.mark.parametrize(
    ("ep", "pp", "waits"),
    [
        ([1, 1], [1, 1], 0),
        ([1, 1], [4, 1], 2 * 3 * 1),  # three borders within
        ([1, 1], [2, 2], 2 * (2 * 1 + 1 * 10)),
        ([2, 1], [1, 1], 2 * 11 * 1),  # some token moves at every interface
        ([2, 1], [2, 2], 2 * (10 * 1 + 1 * 10)),
        ([1, 3], [4, 1], 2 * 11 * 10),
        ([2, 3], [1, 2], 2 * 11 * 10),
    ],
)
def test_exchange_latency_by_hand(ep, pp, waits):
    assert float(block.exchange_latency(TWO_TIERS, {"ep": ep, "pp": pp}, 1, 12)) == waits


def test_memory_by_hand():
    """Two bytes a parameter on every replica, eight shared by them."""
    assert memory.ideal_bytes(1e9, 1, word=2.0, optimizer=8.0) == 10e9
    assert memory.ideal_bytes(1e9, 4, word=2.0, optimizer=8.0) == 4e9
    replicas = np.array([1.0, 2.0, 8.0])
    assert list(memory.ideal_bytes(1e9, replicas, word=2.0, optimizer=8.0)) == [10e9, 6e9, 3e9]
