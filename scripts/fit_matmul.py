"""Fit the constants of matrix multiplications: makes src/scalewall/data/curves_matmul.toml.

    python scripts/fit_matmul.py SWEEPS_DIR [--sample]

SWEEPS_DIR holds sweeps of measured multiplications: ``aiconfigurator_*.csv.gz`` with m, n, k, latency_ms
and gemm_dtype (ai-dynamo/aiconfigurator, Apache-2.0), and ``deepbench_v100_p100.csv``
(baidu-research/DeepBench, Apache-2.0). ``--sample`` also writes tests/data/gemm_sample.csv. Needs SciPy, a
development dependency.

The fit is of log seconds, by a loss that outliers bend little. What training does counts: at least 512 rows
and FLOP enough to matter; rows that fill their tiles; every half decade of FLOP the same. The sweeps of fewer
than 16 bits time the conversion of the left matrix along with the multiplication; its bytes are fitted with
the rest, and the start of the conversion is what starting takes beyond the 16-bit kernel.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import polars as pl
from scipy.optimize import least_squares

from scalewall.cost.kernels import conversion_seconds, matmul_seconds
from scalewall.hardware import catalogue
from scalewall.hardware.curves import CURVE_PRECISIONS, MatmulCurve

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "scalewall" / "data" / "curves_matmul.toml"
SAMPLE = ROOT / "tests" / "data" / "gemm_sample.csv"

SWEEPS = {  # file's stem: (class, device of the catalogue)
    "deepbench_v100_p100": ("v100", "v100"),
    "aiconfigurator_a100_sxm_trtllm__1.0.0": ("a100", "a100-80gb-sxm"),
    "aiconfigurator_h100_sxm_trtllm__1.3.0rc20": ("h100", "h100-sxm"),
    "aiconfigurator_h200_sxm_trtllm__1.3.0rc20": ("h200", "h200"),
    "aiconfigurator_b200_sxm_trtllm__1.3.0rc20": ("b200", "b200"),
    "aiconfigurator_b300_sxm_trtllm__1.3.0rc20": ("b300", "b300"),
    "aiconfigurator_gb200_trtllm__1.3.0rc20": ("gb200", "gb200"),
    "aiconfigurator_gb300_trtllm__1.3.0rc20": ("gb300", "gb300"),
}
POOLS = {
    "hopper": ("h100", "h200"),
    "blackwell": ("b200", "gb200", "b300", "gb300"),
    "generic": ("v100", "a100", "h100", "h200", "b200", "gb200", "b300", "gb300"),
}
DEVICES = {  # of the catalogue, to the class whose curves are theirs; all others are generic
    **{"v100": "v100", "v100-sxm3": "v100"},
    **{"a100-80gb-sxm": "a100", "a100-40gb-sxm": "a100", "a800-sxm": "a100"},
    **{"h100-sxm": "h100", "h800-sxm": "h100", "h200": "h200"},
    **dict.fromkeys(("h100-pcie", "h100-nvl", "gh200", "h20"), "hopper"),
    **{"b200": "b200", "b300": "b300", "gb200": "gb200", "gb300": "gb300"},
    "vera-rubin": "blackwell",  # its successor, not measured
}
STAND_INS = {  # class and precision that was not measured: the class whose curve it takes
    **{(name, precision): "hopper" for name in ("v100", "a100") for precision in ("fp8", "fp8-block")},
    **{(name, "fp4"): "blackwell" for name in ("v100", "a100", "h100", "h200", "hopper")},
}
PRECISIONS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "fp4"}
WORDS = {"bf16": 2.0, "fp8": 1.0, "fp8-block": 1.0 + 4.0 / 128.0, "fp4": 0.5 + 1.0 / 16.0}
PEAKS = {"bf16": "bf16", "fp8": "fp8", "fp8-block": "fp8", "fp4": "fp4"}

FIELDS = (  # constant, start, least, most, how far (in log) it may move from the start at no great cost
    ("launch", 4e-6, 1e-7, 5e-5, 2.0),
    ("efficiency", 0.75, 0.2, 1.2, 1.0),
    ("ramp", 100.0, 1.0, 4000.0, 2.0),
    ("wave", 3e5, 1e3, 2e7, 2.0),
    ("memory", 0.8, 0.2, 1.0, 0.7),
    ("throttle", 0.1, 1e-3, 2.0, 1.5),
    ("conversion_bytes", 5.0, 0.5, 30.0, 1.0),
)
NAMES = tuple(field[0] for field in FIELDS)
ROWS, FLOP, LARGE = 512, 1e9, 1e11
TILE = 64


def read(folder: Path) -> pl.DataFrame:
    """Return all measurements that are of use: class, precision, m, n, k, seconds, peak, bandwidth."""
    frames = []
    for stem, (name, device_name) in SWEEPS.items():
        device = catalogue.load(device_name).device
        path = folder / (stem + (".csv" if stem.startswith("deepbench") else ".csv.gz"))
        frame = pl.read_csv(path, infer_schema_length=None)
        if stem.startswith("deepbench"):
            frame = frame.filter(
                (pl.col("gpu") == "V100") & pl.col("sheet").str.contains("FP16")
            ).with_columns(pl.lit("bf16").alias("precision"), pl.col("time_ms").alias("latency_ms"))
            # Its m are the weights' rows, its n the tokens.
            frame = frame.rename({"m": "n", "n": "m"})
        else:
            frame = frame.filter(pl.col("gemm_dtype").is_in(list(PRECISIONS))).with_columns(
                pl.col("gemm_dtype").replace_strict(PRECISIONS).alias("precision")
            )
        peaks = {p: device.peak_rate(PEAKS[p]) for p in frame["precision"].unique()}
        frames.append(
            frame.select(
                pl.lit(name).alias("class"),
                pl.lit(device_name).alias("device"),
                "precision",
                *(pl.col(c).cast(pl.Float64) for c in "mnk"),
                (pl.col("latency_ms") * 1e-3).cast(pl.Float64).alias("seconds"),
                pl.col("precision").replace_strict(peaks, return_dtype=pl.Float64).alias("peak"),
                pl.lit(device.memory_bandwidth).alias("bandwidth"),
            )
        )
    every = pl.concat(frames).with_columns((2.0 * pl.col("m") * pl.col("n") * pl.col("k")).alias("flop"))
    return every.filter(
        (pl.col("m") >= ROWS) & (pl.min_horizontal("n", "k") >= 128) & (pl.col("flop") >= FLOP)
    )


def predicted(curve: MatmulCurve, rows: pl.DataFrame) -> Any:
    """Return what `curve` makes of the measurements' shapes: the conversion, then the kernel, seconds."""
    m, n, k, peak, bandwidth = (rows[c].to_numpy() for c in ("m", "n", "k", "peak", "bandwidth"))
    word = rows["precision"].replace_strict(WORDS, return_dtype=pl.Float64).to_numpy()
    kernel = matmul_seconds(curve, peak, bandwidth, m, n, k, word)
    return kernel + conversion_seconds(curve, bandwidth, m * k)


