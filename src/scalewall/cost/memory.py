"""What a device must hold."""

from __future__ import annotations

from typing import Any

Array = Any


def ideal_bytes(parameters: Array, dp: Array, *, word: float, optimizer: float) -> Array:
    """Return the bytes a device holds of `parameters`, its share of the model's.

    Weights are held by every data-parallel replica, the optimizer's state is sharded over them:
    ``parameters · (word + optimizer/dp)``. Activations are not counted.

    Source: arXiv 2411.01137.
    """
    return parameters * (word + optimizer / dp)
