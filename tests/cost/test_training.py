"""A step of training: worked out term by term in plain numbers, and what holds for any plan."""

from __future__ import annotations

import itertools
import math
from random import Random

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scalewall.cost import transport
from scalewall.cost.layer import Setting
from scalewall.cost.machine import Machine
from scalewall.cost.plans import Plans
from scalewall.cost.practice import SOFTWARE, Practice
from scalewall.cost.stages import pipeline_seconds, stage_layers
from scalewall.cost.training import TRAINING_CAUSES, stage_parameters, stage_passes, step, step_seconds
from scalewall.hardware import catalogue
from scalewall.workload.formats import read_model
from scalewall.workload.job import Job
from tests.cost.test_layer import GPT3, LLAMA, again, drawn, replanned, setting

seeds = st.integers(0, 10**9)


def causes(one):
    return {name: float(seconds) for name, seconds in step(one).by_cause.items()}


# In plain numbers: a model of GPT-3's or Llama's kind, whole layers a stage, groups laid out by hand


def law(curve, latency, wire):
    return latency + wire + 2 * curve.fill * math.sqrt(latency * wire)


def collective(links, curves, degrees, carried):
    """Seconds of a ring or tree whose tiers carry so many bytes each."""
    latency = max([c.base for c, p in zip(curves, degrees, strict=True) if p > 1], default=0.0)
    for i, (curve, p) in enumerate(zip(curves, degrees, strict=True)):
        if math.isinf(curve.level):
            latency += curve.hop * (p - 1) * math.prod(degrees[i + 1 :])
        else:
            latency += curve.hop * min(p - 1, curve.level * math.log2(p))
    wires = [n / (c.share * link.bandwidth) for n, c, link in zip(carried, curves, links, strict=True)]
    return max(law(curve, latency, wire) for curve, wire in zip(curves, wires, strict=True))


def ring(links, kind, degrees, size):
    curves, p = [getattr(link.curves, kind) for link in links], math.prod(degrees)
    return collective(links, curves, degrees, ringed(curves, degrees, size, p))


def ringed(curves, degrees, size, p):
    carried = []
    for i, (curve, here) in enumerate(zip(curves, degrees, strict=True)):
        left = size / math.prod(degrees[:i])
        carried.append((p - 1 + curve.own) / p * left if here > 1 else 0.0)
    return carried


def all_reduce(links, degrees, size):
    """Twice a ring, but one exchange where an outer tier joins two; or up to the switch and down once."""
    p, found = math.prod(degrees), []
    if p == 1:
        return 0.0
    ways = [[link.curves.all_reduce for link in links]]
    if links[0].curves.in_switch is not None and degrees[0] > 1:
        ways.append([links[0].curves.in_switch, *ways[0][1:]])
    for way, curves in enumerate(ways):
        carried = [2 * n for n in ringed(curves, degrees, size, p)]
        for i in range(1, len(degrees)):
            if degrees[i] == 2:
                carried[i] = min(carried[i], size / math.prod(degrees[:i]))
        if way:
            carried[0] = size
        found.append(collective(links, curves, degrees, carried))
    return min(found)


def gemm(curve, peak, bandwidth, m, n, k, word, out, heat):
    arithmetic = 2 * (m * n + curve.wave) * (k + curve.ramp) / (curve.efficiency * peak)
    if heat is None:
        heat = arithmetic / (arithmetic + curve.throttle_time)
    arithmetic *= 1 + curve.throttle * heat
    memory = (word * k * (m + n) + out * m * n) / (curve.memory * bandwidth)
    return curve.launch + (arithmetic**4 + memory**4) ** 0.25


def attention_core(s, curve, heads, backward):
    """A fused causal core on one device."""
    model, sequence, q = s.job.model, s.job.sequence, s.practice
    flop, share, softmax, start = 4, curve.forward, curve.softmax, curve.start
    if backward:
        flop, share, softmax, start = 10, curve.backward, curve.softmax_backward, curve.start_backward
    seen = (sequence + 1) / 2 + start + curve.cut
    width = (model.head_dim**4 + softmax**4) ** 0.25
    rows = heads * sequence + curve.wave
    busy = flop * rows * seen * width / (share * s.machine.cluster.device.peak_rate("bf16"))
    return (busy + s.plans.cp * curve.launch) / (q.attention * s.pace)