def curve_of(logs: Any, narrow: bool) -> MatmulCurve:
    """Return the curve of the logs of its constants; without a conversion where not `narrow`."""
    constants = dict(zip(NAMES, np.exp(logs).tolist(), strict=True))
    if not narrow:
        constants["conversion_bytes"] = 0.0
    return MatmulCurve(**constants)


def fit(rows: pl.DataFrame) -> MatmulCurve:
    """Return the curve that fits the measurements best; see the module for what counts how much."""
    narrow = rows["precision"][0] != "bf16"
    # DeepBench is a few hundred shapes: all of them count.
    rows = rows.filter((pl.col("m") % TILE == 0) | (pl.col("class") == "v100"))
    rows = rows.with_columns((2.0 * pl.col("flop").log10()).floor().alias("bin"))
    counts = rows.select(pl.len().over("class", "bin")).to_series().to_numpy()
    weight = 1.0 / np.sqrt(np.maximum(counts, 20))
    weight *= math.sqrt(rows.height / float(np.sum(weight**2)))
    starts = np.log([field[1] for field in FIELDS])
    least, most = (np.log([field[i] for field in FIELDS]) for i in (2, 3))
    reach = np.array([field[4] for field in FIELDS])

    def residuals(logs: Any) -> Any:
        errors = np.log(predicted(curve_of(logs, narrow), rows) / rows["seconds"].to_numpy())
        # The prior weighs as one measurement in a thousand: it only settles what the data leave open.
        prior = math.sqrt(rows.height / 1000.0) * (logs - starts) / reach
        return np.concatenate([weight * errors / 0.05, prior])

    found = least_squares(residuals, starts, bounds=(least, most), loss="soft_l1", max_nfev=100)
    return curve_of(found.x, narrow)


def errors(curve: MatmulCurve, rows: pl.DataFrame) -> Any:
    """Return the absolute log errors of the measurements."""
    return np.abs(np.log(predicted(curve, rows) / rows["seconds"].to_numpy()))


def fit_all(every: pl.DataFrame) -> dict[str, dict[str, MatmulCurve]]:
    """Return all curves by class and precision, with where they come from."""
    members = {name: (name,) for name in dict.fromkeys(name for name, _ in SWEEPS.values())} | POOLS
    curves: dict[str, dict[str, MatmulCurve]] = {}
    for name, parts in members.items():
        curves[name] = {}
        for precision in CURVE_PRECISIONS:
            rows = every.filter(pl.col("class").is_in(parts) & (pl.col("precision") == precision))
            if rows.is_empty():
                continue
            curve = fit(rows)
            if precision != "bf16":
                launch = min(curves[name]["bf16"].launch, curve.launch)
                curve = attrs.evolve(curve, launch=launch, conversion_launch=curve.launch - launch)
            error = errors(curve, rows)
            curves[name][precision] = attrs.evolve(
                curve,
                fitted_to=_source(rows),
                shapes=rows.height,
                median_error=float(np.median(error)),
                p90_error=float(np.quantile(error, 0.9)),
            )
    for (name, precision), other in STAND_INS.items():
        ratio = curves[name]["bf16"].efficiency / curves[other]["bf16"].efficiency
        curves[name][precision] = attrs.evolve(
            curves[other][precision],
            efficiency=min(1.2, ratio * curves[other][precision].efficiency),
            fitted_to=f"nothing: as {other}, its efficiency times {ratio:.3f}, the ratio in 16 bits",
            shapes=0,
            median_error=None,
            p90_error=None,
        )
    return curves


