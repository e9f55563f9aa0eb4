"""A cluster with the measured curves of its devices and links."""

from __future__ import annotations

import attrs

from scalewall.cost.transport import Link, links
from scalewall.hardware.cluster import Cluster
from scalewall.hardware.curves import Curves, load_curves


@attrs.frozen(kw_only=True)
class Machine:
    """`cluster`, the curves of its device and the links of its tiers.

    `power` is the power limit over the catalogue's, for devices that are held below it.
    """

    cluster: Cluster
    curves: Curves
    links: tuple[Link, ...]
    power: float = 1.0

    @classmethod
    def of(cls, cluster: Cluster, power: float = 1.0) -> Machine:
        """Return the machine that `cluster` is, with the curves of its device's class."""
        curves = load_curves(cluster.device.curves, cluster.device.sustained)
        return cls(cluster=cluster, curves=curves, links=links(cluster), power=power)