def unfused_core(s, heads, backward):
    device, curve, n = s.machine.cluster.device, s.machine.curves.matmul("bf16"), s.job.sequence
    d, peak, bandwidth = s.job.model.head_dim, device.peak_rate("bf16"), device.memory_bandwidth
    scores = gemm(curve, peak, bandwidth, heads * n, n, d, 2, 2, None)
    output = gemm(curve, peak, bandwidth, heads * n, d, n, 2, 2, None)
    moved = (11 if backward else 9) * heads * n * n / (curve.memory * bandwidth) + 2 * curve.launch
    return scores + (3 if backward else 1) * output + moved


def hidden_behind(traffic, compute, share, q):
    hidden = min(share * traffic, compute)
    return traffic - hidden + q.contention * hidden


def a_layer(s, groups, backward):
    """A layer's seconds one way, by part."""
    model, p, q, w = s.job.model, s.plans, s.practice, s.software
    device, curves, links, recipe = s.machine.cluster.device, s.machine.curves, s.machine.links, s.job.recipe
    d, kv, peak, bandwidth = (
        model.d_model,
        model.kv_width,
        device.peak_rate(recipe.matmul),
        device.memory_bandwidth,
    )
    tokens = p.micro_batch * s.job.sequence / p.cp
    heads = p.micro_batch * model.heads / p.tp / p.cp
    if w.attention == "unfused":
        attention = unfused_core(s, heads, backward)
    else:
        attention = attention_core(
            s, curves.attention if w.attention == "newest" else curves.flash_2, heads, backward
        )
    up = (2 if model.gated else 1) * model.d_ff
    linears = [(d + 2 * kv, d, True), (d, d, False), (up, d, True), (d, model.d_ff, False)]
    sizes = [(n / p.tp, k) if enters else (n, k / p.tp) for n, k, enters in linears]
    curve, launch = curves.matmul(recipe.curve), curves.matmul("bf16").launch

    between = p.tp if p.sequence_parallel else 1
    words = 2 * (d + d) / between + (up + model.d_ff) / p.tp + 2 * (2 * d + d) / between
    factor = w.passes * (1.6 if backward else 1.0)
    pointwise = factor * 2 * words * tokens / (q.pointwise * bandwidth) + 5 * launch
    if recipe.word < 2:
        for n, k in sizes:
            elements = tokens * (n if backward else k)
            pointwise += curve.conversion_launch + curve.conversion_bytes * elements / bandwidth

    flop = sum(2 * n * k for n, k in sizes) * tokens * (2 if backward else 1)
    busy = flop / (curve.efficiency * peak) + attention
    heat = q.heat * curves.matmul("bf16").throttle / curve.throttle * busy / (busy + pointwise)
    matmul = 0.0
    for n, k in sizes:
        if backward:
            matmul += gemm(curve, peak, bandwidth, tokens, k, n, recipe.word, 2, heat)
            matmul += gemm(curve, peak, bandwidth, n, k, tokens, recipe.word, 8, heat)
        else:
            matmul += gemm(curve, peak, bandwidth, tokens, n, k, recipe.word, 2, heat)
    matmul /= q.matmul * s.pace

    size = 2 * tokens * d
    tensor = 2 * all_reduce(links, groups["tp"], size)
    if backward and p.sequence_parallel:
        tensor += 2 * ring(links, "all_gather", groups["tp"], size) if p.tp > 1 else 0.0
    tensor = hidden_behind(tensor, matmul, q.overlap_tensor if w.overlap_tensor else 0.0, q)

    context = 0.0
    if p.cp > 1:
        tier = max(i for i, n in enumerate(groups["cp"]) if n > 1)
        passed = 2 * tokens * 2 * kv / min(p.tp, model.kv_heads) * (2 if backward else 1)
        send = links[tier].curves.send
        around = (p.cp - 1) * law(send, send.base, passed / (send.share * links[tier].bandwidth))
        context = hidden_behind(around, attention * (p.cp - 1) / p.cp, 1.0, q)

    part = {
        "matmul": matmul,
        "attention": attention,
        "pointwise": pointwise,
        "tensor": tensor,
        "context": context,
    }
    part["host"] = max(0.0, q.host_layer * (2 if backward else 1) - sum(part.values()))
    return part


