"""The best strategies for one training compute."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.errors import InputError, NoAnswer
from scalewall.study import records
from scalewall.study.points import best_point, best_points
from scalewall.study.scenario import Scenario, scenario
from tests.study.answers import write_quick


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return scenario(hardware=write_quick(tmp_path_factory.mktemp("hardware")))


def degrees(point: Any) -> tuple[int, ...]:
    s = point.strategy
    return (s.dp, s.tp_model, s.tp_ff, s.pp, s.ep)


def test_the_best_come_first_and_differ(asked: Scenario) -> None:
    found = best_points(asked, "1e26", top="4")
    assert list(found) == ["quick"]
    points = found["quick"]
    assert len(points) == len({degrees(p) for p in points}) == 4
    assert all(a.mfu >= b.mfu for a, b in pairwise(points))
    assert all(p.duration_s <= asked.duration for p in points)
    best = best_point(asked, asked.clusters[0], 1e26)
    assert best is not None
    assert points[0].mfu == pytest.approx(best.mfu, rel=1e-9)


def test_the_fewest_devices_come_first(asked: Scenario) -> None:
    (points,) = best_points(attrs.evolve(asked, objective="devices"), 1e26, top=1).values()
    (others,) = best_points(asked, 1e26, top=3).values()
    assert points[0].n_devices <= min(p.n_devices for p in others)


def test_on_just_as_many_devices_the_fastest_deadline_or_not(asked: Scenario) -> None:
    (few,) = best_points(asked, 1e25, devices=64, top=3).values()
    (more,) = best_points(asked, 1e25, devices="128", top=3).values()
    assert {p.n_devices for p in few} == {64}
    assert {p.n_devices for p in more} == {128}
    assert all(a.duration_s <= b.duration_s for a, b in pairwise(few))
    assert more[0].duration_s < few[0].duration_s
    assert few[0].duration_s > asked.duration  # 64 devices take years


def test_each_device_has_its_own_answer(asked: Scenario, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(Path(asked.hardware[0]).read_text().replace("500 TF", "250 TF"))
    both = attrs.evolve(asked, hardware=(*asked.hardware, str(tmp_path / "other.toml")))
    found = best_points(both, 1e26, top=1)
    assert list(found) == ["quick", "other"]
    assert found["other"][0].n_devices > found["quick"][0].n_devices


def test_fixed_parts_are_kept(asked: Scenario) -> None:
    fixed = scenario(hardware=asked.hardware, dp=8, schedule="1f1b", interleave=1)
    for point in best_points(fixed, 1e26, top=3)["quick"]:
        assert (point.strategy.dp, point.strategy.schedule, point.strategy.interleave) == (8, "1f1b", 1)


def test_the_document(asked: Scenario) -> None:
    found = best_points(asked, 1e26, top=2)
    document = json.loads(json.dumps(records.of_best(asked, found), allow_nan=False))
    assert scenario(**document["scenario"]) == asked
    (answer,) = document["best"]
    assert answer["hardware"] == "quick"
    assert [p["mfu"] for p in answer["points"]] == [p.mfu for p in found["quick"]]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"training_flop": "much"}, "training_flop"),
        ({"training_flop": 0}, "training_flop"),
        ({"training_flop": float("inf")}, "training_flop"),
        ({"training_flop": 1.0}, "training_flop"),
        ({"top": 0}, "top"),
        ({"top": "x"}, "top"),
        ({"devices": 0}, "devices"),
        ({"devices": 2.5}, "devices"),
        ({"devices": float("inf")}, "devices"),
        ({"devices": "some"}, "devices"),
    ],
    ids=repr,
)
def test_bad_input(asked: Scenario, words: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as error:
        best_points(asked, **{"training_flop": 1e25, **words})
    assert error.value.field == field


def test_no_answer_says_on_what_and_for_how_long(asked: Scenario) -> None:
    with pytest.raises(NoAnswer, match=r"any number of quick .* 1e\+35 FLOP within 3 months"):
        best_points(asked, 1e35)
    with pytest.raises(NoAnswer, match="7 quick"):  # 7 is no product of powers of two and three
        best_points(asked, 1e25, devices=7)
