"""A block under tensor, pipeline and expert parallelism: its multiplications and what it sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost import collective, matmul, pipeline
from scalewall.cost.assumptions import Assumptions
from scalewall.cost.matmul import Lines
from scalewall.hardware.cluster import Cluster
from scalewall.workload.operators import Exchange, Linear, Operator

Array = Any
Degrees = Mapping[str, Sequence[Array]]
"""For each axis (``tp_model``, ``tp_ff``, ``pp``, ``dp``, ``ep``) its degree at each tier."""


@attrs.frozen
class Multiplications:
    """The distinct multiplications of a block's forward and backward pass, and how often each occurs."""

    counted: tuple[tuple[int, Lines], ...]


def total(degrees: Sequence[Array]) -> Array:
    """Return an axis's degree over all tiers."""
    product = degrees[0]
    for degree in degrees[1:]:
        product = product * degree
    return product


def multiplications(
    cluster: Cluster, block: Sequence[Operator], split: Mapping[str, Array], how: Assumptions, whole: bool
) -> Multiplications:
    """Return a block's multiplications, sharded by the degrees `split`.

    A linear layer needs three: its output, its input's gradient (the same with rows and columns
    exchanged) and its weights' gradient. Equal ones are priced once.
    """
    counts: Counter[tuple[bool, tuple[float, str], tuple[float, str]]] = Counter()
    for layer in block:
        if isinstance(layer, Linear):
            out, inner = (layer.out_features, layer.out_split), (layer.in_features, layer.in_split)
            counts[False, out, inner] += 1
            counts[False, inner, out] += 1
            low, high = sorted((out, inner))  # a gradient costs the same transposed
            counts[True, low, high] += 1
    return Multiplications(
        tuple(
            (
                count,
                matmul.lines(
                    cluster.device,
                    matmul.shard(rows[0], split[rows[1]], whole),
                    matmul.shard(columns[0], split[columns[1]], whole),
                    weight_gradient=gradient,
                    fill=how.fill,
                    word=how.word,
                    whole=whole,
                    precision=how.precision,
                ),
            )
            for (gradient, rows, columns), count in counts.items()
        )
    )


def multiplication_seconds(cluster: Cluster, products: Multiplications, tokens: Array, whole: bool) -> Array:
    """Return the seconds of all of a block's multiplications of `tokens` tokens."""
    times = [n * matmul.seconds(cluster.device, line, tokens, whole) for n, line in products.counted]
    return sum(times[1:], times[0])


def tensor_bytes(
    block: Sequence[Operator],
    degrees: Degrees,
    how: Assumptions,
    whole: bool,
    reducing: Sequence[bool] = (),
) -> list[Array]:
    """Return the bytes a token and device that tensor parallelism sends at each tier, forward and backward.

    Forward, a linear layer's output is summed over the axis that splits its input; backward, its
    input's gradient over the axis that splits its output. The axes' bytes add up within a tier.
    `reducing` says of each tier whether its switches reduce; none does if left out.
    """
    carried: list[Array] = [0.0] * len(next(iter(degrees.values())))
    for layer in block:
        if isinstance(layer, Linear):
            for size, own, summed in (
                (layer.out_features, layer.out_split, layer.in_split),
                (layer.in_features, layer.in_split, layer.out_split),
            ):
                words = matmul.shard(size, total(degrees[own]), whole)
                sent = collective.all_reduce_bytes(how.word * words, degrees[summed], reducing)
                carried = [a + b for a, b in zip(carried, sent, strict=True)]
    return carried


def tensor_latency(cluster: Cluster, block: Sequence[Operator], degrees: Degrees) -> Array:
    """Return the seconds of latency of a block's tensor-parallel all-reduces, forward and backward."""
    waits: Array = 0.0
    for layer in block:
        if isinstance(layer, Linear):
            for axis in (layer.in_split, layer.out_split):
                waits = waits + collective.all_reduce_latency(cluster.tiers, degrees[axis])
    return waits


def exchanges(degrees: Degrees, interleave: Array, layers: float) -> list[Array]:
    """Return how many interfaces between blocks a token crosses at no tier and at each tier, on average.

    The exchange takes place at the higher of two tiers: the pipeline's at this interface, and that
    of the next expert, who is anywhere with equal probability.

    Source: arXiv 2411.01137.
    """
    pipe = pipeline.crossings(degrees["pp"], interleave, layers)
    expert = collective.peer_shares(degrees["ep"])
    counts: list[Array] = []
    pipe_below: Array = 0.0
    expert_below: Array = 0.0
    before: Array = 0.0
    for here, share in zip(pipe, expert, strict=True):
        pipe_below, expert_below = pipe_below + here, expert_below + share
        counts.append(pipe_below * expert_below - before)
        before = pipe_below * expert_below
    return counts


def exchange_bytes(
    block: Sequence[Operator], degrees: Degrees, interleave: Array, layers: float, how: Assumptions
) -> list[Array]:
    """Return the bytes a token and device that exchanges send at each tier in one block, on average.

    Forward and backward; a token's `width` numbers are spread over the tensor-parallel group.
    """
    width = sum(layer.width for layer in block if isinstance(layer, Exchange))
    sent = 2.0 * how.word * width / (total(degrees["tp_model"]) * total(degrees["tp_ff"]) * layers)
    return [sent * count for count in exchanges(degrees, interleave, layers)[1:]]


def exchange_latency(cluster: Cluster, degrees: Degrees, interleave: Array, layers: float) -> Array:
    """Return the seconds of latency of all exchanges of one micro-batch, forward and backward.

    A micro-batch waits for its last token, and some token always crosses the highest expert tier.
    """
    expert_wait: Array = 0.0  # latency of the highest expert tier, and which tier that is
    expert_tier: Array = -1.0
    for t, (tier, degree) in enumerate(zip(cluster.tiers, degrees["ep"], strict=True)):
        expert_wait = np.where(np.greater(degree, 1), tier.latency, expert_wait)
        expert_tier = np.where(np.greater(degree, 1), float(t), expert_tier)
    inside, *borders = pipeline.crossings(degrees["pp"], interleave, layers)
    waits = inside * expert_wait
    for t, (tier, count) in enumerate(zip(cluster.tiers, borders, strict=True)):
        waits = waits + count * np.where(expert_tier > t, expert_wait, tier.latency)
    return 2.0 * waits
