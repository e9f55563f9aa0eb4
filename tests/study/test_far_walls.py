"""Limits over tiers of very unlike latency and bandwidth: they are found, and lie where brute force says."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.strategy.engine import Engine
from scalewall.strategy.question import Question, Result
from scalewall.strategy.search import search
from scalewall.strategy.space import Strategy
from scalewall.study import limits as study
from scalewall.study.boundary import WALL_PRECISION, find_wall
from scalewall.study.points import best_point, question
from scalewall.study.scenario import Scenario, scenario
from tests.strategy import brute

MOST_WORK = 2e7
"""Bounds and prices. Without bounds on what crosses borders one search alone takes over a hundred million."""


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


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each search had to do, in bounds and prices."""
    done: list[int] = []
    run, ruled_out = Engine.run, Engine.ruled_out

    def counted_run(engine: Engine, hints: tuple[Strategy, ...]) -> Result:
        found = run(engine, hints)
        done.append(engine.bounded + engine.priced)
        return found

    def counted_ruled_out(engine: Engine) -> bool:
        ruled = ruled_out(engine)
        done.append(engine.bounded)
        return ruled

    monkeypatch.setattr(Engine, "run", counted_run)
    monkeypatch.setattr(Engine, "ruled_out", counted_ruled_out)
    return done


@pytest.mark.parametrize(("bandwidth", "latency"), [(100e6, 5e-3), (1e9, 5e-3)])
def test_the_limits_of_datacenters_are_found_with_little_work(
    work: list[int], bandwidth: float, latency: float
) -> None:
    asked, cluster = scenario(hardware="h100-sxm", points=4), datacenters(bandwidth, latency)
    curve = study.limits_of(asked, cluster)
    assert sum(work) < MOST_WORK
    assert curve.knee_flop is not None
    assert best_point(asked, cluster, curve.wall_flop, tolerance=1.0) is not None
    assert best_point(asked, cluster, curve.wall_flop * (1 + 2 * WALL_PRECISION)) is None


FEW = {"dp": "1,2,6", "tp_model": "1,2", "tp_ff": "1,4", "pp": "1,3,8", "microbatches": 12}
SPARSE = {"sparsity_law": "4", "ep": "1,2", "tp_model": 1, "pp": "1,8"}


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (2, 4)], ids=str)
@pytest.mark.parametrize(
    ("bandwidth", "latency", "more"),
    [
        (1e6, 1e-3, {}),
        (1e6, 1e-3, SPARSE),
        (1e8, 5e-3, {}),
        (1e8, 5.0, {"schedule": "1f1b"}),
        (1e8, 5.0, SPARSE),
        (5e10, 1e-6, {"schedule": "1f1b"}),
    ],
)
def test_a_wall_of_few_strategies_is_where_brute_force_says(
    sizes: tuple[int, ...], bandwidth: float, latency: float, more: dict[str, Any]
) -> None:
    """Where the lines between sites decide, and where they do not; dense and sparse."""
    asked = scenario(hardware="h100-sxm", **(FEW | more))
    cluster = sites(sizes, bandwidth, latency)
    wall = find_wall(asked, cluster)
    assert ends_in_time(asked, cluster, wall.training_flop)
    assert not ends_in_time(asked, cluster, wall.training_flop * (1 + WALL_PRECISION))


def ends_in_time(asked: Scenario, cluster: Cluster, flop: float) -> bool:
    """Whether any strategy ends a run in time, by pricing all of them."""
    one = question(asked, cluster, flop)
    assert isinstance(one, Question)
    every = brute.table(one)
    return every is not None and bool(brute.best_scores(one, every))


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
