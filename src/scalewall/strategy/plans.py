"""Plans of a real run that are possible, and the best of them: every one of them is priced.

A plan is possible if its degrees divide what they split: tensor parallelism the heads, context
parallelism the sequence in twice as many chunks, data parallelism and the micro-batch the batch, a
stage's chunks its layers. Recomputation is not searched but solved for: the least that fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost.layer import Setting
from scalewall.cost.machine import Machine
from scalewall.cost.plans import Plans
from scalewall.cost.practice import Practice, Software
from scalewall.cost.training import step_seconds
from scalewall.cost.training_memory import Allowance, least_recomputed, total_bytes
from scalewall.errors import InputError
from scalewall.workload.job import Job

Array = Any

SCHEDULES = ("1f1b", "zero-bubble")
MOST = {"tp": 64, "cp": 64, "pp": 256, "micro_batch": 64}
"""The largest degrees that are searched; larger ones may be fixed."""

_CELLS = 1 << 16  # of a block: a few such arrays fit the cache together


@attrs.frozen(kw_only=True)
class PlanSpace:
    """The plans that a search may choose from: all possible ones, but for what is fixed here.

    `recompute` fixes recomputation, as `recomputation` reads it. `zero` fixes the ZeRO stage (3 is
    FSDP), `shard` over how many ranks it shards.
    """

    tp: tuple[int, ...] | None = None
    cp: tuple[int, ...] | None = None
    dp: tuple[int, ...] | None = None
    pp: tuple[int, ...] | None = None
    interleave: tuple[int, ...] | None = None
    micro_batch: tuple[int, ...] | None = None
    zero: tuple[int, ...] | None = None
    shard: int | None = None
    recompute: str | int | None = None
    schedule: str = "1f1b"


@attrs.frozen(kw_only=True)
class Question:
    """What is trained on which machine, by which software, on how many devices, and what is fixed."""

    job: Job
    machine: Machine
    devices: int
    practice: Practice
    software: Software
    allowance: Allowance
    space: PlanSpace


@attrs.frozen(kw_only=True)
class Plan:
    """One plan, as numbers; `recomputed` is how many of a stage's layers are recomputed in full."""

    tp: int
    cp: int
    dp: int
    pp: int
    interleave: int
    micro_batch: int
    zero: int
    shard: int
    recomputed: float
    selective: bool
    schedule: str

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.tp * self.cp * self.dp * self.pp

    def arrays(self, sequence_parallel: bool) -> Plans:
        """Return the plan as the cost functions take it."""
        return Plans(
            tp=self.tp,
            cp=self.cp,
            dp=self.dp,
            pp=self.pp,
            interleave=self.interleave,
            micro_batch=self.micro_batch,
            zero=self.zero,
            shard=self.shard,
            recomputed=self.recomputed,
            selective=self.selective,
            sequence_parallel=sequence_parallel and self.tp > 1,
            zero_bubble=self.schedule == "zero-bubble",
        )


@attrs.frozen(kw_only=True)
class Found:
    """The best plans with their seconds, how many were priced, and how many of them fit."""

    plans: tuple[Plan, ...]
    seconds: tuple[float, ...]
    priced: int
    fitting: int


def best_plans(question: Question, top: int) -> Found:
    """Return the `top` plans with the shortest step among all that fit; of equal ones the first priced."""
    kept: list[tuple[float, Plan]] = []
    priced = fitting = 0
    for plans, possible in _blocks(question):
        setting = Setting.of(question.job, question.machine, plans, question.practice, question.software)
        share = _recomputed(question, setting)
        plans = attrs.evolve(plans, recomputed=np.where(np.isfinite(share), share, 1.0))
        setting = attrs.evolve(setting, plans=plans)
        seconds = step_seconds(setting)
        fits = possible & np.isfinite(share)
        shape = np.broadcast_shapes(np.shape(seconds), np.shape(fits))
        fits, seconds = np.broadcast_to(fits, shape), np.broadcast_to(seconds, shape)
        priced += int(np.count_nonzero(np.broadcast_to(possible, shape)))
        fitting += int(np.count_nonzero(fits))
        ranked = np.where(fits, seconds, np.inf).ravel()
        for at in _least(ranked, top):
            kept.append((float(ranked[at]), _plan(plans, np.unravel_index(at, shape), shape)))
        kept = sorted(kept, key=lambda pair: pair[0])[:top]
    return Found(
        plans=tuple(plan for _, plan in kept),
        seconds=tuple(seconds for seconds, _ in kept),
        priced=priced,
        fitting=fitting,
    )


