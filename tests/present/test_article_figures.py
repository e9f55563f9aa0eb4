"""The article's figures: what is drawn is what the files hold, and can be told apart."""

from __future__ import annotations

import functools
import io
import itertools
import json
import math
from pathlib import Path
from typing import Any

import attrs
import polars as pl
import pytest

from scalewall.cli import run
from scalewall.errors import InputError
from scalewall.present import drawn, figures_article, files
from scalewall.present.drawn import Drawn
from scalewall.present.figures_article import moved_limits, utilisation
from scalewall.present.figures_forecast import over_time, spread
from scalewall.study.forecast import Forecast, forecast_from
from scalewall.study.limits import Limits
from scalewall.study.notable import CREDIT
from scalewall.study.ways import WAYS, Moved
from tests.study.answers import papers, papers_answer


def several() -> Limits:
    """Return an answer of three devices that are one under several names; the last has a lower knee."""
    (curve,) = papers_answer().curves
    names = ("one", "two", "three")
    curves = [attrs.evolve(curve, cluster=attrs.evolve(curve.cluster, name=name)) for name in names]
    curves[2] = attrs.evolve(curves[2], knee=curve.points[3])
    return attrs.evolve(papers_answer(), curves=tuple(curves))


def dated(answer: Limits | None = None, **words: Any) -> Forecast:
    return forecast_from(answer or several(), **{"today": "2026-07-19", **words})


@functools.cache
def all_drawn() -> tuple[Drawn, ...]:
    return over_time(dated()), utilisation([(papers(), False), (papers(sparse=True), True)]), ways_drawn()


def ways_drawn() -> Drawn:
    curve, asked = papers(), papers_answer().scenario
    knees = (curve.knee, None, curve.points[-2])
    found = [
        Moved(way=way, scenario=asked, cluster=curve.cluster, knee=knee, wall=curve.wall)
        for way, knee in zip(WAYS[:3], knees, strict=True)
    ]
    return moved_limits(found)


def trace(figure: Any, name: str) -> Any:
    (found,) = [t for t in figure.data if (t.name or "").startswith(name)]
    return found


def test_models_over_time() -> None:
    answer = dated()
    shown = over_time(answer)
    models = trace(shown.figure, "the 10 largest")
    assert list(models.y) == [m.training_flop for m in answer.known if m in answer.trend.models]
    assert list(models.x) == [m.date.isoformat() for m in answer.known if m in answer.trend.models]
    line = trace(shown.figure, "their trend: × 4.81 a year")
    assert line.y[1] == pytest.approx(answer.trend.flop(answer.now))
    further = trace(shown.figure, "carried on at × 4.81")
    assert further.y[0] == pytest.approx(answer.start[1])
    assert further.y[1] > max(m.training_flop for m in answer.meetings if m.training_flop)
    assert any(CREDIT in a.text for a in shown.figure.layout.annotations)
    assert shown.about["credit"] == CREDIT


def test_every_limit_has_a_line_and_one_label() -> None:
    figure = over_time(dated()).figure
    said = [a.text for a in figure.layout.annotations]
    assert sum(text.startswith("wall, every device: 2.7e31") for text in said) == 1
    assert sum(text.startswith("knee, one, two: 2.0e28") for text in said) == 1
    assert sum(text.startswith("knee, three: ") for text in said) == 1
    assert len(figure.layout.shapes) == 3
    marks = [t for t in figure.data if t.name and t.name.startswith(("knee", "wall"))]
    assert {t.marker.symbol for t in marks if t.name.startswith("knee")} == {"circle-open"}
    assert {t.marker.symbol for t in marks if t.name.startswith("wall")} == {"x"}
    assert marks[0].x[0] is not None


