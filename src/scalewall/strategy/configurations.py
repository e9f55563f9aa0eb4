"""Configurations, families with `pp` and `dp`: bounds over micro-batches, interleaving and layouts."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from scalewall.strategy import bounds
from scalewall.strategy.best import SLACK
from scalewall.strategy.bounds import Families
from scalewall.strategy.counts import Portion
from scalewall.strategy.question import Question

Array = Any


@attrs.frozen(kw_only=True)
class Configurations:
    """Families with `pp`, `dp` and a schedule, as flat arrays, and bounds on each one's step and score."""

    family: Array
    pp: Array
    dp: Array
    zero_bubble: Array
    seconds: Array
    score: Array

    def take(self, at: Array) -> Configurations:
        """Return the configurations at the indices `at`."""
        return Configurations(**{f.name: getattr(self, f.name)[at] for f in attrs.fields(Configurations)})


@attrs.frozen(kw_only=True)
class Bound:
    """Some families with `pp` and `dp`: configurations under 1F1B, then zero-bubble, and bounds on them.

    Attributes
    ----------
    configurations
        Under both schedules, each with bounds of its own.
    seconds
        At least a step's seconds under the better schedule.
    inside
        At least the seconds of blocks and latency under each schedule, but for what crosses borders;
        infinite where there are too few micro-batches for it.
    reduction
        At least the seconds of the data-parallel reduction.
    """

    configurations: Configurations
    seconds: Array
    inside: Array
    reduction: Array


def bound(question: Question, family: Families, at: Array, pp: Array, dp: Array) -> Bound:
    """Return the families at the indices `at` with `pp` and `dp` under both schedules, and bounds on them.

    1F1B's counts are cut at ``pp/2`` and `pp`, see `bounds.one_f_one_b`: blocks fall with the
    count, and from `pp` on ``m · block`` rises, so each piece is bounded by its ends.
    """
    here = Portion(question, family.take(at), pp, dp)
    v = here.least_v, here.most_v
    low, high = here.first_1f1b, np.maximum(here.first_1f1b, here.last_1f1b)
    half, full = np.clip(pp / 2.0, low, high), np.clip(pp, low, high)
    at_half, at_full, at_end = here.stage(half), here.stage(full), here.stage(high)
    pieces = [
        np.where(from_ < pp, bounds.one_f_one_b(pp, from_, busy, busy, here.chunk_wait, *v), math.inf)
        for from_, busy in ((low, at_half), (half, at_full))
    ]
    tail = bounds.one_f_one_b(pp, full, at_full, at_end, here.chunk_wait, *v)
    free = np.minimum(np.minimum(*pieces), np.where(high >= pp, tail, math.inf)) + here.wait
    filled = here.first_zero_bubble * here.stage(here.first_zero_bubble)
    inside = [
        np.where(low <= here.last_1f1b, free, math.inf),
        np.where(here.first_zero_bubble <= here.last_zero_bubble, filled, math.inf),
    ]
    both = [
        np.maximum(seconds + here.reduction, here.beyond(seconds, one_f_one_b))
        for seconds, one_f_one_b in zip(inside, (True, False), strict=True)
    ]
    limit = question.step_limit * SLACK
    scores = [np.where(s <= limit, question.score(here.devices, s), math.inf) for s in both]
    twice = {"family": np.tile(at, 2), "pp": np.tile(pp, 2), "dp": np.tile(dp, 2)}
    return Bound(
        configurations=Configurations(
            **twice,
            zero_bubble=np.repeat([False, True], at.size),
            seconds=np.concatenate(both),
            score=np.concatenate(scores),
        ),
        seconds=np.minimum(*both),
        inside=np.array(inside),
        reduction=here.reduction,
    )
