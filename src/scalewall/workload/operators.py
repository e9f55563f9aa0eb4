"""What a block is made of. A list of these is all the cost functions know of an architecture."""

from __future__ import annotations

import attrs


@attrs.frozen
class Linear:
    """A linear layer: `out_features x in_features` weights, each dimension split over one axis.

    The forward pass sums its output over the axis that splits the input; the backward pass sums
    the input's gradient over the axis that splits the output. An empty axis splits nothing.
    """

    out_features: float
    in_features: float
    out_split: str
    in_split: str


@attrs.frozen
class Attention:
    """The attention core: scores, softmax and the weighted sum of values; it has no weights.

    Its `heads` are split over the tensor-parallel axis. Each group of ``heads / kv_heads`` query
    heads shares one head of keys and values, all of width `head_dim`. A token of a `causal` core
    sees itself and those before it, at most `window` of them (None: no such limit).
    """

    heads: int
    kv_heads: int
    head_dim: int
    causal: bool = True
    window: int | None = None


@attrs.frozen
class Pointwise:
    """What memory bandwidth alone limits: a norm, an activation, the residual's addition.

    The forward pass reads and writes so many numbers a token. `split` is the axis over which these
    are split; it is empty between the tensor-parallel layers, where sequence parallelism splits the
    tokens instead.
    """

    name: str
    reads: float
    writes: float
    split: str


@attrs.frozen
class Exchange:
    """What a token carries from one block to the next: `width` numbers, point to point."""

    width: float


Operator = Linear | Attention | Pointwise | Exchange


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