def nearest_plan(question: Question) -> Plan | None:
    """Return the possible plan that needs least memory, with all recomputed that may be; None if none is."""
    best: tuple[float, Plan] | None = None
    for plans, exists in _blocks(question):
        fixed = _fixed_share(question, plans)
        plans = attrs.evolve(plans, recomputed=1.0 if fixed is None else fixed)
        setting = Setting.of(question.job, question.machine, plans, question.practice, question.software)
        total = total_bytes(setting, question.allowance)
        shape = np.broadcast_shapes(np.shape(total), np.shape(exists))
        ranked = np.where(np.broadcast_to(exists, shape), np.broadcast_to(total, shape), np.inf)
        at = int(np.argmin(ranked))
        if np.isfinite(ranked.flat[at]) and (best is None or ranked.flat[at] < best[0]):
            best = (float(ranked.flat[at]), _plan(plans, np.unravel_index(at, shape), shape))
    return best[1] if best else None


def _least(values: Array, count: int) -> Array:
    """Return where the `count` least finite values are, the least first, of equal ones the first."""
    most = np.partition(values, count - 1)[count - 1] if count < values.size else np.inf
    at = np.flatnonzero((values <= most) & np.isfinite(values))
    return at[np.argsort(values[at], kind="stable")][:count]


def _plan(plans: Plans, at: tuple[Any, ...], shape: tuple[int, ...]) -> Plan:
    """Return the plan at index `at` of the shape to which `plans` broadcast."""

    def pick(value: Array) -> Any:
        return np.broadcast_to(value, shape)[at]

    names = ("tp", "cp", "dp", "pp", "interleave", "micro_batch", "zero", "shard")
    return Plan(
        **{name: int(pick(getattr(plans, name))) for name in names},
        recomputed=float(pick(plans.recomputed)),
        selective=bool(pick(plans.selective)),
        schedule="zero-bubble" if pick(plans.zero_bubble) else "1f1b",
    )


def _recomputed(question: Question, setting: Setting) -> Array:
    """Return the share of layers recomputed: what is fixed, else the least that fits; inf if none does."""
    least = least_recomputed(setting, question.machine.cluster.device.memory, question.allowance)
    wanted = _fixed_share(question, setting.plans)
    if wanted is None:  # to recompute all is the same plan, whatever would be selected of the rest
        return np.where(setting.plans.selective & np.equal(least, 1.0), np.inf, least)
    return np.where(least <= wanted, wanted, np.inf)


def _fixed_share(question: Question, plans: Plans) -> Array | None:
    """Return the share of layers that are recomputed in full where that is fixed, else None."""
    if question.space.recompute is None:
        return None
    layers, _ = recomputation(question.space.recompute)
    return np.minimum(1.0, layers / np.ceil(question.job.model.layers / plans.pp))


def recomputation(fixed: object) -> tuple[float, bool]:
    """Return how many of a stage's layers are recomputed in full, and whether the others are selectively.

    Parameters
    ----------
    fixed
        ``none``, ``selective``, ``full`` (all layers: infinity), their number, or both as in ``selective+3``.

    Raises
    ------
    InputError
        If it is none of these.
    """
    words = {"none": (0.0, False), "selective": (0.0, True), "full": (math.inf, False)}
    text = str(fixed)
    number = text.removeprefix("selective+")
    if text not in words and not (number.isdecimal() and len(number) < 10):
        must = "none, selective, full, a number of layers of a stage, or both as in selective+3"
        raise InputError("recompute", must, fixed)
    return words.get(text) or (float(number), number != text)


