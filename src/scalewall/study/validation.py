"""Predicted against measured: the step time of every run that says enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.cost.layer import Setting
from scalewall.cost.machine import Machine
from scalewall.cost.plans import Plans
from scalewall.cost.practice import Practice
from scalewall.cost.training import Step, step
from scalewall.cost.training_memory import Allowance, total_bytes
from scalewall.study.ideal import ideal_step_seconds
from scalewall.study.limits import Progress
from scalewall.study.planning import read_constants
from scalewall.study.run_table import SHIPPED, read_table
from scalewall.study.runs import Run, read_runs

Array = Any

MOST_MICRO_BATCH = 64
"""The largest micro-batch tried where a row does not state it."""


@attrs.frozen(kw_only=True)
class Compared:
    """One run: what was measured, what is predicted, and with what.

    `error` is ``predicted/measured − 1``; `ideal_step_time_s` is the ideal fidelity's step, which nothing
    measured can be faster than. `micro_batch`, `interleave`, `recomputed` (share of layers)
    and `selective` are the row's, or the choice that was made for it; `searched` names those.
    """

    id: str
    source: str
    device: str
    model: str
    precision: str
    software: str
    devices: int
    measured_step_time_s: float
    predicted_step_time_s: float
    error: float
    ideal_step_time_s: float
    mfu: float
    micro_batch: int
    interleave: int
    recomputed: float
    selective: bool
    memory_bytes: float
    searched: tuple[str, ...]
    settled: tuple[str, ...]
    seconds_by_cause: Mapping[str, float]


@attrs.frozen(kw_only=True)
class Summary:
    """Absolute errors of runs: how many, their median, 90th percentile and mean (None of none), by group."""

    n: int
    skipped: int
    median_abs_error: float | None
    p90_abs_error: float | None
    mean_abs_error: float | None
    by_source: Mapping[str, Mapping[str, float]]
    by_device: Mapping[str, Mapping[str, float]]


@attrs.frozen(kw_only=True)
class Validation:
    """All runs compared, and why each of the others was skipped."""

    rows: tuple[Compared, ...]
    skipped: Mapping[str, str]

    @property
    def summary(self) -> Summary:
        """The errors, by source and by device."""
        errors = np.array([abs(row.error) for row in self.rows])
        some = len(errors) > 0
        return Summary(
            n=len(self.rows),
            skipped=len(self.skipped),
            median_abs_error=float(np.median(errors)) if some else None,
            p90_abs_error=float(np.quantile(errors, 0.9)) if some else None,
            mean_abs_error=float(np.mean(errors)) if some else None,
            by_source=_grouped(self.rows, "source"),
            by_device=_grouped(self.rows, "device"),
        )


def _grouped(rows: Iterable[Compared], name: str) -> dict[str, dict[str, float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, name)].append(row.error)
    return {
        key: {
            "n": len(errors),
            "median_abs_error": float(np.median(np.abs(errors))),
            "mean_abs_error": float(np.mean(np.abs(errors))),
            "median_error": float(np.median(errors)),
        }
        for key, errors in sorted(groups.items())
    }


def validate(
    rows: Iterable[Mapping[str, Any]],
    practice: Practice | None = None,
    allowance: Allowance | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Return predicted against measured for every row that says enough, the columns of `study.runs`.

    `progress` is called with how many runs are done, of how many, and the source of the last.
    """
    practice, allowance = practice or Practice(), allowance or Allowance()
    runs, skipped = read_runs(rows)
    compared = []
    for run in runs:
        compared.append(compare(run, practice, allowance))
        if progress is not None:
            progress(len(compared), len(runs), run.source)
    return Validation(rows=tuple(compared), skipped=skipped)


def validate_file(
    runs: Path | str | None = None, progress: Progress | None = None, /, **constants: Any
) -> Validation:
    """Return predicted against measured for a CSV file of runs, or for those that ship.

    Parameters
    ----------
    runs
        Path of the file.
    progress
        As of `validate`.
    **constants
        Constants of `Practice` and `Allowance` in place of the defaults.

    Raises
    ------
    InputError
        If the file is no table of runs, or a constant is wrong.
    """
    return validate(read_table(Path(runs) if runs else SHIPPED), *read_constants(constants), progress)


