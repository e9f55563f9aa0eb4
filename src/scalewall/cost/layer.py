"""One layer of a real model on one device: seconds of its forward and its backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost import kernels, transport
from scalewall.cost.machine import Machine
from scalewall.cost.plans import Plans, farthest
from scalewall.cost.practice import Practice, Software
from scalewall.workload.job import Job
from scalewall.workload.operators import Attention, Linear, Operator, Pointwise

Array = Any

WORD = 2.0
"""Bytes of a number where nothing else is said: activations are kept and sent in 16 bits."""

SUMMED = 8.0
"""Bytes of memory traffic an element of a weight's gradient: 32 bits read, added to, and written."""

FLASH_1 = 2.0
"""Time of FlashAttention over that of FlashAttention-2 (arXiv 2307.08691)."""


@attrs.frozen(kw_only=True)
class Setting:
    """What a pass is priced for: the job on the machine, under each of the plans."""

    job: Job
    machine: Machine
    plans: Plans
    practice: Practice
    software: Software
    layout: Mapping[str, list[Array]]

    @classmethod
    def of(cls, job: Job, machine: Machine, plans: Plans, practice: Practice, software: Software) -> Setting:
        """Return the setting, the plans laid over the machine's tiers."""
        layout = plans.layout(machine.cluster.tiers)
        return cls(job=job, machine=machine, plans=plans, practice=practice, software=software, layout=layout)

    @property
    def tokens(self) -> Array:
        """Tokens of one micro-batch on one device."""
        return self.plans.micro_batch * self.job.sequence / self.plans.cp

    @property
    def between(self) -> Array:
        """Over how many ranks tokens are split between the tensor-parallel layers."""
        return np.where(self.plans.sequence_parallel, self.plans.tp, 1)

    @property
    def pace(self) -> float:
        """Share of the sustained rate that the power limit leaves, at most all of it."""
        return min(1.0, float(self.machine.power**self.practice.throttling))

    @property
    def gradient(self) -> float:
        """Bytes of a gradient as it is summed over ranks that hold the same weights."""
        own = self.software.gradient
        return self.job.recipe.gradient if own is None else own

    def share(self, split: str) -> Array:
        """Return over how many devices `split` splits."""
        return self.plans.tp if split == "tp" else 1


@attrs.frozen(kw_only=True)
class Pass:
    """Seconds of one pass through a layer, by what they are spent on; traffic is what stays exposed."""

    matmul: Array = 0.0
    attention: Array = 0.0
    pointwise: Array = 0.0
    tensor: Array = 0.0
    context: Array = 0.0
    host: Array = 0.0

    @property
    def kernels(self) -> Array:
        """Seconds of kernels that compute."""
        return self.matmul + self.attention + self.pointwise

    @property
    def seconds(self) -> Array:
        """Seconds of the pass."""
        return self.kernels + self.tensor + self.context + self.host

    def scaled(self, factor: Array) -> Pass:
        """Return the pass `factor` times."""
        return Pass(**{a.name: factor * getattr(self, a.name) for a in attrs.fields(Pass)})

    def plus(self, other: Pass) -> Pass:
        """Return both passes, one after the other."""
        return Pass(**{a.name: getattr(self, a.name) + getattr(other, a.name) for a in attrs.fields(Pass)})


def layer(setting: Setting) -> tuple[Pass, Pass, Pass]:
    """Return a layer's forward pass, its backward pass, and what it recomputes between the two.

    A model whose layers are of several kinds is given their average.
    """
    forward, backward = layer_passes(setting)
    whole, rest = _shares(setting)
    return forward, backward, forward.scaled(whole).plus(_selected(setting, forward).scaled(rest))


def recomputed_seconds(setting: Setting, forward: Pass) -> Array:
    """Return the seconds of what `layer` recomputes, for its forward pass."""
    whole, rest = _shares(setting)
    return whole * forward.seconds + rest * _selected(setting, forward).seconds


def layer_passes(setting: Setting) -> tuple[Pass, Pass]:
    """Return a layer's forward and its backward pass."""
    model = setting.job.model
    kinds = model.blocks()
    common = [op for op in kinds[0][1] if not isinstance(op, Attention)]
    cores = [(count / model.layers, op) for count, ops in kinds for op in ops if isinstance(op, Attention)]
    found = []
    attention = {back: sum(w * _core(setting, op, back) for w, op in cores) for back in (False, True)}
    for backward in (False, True):
        pointwise = _pointwise(setting, common, backward=backward) + _casts(
            setting, common, backward=backward
        )
        matmul = _linears(setting, common, attention[backward], pointwise, backward=backward)
        computing = Pass(matmul=matmul, attention=attention[backward], pointwise=pointwise)
        computing = attrs.evolve(
            computing,
            tensor=_tensor(setting, common, matmul, backward=backward),
            context=_context(setting, cores, attention[backward], backward=backward),
        )
        host = setting.practice.host_layer * (2.0 if backward else 1.0)
        found.append(attrs.evolve(computing, host=np.maximum(0.0, host - computing.seconds)))
    return found[0], found[1]


