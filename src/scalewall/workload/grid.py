"""The grid of arXiv 2411.01137: one workload a width.

Widths, depths, sparsities and batches are rounded to small multiples of powers of two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from scalewall.errors import InputError
from scalewall.workload.scaling import Scaling, Workload

FIRST_WIDTH = 12288
WIDTH_UNIT = 2048
SEQUENCE = 2048
_ROUND_FACTORS = range(1, 10, 2)


def widths(first: int = FIRST_WIDTH) -> Iterator[int]:
    """Yield the grid's widths from `first` up: ``m·2^i``, odd m to 15, multiples of 2048."""
    for i in itertools.count():
        octave = {m * WIDTH_UNIT * 2**i for m in range(8 if i else 1, 16)}
        yield from sorted(width for width in octave if width >= first)


def nearest_round(value: float) -> int:
    """Return the ``m·2^i``, odd m to 9, that is nearest to `value`."""
    power = math.floor(math.log2(max(value, 1.0)))
    near: set[int] = {m * 2**i for m in _ROUND_FACTORS for i in range(max(0, power - 4), power + 2)}
    return min(sorted(near), key=lambda n: abs(n - value))


def workload(scaling: Scaling, d_model: int) -> Workload:
    """Return the grid's workload of width `d_model`.

    Depth and sparsity are rounded, and the batch is the sparsity times the rounded number of
    sequences that an expert sees.
    """
    d_ff = scaling.ff_ratio * d_model
    logs = {"d": math.log(d_model), "f": math.log(d_ff)}
    sparsity = nearest_round(math.exp(scaling.sparsity.log(logs)))
    layers = nearest_round(math.exp(_depth_log(scaling, logs, sparsity)))
    parameters = 2 * d_model * d_ff * layers * sparsity
    tokens = scaling.tokens_per_parameter * parameters
    training_flop = 6 * parameters / sparsity * tokens
    logs |= {
        name: math.log(v)
        for name, v in (("S", sparsity), ("N", parameters), ("D", tokens), ("C", training_flop))
    }
    sequences = nearest_round(scaling.batch_tokens(logs) / (SEQUENCE * sparsity))
    return Workload(
        training_flop=training_flop,
        d_model=d_model,
        d_ff=d_ff,
        layers=layers,
        sparsity=sparsity,
        batch_tokens=SEQUENCE * sequences * sparsity,
        tokens=tokens,
        whole=True,
    )


def _depth_log(scaling: Scaling, logs: dict[str, float], sparsity: float) -> float:
    """Return log L at a given width. L and N, D, C depend on each other along a line in log L."""

    def implied(log_layers: float) -> float:
        log_n = math.log(2.0 * sparsity) + logs["d"] + logs["f"] + log_layers
        log_d = log_n + math.log(scaling.tokens_per_parameter)
        log_c = math.log(6.0 / sparsity) + log_n + log_d
        return scaling.depth.log({**logs, "S": math.log(sparsity), "N": log_n, "D": log_d, "C": log_c})

    start, slope = implied(0.0), implied(1.0) - implied(0.0)
    if not slope < 1.0 - 1e-9:
        raise InputError("depth_law", "one under which wider models are larger", scaling.depth.text)
    return start / (1.0 - slope)
