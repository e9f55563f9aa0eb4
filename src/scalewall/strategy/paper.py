"""The space of arXiv 2411.01137, no more and no less: it makes the paper's saw-toothed curve.

Clusters of ``2^k · S`` devices, the first on which a run ends in time; every power of two for the
degrees with ``ep = gcd(n, S)``; `tp_ff` between ``isqrt(tp)`` and ``4 · isqrt(tp)``; one block a
chunk; the four smallest micro-batch counts that divide the batch and fill the pipeline, or under
zero-bubble the smallest that allows it; every layout of a full scale-up domain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from scalewall.cost import step
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.step import AXES, Strategies
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.space import Strategy, divisors, factorisations
from scalewall.workload.scaling import Workload

MICROBATCH_COUNTS = 4
TP_FF_SPAN = 4

# dp, tp_model, tp_ff, pp, ep, micro-batches, interleave, whether zero-bubble
Row = tuple[int, int, int, int, int, int, int, bool]


def smallest_cluster(
    cluster: Cluster, workload: Workload, duration: float, how: Assumptions
) -> Strategy | None:
    """Return the fastest strategy on the smallest of the paper's clusters that ends in `duration` seconds.

    Returns None where no cluster does.
    """
    rate = cluster.device.sustained_rate(how.precision)
    least = workload.training_flop / (rate * duration * workload.sparsity)
    most = workload.d_model * workload.d_ff * workload.layers * workload.batch_tokens
    for k in range(max(0, math.ceil(math.log2(least) - 1e-9)), math.floor(math.log2(most)) + 1):
        devices = 2**k * int(workload.sparsity)
        strategies = enumerate_strategies(cluster, workload, devices)
        if strategies is None:
            continue
        seconds = step.parts(cluster, workload, strategies, how).seconds
        seconds = np.where(step.allowed(cluster, workload, strategies, how), seconds, np.inf)
        best = int(np.argmin(seconds))
        if seconds.ravel()[best] * workload.steps <= duration:
            return Strategy.of(strategies, divmod(best, seconds.shape[1]))
    return None


def enumerate_strategies(cluster: Cluster, workload: Workload, devices: int) -> Strategies | None:
    """Return the paper's strategies on `devices` devices: rows of degrees by columns of layouts.

    A layout that does not divide a row's degrees gives a degree of NaN, which compares as not
    allowed. Returns None where there are none.
    """
    rows = np.array(list(_rows(workload, devices)), dtype=float)
    if not len(rows):
        return None
    totals = dict(zip(AXES, rows.T[: len(AXES), :, None], strict=True))
    size = math.gcd(int(cluster.tiers[0].size), devices) if len(cluster.tiers) > 1 else 1
    inner = np.array(factorisations(size, len(AXES)), dtype=float).T[:, None, :]
    degrees: dict[str, list[Any]] = {}
    for axis, within in zip(AXES, inner, strict=True):
        if len(cluster.tiers) == 1:
            degrees[axis] = [totals[axis]]
            continue
        outer = totals[axis] / within
        degrees[axis] = [within, np.where(outer == np.floor(outer), outer, np.nan)]
        degrees[axis] += [np.ones((1, 1))] * (len(cluster.tiers) - 2)
    m, v, zero_bubble = rows.T[len(AXES) :, :, None]
    return Strategies(degrees=degrees, microbatches=m, interleave=v, zero_bubble=zero_bubble.astype(bool))


def _rows(workload: Workload, devices: int) -> Iterator[Row]:
    layers, sparsity = int(workload.layers), int(workload.sparsity)
    ep = math.gcd(devices, sparsity)
    tokens = int(workload.batch_tokens) // sparsity
    rest = devices // ep
    powers = [2**i for i in range(rest.bit_length()) if rest % 2**i == 0]
    for pp, dp in itertools.product(powers, powers):
        if layers % pp or tokens % dp or rest % (pp * dp):
            continue
        tp = rest // (pp * dp)
        counts = [m for m in divisors(tokens // dp) if m >= pp]
        schedules = [(m, layers // pp if pp > 1 else 1, False) for m in counts[:MICROBATCH_COUNTS]]
        schedules += [(m, 1, True) for m in counts if m >= 2 * pp][:1]
        root = math.isqrt(tp)
        for tp_ff in (2**i for i in range(tp.bit_length())):
            fits = tp_ff <= workload.d_ff and tp // tp_ff <= workload.d_model
            if fits and root <= tp_ff <= TP_FF_SPAN * root:
                for m, v, zero_bubble in schedules:
                    yield dp, tp // tp_ff, tp_ff, pp, ep, m, v, zero_bubble