def _linears(
    setting: Setting, operators: Sequence[Operator], attention: Array, pointwise: Array, *, backward: bool
) -> Array:
    """Return the seconds of the layer's multiplications, which the rest of the layer lets cool."""
    device, recipe, tokens = setting.machine.cluster.device, setting.job.recipe, setting.tokens
    curve, peak = setting.machine.curves.matmul(recipe.curve), device.peak_rate(recipe.matmul)
    sizes = _sizes(setting, operators)
    flop = sum(2.0 * n * k for n, k in sizes) * tokens * (2.0 if backward else 1.0)
    busy = flop / (curve.efficiency * peak) + attention
    # The power limit is the device's: its loss is that of 16 bits, whatever the precision.
    limit = setting.machine.curves.matmul("bf16").throttle / curve.throttle
    heat = setting.practice.heat * limit * busy / (busy + pointwise)
    seconds: Array = 0.0
    for n, k in sizes:
        shapes = [(tokens, k, n, WORD), (n, k, tokens, SUMMED)] if backward else [(tokens, n, k, WORD)]
        for rows, columns, summed, output in shapes:
            seconds = seconds + kernels.matmul_seconds(
                curve, peak, device.memory_bandwidth, rows, columns, summed, recipe.word, output, heat
            )
    return seconds / (setting.practice.matmul * setting.pace)


def _casts(setting: Setting, operators: Sequence[Operator], *, backward: bool) -> Array:
    """Return the seconds of converting the inputs of multiplications, or their outputs' gradients."""
    recipe = setting.job.recipe
    if not recipe.cast:
        return 0.0
    curve, bandwidth = (
        setting.machine.curves.matmul(recipe.curve),
        setting.machine.cluster.device.memory_bandwidth,
    )
    return sum(
        kernels.conversion_seconds(curve, bandwidth, setting.tokens * (n if backward else k))
        for n, k in _sizes(setting, operators)
    )


def _sizes(setting: Setting, operators: Sequence[Operator]) -> list[tuple[Array, Array]]:
    """Return the output and input features that one device has of each linear layer."""
    return [
        (op.out_features / setting.share(op.out_split), op.in_features / setting.share(op.in_split))
        for op in operators
        if isinstance(op, Linear)
    ]


def head(setting: Setting) -> tuple[Pass, Pass]:
    """Return the output matrix's and the loss's forward and backward pass, in 16 bits."""
    device, op = setting.machine.cluster.device, setting.job.model.head()
    curve, peak = setting.machine.curves.matmul("bf16"), device.peak_rate("bf16")
    tokens, n, k = setting.tokens, op.out_features / setting.plans.tp, op.in_features
    bandwidth, practice = device.memory_bandwidth, setting.practice
    one = [
        kernels.matmul_seconds(curve, peak, bandwidth, rows, columns, summed, WORD, WORD, practice.heat)
        / (practice.matmul * setting.pace)
        for rows, columns, summed in ((tokens, n, k), (tokens, k, n), (n, k, tokens))
    ]
    loss = kernels.pointwise_seconds(
        practice.loss_traffic * tokens * n, bandwidth, practice.pointwise, 4 * curve.launch
    )
    gather = transport.all_reduce_seconds(setting.machine.links, setting.layout["tp"], WORD * tokens * k)
    return (
        Pass(matmul=one[0], pointwise=loss / 2, tensor=gather / 2),
        Pass(matmul=one[1] + one[2], pointwise=loss / 2, tensor=gather / 2),
    )


def embedding(setting: Setting) -> tuple[Pass, Pass]:
    """Return the look-up's forward and backward pass: memory traffic, and a sum over tensor ranks."""
    device, practice = setting.machine.cluster.device, setting.practice
    elements = setting.tokens * setting.job.model.d_model
    moved = kernels.pointwise_seconds(2 * WORD * elements, device.memory_bandwidth, practice.pointwise)
    summed = transport.all_reduce_seconds(setting.machine.links, setting.layout["tp"], WORD * elements)
    return Pass(pointwise=moved, tensor=summed / 2), Pass(pointwise=3 * moved, tensor=summed / 2)


