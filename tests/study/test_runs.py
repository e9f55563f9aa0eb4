"""Rows of measured runs: what each is read as, why others are skipped, and rows that nobody should trust."""

from __future__ import annotations

import math

import pytest

from scalewall.study.runs import Skipped, read_run, read_runs, read_table

ROW = {
    "id": "case-001",
    "source": "a paper",
    "citation": "table 1",
    "model": "GPT 7B",
    "n_params": None,
    "n_active_params": None,
    "n_layers": 32,
    "d_model": 4096,
    "n_heads": 32,
    "n_kv_heads": 32,
    "d_ff": 16384,
    "vocab": 51200,
    "n_experts": None,
    "top_k": None,
    "seq_len": 2048,
    "device": "h100-sxm",
    "hardware": "H100",
    "n_gpus": 64,
    "gpus_per_node": 8,
    "tp": 4,
    "pp": 2,
    "dp": 8,
    "cp": 1,
    "ep": None,
    "virtual_pp": 4,
    "zero_stage_or_fsdp": "distributed optimizer (USE_DIST_OPTIMIZER=True)",
    "micro_batch_size": 1,
    "global_batch_size": 128,
    "activation_recompute": "selective",
    "precision": "bf16",
    "measured_metric": "step_time_s",
    "measured_value": 2.5,
    "step_time_s": 2.5,
    "notes": "tier:A",
}

LLAMA = {"n_layers": 32, "d_model": 4096, "n_heads": 32, "n_kv_heads": 8, "d_ff": 14336, "vocab": 128256}
LLAMA |= {"n_params": 8030261248, "model": "llama3-8b"}
VTRAIN = {
    "id": "vtrain-001",
    "model": "GPT-3.6B",
    "citation": "data/ground_truth_multi.csv (arXiv 2312.12391)",
    "n_params": 3600000000,
    "n_layers": 30,
    "d_model": 3072,
    "d_ff": None,
    "vocab": None,
    "device": "a100-80gb-sxm",
    "tp": 1,
    "pp": 1,
    "dp": 64,
    "virtual_pp": None,
    "zero_stage_or_fsdp": None,
    "global_batch_size": 512,
    "precision": "fp16",
    "notes": "tier:A Megatron-DeepSpeed; 1f1b, node_size 8, intra 150 GB/s, inter 800 Gb/s",
}


def read(**changes):
    return read_run(ROW | changes)


def reason(**changes):
    with pytest.raises(Skipped) as found:
        read(**changes)
    return str(found.value)


# A row that says everything


def test_a_full_row():
    run = read()
    assert (run.id, run.source, run.device, run.title) == ("case-001", "case", "h100-sxm", "GPT 7B")
    assert run.degrees == {"tp": 4, "pp": 2, "cp": 1, "dp": 8, "interleave": 4}
    assert (run.job.sequence, run.job.batch, run.job.precision) == (2048, 128, "bf16")
    assert (run.zero, run.shard, run.micro_batch, run.recompute) == (1, 8, 1, "selective")
    assert (run.measured, run.power, run.software.name) == (2.5, 1.0, "megatron")
    assert run.sequence_parallel
    assert not run.interleave_open
    assert run.settled == ("plain MLP",)  # as nothing says how many parameters it has


def test_a_row_that_states_its_parameters_leaves_nothing_open():
    assert read(**LLAMA).settled == ()


# Why rows are skipped


@pytest.mark.parametrize(
    "name", ["device", "n_gpus", "tp", "pp", "seq_len", "global_batch_size", "n_layers", "d_model", "n_heads"]
)
@pytest.mark.parametrize("empty", [None, ""])
def test_what_is_needed(name, empty):
    assert reason(**{name: empty}) == f"does not state {name}"


def test_all_that_is_needed_is_named():
    assert reason(tp=None, n_heads=None, d_model="") == "does not state tp, d_model, n_heads"


