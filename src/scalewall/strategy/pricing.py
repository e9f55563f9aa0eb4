"""Exact prices of many strategies at once, each at its best interleaving."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scalewall.cost import block, step
from scalewall.cost.block import Degrees
from scalewall.cost.step import AXES, StepParts, Strategies
from scalewall.strategy.counts import Portion, convex_argmin
from scalewall.strategy.question import Question

Array = Any


def price(
    question: Question, some: Portion, microbatches: Array, layouts: Array, zero_bubble: bool
) -> tuple[Array, Strategies, int]:
    """Return the scores of configurations, each under its layout and at its best interleaving.

    Parameters
    ----------
    question
        What is asked; a score is infinite where a strategy does not fit, or not end in time.
    some, microbatches
        Configurations, and their micro-batches.
    layouts
        Degrees at each tier but the last: configurations, axes, tiers.
    zero_bubble
        The schedule.

    Returns
    -------
    scores, strategies, priced
        Scores and strategies of those whose degrees the layouts divide, flat, and how many
        strategies were priced on the way.

    Notes
    -----
    Over the number of chunks a step falls and then rises: idle time falls with its reciprocal, while
    borders, in bandwidth and in latency, grow along lines. So bisection on the slope finds the best.
    """
    by_axis = {"dp": some.dp, "pp": some.pp} | {
        a: getattr(some.family, a) for a in ("tp_model", "tp_ff", "ep")
    }
    totals = np.stack([by_axis[axis] for axis in AXES], axis=1)
    used = layouts.prod(axis=2)
    fits = np.flatnonzero((totals % used == 0).all(axis=1))
    totals, used, layouts = totals[fits], used[fits], layouts[fits]
    degrees: Degrees = {axis: [*layouts[:, i].T, totals[:, i] / used[:, i]] for i, axis in enumerate(AXES)}
    cluster, w, how = question.cluster, question.workload, question.how
    split = {axis: totals[:, AXES.index(axis)] for axis in ("tp_model", "tp_ff")}
    products = block.multiplications(cluster, w.block, split, how, w.whole)
    priced = 0

    def at(v: Array) -> tuple[Strategies, StepParts]:
        nonlocal priced
        priced += fits.size
        chosen = Strategies(
            degrees=degrees,
            microbatches=microbatches[fits],
            interleave=v,
            zero_bubble=np.full(fits.size, zero_bubble),
        )
        return chosen, step.parts(cluster, w, chosen, how, products)

    v = np.ones(fits.size)
    if not zero_bubble:
        v = convex_argmin(lambda v: at(v)[1].seconds, some.least_v[fits], some.most_v[fits])
    chosen, parts = at(v)
    good = step.allowed(cluster, w, chosen, how) & (parts.seconds <= question.step_limit)
    return np.where(good, question.score(chosen.devices, parts.seconds), math.inf), chosen, priced