def _blocks(question: Question) -> Iterator[tuple[Plans, Array]]:
    """Yield the space block by block, as plans that broadcast and which of them are possible.

    The axes of a block: pairs of tensor- and context-parallel degrees; pairs of pipeline stages and
    chunks; micro-batches; sharding with selective recomputation. So a layer is priced once for its
    own degrees, and few cells are of plans that cannot be.
    """
    space, software = question.space, question.software
    wide = [
        (tp, cp)
        for tp in candidates(question, "tp")
        for cp in candidates(question, "cp")
        if question.devices % (tp * cp) == 0
    ]
    deep = [(pp, v) for pp in candidates(question, "pp") for v in _chunks(question, pp)]
    kinds = list(_shardings(space, software))
    sizes = _micro_batches(question)
    if not (wide and deep and kinds and sizes):
        return
    pp, v = (np.array(x, dtype=float)[:, None, None] for x in zip(*deep, strict=True))
    micro_batch = np.array(sizes, dtype=float)[:, None]
    zero, inner, selective = (np.array(x) for x in zip(*kinds, strict=True))
    rows = max(1, _CELLS // (len(deep) * len(sizes) * len(kinds)))
    for start in range(0, len(wide), rows):
        tp, cp = (
            np.array(x, dtype=float)[:, None, None, None]
            for x in zip(*wide[start : start + rows], strict=True)
        )
        dp = question.devices / (tp * cp * pp)
        exists = np.equal(dp % 1, 0) & (np.isin(dp, space.dp) if space.dp else True)
        dp = np.where(exists, dp, 1.0)
        copies = dp * cp
        domain = np.maximum(1, question.machine.cluster.tiers[0].size // tp)
        shard = np.where(inner, np.minimum(copies, domain), copies)
        if space.shard:
            shard = np.full_like(shard, space.shard)
        exists = exists & np.equal(copies % shard, 0) & (~inner | ((shard < copies) & (shard > 1)))
        if not space.zero:  # a copy that is alone has nothing to shard over
            exists = exists & ((zero < 2) | (copies > 1))
        plans = Plans(
            tp=tp,
            cp=cp,
            dp=dp,
            pp=pp,
            interleave=v,
            micro_batch=micro_batch,
            zero=zero.astype(float),
            shard=np.where(exists & (zero > 0), shard, 1.0),
            selective=selective,
            sequence_parallel=(tp > 1) & software.sequence_parallel,
            zero_bubble=space.schedule == "zero-bubble",
        )
        yield plans, exists & possible(question.job, plans)


def possible(job: Job, plans: Plans) -> Array:
    """Return which plans exist: whether their degrees divide what they split, and a pipeline can run them."""
    model, pp, v = job.model, plans.pp, plans.interleave
    per_rank = job.batch / plans.dp
    m = plans.microbatches(job.batch)
    whole = np.equal(per_rank % 1, 0) & np.equal(m % 1, 0) & (m >= 1)
    heads = np.equal(model.heads % plans.tp, 0)
    shared = np.equal(model.kv_heads % plans.tp, 0) | np.equal(plans.tp % model.kv_heads, 0)
    tokens = np.equal(plans.cp, 1) | np.equal(job.sequence % (2 * plans.cp), 0)
    chunks = pp * v
    even = np.equal(model.layers % chunks, 0) | np.equal((model.layers + 2) % chunks, 0)
    plain = np.equal(v, 1) & (pp <= model.layers)
    chunked = (v > 1) & (pp > 1) & even & np.equal(m % pp, 0)
    filled = np.logical_not(plans.zero_bubble) | (np.equal(v, 1) & ((m >= 2 * pp) | np.equal(pp, 1)))
    return whole & heads & shared & tokens & (plain | chunked) & filled


def candidates(question: Question, axis: str) -> list[int]:
    """Return the degrees of `axis` that are tried: what is fixed, else all divisors of what it splits."""
    fixed: Sequence[int] | None = getattr(question.space, axis)
    if fixed:
        return list(fixed)
    model, job = question.job.model, question.job
    if axis == "tp":
        return [d for d in divisors(model.heads) if d <= MOST["tp"]]
    if axis == "cp":
        return [d for d in divisors(job.sequence) if d <= MOST["cp"] and question.devices % d == 0]
    return [d for d in divisors(question.devices) if d <= min(MOST["pp"], model.layers)]


def _micro_batches(question: Question) -> list[int]:
    fixed = question.space.micro_batch
    return list(fixed) if fixed else [d for d in divisors(question.job.batch) if d <= MOST["micro_batch"]]


def _chunks(question: Question, pp: int) -> list[int]:
    """Return how many chunks `pp` stages may each have."""
    if question.space.interleave:
        return list(question.space.interleave)
    layers = question.job.model.layers
    if pp == 1 or question.space.schedule != "1f1b":
        return [1]
    return sorted({1, *(v for n in (layers, layers + 2) if n % pp == 0 for v in divisors(n // pp))})


def _shardings(space: PlanSpace, software: Software) -> Iterator[tuple[int, bool, bool]]:
    """Yield ZeRO stages, whether they shard within a domain only, and whether recomputation is selective."""
    if space.recompute is None:
        modes = [False, True] if not software.fused_attention or software.selective_linear > 0 else [False]
    else:
        modes = [recomputation(space.recompute)[1]]
    for zero in space.zero or (1, 2, 3):
        for inner in (False, True) if zero == 3 and not space.shard else (False,):
            for selective in modes:
                yield zero, inner, selective


def divisors(number: int) -> list[int]:
    """Return the divisors of `number`, in order."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def fixed_degrees(space: PlanSpace) -> Mapping[str, tuple[int, ...]]:
    """Return what is fixed, by name."""
    names = ("tp", "cp", "dp", "pp", "interleave", "micro_batch", "zero")
    return {name: getattr(space, name) for name in names if getattr(space, name)}
