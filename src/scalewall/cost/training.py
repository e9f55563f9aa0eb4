"""A step of training a real model: its seconds, and what they are spent on."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from scalewall.cost import kernels, transport
from scalewall.cost.layer import (
    WORD,
    Pass,
    Setting,
    embedding,
    exposed,
    head,
    layer_passes,
    recomputed_seconds,
)
from scalewall.cost.plans import Plans, farthest
from scalewall.cost.stages import pipeline_seconds, stage_layers
from scalewall.workload.job import Job

Array = Any
Stages = tuple[Array, Array, Array]

TRAINING_CAUSES = {
    "arithmetic": "the model's FLOP at the device's dense peak",
    "kernel_efficiency": "matmuls and attention beyond that",
    "memory_bandwidth": "norms, activations, conversions, loss",
    "recomputation": "computing activations again for the backward pass",
    "host": "waiting for the host to start kernels, and what a step costs whatever its size",
    "tensor_parallel": "sums and gathers of tensor parallelism that nothing hides",
    "context_parallel": "keys and values passed on that nothing hides",
    "pipeline_parallel": "activations sent between stages that nothing hides",
    "data_parallel": "gradients reduced and weights gathered that nothing hides",
    "optimizer": "updating the weights",
    "pipeline_bubble": "stages that wait for others, at the ends of a step or as they have less to do",
    "straggling": "waiting for the slowest of many devices",
}
"""What a real step's seconds are charged to, on the average device; every second to exactly one."""


@attrs.frozen(kw_only=True)
class Step:
    """A step's seconds, by `TRAINING_CAUSES`, and its utilisation; arrays that broadcast."""

    seconds: Array
    by_cause: dict[str, Array]
    mfu: Array
    hfu: Array
    tokens_per_second: Array


@attrs.frozen(kw_only=True)
class _Timed:
    """A step's parts in seconds: a layer's passes, what stands before and after all layers, and the rest."""

    forward: Pass
    backward: Pass
    again: Array
    before: Pass
    after: Pass
    sharded: Array
    tables: Array
    hop: Array
    flow: Array
    reduction: Array
    update: Array
    jitter: Array
    seconds: Array


def _timed(setting: Setting) -> _Timed:
    """Return the step's parts: ``(flow + reduction + update + host) · (1 + jitter)``."""
    practice = setting.practice
    forward, backward = layer_passes(setting)
    again = recomputed_seconds(setting, forward)
    sharded = sum(_sharded_layers(setting, forward.seconds, backward.seconds + again))
    hop = _sends(setting) * setting.plans.interleave
    ends = embedding(setting), head(setting)
    tables = [sum(pair) for pair in _sharded_tables(setting, *ends)]
    before, after = (a.plus(b) for a, b in ends)
    one = forward.seconds + backward.seconds + again + sharded
    edges = before.seconds + tables[0], after.seconds + tables[1]
    total = setting.job.model.layers * one + edges[0] + edges[1] + setting.plans.pp * hop
    flow = _flow(setting, _stages(setting, one, *edges, hop), total)
    reduction, update = _reduction(setting, forward, backward), _update(setting)
    jitter = _straggling(setting)
    return _Timed(
        forward=forward,
        backward=backward,
        again=again,
        before=before,
        after=after,
        sharded=sharded,
        tables=tables[0] + tables[1],
        hop=hop,
        flow=flow,
        reduction=reduction,
        update=update,
        jitter=jitter,
        seconds=(flow + reduction + update + practice.host_step) * (1.0 + jitter),
    )


def step_seconds(setting: Setting) -> Array:
    """Return the seconds of a step of each of the setting's plans, as `step` does."""
    return _timed(setting).seconds


def step(setting: Setting) -> Step:
    """Return a step of each of the setting's plans, which must be possible.

    Notes
    -----
    ``(pipeline(stages) + data-parallel + optimizer + host) · (1 + straggling)``; MFU counts causal
    attention at half and nothing recomputed, over the dense peak of the recipe's precision.
    """
    job, plans, timed = setting.job, setting.plans, _timed(setting)
    m, pp = plans.microbatches(job.batch), plans.pp
    # What the average stage spends, over all its micro-batches.
    share = m * job.model.layers / pp
    both, ends = timed.forward.plus(timed.backward), timed.before.plus(timed.after)
    layers = both.scaled(share).plus(ends.scaled(m / pp))
    useful = job.model_flop / (plans.devices * setting.machine.cluster.device.peak_rate(job.recipe.matmul))
    busy = {
        "arithmetic": useful,
        "kernel_efficiency": layers.matmul + layers.attention - useful,
        "memory_bandwidth": layers.pointwise,
        "recomputation": timed.again * share,
        "host": layers.host,
        "tensor_parallel": layers.tensor,
        "context_parallel": layers.context,
        "pipeline_parallel": m * timed.hop,
        "data_parallel": timed.sharded * share + timed.tables * m / pp,
    }
    spent = {
        **busy,
        "host": layers.host + setting.practice.host_step,
        "data_parallel": busy["data_parallel"] + timed.reduction,
        "optimizer": timed.update,
        "pipeline_bubble": timed.flow - sum(busy.values()),
        "straggling": timed.seconds * timed.jitter / (1.0 + timed.jitter),
    }
    return Step(
        seconds=timed.seconds,
        by_cause={name: spent[name] for name in TRAINING_CAUSES},
        mfu=useful / timed.seconds,
        hfu=useful / timed.seconds * (1.0 + _repeated_flop(setting)),
        tokens_per_second=job.tokens / timed.seconds,
    )


