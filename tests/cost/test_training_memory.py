"""Memory of training: against published formulas and readings, and that it leans the right way."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from random import Random

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost.layer import Setting
from scalewall.cost.machine import Machine
from scalewall.cost.plans import Plans
from scalewall.cost.practice import SOFTWARE, Practice
from scalewall.cost.training_memory import (
    MEMORY_ITEMS,
    STAGES,
    Allowance,
    in_flight,
    layer_activations,
    layer_input,
    least_recomputed,
    memory_bytes,
    stage_bytes,
    total_bytes,
)
from scalewall.hardware.catalogue import load
from scalewall.workload.job import Job
from scalewall.workload.model import Model

GIB = 2.0**30
DATA = Path(__file__).resolve().parents[1] / "data" / "memory_readings.csv"
with DATA.open(newline="", encoding="utf-8") as file:
    READINGS = list(csv.DictReader(file))

# Korthikanti et al. (arXiv 2205.05198), table 3: layers, width, heads, tensor and pipeline parallelism,
# chunks a stage, micro-batch, batch; sequences of 2048 tokens.
PAPER = {
    "22B": (48, 6144, 64, 8, 1, 1, 4, 4),
    "175B": (96, 12288, 96, 8, 8, 3, 1, 64),
    "530B": (105, 20480, 128, 8, 35, 3, 1, 280),
    "1T": (128, 25600, 160, 8, 64, 1, 1, 512),
}


def model(layers, width, heads, kv_heads=None, ff=None, vocab=51200, gated=False, tied=False):
    return Model(
        name="model",
        layers=layers,
        d_model=width,
        heads=heads,
        kv_heads=kv_heads or heads,
        head_dim=width // heads,
        d_ff=ff or 4 * width,
        vocab=vocab,
        gated=gated,
        tied=tied,
    )


LLAMA = model(80, 8192, 64, kv_heads=8, ff=28672, vocab=128256, gated=True)


def setting(what, plans, sequence=2048, batch=512, precision="bf16", software="megatron", device="h100-sxm"):
    job = Job(model=what, sequence=sequence, batch=batch, precision=precision)
    return Setting.of(job, Machine.of(load(device), 1.0), plans, Practice(), SOFTWARE[software])


def of_paper(name, **options):
    layers, width, heads, tp, pp, v, b, batch = PAPER[name]
    plans = Plans(tp=tp, pp=pp, interleave=v, micro_batch=b, **options)
    return setting(model(layers, width, heads), plans, batch=batch, software="megatron-2021")


def symbols(name):
    layers, h, a, t, pp, v, b, _ = PAPER[name]
    return 2048, b, h, a, t, layers, pp, v


# Activations


@pytest.mark.parametrize("name", PAPER)
def test_a_layer_keeps_what_korthikanti_count(name):
    s, b, h, a, t, *_ = symbols(name)
    with_tensor = s * b * h * (10 + 24 / t + 5 * a * s / (h * t))
    with_sequence = s * b * h / t * (34 + 5 * a * s / h)
    assert layer_activations(of_paper(name, sequence_parallel=False)) == pytest.approx(with_tensor, rel=1e-12)
    assert layer_activations(of_paper(name)) == pytest.approx(with_sequence, rel=1e-12)
    alone = attrs.evolve(of_paper(name), plans=Plans(micro_batch=b, sequence_parallel=False))
    assert layer_activations(alone) == pytest.approx(s * b * h * (34 + 5 * a * s / h), rel=1e-12)


@pytest.mark.parametrize("name", PAPER)
def test_the_first_stage_keeps_what_korthikanti_count(name):
    s, b, h, _, t, layers, p, v = symbols(name)
    chunks = 1 + (p - 1) / (p * v) if v > 1 else 1.0
    kept = stage_bytes(of_paper(name, selective=True))["first"]["activations"]
    embedding = s * b * h / t * in_flight(of_paper(name), "first")
    output = 4 * s * b * h / t if p == 1 else 0.0
    assert kept == pytest.approx(34 * s * b * h * layers / t * chunks + embedding + output, rel=1e-12)


def test_selection_and_sequence_parallelism_together_take_a_fifth():
    """The paper: five times less for its large models."""
    for name in ("175B", "530B", "1T"):
        most = layer_activations(of_paper(name, sequence_parallel=False))
        s, b, h, _, t, *_ = symbols(name)
        assert most / (34 * s * b * h / t) == pytest.approx(5, rel=0.1)


def test_a_gated_layer_with_a_fused_core():
    plans = Plans(tp=2)
    one = setting(LLAMA, plans)
    d, kv, ff, tokens = 8192, 1024, 28672, 2048
    norms, inputs, core = 2 * d, 3 * d + ff, d + 2 * kv
    # 16 bits of each and of both halves that the activation reads, 32 of a head's statistics.
    expected = tokens / 2 * (2 * (norms + inputs + core + 2 * ff) + 4 * 64)
    assert layer_activations(one) == pytest.approx(expected, rel=1e-12)
    narrow = setting(LLAMA, plans, precision="fp8")
    # In 8 bits the linear layers' inputs halve, but the core's output is then kept beside its copy.
    assert layer_activations(narrow) == pytest.approx(expected - tokens / 2 * (inputs - 2 * d), rel=1e-12)


def test_context_parallelism_splits_tokens():
    four = layer_activations(setting(LLAMA, Plans(cp=4), sequence=8192))
    assert four == pytest.approx(layer_activations(setting(LLAMA, Plans(), sequence=2048)), rel=1e-12)


# Parameters


@pytest.mark.parametrize(
    ("zero", "bytes_each"),
    [(0, 16.0), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)],
)
def test_bytes_a_parameter_are_zeros(zero, bytes_each):
    """Figure 1 of arXiv 1910.02054, gradients in 16 bits: 120, 31.4, 16.6 and 1.9 GB for 7.5B on 64."""
    items = memory_bytes(setting(LLAMA, Plans(dp=64, zero=zero, shard=64), precision="fp16"))
    state = sum(items[name] for name in ("weights", "gradients", "optimizer"))
    assert state == pytest.approx(bytes_each * LLAMA.parameters, rel=1e-12)


def test_bytes_a_parameter_are_megatrons():
    """18 bytes with gradients of 32 bits; 6 + 12/d with the distributed optimizer, over dp·cp."""
    for plans, each in ((Plans(), 18.0), (Plans(dp=8, cp=4, zero=1, shard=32), 6 + 12 / 32)):
        items = memory_bytes(setting(LLAMA, plans))
        state = sum(items[name] for name in ("weights", "gradients", "optimizer"))
        assert state == pytest.approx(each * LLAMA.parameters, rel=1e-12)


def test_a_tied_matrix_is_on_both_ends_of_a_pipeline():
    tied = model(24, 2048, 16, tied=True)
    whole = memory_bytes(setting(tied, Plans()))["weights"]
    stages = stage_bytes(setting(tied, Plans(pp=4)))
    spread = stages["first"]["weights"] + 2 * stages["second"]["weights"] + stages["last"]["weights"]
    assert whole == 2 * tied.parameters
    assert spread == 2 * (tied.parameters + tied.embedding_parameters)


# Readings


def read(row):
    number = {name: int(row[name]) for name in row if row[name].isdigit()}
    what = model(
        number["layers"],
        number["d_model"],
        number["heads"],
        kv_heads=number["kv_heads"],
        ff=number["d_ff"],
        vocab=number["vocab"],
        gated=True,
    )
    degrees = {name: number[name] for name in ("tp", "cp", "pp", "dp", "micro_batch", "zero", "shard")}
    plans = Plans(
        **degrees, recomputed=float(row["recompute"] == "full"), selective=row["recompute"] == "selective"
    )
    return setting(
        what,
        plans,
        sequence=number["sequence"],
        batch=number["batch"],
        precision=row["precision"],
        software=row["software"],
        device=row["device"],
    )


def reading_error(row):
    items = memory_bytes(read(row))
    total = sum(items[name] for name in MEMORY_ITEMS)
    # Allocated memory is without context and fragmentation, reserved memory without context.
    apart = items["framework"] if row["source"] == "simumax" else Allowance().framework
    return float((total - apart) / GIB / float(row["peak_gib"]) - 1.0)


@pytest.mark.parametrize(
    ("source", "most", "median"), [("simumax", 0.013, 0.006), ("torchtitan", 0.08, 0.05)]
)
def test_near_to_readings(source, most, median):
    errors = np.array([abs(reading_error(row)) for row in READINGS if row["source"] == source])
    assert len(errors) >= 4
    assert errors.max() < most
    assert np.median(errors) < median


# Stages


def drawn(seed, software=None):
    """Some setting whose stages are even."""
    dice = Random(seed)
    layers = dice.choice([12, 24, 48])
    gated = dice.random() < 0.5
    what = model(layers, 1024 * dice.choice([2, 4, 8]), 32, vocab=64 * dice.choice([500, 2000]), gated=gated)
    pp = dice.choice([1, 2, 3, 4, 6, 12])
    cp, dp = dice.choice([1, 2, 4]), dice.choice([2, 4, 8])
    divisors = [v for v in (1, 2, 3, 4) if (layers // pp) % v == 0]
    plans = Plans(
        tp=dice.choice([1, 2, 4, 8]),
        cp=cp,
        dp=dp,
        pp=pp,
        interleave=dice.choice(divisors) if pp > 1 else 1,
        micro_batch=dice.choice([1, 2, 4]),
        zero=dice.choice([0, 1, 2, 3]),
        shard=dp * cp,
        recomputed=dice.choice([0.0, 0.0, 1.0, 0.5]),
        selective=dice.random() < 0.3,
        sequence_parallel=dice.random() < 0.8,
    )
    return setting(
        what,
        plans,
        sequence=dice.choice([2048, 8192]),
        batch=384 * dp,
        precision=dice.choice(["bf16", "fp16", "fp8", "fp4"]),
        software=software or dice.choice(list(SOFTWARE)),
    )


seeds = st.integers(0, 10**9)


@given(seeds)
def test_the_fullest_stage_is_the_most(seed):
    what = drawn(seed)
    items, stages = memory_bytes(what), stage_bytes(what)
    totals = [float(sum(stages[name].values())) for name in STAGES]
    assert float(total_bytes(what)) == max(totals)
    assert float(sum(items[name] for name in MEMORY_ITEMS)) == pytest.approx(max(totals), rel=1e-12)
    assert totals[int(items["stage"])] == max(totals)
    assert all(float(items[name]) == stages[STAGES[int(items["stage"])]][name] for name in MEMORY_ITEMS)
    assert all(float(items[name]) >= 0 for name in MEMORY_ITEMS)


def test_a_single_stage_is_first_and_last():
    stages = stage_bytes(setting(LLAMA, Plans(tp=8, dp=8, zero=1, shard=8)))
    assert {k: float(v) for k, v in stages["first"].items()} == {
        k: float(v) for k, v in stages["last"].items()
    }


def test_micro_batches_under_way():
    def held(stage, batch=512, **plan):
        return float(in_flight(setting(LLAMA, Plans(**plan), batch=batch), stage))

    assert [held(stage, pp=8) for stage in STAGES] == [8, 7, 1]
    assert held("first", pp=8, batch=3) == 3
    # Interleaved: 1 + (p − 1)/(p·v) times as much as the whole pipeline (arXiv 2205.05198).
    assert held("first", pp=8, interleave=5) == pytest.approx(8 * (1 + 7 / (8 * 5)))
    assert held("first", pp=8, zero_bubble=True) == 15


def test_arrays_broadcast():
    tp, pp = np.array([[1], [2], [8]]), np.array([1, 2, 4, 8])
    many = total_bytes(setting(LLAMA, Plans(tp=tp, pp=pp, dp=4, zero=1, shard=4)))
    assert many.shape == (3, 4)
    for i, t in enumerate((1, 2, 8)):
        for j, p in enumerate((1, 2, 4, 8)):
            one = total_bytes(setting(LLAMA, Plans(tp=t, pp=p, dp=4, zero=1, shard=4)))
            assert many[i, j] == pytest.approx(float(one), rel=1e-12)


# Which way it leans


def changed(what, **options):
    return attrs.evolve(what, plans=attrs.evolve(what.plans, **options))


@given(seeds)
def test_recomputing_more_never_takes_more(seed):
    what = drawn(seed)
    # The room to recompute in appears with the first layer; from there on it only falls.
    totals = [float(total_bytes(changed(what, recomputed=share))) for share in (0.01, 0.3, 0.7, 1.0)]
    assert totals == sorted(totals, reverse=True)


@given(seeds)
def test_sharding_more_never_takes_more_state(seed):
    what = drawn(seed)

    def state(**options):
        items = stage_bytes(changed(what, **options))["first"]
        return float(items["weights"] + items["gradients"] + items["optimizer"])

    states = [state(zero=zero) for zero in range(4)]
    assert states == sorted(states, reverse=True)
    assert state(zero=3, shard=2) >= state(zero=3, shard=4)


@given(seeds, st.sampled_from(["tp", "cp"]))
def test_more_tensor_or_context_parallelism_never_takes_more(seed, axis):
    what = drawn(seed)
    at = getattr(what.plans, axis)
    more, less = changed(what, **{axis: 2 * at}), what
    for name in STAGES:
        larger, smaller = stage_bytes(less)[name], stage_bytes(more)[name]
        for item in set(MEMORY_ITEMS) - {"buffers", "framework", "working", "logits"}:
            assert float(smaller[item]) <= float(larger[item]) * (1 + 1e-12)
    # Only the first split brings buffers, and makes what is gathered.
    buffers = float(memory_bytes(more)["buffers"]) if at == 1 else 0.0
    assert float(total_bytes(more)) <= float(total_bytes(less)) + buffers + 1.0


@given(seeds)
def test_more_stages_never_take_more_state(seed):
    what = changed(drawn(seed), interleave=1)
    states = []
    for pp in (1, 2, 4, 12):
        items = stage_bytes(changed(what, pp=pp))
        states.append(max(float(items[name]["weights"]) for name in STAGES))
    assert states == sorted(states, reverse=True)


@given(seeds)
def test_larger_micro_batches_and_words_take_more(seed):
    what = drawn(seed)
    assert float(total_bytes(changed(what, micro_batch=2 * what.plans.micro_batch))) > float(
        total_bytes(what)
    )
    narrow = attrs.evolve(what, job=attrs.evolve(what.job, precision="fp8"))
    wide = attrs.evolve(what, job=attrs.evolve(what.job, precision="bf16"))
    assert float(layer_activations(narrow)) <= float(layer_activations(wide))
    assert float(layer_input(wide)) < float(layer_activations(wide))


# The least that must be recomputed


def brute(what, capacity):
    """Try one layer of a stage after the other."""
    layers = math.ceil(what.job.model.layers / what.plans.pp)
    for k in range(layers + 1):
        if float(total_bytes(changed(what, recomputed=k / layers))) <= capacity:
            return k / layers
    return math.inf


@given(seeds, st.floats(0.3, 1.3))
def test_least_recomputed_is_that_of_trying_all(seed, share):
    what = drawn(seed)
    none = float(total_bytes(changed(what, recomputed=0.0)))
    everything = float(total_bytes(changed(what, recomputed=1.0)))
    capacity = everything + share * (none - everything) if none > everything else share * none
    assert float(least_recomputed(what, capacity)) == pytest.approx(brute(what, capacity))


def test_least_recomputed_of_many_plans():
    tp, b = np.array([[1], [2], [4], [8]]), np.array([1, 2, 4])
    plans = Plans(tp=tp, dp=16, pp=4, micro_batch=b, zero=1, shard=16, recomputed=0.7)
    what = setting(LLAMA, plans, sequence=4096)
    found = least_recomputed(what, 80e9)
    assert found.shape == (4, 3)
    for i, t in enumerate((1, 2, 4, 8)):
        for j, size in enumerate((1, 2, 4)):
            one = changed(what, tp=t, micro_batch=size, recomputed=0.0)
            assert found[i, j] == pytest.approx(brute(one, 80e9))
    assert np.isinf(found).any()
    assert ((found > 0) & (found < 1)).any()
    assert (found == 0).any()
