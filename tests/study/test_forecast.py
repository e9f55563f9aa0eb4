"""The trend of training compute and when it meets limits: exact on made-up data, sound on bad."""

from __future__ import annotations

import csv
import datetime
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from scalewall.cli import run
from scalewall.errors import InputError, NoAnswer
from scalewall.study import forecast as study
from scalewall.study.forecast import day_of, decimal_year, fit_trend, forecast_from, frontier, student_t
from scalewall.study.limits import Limits
from scalewall.study.notable import SHIPPED, Model, read_models
from scalewall.study.ways import WAYS, find_moved
from tests.study.answers import papers_answer, write_quick

TODAY = "2026-07-19"
ROOT = Path(__file__).resolve().parents[2]


def model(day: str, flop: float, name: str = "m") -> Model:
    return Model(name=name, date=datetime.date.fromisoformat(day), training_flop=flop)


def growing(rate: float, noise: Sequence[float] = (0.0,), n: int = 40) -> list[Model]:
    """Return models that grow by `rate` a year from 1e20 on 2010-01-01, one every 100 days."""
    first = datetime.date(2010, 1, 1)
    found = []
    for i in range(n):
        day = first + datetime.timedelta(days=100 * i)
        flop = 1e20 * rate ** (100 * i / 365.25) * 10.0 ** noise[i % len(noise)]
        found.append(Model(name=f"m{i}", date=day, training_flop=flop))
    return found


def write_models(path: Path, models: Sequence[Model]) -> Path:
    lines = [f"{m.name},{m.date},{m.training_flop!r}" for m in models]
    path.write_text("\n".join(["name,publication_date,training_compute_flop", *lines]), encoding="utf-8")
    return path


def none_asked() -> Limits:
    return attrs.evolve(papers_answer(), curves=())


# The trend


@pytest.mark.parametrize("rate", [0.5, 1.5, 4.5, 10.0])
def test_growth_without_noise_is_exact(rate: float) -> None:
    trend = fit_trend(growing(rate), since=2010, top=100)
    assert trend.growth == pytest.approx(rate, rel=1e-9)
    assert trend.growth_interval == pytest.approx((rate, rate), rel=1e-6)
    assert trend.scatter == pytest.approx(0.0, abs=1e-9)
    assert trend.flop(2010.0) == pytest.approx(1e20, rel=1e-2)
    assert len(trend.models) == 40


def test_the_interval_is_the_textbook_one() -> None:
    # Five points of which a textbook would be fond: y = 1, 2, 2, 4, 5 at x = 0 to 4 years.
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(days=round(365.25 * x * 4)) for x in range(5)]
    models = [
        Model(name="m", date=day, training_flop=10.0**y) for day, y in zip(days, (1, 2, 2, 4, 5), strict=True)
    ]
    trend = fit_trend(models, since=1999, top=10)
    # In steps of four years: slope 1, residuals 0.2, 0.2, -0.8, 0.2, 0.2; s² = 0.8/3; t(3) = 3.18245.
    half = 3.18245 * math.sqrt(0.8 / 3 / 10)
    low, high = (math.log10(end) * 4 for end in trend.growth_interval)
    assert math.log10(trend.growth) * 4 == pytest.approx(1.0, rel=1e-9)
    assert (low, high) == pytest.approx((1.0 - half, 1.0 + half), rel=1e-5)
    assert trend.scatter == pytest.approx(math.sqrt(0.8 / 3), rel=1e-9)


def test_the_interval_covers_the_truth_19_times_in_20() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        noise = random.normal(0.0, 0.5, 40).tolist()
        low, high = fit_trend(growing(4.0, noise), since=2010, top=1000).growth_interval
        covered += low <= 4.0 <= high
    assert 0.92 < covered / 400 < 0.98


@pytest.mark.parametrize(
    ("free", "t"), [(1, 12.70620), (2, 4.30265), (5, 2.57058), (10, 2.22814), (30, 2.04227), (1000, 1.96234)]
)
def test_students_t(free: int, t: float) -> None:
    # Values of any table.
    assert student_t(free) == pytest.approx(t, rel=2e-5)


def test_the_frontier_is_the_largest_when_published() -> None:
    models = [
        model("2010-01-01", 5.0, "first"),
        model("2011-01-01", 3.0, "second"),
        model("2012-01-01", 1.0, "third"),
        model("2013-01-01", 4.0, "second again"),
        model("2014-01-01", 9.0, "record"),
        model("2014-01-01", 8.0, "of the same day"),
        model("2015-01-01", 8.0, "a tie"),
    ]
    assert [m.name for m in frontier(models[::-1], 1)] == ["first", "record"]
    assert [m.name for m in frontier(models, 2)] == [
        "first",
        "second",
        "second again",
        "record",
        "of the same day",
        "a tie",
    ]
    assert frontier(models, 7) == models


