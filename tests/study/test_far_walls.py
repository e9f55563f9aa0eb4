"""Limits over tiers of very unlike latency and bandwidth: they are found, and lie where brute force says."""

from __future__ import annotations

import attrs

from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.strategy.search import search
from scalewall.study.points import question
from scalewall.study.scenario import scenario


def sites(sizes: tuple[int, ...], bandwidth: float, latency: float) -> Cluster:
    """H100s in domains of sites, of which the lines between sites are slow."""
    base = catalogue.load("h100-sxm")
    near = [
        attrs.evolve(base.tiers[min(i, 1)], name=f"near {i}", size=float(size))
        for i, size in enumerate(sizes)
    ]
    far = Tier(name="far", bandwidth=bandwidth, latency=latency)
    return attrs.evolve(base, name="sites", tiers=(*near, far))


def datacenters(bandwidth: float = 100e6, latency: float = 5e-3) -> Cluster:
    return sites((8, 4096), bandwidth, latency)


def test_a_schedule_that_runs_out_of_micro_batches_hides_no_run_before_that() -> None:
    """Only around a `dp` of 512 is zero-bubble quick enough; far beyond, only 1F1B is left, and too slow."""
    cluster = datacenters()
    fixed = scenario(hardware="h100-sxm", tp_model=110592, tp_ff=708588, pp=1024)
    space = attrs.evolve(fixed.space, inner={"tp_model": (8, 4), "tp_ff": (1, 2)})
    asked = question(attrs.evolve(fixed, space=space), cluster, 2.01055e31, tolerance=1.0)
    assert asked is not None
    found = search(asked).best
    assert found is not None
    assert (found.dp, found.schedule) == (512, "zero-bubble")
