"""Exact prices of many strategies at once, each at its best interleaving."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scalewall.cost import block, step
from scalewall.cost.step import AXES, StepParts, Strategies
from scalewall.strategy.search import Question

Array = Any


def price(
    question: Question,
    totals: Mapping[str, Array],
    microbatches: Array,
    chunks: tuple[Array, Array],
    layouts: Array,
    zero_bubble: bool,
) -> tuple[Array, Strategies, int]:
    """Return the scores of configurations under every layout, at the best interleaving of each.

    Parameters
    ----------
    question
        What is asked; a score is infinite where a strategy does not fit, or not end in time.
    totals, microbatches
        Degrees by axis and micro-batches, one a configuration.
    chunks
        The least and the most chunks a stage, one a configuration.
    layouts
        Degrees at each tier but the last: layouts, axes, tiers.
    zero_bubble
        The schedule.

    Returns
    -------
    scores, strategies, priced
        Scores with the shape (configurations, layouts), the strategies that broadcast to it, and how
        many were priced on the way.

    Notes
    -----
    A step is convex in the number of chunks: idle time falls with its reciprocal, while borders, in
    bandwidth and in latency, grow along lines. So bisection on the slope finds the best.
    """
    cluster, w, how = question.cluster, question.workload, question.how
    degrees = _degrees(totals, layouts)
    split = {axis: totals[axis][:, None] for axis in ("tp_model", "tp_ff")}
    products = block.multiplications(cluster, w.block, split, how, w.whole)
    shape = (microbatches.size, len(layouts))
    priced = 0

    def at(v: Array) -> tuple[Strategies, StepParts]:
        nonlocal priced
        priced += math.prod(shape)
        chosen = Strategies(
            degrees=degrees,
            microbatches=microbatches[:, None],
            interleave=v,
            zero_bubble=np.full((1, 1), zero_bubble),
        )
        return chosen, step.parts(cluster, w, chosen, how, products)

    least, most = (np.broadcast_to(end[:, None], shape) for end in chunks)
    v = convex_argmin(lambda v: np.broadcast_to(at(v)[1].seconds, shape), least, most)
    chosen, parts = at(v)
    fits = step.allowed(cluster, w, chosen, how) & (parts.seconds <= question.step_limit)
    score = np.where(fits, question.score(chosen.devices, parts.seconds), math.inf)
    return np.broadcast_to(score, shape), chosen, priced


def _degrees(totals: Mapping[str, Array], layouts: Array) -> dict[str, list[Array]]:
    """Return degrees by axis and tier; NaN, which compares as not allowed, where a layout does not divide."""
    degrees = {}
    for i, axis in enumerate(AXES):
        outer = totals[axis][:, None] / layouts[:, i].prod(axis=1)
        whole = np.where(outer == np.floor(outer), outer, np.nan)
        degrees[axis] = [*(inner[None] for inner in layouts[:, i].T), whole]
    return degrees


def convex_argmin(value: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the whole numbers between `low` and `high` at which a convex `value` is least, elementwise."""
    low, high = np.array(low, dtype=float), np.array(np.maximum(low, high), dtype=float)
    while (low < high).any():
        middle = np.floor((low + high) / 2.0)
        rising = ~(value(np.minimum(middle + 1.0, high)) < value(middle))
        high = np.where(rising, middle, high)
        low = np.where(rising, low, np.minimum(middle + 1.0, high))
    return low