def test_a_column_that_is_not_there_is_empty():
    needed = {
        "device",
        "n_gpus",
        "tp",
        "pp",
        "seq_len",
        "global_batch_size",
        "n_layers",
        "d_model",
        "n_heads",
    }
    bare = {name: ROW[name] for name in (*needed, "id", "precision", "step_time_s")}
    run = read_run(bare)
    assert run.degrees == {"tp": 4, "pp": 2, "cp": 1, "dp": 8, "interleave": 1}
    assert (run.micro_batch, run.recompute) == (None, None)
    for name in needed:
        runs, skipped = read_runs([{n: value for n, value in bare.items() if n != name}])
        assert (runs, skipped) == ([], {"case-001": f"does not state {name}"})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"n_experts": 8}, "has experts, which are not priced yet"),
        ({"top_k": 2}, "has experts, which are not priced yet"),
        ({"n_experts": 8, "tp": None}, "has experts, which are not priced yet"),
        ({"model": "Grok-1 314B", "notes": "MoE"}, "is no dense transformer"),
        ({"model": "grok-1"}, "is no dense transformer"),
        ({"model": "Mamba 2.8B"}, "is no dense transformer"),
        ({"model": "Nemotron-H 56B", "notes": "hybrid Mamba"}, "is no dense transformer"),
        ({"model": "Mixtral 8x7B", "notes": "a mixture of experts"}, "is no dense transformer"),
        ({"device": "h100"}, "device h100 is not in the catalogue"),
        ({"device": "nowhere.toml"}, "device nowhere.toml is not in the catalogue"),
        (
            {"device": "trainium1", "hardware": "counted in NeuronCores"},
            "counts parts of the devices that the",
        ),
        ({"device": "mi250x", "notes": "64 GCDs"}, "counts parts of the devices that the catalogue has"),
        ({"precision": None}, "does not state its precision, and the device has several"),
        ({"precision": ""}, "does not state its precision, and the device has several"),
        (
            {"precision": "int8 (AQT quantization=int8)"},
            "precision int8 (AQT quantization=int8) is not priced",
        ),
        ({"n_heads": 36}, "36 heads do not divide d_model 4096"),
        ({"n_heads": 33}, "its tp of 4 does not divide 33 heads"),
        ({"pp": 64, "dp": 1, "tp": 1, "virtual_pp": None}, "has 32 layers for 64 chunks of a pipeline"),
        ({"n_params": 13e9}, "its dimensions give 9.01B parameters, it states 13B"),
        ({"dp": 4}, "tp x pp x cp x dp = 32, but it states 64 devices"),
        ({"dp": None, "n_gpus": 63}, "tp x pp x cp x dp = 56, but it states 63 devices"),
        ({"global_batch_size": 100}, "its batch of 100 is no multiple of dp x micro-batch = 8"),
        ({"micro_batch_size": 32}, "its batch of 128 is no multiple of dp x micro-batch = 256"),
        ({"step_time_s": None, "measured_metric": "mfu"}, "states no step time"),
        ({"step_time_s": None, "measured_value": None}, "states no step time"),
    ],
)
def test_skipped(changes, why):
    assert reason(**changes).startswith(why)


def test_a_dense_model_that_mentions_others_is_read():
    assert read(notes="tier:A; unlike the MoE and hybrid models of the same table").job.model.layers == 32


def test_many_rows():
    rows = [ROW, ROW | {"id": "b-2", "dp": 3}, ROW | {"id": "c-3", "model": "again"}]
    runs, skipped = read_runs(rows)
    assert [run.id for run in runs] == ["case-001", "c-3"]
    assert skipped == {"b-2": "tp x pp x cp x dp = 24, but it states 64 devices"}


def test_a_table_on_disk(tmp_path):
    path = tmp_path / "runs.csv"
    lines = [
        ",".join("" if value is None else str(value) for value in row.values()) for row in (ROW, ROW | VTRAIN)
    ]
    path.write_text(
        "\n".join([",".join(ROW), lines[0], lines[1].replace("1f1b, node_size 8, intra 150 GB/s, ", "")])
    )
    runs, skipped = read_runs(read_table(path))
    assert skipped == {}
    assert runs == [read(), read(**VTRAIN | {"notes": "tier:A Megatron-DeepSpeed; inter 800 Gb/s"})]


