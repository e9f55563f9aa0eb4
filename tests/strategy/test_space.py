"""The space of strategies: which degrees and layouts there are, what is fixed, and what is refused."""

from __future__ import annotations

import itertools
import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost.step import AXES, Strategies
from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.strategy.counts import convex_argmin
from scalewall.strategy.space import (
    SCHEDULES,
    Space,
    Strategy,
    divisors,
    factorisations,
    parse_degrees,
    smooth_numbers,
)
from scalewall.workload.scaling import Workload
from tests.cost import cases
from tests.strategy import brute

W = Workload(
    training_flop=1e9, d_model=36, d_ff=100, layers=12, sparsity=4, batch_tokens=96, tokens=1e6, whole=True
)


def cluster(*sizes: float) -> Cluster:
    tiers = [Tier(name=f"{i}", size=size, bandwidth=1.0, latency=0.0) for i, size in enumerate(sizes)]
    return Cluster(name="tiers", device=cases.small(0)[0].device, tiers=tuple(tiers))


@given(st.floats(0.5, 5000))
def test_smooth_numbers(most):
    every = [n for n in range(1, int(most) + 1) if 6**20 % n == 0]
    assert list(smooth_numbers(most)) == every


@given(st.integers(1, 2000))
def test_divisors(n):
    assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]


@given(st.integers(1, 24), st.integers(1, 4))
def test_factorisations(n, parts):
    every = [way for way in itertools.product(range(1, n + 1), repeat=parts) if math.prod(way) == n]
    assert sorted(factorisations(n, parts)) == every


def test_degrees_go_up_to_what_they_split():
    found = {axis: list(Space().degrees(axis, W)) for axis in AXES}
    assert found["dp"] == [1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24]  # 96 tokens, four experts
    assert found["tp_model"] == [1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 27, 32, 36]
    assert found["ep"] == [1, 2, 3, 4]
    assert found["pp"] == [1, 2, 3, 4, 6, 12]  # of whole blocks
    assert list(Space().degrees("pp", attrs.evolve(W, whole=False))) == [1, 2, 3, 4, 6, 8, 9, 12]


def test_degrees_may_be_fixed():
    space = Space(dp=(5, 2, 1000), pp=(5, 4), ep=(9,))
    assert list(space.degrees("dp", W)) == [2, 5]
    assert list(space.degrees("pp", W)) == [4]
    assert list(space.degrees("ep", W)) == []
    assert space.size(cluster(8, math.inf), W) == 0


@pytest.mark.parametrize("sizes", [(math.inf,), (6, math.inf), (4, 3, math.inf), (8, 2, 5)])
def test_layouts_divide_each_tier(sizes):
    found = Space().layouts(cluster(*sizes)).degrees
    assert found.shape[1:] == (len(AXES), len(sizes) - 1)
    every = {tuple(map(tuple, layout.T.astype(int).tolist())) for layout in found}
    assert len(every) == len(found)
    assert every == set(brute.all_layouts(cluster(*sizes)))


def test_layouts_may_be_fixed():
    tiers = cluster(4, 3, math.inf)
    found = Space(inner={"tp_ff": (2,), "pp": (1, 3)}).layouts(tiers).degrees
    ff, pp = AXES.index("tp_ff"), AXES.index("pp")
    wanted = [
        layout
        for layout in brute.all_layouts(tiers)
        if layout[0][ff] == 2 and (layout[0][pp], layout[1][pp]) == (1, 3)
    ]
    assert len(found) == len(wanted) > 0
    assert len(Space(inner={"dp": (5,)}).layouts(tiers).degrees) == 0


def test_layouts_are_grouped_by_their_tensor_part():
    found = Space().layouts(cluster(4, 6, math.inf))
    tensor = found.degrees[:, [AXES.index("tp_model"), AXES.index("tp_ff")]]
    assert sorted(found.order) == list(range(len(found.degrees)))
    for part, first, count in zip(found.tensor, found.first, found.count, strict=True):
        group = found.order[first : first + count]
        assert (tensor[group] == part).all()
        assert len(group) == (tensor == part).all(axis=(1, 2)).sum()


