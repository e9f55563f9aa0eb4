"""One optimizer step of the ideal fidelity: its seconds, and what they are charged to."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from scalewall.cost import block, collective, matmul, memory, pipeline
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.block import Degrees, Multiplications, total
from scalewall.hardware.cluster import Cluster
from scalewall.workload.scaling import Workload

Array = Any

AXES = ("dp", "tp_model", "tp_ff", "pp", "ep")

CAUSES = {
    "arithmetic": "useful arithmetic at the sustained rate",
    "padding": "arithmetic on the empty part of tiles",
    "memory_bandwidth": "waiting for main memory",
    "cache_bandwidth": "waiting for caches and shared memory",
    "kernel_latency": "starting matrix multiplications",
    "network_bandwidth": "tensor, pipeline and expert traffic that arithmetic does not hide",
    "network_latency": "one micro-batch's network operations through all blocks",
    "pipeline_bubble": "stages idle at the ends of a step",
    "data_parallel_bandwidth": "reducing gradients over data-parallel replicas",
    "data_parallel_latency": "network operations of that reduction",
}
"""What a step's seconds are charged to; every second to exactly one."""


@attrs.frozen(kw_only=True)
class Strategies:
    """Arrays of strategies that broadcast against each other.

    `degrees` gives for each of `AXES` its degree at each tier, innermost first; `microbatches` a
    data-parallel replica's count, `interleave` the chunks a stage, `zero_bubble` the schedule.
    """

    degrees: Degrees
    microbatches: Array
    interleave: Array
    zero_bubble: Array

    @property
    def devices(self) -> Array:
        """Number of devices."""
        product: Array = 1.0
        for axis in AXES:
            product = product * total(self.degrees[axis])
        return product


@attrs.frozen(kw_only=True)
class StepParts:
    """The parts of a step before they are charged to causes, in seconds; arrays that broadcast."""

    products: Multiplications
    tokens: Array
    experts: Array
    blocks: Array
    multiplying: Array
    network: Array
    exposed_network: Array
    idle: Array
    latency: Array
    reduction: Array
    reduction_latency: Array

    @property
    def seconds(self) -> Array:
        """Seconds of the whole step."""
        busy = np.maximum(self.multiplying, self.network) + self.exposed_network
        return busy * self.blocks + self.idle * busy + self.latency + self.reduction + self.reduction_latency


def parts(
    cluster: Cluster,
    workload: Workload,
    strategies: Strategies,
    how: Assumptions,
    products: Multiplications | None = None,
) -> StepParts:
    """Return the parts of a step of every strategy.

    Parameters
    ----------
    cluster, workload, how
        What runs where, and what is taken for granted.
    strategies
        Strategies; shapes broadcast.
    products
        The multiplications of the strategies' shardings, where known already.

    Notes
    -----
    ``step = (m·L/pp + idle) · max(multiplications, network) + latency + data-parallel reduction``.

    - A device group holds ``S/ep`` experts and prices each on its own ``B/(dp·m·S)`` tokens.
    - Tensor, pipeline and expert bandwidth overlaps with arithmetic (a switch each).
    - Latency is on the critical path once a step, for one micro-batch through all blocks; the
      zero-bubble schedule hides it.

    Source: arXiv 2411.01137.
    """
    d = strategies.degrees
    pp, dp, ep, layers = total(d["pp"]), total(d["dp"]), total(d["ep"]), workload.layers
    split = {axis: total(d[axis]) for axis in ("tp_model", "tp_ff")}
    m, v, zero_bubble = strategies.microbatches, strategies.interleave, strategies.zero_bubble
    if products is None:
        products = block.multiplications(cluster, workload.block, split, how, workload.whole)
    tokens = workload.batch_tokens / (dp * m * workload.sparsity)
    experts = workload.sparsity / ep
    hidden, exposed = _network(cluster, workload, d, v, how)
    idle = np.where(zero_bubble, 0.0, pipeline.idle_microbatches(pp, m, v)) * (layers / pp)
    waits = layers * block.tensor_latency(cluster, workload.block, d)
    waits = waits + block.exchange_latency(cluster, d, v, layers)
    multiplying = experts * block.multiplication_seconds(cluster, products, tokens, workload.whole)
    share = workload.parameters / (split["tp_model"] * split["tp_ff"] * pp * ep)
    gradients = collective.all_reduce_bytes(how.word * share, d["dp"], collective.in_network(cluster.tiers))
    reduction = collective.slowest(cluster.tiers, gradients)
    if how.overlap_data:
        reduction = np.maximum(0.0, reduction - m * (layers / pp) * multiplying)
    return StepParts(
        products=products,
        tokens=tokens,
        experts=experts,
        blocks=m * (layers / pp),
        multiplying=multiplying,
        network=experts * tokens * hidden,
        exposed_network=experts * tokens * exposed,
        idle=idle,
        latency=np.where(zero_bubble, 0.0, waits),
        reduction=reduction,
        reduction_latency=collective.all_reduce_latency(cluster.tiers, d["dp"]),
    )


