"""Pipeline parallelism: idle time at its ends, and how often a token crosses a stage's border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any


def idle_microbatches(stages: Array, microbatches: Array, interleave: Array) -> Array:
    """Return the idle time of 1F1B in units of one micro-batch's time on one stage.

    ``(z + p − 1)/v`` with ``z = (v − 1)·max(0, p − m)``, for `p` stages, `m` micro-batches and `v`
    interleaved chunks a stage. As a fraction of the step it is ``(z + p − 1)/(z + p − 1 + v·m)``.

    Source: arXiv 2104.04473 for ``m ≥ p``; arXiv 2411.01137 for fewer micro-batches.
    """
    starved = (interleave - 1.0) * np.maximum(0.0, stages - microbatches)
    return (starved + stages - 1.0) / interleave


def zero_bubble_allowed(stages: Array, microbatches: Array, interleave: Array) -> Array:
    """Return whether the zero-bubble schedule (ZB-H2) leaves no idle time: ``m ≥ 2·p`` and ``v = 1``.

    Source: arXiv 2401.10241.
    """
    return (microbatches >= 2.0 * stages) & (interleave == 1.0)


def crossings(degrees: Sequence[Array], interleave: Array, layers: float) -> list[Array]:
    """Return how many of the ``layers − 1`` interfaces between blocks cross no tier, and how many cross each.

    The pipeline's ``v·p − 1`` borders: ``v·p_top − 1`` at the highest tier it spans, and
    ``v·(p_{t+1} · p_{t+2} · …)·(p_t − 1)`` at each lower one.
    """
    counts: list[Array] = []
    above: Array = 1.0
    spanned: Array = False  # whether a higher tier is spanned already
    for degree in reversed(list(degrees)):
        here = np.greater(degree, 1)
        inner = interleave * above * (degree - 1.0)
        top = interleave * degree - 1.0
        counts.insert(0, np.where(spanned, inner, np.where(here, top, 0.0)))
        above = above * degree
        spanned = np.logical_or(spanned, here)
    inside = layers - 1.0 - sum(counts[1:], counts[0])
    return [inside, *counts]