def test_labels_do_not_collide() -> None:
    (curve,) = papers_answer().curves
    many = [
        attrs.evolve(
            curve,
            cluster=attrs.evolve(curve.cluster, name=f"device-{i}"),
            knee=curve.points[i],
            wall=curve.points[-1 - i],
        )
        for i in range(7)
    ]
    figure = over_time(dated(attrs.evolve(papers_answer(), curves=tuple(many)))).figure
    low, high = figure.layout.yaxis.range
    margin = figure.layout.margin
    decade = (figure.layout.height - margin.t - margin.b) / (high - low)
    labels = [a for a in figure.layout.annotations if a.text.startswith(("knee", "wall"))]
    places = sorted((a.y - low) * decade - a.ay for a in labels)
    assert min(b - a for a, b in itertools.pairwise(places)) > 15


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        ([], []),
        ([5.0], [5.0]),
        ([0.0, 100.0], [0.0, 100.0]),
        ([50.0, 50.0], [45.0, 55.0]),
        ([52.0, 50.0], [56.0, 46.0]),
        ([0.0, 9.0, 18.0], [-1.0, 9.0, 19.0]),
    ],
)
def test_spread(places: list[float], moved: list[float]) -> None:
    assert spread(places, 10.0) == pytest.approx(moved)


def test_a_rate_of_ones_own_has_no_band() -> None:
    names = [t.name for t in over_time(dated(growth=4.5)).figure.data]
    assert "carried on at × 4.50 a year" in names
    assert not any("interval" in name for name in names)
    assert any("95% interval" in (t.name or "") for t in over_time(dated()).figure.data)


def test_other_data_are_not_credited_to_epoch(tmp_path: Path) -> None:
    rows = [f"A{i},20{i}-01-01,1e{i}" for i in range(12, 22)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["name,publication_date,training_compute_flop", *rows]))
    shown = over_time(dated(models=path))
    assert shown.about["credit"] == "Data: mine.csv"
    assert not any("Epoch" in a.text for a in shown.figure.layout.annotations)


def test_utilisation_by_device_dense_and_sparse() -> None:
    _, shown, _ = all_drawn()
    dense, sparse = trace(shown.figure, "h100-sxm, dense"), trace(shown.figure, "h100-sxm, sparse")
    assert list(dense.y) == [p.mfu for p in papers().points]
    assert list(sparse.x) == [p.training_flop for p in papers(sparse=True).points]
    assert dense.line.color == sparse.line.color
    assert (dense.line.dash, sparse.line.dash) == ("solid", "dash")
    assert dense.marker.symbol != sparse.marker.symbol
    assert "knee 2.0e28, wall 2.7e31" in dense.name
    knee = trace(shown.figure, "knee, h100-sxm, dense")
    assert (knee.x[0], knee.y[0]) == (papers().knee_flop, papers().knee.mfu)  # type: ignore[union-attr]


def test_devices_differ_by_colour_and_mark() -> None:
    other = attrs.evolve(papers(), cluster=attrs.evolve(papers().cluster, name="other"))
    figure = utilisation([(papers(), False), (other, False)]).figure
    one, two = trace(figure, "h100-sxm"), trace(figure, "other")
    assert one.line.color != two.line.color
    assert one.marker.symbol != two.marker.symbol


def test_ways_to_move_the_limits() -> None:
    shown = ways_drawn()
    knee, wall = trace(shown.figure, "knee"), trace(shown.figure, "wall")
    assert list(knee.y) == [WAYS[0].name, WAYS[2].name]  # the second has none
    assert list(wall.y) == [way.name for way in WAYS[:3]]
    assert knee.marker.symbol != wall.marker.symbol
    assert knee.marker.color != wall.marker.color
    assert [row["wall_factor"] for row in shown.rows] == [1.0, 1.0, 1.0]
    assert shown.rows[2]["knee_factor"] == pytest.approx(knee.x[1] / knee.x[0])
    assert [line.x0 for line in shown.figure.layout.shapes] == [knee.x[0], wall.x[0]]
    labels = {(a.y, a.text) for a in shown.figure.layout.annotations}
    assert (WAYS[0].name, "2.0e28") in labels
    low, high = shown.figure.layout.xaxis.range
    assert low < math.log10(knee.x[0]) < math.log10(wall.x[0]) < high