def _core(setting: Setting, op: Attention, backward: bool) -> Array:
    """Return the seconds of an attention core, each context-parallel rank with an equal share of it."""
    device, curves, sequence = setting.machine.cluster.device, setting.machine.curves, setting.job.sequence
    heads = setting.plans.micro_batch * op.heads / setting.plans.tp / setting.plans.cp
    peak = device.peak_rate("bf16")
    if setting.software.fused_attention:
        newest = setting.software.attention == "newest"
        curve = curves.attention if newest else curves.flash_2
        seconds = kernels.attention_seconds(
            curve,
            peak,
            heads,
            op.head_dim,
            sequence,
            sequence,
            causal=op.causal,
            window=np.inf if op.window is None else op.window,
            backward=backward,
        )
        seconds = (seconds + (setting.plans.cp - 1) * curve.launch) / (
            setting.practice.attention * setting.pace
        )
        return seconds * (FLASH_1 if setting.software.attention == "flash-1" else 1.0)
    seconds = kernels.unfused_attention_seconds(
        curves.matmul("bf16"),
        peak,
        device.memory_bandwidth,
        heads,
        op.head_dim,
        sequence,
        sequence,
        backward=backward,
    )
    return seconds / setting.pace


def _pointwise(setting: Setting, operators: Sequence[Operator], *, backward: bool) -> Array:
    """Return the seconds of norms, activations and residual additions."""
    device, practice = setting.machine.cluster.device, setting.practice
    factor = setting.software.passes * (practice.backward_pointwise if backward else 1.0)
    moved: Array = 0.0
    count = 0
    for op in operators:
        if isinstance(op, Pointwise):
            split = setting.plans.tp if op.split == "tp" else setting.between
            moved = moved + WORD * (op.reads + op.writes) * setting.tokens / split
            count += 1
    launch = setting.machine.curves.matmul("bf16").launch
    return kernels.pointwise_seconds(
        factor * moved, device.memory_bandwidth, practice.pointwise, count * launch
    )


def _tensor(setting: Setting, operators: Sequence[Operator], matmul: Array, *, backward: bool) -> Array:
    """Return the exposed seconds of tensor-parallel sums and gathers.

    Forward, every layer whose input is split sums its output over the group; backward, every layer
    whose output is split sums its input's gradient. With sequence parallelism each sum is a
    reduce-scatter there and a gather at the next (arXiv 2205.05198): as many bytes, and backward
    the inputs are gathered once more.
    """
    degrees, links = setting.layout["tp"], setting.machine.links
    entering = [op for op in operators if isinstance(op, Linear) and op.out_split == "tp"]
    leaving = [op for op in operators if isinstance(op, Linear) and op.in_split == "tp"]
    size = WORD * setting.tokens * setting.job.model.d_model
    summed = len(entering) if backward else len(leaving)
    traffic = summed * transport.all_reduce_seconds(links, degrees, size)
    if backward:
        again = len(entering) * transport.all_gather_seconds(links, degrees, size)
        traffic = traffic + np.where(setting.plans.sequence_parallel, again, 0.0)
    # Only within a scale-up domain do kernels read what others still compute.
    inside = np.equal(setting.plans.tp, degrees[0])
    share = np.where(inside, setting.practice.overlap_tensor if setting.software.overlap_tensor else 0.0, 0.0)
    return exposed(traffic, matmul, share, setting.practice.contention)


def _context(
    setting: Setting, cores: list[tuple[float, Attention]], attention: Array, *, backward: bool
) -> Array:
    """Return the exposed seconds of passing keys and values around the context-parallel ring.

    Of `cp` steps all but one overlap with a step's attention. Backward, their gradients go round too.
    """
    if np.all(np.equal(setting.plans.cp, 1)):
        return 0.0
    width = sum(weight * 2.0 * op.kv_heads * op.head_dim for weight, op in cores)
    size = WORD * setting.tokens * width / np.minimum(setting.plans.tp, cores[0][1].kv_heads)
    tier = farthest(setting.layout["cp"])
    step = transport.send_seconds(setting.machine.links, tier, size * (2.0 if backward else 1.0))
    traffic = (setting.plans.cp - 1) * step
    hiding = attention * (setting.plans.cp - 1) / setting.plans.cp
    return exposed(traffic, hiding, 1.0, setting.practice.contention)


def _shares(setting: Setting) -> tuple[Array, Array]:
    """Return the share of layers that is recomputed in full, and the share that is selectively."""
    whole = setting.plans.recomputed
    return whole, (1.0 - whole) * np.where(setting.plans.selective, 1.0, 0.0)


def _selected(setting: Setting, forward: Pass) -> Pass:
    """Return what selective recomputation repeats: the core, or a share of the matmuls."""
    software, linear = setting.software, setting.software.selective_linear
    return Pass(
        matmul=linear * forward.matmul,
        pointwise=(1.0 if linear else 0.0) * forward.pointwise,
        attention=0.0 if software.fused_attention else forward.attention,
    )


def exposed(traffic: Array, hiding: Array, share: Array, contention: float) -> Array:
    """Return the seconds by which `traffic` lengthens `hiding`, compute that may hide a share of it.

    What is hidden still slows compute by `contention` seconds a second: both move data.
    """
    hidden = np.minimum(share * traffic, hiding)
    return traffic - (1.0 - contention) * hidden
