"""Fit the constants of fused attention cores: makes src/scalewall/data/curves_attention.toml.

    python scripts/fit_attention.py

The figures, a few of each published chart or log, are in tests/data/attention_sample.csv. They count FLOP
as their authors do: 4 a score and head dimension forward, 10 backward, half of it where causal. Needs
SciPy, a development dependency.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import polars as pl
from scipy.optimize import least_squares

from scalewall.cost.kernels import attention_seconds
from scalewall.hardware.curves import AttentionCurve

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "scalewall" / "data" / "curves_attention.toml"
FIGURES = ROOT / "tests" / "data" / "attention_sample.csv"

HEADER = """\
# Constants of the fused attention core (FlashAttention and its like), made by scripts/fit_attention.py; do
# not edit. The law is in cost/kernels.py, what a constant means in hardware/curves.py. Shares are of the
# catalogue's dense 16-bit peak. Errors are of |log(predicted/measured)|. `launch` is one kernel's; the
# backward pass's few small kernels are in start_backward. `wave` is half a wave of blocks of 128 queries, one
# to a unit.

# Whose constants a class of curves_matmul.toml takes; a class that is not here takes the generic ones.
[classes]
a100 = "ampere"
h100 = "hopper"
h200 = "hopper"
hopper = "hopper"
b200 = "blackwell"
b300 = "blackwell"
gb200 = "blackwell"
gb300 = "blackwell"
blackwell = "blackwell"

# The same for FlashAttention-2, where it differs: many runs on Hopper up to 2024 used it.
[flash-2]
h100 = "hopper-flash-2"
h200 = "hopper-flash-2"
hopper = "hopper-flash-2"
"""
READ = "arXiv 2407.08608, as read from its charts by a third party"
CLASSES = {  # name: (kernels, devices, processing units, where from)
    "hopper": (
        ("flash-3", "cudnn-9"),
        ("h100-sxm",),
        132,
        f"FlashAttention-3 and cuDNN 9 on an H100 SXM: {READ}",
    ),
    "hopper-flash-2": (("flash-2",), ("h100-sxm",), 132, f"FlashAttention-2 on an H100 SXM: {READ}"),
    "blackwell": (
        ("flash-4", "cudnn"),
        ("b200", "gb200"),
        148,
        "FlashAttention-4 and cuDNN on devices of 2250 and 2500 TFLOP/s, only two of the backward pass: pull "
        "requests 2280 and 2605 of Dao-AILab/flash-attention; its best by arXiv 2603.05451 is 71% of a "
        "B200's peak",
    ),
}
AMPERE_UNITS = 108
AMPERE_FORWARD, AMPERE_BACKWARD = 0.73, 0.63  # of the A100's peak at best, arXiv 2307.08691

FIELDS = {  # constant: where the search for it starts
    **{"forward": 0.7, "backward": 0.6, "softmax": 60.0, "softmax_backward": 60.0},
    **{"start": 100.0, "start_backward": 300.0, "cut": 100.0},
}


def seconds(rows: pl.DataFrame) -> Any:
    """Return the measured seconds, from the authors' FLOP and rate."""
    flop = np.where(rows["pass"] == "backward", 10.0, 4.0) * np.where(rows["causal"] == "yes", 0.5, 1.0)
    scores = rows["heads"].to_numpy() * rows["sequence"].to_numpy().astype(float) ** 2
    return flop * scores * rows["head_dim"].to_numpy() / (rows["tflops"].to_numpy() * 1e12)


def log_errors(curve: AttentionCurve, rows: pl.DataFrame) -> Any:
    """Return the log of predicted over measured seconds."""
    measured = seconds(rows)
    found = np.empty(rows.height)
    for i, row in enumerate(rows.iter_rows(named=True)):
        found[i] = attention_seconds(
            curve,
            row["peak_tflops"] * 1e12,
            row["heads"],
            row["head_dim"],
            row["sequence"],
            row["sequence"],
            causal=row["causal"] == "yes",
            backward=row["pass"] == "backward",
        )
    return np.log(found / measured)


def fit(rows: pl.DataFrame, units: int, where: str) -> AttentionCurve:
    """Return the curve that fits the figures best, on a device with so many processing `units`."""
    starts = np.log(list(FIELDS.values()))
    wave = units * 128 / 2

    def curve_of(logs: Any) -> AttentionCurve:
        return AttentionCurve(launch=5e-6, wave=wave, **dict(zip(FIELDS, np.exp(logs).tolist(), strict=True)))

    def residuals(logs: Any) -> Any:
        # The second part, a weak prior, settles what the figures leave open.
        return np.concatenate([log_errors(curve_of(logs), rows), 0.01 * (logs - starts)])

    curve = curve_of(least_squares(residuals, starts, loss="soft_l1", f_scale=0.05).x)
    error = np.abs(log_errors(curve, rows))
    return attrs.evolve(
        curve,
        fitted_to=where,
        shapes=rows.height,
        median_error=float(np.median(error)),
        p90_error=float(np.quantile(error, 0.9)),
    )


def fit_all() -> dict[str, AttentionCurve]:
    """Return all curves by class."""
    every = pl.read_csv(FIGURES)
    curves = {}
    for name, (kernels, devices, units, where) in CLASSES.items():
        rows = every.filter(pl.col("kernel").is_in(kernels) & pl.col("device").is_in(devices))
        curves[name] = fit(rows, units, where)
    older = curves["hopper-flash-2"]
    dim, dim_backward = ((128**4 + s**4) ** 0.25 / 128 for s in (older.softmax, older.softmax_backward))
    curves["ampere"] = attrs.evolve(
        older,
        forward=AMPERE_FORWARD * dim,
        backward=AMPERE_BACKWARD * dim_backward,
        wave=AMPERE_UNITS * 128 / 2,
        fitted_to="levels: 73% of the A100's peak forward and 63% backward, FlashAttention-2's best by arXiv "
        f"2307.08691, at head dimension 128; all else, and the errors, as {older.fitted_to}",
    )
    curves["generic"] = attrs.evolve(
        older,
        fitted_to="kernels that were not written for the device they run on: " + older.fitted_to,
    )
    return curves


def main() -> int:
    """Fit, write and say how well it went."""
    curves = fit_all()
    lines = [HEADER.rstrip()]
    for name, curve in curves.items():
        lines += ["", f"[{name}]"]
        for key, value in attrs.asdict(curve).items():
            text = {str: f'"{value}"', int: str(value)}.get(type(value)) or f"{value:.4g}"
            lines.append(f"{key} = {text}")
        constants = " ".join(f"{key}={getattr(curve, key):.3g}" for key in FIELDS)
        print(f"{name:15} {curve.shapes:3} {curve.median_error:.3f} / {curve.p90_error:.3f}  {constants}")
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
