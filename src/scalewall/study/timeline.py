"""One step, stage by stage: which micro-batch each pipeline stage works on when, and when it waits.

The passes last what `cost.training.stage_passes` gives them, in the order of the schedule; each begins as
soon as its stage is free and what it needs has been passed on. Nothing is priced here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from scalewall.cost.layer import Setting
from scalewall.cost.training import stage_passes, step
from scalewall.strategy.plans import Plan, Question

FORWARD, BACKWARD, WEIGHTS = "forward", "backward", "weight gradients"

MOST_PASSES = 40_000
"""The most passes that are followed; of a step with more, only its first and last micro-batches are."""

Pass = tuple[str, int, int]  # its kind, the stage's chunk, the micro-batch


@attrs.frozen
class Block:
    """A pass of one micro-batch through one chunk of a stage."""

    stage: int
    kind: str
    chunk: int
    micro_batch: int
    start: float
    seconds: float


@attrs.frozen(kw_only=True)
class Timeline:
    """A step's passes, seconds from its beginning, and `ends`: the seconds that follow them, by cause.

    `followed` is of how many of the step's `micro_batches` the passes are; what is left out is the
    steady middle, where every stage does the same over and over. `seconds` is what the step takes.
    """

    stages: int
    chunks: int
    micro_batches: int
    followed: int
    blocks: tuple[Block, ...]
    ends: Mapping[str, float]
    seconds: float

    @property
    def flow(self) -> float:
        """Seconds until the last pass that was followed has ended."""
        return max(block.start + block.seconds for block in self.blocks)

    @property
    def left_out(self) -> float:
        """Seconds of the micro-batches that were not followed: the slowest stage runs them without a wait."""
        busy = [0.0] * self.stages
        for block in self.blocks:
            busy[block.stage] += block.seconds
        return (self.micro_batches / self.followed - 1.0) * max(busy)


def timeline(question: Question, plan: Plan) -> Timeline:
    """Return a step of `plan`, stage by stage."""
    setting = Setting.of(
        question.job,
        question.machine,
        plan.arrays(question.software.sequence_parallel),
        question.practice,
        question.software,
    )
    parts, pp, v = stage_passes(setting), plan.pp, plan.interleave
    places = [0, *[1] * (pp - 2), 2][:pp]
    forward = [float(parts.forward[place]) / v for place in places]
    backward = [float(parts.backward[place]) / v for place in places]
    zero_bubble = plan.schedule == "zero-bubble" and pp > 1
    seconds = {FORWARD: forward, BACKWARD: backward, WEIGHTS: [0.0] * pp}
    if zero_bubble:  # the half of the backward pass that no other stage waits for
        seconds |= {kind: [one / 2.0 for one in backward] for kind in (BACKWARD, WEIGHTS)}
    total = question.job.batch // (plan.dp * plan.micro_batch)
    # Long enough to fill the pipeline, run steadily, and drain it.
    enough = pp * max(4, MOST_PASSES // (2 * v * pp * pp))
    followed = min(total, enough)
    orders = [order(pp, stage, v, followed, zero_bubble=zero_bubble) for stage in range(pp)]
    whole = float(step(setting).seconds)
    jitter = whole * (1.0 - 1.0 / (1.0 + float(parts.straggling)))
    return Timeline(
        stages=pp,
        chunks=v,
        micro_batches=total,
        followed=followed,
        blocks=tuple(follow(orders, seconds, v)),
        ends={**{name: float(value) for name, value in parts.ends.items()}, "straggling": jitter},
        seconds=whole,
    )


def order(pp: int, stage: int, chunks: int, micro_batches: int, *, zero_bubble: bool = False) -> list[Pass]:
    """Return the passes of a stage in the order in which it does them.

    Notes
    -----
    1F1B and interleaving: arXiv 2104.04473, where a stage warms up with ``2·(p − i − 1) + (v − 1)·p``
    passes, ``p − i − 1`` without chunks. Zero bubble: ZB-H2 of arXiv 2401.10241.
    """
    if zero_bubble:
        return _zero_bubble(pp, stage, micro_batches)
    passes = chunks * micro_batches
    ahead = pp - stage - 1 if chunks == 1 else 2 * (pp - stage - 1) + (chunks - 1) * pp
    ahead = min(ahead, passes)

    def nth(kind: str, k: int) -> Pass:
        chunk = k // pp % chunks
        chunk = chunk if kind == FORWARD else chunks - 1 - chunk
        return kind, chunk, (k // (pp * chunks) * pp + k % pp if chunks > 1 else k)

    found = [nth(FORWARD, k) for k in range(ahead)]
    for k in range(passes):
        if ahead + k < passes:
            found.append(nth(FORWARD, ahead + k))
        found.append(nth(BACKWARD, k))
    return found


def _zero_bubble(pp: int, stage: int, micro_batches: int) -> list[Pass]:
    """Return the order of ZB-H2: twice the warm-up, and weight gradients put off at the end."""
    warm, forwards, weights = 2 * (pp - stage) - 1, 0, 0
    found: list[Pass] = []
    for _ in range(min(warm, micro_batches)):
        found.append((FORWARD, 0, forwards))
        forwards += 1
    for k in range(micro_batches):
        found.append((BACKWARD, 0, k))
        left = forwards < micro_batches
        if k < micro_batches - 2 * pp + 1 or not left:
            found.append((WEIGHTS, 0, weights))
            weights += 1
        if left:
            found.append((FORWARD, 0, forwards))
            forwards += 1
    return found + [(WEIGHTS, 0, k) for k in range(weights, micro_batches)]


def follow(orders: list[list[Pass]], seconds: Mapping[str, list[float]], chunks: int) -> list[Block]:
    """Return when each pass runs: each stage in its order, as soon as what a pass needs is there."""
    last = len(orders) - 1
    ended: dict[tuple[int, Pass], float] = {}
    free = [0.0] * len(orders)
    at = [0] * len(orders)
    blocks: list[Block] = []
    moved = True
    while moved:
        moved = False
        for stage, own in enumerate(orders):
            while at[stage] < len(own):
                one = own[at[stage]]
                needed = _needs(stage, one, last, chunks)
                ready = 0.0 if needed is None else ended.get(needed)
                if ready is None:
                    break
                kind, chunk, micro_batch = one
                start, length = max(free[stage], ready), seconds[kind][stage]
                free[stage] = ended[stage, one] = start + length
                blocks.append(Block(stage, kind, chunk, micro_batch, start, length))
                at[stage] += 1
                moved = True
    return blocks


def _needs(stage: int, one: Pass, last: int, chunks: int) -> tuple[int, Pass] | None:
    """Return the pass whose end `one` waits for, if it is one of another stage or kind."""
    kind, chunk, micro_batch = one
    if kind == FORWARD:
        if stage > 0:
            return stage - 1, one
        return (last, (FORWARD, chunk - 1, micro_batch)) if chunk else None
    if kind == WEIGHTS:
        return stage, (BACKWARD, chunk, micro_batch)
    if stage < last:
        return stage + 1, one
    later: tuple[int, Any] = (0, (BACKWARD, chunk + 1, micro_batch))
    return later if chunk < chunks - 1 else (last, (FORWARD, chunk, micro_batch))
