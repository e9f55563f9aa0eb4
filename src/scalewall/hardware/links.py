"""How a network tier moves data in practice: the constants of a law, by class of interconnect.

A class (``nvlink4-hopper``, ``infiniband``, …) holds one curve for each collective. The law that
uses them is in `scalewall.cost.transport`; the constants stand in ``data/links.toml``, fitted by
``scripts/fit_collectives.py``. The catalogue's tiers find their class by name (`curve_for`).
"""

from __future__ import annotations

import functools
import math
from importlib.resources import files
from pathlib import Path

import attrs

from scalewall.errors import InputError, nearest
from scalewall.hardware.cluster import Cluster
from scalewall.schema import read_toml, structure
from scalewall.units import quantity

LINKS = Path(str(files("scalewall"))) / "data" / "links.toml"


@attrs.frozen(kw_only=True)
class Curve:
    """Constants of one collective on one tier; `scalewall.cost.transport` has the law."""

    base: float = quantity("s", "of a call, whatever it carries", least=0.0, open_below=False)
    hop: float = quantity("s", "of each step beyond", least=0.0, open_below=False)
    level: float = quantity(
        "1", "steps that one level of a tree costs; infinite where there is no tree", default=math.inf
    )
    share: float = quantity("1", "of the tier's bandwidth that long messages reach", most=1.0)
    fill: float = quantity(
        "1",
        "how much of an ideal pipeline's filling is seen (1: as much)",
        default=1.0,
        least=0.0,
        open_below=False,
    )
    own: float = quantity(
        "1",
        "cost of a device's own part, over that of one it receives",
        default=0.0,
        least=0.0,
        most=1.0,
        open_below=False,
    )


@attrs.frozen(kw_only=True)
class LinkClass:
    """A class of interconnect: which tiers it covers, its curves, and what they were fitted to.

    `names` are beginnings of the names of tiers, as the catalogue has them; none for the two classes
    that serve where nothing else does. `outer` says whether it joins domains rather than devices.
    """

    name: str = attrs.field(metadata={"doc": "what the class is called"})
    names: tuple[str, ...] = attrs.field(default=(), metadata={"doc": "beginnings of tiers' names"})
    outer: bool = attrs.field(default=False, metadata={"doc": "whether it joins domains, not devices"})
    source: str = attrs.field(metadata={"doc": "what the constants were fitted to"})
    median_error: float | None = quantity(
        "1",
        "median of the relative error where it was fitted",
        default=None,
        least=0.0,
        open_below=False,
        optional=True,
    )
    p90_error: float | None = quantity(
        "1",
        "the same, 90th percentile",
        default=None,
        least=0.0,
        open_below=False,
        optional=True,
    )
    all_reduce: Curve
    in_switch: Curve | None = attrs.field(
        default=None, metadata={"doc": "all-reduce added up by the switches (NVLS), where they can"}
    )
    all_gather: Curve
    reduce_scatter: Curve
    all_to_all: Curve
    send: Curve


@attrs.frozen(kw_only=True)
class LinkClasses:
    """All classes of interconnect, the most special first."""

    classes: tuple[LinkClass, ...]

    def __getitem__(self, name: str) -> LinkClass:
        known = {found.name: found for found in self.classes}
        if name not in known:
            raise InputError("link class", "a known class of interconnect", name, nearest(name, list(known)))
        return known[name]


def load_links(path: Path | None = None) -> LinkClasses:
    """Return the classes of interconnect in the TOML file at `path`, or scalewall's own.

    Raises
    ------
    InputError
        If the file is wrong; all its faults are reported in one go.
    """
    return _own() if path is None else structure(read_toml(path), LinkClasses)


@functools.cache
def _own() -> LinkClasses:
    return structure(read_toml(LINKS), LinkClasses)


def curve_for(cluster: Cluster, tier: int, classes: LinkClasses) -> LinkClass:
    """Return the class of tier `tier` of `cluster`: the first whose names the tier's name begins with.

    A tier that no class names gets ``generic-scale-up`` if it joins devices, ``generic-scale-out`` if
    it joins domains.
    """
    name = cluster.tiers[tier].name
    for found in classes.classes:
        if found.outer is (tier > 0) and any(name.startswith(start) for start in found.names):
            return found
    return classes["generic-scale-out" if tier > 0 else "generic-scale-up"]
