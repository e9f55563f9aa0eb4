"""Fit the constants of `cost.practice.Practice` to measured runs, and report on runs that were held out.

    python scripts/fit_runs.py RUNS.csv

RUNS.csv has the columns of `study.runs`. The constants are the same for all models, devices and runs.
They are fitted to the sources in FITTED_TO alone; all others only tell how well they predict. Nothing is
written: the constants are printed, to be put into `cost.practice`. Needs SciPy, a development dependency.

The fit is of log seconds. Rows of one source, device and precision count less the more there are, and what
is far off bends the fit little. A weak prior keeps constants that the runs say little of where they are
plausible: moving one by its width costs as much as a row that is 10% off.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from scalewall.cost.practice import FITTED, Practice
from scalewall.cost.training_memory import Allowance
from scalewall.study.runs import Run, read_runs, read_table
from scalewall.study.validation import compare

FITTED_TO = ("mosaic", "dgxc", "bigsci", "seqsel", "titan", "mlperf", "simumax")

PRIORS = {  # constant: (plausible value, width, least, most)
    "matmul": (0.9, 0.1, 0.5, 1.2),
    "attention": (0.9, 0.1, 0.5, 1.2),
    "pointwise": (0.8, 0.15, 0.2, 1.0),
    "host_layer": (4e-4, 3e-4, 0.0, 5e-3),
    "host_step": (0.02, 0.02, 0.0, 0.2),
    "overlap_tensor": (0.6, 0.25, 0.0, 1.0),
    "overlap_data": (0.85, 0.1, 0.0, 1.0),
    "overlap_pipeline": (0.5, 0.25, 0.0, 1.0),
    "contention": (0.1, 0.05, 0.0, 0.5),
    "straggling": (0.02, 0.03, 0.0, 0.1),
    "heat": (1.0, 0.3, 0.0, 2.0),
}
PRIOR_ERROR, SCALE = 0.1, 0.08


def errors(runs: list[Run], practice: Practice) -> np.ndarray:
    """Return the log of predicted over measured."""
    allowance = Allowance()
    return np.log([1.0 + compare(run, practice, allowance).error for run in runs])


def fit(runs: list[Run]) -> Practice:
    """Return the constants that fit `runs` best."""
    kinds = [(run.source, run.device, run.job.precision) for run in runs]
    counts = Counter(kinds)
    weights = np.array([counts[kind] ** -0.25 for kind in kinds])
    start, width, least, most = (np.array([PRIORS[name][i] for name in FITTED]) for i in range(4))

    def practice(scaled: np.ndarray) -> Practice:
        return Practice(**dict(zip(FITTED, (start + (scaled - 1.0) * width).tolist(), strict=True)))

    def residuals(scaled: np.ndarray) -> np.ndarray:
        return np.concatenate([weights * errors(runs, practice(scaled)), PRIOR_ERROR * (scaled - 1.0)])

    # Scaled so that each constant starts at 1: steps of a share of it are then of its width's.
    bounds = (1.0 + (least - start) / width, 1.0 + (most - start) / width)
    found = least_squares(
        residuals,
        np.ones(len(FITTED)),
        bounds=bounds,
        loss="soft_l1",
        f_scale=SCALE,
        diff_step=0.1,
        max_nfev=12,
    )
    return practice(found.x)


def report(name: str, runs: list[Run], practice: Practice) -> None:
    """Print the errors of `runs`, together and by source."""
    found = np.expm1(errors(runs, practice))
    print(
        f"{name}: {len(runs)} runs, median {np.median(np.abs(found)):.1%},"
        f" 90th percentile {np.quantile(np.abs(found), 0.9):.1%}, mean {np.mean(np.abs(found)):.1%}"
    )
    for source in dict.fromkeys(run.source for run in runs):
        own = found[[run.source == source for run in runs]]
        print(
            f"  {source:10} {len(own):4}  median {np.median(np.abs(own)):6.1%}  bias {np.median(own):+6.1%}"
            f"  mean {np.mean(np.abs(own)):6.1%}  from {own.min():+.0%} to {own.max():+.0%}"
        )


def main(path: str) -> None:
    """Fit and report."""
    runs, _ = read_runs(read_table(Path(path)))
    inside = [run for run in runs if run.source in FITTED_TO]
    practice = fit(inside)
    for name in FITTED:
        print(f"{name} = {getattr(practice, name):.4g}")
    report("fitted to", inside, practice)
    report("held out", [run for run in runs if run.source not in FITTED_TO], practice)
    report("all", runs, practice)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
