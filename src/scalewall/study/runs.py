"""Measured training runs: one row of a table each, read into a job, a machine and a plan.

A row that lacks what is needed is skipped with the reason. What a row may leave open is settled the
same way for every row, and each such choice is noted with it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from scalewall.cost.practice import SOFTWARE, Software
from scalewall.errors import InputError
from scalewall.hardware.catalogue import load
from scalewall.hardware.cluster import Cluster
from scalewall.study.run_table import NEEDED, Skipped, check_numbers
from scalewall.study.run_table import read_table as read_table
from scalewall.workload.job import RECIPES, Job
from scalewall.workload.model import Model

FUSED_SINCE = 2205.14135
"""arXiv number of FlashAttention: papers before it ran attention unfused."""

PRECISIONS = (
    (r"nvfp4", "fp4"),
    (r"mxfp8|fp8-mx|rowwise|block", "fp8-block"),
    (r"fp8|float8", "fp8"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|float16", "fp16"),
)


NOT_DENSE = r"mamba|grok|nemotron-h|mixtral|\bmoe\b|mixture of experts"
"""What in a model's name says that it is no dense transformer."""


@attrs.frozen(kw_only=True)
class Run:
    """A measured run: what ran, on what, how, and its measured seconds a step.

    `recompute` is ``none``, ``selective``, ``full`` or None where the row does not say; so is
    `micro_batch`. `settled` says what the row left open and how that was settled.
    """

    id: str
    source: str
    device: str
    title: str
    job: Job
    cluster: Cluster
    degrees: Mapping[str, int]
    zero: int
    shard: int
    micro_batch: int | None
    recompute: str | None
    sequence_parallel: bool
    software: Software
    measured: float
    interleave_open: bool = False
    power: float = 1.0
    settled: tuple[str, ...] = ()


def read_run(row: Mapping[str, Any]) -> Run:
    """Return the run that `row` describes.

    Raises
    ------
    Skipped
        If the row says too little, or says what cannot be.
    """
    if not row.get("id"):
        raise Skipped("has no id")
    if row.get("n_experts") or row.get("top_k"):
        raise Skipped("has experts, which are not priced yet")
    missing = [name for name in NEEDED if row.get(name) in (None, "")]
    if missing:
        raise Skipped(f"does not state {', '.join(missing)}")
    check_numbers(row)
    settled: list[str] = []
    text = " ".join(str(row.get(name) or "") for name in ("source", "citation", "notes", "hardware", "model"))
    if re.search(NOT_DENSE, str(row.get("model") or ""), re.IGNORECASE):
        raise Skipped("is no dense transformer")
    cluster = _cluster(row, text, settled)
    precision = _precision(row, cluster, text, settled)
    software = _software(row, text, precision, settled)
    model = _model(row, settled)
    degrees, dp = _degrees(row, settled)
    job = Job(
        model=model, sequence=int(row["seq_len"]), batch=int(row["global_batch_size"]), precision=precision
    )
    zero, shard = _sharding(row, dp * degrees["cp"], degrees["cp"], software, settled)
    recompute = _recompute(row)
    micro_batch = int(row["micro_batch_size"]) if row.get("micro_batch_size") else None
    if job.batch % (dp * (micro_batch or 1)):
        raise Skipped(
            f"its batch of {job.batch} is no multiple of dp x micro-batch = {dp * (micro_batch or 1)}"
        )
    parallel = software.sequence_parallel or recompute == "selective"
    stated = re.search(r"\b(\d{3,4})W\b", str(row.get("hardware") or ""))
    limit = float(stated[1]) if stated else 0.0
    power = limit / cluster.device.power if limit and cluster.device.power else 1.0
    return Run(
        id=str(row["id"]),
        source=str(row["id"]).split("-")[0],
        device=str(row["device"]),
        title=str(row.get("model") or ""),
        job=job,
        cluster=cluster,
        degrees=degrees,
        zero=zero,
        shard=shard,
        micro_batch=micro_batch,
        recompute=recompute,
        sequence_parallel=parallel,
        software=software,
        power=power,
        interleave_open=not row.get("virtual_pp") and degrees["pp"] > 1 and not re.search(PLAIN_1F1B, text),
        measured=_measured(row, job, degrees, settled),
        settled=tuple(settled),
    )


@functools.cache
def _hardware(name: str) -> Cluster:
    return load(name)


