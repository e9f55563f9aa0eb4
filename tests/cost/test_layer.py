"""A layer's passes: what each term depends on, what it never does, and many plans at once as each alone."""

from __future__ import annotations

import itertools
from random import Random

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost import kernels, transport
from scalewall.cost.layer import Pass, Setting, embedding, exposed, head, layer
from scalewall.cost.machine import Machine
from scalewall.cost.plans import Plans
from scalewall.cost.practice import SOFTWARE, Practice
from scalewall.hardware import catalogue
from scalewall.workload.formats import read_model
from scalewall.workload.job import Job

DEVICES = ["h100-sxm", "a100-80gb-sxm", "b200", "gb200", "v100", "tpu-v5p", "h20", "mi300x"]
MODELS = [
    "gpt3-175b",
    "gpt3-1.3b",
    "llama-3.1-8b",
    "llama-3.1-405b",
    "gemma-2-27b",
    "falcon-180b",
    "bloom-176b",
]
PARTS = [a.name for a in attrs.fields(Pass)]
GPT3, LLAMA = read_model("gpt3-175b"), read_model("llama-3.1-8b")

seeds = st.integers(0, 10**9)


def dice_plans(dice, model, *, hybrid=True):
    """Any plan that can be, and its sequences a step."""
    tp, cp = dice.choice([t for t in (1, 2, 4, 8, 16) if model.heads % t == 0]), dice.choice([1, 1, 1, 2, 4])
    pp = dice.choice([p for p in (1, 1, 2, 3, 4, 8, 16) if model.layers % p == 0 or 4 * p < model.layers])
    v = dice.choice([c for c in (1, 1, 2, 3, 4) if pp > 1 and model.layers % (pp * c) == 0] or [1])
    dp, size = dice.choice([1, 2, 3, 4, 8, 16, 64]), dice.choice([1, 1, 2, 4, 8])
    m = dice.choice([1, 2, 3, 4, 8, 16, 32]) * (pp if v > 1 else 1)
    zero = dice.randint(0, 3)
    shards = [s for s in range(1, dp * cp + 1) if dp * cp % s == 0]
    plans = Plans(
        tp=tp,
        cp=cp,
        dp=dp,
        pp=pp,
        interleave=v,
        micro_batch=size,
        zero=zero,
        shard=dice.choice(shards) if hybrid and zero else dp * cp,
        recomputed=dice.choice([0.0, 0.0, 0.25, 0.5, 1.0]),
        selective=dice.random() < 0.5,
        sequence_parallel=dice.random() < 0.5,
        zero_bubble=v == 1 and m >= 2 * pp and dice.random() < 0.3,
    )
    return plans, dp * size * m


def drawn(seed, *, hybrid=True):
    """A job on a machine under one plan, whether or not it fits the memory."""
    dice = Random(seed)
    cluster, model = catalogue.load(dice.choice(DEVICES)), read_model(dice.choice(MODELS))
    precisions = ["bf16", "fp16"]
    precisions += ["fp8", "fp8-block"] if "fp8" in cluster.device.peak else []
    precisions += ["fp4"] if "fp4" in cluster.device.peak else []
    plans, batch = dice_plans(dice, model, hybrid=hybrid)
    job = Job(
        model=model,
        sequence=dice.choice([512, 2048, 4096, 8192, 32768]),
        batch=batch,
        precision=dice.choice(precisions),
    )
    machine = Machine.of(cluster, dice.choice([1.0, 1.0, 0.7, 1.2]))
    return Setting.of(job, machine, plans, Practice(), SOFTWARE[dice.choice(list(SOFTWARE))])


def setting(model=GPT3, device="h100-sxm", software="megatron", precision="bf16", power=1.0, **degrees):
    """A setting of sequences of 2048 tokens, four micro-batches a rank of data parallelism."""
    plans = Plans(**degrees)
    batch = 4 * int(np.max(plans.dp)) * int(np.max(plans.micro_batch))
    job = Job(model=model, sequence=2048, batch=batch, precision=precision)
    machine = Machine.of(catalogue.load(device), power)
    return Setting.of(job, machine, plans, Practice(), SOFTWARE[software])