def _stages(setting: Setting, one: Array, before: Array, after: Array, hop: Array) -> Stages:
    """Return the seconds of one micro-batch on the first stage, on one between, and on the last.

    `one` is a layer's seconds, `before` and `after` those of what stands before the first layer and
    after the last, `hop` those of a stage's sends. A stage that is alone is the first, and does all.
    """
    pp = setting.plans.pp
    first, middle, last = stage_layers(setting.job.model.layers, pp, setting.plans.interleave)
    first = first * one + before + hop + np.where(pp > 1, 0.0, after)
    return first, middle * one + hop, last * one + after + hop


def _flow(setting: Setting, stages: Stages, total: Array) -> Array:
    """Return the seconds of passing all micro-batches through the pipeline; `total` is all stages' time."""
    plans = setting.plans
    first, middle, last = stages
    m, pp = plans.microbatches(setting.job.batch), plans.pp
    flow = pipeline_seconds(first, middle, last, pp, m, plans.interleave, total)
    if not np.any(plans.zero_bubble):
        return flow
    slowest = np.where(pp > 2, np.maximum(np.maximum(first, last), middle), np.maximum(first, last))
    return np.where(plans.zero_bubble & (pp > 1), m * slowest, flow)


@attrs.frozen(kw_only=True)
class StagePasses:
    """What a step is made of, in seconds; arrays that broadcast.

    `forward` and `backward` are a micro-batch's passes on the first stage, on one between, and on
    the last, with what is recomputed, exposed traffic and sends; `ends` what follows all passes, by
    `TRAINING_CAUSES`; `straggling` the share by which all of it is longer.
    """

    forward: Stages
    backward: Stages
    ends: dict[str, Array]
    straggling: Array


def stage_passes(setting: Setting) -> StagePasses:
    """Return what a step is made of, stage by stage: the parts that `step` adds up."""
    forward, backward = layer_passes(setting)
    again = recomputed_seconds(setting, forward)
    gathered, scattered = _sharded_layers(setting, forward.seconds, backward.seconds + again)
    hop = _sends(setting) * setting.plans.interleave / 2.0
    before, after = embedding(setting), head(setting)
    ends = {
        "data_parallel": _reduction(setting, forward, backward),
        "optimizer": _update(setting),
        "host": setting.practice.host_step,
    }
    first, last = _sharded_tables(setting, before, after)
    there, back = forward.seconds + gathered, backward.seconds + again + scattered
    return StagePasses(
        forward=_stages(setting, there, before[0].seconds + first[0], after[0].seconds + last[0], hop),
        backward=_stages(setting, back, before[1].seconds + first[1], after[1].seconds + last[1], hop),
        ends=ends,
        straggling=_straggling(setting),
    )


def _straggling(setting: Setting) -> Array:
    """Return the share by which a step is longer as the slowest of many domains is waited for."""
    domains = setting.plans.devices / setting.machine.cluster.tiers[0].size
    return setting.practice.straggling * np.log10(np.maximum(domains, 1))


def _sends(setting: Setting) -> Array:
    """Return the exposed seconds of one chunk's sends of one micro-batch, forward and backward."""
    plans, practice = setting.plans, setting.practice
    size = WORD * setting.tokens * setting.job.model.d_model / plans.tp
    seconds = 2.0 * transport.send_seconds(setting.machine.links, farthest(setting.layout["pp"]), size)
    share = practice.overlap_pipeline if setting.software.overlap_pipeline else 0.0
    return np.where(plans.pp > 1, (1.0 - share) * seconds, 0.0)


def _sharded_layers(setting: Setting, forward: Array, backward: Array) -> tuple[Array, Array]:
    """Return the exposed seconds a layer and micro-batch of gathering weights, and of scattering gradients.

    Stage 3 gathers weights before each pass and scatters gradients after the backward one; stage 2
    scatters only. Both overlap with the layer's compute, `forward` and `backward` seconds.
    """
    return _sharded(setting, setting.job.model.layer_parameters, forward, backward, again=True)