# What a row leaves open


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"vocab": None}, "vocabulary of 51,200"),
        ({"d_ff": None}, "MLP four times as wide as the model"),
        ({"d_ff": 11008}, "gated MLP"),
        ({}, "plain MLP"),
        ({"gpus_per_node": 4}, "nodes of 4"),
        ({"hardware": "8x400 Gb/s"}, "network of 50 GB/s a device, as stated"),
        ({"virtual_pp": None}, "no interleaving"),
        (
            {"virtual_pp": None, "notes": "VP printed as NA here but 12 in"},
            "12 chunks a stage, from the row's notes",
        ),
        ({"zero_stage_or_fsdp": None}, "optimizer sharded over data-parallel ranks"),
        (
            {"device": "a100-80gb-sxm", "precision": None},
            "16-bit precision, as the device has nothing faster",
        ),
        ({"precision": "fp16"}, "unfused attention and no overlap, as software of its time"),
        ({"hardware": "H100-96GB HBM2e 500W"}, "memory of 2458 GB/s, as HBM2e has"),
        (
            {"step_time_s": None, "measured_metric": "tflops_per_gpu", "measured_value": 400.0},
            "step time from TFLOP/s, causal attention counted at half",
        ),
    ],
)
def test_settled(changes, note):
    assert note in read(**changes).settled


def test_what_is_stated_is_not_settled():
    assert read(**LLAMA, gpus_per_node=8, hardware="H100").settled == ()
    assert "no interleaving" not in read(pp=1, dp=16, virtual_pp=None).settled


def test_seconds_of_a_throughput():
    run = read(step_time_s=None, measured_metric="tflops_per_gpu", measured_value=400.0)
    parameters = 32 * 12 * 4096**2 + 51200 * 4096
    flop = 128 * 2048 * (6 * parameters + 12 * 32 * 4096 * 1024)
    assert run.measured == pytest.approx(flop / (400e12 * 64))


def test_measured_seconds_come_first():
    assert read(measured_metric="tflops_per_gpu", measured_value=400.0).measured == 2.5


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("none", "none"),
        ("full", "full"),
        ("selective", "selective"),
        ("unknown", None),
        (None, None),
        ("Full", "full"),
    ],
)
def test_recomputation(stated, kind):
    assert read(activation_recompute=stated).recompute == kind


# The model


def test_a_gated_mlp_follows_from_the_parameters():
    gated = read(**LLAMA).job.model
    assert gated.gated
    assert not gated.tied
    assert gated.parameters == LLAMA["n_params"]
    plain = read(n_params=32 * (12 * 4096**2 + 2 * 4096) + 51200 * 4096 + 4096).job.model
    assert not plain.gated
    assert plain.tied


def test_parameters_and_not_the_width_say_whether_it_is_gated():
    """Four times as wide and gated all the same."""
    count = 32 * (16 * 4096**2 + 2 * 4096) + 2 * 51200 * 4096 + 4096
    assert read(n_params=count).job.model.gated


def test_rounded_parameters_are_good_enough():
    assert read(**LLAMA | {"n_params": 8e9}).job.model.gated
    assert not read(n_params=7e9).job.model.gated


def test_heads_of_keys_are_as_many_as_heads_where_nothing_is_said():
    assert read(n_kv_heads=None).job.model.kv_heads == 32
    assert read(n_kv_heads=8, n_params=None).job.model.kv_heads == 8


# Degrees


def test_degrees_that_are_left_out():
    run = read(dp=None, cp=None)
    assert (run.degrees["dp"], run.degrees["cp"]) == (8, 1)
    assert read(dp=None, cp=2).degrees["dp"] == 4


def test_more_devices_than_printed():
    """BigScience's 36th row: tensor 8, pipeline 10, data 8 on what it says are 320."""
    row = {"device": "a100-80gb-sxm", "n_gpus": 320, "tp": 8, "pp": 10, "dp": 8, "global_batch_size": 2048}
    row["virtual_pp"] = None
    assert reason(**row) == "tp x pp x cp x dp = 640, but it states 320 devices"
    assert read(**row | {"n_gpus": 640}).degrees["dp"] == 8