def again(base, **changes):
    """The same setting but for its plans, practice, software or machine."""
    parts = {a.name: getattr(base, a.name) for a in attrs.fields(Setting)} | changes
    parts.pop("layout")
    return Setting.of(**parts)


def replanned(base, **degrees):
    return again(base, plans=attrs.evolve(base.plans, **degrees))


def numbers(one):
    return {name: float(getattr(one, name)) for name in PARTS}


# What holds for all


@given(seeds)
def test_no_term_is_negative(seed):
    one = drawn(seed)
    for found in (*layer(one), *head(one), *embedding(one)):
        assert min(numbers(found).values()) >= 0.0
        assert sum(numbers(found).values()) == pytest.approx(float(found.seconds), rel=1e-12)


@given(seeds)
def test_the_host_starts_kernels_no_faster_than_it_can(seed):
    one = drawn(seed)
    forward, backward, _ = layer(one)
    assert forward.seconds >= one.practice.host_layer * (1 - 1e-12)
    assert backward.seconds >= 2 * one.practice.host_layer * (1 - 1e-12)
    for found in (forward, backward):
        assert found.host == 0.0 or found.kernels < 2 * one.practice.host_layer


@given(seeds)
def test_no_multiplication_beats_the_peak(seed):
    one = drawn(seed)
    model, device = one.job.model, one.machine.cluster.device
    flop = 2.0 * model.layer_matmul_parameters * one.tokens / one.plans.tp
    forward, backward, _ = layer(one)
    assert forward.matmul >= flop / device.peak_rate(one.job.recipe.matmul)
    assert backward.matmul >= 2 * flop / device.peak_rate(one.job.recipe.matmul)


# Many plans at once

GRID = {
    "tp": np.array([1, 2, 8]),
    "cp": np.array([1, 2]),
    "micro_batch": np.array([1.0, 4.0]),
    "sequence_parallel": np.array([False, True]),
    "recomputed": np.array([0.0, 0.5]),
    "selective": np.array([False, True]),
}


@pytest.mark.parametrize(
    ("model", "device", "software", "precision"),
    [
        ("gpt3-175b", "a100-80gb-sxm", "megatron-2021", "fp16"),
        ("llama-3.1-8b", "h100-sxm", "torchtitan", "fp8"),
        ("gemma-2-27b", "gb200", "megatron", "fp4"),
    ],
)
def test_an_open_grid_is_each_plan_alone(model, device, software, precision):
    shape = tuple(len(values) for values in GRID.values())
    opened = dict(zip(GRID, np.meshgrid(*GRID.values(), indexing="ij", sparse=True), strict=True))
    base = setting(read_model(model), device, software, precision, dp=4, pp=2)
    many = replanned(base, **opened)
    found = [
        np.broadcast_to(getattr(one, name), shape)
        for one in (*layer(many), *head(many), *embedding(many))
        for name in PARTS
    ]
    for at in itertools.product(*(range(n) for n in shape)):
        alone = {name: values[i].item() for (name, values), i in zip(GRID.items(), at, strict=True)}
        single = replanned(base, **alone)
        expected = [
            float(getattr(one, name))
            for one in (*layer(single), *head(single), *embedding(single))
            for name in PARTS
        ]
        assert [float(values[at]) for values in found] == pytest.approx(expected, rel=1e-12, abs=0.0)


# Tensor and sequence parallelism


@given(seeds)
def test_one_tensor_rank_has_no_traffic(seed):
    one = replanned(drawn(seed), tp=1)
    for found in (*layer(one), *head(one), *embedding(one)):
        assert found.tensor == 0.0