ONE = {axis: (1,) for axis in AXES}


def test_sizes_by_hand():
    one_tier = cluster(math.inf)
    assert Space(**ONE).size(one_tier, W) == 24 + 23  # 24 sequences; zero-bubble from two on
    assert Space(**ONE, schedules=("1f1b",)).size(one_tier, W) == 24
    pipeline = Space(**ONE | {"pp": (4,)})
    assert pipeline.size(one_tier, W) == 24 * 3 + 17  # one to three chunks a stage; from eight on
    assert pipeline.size(cluster(2, math.inf), W) == 2 * (24 * 3 + 17)  # two stages in the tier, or one


@pytest.mark.parametrize(
    ("locks", "size"),
    [
        ({"microbatches": 25}, 0),
        ({"microbatches": 7}, 3),  # too few for zero-bubble
        ({"interleave": 2}, 24),  # none under zero-bubble
        ({"interleave": 4}, 0),
    ],
)
def test_sizes_with_locks_by_hand(locks, size):
    assert Space(**ONE | {"pp": (4,)}, **locks).size(cluster(math.inf), W) == size


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dp": ()}, "The 'dp' must be a list of at least one whole number of at least 1"),
        ({"pp": (0, 2)}, "The 'pp' must be"),
        ({"microbatches": 0}, "The 'microbatches' must be a whole number of at least 1"),
        ({"interleave": -1}, "The 'interleave' must be"),
        ({"schedules": ("gpipe",)}, "must be one of 1f1b, zero-bubble"),
        ({"schedules": ()}, "must be one of 1f1b, zero-bubble"),
        ({"inner": {"tp": (1,)}}, "must be a table with keys of dp, tp_model, tp_ff, pp, ep"),
    ],
)
def test_what_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Space(**fields)


@pytest.mark.parametrize(
    ("text", "degrees"), [(None, None), (8, (8,)), ("8", (8,)), ("4, 8", (4, 8)), ([2, 4], (2, 4))]
)
def test_degrees_as_users_write_them(text, degrees):
    assert parse_degrees(text, "dp") == degrees


@pytest.mark.parametrize("text", ["", "4,", "0", "-2", "x", "2.5", [], [0], [None]])
def test_degrees_that_are_none(text):
    with pytest.raises(InputError, match="The 'dp' must be a whole number of at least 1, or several"):
        parse_degrees(text, "dp")


@pytest.mark.parametrize("seed", range(20))
def test_a_strategy_comes_back_from_its_arrays(seed):
    strategy = cases.large(seed)[2]
    assert Strategy.of(strategy.arrays, (0,)) == strategy
    assert strategy.arrays.devices == strategy.devices


def test_a_strategy_out_of_an_open_grid():
    one = np.ones((1, 1))
    degrees = {axis: [one, one] for axis in AXES} | {
        "dp": [np.array([[2.0], [4.0]]), np.array([[1.0, 3.0, 5.0]])]
    }
    grid = Strategies(degrees=degrees, microbatches=7.0, interleave=one, zero_bubble=np.array([True]))
    found = Strategy.of(grid, (1, 2))
    assert (found.dp, found.layout["dp"], found.devices) == (20, (4, 5), 20)
    assert (found.microbatches, found.schedule) == (7, SCHEDULES[1])


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 100), st.floats(0, 100), st.floats(0, 100)),
        min_size=1,
        max_size=5,
    )
)
def test_the_least_of_a_convex_function(rows):
    low, more, a, b = (np.array(column, dtype=float) for column in zip(*rows, strict=True))

    def value(v):
        return a * v + b / (v + 1.0) + np.maximum(0.0, 30.0 - v)

    found = convex_argmin(value, low, low + more)
    for i in range(len(rows)):
        every = np.arange(low[i], low[i] + more[i] + 1)
        least = (a[i] * every + b[i] / (every + 1.0) + np.maximum(0.0, 30.0 - every)).min()
        assert low[i] <= found[i] <= low[i] + more[i]
        assert value(found)[i] == pytest.approx(least, rel=1e-12, abs=1e-12)
