"""Collectives: what tiers carry together, and which peers are where, counted one by one."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost import collective
from scalewall.hardware.cluster import Tier

degrees = st.lists(st.integers(1, 12), min_size=1, max_size=4)
small_degrees = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def tier(bandwidth: float = 1.0, latency: float = 0.0) -> Tier:
    return Tier(name="tier", bandwidth=bandwidth, latency=latency)


@given(st.floats(1, 1e12), st.integers(1, 10_000))
def test_a_flat_all_reduce(size, p):
    (sent,) = collective.all_reduce_bytes(size, [p])
    assert sent == pytest.approx(2 * (p - 1) / p * size, rel=1e-14)


@given(degrees)
def test_bytes_beyond_a_tier(p):
    """With `l` members within, what crosses further out is ``2·s·(1/l − 1/p)`` in all."""
    sent = collective.all_reduce_bytes(1.0, p)
    for t in range(len(p) + 1):
        within = math.prod(p[:t])
        assert sum(sent[t:]) == pytest.approx(2 * (1 / within - 1 / math.prod(p)), rel=1e-12, abs=1e-15)


@given(degrees, st.data())
def test_tiers_without_members_carry_nothing(p, data):
    at = data.draw(st.integers(0, len(p)))
    sent = collective.all_reduce_bytes(1.0, [*p[:at], 1, *p[at:]])
    assert sent.pop(at) == 0
    assert sent == collective.all_reduce_bytes(1.0, p)


@given(degrees, st.data())
def test_switches_that_reduce_carry_what_is_left_once(p, data):
    reducing = data.draw(st.lists(st.booleans(), min_size=len(p), max_size=len(p)))
    plain = collective.all_reduce_bytes(1.0, p)
    sent = collective.all_reduce_bytes(1.0, p, reducing)
    for t, n in enumerate(p):
        once = (n > 1) / math.prod(p[:t])
        assert sent[t] == pytest.approx(once if reducing[t] else plain[t], rel=1e-14)
        assert plain[t] / 2 <= sent[t] <= plain[t] * (1 + 1e-14)


@given(degrees)
def test_halves(p):
    """A reduce-scatter and an all-gather are an all-reduce."""
    halves = collective.half_all_reduce_bytes(3.0, p)
    assert [2 * half for half in halves] == pytest.approx(collective.all_reduce_bytes(3.0, p))


@given(small_degrees)
def test_peers_counted_one_by_one(p):
    """The tier that leads to a peer is the highest in which its place differs from one's own."""
    counts = [0] * (len(p) + 1)
    for place in itertools.product(*(range(n) for n in p)):
        counts[max((t + 1 for t, i in enumerate(place) if i), default=0)] += 1
    shares = collective.peer_shares(p)
    assert shares == pytest.approx([count / math.prod(p) for count in counts], abs=1e-15)
    assert sum(shares) == pytest.approx(1.0, rel=1e-14)


@given(degrees)
def test_an_all_to_all_keeps_ones_own_share(p):
    sent = collective.all_to_all_bytes(5.0, p)
    assert sum(sent) == pytest.approx(5.0 * (1 - 1 / math.prod(p)), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("p", "latency"), [([1, 1, 1], 0), ([2, 1, 1], 2), ([1, 4, 1], 20), ([2, 2, 2], 222), ([1, 9, 3], 220)]
)
def test_two_latencies_a_tier_with_members(p, latency):
    tiers = [tier(latency=1.0), tier(latency=10.0), tier(latency=100.0)]
    assert collective.all_reduce_latency(tiers, p) == latency


def test_the_slowest_tier_counts():
    tiers = [tier(4.0), tier(2.0), tier(math.inf)]
    assert collective.slowest(tiers, [8.0, 2.0, 1e30]) == 2.0
    assert collective.slowest(tiers, [8.0, 6.0, 1e30]) == 3.0
    assert collective.slowest(tiers[2:], [1.0]) == 0.0
