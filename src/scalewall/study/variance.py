"""What the spread of an answer is due to: Sobol indices of first order and in total."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from scalewall.study.distributions import unit_cube

Array = Any

ENDS = (0.05, 0.95)
"""The shares of resamples that lie below the ends of an interval."""

_RESAMPLES = 1000


@attrs.frozen(kw_only=True, eq=False)
class Indices:
    """Which share of an answer's variance is due to which input.

    Attributes
    ----------
    first, total
        By output and input: the share that goes if only this input were known, and the share that is
        left if all others were.
    first_interval, total_interval
        Their 5-95% intervals by the bootstrap: (ends, outputs, inputs).
    n
        Points of either base sample; the model was run ``n·(inputs + 2)`` times.
    """

    first: Array
    total: Array
    first_interval: Array
    total_interval: Array
    n: int


def sobol_indices(
    model: Callable[[Array], Array], dimensions: int, n: int, seed: int = 0, resamples: int = _RESAMPLES
) -> Indices:
    """Return the Sobol indices of a vectorised model over the unit cube.

    Parameters
    ----------
    model
        From points, (points, dimensions), to outputs, (outputs, points). Called once, with the two base
        samples and then, for each input, the first with this input taken from the second.
    dimensions, n, seed
        Inputs; points of a base sample, a power of two; seed of the points and of the bootstrap.
    resamples
        Resamples of the bootstrap.

    Notes
    -----
    First order ``mean(f_B · (f_AB − f_A)) / V``, total ``mean((f_A − f_AB)²) / 2V``, of outputs less their
    mean. An output that does not vary has indices of zero. Estimates from few points can be below 0 or
    above 1; they are not cut.

    Source: Saltelli et al., *Variance based sensitivity analysis of model output* (2010). `scipy.stats`
    has the same estimators, but a bootstrap that takes no seed.
    """
    a, b = base_samples(dimensions, n, seed)
    mixed = []
    for i in range(dimensions):
        one = np.array(a)
        one[:, i] = b[:, i]
        mixed.append(one)
    outputs = np.asarray(model(np.concatenate([a, b, *mixed])), dtype=float)
    outputs = outputs.reshape(outputs.shape[0], dimensions + 2, n)
    first, total = _shares(outputs)
    dice = np.random.default_rng(seed)
    again = [_shares(outputs[:, :, dice.integers(0, n, n)]) for _ in range(resamples)]
    return Indices(
        first=first,
        total=total,
        first_interval=np.quantile([one for one, _ in again], ENDS, axis=0),
        total_interval=np.quantile([one for _, one in again], ENDS, axis=0),
        n=n,
    )


def base_samples(dimensions: int, n: int, seed: int) -> Array:
    """Return two base samples: (2, points, dimensions)."""
    points = unit_cube(n, 2 * dimensions, seed)
    return np.stack([points[:, :dimensions], points[:, dimensions:]])


def _shares(outputs: Array) -> tuple[Array, Array]:
    """Return first-order and total indices, (outputs, inputs), of (outputs, samples, points)."""
    base = outputs[:, :2]
    centred = outputs - base.mean(axis=(1, 2), keepdims=True)
    variance = base.var(axis=(1, 2))[:, None]
    f_a, f_b, mixed = centred[:, :1], centred[:, 1:2], centred[:, 2:]
    first, total = (f_b * (mixed - f_a)).mean(axis=2), 0.5 * ((f_a - mixed) ** 2).mean(axis=2)
    varies = variance > 1e-24
    known: Mapping[str, Any] = {"where": varies}
    return (
        np.divide(first, variance, out=np.zeros_like(first), **known),
        np.divide(total, variance, out=np.zeros_like(total), **known),
    )