def _sharded_tables(
    setting: Setting, before: tuple[Pass, Pass], after: tuple[Pass, Pass]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the same for the embedding and for the output matrix: gathered once."""
    model = setting.job.model
    first = _sharded(setting, model.embedding_parameters, before[0].seconds, before[1].seconds, again=False)
    last = _sharded(setting, model.head_parameters, after[0].seconds, after[1].seconds, again=False)
    return first, last


def _sharded(
    setting: Setting, parameters: float, forward: Array, backward: Array, *, again: bool
) -> tuple[Array, Array]:
    """Return the exposed seconds of gathering sharded parameters, and of scattering their gradients.

    `forward` and `backward` may hide them; `again` is whether they are gathered for both passes.
    """
    plans, links = setting.plans, setting.machine.links
    if np.all(np.less(plans.zero, 2)):
        return 0.0, 0.0
    weights, degrees = parameters / plans.tp, setting.layout["shard"]
    three, two = np.greater_equal(plans.zero, 3), np.greater_equal(plans.zero, 2)
    gather = np.where(three, transport.all_gather_seconds(links, degrees, WORD * weights), 0.0)
    scatter = transport.reduce_scatter_seconds(links, degrees, setting.gradient * weights)
    share = setting.practice.overlap_data if setting.software.overlap_data else 0.0
    contention = setting.practice.contention
    before = exposed(gather, forward, share, contention)
    after = exposed((gather if again else 0.0) + scatter, backward, share, contention)
    return np.where(two, before, 0.0), np.where(two, after, 0.0)


def _reduction(setting: Setting, forward: Pass, backward: Pass) -> Array:
    """Return the exposed seconds a step of data parallelism outside the layers' passes.

    Without sharding gradients are summed by an all-reduce; from stage 1 on they are scattered and
    the weights gathered, stage by stage of the pipeline; hybrid sharding sums over its replicas. The
    sum overlaps with the last micro-batch's backward pass, the gathering with the next one's
    forward pass.
    """
    plans, links, job = setting.plans, setting.machine.links, setting.job
    weights = stage_parameters(job, plans)
    shard, replicas = setting.layout["shard"], plans.replicas(setting.layout)
    gradient = setting.gradient * weights
    whole = transport.all_reduce_seconds(links, setting.layout["copies"], gradient)
    scatter = transport.reduce_scatter_seconds(links, shard, gradient)
    between = transport.all_reduce_seconds(links, replicas, gradient / plans.shard)
    gather = transport.all_gather_seconds(links, shard, WORD * weights)
    stage = np.asarray(plans.zero)
    summing = np.where(stage < 1, whole, between + np.where(stage < 2, scatter, 0.0))
    gathering = np.where((stage == 1) | (stage == 2), gather, 0.0)
    share = setting.practice.overlap_data if setting.software.overlap_data else 0.0
    layers = job.model.layers / plans.pp
    contention = setting.practice.contention
    # From stage 2 on the backward passes hide their own scattering already.
    hiding = np.where(stage < 2, layers * backward.seconds, 0.0)
    return exposed(summing, hiding, share, contention) + exposed(
        gathering, layers * forward.seconds, share, contention
    )


def stage_parameters(job: Job, plans: Plans) -> Array:
    """Return the parameters of a tensor-parallel rank of the fullest pipeline stage."""
    model = job.model
    first, middle, last = stage_layers(model.layers, plans.pp, plans.interleave)
    one = model.layer_parameters
    # A tied output matrix stands on both ends of a pipeline.
    head_parameters = model.head_parameters + (model.vocab * model.table_width if model.tied else 0)
    ends = np.maximum(first * one + model.embedding_parameters, last * one + head_parameters)
    several = np.where(plans.pp > 2, np.maximum(ends, middle * one), ends)
    fullest = np.where(plans.pp > 1, several, model.parameters)
    return fullest / plans.tp


def _update(setting: Setting) -> Array:
    """Return the seconds of the optimizer's step, sharded over data-parallel ranks from stage 1 on."""
    plans, practice = setting.plans, setting.practice
    share = stage_parameters(setting.job, plans) / np.where(np.greater(plans.zero, 0), plans.shard, 1)
    return kernels.pointwise_seconds(
        practice.optimizer_traffic * share,
        setting.machine.cluster.device.memory_bandwidth,
        practice.pointwise,
    )


def _repeated_flop(setting: Setting) -> Array:
    """Return the FLOP computed again over the model's."""
    model, plans = setting.job.model, setting.plans
    once = 6.0 * model.layers * model.layer_matmul_parameters
    core = float(model.training_flop(setting.job.sequence)) - 6.0 * model.matmul_parameters
    whole = float(model.training_flop(setting.job.sequence))
    selective = 0.0 if setting.software.fused_attention else core / 3.0
    selective += setting.software.selective_linear * once / 3.0
    some = (1.0 - plans.recomputed) * np.where(plans.selective, selective, 0.0)
    return (plans.recomputed * (once + core) / 3.0 + some) / whole
