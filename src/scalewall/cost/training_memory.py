"""Bytes that each device holds while it trains a real model, item by item, at the fullest pipeline stage."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from scalewall.cost.layer import WORD, Setting
from scalewall.cost.stages import stage_layers
from scalewall.units import quantity
from scalewall.workload.operators import Attention, Linear, Operator, Pointwise

Array = Any

MEMORY_ITEMS = {
    "weights": "weights as they are multiplied with",
    "gradients": "gradients as they are summed",
    "optimizer": "32-bit weights and both moments",
    "activations": "kept for the backward pass, for all micro-batches under way",
    "working": "one layer's activations while they are recomputed, and gathered weights",
    "logits": "of one micro-batch, and their gradient",
    "buffers": "of communication",
    "framework": "context, libraries and fragmentation",
}


@attrs.frozen(kw_only=True)
class Allowance:
    """Memory that no formula of the model gives."""

    framework: float = quantity(
        "B",
        "context, communication libraries, kernels",
        default=3e9,
        least=0.0,
        open_below=False,
        source="CUDA context and NCCL take 2 to 4 GB on current systems",
    )
    fragmentation: float = quantity(
        "1",
        "share of what is allocated that the allocator cannot use",
        default=0.05,
        least=0.0,
        open_below=False,
        source="PyTorch's caching allocator, reserved over allocated",
    )
    logit: float = quantity(
        "B",
        "a logit: 16 bits, a 32-bit copy, and its gradient",
        default=8.0,
        source="2 + 4 + 2",
    )


STAGES = ("first", "second", "last")
"""Stages that can be the fullest: the first has most micro-batches under way, the last the logits."""


def memory_bytes(setting: Setting, allowance: Allowance | None = None) -> dict[str, Array]:
    """Return the bytes of the fullest stage by `MEMORY_ITEMS`, and under ``stage`` which of `STAGES` it is.

    Notes
    -----
    Activations follow Korthikanti et al. (arXiv 2205.05198), counted operator by operator: what a
    linear layer reads, what a norm or an activation reads, queries, keys, values and the core's
    statistics; without fused attention also the scores. ZeRO shards the optimizer's states from
    stage 1, gradients from stage 2, weights from stage 3 on.
    """
    allowance = allowance or Allowance()
    stages = [_stage(setting, name, allowance) for name in STAGES]
    totals = np.stack(np.broadcast_arrays(*(sum(items.values()) for items in stages)))
    worst = np.argmax(totals, axis=0)
    chosen: dict[str, Array] = {}
    for name in MEMORY_ITEMS:
        values = np.stack(np.broadcast_arrays(*(np.broadcast_to(s[name], totals.shape[1:]) for s in stages)))
        chosen[name] = np.take_along_axis(values, worst[None], axis=0)[0]
    return {**chosen, "stage": worst}


def total_bytes(setting: Setting, allowance: Allowance | None = None) -> Array:
    """Return the bytes that a device of the fullest stage holds."""
    allowance = allowance or Allowance()
    totals = [sum(_stage(setting, name, allowance).values()) for name in STAGES]
    return np.maximum(np.maximum(totals[0], totals[1]), totals[2])


def _stage(setting: Setting, name: str, allowance: Allowance) -> dict[str, Array]:
    """Return the bytes of one stage."""
    job, plans = setting.job, setting.plans
    model = job.model
    layers = dict(zip(STAGES, stage_layers(model.layers, plans.pp, plans.interleave), strict=True))[name]
    single = np.equal(plans.pp, 1)
    parameters = layers * model.layer_parameters + 0.0 * plans.pp
    head = model.head_parameters + (model.embedding_parameters if model.tied else 0)
    if name == "first":
        parameters = np.where(single, model.parameters, parameters + model.embedding_parameters)
    elif name == "last":
        parameters = np.where(single, model.parameters, parameters + head)
    parameters = parameters / plans.tp
    zero, shard = np.asarray(plans.zero), plans.shard
    one = layer_activations(setting)
    kept = plans.recomputed * layer_input(setting) + (1.0 - plans.recomputed) * _unrecomputed(setting, one)
    under_way = in_flight(setting, name)
    logits: Array = 0.0
    if name != "second":
        whole = allowance.logit * setting.tokens * model.vocab / plans.tp
        logits = np.where(single | (name == "last"), whole, 0.0)
    gathered = 2 * WORD * model.layer_parameters / plans.tp
    items = {
        "weights": WORD * parameters / np.where(zero >= 3, shard, 1),
        "gradients": setting.gradient * parameters / np.where(zero >= 2, shard, 1),
        "optimizer": 12.0 * parameters / np.where(zero >= 1, shard, 1),
        "activations": kept * layers * under_way,
        "working": np.where(plans.recomputed > 0, one, 0.0) + np.where(zero >= 3, gathered, 0.0),
        "logits": logits,
        "buffers": 2 * WORD * setting.tokens * model.d_model * np.where(plans.tp > 1, 2.0, 1.0),
    }
    moving = items["activations"] + items["working"] + items["logits"]
    return {**items, "framework": allowance.framework + allowance.fragmentation * moving}


def in_flight(setting: Setting, stage: str) -> Array:
    """Return how many micro-batches a stage holds activations of at once, in whole micro-batches.

    1F1B holds as many as there are stages from it to the end; interleaving holds ``(v − 1)·p +
    2·(p − i − 1) + 1`` chunks of stage `i` (arXiv 2104.04473); zero-bubble (ZB-H2) ``2·(p − i) − 1``
    (arXiv 2401.10241). Never more than the step has.
    """
    plans = setting.plans
    pp, v, m = plans.pp, plans.interleave, plans.microbatches(setting.job.batch)
    index = {"first": 0, "second": np.minimum(1, pp - 1), "last": pp - 1}[stage]
    plain = pp - index
    chunks = ((v - 1) * pp + 2 * (pp - index - 1) + 1) / v
    held = np.where(plans.zero_bubble, 2 * (pp - index) - 1, np.where(v > 1, chunks, plain))
    return np.minimum(held, m)


def layer_input(setting: Setting) -> Array:
    """Return the bytes of what enters a layer."""
    return WORD * setting.tokens * setting.job.model.d_model / setting.between


def layer_activations(setting: Setting) -> Array:
    """Return the bytes a layer keeps of one micro-batch for its backward pass, nothing recomputed."""
    kinds = setting.job.model.blocks()
    layers = setting.job.model.layers
    return sum(count / layers * sum(_kept(setting, op) for op in ops) for count, ops in kinds)


def _kept(setting: Setting, op: Operator) -> Array:
    """Return the bytes that one operator keeps of one micro-batch."""
    tokens, plans, word = setting.tokens, setting.plans, min(WORD, max(1.0, setting.job.recipe.word))
    if isinstance(op, Linear):
        split = plans.tp if op.in_split == "tp" else setting.between
        return word * tokens * op.in_features / split
    if isinstance(op, Pointwise):
        if op.name == "residual":
            # Old kernels drop out what they add, and keep a mask of one byte.
            return 0.0 if setting.software.fused_attention else tokens * op.writes / setting.between
        split = plans.tp if op.split == "tp" else setting.between
        return WORD * tokens * op.reads / split
    if isinstance(op, Attention):
        width = op.heads * op.head_dim + 2 * op.kv_heads * op.head_dim
        inputs = WORD * tokens * width / plans.tp
        if setting.software.fused_attention:
            return inputs + 4.0 * tokens * op.heads / plans.tp
        return inputs + _scores(setting, op)
    return 0.0


def _scores(setting: Setting, op: Attention) -> Array:
    """Return the bytes of unfused scores: softmax's output, dropout's mask and output."""
    return 5.0 * op.heads / setting.plans.tp * setting.tokens * setting.job.sequence


def _unrecomputed(setting: Setting, one: Array) -> Array:
    """Return the bytes a layer keeps that is not recomputed in full: all, or all but what selection drops."""
    software, model = setting.software, setting.job.model
    if software.fused_attention and not software.selective_linear:
        return one
    dropped: Array = 0.0
    for count, ops in model.blocks():
        for op in ops:
            if isinstance(op, Attention) and not software.fused_attention:
                dropped = dropped + count / model.layers * _scores(setting, op)
            elif software.selective_linear and not isinstance(op, Attention):
                share = software.selective_linear if isinstance(op, Linear) else 1.0
                dropped = dropped + count / model.layers * share * _kept(setting, op)
    return np.where(setting.plans.selective, one - dropped, one)
