"""Limits by the exact search: the knee and the wall lie where they are said to lie."""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.errors import InputError, NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.study import limits as study
from scalewall.study.boundary import find_knee
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import best_point, coarse_first
from scalewall.study.scenario import Scenario, scenario
from tests.study.answers import PAPER, published, searched, write_quick


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_quick(tmp_path_factory.mktemp("hardware"))


def curve_of(asked: Scenario) -> Curve:
    return study.limits(asked).curves[0]


def mfu_at(asked: Scenario, cluster: Cluster, flop: float) -> float:
    point = best_point(asked, cluster, flop)
    assert point is not None
    return point.mfu


@functools.cache
def searched_quick(quick: str) -> Limits:
    return study.limits(scenario(hardware=quick, points=5))


def check_limits(asked: Scenario, curve: Curve) -> None:
    """Check a curve's knee and wall by searches of their own."""
    assert best_point(asked, curve.cluster, curve.wall_flop * 0.999, tolerance=1.0) is not None
    assert best_point(asked, curve.cluster, curve.wall_flop, tolerance=1.0) is not None
    assert best_point(asked, curve.cluster, curve.wall_flop * 1.01) is None
    assert best_point(asked, curve.cluster, curve.wall_flop * 4.0) is None
    assert curve.knee_flop is not None
    assert mfu_at(asked, curve.cluster, curve.knee_flop) < curve.threshold_mfu
    assert mfu_at(asked, curve.cluster, curve.knee_flop * 0.998) >= curve.threshold_mfu


# The catalogue's H100


def test_no_point_is_better_than_the_device_sustains() -> None:
    (curve,) = searched().curves
    assert curve.sustained_mfu == curve.cluster.device.sustained == 0.803
    assert len(curve.points) == 6
    for point in curve.points:
        assert 0.0 < point.mfu <= curve.sustained_mfu
        assert point.duration_s <= searched().scenario.duration
        assert math.fsum(point.seconds_by_cause.values()) == pytest.approx(point.step_seconds, rel=1e-9)
        assert (point.binding == "arithmetic") == (point.mfu >= curve.threshold_mfu)


def test_points_are_evenly_spaced_in_the_logarithm_and_end_below_the_wall() -> None:
    (curve,) = searched().curves
    flops = [p.training_flop for p in curve.points]
    ratio = (curve.wall_flop / 1e24) ** (1 / 6)
    assert flops == pytest.approx([1e24 * ratio**i for i in range(6)], rel=1e-9)


def test_the_limits_of_the_h100_are_where_they_are_said_to_be() -> None:
    (curve,) = searched().curves
    check_limits(searched().scenario, curve)
    assert curve.knee_flop is not None
    above = [p.training_flop for p in curve.points if p.mfu >= curve.threshold_mfu]
    below = [p.training_flop for p in curve.points if p.mfu < curve.threshold_mfu]
    assert max(above) < curve.knee_flop < min(below)


def test_a_larger_space_never_does_worse_than_the_paper() -> None:
    # The paper's own cluster and deadline, at the compute of each of its 31 points.
    asked = scenario(preset=PAPER)
    (cluster,) = asked.clusters
    worse, hint = [], ()
    for row in published():
        point = best_point(asked, cluster, row["training_flop"], hint)
        if point is None or point.mfu < row["mfu"] - 5e-5:  # published to four digits
            worse.append((row["training_flop"], row["mfu"], point and point.mfu))
        hint = (point.strategy,) if point else ()
    assert not worse


# A quick device


def test_the_limits_of_the_quick_device(quick: str) -> None:
    (curve,) = searched_quick(quick).curves
    check_limits(searched_quick(quick).scenario, curve)
    assert (curve.hardware, curve.sustained_mfu) == ("quick", 0.5)
    assert all(p.certificate is not None for p in curve.points)


def test_the_answer_does_not_depend_on_the_points_asked_for(quick: str) -> None:
    few, many = curve_of(scenario(hardware=quick, points=2)), searched_quick(quick).curves[0]
    assert few.knee_flop == pytest.approx(many.knee_flop, rel=3e-3)
    assert few.wall_flop == pytest.approx(many.wall_flop, rel=2e-3)


