"""The paper's grid: its widths, depths and batches are those of its published curve."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.errors import InputError
from scalewall.workload import grid
from scalewall.workload.scaling import Scaling
from tests.strategy.papers import CURVE

ALL_ROUND = sorted(m * 2**i for m in (1, 3, 5, 7, 9) for i in range(50))


def test_the_first_widths():
    widths = list(itertools.islice(grid.widths(), len(CURVE)))
    assert widths == [row.d_model for row in CURVE]


def test_widths_are_in_order_and_each_once():
    widths = list(itertools.islice(grid.widths(first=0), 60))
    assert widths == sorted(set(widths))
    for width in widths:
        odd = width // 2048
        assert width % 2048 == 0
        while odd % 2 == 0:
            odd //= 2
        assert odd <= 15


@pytest.mark.parametrize("row", CURVE, ids=lambda row: str(row.d_model))
def test_depths_batches_and_compute(row):
    w = grid.workload(Scaling(), row.d_model)
    assert (w.layers, w.batch_tokens) == (row.layers, row.batch_tokens)
    assert w.training_flop == pytest.approx(row.training_flop, rel=5e-5)  # as many digits as there are
    assert w.training_flop == 6 * w.parameters / w.sparsity * w.tokens
    assert w.tokens == 20 * w.parameters
    assert (w.d_ff, w.sparsity, w.whole) == (4 * row.d_model, 1, True)


@pytest.mark.parametrize("width", [12288, 49152, 196608])
def test_sparse_models(width):
    scaling = Scaling(sparsity="baseline")
    w = grid.workload(scaling, width)
    assert w.sparsity == 8 * width / 12288  # the baseline, which is round here
    assert w.batch_tokens % (w.sparsity * grid.SEQUENCE) == 0
    assert w.batch_tokens // (w.sparsity * grid.SEQUENCE) in ALL_ROUND
    assert w.training_flop == pytest.approx(6 * w.parameters / w.sparsity * w.tokens, rel=1e-12)
    law = 2**22 * w.sparsity**0.5 * (w.training_flop / 3e23) ** (1 / 6)
    assert 0.8 < w.batch_tokens / law < 1.25


@given(st.floats(1, 1e12))
def test_the_nearest_round_number(value):
    best = min(abs(n - value) for n in ALL_ROUND)
    found = grid.nearest_round(value)
    assert found in ALL_ROUND
    assert abs(found - value) == best


@pytest.mark.parametrize("value", [0.0, 0.3])
def test_there_is_at_least_one(value):
    assert grid.nearest_round(value) == 1


@pytest.mark.parametrize("depth", ["0.001 * N^0.4", "0.001 * D^0.3", "0.001 * C^0.2", "0.1 * S^0.5 * N^0.2"])
def test_a_depth_that_depends_on_itself(depth):
    scaling = Scaling(depth=depth, sparsity="baseline")
    w = grid.workload(scaling, 24576)
    law = depth.replace("^", "**")
    implied = eval(law, {}, {"N": w.parameters, "D": w.tokens, "C": w.training_flop, "S": w.sparsity})
    assert 0.8 < w.layers / implied < 1.25  # but for the rounding


def test_a_depth_without_a_solution():
    with pytest.raises(InputError, match="wider models are larger"):
        grid.workload(Scaling(depth="1e-12 * N"), 12288)