def test_one_stage_does_not_interleave():
    assert read(pp=1, dp=16, virtual_pp=6).degrees["interleave"] == 1


@pytest.mark.parametrize(
    ("changes", "open_"),
    [
        ({}, False),
        ({"virtual_pp": None}, True),
        ({"virtual_pp": None, "pp": 1, "dp": 16}, False),
        ({"virtual_pp": None, "notes": "Megatron-DeepSpeed"}, False),
        ({"virtual_pp": None, "model": "MT-NLG 530B"}, False),
        ({"virtual_pp": None, "notes": "schedule 1F1B"}, False),
        ({"virtual_pp": None, "notes": "Interleaved 1F1B"}, True),
    ],
)
def test_whether_interleaving_is_open(changes, open_):
    assert read(**changes).interleave_open is open_


# Sharding


@pytest.mark.parametrize(
    ("stated", "zero", "shard"),
    [
        ("DDP (FSDP=0); distributed-optimizer setting not stated", 1, 16),
        ("distributed optimizer (USE_DIST_OPTIMIZER=True)", 1, 16),
        ("ZeRO-1 (DeepSpeed)", 1, 16),
        ("ZeRO-1 (zero1=8)", 1, 8),
        ("ZeRO-1 (zero1=-1)", 1, 16),
        ("BF16_Optimizer (ZeRO-1-like; fp32 grad accumulation not sharded)", 1, 16),
        ("ZeRO-2", 2, 16),
        ("ZeRO3", 3, 16),
        ("FSDP FULL_SHARD (ZeRO-3)", 3, 16),
        ("FSDP SHARD_GRAD_OP (ZeRO-2)", 2, 16),
        ("FSDP", 3, 16),
        ("FSDP2 (shard degree 8)", 3, 8),
        ("FSDP2 (shard degree 1)", 3, 1),
        ("FSDP (sharding group 4)", 3, 4),
        ("FSDP (sharding group 64)", 3, 16),
    ],
)
def test_sharding(stated, zero, shard):
    run = read(pp=1, dp=16, virtual_pp=None, zero_stage_or_fsdp=stated)
    assert (run.zero, run.shard) == (zero, shard)


def test_no_sharding_is_assumed_of_old_software():
    run = read(**VTRAIN)
    assert (run.zero, run.shard) == (0, 1)
    assert read(**VTRAIN | {"zero_stage_or_fsdp": "ZeRO-1"}).zero == 1


def test_a_degree_of_data_parallelism_is_as_many_times_context():
    run = read(pp=1, dp=8, cp=2, virtual_pp=None, zero_stage_or_fsdp="FSDP2 (shard degree 4)")
    assert (run.zero, run.shard) == (3, 8)


@pytest.mark.parametrize("stated", ["FSDP2 (shard degree 8)", "ZeRO-2", "FSDP FULL_SHARD (ZeRO-3)"])
def test_a_pipeline_leaves_of_the_later_stages_the_first(stated):
    assert (read(zero_stage_or_fsdp=stated).zero, read(zero_stage_or_fsdp=stated).shard) == (1, 8)


@pytest.mark.parametrize(
    ("stated", "zero", "shard"),
    [
        ("FSDP 4 within slice, DP across slices", 3, 4),
        ("FSDP ici_fsdp=8 ici_dp=2", 3, 8),
        ("zero1(dp2)+tp4+pp1", 1, 2),
    ],
)
def test_degrees_in_other_words(stated, zero, shard):
    run = read(pp=1, dp=16, virtual_pp=None, zero_stage_or_fsdp=stated)
    assert (run.zero, run.shard) == (zero, shard)


def test_hybrid_sharding_is_fully_sharded():
    assert read(pp=1, dp=16, virtual_pp=None, zero_stage_or_fsdp="HSDP").zero == 3


# The machine