def test_models_before_since_count_for_the_rank_alone() -> None:
    models = [model("2009-01-01", 1e30, "too early"), *growing(4.0)]
    assert fit_trend(models, since=2010, top=2).models == tuple(frontier(growing(4.0), 1))


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_models(n: int) -> None:
    with pytest.raises(NoAnswer, match=f"since 2010; there are {n}"):
        fit_trend(growing(4.0, n=n), since=2010, top=10)
    with pytest.raises(NoAnswer):
        fit_trend([model("2010-01-01", float(i + 1)) for i in range(9)], since=2010, top=10)


# Dates


@pytest.mark.parametrize("day", ["1950-07-02", "2000-01-01", "2024-02-29", "2026-07-19", "2399-12-31"])
def test_days_and_decimal_years_agree(day: str) -> None:
    date = datetime.date.fromisoformat(day)
    assert day_of(decimal_year(date)) == date
    assert decimal_year(date) == pytest.approx(date.year + date.timetuple().tm_yday / 366, abs=0.01)


def test_days_outside_the_calendar() -> None:
    assert day_of(12000.0) is day_of(math.inf) is day_of(-math.inf) is None


def test_the_meeting_is_where_the_frontier_is_the_limit(tmp_path: Path) -> None:
    path = write_models(tmp_path / "m.csv", growing(4.0, (0.3, -0.3)))
    found = forecast_from(papers_answer(), models=path, today="2021-01-01", start="trend")
    (curve,) = papers_answer().curves
    assert [m.training_flop for m in found.meetings] == [curve.knee_flop, curve.wall_flop]
    assert [m.kind for m in found.meetings] == ["knee", "wall"]
    for m in found.meetings:
        assert m.year is not None
        assert m.interval is not None
        assert found.trend.flop(m.year) == pytest.approx(m.training_flop, rel=1e-9)
        assert m.interval[0] < m.year < m.interval[1]
        assert not m.passed


@pytest.mark.parametrize("rate", [4.0, 5.0])
def test_a_rate_of_ones_own(rate: float) -> None:
    # The article: from 5e25 to a knee of 2e28 FLOP is 400 times, or about four years at 4 to 5 a year.
    found = forecast_from(papers_answer(), growth=rate, start=5e25, today="2024-10-30")
    knee = found.meetings[0]
    assert knee.year == pytest.approx(found.now + math.log(2.0484e28 / 5e25) / math.log(rate), abs=1e-3)
    assert knee.interval is None
    assert found.growth == rate
    assert found.growth_interval is None
    assert found.trend.growth != rate


def test_it_can_start_at_the_largest_run() -> None:
    found = forecast_from(papers_answer(), start="largest", today=TODAY, growth=4.0)
    assert found.start == (decimal_year(found.largest.date), found.largest.training_flop)
    assert found.flop_today == pytest.approx(
        found.largest.training_flop * 4.0 ** (found.now - found.start[0])
    )


def test_a_limit_that_is_passed() -> None:
    found = forecast_from(papers_answer(), start=1e30, today=TODAY)
    knee, wall = found.meetings
    assert knee.passed
    assert not wall.passed
    assert knee.year is not None
    assert knee.year < found.now
    assert knee.interval is not None
    assert knee.interval[0] < knee.year < knee.interval[1]


def test_a_frontier_that_shrinks_meets_nothing(tmp_path: Path) -> None:
    path = write_models(tmp_path / "m.csv", growing(0.5))
    found = forecast_from(papers_answer(), models=path, today="2021-01-01")
    assert [m.year for m in found.meetings] == [math.inf, math.inf]
    assert not any(m.passed for m in found.meetings)


def test_no_knee_no_date() -> None:
    (curve,) = papers_answer().curves
    without = attrs.evolve(papers_answer(), curves=(attrs.evolve(curve, knee=None),))
    knee, wall = forecast_from(without, today=TODAY).meetings
    assert (knee.training_flop, knee.year, knee.interval, knee.passed) == (None, None, None, False)
    assert wall.year is not None


def test_a_day_of_the_past_knows_no_later_models() -> None:
    then = forecast_from(none_asked(), today="2024-10-30")
    assert max(m.date for m in then.known) <= datetime.date(2024, 10, 30)
    assert then.largest.name == "Gemini 1.0 Ultra"
    with pytest.raises(NoAnswer, match=r"No model of notable_models\.csv was published by 1900-01-01"):
        forecast_from(none_asked(), today="1900-01-01", since=1900)


# The data


