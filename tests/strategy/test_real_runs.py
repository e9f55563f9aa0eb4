"""Searches for real runs on devices of the catalogue: nothing near is better, and better hardware is."""

from __future__ import annotations

import itertools
import math

import attrs
import numpy as np
import pytest

from scalewall.cost import step
from scalewall.cost.step import AXES, Strategies
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.search import Question, search
from scalewall.strategy.space import Strategy
from scalewall.workload import grid
from scalewall.workload.scaling import Scaling, Workload
from tests.strategy import brute
from tests.strategy.papers import CURVE
from tests.strategy.test_paper import DURATION, H100, HOW, mfu, run


def ask(name: str, flop: float, sparsity: str = "dense", **fields) -> Question:
    workload = Scaling(sparsity=sparsity).workload(flop)
    asked = {"cluster": catalogue.load(name), "workload": workload, "how": HOW, "duration": DURATION}
    return Question(**asked | fields)


def best_mfu(question: Question) -> float:
    cluster, w, how = question.cluster, question.workload, question.how
    best = search(question).best
    if best is None:
        return 0.0
    return float(step.mfu(cluster, w, best.devices, step.parts(cluster, w, best.arrays, how).seconds, how)[0])


@pytest.mark.parametrize("row", CURVE[::3], ids=lambda row: f"{row.training_flop:.2g}")
def test_at_least_as_good_as_the_papers_space(row):
    """The space holds all that the paper tries, and more."""
    _, papers = run(H100, row.d_model)
    w = attrs.evolve(grid.workload(Scaling(), row.d_model), whole=False)
    question = Question(cluster=H100, workload=w, how=HOW, duration=DURATION)
    assert best_mfu(question) >= mfu(H100, w, papers) >= row.mfu - 6e-5


# Nothing near is better ---------------------------------------------------------------------------------

CHANGES = [1, 2, 3, 4, 1 / 2, 1 / 3, 1 / 4]
RUNS = [
    ("h100-sxm", 1e25, "dense"),
    ("h100-sxm", 1e28, "dense"),
    ("h100-sxm", 1e30, "baseline"),
    ("a100-80gb-sxm", 3e27, "baseline"),
    ("b200", 1e31, "dense"),
]


@pytest.mark.parametrize(("name", "flop", "sparsity"), RUNS)
def test_nothing_near_is_better(name, flop, sparsity):
    """Any two degrees changed by a small factor, all layouts, many counts, schedules and interleavings."""
    question = ask(name, flop, sparsity)
    best = search(question).best
    score = float(step.parts(question.cluster, question.workload, best.arrays, HOW).seconds[0]) * best.devices
    priced = 0
    for degrees in near(best, question.workload):
        scores = all_scores(question, degrees)
        priced += scores.size
        assert scores.min(initial=math.inf) >= score * (1 - 1e-12), degrees
    assert priced > 1000


def near(best: Strategy, w: Workload) -> set[tuple[int, ...]]:
    here = [getattr(best, axis) for axis in AXES]
    found = set()
    for (i, j), one, other in itertools.product(itertools.combinations(range(5), 2), CHANGES, CHANGES):
        degrees = list(here)
        degrees[i], degrees[j] = degrees[i] * one, degrees[j] * other
        if all(d == int(d) >= 1 for d in degrees):
            found.add(tuple(int(d) for d in degrees))
    return found


