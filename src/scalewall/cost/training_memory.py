"""Bytes that each device holds while it trains a real model, item by item, at the fullest pipeline stage.

A stage is fullest when the backward pass of a micro-batch starts: in the loss, where there is one, or
in the last of its layers. What is held at both moments is counted once, the rest where it is more.
"""

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
    "working": "gradients of a layer's weights before they are summed, gathered weights; and where the stage "
    "is fullest in a layer, what that recomputes and the gradients of its activations",
    "logits": "where the stage is fullest in the loss: of one micro-batch, what the loss makes of them, and "
    "the output matrix's gradient",
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
        most=1e15,
        least=0.0,
        open_below=False,
        source="CUDA context and NCCL take 2 to 4 GB on current systems; the context alone 1.6 GB on an A100 "
        "(bigscience-workshop/bigscience, tr11-176B, chronicles-prequel)",
    )
    fragmentation: float = quantity(
        "1",
        "share of what is allocated that the allocator cannot use",
        default=0.05,
        most=1e3,
        least=0.0,
        open_below=False,
        source="PyTorch's caching allocator, peaks reserved over allocated: 66.8/63.4, 54.6/50.7 and "
        "84.7/84.0 GB in public logs of Megatron-LM and Megatron-DeepSpeed",
    )
    logit: float = quantity(
        "B",
        "a logit, and its gradient, of 16 bits each",
        default=4.0,
        most=1e6,
        source="2 + 2, Transformer Engine's fused loss, as SimuMax's readings confirm. Megatron-LM's own "
        "loss has a 32-bit softmax, 6.1 measured, and 10.1 fused by it (NovaSky-AI/SkyRL pull request 1841)",
    )
    plain_logit: float = quantity(
        "B",
        "the same where the loss is not fused: 32-bit log-softmax, and two gradients of its size",
        default=12.0,
        most=1e6,
        source="4 + 4 + 4, PyTorch's cross-entropy of 32-bit logits (torch.nn.functional)",
    )


STAGES = ("first", "second", "last")
"""Stages that can be the fullest: the first has most micro-batches under way, the last the logits."""


@attrs.frozen(kw_only=True)
class _Common:
    """What all stages have in common, in bytes.

    `parameter`: of one parameter's weight, gradient and optimizer. `kept` and `entering`: what a layer
    keeps of a micro-batch, and what enters it. `working` and `fully`: what a layer's backward pass
    takes besides, as planned and where it recomputes all. `loss`: what the loss takes. `matrix`: of the
    output matrix in 16 bits. `held`: in `working` whatever the stage is doing.
    """

    parameter: dict[str, Array]
    kept: Array
    entering: Array
    working: Array
    fully: Array
    loss: Array
    matrix: Array
    held: Array
    buffers: Array


def memory_bytes(setting: Setting, allowance: Allowance | None = None) -> dict[str, Array]:
    """Return the bytes of the fullest stage by `MEMORY_ITEMS`, and under ``stage`` which of `STAGES` it is.

    Notes
    -----
    Activations follow Korthikanti et al. (arXiv 2205.05198), counted operator by operator: what a
    linear layer reads, what a norm or an activation reads, queries, keys, values and the core's
    statistics; without fused attention also the scores. ZeRO shards the optimizer's states from
    stage 1, gradients from stage 2, weights from stage 3 on (arXiv 1910.02054).
    """
    stages = list(stage_bytes(setting, allowance).values())
    totals = np.stack(np.broadcast_arrays(*(sum(items.values()) for items in stages)))
    worst = np.argmax(totals, axis=0)
    chosen: dict[str, Array] = {}
    for name in MEMORY_ITEMS:
        values = np.stack([np.broadcast_to(items[name], totals.shape[1:]) for items in stages])
        chosen[name] = np.take_along_axis(values, worst[None], axis=0)[0]
    return {**chosen, "stage": worst}


def stage_bytes(setting: Setting, allowance: Allowance | None = None) -> dict[str, dict[str, Array]]:
    """Return for each of `STAGES` the bytes of a device by `MEMORY_ITEMS`.

    With one pipeline stage the first and the last are both the whole model; with fewer than three
    there is none between, and the second is without layers.
    """
    allowance = allowance or Allowance()
    common = _common(setting, allowance)
    return {name: _stage(setting, common, name, allowance) for name in STAGES}


