"""Brute force over a small space: every strategy is listed by plain loops, and every one is priced.

Nothing here is shared with the search but the price of a strategy, `cost.step.parts`, and the rule of
what is allowed, `cost.step.allowed`; both have tests of their own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from scalewall.cost import step
from scalewall.cost.step import AXES, Strategies
from scalewall.hardware.cluster import Cluster
from scalewall.strategy.search import Question

Array = Any
Layout = tuple[tuple[int, ...], ...]
"""For each tier but the last, what each axis has of it."""
Way = tuple[int, int, bool]
"""Micro-batches, chunks a stage, whether zero-bubble."""

PRICED_AT_ONCE = 1 << 14


@attrs.frozen(kw_only=True)
class Table:
    """Every strategy of a space as one row of flat arrays."""

    strategies: Strategies
    group: Array
    devices: Array
    seconds: Array
    allowed: Array

    @property
    def size(self) -> int:
        """How many strategies there are."""
        return len(self.group)


def table(question: Question, most: float = math.inf) -> Table | None:
    """Return all strategies of the question's space, priced; None if none or not below `most`."""
    combinations = list(_combinations(question))
    if not 0 < sum(len(ways) for _, _, ways, _ in combinations) < most:
        return None
    rows = []
    for number, totals, ways, layout in combinations:
        numbers = np.array([(*totals, *way) for way in ways], dtype=float)
        same = np.array(layout, dtype=float).reshape(1, len(layout), len(AXES))
        rows.append((np.full(len(ways), number), numbers, np.repeat(same, len(ways), axis=0)))
    group, numbers, layout = (np.concatenate(part) for part in zip(*rows, strict=True))
    totals, (m, v, zero_bubble) = numbers.T[: len(AXES)], numbers.T[len(AXES) :]
    last = totals / layout.prod(axis=1).T
    strategies = Strategies(
        degrees={axis: [*layout[:, :, i].T, last[i]] for i, axis in enumerate(AXES)},
        microbatches=m,
        interleave=v,
        zero_bubble=zero_bubble.astype(bool),
    )
    seconds, allowed = (np.empty(len(group), dtype=kind) for kind in (float, bool))
    for start in range(0, len(group), PRICED_AT_ONCE):
        some = slice(start, start + PRICED_AT_ONCE)
        few = Strategies(
            degrees={axis: [d[some] for d in strategies.degrees[axis]] for axis in AXES},
            microbatches=m[some],
            interleave=v[some],
            zero_bubble=strategies.zero_bubble[some],
        )
        seconds[some] = step.parts(question.cluster, question.workload, few, question.how).seconds
        allowed[some] = step.allowed(question.cluster, question.workload, few, question.how)
    return Table(
        strategies=strategies, group=group, devices=totals.prod(axis=0), seconds=seconds, allowed=allowed
    )


def best_scores(question: Question, strategies: Table) -> list[float]:
    """Return the best scores of the question's answer, of at most `top` different sets of degrees."""
    n, seconds = strategies.devices, strategies.seconds
    fits = strategies.allowed & (seconds <= question.step_limit) & (n <= question.cluster.capacity)
    if question.objective == "mfu":
        score = n * seconds
        fits = fits & (n <= (question.devices or math.inf))
    elif question.objective == "time":
        score = seconds
        fits = fits & (n == (question.devices or n))
    else:
        score = seconds
        fits = fits & (n <= (question.devices or math.inf))
        fits = fits & (n == n[fits].min(initial=math.inf))
    by_group = np.full(strategies.group.max() + 1, math.inf)
    np.minimum.at(by_group, strategies.group[fits], score[fits])
    return [float(s) for s in np.sort(by_group)[: question.top] if math.isfinite(s)]


def _combinations(question: Question) -> Iterator[tuple[int, tuple[int, ...], list[Way], Layout]]:
    """Yield each set of degrees with its number, under each layout, and in which ways it may run."""
    workload, space = question.workload, question.space
    most = {
        "dp": workload.batch_tokens / workload.sparsity,
        "tp_model": workload.d_model,
        "tp_ff": workload.d_ff,
        "pp": workload.layers,
        "ep": workload.sparsity,
    }
    choices = []
    for axis in AXES:
        fixed = getattr(space, axis)
        wanted = [n for n in range(1, int(most[axis]) + 1) if (n in fixed if fixed else _smooth(n))]
        if axis == "pp" and workload.whole:
            wanted = [n for n in wanted if workload.layers % n == 0]
        choices.append(wanted)
    layouts = [layout for layout in all_layouts(question.cluster) if _obeys(layout, question)]
    divided = [
        {
            total: {at for at, layout in enumerate(layouts) if total % _used(layout, i) == 0}
            for total in totals
        }
        for i, totals in enumerate(choices)
    ]
    ways = {
        (dp, pp): _ways(question, dp, pp)
        for dp, pp in itertools.product(choices[AXES.index("dp")], choices[AXES.index("pp")])
    }
    for number, totals in enumerate(itertools.product(*choices)):
        some = ways[totals[AXES.index("dp")], totals[AXES.index("pp")]]
        if some:
            fits = set.intersection(*(at[total] for at, total in zip(divided, totals, strict=True)))
            for at in sorted(fits):
                yield number, totals, some, layouts[at]


def _used(layout: Layout, axis: int) -> int:
    return math.prod(tier[axis] for tier in layout)


def _ways(question: Question, dp: int, pp: int) -> list[Way]:
    """Return every micro-batch count, interleaving and schedule; whether they fit is not asked yet."""
    workload, space = question.workload, question.space
    counts = range(1, int(workload.batch_tokens / workload.sparsity / dp) + 1)
    chunks = range(1, int(workload.layers / pp) + 1) if pp > 1 else [1]
    ways = []
    for m in counts:
        if space.microbatches not in (None, m):
            continue
        if "1f1b" in space.schedules:
            ways += [(m, v, False) for v in chunks if space.interleave in (None, v)]
        if "zero-bubble" in space.schedules and m >= 2 * pp and space.interleave in (None, 1):
            ways.append((m, 1, True))
    return ways


def _obeys(layout: Layout, question: Question) -> bool:
    inner = question.space.inner
    return all(tier[AXES.index(axis)] == inner[axis][t] for t, tier in enumerate(layout) for axis in inner)


def _smooth(n: int) -> bool:
    for prime in (2, 3):
        while n % prime == 0:
            n //= prime
    return n == 1


def all_layouts(cluster: Cluster) -> list[Layout]:
    """Return every way to give the axes parts of the tiers below the last that divide each tier."""
    return list(itertools.product(*(_parts(int(tier.size)) for tier in cluster.tiers[:-1])))


@functools.cache
def _parts(size: int) -> list[tuple[int, ...]]:
    ways = itertools.product(range(1, size + 1), repeat=len(AXES))
    return [way for way in ways if size % math.prod(way) == 0]
