"""The paper's own space gives the paper's own curve, digit by digit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from scalewall.cost import block, step
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.step import AXES
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import paper
from scalewall.strategy.space import Strategy
from scalewall.workload import grid
from scalewall.workload.scaling import Scaling, Workload
from tests.strategy.papers import CURVE

HOW = Assumptions()
DURATION = 0.25 * 3.154e7
H100 = catalogue.load("h100-sxm", "epoch-2024")
WIDTHS = list(itertools.islice(grid.widths(), len(CURVE) + 1))


def run(cluster: Cluster, width: int) -> tuple[Workload, Strategy | None]:
    w = grid.workload(Scaling(), width)
    return w, paper.smallest_cluster(cluster, w, DURATION, HOW)


def step_seconds(cluster: Cluster, w: Workload, strategy: Strategy) -> float:
    return float(step.parts(cluster, w, strategy.arrays, HOW).seconds[0])


def mfu(cluster: Cluster, w: Workload, strategy: Strategy) -> float:
    return float(step.mfu(cluster, w, strategy.devices, step_seconds(cluster, w, strategy), HOW))


def efficient(cluster: Cluster, width: int) -> bool:
    """Whether MFU is at least 80% of the sustained share: below it the linear-scaling limit is passed."""
    w, best = run(cluster, width)
    return best is not None and mfu(cluster, w, best) >= 0.8 * cluster.device.sustained


def test_all_points_of_the_curve_are_here():
    assert len(CURVE) == 31


@pytest.mark.parametrize("row", CURVE, ids=lambda row: f"{row.training_flop:.2g}")
def test_the_papers_curve(row):
    w, best = run(H100, row.d_model)
    assert best is not None
    assert (w.layers, w.batch_tokens) == (row.layers, row.batch_tokens)
    assert best.devices == row.n_gpus
    assert (best.tp_model * best.tp_ff, best.pp, best.dp, best.ep) == (row.tp, row.pp, row.dp, 1)
    assert (best.microbatches, best.interleave) == (row.microbatches, row.interleave)
    assert mfu(H100, w, best) == pytest.approx(row.mfu, abs=6e-5)  # four digits are printed
    months = step_seconds(H100, w, best) * w.steps / (3.154e7 / 12)
    assert months == pytest.approx(row.months, abs=6e-4)


def test_the_next_width_has_no_run_that_ends_in_time():
    assert run(H100, WIDTHS[-1])[1] is None


def test_the_smallest_cluster_is_the_first_that_is_fast_enough():
    w, best = run(H100, WIDTHS[15])
    half = paper.enumerate_strategies(H100, w, best.devices // 2)
    seconds = step.parts(H100, w, half, HOW).seconds[step.allowed(H100, w, half, HOW)]
    assert seconds.min() * w.steps > DURATION >= step_seconds(H100, w, best) * w.steps


KNEE = next(i for i, row in enumerate(CURVE) if row.mfu < 0.8 * 0.7)
"""Where the curve of H100 first falls below 80% of what is sustained: 2.05e28 FLOP."""


def test_the_h100_falls_at_2e28():
    assert CURVE[KNEE].training_flop == pytest.approx(2.05e28, rel=1e-3)


def test_an_a100_falls_later():
    a100 = catalogue.load("a100-40gb-sxm", "epoch-2024")
    assert all(efficient(a100, width) for width in WIDTHS[: KNEE + 1])
    assert not efficient(a100, WIDTHS[KNEE + 1])


def test_a_v100_falls_earlier():
    v100 = catalogue.load("v100", "epoch-2024")
    assert not all(efficient(v100, width) for width in WIDTHS[: KNEE - 1])


def test_what_the_paper_tries():
    """On 512 devices: every power of two, near-square tensor parallelism, few micro-batch counts."""
    w = grid.workload(Scaling(), 12288)
    tried = paper.enumerate_strategies(H100, w, 512)
    degrees = {axis: block.total(tried.degrees[axis]) for axis in AXES}
    ways: dict[tuple[float, float], set[tuple[float, float]]] = {}
    counts: dict[tuple[float, float], set[tuple[float, float, bool]]] = {}
    for i in range(len(tried.microbatches)):
        dp, model, ff, pp, ep = (degrees[axis][i][np.isfinite(degrees[axis][i])][0] for axis in AXES)
        assert dp * model * ff * pp * ep == 512
        ways.setdefault((dp, pp), set()).add((model, ff))
        schedule = tried.microbatches[i, 0], tried.interleave[i, 0], tried.zero_bubble[i, 0]
        counts.setdefault((dp, pp), set()).add(schedule)
    # From isqrt(tp) to four times that.
    assert ways[1, 8] == {(8, 8), (4, 16), (2, 32)}
    assert ways[1, 64] == {(4, 2), (2, 4), (1, 8)}
    assert ways[1, 16] == {(4, 8), (2, 16)}  # isqrt(32) is 5
    # The four least that divide the batch of 7 · 2^20 and fill the pipeline, and one for zero-bubble.
    assert counts[1, 8] == {*((m, 24.0, False) for m in (8, 14, 16, 28)), (16, 1.0, True)}
    assert counts[512, 1] == {*((m, 1.0, False) for m in (1, 2, 4, 7)), (2, 1.0, True)}
    layouts = {tuple(float(tried.degrees[axis][0][0, j]) for axis in AXES) for j in range(35)}
    assert layouts == {way for way in itertools.product((1, 2, 4, 8), repeat=5) if math.prod(way) == 8}


def test_sparse_models_use_every_expert():
    w = grid.workload(Scaling(sparsity="baseline"), 24576)
    best = paper.smallest_cluster(H100, w, DURATION, HOW)
    assert w.sparsity == 16
    assert best.devices % 16 == 0
    assert best.ep == 16