def _network(
    cluster: Cluster, workload: Workload, degrees: Degrees, interleave: Array, how: Assumptions
) -> tuple[Array, Array]:
    """Return a block's network seconds a token that overlap with arithmetic, and those that do not."""
    reducing = collective.in_network(cluster.tiers)
    tensor = block.tensor_bytes(workload.block, degrees, how, workload.whole, reducing)
    exchange = block.exchange_bytes(workload.block, degrees, interleave, workload.layers, how)
    hidden: list[Array] = [0.0 * how.word] * len(cluster.tiers)  # no bytes
    exposed = list(hidden)
    for sent, overlaps in ((tensor, how.overlap_tensor), (exchange, how.overlap_exchange)):
        lane = hidden if overlaps else exposed
        lane[:] = [a + b for a, b in zip(lane, sent, strict=True)]
    return collective.slowest(cluster.tiers, hidden), collective.slowest(cluster.tiers, exposed)


def seconds_by_cause(cluster: Cluster, workload: Workload, step: StepParts) -> dict[str, Array]:
    """Return the step's seconds by `CAUSES`; they add up to ``step.seconds``."""
    charged: dict[str, Array] = dict.fromkeys(CAUSES, 0.0)
    for count, line in step.products.counted:
        times = matmul.seconds_by_cause(cluster.device, line, step.tokens, workload.whole)
        for cause, time in times.items():
            charged[cause] = charged[cause] + count * step.experts * step.blocks * time
    waiting = np.maximum(0.0, step.network - step.multiplying) + step.exposed_network
    busy = np.maximum(step.multiplying, step.network) + step.exposed_network
    return charged | {
        "network_bandwidth": step.blocks * waiting,
        "network_latency": step.latency,
        "pipeline_bubble": step.idle * busy,
        "data_parallel_bandwidth": step.reduction,
        "data_parallel_latency": step.reduction_latency,
    }


def memory_bytes(workload: Workload, degrees: Degrees, how: Assumptions) -> Array:
    """Return the bytes each device holds."""
    split: Array = 1.0
    for axis in ("tp_model", "tp_ff", "pp", "ep"):
        split = split * total(degrees[axis])
    return memory.ideal_bytes(
        workload.parameters / split, total(degrees["dp"]), word=how.word, optimizer=how.optimizer
    )


def allowed(cluster: Cluster, workload: Workload, strategies: Strategies, how: Assumptions) -> Array:
    """Return whether a strategy exists and fits the devices' memory.

    Degrees may not exceed what they split, a chunk holds at least one block, a micro-batch at least
    one token an expert, and the zero-bubble schedule needs its micro-batches.
    """
    d = strategies.degrees
    pp, ep, m, v = total(d["pp"]), total(d["ep"]), strategies.microbatches, strategies.interleave
    tokens = workload.batch_tokens / (total(d["dp"]) * m * workload.sparsity)
    fits = memory_bytes(workload, d, how) <= cluster.device.memory
    fits = fits & (total(d["tp_model"]) <= workload.d_model) & (total(d["tp_ff"]) <= workload.d_ff)
    fits = fits & (ep <= workload.sparsity) & (pp * v <= workload.layers) & ((pp > 1) | np.equal(v, 1))
    filled = pipeline.zero_bubble_allowed(pp, m, v)
    return fits & (tokens >= 1.0) & (filled | np.logical_not(strategies.zero_bubble))


def mfu(cluster: Cluster, workload: Workload, devices: Array, step_seconds: Array, how: Assumptions) -> Array:
    """Return the share of the dense peak, at the rated clock, that useful arithmetic takes.

    ``C / (steps · step · devices · peak)``.
    """
    peak = cluster.device.peak_rate(how.precision)
    return workload.training_flop / (workload.steps * step_seconds * devices * peak)
