"""The latency wall in closed form: arithmetic on the back of an envelope, beside the search's answer."""

from __future__ import annotations

import attrs

from scalewall.errors import InputError
from scalewall.units import parse

_LEAST, _MOST = 1e-30, 1e30  # between which squares and products stay numbers


@attrs.frozen(kw_only=True)
class Wall:
    """The latency wall's closed form: the largest model whose steps fit the run, and its compute."""

    parameters: float
    training_flop: float
    latency: float
    layers: float
    batch: float
    duration: float


def wall(
    *,
    latency: float | str = 9e-6,
    layers: float | str = 120,
    batch: float | str = 4e6,
    duration: float | str = 0.25 * 3.154e7,
    tokens_per_parameter: float | str = 20.0,
) -> Wall:
    """Return the closed form of the latency wall.

    Parameters
    ----------
    latency
        Seconds that one matrix multiplication waits whatever its size: a kernel's start and the
        network operations after it (4.5 µs and four of 1.125 µs).
    layers
        Number of blocks.
    batch
        Tokens a step.
    duration
        Seconds the run may take.
    tokens_per_parameter
        Training tokens a parameter.

    Notes
    -----
    A step waits for two multiplications a block, forward and backward: ``4·L·latency``. A run has
    ``r·N/B`` steps. So ``N ≤ duration · B / (4·r·L·latency)``, with ``r = 20`` and ``C = 6·r·N²``.

    Source: Epoch AI, *Data movement bottlenecks to large-scale model training* (2024).
    """
    given = {
        "latency": latency,
        "layers": layers,
        "batch": batch,
        "duration": duration,
        "tokens_per_parameter": tokens_per_parameter,
    }
    values = {
        "latency": parse(latency, "s", "latency"),
        "layers": parse(layers, "1", "layers"),
        "batch": parse(batch, "tokens", "batch"),
        "duration": parse(duration, "s", "duration"),
    }
    ratio = parse(tokens_per_parameter, "1", "tokens_per_parameter")
    for name, value in {**values, "tokens_per_parameter": ratio}.items():
        if not _LEAST <= value <= _MOST:
            raise InputError(name, f"a number from {_LEAST:g} to {_MOST:g}", given[name])
    slots = 4.0 * ratio * values["layers"] * values["latency"]
    parameters = values["duration"] * values["batch"] / slots
    return Wall(parameters=parameters, training_flop=6.0 * ratio * parameters**2, **values)
