"""One multiplication: tilings and traffic worked out by hand, and how seconds grow with tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost import matmul
from scalewall.cost.assumptions import Assumptions
from scalewall.hardware import catalogue
from scalewall.hardware.device import Cache, Device
from tests.cost import cases, scalar

SMALL = [cases.small(seed)[0].device for seed in range(60)]
LARGE = [catalogue.load(name).device for name in cases.DEVICES]
devices = st.sampled_from(SMALL + LARGE)
sizes = st.floats(1, 1e5)
whole_sizes = st.integers(1, 100_000)


def lines(device, rows, columns, gradient=False, whole=False, how=Assumptions()):  # noqa: B008 - frozen
    return matmul.lines(
        device, rows, columns, weight_gradient=gradient, fill=how.fill, word=how.word, whole=whole
    )


@pytest.mark.parametrize(
    ("rows", "columns", "tile_words", "tiles"),
    [
        (10, 10, 100, (1, 1)),  # fits
        (10, 10, 1e9, (1, 1)),
        (4, 4, 4, (2, 2)),
        (8, 2, 4, (4, 1)),
        (2, 8, 4, (1, 4)),
        (1, 100, 10, (1, 10)),  # a square tile would want 0.3 rows of them: one is the least
        (100, 1, 10, (10, 1)),
        (100, 50, 5000 / 7, (math.sqrt(14), math.sqrt(3.5))),
        (10, 10, 30, (2, 2)),  # 3.3 tiles are four
        (3, 3, 5, (math.sqrt(2), math.sqrt(2))),  # two tiles: fractions are allowed
    ],
)
def test_tilings_by_hand(rows, columns, tile_words, tiles):
    assert matmul.tiling(rows, columns, tile_words) == pytest.approx(tiles, rel=1e-15)


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(1, 1e9))
def test_tilings_are_the_fewest_that_fit(rows, columns, tile_words):
    down, across = matmul.tiling(rows, columns, tile_words)
    n = math.ceil(rows * columns / tile_words)
    assert down * across == pytest.approx(n, rel=1e-12)
    assert 1 <= down <= n
    assert 1 - 1e-12 <= across <= n * (1 + 1e-12)
    others = np.geomspace(1, n, 50)  # no other tiling reads less of both operands
    assert down * columns + across * rows <= (others * columns + n / others * rows).min() * (1 + 1e-12)


def one_level(**cache) -> Device:
    """A device whose times are bytes: a rate of one, and one cache of 32 bytes an instance."""
    fields = {"name": "cache", "capacity": 32.0, "bandwidth": 1.0} | cache
    return Device(
        name="by hand",
        peak={"bf16": 1e30},
        sustained=1.0,
        memory=1.0,
        memory_bandwidth=1.0,
        caches=(Cache(**fields),),
        kernel_latency=0.0,
        tile=1,
        token_tile=1,
    )


FULL = Assumptions(fill=1.0)


@pytest.mark.parametrize(
    ("cache", "gradient", "memory", "inner"),
    [
        # 8 x 8 numbers are 128 bytes, four tiles of 32 in two rows of two; an operand is 16 bytes a token.
        ({}, False, (128, 2 * 16 + 3 * 16), (128, 80)),
        ({}, True, (256, 2 * 16 + 2 * 16), (256, 64)),
        # Eight instances hold weights and gradients together, but each tile is as small as before.
        ({"instances": 8}, False, (0, 80), (0, 80)),
        ({"instances": 8}, True, (0, 64), (0, 64)),
        ({"instances": 7}, False, (128, 80), (128, 80)),
        # Four pooled instances hold one tile; the small tiles' re-reading crosses their own network.
        ({"instances": 4, "pooled": True}, False, (128, 32), (128, 32 + 2 * 16 + 2 * 16)),
        ({"instances": 4, "pooled": True}, True, (256, 32), (256, 32 + 2 * 16 + 2 * 16)),
        # One instance that holds it all has no network to cross.
        ({"capacity": 1000.0, "pooled": True}, False, (0, 32), (0, 32)),
        ({"capacity": 1000.0, "pooled": True}, True, (0, 32), (0, 32)),
    ],
)
def test_traffic_by_hand(cache, gradient, memory, inner):
    assert lines(one_level(**cache), 8.0, 8.0, gradient, how=FULL).levels == (memory, inner)


def test_rows_and_columns_by_hand():
    """16 x 4 numbers in four tiles of 4 x 4: one column of them."""
    line = lines(one_level(), 16.0, 4.0, how=FULL)
    assert line.levels[0] == (128, 4 * (2 * 4) + 1 * (2 * 16))
    line = lines(one_level(instances=2, pooled=True), 16.0, 4.0, how=FULL)
    down, across = math.sqrt(8), math.sqrt(0.5)  # two tiles for both: 2 rows of them, not sqrt(8)
    assert (down, across) != (2, 1)
    assert line.levels[0] == (128, 2 * 8 + 1 * 32)
    assert line.levels[1] == (128, 48 + 4 * 8 + 0 * 32)  # one small column: nothing to sum


def test_a_level_without_bandwidth_limits_by_its_capacity_alone():
    assert len(lines(one_level(bandwidth=None), 8.0, 8.0).levels) == 1
    slow = lines(one_level(bandwidth=None), 8.0, 8.0, how=FULL)
    assert slow.levels[0] == (128, 80)


def test_without_caches_every_operand_moves_once():
    bare = Device(name="bare", peak={"bf16": 1.0}, sustained=1.0, memory=1.0, memory_bandwidth=1.0)
    assert lines(bare, 8.0, 4.0).levels == ((64, 24),)
    assert lines(bare, 8.0, 4.0, gradient=True).levels == ((128, 24),)


def test_padding():
    assert matmul.padded(17.0, 16, whole=True) == 32
    assert matmul.padded(32.0, 16, whole=True) == 32
    assert matmul.padded(17.0, 16, whole=False) == 17
    assert matmul.padded(3.0, 16, whole=False) == 16
    assert matmul.shard(100, 3.0, whole=True) == 33
    assert matmul.shard(100, 3.0, whole=False) == 100 / 3


@given(devices, sizes, sizes, st.floats(1, 1e6), st.booleans())
def test_real_sizes_one_number_at_a_time(device, rows, columns, tokens, gradient):
    how = Assumptions()
    line = lines(device, rows, columns, gradient)
    expected = scalar.matmul_seconds(device, rows, columns, tokens, gradient, how, whole=False)
    assert float(matmul.seconds(device, line, tokens, False)) == pytest.approx(expected, rel=1e-12)


@given(devices, whole_sizes, whole_sizes, st.floats(1, 1e6), st.booleans())
def test_whole_sizes_one_number_at_a_time(device, rows, columns, tokens, gradient):
    how = Assumptions()
    line = lines(device, float(rows), float(columns), gradient, whole=True)
    expected = scalar.matmul_seconds(device, rows, columns, tokens, gradient, how, whole=True)
    assert float(matmul.seconds(device, line, tokens, True)) == pytest.approx(expected, rel=1e-12)


@given(devices, sizes, sizes, st.floats(0.01, 1e6), st.floats(1, 100), st.booleans(), st.booleans())
def test_more_tokens_take_longer(device, rows, columns, tokens, more, gradient, whole):
    line = lines(device, rows, columns, gradient, whole)
    few, many = (float(matmul.seconds(device, line, n, whole)) for n in (tokens, tokens * more))
    assert few <= many


@given(devices, sizes, sizes, st.floats(1, 1e6), st.floats(1, 100), st.floats(1, 100), st.booleans())
def test_more_micro_batches_take_longer_in_all(device, rows, columns, batch, m, more, gradient):
    """What the search's bounds rest on: ``m · seconds(B/m)`` rises with `m`."""
    line = lines(device, rows, columns, gradient)
    few, many = (n * float(matmul.seconds(device, line, batch / n, False)) for n in (m, m * more))
    assert few <= many * (1 + 1e-12)


