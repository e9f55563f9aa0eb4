r"""Seconds of single kernels as devices were measured to take them, for the full fidelity.

The laws are smooth, rise with the work and fall with the device's rates, so that a search or a fit
may lean on them. A law's constants (`hardware.curves`) are fitted to a class of devices; peak and
bandwidth are the device's own. Sizes broadcast.

A multiplication of m x k by k x n:

    arithmetic = 2·(m·n + wave)·(k + ramp) / (efficiency·peak)
    held back  = arithmetic·(1 + throttle·arithmetic/(arithmetic + throttle_time))
    memory     = (word·k·(m + n) + output_word·m·n) / (memory·bandwidth)
    seconds    = launch + (held back⁴ + memory⁴)^¼

`wave` is the output lost to tiles and waves of tiles that are not full, about half of what all the
arithmetic units hold at once; `ramp` the reduced dimension that starting and ending a tile takes;
`throttle` what long multiplications lose as the power limit lowers the clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scalewall.hardware.curves import AttentionCurve, MatmulCurve

Array = Any
"""A NumPy array of floats, or anything that broadcasts with one."""

OUTPUT_WORD = 2.0
"""Bytes of an output element: 16 bits, whatever the precision of the inputs."""

FORWARD_FLOP = 4.0
"""FLOP a score and head dimension of attention: two multiplications, scores and output."""

BACKWARD_FLOP = 10.0
"""The same backward: five multiplications, the scores being computed anew (arXiv 2307.08691)."""

SOFTMAX_BYTES = 4.0 + 5.0
"""Bytes a score that unfused attention moves between its two multiplications, forward.