def total_bytes(setting: Setting, allowance: Allowance | None = None) -> Array:
    """Return the bytes that a device of the fullest stage holds."""
    totals = [sum(items.values()) for items in stage_bytes(setting, allowance).values()]
    return np.maximum(np.maximum(totals[0], totals[1]), totals[2])


def least_recomputed(setting: Setting, capacity: float, allowance: Allowance | None = None) -> Array:
    """Return the least share of layers that must be recomputed in full for a device to hold `capacity` bytes.

    The share is of whole layers of a stage, of which there are ``⌈layers/pp⌉``; it is inf where not
    even recomputing all of them is enough. What the plans say of it is not looked at.
    """
    allowance = allowance or Allowance()
    one = _common(attrs.evolve(setting, plans=attrs.evolve(setting.plans, recomputed=0.0)), allowance)
    layers = np.ceil(setting.job.model.layers / setting.plans.pp)
    share: Array = 0.0
    for name in STAGES:
        none = sum(_stage(setting, one, name, allowance).values())
        # Recomputing any layer takes room to do so; from there on bytes fall evenly with the share.
        loss = np.where(_is_last(setting, name), one.loss, 0.0)
        more = np.maximum(loss, one.fully) - np.maximum(loss, one.working)
        most = none + (1.0 + allowance.fragmentation) * more
        saved = (1.0 + allowance.fragmentation) * (one.kept - one.entering) * _count(setting, name)
        wanted = np.ceil((most - capacity) / np.maximum(saved, 1.0) * layers - 1e-9)
        wanted = np.where(most - saved <= capacity, np.maximum(wanted, 1.0) / layers, np.inf)
        share = np.maximum(share, np.where(none <= capacity, 0.0, wanted))
    return share


def _common(setting: Setting, allowance: Allowance) -> _Common:
    """Return what all stages have in common."""
    plans, model, zero = setting.plans, setting.job.model, np.asarray(setting.plans.zero)
    one, entering, gradients = layer_activations(setting), layer_input(setting), _gradients(setting)
    kept = _unrecomputed(setting, one)
    selected = np.where(plans.selective, one - kept, 0.0)
    # Transformer Engine keeps a 16-bit gradient of each shape of weights; others have it in passing.
    # ZeRO has it once more as it is summed, and the gathered weights of this layer and the next.
    weights = model.layer_parameters / plans.tp
    held = WORD + np.where(zero >= 2, setting.gradient, 0.0) + np.where(zero >= 3, 2 * WORD, 0.0)
    matrix = WORD * (model.vocab * model.table_width) / plans.tp
    logit = allowance.logit if setting.software.fused_loss else allowance.plain_logit
    width = WORD * setting.tokens * model.d_model
    return _Common(
        parameter={
            "weights": WORD / np.where(zero >= 3, plans.shard, 1),
            "gradients": setting.gradient / np.where(zero >= 2, plans.shard, 1),
            "optimizer": 12.0 / np.where(zero >= 1, plans.shard, 1),
        },
        kept=plans.recomputed * entering + (1.0 - plans.recomputed) * kept,
        entering=entering,
        working=gradients + np.where(plans.recomputed > 0, one, selected),
        fully=gradients + one,
        loss=logit * setting.tokens * model.vocab / plans.tp + matrix,
        matrix=matrix,
        held=held * weights,
        # Gathered inputs of a linear layer and their gradient; what is received from other stages.
        buffers=np.where(plans.tp > 1, 2 * width, 0.0) + np.where(plans.pp > 1, 2 * entering, 0.0),
    )


def _is_last(setting: Setting, name: str) -> Array:
    """Return whether a stage has the loss."""
    return np.equal(setting.plans.pp, 1) | (name == "last")


