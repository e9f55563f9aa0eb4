"""Our figures for claims about laws, single formulas and published runs: nothing here is searched."""

from __future__ import annotations

import datetime
import math

import attrs
import numpy as np

from scalewall.cost import block, collective, matmul, step
from scalewall.cost.assumptions import Assumptions
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.study import closed_form
from scalewall.study.claim_bench import Bench, Finding, figure
from scalewall.units import YEAR
from scalewall.workload.operators import Linear, ideal_block
from scalewall.workload.scaling import BATCH_LAWS, PowerLaw, Scaling

MONTH = YEAR / 12.0
ARTICLE_DAY = datetime.date(2024, 11, 1)
"""The article appeared in October 2024: models known by then count."""

TRANSFORMER_FLOP, TRANSFORMER_RATE = 3.3e18, 9.5e12
"""Base model's compute and the P100's sustained fp32 rate that it was taken from (arXiv 1706.03762, table 2
and the note to section 6.1)."""
LLAMA_FLOP, LLAMA_MFU, LLAMA_GPUS, LLAMA_GPU_HOURS = 3.8e25, 0.41, 16_384, 30.84e6
"""Llama 3.1 405B: compute, MFU and GPUs by arXiv 2407.21783 (table 4), GPU-hours by its model card."""
LLAMA_FAILURES, LLAMA_DAYS = 419, 54
"""Unexpected interruptions of that run and the days of the count (arXiv 2407.21783, section 3.3.4)."""
GPT3_BATCH, FALCON_BATCH = 3.2e6, 2048.0 * 2048.0
"""Tokens a batch at its full size, which both runs reached in steps: arXiv 2005.14165, table 2.1; the model
card of Falcon-180B, 2048 sequences of 2048."""
FALCON_DEGREES = {"dp": 64, "pp": 8, "tp": 8}
"""Parallelism of Falcon-180B, by its model card."""
_STEPS = 64


# Published runs


@figure
def growth_rate(bench: Bench) -> Finding:
    """Growth of the frontier's compute a year, fitted to the models known when the article appeared."""
    from scalewall.study.forecast import fit_trend
    from scalewall.study.notable import read_models

    known = tuple(model for model in read_models() if model.date < ARTICLE_DAY)
    trend = fit_trend(known, since=2010, top=10)
    low, high = trend.growth_interval
    note = (
        f"Fit to {len(trend.models)} models of 2010 to October 2024 that were among the ten largest when "
        f"published (data: Epoch AI, CC BY 4.0); 95% interval {low:.2f} to {high:.2f}."
    )
    return Finding(trend.growth, note)


@figure
def run_length(bench: Bench) -> Finding:
    """Not computable: the models that ship come without their run times."""
    return Finding(
        None, "The table of models that ships holds no run times; three months are an assumption here too."
    )


@figure
def current_largest(bench: Bench) -> Finding:
    """Largest known training compute when the article appeared."""
    from scalewall.study.notable import read_models

    largest = max((m for m in read_models() if m.date < ARTICLE_DAY), key=lambda m: m.training_flop)
    return Finding(largest.training_flop, f"{largest.name}, {largest.date} (data: Epoch AI, CC BY 4.0).")


@figure
def transformer_gpu_hours(bench: Bench) -> Finding:
    """Published compute over the published sustained rate."""
    return Finding(
        TRANSFORMER_FLOP / TRANSFORMER_RATE / 3600.0, "3.3e18 FLOP at 9.5 TFLOP/s (arXiv 1706.03762)."
    )


