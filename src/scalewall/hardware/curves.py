"""Curves: how long kernels take on a class of devices, as constants fitted to measurements.

Shares are of the catalogue's dense peak in the same precision and of its memory bandwidth. The
constants, what each was fitted to and how far off it is stand in ``scalewall/data/curves_matmul.toml``
and ``curves_attention.toml``; `cost.kernels` has the formulas.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs

from scalewall.errors import InputError, nearest
from scalewall.hardware import catalogue
from scalewall.hardware.device import GENERIC
from scalewall.schema import read_toml, structure
from scalewall.units import quantity

CURVE_PRECISIONS = ("bf16", "fp8", "fp8-block", "fp4")
"""Precisions with a curve: 16 bits (fp16 too), fp8 with a scale a tensor, fp8 by blocks, NVFP4."""

_DATA = Path(str(files("scalewall"))) / "data"


@attrs.frozen(kw_only=True)
class MatmulCurve:
    """Constants of a matrix multiplication's time in one precision, see `cost.kernels.matmul_seconds`."""

    launch: float = quantity("s", "start of one kernel", least=0.0, open_below=False)
    efficiency: float = quantity("1", "share of the peak that a large multiplication nears", most=1.5)
    ramp: float = quantity("1", "added to the dimension that is summed over", least=0.0, open_below=False)
    wave: float = quantity("1", "output elements lost to unfilled tiles", least=0.0, open_below=False)
    memory: float = quantity("1", "share of the memory bandwidth reached", most=1.5)
    throttle: float = quantity(
        "1", "time that a long multiplication loses to the power limit", least=0.0, open_below=False
    )
    throttle_time: float = quantity(
        "s",
        "at which half of that is lost",
        default=5e-3,
        source="power limits act within milliseconds; the sweeps do not tell 2 from 10 ms",
    )
    conversion_launch: float = quantity(
        "s", "start of the kernels that convert an input", default=0.0, least=0.0, open_below=False
    )
    conversion_bytes: float = quantity(
        "B", "of bandwidth that converting an element takes", default=0.0, least=0.0, open_below=False
    )
    fitted_to: str = attrs.field(default="", metadata={"doc": "the measurements it was fitted to"})
    shapes: int = attrs.field(default=0, metadata={"doc": "how many of them"})
    median_error: float | None = quantity("1", "median of |log error|", default=None, optional=True)
    p90_error: float | None = quantity("1", "its 90th percentile", default=None, optional=True)


@attrs.frozen(kw_only=True)
class AttentionCurve:
    """Constants of a fused attention core's time, see `cost.kernels.attention_seconds`."""

    launch: float = quantity("s", "start of one kernel", least=0.0, open_below=False)
    forward: float = quantity("1", "share of the 16-bit peak that long sequences near, forward", most=1.5)
    backward: float = quantity("1", "the same backward", most=1.5)
    softmax: float = quantity("1", "softmax's time as a head dimension, forward", least=0.0, open_below=False)
    softmax_backward: float = quantity("1", "the same backward", least=0.0, open_below=False)
    start: float = quantity(
        "tokens", "keys' worth of starting a row of blocks, forward", least=0.0, open_below=False
    )
    start_backward: float = quantity("tokens", "the same backward", least=0.0, open_below=False)
    cut: float = quantity(
        "tokens", "keys computed in vain at the edge of a mask", least=0.0, open_below=False
    )
    wave: float = quantity("1", "rows of queries lost to unfilled units", least=0.0, open_below=False)
    fitted_to: str = attrs.field(default="", metadata={"doc": "the measurements it was fitted to"})
    shapes: int = attrs.field(default=0, metadata={"doc": "how many of them"})
    median_error: float | None = quantity("1", "median of |log error|", default=None, optional=True)
    p90_error: float | None = quantity("1", "its 90th percentile", default=None, optional=True)


@attrs.frozen(kw_only=True)
class Curves:
    """All curves of one device."""

    name: str = attrs.field(metadata={"doc": "the class they belong to"})
    scale: float = quantity("1", "matmuls' efficiencies over those of the class", default=1.0)
    matmuls: Mapping[str, MatmulCurve] = attrs.field(metadata={"doc": "by precision"})
    attention: AttentionCurve = attrs.field(metadata={"doc": "the newest fused attention core"})
    flash_2: AttentionCurve = attrs.field(
        metadata={"doc": "FlashAttention-2, which many runs on Hopper up to 2024 used"}
    )

    def matmul(self, precision: str = "bf16") -> MatmulCurve:
        """Return the curve in `precision`, one of `CURVE_PRECISIONS` or one that bf16 stands for.

        Raises
        ------
        InputError
            If there is none.
        """
        wider = ("fp16", "tf32", "fp32")
        name = "bf16" if precision in wider else precision
        if name not in self.matmuls:
            must = f"one of {', '.join([*CURVE_PRECISIONS, *wider])}"
            raise InputError("precision", must, precision, nearest(precision, self.matmuls))
        return self.matmuls[name]


@functools.cache
def load_curves(device_name: str, sustained: float | None = None) -> Curves:
    """Return the curves of the device called `device_name`.

    A device that was measured has its own; another of a known design has its class's; any other the
    generic ones, pooled over all that was measured.

    Parameters
    ----------
    device_name
        A name of the catalogue; a name that is not known is of the generic class.
    sustained
        The share of the 16-bit peak that a device sustains which has these curves. Where given, it
        scales the efficiencies of matrix multiplications: by its ratio to what the catalogue's entry
        sustains, or, in the generic class, to the mean of the devices that were pooled.
    """
    tables = _tables()
    name = tables["devices"].get(device_name, GENERIC)
    generic = name == GENERIC
    measured = tables["reference_sustained"] if generic else catalogue.load(device_name).device.sustained
    scale = 1.0 if sustained is None else sustained / measured
    curves = {precision: structure(table, MatmulCurve) for precision, table in tables["matmul"][name].items()}
    matmuls = {
        precision: attrs.evolve(curve, efficiency=min(1.5, scale * curve.efficiency))
        for precision, curve in curves.items()
    }
    attention = tables["attention"]
    newest = attention["classes"].get(name, GENERIC)
    older = attention["flash-2"].get(name, newest)
    return Curves(
        name=name,
        scale=scale,
        matmuls=matmuls,
        attention=structure(attention[newest], AttentionCurve),
        flash_2=structure(attention[older], AttentionCurve),
    )


@functools.cache
def _tables() -> dict[str, Any]:
    matmul = read_toml(_DATA / "curves_matmul.toml")
    return {**matmul, "attention": read_toml(_DATA / "curves_attention.toml")}