def the_ends(s, groups):
    """Seconds of the embedding and of the head, both ways, by part; and the head's, one way and the other."""
    model, p, q, links = s.job.model, s.plans, s.practice, s.machine.links
    device, curve = s.machine.cluster.device, s.machine.curves.matmul("bf16")
    bandwidth, tokens, d = device.memory_bandwidth, p.micro_batch * s.job.sequence / p.cp, model.d_model
    summed = all_reduce(links, groups["tp"], 2 * tokens * d)
    before = {"pointwise": 4 * 4 * tokens * d / (q.pointwise * bandwidth), "tensor": summed}
    n = model.vocab / p.tp
    three = [(tokens, n, d), (tokens, d, n), (n, d, tokens)]
    multiplied = sum(
        gemm(curve, device.peak_rate("bf16"), bandwidth, *shape, 2, 2, q.heat) for shape in three
    )
    loss = 24 * tokens * n / (q.pointwise * bandwidth) + 4 * curve.launch
    after = {"matmul": multiplied / (q.matmul * s.pace), "pointwise": loss, "tensor": summed}
    first = gemm(curve, device.peak_rate("bf16"), bandwidth, *three[0], 2, 2, q.heat) / (q.matmul * s.pace)
    there = first + (loss + summed) / 2
    return before, after, (there, sum(after.values()) - there)


