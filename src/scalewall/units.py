"""Units at the edges: text such as ``900 GB/s`` or ``3 months`` in, SI floats inside, the same text out.

Inside scalewall every number is an SI float (seconds, bytes, FLOP, bytes per second). The unit of a
field lives in its metadata (`quantity`); `parse` and `show` translate where a user reads or writes.
"""

from __future__ import annotations

import math
import re
from typing import Any

import attrs

from scalewall.errors import InputError

YEAR = 3.154e7
"""Seconds in a year, as the paper rounds it; a month is a twelfth."""

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_TIMES = {
    **{"s": 1.0, "sec": 1.0, "second": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9},
    **{"min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0},
    **{"week": 7 * 86400.0, "month": YEAR / 12, "year": YEAR},
}
_TIMES |= {f"{name}s": size for name, size in _TIMES.items() if len(name) > 2 and not name.endswith("s")}


def _prefixed(*bases: str, scale: float = 1.0, binary: bool = False) -> dict[str, float]:
    prefixes = {**_PREFIXES, **_BINARY} if binary else _PREFIXES
    return {p + base: size * scale for p, size in prefixes.items() for base in bases}


_BYTES = _prefixed("B", binary=True)
_SCALES: dict[str, dict[str, float]] = {
    "s": _TIMES,
    "B": _BYTES,
    "B/s": {
        **{f"{name}{per}": size for name, size in _BYTES.items() for per in ("/s", "ps")},
        **_prefixed("b/s", "bps", "bit/s", scale=1 / 8),
    },
    "FLOP": _prefixed("FLOP", "FLOPs", ""),
    "FLOP/s": _prefixed("FLOP/s", "FLOPS", "FLOPs/s"),
    "Hz": _prefixed("Hz"),
    "W": _prefixed("W"),
    "USD": _prefixed("USD", "$"),
    "tokens": _prefixed("tokens", "token", "", binary=True),
    "parameters": _prefixed("parameters", ""),
    "1": {"": 1.0, "%": 0.01, "x": 1.0},
}
_EXAMPLES = {
    "s": "a time such as '9us' or '3 months'",
    "B": "an amount of memory such as '80 GB' or '50 MiB'",
    "B/s": "a bandwidth such as '450 GB/s' or '400 Gb/s'",
    "FLOP": "an amount of arithmetic such as '1e28'",
    "FLOP/s": "a rate such as '989 TFLOP/s'",
    "Hz": "a frequency such as '1830 MHz'",
    "W": "a power such as '700 W'",
    "USD": "a price such as '30000 USD'",
    "tokens": "a number of tokens such as '4e6' or '4Mi'",
    "1": "a plain number such as '0.7'",
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*(?:\s*/\s*\S+)?)\s*")


def parse(value: object, unit: str = "1", field: str = "value") -> float:
    """Return `value`, a number or a text with a unit, as a float in SI.

    Parameters
    ----------
    value
        A number, taken to be in `unit` already, or a text such as ``"900 GB/s"``.
    unit
        The SI unit wanted: ``s``, ``B``, ``B/s``, ``FLOP``, ``FLOP/s``, ``Hz``, ``W``, ``USD``,
        ``tokens``, ``parameters`` or ``1``.
    field
        The field's name, for the error.

    Raises
    ------
    InputError
        If `value` is no number, or its unit is not one of this kind.
    """
    must = _EXAMPLES.get(unit, f"a number of {unit}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            raise InputError(field, must, value) from None
    elif isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        suffix = re.sub(r"\s", "", match[2])
        scales = _SCALES.get(unit, {})
        if suffix and suffix != unit and suffix not in scales:
            raise InputError(field, must, value, f"The unit '{suffix}' is not one of {unit}.")
        number = float(match[1].replace("_", "")) * scales.get(suffix, 1.0)
    else:
        raise InputError(field, must, value)
    if math.isnan(number):
        raise InputError(field, must, value)
    return number


def show(value: float, unit: str = "1", digits: int = 4) -> str:
    """Return `value` (SI) as text in a readable multiple of `unit`."""
    if value is None:
        return "unknown"
    if unit == "s":
        steps = [("years", YEAR * 2), ("months", YEAR / 12), ("days", 86400.0), ("h", 3600.0), ("s", 1.0)]
        steps += [("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)]
        name, least = next((s for s in steps if abs(value) >= s[1]), ("ns", 1e-9))
        return "0 s" if value == 0 else f"{value / (YEAR if name == 'years' else least):.{digits}g} {name}"
    if unit in {"B", "B/s", "FLOP/s", "Hz", "W"} and math.isfinite(value) and value > 0:
        for prefix, size in reversed(_PREFIXES.items()):
            if prefix != "K" and value >= size:
                return f"{value / size:.{digits}g} {prefix}{unit}"
    if unit == "1":
        return f"{value:.{digits}g}"
    return f"{value:.{digits}g} {unit}"


def quantity(
    unit: str,
    doc: str,
    *,
    default: Any = attrs.NOTHING,
    source: str = "",
    least: float = 0.0,
    most: float = math.inf,
    open_below: bool = True,
    optional: bool = False,
) -> Any:
    """Return an attrs field that holds an SI float and knows its unit, meaning, bounds and source.

    Parameters
    ----------
    unit, doc, source
        Unit in SI, meaning in a few words, and where the default comes from.
    default
        Default value, in SI or as text with a unit.
    least, most, open_below
        Bounds; `least` itself is allowed only if `open_below` is false. Infinity is always allowed
        above, since an infinitely fast network is a question people ask.
    optional
        Whether None (unknown) is allowed.
    """

    def check(owner: object, attribute: Any, value: float | None) -> None:
        check_bounds(value, attribute.name, attribute.metadata)

    metadata = {
        **{"unit": unit, "doc": doc, "source": source, "least": least, "most": most},
        **{"open_below": open_below, "optional": optional},
    }
    return attrs.field(default=default, validator=check, metadata=metadata)


def check_bounds(value: object, name: str, metadata: Any, got: object = None) -> None:
    """Raise `InputError` unless `value` is a float within the bounds of a `quantity` field.

    `got` is what the user wrote, where that differs from `value`.
    """
    if value is None and metadata["optional"]:
        return
    unit, least, most = metadata["unit"], metadata["least"], metadata["most"]
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value <= most
    if good and isinstance(value, (int, float)):
        good = value > least if metadata["open_below"] else value >= least
    if not good:
        kind = "number" if unit == "1" else f"number of {unit}"
        sign = "positive " if least == 0 and metadata["open_below"] else ""
        low = "" if sign else f" of at least {least:g}" if unit == "1" else f", at least {least:g}"
        high = f", at most {most:g}" if math.isfinite(most) else ""
        raise InputError(name, f"a {sign}{kind}{low}{high}", value if got is None else got)