def test_files_hold_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pictures(figure: Any, path: Path) -> None:
        if path.suffix != ".html":
            raise InputError("figure", "a .html file", str(path), "No browser.")
        path.write_text("<html>")

    monkeypatch.setattr(files, "write_figure", no_pictures)
    for one in all_drawn():
        paths, missing = drawn.write_drawn(one, tmp_path)
        assert [p.name for p in paths] == [f"{one.name}{ending}" for ending in (".html", ".csv", ".json")]
        assert missing == f"No {one.name}.png: a picture needs kaleido and a browser. No browser."
        document = json.loads(paths[2].read_text(encoding="utf-8"))
        assert document["rows"] == one.rows
        assert document["title"] == one.title
        first, _, table = paths[1].read_text(encoding="utf-8").partition("\n")
        assert json.loads(first.removeprefix("# "))["credit"] == one.about["credit"]
        frame = pl.read_csv(io.StringIO(table), infer_schema_length=None)
        assert frame.rows() == pl.DataFrame(one.rows, infer_schema_length=None).rows()


def test_every_number_of_a_figure_is_in_its_rows() -> None:
    for one in all_drawn():
        held = {value for row in one.rows for value in row.values() if isinstance(value, float)}
        for t in one.figure.data:
            for value in [*t.x, *t.y]:
                assert not isinstance(value, float) or value in held


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    told = []

    def some_figures(tell: Any, words: Any) -> Any:
        told.append(words)
        return iter(all_drawn())

    monkeypatch.setattr(figures_article, "article_figures", some_figures)
    monkeypatch.setattr(files, "write_figure", lambda figure, path: path.write_text("a figure"))
    folder = tmp_path / "new" / "folder"
    assert run(["figures", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["missing"] == []
    assert sorted(document["written"]) == sorted(str(path) for path in folder.iterdir())
    assert len(document["written"]) == 12
    assert run(["figures", str(folder), "--duration", "6 months", "--set", "fill=0.8"]) == 0
    assert told == [{}, {"duration": "6 months", "fill": "0.8"}]
    assert capsys.readouterr().out.split() == document["written"]
    file = tmp_path / "file"
    file.write_text("")
    for wrong in (["--duration", "6 GB"], ["--set", "hardware=v100"], ["--set", "dp=8"]):
        assert run(["figures", str(folder), *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert len(told) == 2  # nothing is worked out for words that are wrong
    for path in (file, file / "below"):
        assert run(["figures", str(path)]) == 2
        assert "The 'folder' must be a folder" in capsys.readouterr().err


def test_the_figures_of_the_article_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def answer(scenario: Any) -> Limits:
        asked.append((scenario.hardware, scenario.preset, scenario.scaling.sparsity.text))
        return papers_answer()

    moved = ways_drawn()
    monkeypatch.setattr(figures_article, "limits", answer)
    monkeypatch.setattr(figures_article.ways, "find_all", lambda tell, words: [tell(w.name) for w in WAYS])
    monkeypatch.setattr(figures_article, "moved_limits", lambda found: moved)
    told: list[tuple[int, int, str]] = []
    found = figures_article.article_figures(lambda done, total, what: told.append((done, total, what)))
    assert [one.name for one in found] == ["compute-over-time", "utilisation", "ways"]
    assert [done for done, _, _ in told] == list(range(len(told)))
    assert {total for _, total, _ in told} == {told[-1][0]}
    assert [a[0][0] for a in asked[:4]] == list(figures_article.OVER_TIME_HARDWARE)
    assert asked[4:] == [
        ((name,), "epoch-2024", sparsity)
        for sparsity in ("dense", "baseline")
        for name in figures_article.PAPER_HARDWARE
    ]