def step_by_hand(s, groups, stages, parameters):
    """A step's seconds by cause; `stages` are its stages' layers, `parameters` those of the fullest."""
    job, model, p, q, w = s.job, s.job.model, s.plans, s.practice, s.software
    device, links = s.machine.cluster.device, s.machine.links
    m = job.batch / (p.dp * p.micro_batch)
    there, back = (a_layer(s, groups, backward) for backward in (False, True))
    repeated = {name: p.recomputed * seconds for name, seconds in there.items()}
    if p.selective and w.attention == "unfused":
        repeated["attention"] += (1 - p.recomputed) * there["attention"]
    if p.selective and w.selective_linear:
        repeated["matmul"] += (1 - p.recomputed) * w.selective_linear * there["matmul"]
        repeated["pointwise"] += (1 - p.recomputed) * there["pointwise"]
    forward, backward, over = (sum(part.values()) for part in (there, back, repeated))
    before, after, of_head = the_ends(s, groups)
    share = q.overlap_data if w.overlap_data else 0.0
    word = s.job.recipe.gradient if w.gradient is None else w.gradient

    def gathered(count):
        return ring(links, "all_gather", groups["shard"], 2 * count) if p.shard > 1 else 0.0

    def scattered(count):
        return ring(links, "reduce_scatter", groups["shard"], word * count) if p.shard > 1 else 0.0

    held, sharded, tables = model.layer_parameters / p.tp, 0.0, 0.0
    if p.zero >= 2:
        gather = gathered(held) if p.zero == 3 else 0.0
        sharded = hidden_behind(gather, forward, share, q)
        sharded += hidden_behind(gather + scattered(held), backward + over, share, q)
        # Embedding and head, each gathered but once and behind its own passes.
        half = before["tensor"] / 2
        of_embedding = (before["pointwise"] / 4 + half, 3 * before["pointwise"] / 4 + half)
        for count, behind in (
            (model.embedding_parameters / p.tp, of_embedding),
            (model.head_parameters / p.tp, of_head),
        ):
            tables += hidden_behind(gathered(count) if p.zero == 3 else 0.0, behind[0], share, q)
            tables += hidden_behind(scattered(count), behind[1], share, q)
    hop = 0.0
    if p.pp > 1:
        tier = max(i for i, n in enumerate(groups["pp"]) if n > 1)
        send, size = links[tier].curves.send, 2 * p.micro_batch * job.sequence / p.cp * model.d_model / p.tp
        hop = 2 * law(send, send.base, size / (send.share * links[tier].bandwidth)) * p.interleave
        hop *= 1 - (q.overlap_pipeline if w.overlap_pipeline else 0.0)

    one = forward + backward + over + sharded
    times = [count * one + hop for count in stages]
    times[0] += sum(before.values())
    times[-1] += sum(after.values()) + tables
    waiting = (sum(times) - max(times)) / p.interleave  # enough micro-batches to fill every stage
    flow = m * max(times) + waiting

    per_rank, near = parameters / p.tp, model.layers / p.pp
    if p.zero == 0:
        summing, gathering = all_reduce(links, groups["copies"], word * per_rank), 0.0
    else:
        replicas = [c // n for c, n in zip(groups["copies"], groups["shard"], strict=True)]
        summing = all_reduce(links, replicas, word * per_rank / p.shard)
        summing += scattered(per_rank) if p.zero == 1 else 0.0
        gathering = gathered(per_rank) if p.zero < 3 else 0.0
    # Passes that scatter their own gradients have nothing left to hide the sum over replicas.
    reduction = hidden_behind(summing, near * backward if p.zero < 2 else 0.0, share, q) + hidden_behind(
        gathering, near * forward, share, q
    )
    owned = per_rank / (p.shard if p.zero else 1)
    update = 30 * owned / (q.pointwise * device.memory_bandwidth)
    jitter = q.straggling * math.log10(max(1.0, p.devices / s.machine.cluster.tiers[0].size))
    total = (flow + reduction + update + q.host_step) * (1 + jitter)

    layers = m * model.layers / p.pp  # that an average stage passes

    def part(name):
        ends = before.get(name, 0.0) + after.get(name, 0.0)
        return layers * (there[name] + back[name]) + m / p.pp * ends

    attended = 12 * model.q_width * model.layers * job.sequence / 2
    multiplied = model.layers * model.layer_matmul_parameters + model.vocab * model.d_model
    useful = job.batch * job.sequence * (6 * multiplied + attended)
    ideal = useful / (p.devices * device.peak_rate(job.recipe.matmul))
    found = {
        "arithmetic": ideal,
        "kernel_efficiency": part("matmul") + part("attention") - ideal,
        "memory_bandwidth": part("pointwise"),
        "recomputation": layers * over,
        "host": part("host") + q.host_step,
        "tensor_parallel": part("tensor"),
        "context_parallel": part("context"),
        "pipeline_parallel": m * hop,
        "data_parallel": layers * sharded + m / p.pp * tables + reduction,
        "optimizer": update,
        "straggling": total * jitter / (1 + jitter),
    }
    return total, {**found, "pipeline_bubble": total - sum(found.values())}


def worked(model, device, software, precision, sequence, batch, **plan):
    job = Job(model=model, sequence=sequence, batch=batch, precision=precision)
    machine = Machine.of(catalogue.load(device))
    return Setting.of(job, machine, Plans(**plan), Practice(), SOFTWARE[software])


GPT3_LAYER = 12 * 12288**2 + 13 * 12288  # four matrices; their biases, 9 d; two norms, 4 d
TABLE = attrs.evolve(GPT3, positions=0)  # the last stage is the fullest: the same table, and the final norm
LLAMA_LAYER = 2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336 + 2 * 4096

WORKED = {
    "GPT-3 on 1,024 H100": (
        worked(
            *(TABLE, "h100-sxm", "megatron", "bf16", 2048, 1536),
            **{"tp": 8, "dp": 16, "pp": 8, "interleave": 6, "micro_batch": 1, "zero": 1, "shard": 16},
        ),
        {"tp": [8, 1], "cp": [1, 1], "pp": [1, 8], "copies": [1, 16], "shard": [1, 16]},
        [12] * 8,
        12 * GPT3_LAYER + (50257 + 2) * 12288,
    ),
    "GPT-3 on 768 A100, before fused attention": (
        worked(
            *(TABLE, "a100-80gb-sxm", "megatron-2021", "fp16", 2048, 1536),
            **{"tp": 8, "dp": 8, "pp": 12, "micro_batch": 2, "recomputed": 1.0, "sequence_parallel": False},
        ),
        {"tp": [8, 1], "cp": [1, 1], "pp": [1, 12], "copies": [1, 8], "shard": [1, 1]},
        [8] * 12,
        8 * GPT3_LAYER + (50257 + 2) * 12288,
    ),
    "GPT-3 in fp8, two ranks of context": (
        worked(
            *(TABLE, "h100-sxm", "nemo", "fp8", 8192, 512),
            **{
                "tp": 4,
                "cp": 2,
                "dp": 8,
                "pp": 4,
                "zero": 1,
                "shard": 16,
                "recomputed": 0.25,
                "selective": True,
            },
        ),
        {"tp": [4, 1], "cp": [2, 1], "pp": [1, 4], "copies": [2, 8], "shard": [2, 8]},
        [24] * 4,
        24 * GPT3_LAYER + (50257 + 2) * 12288,
    ),
    "Llama 3.1 8B, fully sharded": (
        worked(
            *(LLAMA, "h100-sxm", "torchtitan", "bf16", 8192, 256),
            **{"dp": 128, "zero": 3, "shard": 128, "micro_batch": 2, "selective": True},
        ),
        {"tp": [1, 1], "cp": [1, 1], "pp": [1, 1], "copies": [8, 16], "shard": [8, 16]},
        [32],
        32 * LLAMA_LAYER + 2 * 128256 * 4096 + 4096,
    ),
    "Llama 3.1 8B, sharded by node, gradients too": (
        worked(
            *(LLAMA, "h100-sxm", "torchtitan-eager", "fp8-block", 8192, 64),
            **{"tp": 2, "dp": 32, "zero": 2, "shard": 4},
        ),
        {"tp": [2, 1], "cp": [1, 1], "pp": [1, 1], "copies": [4, 8], "shard": [4, 1]},
        [32],
        32 * LLAMA_LAYER + 2 * 128256 * 4096 + 4096,
    ),
    "GPT-3 with as many layers as ends leave": (
        worked(
            *(attrs.evolve(TABLE, layers=94), "a100-80gb-sxm", "plain", "bf16", 2048, 512),
            **{"tp": 8, "dp": 4, "pp": 8, "zero": 1, "shard": 4},
        ),
        {"tp": [8, 1], "cp": [1, 1], "pp": [1, 8], "copies": [1, 4], "shard": [1, 4]},
        [11, *[12] * 6, 11],
        12 * GPT3_LAYER,
    ),
}


@pytest.mark.parametrize("name", WORKED)
def test_every_term_of_a_step_in_plain_numbers(name):
    one, groups, stages, parameters = WORKED[name]
    total, expected = step_by_hand(one, groups, stages, parameters)
    found = causes(one)
    assert float(step(one).seconds) == pytest.approx(total, rel=1e-9)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * total)


