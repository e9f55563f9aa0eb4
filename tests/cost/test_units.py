"""The cost functions with quantities that know their unit: what comes out in seconds is seconds.

Stand-ins carry the fields of a device and a cluster as `pint` quantities; arithmetic, tokens and
numbers have no unit, as in the formulas. A sum or a maximum of unlike units raises.
"""

from __future__ import annotations

import types

import attrs
import numpy as np
import pint
import pytest

from scalewall.cost import block, collective, matmul, memory, step
from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster
from scalewall.hardware.device import Device
from tests.cost import cases

UNITS = pint.UnitRegistry()
UNITS.define("flop = []")  # a count, and so no dimension
UNITS.define("octet = [data]")  # pint's own byte has none
SECOND, BYTE = UNITS.second, UNITS.octet
SEEDS = range(40)
HOW = types.SimpleNamespace(**attrs.asdict(Assumptions()) | {"word": 2.0 * BYTE, "optimizer": 8.0 * BYTE})


def with_units(cluster: Cluster) -> types.SimpleNamespace:
    tiers = [
        types.SimpleNamespace(
            size=t.size,
            bandwidth=t.bandwidth * BYTE / SECOND,
            latency=t.latency * SECOND,
            in_network_reduction=t.in_network_reduction,
        )
        for t in cluster.tiers
    ]
    return types.SimpleNamespace(device=device_with_units(cluster.device), tiers=tiers)


def device_with_units(device: Device) -> types.SimpleNamespace:
    caches = []
    for cache in device.caches:
        bandwidth = device.cache_bandwidth(cache)
        caches.append(
            types.SimpleNamespace(
                capacity=cache.capacity * BYTE,
                total_capacity=cache.total_capacity * BYTE,
                pooled=cache.pooled,
                bandwidth=None if bandwidth is None else bandwidth * BYTE / SECOND,
            )
        )
    return types.SimpleNamespace(
        sustained_rate=lambda precision: device.sustained_rate(precision) * UNITS.flop / SECOND,
        peak_rate=lambda precision: device.peak_rate(precision) * UNITS.flop / SECOND,
        cache_bandwidth=lambda cache: cache.bandwidth,
        caches=caches,
        memory=device.memory * BYTE,
        memory_bandwidth=device.memory_bandwidth * BYTE / SECOND,
        kernel_latency=device.kernel_latency * SECOND,
        tile=device.tile,
        token_tile=device.token_tile,
    )


def same(quantity, expected, unit) -> None:
    """Assert that `quantity` is `expected`, in `unit`; nothing at all may be nothing of anything."""
    if not np.any(expected):
        assert not np.any(getattr(quantity, "magnitude", quantity))
        return
    assert quantity.check(unit.dimensionality)
    np.testing.assert_allclose(quantity.m_as(unit), expected, rtol=1e-12)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_multiplication_takes_seconds(seed, gradient):
    device = cases.large(seed)[0].device
    rows, columns, tokens = np.array([64.0, 1e4]), np.array([512.0, 3e4]), 1000.0
    choice = {"weight_gradient": gradient, "fill": 0.75, "whole": bool(seed % 2)}
    plain = matmul.lines(device, rows, columns, word=2.0, **choice)
    stand_in = device_with_units(device)
    line = matmul.lines(stand_in, rows, columns, word=2.0 * BYTE, **choice)
    same(line.useful, plain.useful, SECOND)
    same(line.padded, plain.padded, SECOND)
    expected = matmul.seconds(device, plain, tokens, choice["whole"])
    same(matmul.seconds(stand_in, line, tokens, choice["whole"]), expected, SECOND)
    causes = matmul.seconds_by_cause(stand_in, line, tokens, choice["whole"])
    for cause, seconds in matmul.seconds_by_cause(device, plain, tokens, choice["whole"]).items():
        same(causes[cause], seconds, SECOND)


def test_collectives_carry_bytes_and_take_seconds():
    tiers = with_units(cases.large(1)[0]).tiers
    degrees = [np.array([2.0, 8.0]), np.array([1.0, 16.0]), np.array([1.0, 3.0])][: len(tiers)]
    plain = collective.all_reduce_bytes(1e9, degrees)
    carried = collective.all_reduce_bytes(1e9 * BYTE, degrees)
    for quantity, expected in zip(carried, plain, strict=True):
        same(quantity, expected, BYTE)
    for quantity, expected in zip(collective.half_all_reduce_bytes(1e9 * BYTE, degrees), plain, strict=True):
        same(quantity, expected / 2, BYTE)
    for quantity in collective.all_to_all_bytes(1e9 * BYTE, degrees):
        assert quantity.check("[data]")
    assert collective.slowest(tiers, carried).check("[time]")
    assert collective.all_reduce_latency(tiers, degrees).check("[time]")


def test_memory_is_in_bytes():
    same(memory.ideal_bytes(1e9, np.array([1.0, 8.0]), word=2 * BYTE, optimizer=8 * BYTE), [10e9, 3e9], BYTE)


def test_unlike_units_are_seen():
    """Else the tests above would say nothing."""
    device = device_with_units(cases.large(1)[0].device)
    device.memory_bandwidth = device.memory_bandwidth * BYTE
    line = matmul.lines(device, 8.0, 8.0, weight_gradient=False, fill=1.0, word=2 * BYTE, whole=False)
    with pytest.raises(pint.DimensionalityError):
        matmul.seconds(device, line, 1.0, whole=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_takes_seconds(seed):
    cluster, w, s, how = cases.large(seed)
    units = types.SimpleNamespace(
        **attrs.asdict(how) | {"word": how.word * BYTE, "optimizer": how.optimizer * BYTE}
    )
    stand_in = with_units(cluster)
    plain = step.parts(cluster, w, s.arrays, how)
    parts = step.parts(stand_in, w, s.arrays, units)
    for name in ("multiplying", "network", "exposed_network", "latency", "reduction", "reduction_latency"):
        same(getattr(parts, name), getattr(plain, name), SECOND)
    same(parts.seconds, plain.seconds, SECOND)
    causes = step.seconds_by_cause(stand_in, w, parts)
    for cause, seconds in step.seconds_by_cause(cluster, w, plain).items():
        same(causes[cause], seconds, SECOND)
    same(step.memory_bytes(w, s.arrays.degrees, units), step.memory_bytes(w, s.arrays.degrees, how), BYTE)
    used = step.mfu(stand_in, w, s.devices, parts.seconds, units)
    same(used, step.mfu(cluster, w, s.devices, plain.seconds, how), UNITS.dimensionless)


def test_a_block_sends_bytes():
    _, w, s, _ = cases.large(2)
    for sent in (
        block.tensor_bytes(w.block, s.arrays.degrees, HOW, w.whole),
        block.exchange_bytes(w.block, s.arrays.degrees, s.arrays.interleave, w.layers, HOW),
    ):
        assert all(size.check("[data]") for size in sent)
