"""Tables: the key facts are in the text, nothing is cut, and each number says where it comes from."""

from __future__ import annotations

import io
from typing import Any

import attrs
import pytest
from rich.console import Console

from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.present import tables
from scalewall.study import closed_form, records
from scalewall.study.limits import Curve, Limits
from tests.study.answers import PAPER, papers_answer, searched


def text_of(thing: Any, width: int = 200) -> str:
    """Return what a terminal of `width` columns shows of `thing`."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(thing)
    return console.file.getvalue()  # type: ignore[attr-defined]


def shown(answer: Limits, width: int = 200, explain: bool = False) -> str:
    """Return what a terminal shows of an answer."""
    console = Console(file=io.StringIO(), width=width, highlight=False)
    tables.show_limits(console, answer, explain)
    return console.file.getvalue()  # type: ignore[attr-defined]


def row_with(text: str, start: str) -> str:
    """Return the one line that begins with `start`, its blanks made single."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return " ".join(line.split())


# Limits


def test_the_papers_limits() -> None:
    text = shown(papers_answer())
    assert text.startswith("h100-sxm: ")
    assert row_with(text, "FLOP").startswith("FLOP MFU devices months dp tp pp micro-batches chunks schedule")
    assert row_with(text, "6.45e+24") == "6.45e+24 69.9% 2,048 1.73 1 4×8 64 128 1 zero-bubble arithmetic"
    assert row_with(text, "2.71e+31").startswith("2.71e+31 5.2% 6.87e+10 2.93 32768 128×256 64 64 24 1f1b")
    assert "Knee: 2.05e+28 FLOP" in text
    assert "80% of the sustained 70.0%; network bandwidth binds." in text
    assert "Wall: 2.71e+31 FLOP. No larger run ends within 3 months; latency binds." in text
    points = [line for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert len(points) == 31


def test_expert_parallelism_has_a_column_only_where_there_is_some() -> None:
    assert " ep " not in row_with(shown(papers_answer()), "FLOP")
    sparse = papers_answer(sparse=True)
    header, first = row_with(shown(sparse), "FLOP").split(), sparse.curves[0].points[0]
    assert header[header.index("pp") + 1] == "ep"
    line = row_with(shown(sparse), f"{first.training_flop:.2e}").split()
    assert line[header.index("ep")] == str(first.strategy.ep)


def test_no_knee_is_said() -> None:
    (curve,) = papers_answer().curves
    without = attrs.evolve(curve, knee=None)
    (line, *_) = tables.summary(without, papers_answer())
    assert line.startswith("Knee: none before the wall")


def test_derived_numbers_are_named_and_where_to_read_how() -> None:
    (curve,) = searched().curves
    text = " ".join(tables.summary(curve, searched()))
    assert curve.cluster.derived
    assert "device.caches[2].instances" in text
    assert "scalewall hardware h100-sxm" in text
    clean = attrs.evolve(curve, cluster=attrs.evolve(curve.cluster, sources={}))
    assert "Derived" not in " ".join(tables.summary(clean, searched()))


def test_several_devices_follow_each_other() -> None:
    curve = papers_answer().curves[0]
    other = attrs.evolve(curve, cluster=attrs.evolve(curve.cluster, name="other"))
    text = shown(attrs.evolve(papers_answer(), curves=(curve, other)))
    assert text.index("h100-sxm: ") < text.index("other: ")
    assert text.count("Knee: ") == text.count("Wall: ") == 2


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("find", [papers_answer, searched], ids=["paper", "search"])
def test_no_number_is_cut_on_a_terminal(find: Any, width: int) -> None:
    text = shown(find(), width)
    assert "…" not in text
    for point in find().curves[0].points:
        assert f"{point.training_flop:.2e}" in text
        assert f"{point.mfu:.1%}" in text


@pytest.mark.parametrize(
    "title", ["closed [/b] before it opens", "two [red]words[/red] in brackets", "[pooled]", "a :smile: b"]
)
def test_a_users_text_is_shown_as_it_is(title: str) -> None:
    (curve,) = searched().curves
    cache = attrs.evolve(curve.cluster.device.caches[0], name=title)
    device = attrs.evolve(curve.cluster.device, caches=(cache,))
    cluster = attrs.evolve(curve.cluster, title=title, device=device)
    mine: Curve = attrs.evolve(curve, cluster=cluster)
    assert title in text_of(tables.limits_table(mine))
    assert title in text_of(tables.hardware_list([cluster]))
    assert text_of(tables.hardware_entry(cluster)).count(title) >= 2


# How sure


def test_what_the_search_did_to_be_sure() -> None:
    text = text_of(tables.explanation(searched().curves[0]))
    assert "in the space" in text
    for point in searched().curves[0].points:
        certificate = point.certificate
        assert certificate is not None
        line = row_with(text, f"{point.training_flop:.2e}")
        assert f"{certificate.space:.2e}" in line
        assert f"{certificate.bounded:,}" in line
        assert f"{certificate.priced:,}" in line
        gap = float(line.split()[-1])
        assert gap >= 1.0 - 1e-6  # nothing discarded could have been better
    assert "How sure" in shown(searched(), explain=True)
    assert "How sure" not in shown(searched())


def test_the_papers_space_is_gone_through_whole() -> None:
    assert "Every strategy of the paper's space" in shown(papers_answer(), explain=True)


def test_nothing_discarded_is_said() -> None:
    (curve,) = searched().curves
    certificate = curve.points[0].certificate
    assert certificate is not None
    point = attrs.evolve(curve.points[0], certificate=attrs.evolve(certificate, best_discarded=float("inf")))
    text = text_of(tables.explanation(attrs.evolve(curve, points=(point,))))
    assert "nothing discarded" in text


# Hardware


def test_the_catalogue() -> None:
    entries = catalogue.load_all()
    text = text_of(tables.hardware_list(entries))
    assert "…" not in text
    assert [line.split()[0] for line in text.splitlines()[1:]] == [c.name for c in entries]
    line = row_with(text, "h100-sxm")
    assert "989.4 TFLOP/s 80% 80 GB 3.35 TB/s 8 at 450 GB/s 50 GB/s" in line
    assert line.split()[-1] == str(len(catalogue.load("h100-sxm").derived))


def test_an_infinite_network() -> None:
    text = text_of(tables.hardware_list(catalogue.load_all(PAPER)))
    assert "∞" in row_with(text, "h100-sxm-global-nvlink ")
    assert "nan" not in text


def rows_of_entry(cluster: Cluster) -> dict[str, str]:
    """Return an entry's lines by the path of the number they show."""
    lines = text_of(tables.hardware_entry(cluster), 1000).splitlines()
    return {line.split()[0]: line for line in lines if line.startswith(("device.", "tiers["))}


@pytest.mark.parametrize("name", catalogue.names())
def test_an_entry_shows_each_number_with_its_source(name: str) -> None:
    cluster = catalogue.load(name)
    rows = rows_of_entry(cluster)
    assert set(cluster.sources) <= set(rows)
    for path, source in cluster.sources.items():
        assert source.text in rows[path]
        assert ("derived: " in rows[path]) is source.derived
        assert not source.date or f"({source.date})" in rows[path]
    for path in set(rows) - set(cluster.sources):
        assert "default or the user's file" in rows[path]


def test_an_entry_shows_values_with_units() -> None:
    rows = rows_of_entry(catalogue.load("h100-sxm"))
    for path, value in {
        "device.memory": "80 GB",
        "device.memory_bandwidth": "3.35 TB/s",
        "device.clock": "1.83 GHz",
        "device.kernel_latency": "4.5 µs",
        "device.peak.bf16": "989.4 TFLOP/s",
        "device.sustained": "0.803",
        "tiers[0].bandwidth": "450 GB/s",
        "tiers[1].size": "no end",
    }.items():
        assert f" {value} " in rows[path]
    head = text_of(tables.hardware_entry(catalogue.load("h100-sxm")))
    assert head.startswith("h100-sxm: NVIDIA H100 SXM5 80 GB\nNVIDIA, released 2022-09-20\n")
    assert "Notes: " in head


# Assumptions and the closed form


def test_the_assumptions() -> None:
    entries = records.assumptions()
    text = text_of(tables.assumptions_table(entries))
    names = [line.split()[0] for line in text.splitlines() if line[:1].strip()]
    assert names == ["name", *(entry["name"] for entry in entries)]
    assert row_with(text, "duration").startswith("duration 3 months longest a run may take")
    assert row_with(text, "fill").startswith("fill 0.75 ")
    assert row_with(text, "word").startswith("word 2 B ")
    assert row_with(text, "precision").startswith("precision bf16 ")
    assert row_with(text, "overlap_tensor").startswith("overlap_tensor true ")


def test_the_closed_form() -> None:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    tables.show_wall(console, closed_form.wall(duration="100 days"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for fact in ("4e+14 parameters", "1.92e+31 FLOP", "4e+06 tokens", "120 blocks", "9 µs"):
        assert fact in text


@pytest.mark.parametrize(("n", "text"), [(1, "1"), (9_999_999, "9,999,999"), (6.87e10, "6.87e+10")])
def test_a_number_of_devices(n: float, text: str) -> None:
    assert tables.count(n) == text