@given(seeds)
def test_one_context_rank_has_no_traffic(seed):
    one = drawn(seed)
    for found in layer(replanned(one, cp=1, shard=1, zero=0)):
        assert found.context == 0.0


def test_ranks_alone_have_no_traffic_beside_others_that_have():
    many = setting(tp=np.array([1, 2, 8])[:, None], cp=np.array([1, 2, 4]), dp=4)
    forward, backward, _ = layer(many)
    for found in (forward, backward):
        tensor, context = np.broadcast_to(found.tensor, (3, 3)), np.broadcast_to(found.context, (3, 3))
        assert (tensor[0] == 0).all()
        assert (tensor[1:] > 0).all()
        assert (context[:, 0] == 0).all()
        assert (context[:, 1:] > 0).all()


def test_sequence_parallelism_splits_norms_and_gathers_once_more():
    off, on = (layer(setting(software="plain", tp=8, sequence_parallel=s)) for s in (False, True))
    one = setting(software="plain", tp=8)
    tokens, d, links, degrees = 2048, 12288, one.machine.links, one.layout["tp"]
    bandwidth = one.machine.cluster.device.memory_bandwidth * one.practice.pointwise
    words = 2 * (d + d) + 2 * (2 * d + d)  # two norms and two additions to the residual, by the token
    saved = 2 * words * tokens * (1 - 1 / 8) / bandwidth
    assert off[0].pointwise - on[0].pointwise == pytest.approx(saved, rel=1e-9)
    assert off[1].pointwise - on[1].pointwise == pytest.approx(1.6 * saved, rel=1e-9)
    assert on[0].tensor == off[0].tensor
    once = transport.all_gather_seconds(links, degrees, 2.0 * tokens * d)
    assert on[1].tensor - off[1].tensor == pytest.approx(2 * float(once), rel=1e-9)
    for name in ("attention", "context"):
        assert [getattr(one, name) for one in on] == [getattr(one, name) for one in off]
    # Norms that take less time let the multiplications cool less.
    for one, other in zip(on[:2], off[:2], strict=True):
        assert other.matmul < one.matmul < 1.02 * other.matmul


def test_sequence_parallelism_of_one_rank_is_none():
    off, on = (layer(setting(tp=1, sequence_parallel=s)) for s in (False, True))
    assert [numbers(one) for one in off] == [numbers(one) for one in on]


def test_a_parallel_block_sums_once():
    falcon = read_model("falcon-180b")
    one = setting(falcon, software="plain", tp=8)
    size = 2.0 * 2048 * falcon.d_model
    forward, backward, _ = layer(one)
    summed = float(transport.all_reduce_seconds(one.machine.links, one.layout["tp"], size))
    gathered = float(transport.all_gather_seconds(one.machine.links, one.layout["tp"], size))
    assert forward.tensor == pytest.approx(summed)
    entering = 1 if falcon.norms < 2 else 2
    assert backward.tensor == pytest.approx(entering * (summed + gathered))


def test_keys_and_values_go_round_the_ring():
    """Two heads of keys and values a rank, to three others; backward their gradients too."""
    one = setting(LLAMA, tp=4, cp=4)
    free = attrs.evolve(one.practice, contention=1.0)  # what is hidden slows compute as much as it takes
    forward, backward, _ = layer(again(one, practice=free))
    size = 2.0 * 512 * 2 * 2 * 128
    send = [float(transport.send_seconds(one.machine.links, 1, size * times)) for times in (1.0, 2.0)]
    assert forward.context == pytest.approx(3 * send[0])
    assert backward.context == pytest.approx(3 * send[1])


def test_a_step_of_the_ring_hides_behind_no_more_than_a_step_of_attention():
    """Three quarters of the attention of four ranks; the first step's keys are there already."""
    one = setting(GPT3, tp=8, cp=4)
    none, all_ = (again(one, practice=attrs.evolve(one.practice, contention=c)) for c in (0.0, 1.0))
    for part, traffic in zip(layer(none)[:2], layer(all_)[:2], strict=True):
        assert traffic.context > part.attention
        assert part.context == pytest.approx(traffic.context - 0.75 * part.attention)


