"""Elasticities and inverse design: signs, identities, and answers checked by searches of their own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unittest import mock

import attrs
import numpy as np
import pytest

from scalewall.cli import run
from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster
from scalewall.present import figures_sensitivity, files
from scalewall.study import records, smooth
from scalewall.study import sensitivity as study
from scalewall.study.boundary import find_wall
from scalewall.study.inputs import inputs
from scalewall.study.inverse import PRECISION, Remedy, design, remedy
from scalewall.study.points import best_point
from scalewall.study.scenario import Scenario, scenario
from scalewall.study.sensitivity import Sensitivities, sensitivity
from tests.study.answers import write_quick

RATES = ("peak_rate", "memory_bandwidth", "scale_up_bandwidth")
LATENCIES = ("kernel_latency", "scale_up_latency")
ASKED = (*RATES, *LATENCIES, "latency", "memory", "duration", "sparsity")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    path = write_quick(tmp_path_factory.mktemp("hardware"))
    return scenario(hardware=path, points=8, from_flop=1e25)


@pytest.fixture(scope="module")
def answer(quick: Scenario) -> Sensitivities:
    with mock.patch.object(smooth, "POINTS", 9):
        return sensitivity(quick, only=ASKED)


@pytest.fixture(scope="module")
def by_name(answer: Sensitivities) -> dict[tuple[str, str], study.Elasticity]:
    return {(e.output, e.input.name): e for e in answer.devices[0].elasticities}


def mfu_at(asked: Scenario, cluster: Cluster, flop: float) -> float:
    point = best_point(asked, cluster, flop)
    assert point is not None
    return point.mfu


# Elasticities


def test_every_output_has_every_input_the_largest_first(quick: Scenario, answer: Sensitivities) -> None:
    for output in study.OUTPUTS:
        of = [e for e in answer.devices[0].elasticities if e.output == output]
        assert {e.input.name for e in of} == set(ASKED)
        sizes = [abs(e.elasticity or 0.0) for e in of]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("output", study.OUTPUTS)
def test_more_of_what_helps_never_hurts(
    by_name: dict[tuple[str, str], study.Elasticity], output: str
) -> None:
    for name, sign in (
        *((name, 1) for name in ("memory_bandwidth", "scale_up_bandwidth", "memory", "duration")),
        *((name, -1) for name in (*LATENCIES, "latency")),
    ):
        e = by_name[output, name]
        assert e.elasticity is not None
        assert sign * e.elasticity >= -2.0 * e.error, (output, name)


def test_the_wall_is_a_matter_of_latency(by_name: dict[tuple[str, str], study.Elasticity]) -> None:
    for name in ("peak_rate", "memory", "scale_up_bandwidth"):
        assert by_name["wall", name].elasticity == pytest.approx(0.0, abs=0.05)
    assert (by_name["wall", "latency"].elasticity or 0.0) < -1.0
    assert (by_name["wall", "duration"].elasticity or 0.0) > 1.0


def faster(asked: Scenario, cluster: Cluster, k: float) -> tuple[Scenario, Cluster]:
    """Return the same world with a clock that goes `k` times as fast."""
    for name in (*RATES, "latency", "duration"):
        number = inputs(asked, cluster)[name]
        asked, cluster = number.scale(asked, cluster, k if name in RATES else 1.0 / k)
    return asked, cluster


def test_no_answer_depends_on_the_unit_of_time(quick: Scenario, answer: Sensitivities) -> None:
    cluster, found = quick.clusters[0], answer.devices[0]
    assert found.knee_flop is not None
    again, same = faster(quick, cluster, 3.0)
    assert mfu_at(again, same, found.knee_flop) == pytest.approx(mfu_at(quick, cluster, found.knee_flop))
    assert find_wall(again, same).training_flop == pytest.approx(found.wall_flop, rel=2e-3)


@pytest.mark.parametrize("output", study.OUTPUTS)
def test_so_elasticities_of_rates_less_those_of_times_add_up_to_nothing(
    by_name: dict[tuple[str, str], study.Elasticity], output: str
) -> None:
    terms = [(by_name[output, name], 1.0) for name in RATES]
    terms += [(by_name[output, name], -1.0) for name in (*LATENCIES, "duration")]
    total = math.fsum(sign * (e.elasticity or 0.0) for e, sign in terms)
    size = math.fsum(abs(e.elasticity or 0.0) for e, _ in terms)
    error = math.sqrt(math.fsum(e.error**2 for e, _ in terms))
    assert abs(total) < 3.0 * error + 0.05 * size  # kinks do not add up: the sides of a maximum


def test_all_latencies_together_are_the_sum_of_each(
    by_name: dict[tuple[str, str], study.Elasticity],
) -> None:
    parts = [by_name["wall", name].elasticity or 0.0 for name in LATENCIES]
    assert by_name["wall", "latency"].elasticity == pytest.approx(math.fsum(parts), abs=0.1)


def test_a_bounded_input_has_one_side(by_name: dict[tuple[str, str], study.Elasticity]) -> None:
    e = by_name["wall", "sparsity"]  # a dense model cannot be less sparse
    assert e.down is None
    assert e.elasticity == e.up
    assert e.low == e.input.value


def test_an_mfu_elsewhere(quick: Scenario) -> None:
    (found,) = sensitivity(quick, at=("mfu",), flop="1e26", only=["memory"]).devices
    assert found.at_flop == 1e26
    assert {e.output for e in found.elasticities} == {"mfu"}
    assert found.outputs["mfu"] == pytest.approx(mfu_at(quick, quick.clusters[0], 1e26), rel=0.05)


def test_the_fit_finds_what_it_was_made_of() -> None:
    grid = np.linspace(-1.0, 1.0, 17)
    fitted = smooth.Fit(60.0, np.array([-0.1, -0.3, -0.5]), grid, np.zeros(17))
    at = fitted.crossing(fitted.at(60.4))
    assert at == pytest.approx(60.4)
    assert fitted.slope(60.4) == pytest.approx(-0.38)
    assert fitted.crossing(fitted.at(60.0) + 10.0) is None
    other = attrs.evolve(fitted, left=np.where(np.arange(17) % 2, 0.01, -0.01))
    assert smooth.difference_error(fitted, fitted, 60.0) == 0.0
    assert 0.002 < smooth.difference_error(fitted, other, 60.0) < 0.005


# Inverse design


def check_remedy(asked: Scenario, cluster: Cluster, found: Remedy, target: float) -> None:
    """Check that the value works and that one slightly nearer to today's does not."""
    assert found.value is not None
    assert found.factor is not None
    at = found.input.set(asked, cluster, found.value)
    assert mfu_at(*at, target) >= found.threshold_mfu
    nearer = found.value * math.exp(-2.0 * PRECISION * math.copysign(1.0, math.log(found.factor)))
    below = best_point(*found.input.set(asked, cluster, nearer), target)
    assert below is None or below.mfu < found.threshold_mfu


