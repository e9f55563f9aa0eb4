"""The assumptions of the cost functions that belong to no device: each with unit, default and source."""

from __future__ import annotations

import attrs

from scalewall.errors import InputError
from scalewall.hardware.device import PRECISIONS
from scalewall.units import quantity


@attrs.frozen(kw_only=True)
class Assumptions:
    """What the ideal fidelity takes for granted, all of it open to change."""

    fill: float = quantity(
        "1", "share of a cache that a tile may fill", default=0.75, most=1.0, source="arXiv 2411.01137"
    )
    word: float = quantity(
        "B", "bytes a number in weights, activations and gradients", default=2.0, source="16-bit training"
    )
    optimizer: float = quantity(
        "B",
        "bytes of optimizer state a parameter",
        default=8.0,
        least=0.0,
        open_below=False,
        source="arXiv 2411.01137",
    )
    precision: str = attrs.field(
        default="bf16",
        metadata={"doc": "precision whose peak is the peak; numbers that move have `word` bytes"},
    )
    overlap_tensor: bool = attrs.field(
        default=True,
        metadata={
            "doc": "whether tensor-parallel traffic hides behind arithmetic",
            "source": "arXiv 2411.01137",
        },
    )
    overlap_exchange: bool = attrs.field(
        default=True,
        metadata={
            "doc": "whether pipeline and expert traffic hides behind arithmetic",
            "source": "arXiv 2411.01137",
        },
    )
    overlap_data: bool = attrs.field(
        default=False,
        metadata={
            "doc": "whether the data-parallel reduction hides behind the step's arithmetic",
            "source": "arXiv 2411.01137",
        },
    )

    @precision.validator
    def _check_precision(self, attribute: object, value: str) -> None:
        if value not in PRECISIONS:
            raise InputError("precision", f"one of {', '.join(PRECISIONS)}", value)