@figure
def llama_gpus_and_months(bench: Bench) -> Finding:
    """GPUs as published, and the months they take for the compute at the published MFU."""
    rate = LLAMA_MFU * bench.entry("h100-sxm").device.peak_rate() * LLAMA_GPUS
    months = LLAMA_FLOP / rate / MONTH
    note = (
        f"{LLAMA_FLOP:.1e} FLOP at an MFU of {LLAMA_MFU:.0%} (arXiv 2407.21783). The model card's "
        f"{LLAMA_GPU_HOURS / 1e6:.1f}M GPU-hours would be "
        f"{LLAMA_GPU_HOURS * 3600 / LLAMA_GPUS / MONTH:.1f} months."
    )
    return Finding((float(LLAMA_GPUS), months), note)


@figure
def falcon_gpus(bench: Bench) -> Finding:
    """Product of the published degrees."""
    return Finding(
        float(math.prod(FALCON_DEGREES.values())),
        "64 x 8 x 8 by its model card; arXiv 2311.16867 has 4,096 A100.",
    )


@figure
def batches(bench: Bench) -> Finding:
    """Published batches of both models."""
    law = math.exp(PowerLaw.parse(BATCH_LAWS["baseline"]).log({"C": math.log(3.14e23), "S": 0.0}))
    note = (
        "GPT-3's own paper says 3.2M (arXiv 2005.14165), Falcon-180B's model card 2048 sequences of 2048. "
        f"The baseline law has {law:.3g} at GPT-3's compute."
    )
    return Finding((GPT3_BATCH, FALCON_BATCH), note)


@figure
def failures(bench: Bench) -> Finding:
    """Not computable: there is no model of failures. How often the cluster at the knee would fail."""
    devices = bench.curve().knee.n_devices
    rate = LLAMA_FAILURES / (LLAMA_DAYS * 86400.0 * LLAMA_GPUS)
    between = 1.0 / (rate * devices)
    note = (
        "No model of failures and recovery here. At Llama 3's published rate "
        f"({LLAMA_FAILURES} in {LLAMA_DAYS} days on {LLAMA_GPUS:,} GPUs, arXiv 2407.21783) one of the "
        f"{devices:,} devices at the knee fails every {between:.0f} s: they could not all restart from a "
        "checkpoint each time, as runs do today."
    )
    return Finding(None, note)


# Single formulas


@figure
def matmul_intensity(bench: Bench) -> Finding:
    """FLOP and words of a square multiplication on a device without caches, over d^3 and d^2."""
    side, word = 4096.0, 2.0
    bare = attrs.evolve(bench.device.device, caches=())
    line = matmul.lines(bare, side, side, weight_gradient=False, fill=1.0, word=word, whole=False)
    fixed, per_token = line.levels[0]
    flop = line.useful * side * bare.sustained_rate()
    words = (fixed + per_token * side) * bare.memory_bandwidth / word
    return Finding(
        (float(flop) / side**3, float(words) / side**2), "From the cost functions, without caches."
    )


@figure
def matmul_entries(bench: Bench) -> Finding:
    """Entries of three square matrices from which arithmetic takes longer than anything else."""
    device, how = bench.device.device, Assumptions()
    sides = np.geomspace(64.0, 2e5, 4001)
    line = matmul.lines(
        device, sides, sides, weight_gradient=False, fill=how.fill, word=how.word, whole=False
    )
    arithmetic = line.padded * sides
    levels = np.max([np.broadcast_to(f + m * sides, sides.shape) for f, m in line.levels], axis=0)
    free = _from_where(sides, arithmetic >= levels)
    value = _from_where(sides, arithmetic >= np.maximum(levels, device.kernel_latency))
    if value is None or free is None:
        return Finding(None, "Arithmetic never takes longest: memory or caches bind at any size.")
    note = (
        f"Memory and caches stop binding at {free:.2g} entries; from the figure shown on, arithmetic "
        "outlasts a kernel's start too."
    )
    return Finding(value, note)


def _from_where(sides: np.ndarray, holds: np.ndarray) -> float | None:
    """Return the entries of three matrices of the least side from which on `holds` holds."""
    if not holds[-1]:
        return None
    last_miss = np.flatnonzero(~holds)
    first = int(last_miss[-1]) + 1 if len(last_miss) else 0
    return 3.0 * float(sides[first]) ** 2


