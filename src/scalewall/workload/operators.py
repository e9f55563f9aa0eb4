"""What a block is made of. A list of these is all the cost functions know of an architecture."""

from __future__ import annotations

import attrs


@attrs.frozen
class Linear:
    """A linear layer: `out_features x in_features` weights, each dimension split over one axis.

    The forward pass sums its output over the axis that splits the input; the backward pass sums
    the input's gradient over the axis that splits the output.
    """

    out_features: float
    in_features: float
    out_split: str
    in_split: str


@attrs.frozen
class Exchange:
    """What a token carries from one block to the next: `width` numbers, point to point."""

    width: float


Operator = Linear | Exchange


def ideal_block(d_model: float, d_ff: float) -> tuple[Operator, ...]:
    """Return the block of the ideal model: two matrices, split in two dimensions, and an exchange.

    Each device holds `d_ff/tp_ff x d_model/tp_model` of either matrix. Attention is left out.

    Source: arXiv 2411.01137.
    """
    return (
        Linear(d_ff, d_model, out_split="tp_ff", in_split="tp_model"),
        Linear(d_model, d_ff, out_split="tp_model", in_split="tp_ff"),
        Exchange(d_model),
    )
