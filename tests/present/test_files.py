"""Files: what is written can be read back, with the scenario that it came from; and bad paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import polars as pl
import pytest

from scalewall.errors import InputError
from scalewall.present import figures, files
from scalewall.study import records
from scalewall.study.limits import Limits
from scalewall.study.scenario import scenario
from tests.study.answers import papers_answer, searched

ANSWERS = [papers_answer, searched]
each_answer = pytest.mark.parametrize("find", ANSWERS, ids=["paper", "search"])


def about_in(path: Path) -> Any:
    """Return what a file says of itself."""
    if path.suffix == ".parquet":
        return json.loads(pl.read_parquet_metadata(path)["scalewall"])
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    assert first.startswith("# ")
    return json.loads(first[2:])


def read(path: Path) -> pl.DataFrame:
    """Return the table in a file, by the plain means of its format."""
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    return pl.read_csv(path, comment_prefix="#")


# Round trips


@each_answer
@pytest.mark.parametrize("name", ["limits.parquet", "limits.csv"])
def test_every_point_comes_back(tmp_path: Path, find: Any, name: str) -> None:
    answer: Limits = find()
    files.write_limits(answer, tmp_path / name)
    frame, rows = read(tmp_path / name), records.rows(answer)
    assert frame.columns == list(rows[0])
    assert len(frame) == len(rows) == len(answer.curves[0].points)
    for back, row in zip(frame.to_dicts(), rows, strict=True):
        for column, value in row.items():
            assert back[column] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)


@each_answer
@pytest.mark.parametrize("name", ["limits.parquet", "limits.csv"])
def test_the_scenario_comes_back(tmp_path: Path, find: Any, name: str) -> None:
    answer: Limits = find()
    files.write_limits(answer, tmp_path / name)
    about = about_in(tmp_path / name)
    assert about["version"] == version("scalewall")
    assert scenario(**about["scenario"]) == answer.scenario
    (limits,) = about["limits"]
    assert limits["hardware"] == "h100-sxm"
    assert limits["wall_flop"] == answer.curves[0].wall_flop
    assert "points" not in limits


def test_several_devices_are_in_one_table(tmp_path: Path) -> None:
    curves = papers_answer().curves + searched().curves
    files.write_limits(Limits(scenario=searched().scenario, curves=curves), tmp_path / "both.parquet")
    frame = pl.read_parquet(tmp_path / "both.parquet")
    assert len(frame) == 31 + 6
    assert frame["wall_flop"].n_unique() == 2
    assert len(about_in(tmp_path / "both.parquet")["limits"]) == 2


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "limits.csv"
    path.write_text("replaced\n" * 1000)
    files.write_limits(searched(), path)
    assert "replaced" not in path.read_text()
    assert len(read(path)) == 6


# Paths


def check(path: Path) -> None:
    files.check_path(path, "output", files.TABLES)


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as error:
        check(path)
    assert error.value.field == "output"
    assert len(str(error.value).splitlines()) == 1
    return error.value


def test_good_paths_are_accepted_and_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "a.csv", Path("b.parquet"), Path("./c.csv")):
        check(path)
    files.check_path(Path("d.html"), "figure", files.FIGURES)
    assert not list(tmp_path.iterdir())
    (tmp_path / "a.csv").write_text("old")
    check(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "old"


@pytest.mark.parametrize("name", ["x.txt", "x", "x.parquet.gz", ".csv", "x.csv ", ""])
def test_a_wrong_ending(tmp_path: Path, name: str) -> None:
    error = refused(tmp_path / name)
    assert ".parquet, .csv" in error.must


def test_a_missing_folder(tmp_path: Path) -> None:
    error = refused(tmp_path / "nowhere" / "x.csv")
    assert "folder" in error.must
    assert "nowhere" in str(error)


def test_a_file_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / "x.csv")


def test_a_folder_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    refused(tmp_path / "x.csv")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    refused(tmp_path / f"{'x' * 300}.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_what_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("")
    (tmp_path / "x.csv").chmod(0o444)
    refused(tmp_path / "x.csv")
    (tmp_path / "folder").mkdir(mode=0o555)
    refused(tmp_path / "folder" / "x.csv")


def test_a_link_to_a_file_that_is_not_there_yet_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "x.csv").symlink_to(tmp_path / "y.csv")
    check(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").is_symlink()
    files.write_limits(searched(), tmp_path / "x.csv")
    assert len(read(tmp_path / "y.csv")) == 6


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_path_that_fails_only_when_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "nowhere" / name)
    with pytest.raises(InputError) as error:
        files.write_limits(searched(), tmp_path / name)
    assert error.value.field == "output"
    assert "None" not in str(error.value)


def test_a_figure_that_fails_only_when_written(tmp_path: Path) -> None:
    (tmp_path / "x.html").symlink_to(tmp_path / "nowhere" / "x.html")
    with pytest.raises(InputError) as error:
        files.write_figure(go.Figure(), tmp_path / "x.html")
    assert error.value.field == "figure"


# Figures


class Loads(HTMLParser):
    """Collects what a page loads; the text of scripts is no markup and is left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        named = {"src", "href", "srcset", "data", "action", "poster"}
        self.found += [f"{tag} {value}" for name, value in attrs if name in named]


def test_a_figure_needs_no_network(tmp_path: Path) -> None:
    path = tmp_path / "limits.html"
    files.write_figure(figures.limits_figure(papers_answer()), path)
    text = path.read_text(encoding="utf-8")
    page = Loads()
    page.feed(text)
    assert page.scripts >= 2
    assert page.found == []
    assert len(text) > 3e6  # plotly.js is inside
    assert "h100-sxm" in text
    assert "network bandwidth" in text


WITHOUT_KALEIDO = """
import sys
sys.modules["kaleido"] = None
from pathlib import Path
from scalewall.errors import InputError
from scalewall.present import files
try:
    files.check_path(Path(sys.argv[1]), "figure", files.FIGURES)
except InputError as error:
    print(error)
"""  # in a process of its own: what looks for kaleido may remember


def test_a_picture_without_kaleido_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_KALEIDO, str(tmp_path / "x.png")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("The 'figure' must be a .html file")
    assert "kaleido" in said
    assert "scalewall[image]" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "x.png").exists()


@pytest.mark.filterwarnings("ignore")  # kaleido's own, of the browser that it starts and stops
def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("kaleido", reason="pictures need kaleido (the extra 'image')")
    try:
        files.write_figure(go.Figure(go.Scatter(x=[1], y=[1])), tmp_path / "x.png")
    except InputError as error:
        pytest.skip(f"kaleido finds no browser that works: {error}")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