@pytest.mark.parametrize(
    ("hardware", "node", "bandwidth"),
    [
        ("A100 (Jean Zay, 4x Omni-Path/node)", 8, 6.25e9),
        ("A100, 4x100 Gb/s", 8, 6.25e9),
        ("A100, 8 x 200 Gb/s", 8, 25e9),
        ("inter 800 Gb/s", 8, 12.5e9),
        ("inter 800 Gb/s", 4, 25e9),
        ("inter 800 Gb/s", None, 12.5e9),
        ("2x80GB", 8, None),  # memory
        ("", 8, None),
    ],
)
def test_stated_bandwidth(hardware, node, bandwidth):
    run = read(device="a100-80gb-sxm", hardware=hardware, gpus_per_node=node)
    usual = read(device="a100-80gb-sxm", hardware="").cluster.tiers[1].bandwidth
    assert run.cluster.tiers[1].bandwidth == (bandwidth or usual)


def test_smaller_nodes():
    assert [tier.size for tier in read(gpus_per_node=4).cluster.tiers] == [4, math.inf]
    assert read(device="gb200", gpus_per_node=4).cluster.tiers[0].size == 72  # NVLink joins more than a node


def test_a_row_does_not_change_the_catalogue():
    read(hardware="inter 8 Gb/s", gpus_per_node=2)
    assert read().cluster.tiers[0].size == 8
    assert read().cluster.tiers[1].bandwidth == 50e9


def test_power_and_memory_of_what_is_no_usual_card():
    run = read(hardware="H100-96GB HBM2e 500W (Grand Teton)")
    assert run.power == pytest.approx(500 / 700)
    assert run.cluster.device.memory == 96e9
    assert run.cluster.device.memory_bandwidth == pytest.approx(6 * 1024 * 3.2e9 / 8)
    assert read(hardware="H100-SXM-80GB 700W").power == 1.0


# Precision and software


@pytest.mark.parametrize(
    ("stated", "recipe"),
    [
        ("bf16", "bf16"),
        ("amp_bf16", "bf16"),
        ("BF16", "bf16"),
        ("bfloat16", "bf16"),
        ("bf16 autocast + fp32 optimizer", "bf16"),
        ("fp16 mixed", "fp16"),
        ("fp8", "fp8"),
        ("amp_fp8", "fp8"),
        ("FP8 (hybrid)", "fp8"),
        ("float8 tensorwise", "fp8"),
        ("float8 rowwise", "fp8-block"),
        ("fp8 blockwise", "fp8-block"),
        ("MXFP8", "fp8-block"),
        ("FP8-MX", "fp8-block"),
        ("fp8 (TE; FP8=True in config_common.sh)", "fp8"),
    ],
)
def test_precision(stated, recipe):
    assert read(precision=stated).job.precision == recipe


def test_fewest_bits():
    assert read(device="gb200", precision="NVFP4").job.precision == "fp4"


@pytest.mark.parametrize("precision", ["fp8", "nvfp4", "MXFP8"])
def test_a_precision_that_the_device_has_not(precision):
    assert precision in reason(device="a100-80gb-sxm", precision=precision)


def test_an_unknown_precision_of_an_old_run():
    new = read(device="a100-80gb-sxm", precision=None)
    old = read(device="a100-80gb-sxm", precision=None, citation="arXiv 2104.04473 table 1")
    assert (new.job.precision, new.software.name) == ("bf16", "megatron")
    assert (old.job.precision, old.software.name) == ("fp16", "megatron-2021")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "megatron"),
        ({"source": "torchtitan benchmarks", "notes": "FSDP"}, "torchtitan-eager"),
        ({"source": "torchtitan benchmarks", "notes": "FSDP+compile"}, "torchtitan"),
        ({"source": "MosaicML llm-foundry benchmarking"}, "llm-foundry"),
        ({"notes": "Megatron-DeepSpeed"}, "megatron-2021"),
        ({"model": "MT-NLG 530B"}, "megatron-2021"),
        ({"zero_stage_or_fsdp": "ZeRO-1 (DeepSpeed)"}, "megatron-2021"),
        ({"source": "MaxText"}, "jax"),
        ({"model": "GPT-3 175B (Paxml)"}, "jax"),
        ({"source": "NVIDIA Megatron-Bridge performance summary"}, "nemo"),
        ({"source": "NVIDIA DGX Cloud benchmarking recipes"}, "nemo"),
        ({"citation": "arXiv 2104.04473"}, "megatron-2021"),
        ({"citation": "arXiv 2402.15627"}, "megatron"),
        ({"notes": "overlap OFF"}, "plain"),
        (
            {"notes": "tier:A; arch: AI-Hypercomputer/maxtext src/maxtext/configs/models/llama3.1-8b.yml"},
            "megatron",
        ),
    ],
)
def test_software(changes, name):
    assert read(**changes).software.name == name


