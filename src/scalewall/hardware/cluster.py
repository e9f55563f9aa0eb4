"""A cluster: tiers of network over many devices."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from scalewall.errors import InputError
from scalewall.hardware.device import Device
from scalewall.units import quantity

MOST_MEMBERS = 1_000_000  # of a tier that ends, all of whose layouts are searched


@attrs.frozen(kw_only=True)
class Tier:
    """One level of network. Tier 0 joins devices (the scale-up domain); tier `i` joins domains of tier `i-1`.

    `size` counts members of the tier below (devices at tier 0); infinite at the last tier, where
    the network goes on as far as the run needs. Switches that reduce in the network
    (`in_network_reduction`) take each byte of an all-reduce once and hand each sum out once.
    """

    name: str = attrs.field(metadata={"doc": "what it is called"})
    size: float = quantity(
        "1", "members of the tier below that it joins", default=math.inf, least=1.0, open_below=False
    )
    bandwidth: float = quantity("B/s", "of one device, in each direction")
    latency: float = quantity("s", "of one network operation", least=0.0, open_below=False, most=1e6)
    in_network_reduction: bool = attrs.field(
        default=False, metadata={"doc": "whether its switches add up what an all-reduce sends"}
    )

    @size.validator
    def _check_size(self, attribute: object, value: float) -> None:
        if math.isfinite(value) and (value != int(value) or value > MOST_MEMBERS):
            raise InputError(
                "size", f"a whole number from 1 to {MOST_MEMBERS:,}, or inf at the last tier", value
            )


@attrs.frozen(kw_only=True)
class Source:
    """Where one number comes from; `derived` says how it was worked out if nobody states it."""

    text: str
    date: str = ""
    derived: bool = False


@attrs.frozen(kw_only=True)
class Cluster:
    """A device and the tiers of network that join many of it, innermost first.

    `sources` maps the path of a field (``device.memory_bandwidth``, ``tiers[0].latency``,
    ``device.peak.bf16``)
    to where its number comes from.
    """

    name: str = attrs.field(metadata={"doc": "name in the catalogue"})
    title: str = attrs.field(default="", metadata={"doc": "name as the vendor writes it"})
    vendor: str = attrs.field(default="", metadata={"doc": "who makes it"})
    released: str = attrs.field(default="", metadata={"doc": "date of release"})
    notes: str = attrs.field(default="", metadata={"doc": "what to know before using the entry"})
    device: Device
    tiers: tuple[Tier, ...] = attrs.field()
    sources: Mapping[str, Source] = attrs.field(factory=dict, metadata={"read": lambda value: value})

    @tiers.validator
    def _check_tiers(self, attribute: object, value: tuple[Tier, ...]) -> None:
        if not value:
            raise InputError("tiers", "a list of at least one network", value)
        for i, tier in enumerate(value[:-1]):
            if not math.isfinite(tier.size):
                raise InputError(f"tiers[{i}].size", "finite below the last tier", tier.size)

    @property
    def derived(self) -> dict[str, str]:
        """Fields whose numbers nobody states, and how each was worked out."""
        return {path: source.text for path, source in self.sources.items() if source.derived}

    @property
    def capacity(self) -> float:
        """How many devices the tiers can join."""
        return math.prod(tier.size for tier in self.tiers)