def all_scores(question: Question, totals: tuple[int, ...]) -> np.ndarray:
    """Scores of all strategies with these degrees, but that counts above 40 are thinned out."""
    w, dp, pp = question.workload, totals[AXES.index("dp")], totals[AXES.index("pp")]
    most = int(w.batch_tokens / (w.sparsity * dp))
    counts = np.unique(np.r_[1:41, np.geomspace(1, max(1, most), 25).astype(int), pp, 2 * pp, 3 * pp, 4 * pp])
    most_v = int(w.layers / pp) if pp > 1 else 1
    chunks = np.unique(np.r_[np.arange(1, min(most_v, 4) + 1), max(1, most_v // 2), max(1, most_v)])
    layouts = np.array([np.array(layout).T for layout in brute.all_layouts(question.cluster)], dtype=float)
    used = layouts.prod(axis=2)
    layouts = layouts[(np.array(totals) % used == 0).all(axis=1)][:, :, :, None, None, None]
    outer = np.array(totals)[None, :, None, None, None] / layouts.prod(axis=2)
    strategies = Strategies(
        degrees={a: [*np.moveaxis(layouts[:, i], 1, 0), outer[:, i]] for i, a in enumerate(AXES)},
        microbatches=counts[None, :, None, None].astype(float),
        interleave=chunks[None, None, :, None].astype(float),
        zero_bubble=np.array([False, True])[None, None, None, :],
    )
    seconds = step.parts(question.cluster, w, strategies, HOW).seconds
    good = step.allowed(question.cluster, w, strategies, HOW) & (seconds <= question.step_limit)
    return (seconds * strategies.devices)[good]


# Better hardware is better ------------------------------------------------------------------------------


def of_device(field: str, most: float = math.inf):
    def change(c: Cluster, k: float) -> Cluster:
        value = min(most, k * getattr(c.device, field))
        return attrs.evolve(c, device=attrs.evolve(c.device, **{field: value}))

    return change


def cache_bandwidth(c: Cluster, k: float) -> Cluster:
    caches = [
        attrs.evolve(
            cache,
            bandwidth=cache.bandwidth and k * cache.bandwidth,
            bytes_per_clock=cache.bytes_per_clock and k * cache.bytes_per_clock,
        )
        for cache in c.device.caches
    ]
    return attrs.evolve(c, device=attrs.evolve(c.device, caches=tuple(caches)))


def bandwidth(at: int):
    def change(c: Cluster, k: float) -> Cluster:
        tiers = list(c.tiers)
        tiers[at] = attrs.evolve(tiers[at], bandwidth=k * tiers[at].bandwidth)
        return attrs.evolve(c, tiers=tuple(tiers))

    return change


def latency(c: Cluster, k: float) -> Cluster:
    return attrs.evolve(c, tiers=tuple(attrs.evolve(t, latency=k * t.latency) for t in c.tiers))


CHANGED = {  # how, and from bad to good
    "memory": (of_device("memory"), (3e-3, 1.0, 1.5)),
    "memory bandwidth": (of_device("memory_bandwidth"), (0.1, 1.0, 1.5)),
    "cache bandwidth": (cache_bandwidth, (0.1, 1.0, 1.5)),
    "sustained share": (of_device("sustained", most=1.0), (0.1, 1.0, 1.5)),
    "scale-up bandwidth": (bandwidth(0), (0.1, 1.0, 1.5)),
    "scale-out bandwidth": (bandwidth(-1), (0.1, 1.0, 1.5)),
    "kernel latency": (of_device("kernel_latency"), (30.0, 1.0, 0.6)),
    "network latency": (latency, (30.0, 1.0, 0.6)),
}
ENTRIES = ["h100-sxm", "v100", "gb200", "a100-80gb-sxm", "mi300x"]
COMPUTE = [(1e25, "dense"), (3e28, "dense"), (1e30, "baseline")]


@pytest.mark.parametrize("what", CHANGED)
def test_better_hardware_is_never_worse(what):
    change, factors = CHANGED[what]
    gained = []
    for name, (flop, sparsity) in itertools.product(ENTRIES[:2], COMPUTE):
        question = ask(name, flop, sparsity)
        found = [best_mfu(attrs.evolve(question, cluster=change(question.cluster, k))) for k in factors]
        for worse, better in itertools.pairwise(found):
            assert worse <= better * (1 + 1e-12), (name, flop, sparsity)
        gained.append(found[-1] > found[0] * (1 + 1e-6))
    assert any(gained)


@pytest.mark.parametrize("name", ENTRIES)
def test_more_time_is_never_worse(name):
    found = [best_mfu(ask(name, 1e30, duration=share * DURATION)) for share in (0.1, 0.3, 1.0, 3.0, math.inf)]
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize("overlap", ["overlap_tensor", "overlap_exchange", "overlap_data"])
def test_more_overlap_is_never_worse(overlap):
    exposed, hidden = (attrs.evolve(HOW, **{overlap: on}) for on in (False, True))
    runs = COMPUTE[:1] if overlap == "overlap_data" else COMPUTE  # the search takes long where that is hidden
    for name, (flop, sparsity) in itertools.product(ENTRIES[:2], runs):
        less, more = (best_mfu(ask(name, flop, sparsity, how=how)) for how in (exposed, hidden))
        assert less <= more * (1 + 1e-12)


@pytest.mark.parametrize("name", ENTRIES)
def test_the_best_with_fewer_choices_is_never_better(name):
    question = ask(name, 3e28)
    free = search(question)
    spaces = [
        attrs.evolve(question.space, schedules=("1f1b",)),
        attrs.evolve(question.space, interleave=1),
        attrs.evolve(question.space, pp=(1, 2, 4, 8, 16, 32)),
        attrs.evolve(question.space, inner={"dp": (1,)}),
    ]
    for space in spaces:
        some = search(attrs.evolve(question, space=space))
        assert not some.scores or some.scores[0] >= free.scores[0] * (1 - 1e-12)


def test_objectives_agree_with_each_other():
    """The fewest devices are no more than those of the highest MFU; and on as many, none is faster."""
    for name, (flop, sparsity) in itertools.product(ENTRIES[:2], COMPUTE):
        question = ask(name, flop, sparsity)
        efficient = search(question)
        fewest = search(attrs.evolve(question, objective="devices"))
        assert bool(efficient.best) == bool(fewest.best)
        if efficient.best and fewest.best:
            assert fewest.best.devices <= efficient.best.devices
            fixed = attrs.evolve(question, objective="time", devices=efficient.best.devices)
            quickest = search(fixed)
            assert quickest.scores[0] * efficient.best.devices == pytest.approx(
                efficient.scores[0], rel=1e-12
            )