@figure
def reductions_a_step(bench: Bench) -> Finding:
    """All-reduces of a step's gradients, whatever the number of micro-batches."""
    counts = [_reductions(microbatches) for microbatches in (1.0, 2.0, 16.0)]
    return Finding(max(counts), "The same for 1, 2 and 16 micro-batches, as the step is priced.")


def _reductions(microbatches: float) -> float:
    """Return how many all-reduces' latency the data-parallel reduction of a step takes, on one network."""
    cluster = _one_network(1.0)
    one = [np.array([1.0])]
    degrees = {axis: one for axis in step.AXES} | {"dp": [np.array([8.0])]}
    strategies = step.Strategies(
        degrees=degrees,
        microbatches=np.array([microbatches]),
        interleave=np.array([1.0]),
        zero_bubble=np.array([False]),
    )
    parts = step.parts(cluster, Scaling().workload(1e24), strategies, Assumptions())
    return float(np.ravel(parts.reduction_latency)[0]) / _all_reduce(cluster)


@figure
def multiplications_a_synchronisation(bench: Bench) -> Finding:
    """Multiplications on the way of a token for each all-reduce: split in two dimensions, and in one."""
    operators = ideal_block(12288.0, 4 * 12288.0)
    passed = 2.0 * sum(isinstance(operator, Linear) for operator in operators)  # forward and backward
    cluster = _one_network(1.0)
    found = []
    for split in ({"tp_model": 2.0, "tp_ff": 2.0}, {"tp_model": 1.0, "tp_ff": 2.0}):
        degrees = {axis: [np.array([split.get(axis, 1.0)])] for axis in step.AXES}
        waits = block.tensor_latency(cluster, operators, degrees)
        found.append(passed * _all_reduce(cluster) / float(np.ravel(waits)[0]))
    return Finding((found[0], found[1]), "One where both dimensions are split, two where only the MLP's is.")


@figure
def tree_latency(bench: Bench) -> Finding:
    """Latency of an all-reduce over 1024 nodes and over 32, where every tier joins two."""

    def latency(depth: int) -> float:
        tiers = [Tier(name=f"level {i}", size=2.0, bandwidth=1.0, latency=1.0) for i in range(depth)]
        return float(collective.all_reduce_latency(tiers, [2.0] * depth))

    note = (
        "By construction: a tree is tiers of two, each of which waits twice. The catalogue's clusters have "
        "few and wide tiers, whose latency is taken not to grow with their members."
    )
    return Finding(latency(10) / latency(5), note)


def _one_network(latency: float) -> Cluster:
    """Return a cluster of the catalogue's H100 on one network of that latency."""
    entry = catalogue.load("h100-sxm")
    return attrs.evolve(entry, tiers=(Tier(name="one", bandwidth=1e9, latency=latency),))


def _all_reduce(cluster: Cluster) -> float:
    return float(np.ravel(collective.all_reduce_latency(cluster.tiers, [np.array([2.0])]))[0])


# The closed form


@figure
def wall_coefficient(bench: Bench) -> Finding:
    """What divides t B / (L latency) in the closed form; from the block it is 4 waits of 20 tokens."""
    w = closed_form.wall()
    value = w.duration * w.batch / (w.layers * w.latency * w.parameters)
    waits = 2 * sum(isinstance(operator, Linear) for operator in ideal_block(1.0, 4.0))
    return Finding(value, f"Counted from the block: {waits} x {Scaling().tokens_per_parameter:g}.")


@figure
def wall_parameters(bench: Bench) -> Finding:
    """The closed form's parameters at the claim's own values."""
    longer = closed_form.wall(duration="100 days").parameters
    return Finding(
        closed_form.wall().parameters, f"A quarter of a year; it takes 100 days to give {longer:.2g}."
    )