def test_the_paper_of_an_architecture_is_not_that_of_the_run():
    assert read(notes="tier:A; arch: arXiv 2005.14165 Table 2.1").software.name == "megatron"


def test_sequence_parallelism_comes_with_software_or_selective_recomputation():
    old = {"notes": "Megatron-DeepSpeed"}
    assert read(activation_recompute="full").sequence_parallel
    assert not read(**old, activation_recompute="full").sequence_parallel
    assert read(**old, activation_recompute="selective").sequence_parallel


# Rows that nobody should trust

COUNTS = [
    "n_layers",
    "d_model",
    "n_heads",
    "n_kv_heads",
    "d_ff",
    "vocab",
    "seq_len",
    "n_gpus",
    "gpus_per_node",
]
COUNTS += ["tp", "pp", "dp", "cp", "virtual_pp", "micro_batch_size", "global_batch_size"]
AMOUNTS = ["n_params", "step_time_s", "measured_value"]
NONSENSE = ["eight", "8 GPUs", " ", "nan", -1, -8, 0, 0.0, math.nan, math.inf, -math.inf, [8]]


def outcome(name, value):
    """What is read of a row with one bad value: nothing but its reason."""
    row = ROW | {name: value}
    if name == "measured_value":
        row |= {"step_time_s": None, "measured_metric": "tflops_per_gpu"}
    runs, skipped = read_runs([row])
    return len(runs), list(skipped), [name in why for why in skipped.values()]


@pytest.mark.parametrize("name", [*COUNTS, *AMOUNTS])
def test_nonsense_is_skipped_with_a_reason(name):
    found = {repr(value): outcome(name, value) for value in NONSENSE}
    assert found == dict.fromkeys(found, (0, ["case-001"], [True]))


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [10**30, 1e300, 10**9 + 1])
def test_a_huge_count_is_skipped(name, value):
    assert outcome(name, value) == (0, ["case-001"], [True])


@pytest.mark.parametrize("name", ["step_time_s", "measured_value"])
def test_a_huge_amount_is_skipped(name):
    assert outcome(name, 1e300)[0] == 0


def test_parameters_beyond_measure_do_not_fit_the_model():
    assert "it states 1e+291B" in reason(n_params=1e300)


@pytest.mark.parametrize("name", COUNTS)
def test_a_fraction_is_no_count(name):
    assert outcome(name, ROW[name] + 0.5) == (0, ["case-001"], [True])


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_no_text(name):
    """A table's cells are read as numbers before; what is still text is none."""
    assert outcome(name, f"{ROW[name]}.0") == (0, ["case-001"], [True])


@pytest.mark.parametrize("name", COUNTS)
def test_a_whole_number_of_a_table_is_that_number(name):
    assert read(**{name: float(ROW[name])}) == read()


def test_a_row_without_an_id_is_skipped():
    runs, skipped = read_runs([{name: value for name, value in ROW.items() if name != "id"}])
    assert runs == []
    assert len(skipped) == 1


def test_heads_of_keys_that_cannot_be():
    runs, skipped = read_runs([ROW | {"n_kv_heads": 5}])
    assert runs == []
    assert "kv_heads" in skipped["case-001"]


def test_more_chunks_than_layers():
    runs, _ = read_runs([ROW | {"pp": 16, "dp": 1, "virtual_pp": 4}])
    assert runs == []


def test_a_group_of_none_is_no_group():
    runs, _ = read_runs([ROW | {"zero_stage_or_fsdp": "ZeRO-1 (zero1=0)"}])
    assert all(run.shard >= 1 for run in runs)


def test_no_power_is_no_limit():
    runs, _ = read_runs([ROW | {"hardware": "H100 000W"}])
    assert all(run.power > 0 for run in runs)