def _cluster(row: Mapping[str, Any], text: str, settled: list[str]) -> Cluster:
    """Return the row's cluster: the catalogue's, with the nodes and links that the row states."""
    if "NeuronCores" in text or re.search(r"\bGCDs?\b", text):
        raise Skipped("counts parts of the devices that the catalogue has")
    try:
        cluster = _hardware(str(row["device"]))
    except InputError:
        raise Skipped(f"device {row['device']} is not in the catalogue") from None
    tiers = list(cluster.tiers)
    node = int(row["gpus_per_node"]) if row.get("gpus_per_node") else None
    if node and tiers[0].size <= 8 and node != tiers[0].size:
        tiers[0] = attrs.evolve(tiers[0], size=node)
        settled.append(f"nodes of {node}")
    bandwidth = _stated_bandwidth(text, node or int(min(8, tiers[0].size)))
    if bandwidth and len(tiers) > 1:
        tiers[1] = attrs.evolve(tiers[1], bandwidth=bandwidth)
        settled.append(f"network of {bandwidth / 1e9:g} GB/s a device, as stated")
    device = cluster.device
    if (found := re.search(r"(\d+)GB HBM2e", text)) and device.memory_bandwidth > 2.1e12:
        # A stack of HBM2e holds 16 GB and moves 1024 bits at 3.2 Gb/s, as in the A100.
        memory = float(found[1]) * 1e9
        device = attrs.evolve(device, memory=memory, memory_bandwidth=memory / 16e9 * 1024 * 3.2e9 / 8)
        settled.append(f"memory of {device.memory_bandwidth / 1e9:.0f} GB/s, as HBM2e has")
    return attrs.evolve(cluster, tiers=tuple(tiers), device=device)


def _stated_bandwidth(text: str, node: int) -> float | None:
    """Return the bytes/s of a device's share of its node's adapters, if the text states them."""
    if found := re.search(r"inter (\d+) Gb/s", text):
        return float(found[1]) * 1e9 / 8 / node
    if found := re.search(r"(\d+)\s*x\s*(\d+)\s*Gb", text):
        return float(found[1]) * float(found[2]) * 1e9 / 8 / node
    if found := re.search(r"(\d+)x Omni-Path/node", text):
        return float(found[1]) * 100e9 / 8 / node
    return None


def _precision(row: Mapping[str, Any], cluster: Cluster, text: str, settled: list[str]) -> str:
    stated = str(row.get("precision") or "")
    for pattern, name in PRECISIONS:
        if re.search(pattern, stated, re.IGNORECASE):
            if RECIPES[name].matmul not in cluster.device.peak and RECIPES[name].cast:
                raise Skipped(f"precision {stated} is none that {row['device']} has")
            return name
    if stated:
        raise Skipped(f"precision {stated} is not priced")
    if "fp8" in cluster.device.peak:
        raise Skipped("does not state its precision, and the device has several")
    settled.append("16-bit precision, as the device has nothing faster")
    return "fp16" if _early(text) else "bf16"


def _early(text: str) -> bool:
    """Return whether the run's software is older than fused attention."""
    numbers = [float(number) for number in re.findall(r"arXiv (\d{4}\.\d{5})", _of_run(text))]
    return "Megatron-DeepSpeed" in text or bool(numbers and min(numbers) < FUSED_SINCE)


def _of_run(text: str) -> str:
    """Return `text` without where the figures of the architecture are from: that says nothing of the run."""
    return re.sub(r"arch: .*?(?:yml|$)", "", text)


PLAIN_1F1B = r"DeepSpeed|MT-NLG|(?<!Interleaved )1F1B"
"""What in a row's text says that its pipeline does not interleave."""

SHARD_DEGREE = r"(?:shard degree |sharding group |zero1=|ici_fsdp=|\(dp|FSDP (?=\d+ within))(\d+)"
"""What in a row's sharding tells over how many ranks it shards, if not over all."""

FRAMEWORKS = (
    (r"torchtitan(?!.*compile)", "torchtitan-eager"),
    (r"torchtitan", "torchtitan"),
    (r"llm-foundry", "llm-foundry"),
    (r"DeepSpeed|MT-NLG|Megatron-Turing", "megatron-2021"),
    (r"maxtext|paxml|\bpax\b|\bjax\b", "jax"),
    (r"NeMo|Megatron-Bridge|DGX Cloud", "nemo"),
)
"""What in a row's text tells its framework."""


def _software(row: Mapping[str, Any], text: str, precision: str, settled: list[str]) -> Software:
    """Return the software a row ran on: by its name, its age, and what it switches off."""
    stated = f"{text} {row.get('zero_stage_or_fsdp') or ''}"
    for pattern, name in FRAMEWORKS:
        if re.search(pattern, _of_run(stated), re.IGNORECASE):
            return SOFTWARE[name]
    if _early(text) or precision == "fp16":
        settled.append("unfused attention and no overlap, as software of its time")
        return SOFTWARE["megatron-2021"]
    if re.search(r"overlap OFF", text, re.IGNORECASE):
        return SOFTWARE["plain"]
    return SOFTWARE["megatron"]


