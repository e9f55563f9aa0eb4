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
    less. Else the stages between take what is left over, as the first and the last have more to do
    already.
    """
    chunks = pp * interleave
    even = np.equal(layers % chunks, 0)
    counted = np.equal((layers + 2) % chunks, 0) & (pp > 1) & ~even
    most = np.ceil(layers / pp)
    ends = np.where(pp > 1, np.maximum(np.ceil((layers - most * (pp - 2)) / 2), 0), layers)
    mean = (layers + 2) / pp
    middle = np.where(even, layers / pp, np.where(counted, mean, most))
    first = np.where(even, layers / pp, np.where(counted, mean - 1, ends))
    last = np.where(even, layers / pp, np.where(counted, mean - 1, layers - ends - most * (pp - 2)))
    return first, middle, np.where(pp > 1, last, layers)


def pipeline_seconds(
    first: Array, middle: Array, last: Array, pp: Array, microbatches: Array, interleave: Array
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

    Notes
    -----
    Source: arXiv 2104.04473; `pipeline.idle_microbatches` has the case of few micro-batches.
    """
    several = pp > 1
    worst: Array = np.where(several, np.maximum(first, last), first)
    worst = np.where(pp > 2, np.maximum(worst, middle), worst)
    total = np.where(several, first + last + np.maximum(pp - 2, 0) * middle, first)
    idle = pipeline.idle_microbatches(pp, microbatches, interleave)
    return microbatches * worst + idle * (total - worst) / np.maximum(pp - 1, 1)
