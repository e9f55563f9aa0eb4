"""What real training systems do that hardware does not say: constants, and the software's habits."""

from __future__ import annotations

from typing import Any

import attrs

from scalewall.errors import InputError, nearest
from scalewall.units import quantity

_FITTED = "fitted to measured runs by scripts/fit_runs.py"


def _fitted(unit: str, doc: str, default: float, most: float = 1e6) -> Any:
    return quantity(unit, doc, default=default, least=0.0, open_below=False, most=most, source=_FITTED)


def _rate(doc: str, default: float) -> Any:
    """Return a fitted share of a rate, which cannot be zero."""
    return quantity("1", doc, default=default, most=1.5, source=_FITTED)


@attrs.frozen(kw_only=True)
class Practice:
    """Constants of the `full` fidelity, the same for all models, devices and runs."""

    matmul: float = _rate("share of a microbenchmark's rate that matmuls keep in training", 0.833)
    attention: float = _rate("the same for attention cores", 0.98)
    pointwise: float = _rate("share of memory bandwidth that norms and activations reach", 0.805)
    host_layer: float = _fitted("s", "of starting a layer's forward kernels; backward twice", 5.28e-4)
    host_step: float = _fitted("s", "a step whatever its size: loading, synchronising, norms", 0.0263)
    overlap_tensor: float = _fitted("1", "share of tensor-parallel traffic hidden behind matmuls", 1.0, 1.0)
    overlap_data: float = _fitted("1", "share of data-parallel traffic that compute may hide", 0.86, 1.0)
    overlap_pipeline: float = _fitted("1", "share of pipeline traffic hidden behind compute", 0.635, 1.0)
    contention: float = _fitted("1", "slowdown of compute by hidden traffic, seconds a second", 0.0615, 1.0)
    straggling: float = _fitted("1", "growth of a step with each tenfold number of domains", 0.0126)
    heat: float = _fitted("1", "share of the power limit's loss felt where only matmuls run", 0.946, 1.5)
    throttling: float = quantity(
        "1",
        "exponent of the power limit in the rate a device sustains",
        default=1 / 3,
        least=0.0,
        most=10.0,
        open_below=False,
        source="dynamic power goes with the cube of the clock, as the voltage goes with it",
    )
    backward_pointwise: float = quantity(
        "1",
        "memory traffic of norms and activations backward, over forward",
        default=1.6,
        most=1e6,
        source="reads the input and the output's gradient, writes the input's",
    )
    optimizer_traffic: float = quantity(
        "B",
        "memory traffic of Adam a parameter",
        default=30.0,
        most=1e6,
        source="gradient read, three 32-bit states read and written, 16-bit weight written: 4 + 24 + 2",
    )
    loss_traffic: float = quantity(
        "B",
        "memory traffic of the loss a logit, forward and backward",
        default=24.0,
        most=1e6,
        source="16-bit logits read; a 32-bit copy written, and read for maximum, sum and gradient",
    )


FITTED = tuple(a.name for a in attrs.fields(Practice) if a.metadata.get("source") == _FITTED)
"""The constants that are fitted to runs."""


@attrs.frozen(kw_only=True)
class Software:
    """What a training framework does; facts about it, not fitted numbers.

    `attention`: the kernel of its core, ``newest`` for the device (cuDNN, FlashAttention-3 and later),
    ``flash-2``, ``flash-1``, or ``unfused``, which writes its scores to memory. `fused_loss`: whether
    the loss is one kernel, not steps that each write all logits. `sequence_parallel`: whether that
    goes with tensor parallelism. `overlap_*`: whether that traffic is started so that it can hide
    behind compute at all. `selective_linear`: share of a layer's matmuls that selective
    recomputation repeats. `passes`: memory traffic of norms and activations over that of fused
    kernels. `gradient`: bytes of a gradient as it is summed, where it is not the recipe's.
    """

    name: str
    doc: str
    attention: str = "newest"
    fused_loss: bool = True
    sequence_parallel: bool = True
    overlap_tensor: bool = True
    overlap_data: bool = True
    overlap_pipeline: bool = True
    selective_linear: float = 0.0
    passes: float = 1.0
    gradient: float | None = None

    @property
    def fused_attention(self) -> bool:
        """Whether scores stay within a kernel."""
        return self.attention != "unfused"


_MEGATRON = Software(name="megatron", doc="Megatron-LM since 2023")
_PLAIN = Software(
    name="plain",
    doc="kernels of today, nothing overlapped",
    overlap_tensor=False,
    overlap_data=False,
    overlap_pipeline=False,
)
_TITAN = Software(
    name="torchtitan",
    doc="torchtitan: FSDP2, tensor parallelism, torch.compile; selectively recomputes half of the matmuls",
    attention="flash-2",
    fused_loss=False,
    overlap_tensor=False,
    selective_linear=0.5,
)

SOFTWARE = {
    entry.name: entry
    for entry in (
        _MEGATRON,
        attrs.evolve(
            _MEGATRON,
            name="nemo",
            doc="NeMo and Megatron-Bridge; gradients are summed in 16 bits",
            gradient=2.0,
        ),
        attrs.evolve(
            _PLAIN,
            name="megatron-2021",
            doc="Megatron-LM and Megatron-DeepSpeed before fused attention and overlap",
            attention="unfused",
            fused_loss=False,
            sequence_parallel=False,
        ),
        _TITAN,
        attrs.evolve(
            _TITAN,
            name="torchtitan-eager",
            doc="the same without torch.compile: an RMS norm moves 36 bytes an element, not 4, a gated "
            "activation 10, not 6, rotary embeddings 24; together 3.6 times as many for Llama 3 8B",
            passes=3.6,
        ),
        Software(
            name="llm-foundry",
            doc="FSDP of 2023 with Triton's attention",
            attention="flash-1",
            fused_loss=False,
        ),
        Software(name="jax", doc="MaxText and its kind, compiled by XLA"),
        _PLAIN,
    )
}
"""Frameworks by name."""


def software(name: str) -> Software:
    """Return the framework called `name`.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in SOFTWARE:
        raise InputError("software", f"one of {', '.join(SOFTWARE)}", name, nearest(name, SOFTWARE))
    return SOFTWARE[name]
