"""The step of a measured run under the ideal fidelity: how fast it could be at best."""

from __future__ import annotations

import numpy as np

from scalewall.cost.assumptions import Assumptions
from scalewall.cost.step import AXES, Strategies, parts
from scalewall.study.runs import Run
from scalewall.workload.scaling import Workload


def ideal_step_seconds(run: Run, micro_batch: int, interleave: int) -> float:
    """Return the seconds of a step of `run` under the ideal fidelity, with the run's own degrees.

    The block is the ideal one, an MLP of two matrices of the model's widths, so attention is left
    out, and so is a gate; all that overlaps overlaps, nothing is recomputed, and the schedule is the
    zero-bubble one where there are micro-batches enough. Context parallelism splits tokens as data
    parallelism does.
    """
    job, degrees = run.job, run.degrees
    model, tokens = job.model, float(job.tokens)
    copies = degrees["dp"] * degrees["cp"]
    m = job.batch / (degrees["dp"] * micro_batch)
    workload = Workload(
        training_flop=6.0 * 2.0 * model.d_model * model.d_ff * model.layers * tokens,
        d_model=float(model.d_model),
        d_ff=float(model.d_ff),
        layers=float(model.layers),
        sparsity=1.0,
        batch_tokens=tokens,
        tokens=tokens,
    )
    wanted = {"dp": copies, "tp_model": 1, "tp_ff": degrees["tp"], "pp": degrees["pp"], "ep": 1}
    room = [tier.size for tier in run.cluster.tiers]
    layout = {}
    for axis in ("tp_ff", "dp", "pp", "tp_model", "ep"):
        rest, placed = wanted[axis], []
        for i in range(len(room) - 1):
            here = max(d for d in range(1, rest + 1) if rest % d == 0 and d <= room[i])
            room[i] //= here
            rest //= here
            placed.append(np.array(float(here)))
        layout[axis] = [*placed, np.array(float(rest))]
    strategies = Strategies(
        degrees={axis: layout[axis] for axis in AXES},
        microbatches=np.array(m),
        interleave=np.array(float(interleave)),
        zero_bubble=np.array(m >= 2 * degrees["pp"] and interleave == 1),
    )
    how = Assumptions(precision=job.recipe.matmul, word=2.0)
    return float(parts(run.cluster, workload, strategies, how).seconds)
