"""Presets: named sets of scenarios that fill every field of a page."""

from __future__ import annotations

from typing import Any

PAPER = {"preset": "epoch-2024"}


def _run(name: str, **words: str) -> dict[str, Any]:
    return {"name": name, "words": words, "device": {}, "paste": "", "model": ""}


LIMITS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "generations": (
        "H100, A100, V100",
        [_run(n, hardware=h) for n, h in (("H100", "h100-sxm"), ("A100", "a100-80gb-sxm"), ("V100", "v100"))],
    ),
    "h100": ("H100 alone", [_run("H100", hardware="h100-sxm")]),
    "paper": (
        "The paper: H100, A100, V100",
        [
            _run(name, hardware=hardware, **PAPER)
            for name, hardware in (("H100", "h100-sxm"), ("A100", "a100-40gb-sxm"), ("V100", "v100"))
        ],
    ),
    "paper-network": (
        "The paper: better networks",
        [
            _run("H100", hardware="h100-sxm", **PAPER),
            _run("H100, low latency", hardware="h100-sxm-low-latency", **PAPER),
            _run("H100, global NVLink", hardware="h100-sxm-global-nvlink", **PAPER),
        ],
    ),
    "zhang": (
        "Zhang's batch law, 6 months",
        [
            _run("Baseline batch", hardware="h100-sxm", duration="6 months"),
            _run("Zhang 2024", hardware="h100-sxm", duration="6 months", batch_law="zhang-2024"),
        ],
    ),
    "batch-laws": (
        "Batch laws compared",
        [
            _run(law, hardware="h100-sxm", batch_law=law)
            for law in ("baseline", "constant", "zhang-2024", "deepseek-2024")
        ],
    ),
    "sparse": (
        "Dense and sparse models",
        [
            _run("Dense", hardware="h100-sxm"),
            _run("Sparse", hardware="h100-sxm", sparsity_law="baseline"),
        ],
    ),
    "domains": (
        "Scale-up domains of 8 and 72",
        [
            _run("B200, 8 to a domain", hardware="b200"),
            _run("GB200, 72 to a domain", hardware="gb200"),
        ],
    ),
    "vendors": (
        "Four vendors",
        [
            _run(name, hardware=hardware)
            for name, hardware in (
                ("NVIDIA B200", "b200"),
                ("AMD MI355X", "mi355x"),
                ("Google TPU v7", "tpu-v7"),
                ("AWS Trainium 2", "trainium2"),
            )
        ],
    ),
}
"""Of the limits page: a title and its scenarios."""

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt3": (
        "GPT-3 on 1,024 A100",
        _run("", model="gpt3-175b", hardware="a100-80gb-sxm", gpus="1024", batch="1536", seq="2048"),
    ),
    "llama-405b": (
        "Llama 3.1 405B on 16,384 H100",
        _run(
            "",
            model="llama-3.1-405b",
            hardware="h100-sxm",
            gpus="16384",
            batch="2048",
            seq="8192",
            tokens="15.6e12",
        ),
    ),
    "llama-70b": (
        "Llama 3.1 70B on 256 H100",
        _run("", model="llama-3.1-70b", hardware="h100-sxm", gpus="256", batch="512", seq="8192"),
    ),
    "long": (
        "Llama 3.1 8B with 128k tokens",
        _run("", model="llama-3.1-8b", hardware="h100-sxm", gpus="128", batch="32", seq="131072"),
    ),
    "mt-nlg": (
        "MT-NLG 530B on 2,240 A100",
        _run(
            "",
            model="mt-nlg-530b",
            hardware="a100-80gb-sxm",
            gpus="2240",
            batch="1920",
            seq="2048",
            software="megatron-2021",
        ),
    ),
    "llama-8b-fp8": (
        "Llama 3.1 8B in fp8 on 64 B200",
        _run("", model="llama-3.1-8b", hardware="b200", gpus="64", batch="256", seq="8192", precision="fp8"),
    ),
}
"""Of the plan page: a title and its scenario."""


def all_presets() -> dict[str, list[dict[str, Any]]]:
    """Return the presets as plain values, in their order."""
    return {
        "limits": [{"key": key, "title": title, "runs": runs} for key, (title, runs) in LIMITS.items()],
        "plan": [{"key": key, "title": title, "run": run} for key, (title, run) in PLANS.items()],
    }
