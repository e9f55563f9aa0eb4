"""TOML out: scenarios as they were entered, and devices with what was changed of a catalogue's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import attrs

from scalewall.hardware.cluster import Cluster


def value(some: Any) -> str:
    """Return a value of TOML: a text, a number, a switch, or a list of them."""
    if isinstance(some, bool):
        return "true" if some else "false"
    if isinstance(some, str):
        return json.dumps(some, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(some, (list, tuple)):
        return f"[{', '.join(map(value, some))}]"
    if isinstance(some, float) and some == int(some if math.isfinite(some) else 0) and abs(some) < 1e15:
        return f"{some:.1f}"
    return repr(some)


def lines(table: Mapping[str, Any]) -> list[str]:
    """Return a table's own lines, without those of tables inside."""
    return [f"{key} = {value(some)}" for key, some in table.items()]


def changes(before: Cluster, after: Cluster) -> list[str]:
    """Return the paths of the numbers that differ, as `Cluster.sources` writes them."""
    found: list[str] = []

    def look(one: Any, other: Any, path: str) -> None:
        if one == other:
            return
        if attrs.has(type(one)) and type(one) is type(other):
            for a in attrs.fields(type(one)):
                look(getattr(one, a.name), getattr(other, a.name), f"{path}.{a.name}" if path else a.name)
        elif isinstance(one, Mapping) and isinstance(other, Mapping):
            for key in one:
                look(one[key], other.get(key), f"{path}.{key}")
        elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            for i, (a, b) in enumerate(zip(one, other, strict=True)):
                look(a, b, f"{path}[{i}]")
        else:
            found.append(path)

    look(before, after, "")
    return found


def _plain(owner: Any) -> dict[str, Any]:
    """Return the fields of a cache or a tier that differ from their defaults."""
    return {a.name: v for a in attrs.fields(type(owner)) if (v := getattr(owner, a.name)) != a.default}


def overlaid(before: Cluster, after: Cluster, base: str) -> str:
    """Return the TOML file of `after`: the entry `base` that it is based on, and what differs."""
    device = {
        a.name: getattr(after.device, a.name)
        for a in attrs.fields(type(after.device))
        if getattr(after.device, a.name) != getattr(before.device, a.name)
    }
    peak, caches = device.pop("peak", None), device.pop("caches", None)
    text = [f"base = {value(base)}"]
    if device:
        text += ["", "[device]", *lines(device)]
    if peak:
        text += ["", "[device.peak]  # FLOP/s", *lines(peak)]
    for cache in caches or ():
        text += ["", "[[device.caches]]", *lines(_plain(cache))]
    if after.tiers != before.tiers:
        for tier in after.tiers:
            text += ["", "[[tiers]]", *lines(_plain(tier))]
    return "\n".join([*text, ""])