def test_a_range_below_the_wall_moves_neither_limit(quick: str) -> None:
    (whole,) = searched_quick(quick).curves
    for start, end in ((1e24, 1e26), (1e30, 1e31)):
        part = curve_of(scenario(hardware=quick, points=3, from_flop=start, to_flop=end))
        flops = [p.training_flop for p in part.points]
        assert flops == pytest.approx([start, math.sqrt(start * end), end], rel=1e-9)
        assert part.knee_flop == pytest.approx(whole.knee_flop, rel=3e-3)
        assert part.wall_flop == pytest.approx(whole.wall_flop, rel=2e-3)


def test_an_end_beyond_the_wall_is_cut_there(quick: str) -> None:
    far = curve_of(scenario(hardware=quick, points=3, to_flop=1e40))
    assert far.points[-1].training_flop < far.wall_flop
    assert far.wall_flop == searched_quick(quick).curves[0].wall_flop


def test_a_start_beyond_the_wall_has_no_answer_and_names_the_wall(quick: str) -> None:
    wall = searched_quick(quick).curves[0].wall_flop
    with pytest.raises(NoAnswer) as error:
        study.limits(scenario(hardware=quick, from_flop=1e33))
    assert f"{wall:.3g}" in str(error.value)
    assert "quick" in str(error.value)
    assert "3 months" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_higher_threshold_is_crossed_earlier(quick: str) -> None:
    asked, (curve,) = searched_quick(quick).scenario, searched_quick(quick).curves
    found = [find_knee(asked, curve.cluster, [*curve.points, curve.wall], 0.5 * t) for t in (0.4, 0.6, 0.95)]
    knees = [knee.training_flop for knee in found if knee]
    assert curve.knee_flop is not None
    knees.insert(2, curve.knee_flop)  # the default's, 0.8
    assert len(set(knees)) == 4
    assert knees == sorted(knees, reverse=True)


def test_more_time_moves_the_wall_out(quick: str) -> None:
    walls = [
        curve_of(scenario(hardware=quick, points=2, duration=time)).wall_flop
        for time in ("1 month", "3 months", "1 year")
    ]
    # By the closed form N ~ t·B/L, with B ~ N^(1/3) and L ~ N^0.27: the wall's C ~ N² ~ t^2.1.
    assert walls[1] / walls[0] == pytest.approx(3**2.1, rel=0.15)
    assert walls[2] / walls[1] == pytest.approx(4**2.1, rel=0.15)


def test_a_knee_below_the_range_is_found_at_less_compute(quick: str) -> None:
    # Without data and pipeline parallelism even 1e24 FLOP are far beyond the knee.
    asked = scenario(hardware=quick, points=3, dp=1, pp=1)
    curve = curve_of(asked)
    assert curve.points[0].mfu < curve.threshold_mfu
    assert curve.knee_flop is not None
    assert curve.knee_flop < 1e24
    check_limits(asked, curve)
    assert all(p.strategy.dp == p.strategy.pp == 1 for p in curve.points)


def test_a_curve_that_rises_before_it_falls_has_its_knee_where_it_falls(quick: str) -> None:
    # At 1e12 FLOP models are too small to fill a tile; "from there MFU is below" is not said of that.
    asked = scenario(hardware=quick, points=8, from_flop=1e12, to_flop=1e31)
    curve = curve_of(asked)
    assert curve.points[0].mfu < curve.threshold_mfu < curve.points[4].mfu
    assert curve.knee_flop == pytest.approx(searched_quick(quick).curves[0].knee_flop, rel=3e-3)


def test_a_device_that_waits_for_memory_is_bound_by_it(tmp_path: Path) -> None:
    text = Path(write_quick(tmp_path)).read_text().replace('"2 TB/s"', '"5 GB/s"')
    (tmp_path / "slow.toml").write_text(text)
    curve = curve_of(scenario(hardware=str(tmp_path / "slow.toml"), points=3, to_flop=1e28))
    assert curve.knee_binding == "memory bandwidth"
    assert curve.points[-1].seconds_by_cause["memory_bandwidth"] > 0


def test_fewest_devices_need_no_more_than_the_best_utilisation_does(quick: str) -> None:
    words: dict[str, Any] = {"hardware": quick, "points": 4}
    best, fewest = (curve_of(scenario(**words, objective=goal)) for goal in ("mfu", "devices"))
    for a, b in zip(best.points, fewest.points, strict=True):
        assert b.n_devices <= a.n_devices
        assert b.mfu <= a.mfu * (1 + 1e-9)
        assert b.duration_s <= 7.885e6