def machine_of(run: Run) -> Machine:
    """Return the machine that `run` ran on."""
    return Machine.of(run.cluster, run.power)


def possible_plans(run: Run) -> Plans:
    """Return the plans that the run may have had: one, or one for each choice that it leaves open.

    Micro-batches are divisors of a rank's batch; interleaving, where it is open, divides a stage's
    layers. Recomputation that is not stated is none, selective, or of ever more of a stage's layers.
    """
    degrees, per_rank = run.degrees, run.job.batch // run.degrees["dp"]
    stage = -(-run.job.model.layers // degrees["pp"])
    sizes = [run.micro_batch] if run.micro_batch else []
    sizes = sizes or [b for b in range(1, min(per_rank, MOST_MICRO_BATCH) + 1) if per_rank % b == 0]
    chunks = [degrees["interleave"]]
    if not run.micro_batch and run.interleave_open:
        chunks = [v for v in range(1, stage + 1) if stage % v == 0]
    modes = {"none": [(0.0, 0.0)], "selective": [(0.0, 1.0)], "full": [(1.0, 0.0)]}.get(
        run.recompute or "", [(0.0, 0.0), (0.0, 1.0), *((k / stage, 1.0) for k in range(1, stage + 1))]
    )
    size, mode, chunk = np.meshgrid(sizes, np.arange(len(modes)), chunks, indexing="ij")
    shares = np.array(modes)
    return Plans(
        tp=degrees["tp"],
        cp=degrees["cp"],
        dp=degrees["dp"],
        pp=degrees["pp"],
        interleave=chunk.astype(float),
        micro_batch=size.astype(float),
        zero=run.zero,
        shard=run.shard,
        recomputed=shares[mode, 0],
        selective=shares[mode, 1] > 0,
        sequence_parallel=run.sequence_parallel and degrees["tp"] > 1,
        zero_bubble=False,
    )


def predict(run: Run, practice: Practice, allowance: Allowance) -> tuple[Plans, Step, Array, int]:
    """Return the run's possible plans, their steps and bytes, and the place of the one that it is taken for.

    That is the fastest of those that fit the memory; if none does, the one that needs least.
    """
    plans = possible_plans(run)
    setting = Setting.of(run.job, machine_of(run), plans, practice, run.software)
    found = step(setting)
    total = total_bytes(setting, allowance)
    shape = np.shape(plans.micro_batch)
    seconds, total = np.broadcast_to(found.seconds, shape), np.broadcast_to(total, shape)
    fits = total <= run.cluster.device.memory
    at = int(np.argmin(np.where(fits, seconds, np.inf)) if fits.any() else np.argmin(total))
    return plans, found, total, at


def compare(run: Run, practice: Practice, allowance: Allowance) -> Compared:
    """Return the run's prediction beside its measurement."""
    plans, found, total, at = predict(run, practice, allowance)
    shape = np.shape(plans.micro_batch)

    def chosen(value: Array) -> float:
        return float(np.broadcast_to(value, shape).flat[at])

    predicted = chosen(found.seconds)
    searched = [] if run.micro_batch else ["micro_batch"]
    searched += ["interleave"] if not run.micro_batch and run.interleave_open else []
    searched += [] if run.recompute else ["recompute"]
    return Compared(
        id=run.id,
        source=run.source,
        device=run.device,
        model=run.title,
        precision=run.job.precision,
        software=run.software.name,
        devices=int(plans.devices),
        measured_step_time_s=run.measured,
        predicted_step_time_s=predicted,
        error=predicted / run.measured - 1.0,
        ideal_step_time_s=ideal_step_seconds(
            run, int(chosen(plans.micro_batch)), int(chosen(plans.interleave))
        ),
        mfu=chosen(found.mfu),
        micro_batch=int(chosen(plans.micro_batch)),
        interleave=int(chosen(plans.interleave)),
        recomputed=chosen(plans.recomputed),
        selective=bool(chosen(plans.selective)),
        memory_bytes=chosen(total),
        searched=tuple(searched),
        settled=tuple(one for one in run.settled if one != "no interleaving" or "interleave" not in searched),
        seconds_by_cause={name: chosen(value) for name, value in found.by_cause.items()},
    )