@given(devices, sizes, sizes, st.floats(0.1, 1e6), st.booleans(), st.booleans())
def test_causes_add_up(device, rows, columns, tokens, gradient, whole):
    line = lines(device, rows, columns, gradient, whole)
    total = float(matmul.seconds(device, line, tokens, whole))
    causes = matmul.seconds_by_cause(device, line, tokens, whole)
    assert float(sum(causes.values())) == pytest.approx(total, rel=1e-12)
    assert min(float(seconds) for seconds in causes.values()) >= -1e-12 * total
    assert float(causes["arithmetic"]) == pytest.approx(
        2 * rows * columns * tokens / device.sustained_rate(), rel=1e-12
    )
    assert float(causes["kernel_latency"]) == device.kernel_latency


def test_memory_and_caches_are_told_apart():
    slow_memory, slow_cache = one_level(bandwidth=1e3), one_level(bandwidth=1e-3)
    for device, cause in ((slow_memory, "memory_bandwidth"), (slow_cache, "cache_bandwidth")):
        causes = matmul.seconds_by_cause(device, lines(device, 64.0, 64.0), 10.0, False)
        assert [name for name, seconds in causes.items() if seconds > 1e-9] == [cause]


def test_shapes_broadcast():
    device = LARGE[0]
    rows, columns = np.array([64.0, 1024.0, 8192.0])[:, None], np.array([48.0, 12288.0])[None, :]
    line = lines(device, rows, columns)
    assert line.useful.shape == (3, 2)
    for at in np.ndindex(3, 2):
        alone = lines(device, rows[at[0], 0], columns[0, at[1]])
        one = float(matmul.seconds(device, alone, 4096.0, False))
        assert matmul.seconds(device, line, 4096.0, False)[at] == pytest.approx(one, rel=1e-14)