def test_a_step_of_gpt3_is_what_a_reader_expects():
    """1,024 H100, 1,536 sequences: 3.2e21 FLOP over 1e18 FLOP/s are 3.2 seconds, at half of the peak 6."""
    found = step(WORKED["GPT-3 on 1,024 H100"][0])
    assert float(found.by_cause["arithmetic"]) == pytest.approx(3.33, rel=0.02)
    assert 0.4 < float(found.mfu) < 0.65


# What holds for any plan


@given(seeds)
def test_causes_add_up_and_none_is_negative(seed):
    one = drawn(seed)
    found, seconds = causes(one), float(step(one).seconds)
    assert list(found) == list(TRAINING_CAUSES)
    assert sum(found.values()) == pytest.approx(seconds, rel=1e-12)
    assert min(found.values()) >= -1e-12 * seconds
    assert math.isfinite(seconds)


@given(seeds)
def test_utilisation(seed):
    one = drawn(seed)
    found = step(one)
    peak = one.plans.devices * one.machine.cluster.device.peak_rate(one.job.recipe.matmul)
    assert 0.0 < found.mfu <= found.hfu <= 1.0
    assert found.seconds >= one.job.model_flop / peak
    assert found.mfu == pytest.approx(one.job.model_flop / peak / found.seconds, rel=1e-12)
    assert found.tokens_per_second == pytest.approx(one.job.tokens / found.seconds, rel=1e-12)


