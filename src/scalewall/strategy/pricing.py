"""Exact prices of many strategies at once, each at its best interleaving."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scalewall.cost import step
from scalewall.cost.block import Degrees
from scalewall.cost.step import AXES, StepParts, Strategies
from scalewall.strategy.counts import Counts, convex_argmin
from scalewall.strategy.search import Question

Array = Any


def price(
    question: Question, some: Counts, microbatches: Array, layouts: Array
) -> tuple[Array, Strategies, int]:
    """Return the scores of configurations, each under its layout and at its best interleaving.

    Parameters
    ----------
    question
        What is asked; a score is infinite where a strategy does not fit, or not end in time.
    some, microbatches
        Configurations with their schedules, and their micro-batches.
    layouts
        Degrees at each tier but the last: configurations, axes, tiers.

    Returns
    -------
    scores, strategies, priced
        Scores and strategies of those whose degrees the layouts divide, flat, and how many
        strategies were priced on the way.

    Notes
    -----
    A step is convex in the number of chunks: idle time falls with its reciprocal, while borders, in
    bandwidth and in latency, grow along lines. So bisection on the slope finds the best.
    """
    totals = _totals(some)
    used = layouts.prod(axis=2)
    fits = np.flatnonzero((totals % used == 0).all(axis=1))
    some, microbatches, layouts = some.take(fits), microbatches[fits], layouts[fits]
    degrees: Degrees = {
        axis: [*layouts[:, i].T, totals[fits, i] / used[fits, i]] for i, axis in enumerate(AXES)
    }
    cluster, w, how, here = question.cluster, question.workload, question.how, some.portion
    priced = 0

    def at(v: Array, rows: Array) -> tuple[Strategies, StepParts]:
        nonlocal priced
        priced += rows.size
        chosen = Strategies(
            degrees={axis: [p[rows] for p in degrees[axis]] for axis in AXES},
            microbatches=microbatches[rows],
            interleave=v,
            zero_bubble=some.zero_bubble[rows],
        )
        return chosen, step.parts(cluster, w, chosen, how, here.family.take(rows).products)

    v = np.ones(fits.size)
    interleaved = np.flatnonzero(~some.zero_bubble)
    if interleaved.size:
        least, most = here.least_v[interleaved], here.most_v[interleaved]
        v[interleaved] = convex_argmin(lambda v: at(v, interleaved)[1].seconds, least, most)
    chosen, parts = at(v, np.arange(fits.size))
    good = step.allowed(cluster, w, chosen, how) & (parts.seconds <= question.step_limit)
    return np.where(good, question.score(chosen.devices, parts.seconds), math.inf), chosen, priced


def _totals(some: Counts) -> Array:
    """Return the degrees of configurations over all tiers: configurations, axes (as in `AXES`)."""
    here, family = some.portion, some.portion.family
    tensor = {"tp_model": family.tp_model, "tp_ff": family.tp_ff, "ep": family.ep}
    by_axis = {**tensor, "dp": here.dp, "pp": here.pp}
    return np.stack([by_axis[axis] for axis in AXES], axis=1)
