"""A strategy as one object, and the space of them that a search goes through."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from scalewall.cost.step import AXES, Strategies
from scalewall.errors import InputError, nearest
from scalewall.hardware.cluster import Cluster
from scalewall.workload.scaling import Workload

Array = Any
SCHEDULES = ("1f1b", "zero-bubble")


@attrs.frozen(kw_only=True)
class Strategy:
    """How a run is laid out: each axis's degree in all and at each tier, and the pipeline's schedule."""

    dp: int
    tp_model: int
    tp_ff: int
    pp: int
    ep: int
    microbatches: int
    interleave: int
    schedule: str
    layout: Mapping[str, tuple[int, ...]]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.dp * self.tp_model * self.tp_ff * self.pp * self.ep

    @property
    def arrays(self) -> Strategies:
        """The strategy as arrays of one element."""
        return Strategies(
            degrees={axis: [np.array([float(p)]) for p in self.layout[axis]] for axis in AXES},
            microbatches=np.array([float(self.microbatches)]),
            interleave=np.array([float(self.interleave)]),
            zero_bubble=np.array([self.schedule == "zero-bubble"]),
        )

    @classmethod
    def of(cls, strategies: Strategies, at: tuple[int, ...]) -> Strategy:
        """Return the strategy at the index `at` of the shape to which `strategies` broadcast."""

        def pick(values: Array) -> int:
            values = np.asarray(values)
            place = tuple(
                i if n > 1 else 0 for i, n in zip(at[len(at) - values.ndim :], values.shape, strict=True)
            )
            return int(values[place])

        layout = {axis: tuple(pick(p) for p in strategies.degrees[axis]) for axis in AXES}
        return cls(
            **{axis: math.prod(layout[axis]) for axis in AXES},
            microbatches=pick(strategies.microbatches),
            interleave=pick(strategies.interleave),
            schedule=SCHEDULES[pick(strategies.zero_bubble)],
            layout=layout,
        )


def parse_degrees(text: str | int | Sequence[int] | None, field: str) -> tuple[int, ...] | None:
    """Return the degrees that a user fixes: a number, or several apart by commas.

    Raises
    ------
    InputError
        If a part is not a whole number of at least 1.
    """
    if text is None:
        return None
    parts: Iterable[Any] = (
        text.split(",") if isinstance(text, str) else [text] if isinstance(text, int) else text
    )
    try:
        degrees = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        degrees = ()
    if not degrees or min(degrees) < 1:
        raise InputError(field, "a whole number of at least 1, or several such as '4,8'", text)
    return degrees


def _degrees_field(axis: str) -> Any:
    return attrs.field(default=None, metadata={"read": lambda value: parse_degrees(value, axis)})


@attrs.frozen(kw_only=True)
class Space:
    """The strategies a search may choose from: all of them, but for what is fixed here.

    A degree is fixed by a tuple of the values it may take; left None, it takes every ``2^a · 3^b``
    up to what it splits. `microbatches` and `interleave` are any whole number unless fixed.
    `inner` fixes the layout: for an axis, its degree at each tier but the last.
    """

    dp: tuple[int, ...] | None = _degrees_field("dp")
    tp_model: tuple[int, ...] | None = _degrees_field("tp_model")
    tp_ff: tuple[int, ...] | None = _degrees_field("tp_ff")
    pp: tuple[int, ...] | None = _degrees_field("pp")
    ep: tuple[int, ...] | None = _degrees_field("ep")
    microbatches: int | None = None
    interleave: int | None = None
    schedules: tuple[str, ...] = attrs.field(
        default=SCHEDULES,
        metadata={"read": lambda value: (value,) if isinstance(value, str) else tuple(value)},
    )
    inner: Mapping[str, tuple[int, ...]] = attrs.field(
        factory=dict,
        metadata={
            "read": lambda value: {axis: parse_degrees(degrees, axis) for axis, degrees in value.items()}
        },
    )

    def __attrs_post_init__(self) -> None:
        for axis in AXES:
            degrees = getattr(self, axis)
            if degrees is not None and (not degrees or min(degrees) < 1):
                raise InputError(axis, "a list of at least one whole number of at least 1", degrees)
        for name in ("microbatches", "interleave"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(name, "a whole number of at least 1", value)
        for schedule in self.schedules or ("",):
            if schedule not in SCHEDULES:
                raise InputError("schedules", f"one of {', '.join(SCHEDULES)}", schedule)
        for axis in self.inner:
            if axis not in AXES:
                raise InputError(
                    "inner", f"a table with keys of {', '.join(AXES)}", axis, nearest(axis, AXES)
                )

    @property
    def schedules_left(self) -> tuple[bool, bool]:
        """Whether 1F1B may be had, and zero-bubble, which needs two micro-batches and one chunk a stage."""
        filled = (self.microbatches or 2) > 1 and self.interleave in (None, 1)
        return "1f1b" in self.schedules, "zero-bubble" in self.schedules and filled

    def degrees(self, axis: str, workload: Workload) -> Array:
        """Return the degrees `axis` may take for `workload`, in order, as floats."""
        most = {
            "dp": workload.batch_tokens / workload.sparsity,
            "tp_model": workload.d_model,
            "tp_ff": workload.d_ff,
            "pp": workload.layers,
            "ep": workload.sparsity,
        }[axis]
        chosen = getattr(self, axis)
        values = smooth_numbers(most) if chosen is None else sorted({d for d in chosen if d <= most})
        if workload.whole and axis == "pp":
            values = [d for d in values if workload.layers % d == 0]
        return np.array(values, dtype=float)

    def layouts(self, cluster: Cluster, workload: Workload | None = None) -> Layouts:
        """Return every layout of the tiers but the last, or those that may split `workload`.

        What a layout uses of a tier divides the tier, so that no device is left idle.
        """
        sizes = tuple(int(tier.size) for tier in cluster.tiers[:-1])
        fixed = {axis: tuple(degrees) for axis, degrees in self.inner.items()}
        if workload is not None:
            whole = [axis for axis in AXES if self.degrees(axis, workload).max(initial=1.0) == 1.0]
            fixed = {axis: (1,) * len(sizes) for axis in whole} | fixed
        return _layouts(sizes, tuple(sorted(fixed.items())))

    def size(self, cluster: Cluster, workload: Workload) -> float:
        """Return how many strategies the space holds, whatever they cost and whether they fit."""
        layouts = self.layouts(cluster, workload).degrees.prod(axis=2)
        axes = {axis: self.degrees(axis, workload) for axis in AXES}
        if any(not len(values) for values in axes.values()) or not len(layouts):
            return 0.0
        pp, most_m = axes["pp"], np.floor(workload.batch_tokens / (workload.sparsity * axes["dp"]))[:, None]
        most_v = np.where(pp > 1, np.floor(workload.layers / pp), 1.0)
        fixed_m = self.microbatches or 0
        counts = (fixed_m <= most_m).astype(float) if fixed_m else most_m
        chunks = (self.interleave <= most_v).astype(float) if self.interleave else most_v
        ways = ("1f1b" in self.schedules) * counts * chunks
        filled = np.maximum(0.0, most_m - 2.0 * pp + 1.0)
        filled = counts * (fixed_m >= 2.0 * pp) if fixed_m else filled
        one_chunk = self.interleave in (None, 1)
        ways = ways + ("zero-bubble" in self.schedules and one_chunk) * filled
        # A layout allows the degrees that what it uses divides: counted once for each number that is used.
        used, allowed = {}, {}
        for i, axis in enumerate(AXES):
            parts, used[axis] = np.unique(layouts[:, i], return_inverse=True)
            allowed[axis] = (axes[axis] % parts[:, None] == 0).astype(float)
        pairs = allowed["dp"] @ ways @ allowed["pp"].T
        others = [allowed[axis].sum(axis=1)[used[axis]] for axis in ("tp_model", "tp_ff", "ep")]
        return float((math.prod(others) * pairs[used["dp"], used["pp"]]).sum())


@attrs.frozen(kw_only=True)
class Layouts:
    """Layouts of all tiers but the last, grouped by what they give to the tensor axes.

    Attributes
    ----------
    degrees
        Degree of each axis (as in `AXES`) at each tier: layouts, axes, tiers.
    tensor
        The distinct parts of these that the tensor axes have: parts, (tp_model, tp_ff), tiers.
    order, first, count
        The layouts in the order of their tensor part, where in it each part's begin, and how many.
    """

    degrees: Array
    tensor: Array
    order: Array
    first: Array
    count: Array


@functools.lru_cache(maxsize=32)
def _layouts(sizes: tuple[int, ...], fixed: tuple[tuple[str, tuple[int, ...]], ...]) -> Layouts:
    """Return the layouts of tiers of `sizes`, with the degrees at each tier of some axes `fixed`."""
    each_tier = []
    for t, size in enumerate(sizes):
        ways = [way for n in divisors(size) for way in factorisations(n, len(AXES))]
        held = [(AXES.index(axis), degrees[t]) for axis, degrees in fixed if t < len(degrees)]
        each_tier.append([way for way in ways if all(way[i] == degree for i, degree in held)])
    chosen = [list(zip(*ways, strict=True)) for ways in itertools.product(*each_tier)]
    degrees = np.array(chosen, dtype=float).reshape(len(chosen), len(AXES), len(sizes))
    tensor = degrees[:, [AXES.index("tp_model"), AXES.index("tp_ff")]]
    parts, part = np.unique(tensor.reshape(len(chosen), 2 * len(sizes)), axis=0, return_inverse=True)
    count = np.bincount(part.ravel(), minlength=len(parts))
    return Layouts(
        degrees=degrees,
        tensor=parts.reshape(len(parts), 2, len(sizes)),
        order=np.argsort(part.ravel(), kind="stable"),
        first=np.cumsum(count) - count,
        count=count,
    )


@functools.lru_cache(maxsize=64)
def smooth_numbers(most: float) -> tuple[int, ...]:
    """Return all ``2^a · 3^b`` up to `most`, in order."""
    found = []
    for b in itertools.count():
        if 3**b > most:
            break
        found += [2**a * 3**b for a in range(int(math.log2(most / 3**b)) + 2) if 2**a * 3**b <= most]
    return tuple(sorted(found))


def divisors(n: int) -> list[int]:
    """Return the divisors of `n`, in order."""
    small = [i for i in range(1, math.isqrt(n) + 1) if n % i == 0]
    return small + [n // i for i in reversed(small) if i * i != n]


def factorisations(n: int, parts: int) -> list[tuple[int, ...]]:
    """Return all ways to write `n` as a product of `parts` ordered factors."""
    if parts == 1:
        return [(n,)]
    return [(d, *rest) for d in divisors(n) for rest in factorisations(n // d, parts - 1)]