@given(seeds)
def test_utilisation_of_hardware_counts_what_is_repeated(seed):
    one = drawn(seed)
    model, sequence = one.job.model, one.job.sequence
    whole = model.training_flop(sequence)
    head = 6 * model.vocab * model.table_width
    ratios = [
        float(found.hfu / found.mfu)
        for share in (0.0, 1.0)
        for found in [step(replanned(one, recomputed=share, selective=False))]
    ]
    assert ratios[0] == pytest.approx(1.0, rel=1e-12)
    assert ratios[1] == pytest.approx(1.0 + (whole - head) / 3 / whole, rel=1e-12)


def faster(one, what, factor):
    machine, cluster = one.machine, one.machine.cluster
    device = cluster.device
    if what == "memory":
        device = attrs.evolve(device, memory_bandwidth=factor * device.memory_bandwidth)
    if what == "peak":
        device = attrs.evolve(device, peak={name: factor * rate for name, rate in device.peak.items()})
    tiers = tuple(
        attrs.evolve(tier, bandwidth=factor * tier.bandwidth) if what == f"tier {i}" else tier
        for i, tier in enumerate(cluster.tiers)
    )
    cluster = attrs.evolve(cluster, device=device, tiers=tiers)
    return again(one, machine=attrs.evolve(machine, cluster=cluster, links=transport.links(cluster)))


def seconds(one):
    return float(step(one).seconds)


@pytest.mark.parametrize("what", ["memory", "peak", "tier 0", "tier 1"])
@given(seeds, st.sampled_from([1.0001, 1.1, 2.0, 10.0, 1000.0]))
def test_faster_hardware_is_never_slower(what, seed, factor):
    one = drawn(seed)
    assert seconds(faster(one, what, factor)) <= seconds(one) * (1 + 1e-12)


@pytest.mark.parametrize("what", ["memory", "peak"])
def test_faster_hardware_is_never_slower_with_hybrid_sharding(what):
    model = read_model("llama-3.1-405b")
    job = Job(model=model, sequence=512, batch=128, precision="fp8")
    plans = Plans(dp=64, micro_batch=2, zero=2, shard=8)
    machine = Machine.of(catalogue.load("h100-sxm"))
    one = Setting.of(job, machine, plans, Practice(), SOFTWARE["megatron"])
    assert seconds(faster(one, what, 100.0)) <= seconds(one)


@given(seeds, st.floats(1.0, 3.0))
def test_more_power_is_never_slower(seed, factor):
    one = drawn(seed)
    more = again(one, machine=attrs.evolve(one.machine, power=factor * one.machine.power))
    assert seconds(more) <= seconds(one) * (1 + 1e-12)


UP = {"contention": 1, "straggling": 1, "host_layer": 1, "host_step": 1, "heat": 1}
DOWN = {
    "overlap_tensor": 1,
    "overlap_data": 1,
    "overlap_pipeline": 1,
    "matmul": 0.1,
    "attention": 0.1,
    "pointwise": 0.1,
}


@pytest.mark.parametrize("name", [*UP, *DOWN])
@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_practice_costs_or_saves(name, seed, a, b):
    """Overlap and efficiency never cost; contention, straggling, a slower host and heat never save."""
    one = drawn(seed)
    least = 0.1 if DOWN.get(name) == 0.1 else 0.0
    low, high = (
        seconds(again(one, practice=attrs.evolve(one.practice, **{name: max(least, value)})))
        for value in sorted((a, b))
    )
    assert high >= low * (1 - 1e-12) if name in UP else high <= low * (1 + 1e-12)


