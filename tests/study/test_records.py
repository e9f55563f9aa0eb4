"""Records: the keys that scripts rely on, and nothing that JSON cannot hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.cost.assumptions import Assumptions
from scalewall.errors import InputError
from scalewall.hardware import catalogue
from scalewall.study import closed_form, records
from scalewall.study.scenario import scenario
from tests.study.answers import PAPER, papers_answer, searched, write_quick

ENTRIES = [(n, None) for n in catalogue.names()] + [(n, PAPER) for n in catalogue.names(PAPER)]
CAUSES = {
    *("arithmetic", "padding", "memory_bandwidth", "cache_bandwidth", "kernel_latency"),
    *("network_bandwidth", "network_latency", "pipeline_bubble"),
    *("data_parallel_bandwidth", "data_parallel_latency"),
}


def as_json(document: Any) -> Any:
    """Return `document` as it comes back from JSON."""
    return json.loads(records.as_json(document))


@pytest.mark.parametrize("find", [papers_answer, searched], ids=["paper", "search"])
def test_the_document_of_limits_has_the_promised_keys(find: Any) -> None:
    document = as_json(records.of_limits(find()))
    assert scenario(**document["scenario"]) == find().scenario
    for curve in document["curves"]:
        promised = {"hardware", "sustained_mfu", "knee_flop", "wall_flop", "binding", "points"}
        assert promised <= set(curve)
        assert curve["points"]
        for point in curve["points"]:
            promised = {"training_flop", "mfu", "n_devices", "duration_s", "strategy", "seconds_by_cause"}
            assert promised | {"d_model", "layers", "batch_tokens"} <= set(point)
            assert set(point["strategy"]) == {
                *("dp", "tp_model", "tp_ff", "pp", "ep", "microbatches", "interleave", "schedule", "layout")
            }
            assert set(point["seconds_by_cause"]) == CAUSES


def test_the_document_says_what_the_answer_holds() -> None:
    answer = searched()
    (curve,), (record,) = answer.curves, records.of_limits(answer)["curves"]
    same = ("hardware", "sustained_mfu", "knee_flop", "wall_flop", "binding", "knee_binding", "wall_binding")
    for name in same:
        assert record[name] == getattr(curve, name)
    for point, told in zip(curve.points, record["points"], strict=True):
        for name in ("training_flop", "mfu", "n_devices", "duration_s", "seconds_by_cause", "step_seconds"):
            assert told[name] == getattr(point, name)
        for name in ("dp", "tp_model", "tp_ff", "pp", "ep", "microbatches", "interleave", "schedule"):
            assert told["strategy"][name] == getattr(point.strategy, name)
        assert told["n_devices"] == told["strategy"]["dp"] * told["strategy"]["pp"] * (
            told["strategy"]["tp_model"] * told["strategy"]["tp_ff"] * told["strategy"]["ep"]
        )
        assert told["d_model"] == point.workload.d_model
        assert told["certificate"]["space"] >= told["certificate"]["priced"] > 0
    assert record["derived"].items() <= curve.cluster.derived.items()
    assert record["derived"]


def test_a_search_that_discards_nothing_has_no_best_discarded() -> None:
    (curve,) = searched().curves
    certificate = curve.points[0].certificate
    assert certificate is not None
    assert records.of_certificate(certificate) == attrs.asdict(certificate)
    nothing = attrs.evolve(certificate, best_discarded=float("inf"))
    assert as_json(records.of_certificate(nothing))["best_discarded"] is None
    assert records.of_certificate(None) is None


def test_no_knee_is_null() -> None:
    answer = searched()
    without = attrs.evolve(answer.curves[0], knee=None)
    record = as_json(records.of_curve(without))
    assert (record["knee_flop"], record["knee_binding"]) == (None, None)
    assert record["binding"] == record["wall_binding"]


def test_rows_are_flat_and_of_one_shape() -> None:
    rows = records.rows(papers_answer()) + records.rows(searched())
    names = [list(row) for row in rows]
    assert len(rows) == 31 + 6
    assert all(name == names[0] for name in names)
    assert all(isinstance(v, str | int | float | None) for row in rows for v in row.values())
    assert {"hardware", "training_flop", "mfu", "n_devices", "dp", "schedule", "dp_layout"} <= set(names[0])
    assert {f"{cause}_s" for cause in CAUSES} <= set(names[0])
    assert {"knee_flop", "wall_flop"} <= set(names[0])
    first = rows[0]
    assert first["dp_layout"] == "x".join(map(str, papers_answer().curves[0].points[0].strategy.layout["dp"]))


# Hardware


@pytest.mark.parametrize(("name", "preset"), ENTRIES, ids=lambda value: str(value or "catalogue"))
def test_every_hardware_entry_is_json(name: str, preset: str | None) -> None:
    cluster = catalogue.load(name, preset)
    record = as_json(records.of_hardware(cluster))
    assert record["name"] == name
    assert record["device"]["memory"] == cluster.device.memory
    assert record["device"]["sustained_rate"] == cluster.device.sustained * cluster.device.peak_rate()
    assert [tier["name"] for tier in record["tiers"]] == [tier.name for tier in cluster.tiers]
    assert set(record["sources"]) == set(cluster.sources)
    for source in record["sources"].values():
        assert set(source) == {"text", "date", "derived"}
        assert source["text"]


def test_what_has_no_end_is_null() -> None:
    record = as_json(records.of_hardware(catalogue.load("h100-sxm-infinite-network-low-latency", PAPER)))
    assert record["tiers"][-1]["size"] is None
    assert None in [tier["bandwidth"] for tier in record["tiers"]]


@pytest.mark.parametrize("field", ["memory", "memory_bandwidth"])
def test_a_users_infinite_number_is_json_or_an_input_error(tmp_path: Path, field: str) -> None:
    # TOML writes inf, and an infinitely fast memory is a question that people ask.
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "h100-sxm"\n[device]\n{field} = inf\n')
    try:
        record = records.of_hardware(catalogue.load(str(path)))
    except InputError:
        return
    assert as_json(record)["device"][field] is None


# Assumptions and the closed form


def test_every_assumption_is_told_once() -> None:
    told = as_json(records.assumptions())
    names = [entry["name"] for entry in told]
    assert len(set(names)) == len(names)
    assert {a.name for a in attrs.fields(Assumptions)} <= set(names)
    assert {"duration", "threshold", "batch_law", "depth_law", "sparsity_law", "ff_ratio"} <= set(names)
    assert all(entry["doc"] for entry in told)
    assert {entry["name"]: entry["default"] for entry in told}["batch_law"] == "baseline"


def test_every_assumption_is_a_word_that_a_scenario_takes() -> None:
    told = {entry["name"]: entry["default"] for entry in records.assumptions()}
    assert scenario(**told) == scenario()


def test_the_document_of_the_closed_form() -> None:
    record = as_json(records.of_wall(closed_form.wall(duration="100 days")))
    assert record["parameters"] == pytest.approx(4e14)
    assert record["training_flop"] == pytest.approx(1.92e31)
    assert {"latency", "layers", "batch", "duration"} <= set(record)


def test_a_users_own_device_is_told_with_its_sources(tmp_path: Path) -> None:
    record = as_json(records.of_hardware(catalogue.load(write_quick(tmp_path))))
    assert record["sources"] == {
        "device.memory": {"text": "a datasheet", "date": "2022-09", "derived": False},
        "device.memory_bandwidth": {"text": "twice the last one", "date": "", "derived": True},
    }
