"""A device: what it computes, holds and moves.

All figures are SI floats, dense (no structured sparsity) and in one direction where there are two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from scalewall.errors import InputError, InputErrors, nearest
from scalewall.units import parse, quantity

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")

GENERIC = "generic"
"""The class of devices whose kernels were not measured."""


@attrs.frozen(kw_only=True)
class Cache:
    """One level of memory between a device's main memory and its arithmetic units.

    Levels are listed from the outermost (L2) to the innermost (a processing block's registers). A
    level holds tiles of a matrix; its bandwidth carries what comes in from the level outside it and
    what goes on to the level inside it. A level without a bandwidth limits by its capacity alone.
    """

    name: str = attrs.field(metadata={"doc": "what the vendor calls it"})
    instances: int = attrs.field(default=1, metadata={"doc": "how many the device has", "unit": "1"})
    capacity: float = quantity("B", "bytes one instance gives to a tile")
    bandwidth: float | None = quantity("B/s", "of all instances together", default=None, optional=True)
    bytes_per_clock: float | None = quantity(
        "B", "per clock and instance, at the sustained clock", default=None, optional=True
    )
    pooled: bool = attrs.field(
        default=False,
        metadata={"doc": "whether instances share tiles over a network of their own"},
    )

    @instances.validator
    def _check_instances(self, attribute: object, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError("instances", "a whole number of at least 1", value)

    def __attrs_post_init__(self) -> None:
        if self.bandwidth is not None and self.bytes_per_clock is not None:
            raise InputError("bytes_per_clock", "absent where a bandwidth is given", self.bytes_per_clock)

    @property
    def total_capacity(self) -> float:
        """Bytes in all instances together."""
        return self.capacity * self.instances


def read_peak(value: object) -> Mapping[str, float]:
    """Return rates by precision, of numbers or text with units.

    Raises
    ------
    InputErrors
        If it is no table, or for all rates that are none.
    """
    if not isinstance(value, Mapping) or not value:
        raise InputError("peak", f"a table of rates by precision ({', '.join(PRECISIONS)})", value)
    rates: dict[str, float] = {}
    faults: list[InputError] = []
    for precision, rate in value.items():
        field = f"peak.{precision}"
        try:
            rates[precision] = parse(rate, "FLOP/s", field)
            if precision not in PRECISIONS:
                raise InputError(field, "a known precision", precision, nearest(precision, PRECISIONS))
            if not 0 < rates[precision] < math.inf:
                raise InputError(field, "a positive number of FLOP/s", rate)
        except InputError as fault:
            faults.append(fault)
    if faults:
        raise InputErrors(faults)
    return rates


@attrs.frozen(kw_only=True)
class Device:
    """One accelerator.

    `sustained` is the share of the dense peak at the rated clock that a large matrix
    multiplication keeps up; `kernel_latency` is paid by every matrix multiplication. `curves` names the
    device of the catalogue whose measured kernels it has; `hardware.curves` says how they follow its rates.
    """

    name: str = attrs.field(metadata={"doc": "name in the catalogue"})
    peak: Mapping[str, float] = attrs.field(
        metadata={
            "unit": "FLOP/s",
            "doc": "dense peak at the rated clock, by precision",
            "read": read_peak,
        }
    )
    sustained: float = quantity("1", "share of the peak that is sustained", most=1.0)
    clock: float | None = quantity("Hz", "rated clock", default=None, optional=True)
    memory: float = quantity("B", "main memory")
    memory_bandwidth: float = quantity("B/s", "of main memory")
    caches: tuple[Cache, ...] = attrs.field(
        default=(), metadata={"doc": "levels between main memory and arithmetic, outermost first"}
    )
    kernel_latency: float = quantity(
        "s",
        "start of one matrix multiplication",
        default=4.5e-6,
        least=0.0,
        open_below=False,
        most=1e6,
        source="arXiv 2411.01137",
    )
    tile: int = attrs.field(
        default=16, metadata={"unit": "1", "doc": "rows and columns of weights a matrix unit takes at once"}
    )
    token_tile: int = attrs.field(
        default=8, metadata={"unit": "1", "doc": "tokens a matrix unit takes at once"}
    )
    power: float | None = quantity("W", "thermal design power", default=None, optional=True)
    price: float | None = quantity("USD", "price of one device", default=None, optional=True)
    curves: str = attrs.field(
        default=GENERIC, metadata={"doc": "device of the catalogue whose measured kernels it has, or generic"}
    )

    @peak.validator
    def _check_peak(self, attribute: object, value: object) -> None:
        read_peak(value)

    @caches.validator
    def _check_caches(self, attribute: object, value: tuple[Cache, ...]) -> None:
        for i, cache in enumerate(value):
            if cache.bytes_per_clock is not None and self.clock is None:
                raise InputError(
                    f"caches[{i}].bytes_per_clock", "absent where the clock is unknown", cache.bytes_per_clock
                )

    @tile.validator
    @token_tile.validator
    def _check_tile(self, attribute: attrs.Attribute[int], value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(attribute.name, "a whole number of at least 1", value)

    def peak_rate(self, precision: str = "bf16") -> float:
        """Return the dense peak in FLOP/s; 16-bit means bf16, else fp16, else the fastest wider one.

        Raises
        ------
        InputError
            If the device does not compute in `precision`.
        """
        stand_ins = {"bf16": ("bf16", "fp16", "tf32", "fp32"), "fp16": ("fp16", "bf16", "tf32", "fp32")}
        for name in stand_ins.get(precision, (precision,)):
            if name in self.peak:
                return self.peak[name]
        has = [p for p in PRECISIONS if self.peak.keys() & {p, *stand_ins.get(p, ())}]
        raise InputError("precision", f"one that {self.name} has: {', '.join(has)}", precision)

    def sustained_rate(self, precision: str = "bf16") -> float:
        """Return the FLOP/s that a large matrix multiplication keeps up."""
        return self.sustained * self.peak_rate(precision)

    def cache_bandwidth(self, cache: Cache) -> float | None:
        """Return the bytes/s of all instances of `cache`, at the sustained clock; None if unlimited."""
        if cache.bytes_per_clock is None or self.clock is None:
            return cache.bandwidth
        return cache.bytes_per_clock * cache.instances * self.clock * self.sustained