Scale, mask and softmax in one kernel read and write 16 bits each; dropout reads and writes the
same and writes a mask of one byte. (Megatron-LM's kernels, arXiv 2104.04473 and 2205.05198.)
"""

SOFTMAX_BACKWARD_BYTES = 5.0 + 6.0
"""The same backward: dropout reads a gradient and its mask and writes a gradient; softmax reads
its output and a gradient and writes a gradient."""

PLAIN_SOFTMAX_BYTES = 8.0
"""What is added forward where scale and mask are kernels of their own: each reads and writes 16 bits."""

PLAIN_SOFTMAX_BACKWARD_BYTES = 4.0
"""What is added backward where scale is a kernel of its own; a mask has no gradient."""


def matmul_seconds(
    curve: MatmulCurve,
    peak: Array,
    memory_bandwidth: Array,
    m: Array,
    n: Array,
    k: Array,
    word: Array,
    output_word: Array = OUTPUT_WORD,
    heat: Array | None = None,
) -> Array:
    """Return the seconds of one kernel that multiplies m x k by k x n.

    Parameters
    ----------
    curve
        Constants of the device's class in this precision.
    peak, memory_bandwidth
        The device's dense peak in this precision, FLOP/s, and its main memory's bytes/s.
    m, n, k
        Rows of the left matrix, columns of the right one, and the dimension that is summed over.
        For a weight's gradient that is the tokens.
    word
        Bytes of an input element, its scale included: 2, 1, 1 + 4/128 (a block of 128), 9/16 (NVFP4).
    output_word
        Bytes moved for an output element: 2, or 8 where a weight's gradient is added to one in 32 bits.
    heat
        Share of the power limit's loss that is felt from the start, as within a training step; None for
        a multiplication alone, which feels the more of it the longer it takes.

    Notes
    -----
    The formula is the module's. Converting the inputs to fewer bits is not in it: see
    `conversion_seconds`. Fitted by ``scripts/fit_matmul.py``; errors stand beside the constants.
    """
    outputs = m * n
    arithmetic = (2.0 / (curve.efficiency * peak)) * (outputs + curve.wave) * (k + curve.ramp)
    felt = arithmetic / (arithmetic + curve.throttle_time) if heat is None else heat
    arithmetic = arithmetic * (1.0 + curve.throttle * felt)
    memory = (word * k * (m + n) + output_word * outputs) / (curve.memory * memory_bandwidth)
    return curve.launch + _soft_maximum(arithmetic, memory)


def conversion_seconds(curve: MatmulCurve, memory_bandwidth: Array, elements: Array) -> Array:
    """Return the seconds of converting a 16-bit matrix of so many `elements` to fewer bits.

    ``conversion_launch + conversion_bytes · elements / memory_bandwidth``: finding the scale and
    converting are kernels of their own, bound by memory. Nothing for 16 bits.
    """
    return curve.conversion_launch + (curve.conversion_bytes / memory_bandwidth) * elements


def attention_seconds(
    curve: AttentionCurve,
    peak: Array,
    heads: Array,
    head_dim: Array,
    queries: Array,
    keys: Array,
    *,
    causal: bool,
    window: float = np.inf,
    backward: bool = False,
) -> Array:
    """Return the seconds of one fused attention core (FlashAttention and its like).

    ``seconds = launch + flop · rows · (seen + start + cut) · dim / (efficiency · peak)``

    Parameters
    ----------
    curve
        Constants of the device's class.
    peak
        The device's dense 16-bit peak, FLOP/s.
    heads
        Sequences times query heads.
    head_dim
        Dimensions a head.
    queries, keys
        Length of the sequence of queries, and of that of keys, tokens; causal: no more queries than keys.
    causal
        Whether a query sees only the keys up to its own place (the last query sees all).
    window
        The most keys a query sees.
    backward
        Whether it is the backward pass: 10 FLOP a score and dimension in place of 4.

    Notes
    -----
    - ``rows = heads · queries + wave``: blocks of queries that leave units without work.
    - ``seen``: keys a query sees on average, see `keys_seen`.
    - ``start``: keys' worth of time that a row of blocks takes to start and end; ``cut`` what is
      computed in vain in the blocks along the diagonal, and along the window's edge.
    - ``dim = (head_dim⁴ + softmax⁴)^¼``: softmax's time a score, as a head dimension, hides behind
      the multiplications or they behind it.

    Sources beside the constants: arXiv 2307.08691 (FlashAttention-2), 2407.08608 (3), 2603.05451 (4).
    """
    flop, efficiency, softmax, start = FORWARD_FLOP, curve.forward, curve.softmax, curve.start
    if backward:
        flop, efficiency, softmax = BACKWARD_FLOP, curve.backward, curve.softmax_backward
        start = curve.start_backward
    seen = keys_seen(queries, keys, causal=causal)
    if np.any(np.isfinite(window)):
        seen = np.minimum(seen, keys_seen(queries, keys, causal=causal, window=window) + curve.cut)
    seen = seen + (start + curve.cut * float(causal))
    dim = _soft_maximum(head_dim, softmax)
    return curve.launch + (flop / (efficiency * peak)) * (heads * queries + curve.wave) * seen * dim


def keys_seen(queries: Array, keys: Array, *, causal: bool, window: float = np.inf) -> Array:
    """Return how many keys a query sees on average, tokens.

    Causal: ``keys − (queries − 1)/2`` with the last query seeing all keys. In a window of ``w`` keys a
    query sees no more than ``w``; the first ones, which see fewer, are counted where it is causal.
    """
    if not causal:
        return np.minimum(keys, window) + 0.0 * queries
    first = keys - queries + 1.0  # keys that the first query sees
    most = np.minimum(keys, window)
    growing = np.clip(most - first, 0.0, None)  # queries that see fewer than `most`
    return most - 0.5 * growing * (growing + 1.0) / queries


def unfused_attention_seconds(
    curve: MatmulCurve,
    peak: Array,
    memory_bandwidth: Array,
    heads: Array,
    head_dim: Array,
    queries: Array,
    keys: Array,
    *,
    backward: bool = False,
    plain: bool = False,
) -> Array:
    """Return the seconds of an attention core that writes its scores to memory.

    Two multiplications (four backward) over all ``heads · queries · keys`` scores, masked or not,
    and the passes over the scores between them, which are bound by memory.

    Parameters
    ----------
    curve, peak, memory_bandwidth
        As for `matmul_seconds`, in 16 bits.
    heads, head_dim, queries, keys
        As for `attention_seconds`.
    backward
        Whether it is the backward pass.
    plain
        Whether scale and mask are kernels of their own (no fused softmax).

    Notes
    -----
    What the multiplications read and write of the scores is in their own memory time; the passes'
    bytes are `SOFTMAX_BYTES` and its kin. Source: the kernels of Megatron-LM, arXiv 2104.04473.
    """
    rows = heads * queries
    scores = matmul_seconds(curve, peak, memory_bandwidth, rows, keys, head_dim, OUTPUT_WORD)
    output = matmul_seconds(curve, peak, memory_bandwidth, rows, head_dim, keys, OUTPUT_WORD)
    # Backward: the scores' gradient; queries', keys' and values' gradients each read a matrix of scores.
    multiplied = scores + (3.0 if backward else 1.0) * output
    moved = SOFTMAX_BACKWARD_BYTES if backward else SOFTMAX_BYTES
    kernels = 2.0
    if plain:
        moved += PLAIN_SOFTMAX_BACKWARD_BYTES if backward else PLAIN_SOFTMAX_BYTES
        kernels += 1.0 if backward else 2.0
    passes = pointwise_seconds(moved * rows * keys, memory_bandwidth, curve.memory, kernels * curve.launch)
    return multiplied + passes


def pointwise_seconds(
    moved: Array, memory_bandwidth: Array, efficiency: float = 1.0, launch: float = 0.0
) -> Array:
    """Return the seconds of an operator bound by memory: ``launch + moved / (efficiency · bandwidth)``.

    Parameters
    ----------
    moved
        Bytes read and written.
    memory_bandwidth, efficiency
        Main memory's bytes/s, and the share of it that such operators reach.
    launch
        Seconds of starting its kernels.
    """
    return launch + moved / (efficiency * memory_bandwidth)


def _soft_maximum(a: Array, b: Array) -> Array:
    """Return ``(a⁴ + b⁴)^¼``: the larger, or 19% more where they are equal. By squares, for speed."""
    a, b = a * a, b * b
    return np.sqrt(np.sqrt(a * a + b * b))