def _source(rows: pl.DataFrame) -> str:
    devices = ", ".join(sorted(rows["device"].unique()))
    names = rows["class"].unique().to_list()
    where = ["baidu-research/DeepBench, mixed precision"] if "v100" in names else []
    where += ["ai-dynamo/aiconfigurator@095f58a"] if set(names) - {"v100"} else []
    return f"{devices} ({'; '.join(where)}), at least 512 rows and 1e9 FLOP"


def toml(curves: dict[str, dict[str, MatmulCurve]], reference: float) -> str:
    """Return the text of the TOML file."""
    lines = [
        "# Constants of matrix multiplications, made by scripts/fit_matmul.py; do not edit.",
        "# The law is in cost/kernels.py, what a constant means in hardware/curves.py. Shares are of the",
        "# catalogue's dense peak in the same precision. Errors are of |log(predicted/measured)|, the",
        "# conversion of the left matrix to fewer bits included, as it is in the measurements.",
        "# Measurements: ai-dynamo/aiconfigurator and baidu-research/DeepBench, both Apache-2.0.",
        "",
        "# The sustained share of the 16-bit peak that the generic class stands for: the mean of the",
        "# catalogue's over the devices that it is pooled from.",
        f"reference_sustained = {reference:.4g}",
        "",
        "# Whose curves a device takes; a device that is not here takes the generic ones.",
        "[devices]",
        *(f'{device} = "{name}"' for device, name in DEVICES.items()),
    ]
    for name, precisions in curves.items():
        for precision, curve in precisions.items():
            lines += ["", f"[matmul.{name}.{precision}]"]
            for key, value in attrs.asdict(curve).items():
                if value is None or value == 0:
                    continue
                text = {str: f'"{value}"', int: str(value)}.get(type(value)) or f"{value:.4g}"
                lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"


def table(curves: dict[str, dict[str, MatmulCurve]], every: pl.DataFrame) -> None:
    """Print each class's errors: median / 90th percentile, of all its shapes and of the large ones."""
    print(
        f"{'class':10} {'precision':10} {'shapes':>7} {'all':>13} {'FLOP > 1e11':>13} {'bias':>6}  constants"
    )
    for name, precisions in curves.items():
        parts = POOLS.get(name, (name,))
        for precision, curve in precisions.items():
            rows = every.filter(pl.col("class").is_in(parts) & (pl.col("precision") == precision))
            if rows.is_empty():
                continue
            large = rows.filter(pl.col("flop") > LARGE)
            bias = float(np.median(np.log(predicted(curve, large) / large["seconds"].to_numpy())))
            spans = [
                f"{np.median(e):.3f} / {np.quantile(e, 0.9):.3f}"
                for e in (errors(curve, rows), errors(curve, large))
            ]
            constants = " ".join(f"{key}={getattr(curve, key):.3g}" for key in (*NAMES, "conversion_launch"))
            print(f"{name:10} {precision:10} {rows.height:7} {spans[0]} {spans[1]} {bias:+.3f}  {constants}")


def sample(every: pl.DataFrame) -> None:
    """Write a few shapes of each device and precision, spread over the FLOP, for the tests."""
    rows = every.with_columns(pl.col("flop").log10().floor().alias("bin")).sort(
        "device", "precision", "m", "n", "k"
    )
    kept = rows.filter(pl.int_range(pl.len()).shuffle(seed=1).over("device", "precision", "bin") < 4)
    kept = kept.select("device", "precision", *(pl.col(c).cast(pl.Int64) for c in "mnk"), "seconds")
    kept.with_columns(pl.col("seconds").round_sig_figs(6)).write_csv(SAMPLE)
    print(f"{kept.height} rows, {SAMPLE.stat().st_size / 1e3:.0f} kB: {SAMPLE.name}")


def main(arguments: list[str]) -> int:
    """Fit, write and say how well it went."""
    folders = [a for a in arguments if not a.startswith("-")]
    if len(folders) != 1 or set(arguments) - {*folders, "--sample"}:
        print("Give the folder of the sweeps, and --sample if you like.", file=sys.stderr)
        return 2
    every = read(Path(folders[0]))
    curves = fit_all(every)
    names = every["device"].unique()
    reference = float(np.mean([catalogue.load(name).device.sustained for name in names]))
    TARGET.write_text(toml(curves, reference), encoding="utf-8")
    table(curves, every)
    if "--sample" in arguments:
        sample(every)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