def _stage(setting: Setting, one: _Common, name: str, allowance: Allowance) -> dict[str, Array]:
    """Return the bytes of one stage by `MEMORY_ITEMS`."""
    plans, model = setting.plans, setting.job.model
    single, last = np.equal(plans.pp, 1), _is_last(setting, name)
    first = single | (name == "first")
    # Where the stages with the embedding and the output matrix differ, each has a tied one.
    table = model.vocab * model.table_width
    head = model.head_parameters + np.where(single | (not model.tied), 0, table)
    ends = np.where(first, model.embedding_parameters, 0) + np.where(last, head, 0)
    parameters = (_layers(setting, name) * model.layer_parameters + ends) / plans.tp
    loss = np.where(last, one.loss, 0.0)
    in_loss = loss > one.working
    # The final norm keeps what it reads, the output matrix what that gives.
    activations = one.kept * _count(setting, name) + np.where(last, 2 * one.entering, 0.0)
    if not setting.software.fused_attention:
        # The embedding's dropout keeps a mask of one byte.
        masks = one.entering / WORD * in_flight(setting, name)
        activations = activations + np.where(first, masks, 0.0)
    gathered = np.where(last & np.greater_equal(plans.zero, 3), one.matrix, 0.0)
    items = {
        **{part: size * parameters for part, size in one.parameter.items()},
        "activations": activations,
        "working": one.held + gathered + np.where(in_loss, 0.0, one.working),
        "logits": np.where(in_loss, loss, 0.0),
        "buffers": one.buffers,
    }
    moving = items["activations"] + items["working"] + items["logits"]
    return {**items, "framework": allowance.framework + allowance.fragmentation * moving}


def _layers(setting: Setting, name: str) -> Array:
    """Return the layers of a stage; none of a second one that is not between others."""
    plans = setting.plans
    first, middle, last = stage_layers(setting.job.model.layers, plans.pp, plans.interleave)
    return {"first": first, "second": np.where(plans.pp > 2, middle, 0), "last": last}[name]


def _count(setting: Setting, name: str) -> Array:
    """Return of how many layers and micro-batches a stage keeps activations."""
    return _layers(setting, name) * in_flight(setting, name)


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
    return _mean(setting, _kept)


def _mean(setting: Setting, of: Any) -> Array:
    """Return the sum of ``of(setting, operator)`` over a layer's operators, the mean of its kinds."""
    model = setting.job.model
    return sum(count / model.layers * of(setting, op) for count, ops in model.blocks() for op in ops)


def _kept(setting: Setting, op: Operator) -> Array:
    """Return the bytes that one operator keeps of one micro-batch."""
    tokens, plans, word = setting.tokens, setting.plans, min(WORD, setting.job.recipe.word)
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
        if not setting.software.fused_attention:
            return inputs + _scores(setting, op)
        if word == WORD:  # its output is what the next linear layer keeps
            return inputs + 4.0 * tokens * op.heads / plans.tp
        return inputs + _core_output(setting, op)
    return 0.0


def _core_output(setting: Setting, op: Attention) -> Array:
    """Return the bytes of a fused core's output and of its 32-bit statistics."""
    return (WORD * op.head_dim + 4.0) * setting.tokens * op.heads / setting.plans.tp


def _scores(setting: Setting, op: Attention) -> Array:
    """Return the bytes of unfused scores: softmax's output, dropout's mask and output."""
    return 5.0 * op.heads / setting.plans.tp * setting.tokens * setting.job.sequence


def _unrecomputed(setting: Setting, one: Array) -> Array:
    """Return the bytes a layer keeps that is not recomputed in full: all, or all but what selection drops."""
    if setting.software.selective_linear:
        kept = layer_input(setting) + _mean(setting, _selected)
    elif setting.software.fused_attention:
        return one
    else:
        kept = one - _mean(setting, lambda s, op: _scores(s, op) if isinstance(op, Attention) else 0.0)
    return np.where(setting.plans.selective, kept, one)


def _selected(setting: Setting, op: Operator) -> Array:
    """Return the bytes that selection by operators keeps of one: outputs of cores and of some matmuls."""
    if isinstance(op, Attention):
        return _core_output(setting, op)
    if isinstance(op, Linear):
        split = setting.plans.tp if op.out_split == "tp" else setting.between
        return (1.0 - setting.software.selective_linear) * WORD * setting.tokens * op.out_features / split
    return 0.0


def _gradients(setting: Setting) -> Array:
    """Return the bytes of activations' gradients at once, in a layer's backward pass, at the most."""
    most: Array = 0.0
    for _, ops in setting.job.model.blocks():
        for op in ops:
            if isinstance(op, Pointwise) and op.split == "tp":
                width: Array = op.reads + op.writes
            elif isinstance(op, Attention):
                width = 2 * (op.heads + op.kv_heads) * op.head_dim
                if not setting.software.fused_attention:
                    width = width + 2 * op.heads * setting.job.sequence
            else:
                continue
            most = np.maximum(most, width)
    return layer_input(setting) + WORD * setting.tokens * most / setting.plans.tp