def test_keys_and_values_are_not_split_finer_than_their_heads():
    wide, finest = (setting(LLAMA, tp=tp, cp=2) for tp in (8, 16))
    free = attrs.evolve(wide.practice, contention=1.0)
    assert layer(again(wide, practice=free))[0].context == layer(again(finest, practice=free))[0].context


# What is exposed

shares = st.floats(0, 1)
times = st.floats(0, 1e3)


@given(times, times, shares, shares)
def test_exposed_lies_between_contention_and_all(traffic, hiding, share, contention):
    found = exposed(traffic, hiding, share, contention)
    assert contention * traffic * (1 - 1e-12) - 1e-12 <= found <= traffic
    assert found >= (traffic - hiding) * (1 - 1e-12) - 1e-12
    assert exposed(traffic, hiding, 0.0, contention) == traffic
    assert exposed(traffic, 0.0, share, contention) == traffic
    assert exposed(traffic, hiding, share, 1.0) == traffic


@given(times, times, shares, shares, st.floats(1, 10))
def test_exposed_never_gains_by_more_traffic_or_slower_compute(traffic, hiding, share, contention, factor):
    found = exposed(traffic, hiding, share, contention)
    assert exposed(factor * traffic, hiding, share, contention) >= found * (1 - 1e-12)
    slower = exposed(traffic, factor * hiding, share, contention) + factor * hiding
    assert slower >= (found + hiding) * (1 - 1e-12)


# Recomputation


@given(seeds)
def test_nothing_recomputed(seed):
    assert layer(replanned(drawn(seed), recomputed=0.0, selective=False))[2].seconds == 0.0


@given(seeds)
def test_all_recomputed_is_a_forward_pass(seed):
    forward, _, repeated = layer(replanned(drawn(seed), recomputed=1.0))
    assert numbers(repeated) == numbers(forward)


@given(seeds)
def test_selective_recomputation_repeats_what_its_software_does(seed):
    one = replanned(drawn(seed), recomputed=0.0, selective=True)
    forward, _, repeated = layer(one)
    expected = dict.fromkeys(PARTS, 0.0)
    if one.software.attention == "unfused":
        expected["attention"] = float(forward.attention)
    if one.software.selective_linear:
        expected |= {"matmul": 0.5 * float(forward.matmul), "pointwise": float(forward.pointwise)}
    assert numbers(repeated) == pytest.approx(expected, rel=1e-12)


@given(seeds, shares)
def test_a_share_of_the_layers_is_that_share_of_both(seed, share):
    base = drawn(seed)
    none, some, whole = (
        float(layer(replanned(base, recomputed=r, selective=True))[2].seconds) for r in (0.0, share, 1.0)
    )
    assert some == pytest.approx(share * whole + (1 - share) * none, rel=1e-9, abs=1e-18)


# Attention, precision, power


def test_layers_of_two_kinds_are_their_mean():
    """Half of the layers of Gemma 2 see 4096 tokens; a model of either kind alone is on either side."""
    gemma = read_model("gemma-2-27b")
    job = Job(model=gemma, sequence=32768, batch=4)
    machine, practice = Machine.of(catalogue.load("h100-sxm")), Practice()

    def attention(model):
        of = Setting.of(attrs.evolve(job, model=model), machine, Plans(tp=2), practice, SOFTWARE["megatron"])
        return float(layer(of)[0].attention)

    whole = attention(attrs.evolve(gemma, window=None, window_layers=None))
    windowed = attention(attrs.evolve(gemma, window_layers=None))
    assert windowed < 0.5 * whole
    share = gemma.windowed_layers / gemma.layers
    assert attention(gemma) == pytest.approx(share * windowed + (1 - share) * whole)