def test_the_table_that_ships() -> None:
    models = read_models()
    assert len(models) == 529
    assert all(m.name for m in models)
    assert SHIPPED.stat().st_size < 100_000
    readme = (SHIPPED.parent / "README.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in readme
    assert "Epoch AI" in readme
    with SHIPPED.open(newline="", encoding="utf-8") as file:
        flagged = {row["name"] for row in csv.DictReader(file) if row["frontier_model"] == "True"}
    assert len(flagged) == 113
    assert flagged <= {m.name for m in frontier(models, 10)}


def test_the_trend_of_the_table_that_ships() -> None:
    # As measured when the table was added; what it says of the world is in docs/forecast.md.
    trend = forecast_from(none_asked(), today=TODAY).trend
    assert len(trend.models) == 124
    assert trend.growth == pytest.approx(4.813, abs=1e-3)
    assert trend.growth_interval == pytest.approx((4.560, 5.081), abs=1e-3)


def test_the_headings_of_epochs_download(tmp_path: Path) -> None:
    path = tmp_path / "epoch.csv"
    path.write_text(
        "\ufeffModel,Publication date,Training compute (FLOP),Organization\n"
        'A,2020-01-01,1e20,"X,Y"\nunknown compute,2021-01-01,,Z\nundated,,1e20,Z\n',
        encoding="utf-8",
    )
    (found,) = read_models(path)
    assert (found.name, found.training_flop, found.organization) == ("A", 1e20, "X,Y")


def test_rows_of_other_collections_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    rows = ["A,2020-01-01,1e20,notable", "B,2020-01-01,1e30,large_scale_only"]
    path.write_text("\n".join(["name,publication_date,training_compute_flop,dataset", *rows]))
    assert [m.name for m in read_models(path)] == ["A"]


BAD_FILES = {
    "name,publication_date\nA,2020-01-01\n": "a CSV file with a column training_compute_flop",
    "name,training_compute_flop,published\n": "a CSV file with a column publication_date",
    "": "a CSV file with a column name",
    "name,publication_date,training_compute_flop\n": "at least one row",
    "name,publication_date,training_compute_flop\nA,,\n": "at least one row",
    "name,publication_date,training_compute_flop\nA,May 2020,1e20\n": "line 2, publication_date",
    "name,publication_date,training_compute_flop\nA,2020-13-01,1e20\n": "a date such as 2026-07-15",
    "name,publication_date,training_compute_flop\nA,2020-01-01,much\n": "line 2, training_compute_flop",
    "name,publication_date,training_compute_flop\nA,2020-01-01,-1\n": "a positive number of FLOP",
    "name,publication_date,training_compute_flop\nA,2020-01-01,nan\n": "a positive number of FLOP",
    "name,publication_date,training_compute_flop,dataset\nA,2020-01-01,1e20,other\n": "at least one row",
}


@pytest.mark.parametrize(("text", "says"), BAD_FILES.items())
def test_a_bad_file_is_told_in_one_line(text: str, says: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    assert run(["forecast", "--models", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    for path in (tmp_path / "absent.csv", tmp_path, tmp_path / "binary.csv"):
        with pytest.raises(InputError, match="The 'models' must be"):
            read_models(path)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"growth": "1"}, "growth"),
        ({"growth": "inf"}, "growth"),
        ({"growth": "fast"}, "growth"),
        ({"start": "soon"}, "start"),
        ({"start": "-1"}, "start"),
        ({"since": "2027"}, "since"),
        ({"since": "2010.5"}, "since"),
        ({"top": 0}, "top"),
        ({"today": "19 July"}, "today"),
    ],
)
def test_bad_words(words: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        forecast_from(none_asked(), **{"today": TODAY, **words})
    assert caught.value.field == field


def test_words_are_checked_before_the_limits_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "limits", lambda *_, **__: pytest.fail("the limits were looked for"))
    with pytest.raises(InputError):
        study.forecast(papers_answer().scenario, growth=0.5)


# The command


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_quick(tmp_path)
    monkeypatch.setattr(study, "limits", lambda scenario, progress, draws: papers_answer())
    words = ["forecast", "--today", TODAY, "--start", "1e29"]
    assert run([*words, "--json", "-o", "dates.csv", "--figure", "f.html"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["answer"] == {"command": "forecast", "kinds": ["models"]}
    assert {"scenario", "today", "models", "trend", "largest", "frontier", "meetings"} < set(document)
    knee, wall = document["meetings"]
    assert knee["passed"] is True
    assert wall["passed"] is False
    assert wall["earliest"] < wall["date"] < wall["latest"]
    assert document["models"]["credit"] == "Data: Epoch AI, CC BY 4.0"
    text = Path("dates.csv").read_text(encoding="utf-8")
    assert [row["date"] for row in csv.DictReader(text.splitlines()[1:])] == [knee["date"], wall["date"]]
    assert Path("f.html").stat().st_size > 1e6
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert f"{knee['date']} (passed)" in shown
    assert "Passed: the frontier was there before today" in shown
    assert "Data: Epoch AI, CC BY 4.0" in shown


def test_a_user_rate_has_no_interval_in_the_table(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(study, "limits", lambda scenario, progress, draws: papers_answer())
    assert run(["forecast", "--today", TODAY, "--growth", "4.5x"]) == 0
    shown = capsys.readouterr().out
    assert "growing × 4.50 a year (as given)" in shown
    assert "interval of growth" not in shown


# Ways


def test_the_ways_are_distinct() -> None:
    assert (
        len({way.name for way in WAYS}) == len({(way.hardware, str(way.words)) for way in WAYS}) == len(WAYS)
    )
    assert WAYS[0].kind == "baseline"


def test_the_limits_of_the_papers_device_by_the_default_search() -> None:
    moved = find_moved(WAYS[0])
    assert moved.knee is not None
    assert moved.knee.training_flop == pytest.approx(1.63e29, rel=5e-3)
    assert moved.wall.training_flop == pytest.approx(4.76e31, rel=5e-3)