@figure
def wall_flop(bench: Bench) -> Finding:
    """The closed form's training compute at the claim's own values."""
    longer = closed_form.wall(duration="100 days").training_flop
    return Finding(
        closed_form.wall().training_flop,
        f"A quarter of a year, so it only just rounds to the claim; 100 days give {longer:.3g}.",
    )


# Scaling laws


@figure
def compute_exponent(bench: Bench) -> Finding:
    """Slope of log compute over log parameters, from two compute-optimal models."""
    return Finding(1.0 / _slope("parameters"), "From the models of 1e24 and 1e28 FLOP.")


@figure
def batch_exponent(bench: Bench) -> Finding:
    """Slope of log batch over log parameters under the baseline law."""
    return Finding(_slope("batch_tokens") / _slope("parameters"), "From the models of 1e24 and 1e28 FLOP.")


@figure
def depth_exponent(bench: Bench) -> Finding:
    """Slope of log depth over log parameters under the baseline law."""
    return Finding(
        _slope("layers") / _slope("parameters"), "The baseline law, 0.10056 (d f)^0.3751, in parameters."
    )


@figure
def net_exponent(bench: Bench) -> Finding:
    """Batch's exponent less depth's, which is what is left of both in the closed form."""
    value = (_slope("batch_tokens") - _slope("layers")) / _slope("parameters")
    usual = closed_form.wall()
    flop = usual.training_flop
    for _ in range(_STEPS):  # a contraction, by the small exponent that is left
        w = Scaling().workload(flop)
        flop = closed_form.wall(layers=w.layers, batch=w.batch_tokens).training_flop
    note = (
        f"With depth and batch of the wall's own model the closed form moves from "
        f"{usual.training_flop:.3g} to {flop:.3g} FLOP ({Scaling().workload(flop).layers:.0f} blocks)."
    )
    return Finding(value, note)


def _slope(name: str) -> float:
    """Return the slope of a workload's quantity over compute, in logarithms."""
    low, high = (Scaling().workload(flop) for flop in (1e24, 1e28))
    span = math.log(high.training_flop / low.training_flop)
    return math.log(getattr(high, name) / getattr(low, name)) / span


@figure
def zhang_law(bench: Bench) -> Finding:
    """Coefficient and exponent of the law that the catalogue of laws has."""
    law = PowerLaw.parse(BATCH_LAWS["zhang-2024"])
    return Finding((law.coefficient, law.exponents["D"]), "As scalewall has it, from arXiv 2410.21676.")


# Hardware over the years


@figure
def latency_improvement(bench: Bench) -> Finding:
    """Latency's improvement from the V100 to its vendor's newest device, over the least of the others'."""
    old = bench.entry("v100")
    newest = max(
        (c for c in catalogue.load_all() if c.vendor == old.vendor and c.released), key=lambda c: c.released
    )
    a, b = old.device, newest.device
    factors = {
        "arithmetic": b.peak_rate() / a.peak_rate(),
        "memory": b.memory / a.memory,
        "memory bandwidth": b.memory_bandwidth / a.memory_bandwidth,
        "scale-up bandwidth": newest.tiers[0].bandwidth / old.tiers[0].bandwidth,
        "scale-out bandwidth": newest.tiers[-1].bandwidth / old.tiers[-1].bandwidth,
    }
    listed = ", ".join(f"{name} {factor:.1f}x" for name, factor in factors.items())
    source = newest.sources.get("device.kernel_latency")
    if source is None or source.derived:
        note = (
            "The catalogue takes the V100's latencies for all later devices, which no source states: nothing "
            f"can be learnt from them. Others, V100 to {newest.name}: {listed}."
        )
        return Finding(None, note)
    value = a.kernel_latency / b.kernel_latency / min(factors.values())
    return Finding(
        value, f"V100 to {newest.name}: kernel latency {a.kernel_latency / b.kernel_latency:.1f}x, {listed}."
    )