def _degrees(row: Mapping[str, Any], settled: list[str]) -> tuple[dict[str, int], int]:
    degrees = {axis: int(row[axis]) for axis in ("tp", "pp")}
    degrees["cp"] = int(row["cp"]) if row.get("cp") else 1
    noted = re.search(r"\bVP printed as NA here but (\d+)", str(row.get("notes") or ""))
    stated = row.get("virtual_pp") or (noted[1] if noted else None)
    degrees["interleave"] = int(stated) if stated else 1
    if not row.get("virtual_pp") and degrees["pp"] > 1:
        settled.append(f"{stated} chunks a stage, from the row's notes" if noted else "no interleaving")
    if degrees["pp"] == 1:
        degrees["interleave"] = 1
    devices, group = int(row["n_gpus"]), degrees["tp"] * degrees["pp"] * degrees["cp"]
    dp = int(row["dp"]) if row.get("dp") else devices // group
    if dp * group != devices:
        raise Skipped(f"tp x pp x cp x dp = {dp * group}, but it states {devices} devices")
    degrees["dp"] = dp
    return degrees, dp


def _sharding(
    row: Mapping[str, Any], copies: int, cp: int, software: Software, settled: list[str]
) -> tuple[int, int]:
    """Return the ZeRO stage and over how many ranks it shards; a stated degree is of data parallelism alone.

    With a pipeline weights stay gathered and gradients summed through a step, or every micro-batch
    would move them anew; what is left of the later stages is the first.
    """
    stated = str(row.get("zero_stage_or_fsdp") or "")
    fully = bool(re.search(r"FSDP|HSDP", stated)) and "FSDP=0" not in stated
    found = re.search(r"ZeRO-?([0-3])", stated, re.IGNORECASE)
    if not fully and not found:
        if software.attention == "unfused":
            return 0, 1
        if "USE_DIST_OPTIMIZER=True" not in stated:
            settled.append("optimizer sharded over data-parallel ranks")
        return 1, copies
    stage = 2 if "SHARD_GRAD_OP" in stated else 3 if fully else int(found[1]) if found else 0
    group = re.search(SHARD_DEGREE, stated)
    if group and not int(group[1]):
        raise Skipped(f"shards over no ranks ({stated})")
    shard = min(int(group[1]) * cp, copies) if group else copies
    return (min(stage, 1) if int(row["pp"]) > 1 else stage), shard


def _recompute(row: Mapping[str, Any]) -> str | None:
    stated = str(row.get("activation_recompute") or "").lower()
    for name in ("selective", "full", "none"):
        if name in stated:
            return name
    return None


def _measured(row: Mapping[str, Any], job: Job, degrees: Mapping[str, int], settled: list[str]) -> float:
    if row.get("step_time_s"):
        return float(row["step_time_s"])
    if row.get("measured_metric") == "tflops_per_gpu" and row.get("measured_value"):
        settled.append("step time from TFLOP/s, causal attention counted at half")
        return job.model_flop / (float(row["measured_value"]) * 1e12 * int(row["n_gpus"]))
    raise Skipped("states no step time")


def _model(row: Mapping[str, Any], settled: list[str]) -> Model:
    """Return the row's model; whether its MLP is gated follows from its number of parameters."""
    layers, d, heads = int(row["n_layers"]), int(row["d_model"]), int(row["n_heads"])
    kv = int(row["n_kv_heads"]) if row.get("n_kv_heads") else heads
    stated = float(row["n_params"]) if row.get("n_params") else None
    vocab = int(row["vocab"]) if row.get("vocab") else 51200
    ff = int(row["d_ff"]) if row.get("d_ff") else 4 * d
    if not row.get("vocab"):
        settled.append("vocabulary of 51,200")
    if not row.get("d_ff"):
        settled.append("MLP four times as wide as the model")
    if d % heads:
        raise Skipped(f"{heads} heads do not divide d_model {d}")
    options = [
        Model(
            name=str(row.get("model") or "model"),
            layers=layers,
            d_model=d,
            heads=heads,
            kv_heads=kv,
            head_dim=d // heads,
            d_ff=ff,
            vocab=vocab,
            gated=gated,
            tied=tied,
        )
        for gated in (False, True)
        for tied in (True, False)
    ]
    if stated is None:
        gated = ff != 4 * d
        settled.append("gated MLP" if gated else "plain MLP")
        return next(o for o in options if o.gated == gated and o.tied is not gated)
    best = min(options, key=lambda option: abs(option.parameters - stated))
    if abs(best.parameters / stated - 1) > 0.1:
        raise Skipped(
            f"its dimensions give {best.parameters / 1e9:.4g}B parameters, it states {stated / 1e9:.4g}B"
        )
    return best


def read_runs(rows: Iterable[Mapping[str, Any]]) -> tuple[list[Run], dict[str, str]]:
    """Return the runs that `rows` describe, and why each of the others is skipped, by id."""
    runs, skipped = [], {}
    for number, row in enumerate(rows, 1):
        try:
            runs.append(read_run(row))
        except (Skipped, InputError) as reason:
            skipped[str(row.get("id") or f"row {number}")] = str(reason)
    return runs, skipped