@given(seeds, st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_more_recomputation_is_never_faster(seed, a, b, selective):
    one = replanned(drawn(seed), selective=selective)
    low, high = (seconds(replanned(one, recomputed=share)) for share in sorted((a, b)))
    assert high >= low * (1 - 1e-12)
    assert seconds(replanned(one, selective=True)) >= seconds(replanned(one, selective=False)) * (1 - 1e-12)


@given(seeds)
def test_software_that_overlaps_is_never_slower(seed):
    one = drawn(seed)
    for kind in ("overlap_tensor", "overlap_data", "overlap_pipeline"):
        off, on = (again(one, software=attrs.evolve(one.software, **{kind: flag})) for flag in (False, True))
        assert seconds(on) <= seconds(off) * (1 + 1e-12)


@given(seeds)
def test_passes_of_the_stages_are_what_a_step_adds_up(seed):
    one = drawn(seed)
    plans, found = one.plans, stage_passes(one)
    both = [float(there + back) for there, back in zip(found.forward, found.backward, strict=True)]
    m = float(plans.microbatches(one.job.batch))
    counts = [float(c) for c in stage_layers(one.job.model.layers, plans.pp, plans.interleave)]
    between = max(0, int(plans.pp) - 2) * counts[1]
    assume(plans.pp == 1 or counts[0] + between + counts[2] == one.job.model.layers)
    flow = float(pipeline_seconds(*both, plans.pp, m, plans.interleave))
    if plans.zero_bubble and plans.pp > 1:
        flow = m * max(both if plans.pp > 2 else (both[0], both[2]))
    total = (flow + sum(float(part) for part in found.ends.values())) * (1 + float(found.straggling))
    assert total == pytest.approx(seconds(one), rel=1e-12)


@given(seeds)
def test_seconds_alone_are_those_of_the_step(seed):
    one = drawn(seed)
    assert float(step_seconds(one)) == pytest.approx(seconds(one), rel=1e-12)


# What is absent


@given(seeds)
def test_one_stage_has_no_bubble_and_sends_nothing(seed):
    found = causes(replanned(drawn(seed), pp=1, interleave=1, zero_bubble=False))
    assert found["pipeline_parallel"] == 0.0
    assert abs(found["pipeline_bubble"]) <= 1e-12 * sum(found.values())


@given(seeds, st.integers(0, 3))
def test_one_copy_has_nothing_to_reduce(seed, zero):
    one = drawn(seed)
    plans = attrs.evolve(one.plans, cp=1, dp=1, shard=1, zero=zero)
    job = attrs.evolve(one.job, batch=one.job.batch // one.plans.dp)
    assert causes(again(one, plans=plans, job=job))["data_parallel"] == 0.0


@given(seeds)
def test_one_rank_of_tensors_or_context_has_no_traffic(seed):
    one = drawn(seed)
    assert causes(replanned(one, tp=1))["tensor_parallel"] == 0.0
    assert causes(replanned(one, cp=1, shard=one.plans.dp))["context_parallel"] == 0.0


@given(seeds)
def test_sharding_the_optimizer_changes_reduction_and_update_alone(seed):
    one = drawn(seed, hybrid=False)
    none, some = (causes(replanned(one, zero=zero)) for zero in (0, 1))
    changed = {"data_parallel", "optimizer", "straggling"}
    total = sum(none.values())
    for name in set(TRAINING_CAUSES) - changed:
        assert some[name] == pytest.approx(none[name], rel=1e-12, abs=1e-12 * total)
    assert some["optimizer"] * one.plans.shard == pytest.approx(none["optimizer"], rel=1e-12)


@given(seeds)
def test_zero_bubble_leaves_only_uneven_stages(seed):
    one = replanned(drawn(seed), zero_bubble=False, interleave=1)
    bubbled, none = (
        causes(one)["pipeline_bubble"],
        causes(replanned(one, zero_bubble=True))["pipeline_bubble"],
    )
    assert none <= bubbled + 1e-9
    assert none >= -1e-12 * seconds(one)


def test_more_interleaving_means_less_bubble_and_more_sends():
    found = [causes(setting(tp=8, pp=4, interleave=v, dp=2)) for v in (1, 2, 4, 8)]
    bubbles, sends = ([one[name] for one in found] for name in ("pipeline_bubble", "pipeline_parallel"))
    assert bubbles == sorted(bubbles, reverse=True)
    assert sends == pytest.approx([v * sends[0] for v in (1, 2, 4, 8)])


# Many plans at once

AXES = {
    "tp": np.array([1, 8]),
    "cp": np.array([1, 2]),
    "dp": np.array([1, 3, 16]),
    "pp": np.array([1, 2, 8]),
    "interleave": np.array([1, 3]),
    "micro_batch": np.array([1, 2]),
    "zero": np.array([0, 1, 2, 3]),
    "recomputed": np.array([0.0, 0.5]),
    "zero_bubble": np.array([False, True]),
}


@pytest.mark.parametrize(
    ("model", "device", "software", "precision"),
    [
        (GPT3, "gb200", "megatron", "fp8"),
        (GPT3, "a100-80gb-sxm", "megatron-2021", "fp16"),
        (LLAMA, "h100-sxm", "torchtitan", "bf16"),
    ],
)
def test_an_open_grid_is_each_plan_alone(model, device, software, precision):
    shape = tuple(len(values) for values in AXES.values())
    opened = dict(zip(AXES, np.meshgrid(*AXES.values(), indexing="ij", sparse=True), strict=True))
    job = Job(model=model, sequence=4096, batch=768, precision=precision)
    base = Setting.of(job, Machine.of(catalogue.load(device)), Plans(), Practice(), SOFTWARE[software])
    many = step(replanned(base, **opened, shard=opened["dp"] * opened["cp"], selective=True))
    found = {name: np.broadcast_to(values, shape) for name, values in many.by_cause.items()}
    found |= {name: np.broadcast_to(getattr(many, name), shape) for name in ("seconds", "mfu", "hfu")}
    places = list(itertools.product(*(range(n) for n in shape)))
    for at in Random(device).sample(places, 250):
        alone = {name: values[i].item() for (name, values), i in zip(AXES.items(), at, strict=True)}
        one = step(replanned(base, **alone, shard=alone["dp"] * alone["cp"], selective=True))
        expected = {name: float(value) for name, value in one.by_cause.items()}
        expected |= {name: float(getattr(one, name)) for name in ("seconds", "mfu", "hfu")}
        entry = {name: float(values[at]) for name, values in found.items()}
        assert entry == pytest.approx(expected, rel=1e-12, abs=1e-13 * expected["seconds"])


# Weights of the fullest stage


@pytest.mark.parametrize(
    ("model", "pp", "v", "fullest"),
    [
        (LLAMA, 1, 1, 32 * LLAMA_LAYER + 2 * 128256 * 4096 + 4096),
        (LLAMA, 4, 1, 8 * LLAMA_LAYER + 128256 * 4096 + 4096),  # the last: head and final norm
        (TABLE, 8, 1, 12 * GPT3_LAYER + (50257 + 2) * 12288),  # the last: a copy of the table, the norm
        (attrs.evolve(GPT3, layers=94), 8, 1, 12 * GPT3_LAYER),  # one between: a layer more than the ends
    ],
)
def test_parameters_of_the_fullest_stage(model, pp, v, fullest):
    job = Job(model=model, sequence=2048, batch=64)
    for tp in (1, 8):
        plans = Plans(tp=tp, pp=pp, interleave=v)
        assert float(stage_parameters(job, plans)) == pytest.approx(fullest / tp, rel=1e-12)


def test_parameters_of_a_stage_with_learned_positions():
    """The first of eight: tokens and positions; the last has the tokens' table and a norm of 2 d."""
    job, plans = Job(model=GPT3, sequence=2048, batch=64), Plans(pp=8)
    assert float(stage_parameters(job, plans)) == 12 * GPT3_LAYER + (50257 + 2048) * 12288


def test_parameters_of_two_stages():
    """Six layers in four chunks: three each, as embedding and head count as one; nothing has four."""
    model = attrs.evolve(GPT3, layers=6)
    job, plans = Job(model=model, sequence=2048, batch=64), Plans(pp=2, interleave=2)
    assert float(stage_parameters(job, plans)) == pytest.approx(3 * GPT3_LAYER + (50257 + 2048) * 12288)


def test_a_larger_vocabulary_is_more_to_gather():
    """Of Llama 3.1 8B an eighth is embedding and head: gathered twice, scattered once, like all else."""
    small = attrs.evolve(LLAMA, vocab=8)
    found = [
        causes(setting(m, software="plain", dp=16, zero=3, shard=16))["data_parallel"] for m in (small, LLAMA)
    ]
    assert found[1] > 1.05 * found[0]