def test_older_attention_kernels_are_slower():
    newest, second, first = (
        float(layer(setting(software=name))[0].attention)
        for name in ("megatron", "torchtitan", "llm-foundry")
    )
    assert newest < second
    assert first == pytest.approx(2 * second)


def test_unfused_attention_by_hand():
    one = setting(device="a100-80gb-sxm", software="megatron-2021", tp=8, micro_batch=2)
    device, curve = one.machine.cluster.device, one.machine.curves.matmul("bf16")
    args = (curve, device.peak_rate("bf16"), device.memory_bandwidth, 2 * 96 / 8, 128, 2048, 2048)
    forward, backward, _ = layer(one)
    assert forward.attention == pytest.approx(kernels.unfused_attention_seconds(*args))
    assert backward.attention == pytest.approx(kernels.unfused_attention_seconds(*args, backward=True))


def test_fewer_bits_multiply_faster_and_convert_first():
    wide, narrow = (setting(precision=p, micro_batch=4) for p in ("bf16", "fp8"))
    for one, other in zip(layer(wide)[:2], layer(narrow)[:2], strict=True):
        assert other.matmul < one.matmul
        assert other.pointwise > one.pointwise
        assert other.attention == one.attention


def test_less_power_slows_arithmetic_alone():
    full, held, more = (setting(power=p, tp=8) for p in (1.0, 0.5, 2.0))
    for one, slow, same in zip(layer(full)[:2], layer(held)[:2], layer(more)[:2], strict=True):
        # Slower attention leaves a smaller share to the norms, in which multiplications cool.
        assert slow.matmul == pytest.approx(2 ** (1 / 3) * one.matmul, rel=1e-3)
        assert slow.attention == pytest.approx(2 ** (1 / 3) * one.attention)
        assert slow.pointwise == one.pointwise
        assert numbers(same) == numbers(one)


def test_less_power_slows_unfused_attention():
    full, held = (setting(software="megatron-2021", power=p, tp=8) for p in (1.0, 0.5))
    assert layer(held)[0].attention > layer(full)[0].attention


def test_longer_reads_of_norms_in_software_without_fusion():
    compiled, eager = (setting(LLAMA, software=name) for name in ("torchtitan", "torchtitan-eager"))
    launches = 5 * compiled.machine.curves.matmul("bf16").launch
    for one, other in zip(layer(compiled)[:2], layer(eager)[:2], strict=True):
        assert other.pointwise - launches == pytest.approx(3.6 * (one.pointwise - launches))


# Head and embedding


def test_the_head_is_a_multiplication_and_a_loss_on_the_vocabulary():
    one = setting(LLAMA, tp=4, micro_batch=2, software="plain")
    forward, backward = head(one)
    device, tokens = one.machine.cluster.device, 2 * 2048
    flop = 2.0 * tokens * 128256 / 4 * 4096
    assert forward.matmul > flop / device.peak_rate("bf16")
    assert backward.matmul > 2 * flop / device.peak_rate("bf16")
    launches = 4 * one.machine.curves.matmul("bf16").launch
    loss = 24.0 * tokens * 128256 / 4 / (device.memory_bandwidth * one.practice.pointwise) + launches
    assert forward.pointwise + backward.pointwise == pytest.approx(loss)


def test_the_head_computes_in_16_bits_whatever_the_recipe():
    one, other = (head(setting(precision=p)) for p in ("bf16", "fp8"))
    assert [numbers(found) for found in one] == [numbers(found) for found in other]


def test_the_embedding_is_a_look_up():
    one = setting(micro_batch=2)
    forward, backward = embedding(one)
    device = one.machine.cluster.device
    moved = 4.0 * 2 * 2048 * 12288 / (device.memory_bandwidth * one.practice.pointwise)
    assert forward.seconds == pytest.approx(moved)
    assert backward.seconds == pytest.approx(3 * moved)
