"""Clusters of several tiers, and switches that reduce in the network."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost import block, collective, step
from scalewall.cost.assumptions import Assumptions
from scalewall.errors import InputError
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.strategy import bounds
from scalewall.strategy.search import Question, search
from scalewall.strategy.space import Space
from scalewall.study.points import best_point
from scalewall.study.scenario import scenario
from tests.strategy import brute, scenarios

degrees = st.lists(st.integers(1, 12), min_size=1, max_size=4)

THREE_TIERS = """\
base = "h100-sxm"
[[tiers]]
name = "domain"
size = 8
bandwidth = "450 GB/s"
latency = "1.125 us"
[[tiers]]
name = "pod"
size = 4
bandwidth = "50 GB/s"
latency = "1.125 us"
in_network_reduction = {reducing}
[[tiers]]
name = "site"
bandwidth = "1 GB/s"
latency = "1 ms"
"""


def three_tiers(folder: Path, reducing: str = "true") -> str:
    path = folder / "three.toml"
    path.write_text(THREE_TIERS.format(reducing=reducing), encoding="utf-8")
    return str(path)


def reducing_at_random(dice: Random, cluster: Cluster) -> Cluster:
    tiers = [attrs.evolve(tier, in_network_reduction=dice.random() < 0.6) for tier in cluster.tiers]
    return attrs.evolve(cluster, tiers=tuple(tiers))


# What a tier carries ---------------------------------------------------------------------------------


@given(degrees, st.data())
def test_what_a_device_has_goes_up_once(p, data):
    reducing = data.draw(st.lists(st.booleans(), min_size=len(p), max_size=len(p)))
    sent = collective.all_reduce_bytes(5.0, p, reducing)
    plain = collective.all_reduce_bytes(5.0, p)
    for t, (here, inside) in enumerate(zip(sent, reducing, strict=True)):
        if inside:
            assert here == pytest.approx(5.0 / math.prod(p[:t]) if p[t] > 1 else 0.0)
            assert here <= plain[t] * (1 + 1e-12)
            assert 2 * here >= plain[t] * (1 - 1e-12)
        else:
            assert here == plain[t]


def test_two_members_gain_nothing_and_many_half():
    assert collective.all_reduce_bytes(1.0, [2], [True]) == collective.all_reduce_bytes(1.0, [2])
    (many,), (plain,) = (collective.all_reduce_bytes(1.0, [10_000], way) for way in ([True], [False]))
    assert many / plain == pytest.approx(0.5, rel=1e-3)


def test_a_step_counts_it_in_tensor_parallelism_and_in_the_reduction():
    """One of the two slow tiers reduces: half its bytes, by hand."""
    w = scenarios.workload(Random(3))
    device = catalogue.load("h100-sxm").device
    plain = Cluster(
        name="slow",
        device=device,
        tiers=(
            Tier(name="a", size=8, bandwidth=1.0, latency=0.0),
            Tier(name="b", bandwidth=2.0, latency=0.0),
        ),
    )
    reducing = attrs.evolve(
        plain, tiers=(attrs.evolve(plain.tiers[0], in_network_reduction=True), plain.tiers[1])
    )
    one, four = np.ones(1), np.full(1, 4.0)
    layout = {axis: [one, one] for axis in step.AXES}
    for axis, share in (("dp", w.parameters), ("tp_ff", w.parameters / 4)):
        strategies = step.Strategies(
            degrees=layout | {axis: [four, one]},
            microbatches=one,
            interleave=one,
            zero_bubble=np.zeros(1, dtype=bool),
        )
        fast, slow = (step.parts(c, w, strategies, Assumptions()) for c in (reducing, plain))
        of = "reduction" if axis == "dp" else "network"
        assert getattr(slow, of) == pytest.approx(1.5 * getattr(fast, of))  # 2·(3/4) against 1
        if axis == "dp":
            assert fast.reduction == pytest.approx(2.0 * share)


# Bounds stay below, and the search stays exact ---------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_bounds_are_below_every_layout(seed):
    dice = Random(seed)
    w = scenarios.workload(dice)
    cluster = reducing_at_random(dice, scenarios.cluster(dice, w))
    tiers, how = cluster.tiers, Assumptions()
    inner = np.cumprod([tier.size for tier in tiers[:-1]])
    for _ in range(20):
        layout = dice.choice(brute.all_layouts(cluster))
        axes = {
            axis: [*(np.array([float(tier[i])]) for tier in layout), np.array([float(dice.randint(1, 9))])]
            for i, axis in enumerate(step.AXES)
        }
        total = {axis: block.total(p) for axis, p in axes.items()}
        if total["tp_model"] > w.d_model or total["tp_ff"] > w.d_ff:
            continue
        reducing = collective.in_network(tiers)
        sent = block.tensor_bytes(w.block, axes, how, w.whole, reducing)
        split = {axis: total[axis] for axis in ("tp_model", "tp_ff")}
        bound = bounds.tensor_seconds(tiers, w, split, how)
        assert bound <= collective.slowest(tiers, sent) * (1 + 1e-12)
        reduced = collective.slowest(tiers, collective.all_reduce_bytes(7.0, axes["dp"], reducing))
        waits = collective.all_reduce_latency(tiers, axes["dp"])
        room = [np.array([float(size)]) for size in inner]
        bound = bounds.reduction_seconds(tiers, 7.0, total["dp"], room, how)
        assert bound <= (reduced + waits) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_what_brute_force_finds(seed):
    """Random small spaces, over one to three tiers of which some reduce."""
    dice = Random(1000 + seed)
    w = scenarios.workload(dice)
    cluster = reducing_at_random(dice, scenarios.cluster(dice, w))
    how = Assumptions(overlap_tensor=dice.random() < 0.6, overlap_data=dice.random() < 0.3)
    asked = Question(cluster=cluster, workload=w, how=how, space=scenarios.space(dice, w, cluster))
    while not 0 < asked.space.size(asked.cluster, asked.workload) < 10_000:
        asked = attrs.evolve(asked, space=scenarios.space(dice, w, cluster))
    every = brute.table(asked)
    if every.allowed.any():
        asked = attrs.evolve(asked, duration=scenarios.duration(dice, w, every))
    assert search(asked).scores == pytest.approx(brute.best_scores(asked, every), rel=1e-9)


def test_the_random_networks_matter():
    """In some of the questions above what reduces binds, or else they would show nothing."""
    changed = 0
    lone = Space(tp_model=(1,), tp_ff=(3, 4), pp=(1,), dp=(3, 4), ep=(1,))
    for seed in range(40):
        dice = Random(1000 + seed)
        w = scenarios.workload(dice)
        cluster = reducing_at_random(dice, scenarios.cluster(dice, w))
        plain = attrs.evolve(
            cluster, tiers=tuple(attrs.evolve(t, in_network_reduction=False) for t in cluster.tiers)
        )
        scores = [
            search(Question(cluster=c, workload=w, how=Assumptions(), space=lone)).scores
            for c in (cluster, plain)
        ]
        for fast, slow in zip(*scores, strict=True):
            assert fast <= slow * (1 + 1e-12)
            changed += fast < slow * (1 - 1e-6)
    assert changed >= 5


# As a file ----------------------------------------------------------------------------------------------


def test_a_file_says_which_tiers_reduce(tmp_path):
    cluster = catalogue.load(three_tiers(tmp_path))
    assert collective.in_network(cluster.tiers) == (False, True, False)


@pytest.mark.parametrize("bad", ["1", '"yes"'])
def test_only_true_and_false_will_do(tmp_path, bad):
    with pytest.raises(InputError, match=r"'tiers\[1\].in_network_reduction' must be true or false"):
        catalogue.load(three_tiers(tmp_path, bad))


def test_three_tiers_are_searched_whole(tmp_path):
    """A tier that adds nothing (as fast as the one below) changes nothing."""
    asked = scenario(hardware=three_tiers(tmp_path, "false"))
    pod, h100 = asked.clusters[0], catalogue.load("h100-sxm")
    assert [t.name for t in pod.tiers] == ["domain", "pod", "site"]
    same = attrs.evolve(pod, tiers=(*pod.tiers[:2], attrs.evolve(pod.tiers[1], name="site", size=math.inf)))
    found = best_point(asked, same, 1e26)
    plain = best_point(asked, h100, 1e26)
    assert found is not None
    assert plain is not None
    assert found.mfu >= plain.mfu * (1 - 1e-9)  # layouts of two tiers are among those of three
    thin = best_point(asked, pod, 1e26)
    assert thin is not None
    assert thin.mfu <= found.mfu