def test_several_devices_in_their_order(quick: str) -> None:
    twice = study.limits(scenario(hardware=[quick, quick], points=2))
    assert [c.hardware for c in twice.curves] == ["quick", "quick"]
    assert twice.curves[0].wall_flop == twice.curves[1].wall_flop


def test_progress(quick: str) -> None:
    told: list[tuple[int, int, str]] = []
    study.limits(scenario(hardware=quick, points=4), lambda *said: told.append(said))
    assert [done for done, _, _ in told] == [0, 1, 2, 3, 4, 5]
    assert {total for _, total, _ in told} == {5}
    assert told[0][2] == "quick: the wall"


# Coarse first, then finer


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 32, 33, 100])
def test_coarse_first_takes_every_place_once(n: int) -> None:
    order = coarse_first(n)
    assert sorted(order) == list(range(n))
    assert order[0] == n - 1
    for gap in (2**i for i in range(n.bit_length())):  # a half, a quarter, … of the places are spread out
        start = sorted(order[: math.ceil((n - 1) / gap) + 1])
        assert max((b - a for a, b in pairwise(start)), default=0) <= 2 * gap


def test_a_refined_answer_is_the_one_found_afresh(quick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = study.limits(scenario(hardware=quick, points=4, to_flop=1e28))
    asked = scenario(hardware=quick, points=7, to_flop=1e28)  # each point of the coarse one, and between
    fresh = study.limits(asked)
    monkeypatch.setattr(study, "find_wall", None)  # it is known
    refined = study.limits(asked, coarse=coarse)
    for a, b in zip(fresh.curves[0].points, refined.curves[0].points, strict=True):
        assert a.training_flop == pytest.approx(b.training_flop, rel=1e-12)
        assert a.mfu == pytest.approx(b.mfu, rel=1e-9)
        assert a.duration_s <= 7.885e6
    assert refined.curves[0].wall_flop == coarse.curves[0].wall_flop
    assert refined.curves[0].knee_flop == pytest.approx(fresh.curves[0].knee_flop, rel=3e-3)


@pytest.mark.parametrize("other", [{"duration": "1 year"}, {"threshold": 0.5}, {"fill": 0.5}, {"dp": 8}])
def test_an_answer_to_another_question_is_no_help(
    quick: str, other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: object) -> None:
        raise NoAnswer("looked for afresh")

    coarse = searched_quick(quick)
    monkeypatch.setattr(study, "find_wall", look)
    assert study.limits(attrs.evolve(coarse.scenario, points=2), coarse=coarse).curves
    with pytest.raises(NoAnswer, match="afresh"):
        study.limits(scenario(hardware=quick, points=5, **other), coarse=coarse)


# No answer, and why


def test_no_time_at_all(quick: str) -> None:
    with pytest.raises(NoAnswer, match="quick"):
        study.limits(scenario(hardware=quick, duration="1 ns"))


def test_a_precision_the_device_lacks_is_an_input_error_not_a_lack_of_time(quick: str) -> None:
    with pytest.raises(InputError) as error:
        study.limits(scenario(hardware=quick, precision="fp4"))
    assert error.value.field == "precision"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"depth_law": "d^-3"}, "depth_law"),  # wider models would be smaller
        ({"batch_law": "C^100"}, "batch_law"),  # beyond what floats hold
        ({"depth_law": "C^100"}, "depth_law"),
    ],
    ids=lambda value: "".join(value.values()) if isinstance(value, dict) else None,
)
def test_a_law_that_fits_no_model_is_an_input_error(quick: str, words: dict[str, str], field: str) -> None:
    with pytest.raises(InputError) as error:
        study.limits(scenario(hardware=quick, points=2, **words))
    assert error.value.field == field


@pytest.mark.parametrize(
    "words",
    [{"from_flop": 1.0, "to_flop": 2.0}, {"from_flop": 1e14, "to_flop": 1e15, "tp_model": 4096}],
    ids=["less-than-a-block", "narrower-than-its-shards"],
)
def test_a_curve_is_never_empty(quick: str, words: dict[str, Any]) -> None:
    with pytest.raises((InputError, NoAnswer)):
        study.limits(scenario(hardware=quick, points=2, **words))


def test_best_point_says_none_where_nothing_ends_in_time(quick: str) -> None:
    asked = scenario(hardware=quick)
    assert best_point(asked, asked.clusters[0], 1e35) is None
    short = attrs.evolve(asked, duration=1e-3)
    assert best_point(short, asked.clusters[0], 1e24) is None