def test_a_remedy_works_and_less_does_not(quick: Scenario, answer: Sensitivities) -> None:
    (cluster,), knee = quick.clusters, answer.devices[0].knee_flop
    assert knee is not None
    known = {n: i for n, i in inputs(quick, cluster).items() if n in {"scale_up_bandwidth", "batch_constant"}}
    target = 2.0 * knee
    told: list[str] = []
    found = design(quick, cluster, known, target, knee, lambda done, total, what: told.append(what))
    assert len(told) == len(known)
    assert found.today is not None
    assert found.today.mfu < quick.threshold * cluster.device.sustained
    for one in found.remedies:
        if one.value is not None:
            check_remedy(quick, cluster, one, target)
    batch = next(r for r in found.remedies if r.input.name == "batch_constant")
    assert batch.factor is not None
    assert batch.factor > 1.0


def test_what_does_not_help_says_so(quick: Scenario, answer: Sensitivities) -> None:
    (cluster,), knee = quick.clusters, answer.devices[0].knee_flop
    assert knee is not None
    found = remedy(quick, cluster, inputs(quick, cluster)["fill"], 30.0 * knee)
    assert (found.value, found.factor, found.point) == (None, None, None)
    assert found.most == 1.0


def test_a_target_that_is_efficient_today_is_refused(quick: Scenario, answer: Sensitivities) -> None:
    (cluster,), knee = quick.clusters, answer.devices[0].knee_flop
    assert knee is not None
    with pytest.raises(InputError, match=r"'target' must be more than the knee .* Got .* efficient today"):
        design(quick, cluster, inputs(quick, cluster), 0.1 * knee, knee, lambda done, total, what: None)


# What comes out


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"at": ("cliff",)}, "at"),
        ({"at": ()}, "at"),
        ({"step": 0.0}, "step"),
        ({"step": "5"}, "step"),
        ({"flop": "much"}, "flop"),
        ({"flop": 1e26, "at": ("wall",)}, "flop"),
        ({"target": -1.0}, "target"),
        ({"only": ["scale_out"]}, "only"),
    ],
)
def test_bad_input_names_its_field(quick: Scenario, words: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        sensitivity(quick, **words)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_the_document_is_json_and_complete(quick: Scenario, answer: Sensitivities) -> None:
    (found,) = answer.devices
    knee = found.knee_flop
    assert knee is not None
    one = inputs(quick, found.cluster)["batch_constant"]
    fixed = design(quick, found.cluster, {one.name: one}, 2.0 * knee, knee, lambda done, total, what: None)
    full = attrs.evolve(answer, devices=(attrs.evolve(found, design=fixed),))
    document = json.loads(json.dumps(records.of_sensitivity(full), allow_nan=False))
    (device,) = document["sensitivities"]
    assert device["knee_flop"] == knee
    assert device["fitted_knee_flop"] == pytest.approx(knee, rel=0.5)
    assert device["mfu_at_flop"] == knee
    keys = {"input", "unit", "value", "output", "elasticity", "error", "up", "down", "low", "high", "kinked"}
    assert all(set(e) == keys for e in device["elasticities"])
    assert device["design"]["target_flop"] == 2.0 * knee
    assert set(device["design"]["remedies"][0]) >= {"input", "value", "factor", "point"}


def test_files_and_figure(answer: Sensitivities, tmp_path: Path) -> None:
    import polars as pl

    rows = records.sensitivity_rows(answer)
    files.write_rows(rows, records.of_sensitivity(answer), tmp_path / "s.csv")
    files.write_rows(rows, records.of_sensitivity(answer), tmp_path / "s.parquet")
    assert pl.read_csv(tmp_path / "s.csv", comment_prefix="#").height == len(rows)
    inside = json.loads(pl.read_parquet_metadata(tmp_path / "s.parquet")["scalewall"])
    assert {"version", "scenario", "sensitivities"} <= set(inside)
    figure = figures_sensitivity.tornado_figure(answer)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert len(bars) == len(study.OUTPUTS)
    assert all(len(bar.x) >= 3 for bar in bars)


def test_the_command(quick: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sensitivity", "--hardware", *quick.hardware, "--at", "wall", "--only", "memory", "duration"]
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {e["output"] for e in document["sensitivities"][0]["elasticities"]} == {"wall"}
    assert run(words) == 0
    assert "Wall:" in capsys.readouterr().out
    assert run(["sensitivity", "--at", "cliff"]) == 2
    assert capsys.readouterr().err.startswith("The '--at' must be one or several of knee, wall, mfu.")
