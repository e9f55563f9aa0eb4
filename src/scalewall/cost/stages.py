"""Pipeline stages of a real model: how many layers each has, and how long the pipeline takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalewall.cost import pipeline

Array = Any


def stage_layers(layers: int, pp: Array, interleave: Array) -> tuple[Array, Array, Array]:
    """Return the layers of the first stage, of those between, and of the last.

    Stages are even where their chunks are. Where they would be with two layers more, embedding and
    head count as a layer each (as Megatron-LM offers): the first and the last stage have one layer
    less. Else as many stages as are needed have one layer more than the rest: those between if they
    are enough, as the first and the last have more to do already. Of those between, it is the fullest
    one's.
    """
    chunks = pp * interleave
    even = np.equal(layers % chunks, 0)
    counted = np.equal((layers + 2) % chunks, 0) & (pp > 1) & ~even
    least = np.floor(layers / pp)
    over = layers - least * pp  # stages with one layer more
    mean = (layers + 2) / pp
    middle = np.where(even, layers / pp, np.where(counted, mean, least + np.minimum(over, 1)))
    first = np.where(even, layers / pp, np.where(counted, mean - 1, least + (over > np.maximum(pp - 2, 0))))
    last = np.where(even, layers / pp, np.where(counted, mean - 1, least))
    return first, middle, last


def pipeline_seconds(
    first: Array,
    middle: Array,
    last: Array,
    pp: Array,
    microbatches: Array,
    interleave: Array,
    total: Array | None = None,
) -> Array:
    """Return the seconds in which a pipeline passes all micro-batches forward and backward.

    ``m · worst + idle · (sum − worst)/(pp − 1)``: the slowest stage never waits, and the rest of the
    stages fill and drain the pipeline once, in `interleave` chunks each.

    Parameters
    ----------
    first, middle, last
        Seconds of one micro-batch, forward and backward, on the first stage, on one between, and on
        the last; with one stage, that is the first.
    pp, microbatches, interleave
        Stages, micro-batches, chunks a stage.
    total
        Seconds of all stages together, where those between are not all like the fullest of them.

    Notes
    -----
    Source: arXiv 2104.04473; `pipeline.idle_microbatches` has the case of few micro-batches.
    """
    several = pp > 1
    worst: Array = np.where(several, np.maximum(first, last), first)
    worst = np.where(pp > 2, np.maximum(worst, middle), worst)
    if total is None:
        total = np.where(several, first + last + np.maximum(pp - 2, 0) * middle, first)
    idle = pipeline.idle_microbatches(pp, microbatches, interleave)
    return microbatches * worst + idle * (total - worst) / np.maximum(pp - 1, 1)
