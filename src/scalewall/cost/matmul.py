r"""One matrix multiplication on one device: a roofline over the levels of its memory.

The weight matrix, `rows x columns`, is what is cut into tiles at every level. Everything it moves
and computes grows linearly in the number of tokens, so a multiplication is the largest of a few
straight lines, and these are found once for each sharding:

    seconds(tokens) = kernel_latency + max(arithmetic · tokens, fixed_i + per_token_i · tokens, …)

Source: arXiv 2411.01137, section on the device model.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from scalewall.hardware.device import Device

Array = Any
"""A NumPy array of floats, or anything that broadcasts with one."""


@attrs.frozen
class Lines:
    """A multiplication's seconds as straight lines in the number of tokens.

    `useful` is the arithmetic's seconds a token at the sustained rate, `padded` the same with
    weights padded to the tile. `levels` holds for each level of memory, from main memory inward,
    its fixed seconds and its seconds a token. All broadcast over the sharding's shape.
    """

    useful: Array
    padded: Array
    levels: tuple[tuple[Array, Array], ...]


def shard(size: float, degree: Array, whole: bool) -> Array:
    """Return the part of a dimension of `size` that one of `degree` devices holds.

    A whole dimension is rounded down (as arXiv 2411.01137 does); a real one is just divided.
    """
    return np.floor(size / degree) if whole else size / degree


def padded(size: Array, tile: float, whole: bool) -> Array:
    """Return what the matrix unit computes for a dimension of `size`: whole tiles, at least one.

    A real dimension (see `Workload.whole`) is taken to be chosen to fill its tiles.
    """
    return tile * np.ceil(size / tile) if whole else np.maximum(size, tile)


def tiling(rows: Array, columns: Array, tile_words: float) -> tuple[Array, Array]:
    """Return into how many rows and columns of tiles a `rows x columns` matrix is cut.

    The fewest tiles that fit, ``n = ceil(rows · columns / tile_words)``, as near square as the
    matrix allows: ``sqrt(n · rows/columns)`` rows of them, between 1 and n. Counts may be fractions.

    Source: arXiv 2411.01137.
    """
    n = np.ceil(rows * columns / tile_words)
    tile_rows = np.clip(np.sqrt(n * rows / columns), 1.0, n)
    return tile_rows, n / tile_rows


def lines(
    device: Device,
    rows: Array,
    columns: Array,
    *,
    weight_gradient: bool,
    fill: float,
    word: float,
    whole: bool,
    precision: str = "bf16",
) -> Lines:
    """Return the seconds of one multiplication as lines in the number of tokens.

    Parameters
    ----------
    device
        The device.
    rows, columns
        Shape of the weights: the output has `rows`, the right-hand operand `columns` numbers a token.
    weight_gradient
        Whether the product is the weights' gradient (both operands are read), not an output.
    fill
        Share of a level's capacity that tiles may fill.
    word
        Bytes a number.
    whole
        Whether dimensions are integers, see `padded`.
    precision
        Precision of the arithmetic.

    Notes
    -----
    Bytes of the boundary between a level and the next inner one, for `b` tokens and tiles in
    `R` rows and `K` columns:

    - the weights once (their gradient, read and written: twice), or not at all where weights and
      gradient together fit the inner level, all its instances taken together;
    - the right-hand operand once a row of tiles, ``R · columns · b``;
    - the left-hand one ``K`` times where it is read, ``2·K − 1`` times where it is the output.

    A level carries its outer boundary and its inner one. Where a level's instances share tiles
    over a network of their own (`Cache.pooled`), its outer boundary is tiled for all of them
    together, and what a single instance's tiling re-reads crosses that network instead.

    Source: arXiv 2411.01137.
    """
    rate = device.sustained_rate(precision)
    useful = 2.0 * rows * columns / rate
    full = 2.0 * padded(rows, device.tile, whole) * padded(columns, device.tile, whole) / rate
    return Lines(useful, full, _levels(device, rows, columns, weight_gradient, fill, word))


def _levels(
    device: Device, rows: Array, columns: Array, weight_gradient: bool, fill: float, word: float
) -> tuple[tuple[Array, Array], ...]:
    """Return the seconds of each level of memory, fixed and a token, from main memory inward."""
    weights = word * rows * columns
    right, left = word * columns, word * rows  # bytes a token
    passes = 2.0 if weight_gradient else 1.0
    fixed: list[Array] = [0.0]
    moved: list[Array] = [0.0]
    for cache in device.caches:
        tile_bytes = fill * (cache.total_capacity if cache.pooled else cache.capacity)
        tile_rows, tile_columns = tiling(rows, columns, tile_bytes / word)
        left_passes = tile_columns if weight_gradient else 2.0 * tile_columns - 1.0
        once = np.where(2.0 * weights <= fill * cache.total_capacity, 0.0, passes * weights)
        traffic = tile_rows * right + left_passes * left
        fixed[-1], moved[-1] = fixed[-1] + once, moved[-1] + traffic
        fixed.append(once)
        moved.append(traffic)
        if cache.pooled:
            tile_words = fill * cache.capacity / word
            moved[-1] = moved[-1] + _pool_traffic(rows, columns, tile_words, left, right, weight_gradient)
    if not device.caches:  # nothing is known of the levels inside: every operand moves once
        fixed, moved = [passes * weights], [right + left]
    bandwidths = [device.memory_bandwidth, *(device.cache_bandwidth(cache) for cache in device.caches)]
    return tuple(
        (f / bandwidth, m / bandwidth)
        for f, m, bandwidth in zip(fixed, moved, bandwidths, strict=True)
        if bandwidth is not None
    )


def _pool_traffic(
    rows: Array, columns: Array, tile_words: float, left: Array, right: Array, weight_gradient: bool
) -> Array:
    """Return the bytes a token that cross the network among a level's instances.

    The right-hand operand goes once to every small row of tiles (a multicast), a left-hand input
    once to every small column, each not at all where there is only one; an output is summed,
    ``2·(columns − 1)`` times (a reduce-scatter).
    """
    small_rows, small_columns = tiling(rows, columns, tile_words)
    shared = np.where(small_rows > 1.0, small_rows, 0.0) * right
    if weight_gradient:
        return shared + np.where(small_columns > 1.0, small_columns, 0.0) * left
    return shared + 2.0 * (small_columns - 1.0) * left


def seconds(device: Device, line: Lines, tokens: Array, whole: bool) -> Array:
    """Return the seconds of one multiplication of `tokens` tokens, its start included."""
    longest = line.padded * padded(tokens, device.token_tile, whole)
    for fixed, per_token in line.levels:
        longest = np.maximum(longest, fixed + per_token * tokens)
    return device.kernel_latency + longest


def seconds_by_cause(device: Device, line: Lines, tokens: Array, whole: bool) -> dict[str, Array]:
    """Return the seconds of one multiplication by what causes them; they add up to `seconds`.

    Arithmetic counts what is useful; tiles half full are `padding`; the excess of the slowest
    level of memory over the arithmetic is charged to main memory or to the caches.
    """
    arithmetic = line.padded * padded(tokens, device.token_tile, whole)
    times = [fixed + per_token * tokens for fixed, per_token in line.levels]
    memory = times[0] if times else arithmetic
    caches = memory
    for time in times[1:]:
        caches = np.maximum(caches, time)
    over = np.maximum(0.0, np.maximum(memory, caches) - arithmetic)
    by_memory = memory >= caches
    return {
        "arithmetic": line.useful * tokens + 0.0 * arithmetic,
        "padding": arithmetic - line.useful * tokens,
        "memory_bandwidth": np.where(by_memory, over, 0.0 * over),
        "cache_bandwidth": np.where(by_memory, 0.0 * over, over),
        "kernel_latency": device.kernel_latency + 0.0 * arithmetic,
    }
