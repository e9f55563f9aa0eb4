"""How sure the limits are: distributions, draws that can be had again, and indices that match theory."""

from __future__ import annotations

import builtins
import io
import json
import math
import re
from typing import Any

import attrs
import numpy as np
import pytest
from rich.console import Console

from scalewall import cli
from scalewall.errors import InputError, InputErrors, NoAnswer, ScalewallError
from scalewall.present import figures, figures_forecast, figures_uncertainty, tables_uncertainty
from scalewall.study import distributions, records
from scalewall.study import forecast as forecasts
from scalewall.study import limits as study_limits
from scalewall.study import uncertainty as study
from scalewall.study.distributions import read, unit_cube
from scalewall.study.inputs import inputs
from scalewall.study.scenario import from_toml, scenario
from tests.study.answers import papers_answer, write_quick

H100 = scenario()
KNOWN = inputs(H100, H100.clusters[0])
LATENCY = {"lognormal": {"median": "4.5 us", "sigma": 0.3}}
TWO = {
    "kernel_latency": LATENCY,
    "scale_out_latency": {"normal": {"mean": "2 us", "std": "0.2 us"}},
}


def drawn(tables: dict[str, Any], n: int = 4096) -> np.ndarray:
    some = read(tables, KNOWN)
    return some.draw(unit_cube(n, len(some.inputs), 1))


# Distributions -----------------------------------------------------------------------------------------


def test_each_distribution_has_its_quantiles():
    tables = {
        **TWO,
        "sustained": {"uniform": {"low": 0.7, "high": 0.8}},
        "duration": {"samples": ["3 months", "6 months", "6 months", "12 months"]},
    }
    kernel, network, share, duration = drawn(tables).T
    assert np.median(kernel) == pytest.approx(4.5e-6, rel=2e-3)
    assert np.log(kernel).std() == pytest.approx(0.3, rel=5e-3)
    assert network.mean() == pytest.approx(2e-6, rel=1e-3)
    assert network.std() == pytest.approx(0.2e-6, rel=5e-3)
    assert share.min() >= 0.7
    assert share.max() <= 0.8
    assert share.mean() == pytest.approx(0.75, rel=1e-3)
    values, counts = np.unique(duration, return_counts=True)
    assert values == pytest.approx([0.25 * 3.154e7, 0.5 * 3.154e7, 3.154e7])
    assert counts == pytest.approx([1024, 2048, 1024], abs=2)


def test_multiples_are_of_what_the_scenario_has():
    (some,) = read({"sustained": {"uniform": {"low": "0.5x", "high": "1x"}}}, KNOWN).inputs
    assert some.numbers == pytest.approx((0.803 / 2, 0.803))
    (some,) = read({"kernel_latency": {"lognormal": {"median": "2 x", "sigma": 1}}}, KNOWN).inputs
    assert some.numbers == pytest.approx((9e-6, 1.0))


def test_draws_are_cut_to_what_an_input_can_take():
    """A wide normal about a share: as a normal cut off at 0 and 1, not heaped there."""
    share, domain = drawn(
        {
            "sustained": {"normal": {"mean": 0.8, "std": 0.5}},
            "domain_size": {"lognormal": {"median": 2, "sigma": 2.0}},
        }
    ).T
    assert 0 < share.min() < 0.01
    assert 0.99 < share.max() <= 1
    assert np.unique(share).size == share.size
    assert set(domain) >= {1.0, 2.0, 3.0}
    assert (domain == np.round(domain)).all()


def test_a_copula_has_the_correlation_of_ranks_and_leaves_each_distribution():
    correlation = {
        "inputs": ["scale_out_latency", "kernel_latency"],
        "matrix": [[1, 0.8], [0.8, 1]],
    }
    both = drawn({**TWO, "sustained": {"uniform": {"low": 0.7, "high": 0.8}}, "correlation": correlation})
    ranks = np.argsort(np.argsort(both, axis=0), axis=0)
    spearman = np.corrcoef(ranks.T)
    assert spearman[0, 1] == pytest.approx(6 / math.pi * math.asin(0.8 / 2), abs=0.01)
    assert spearman[0, 2] == pytest.approx(0, abs=0.01)
    assert np.median(both[:, 0]) == pytest.approx(4.5e-6, rel=1e-2)
    assert both[:, 1].std() == pytest.approx(0.2e-6, rel=1e-2)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"kernel_latency": {"lognormal": {"median": "4.5 us", "sigma": -0.3}}}, "sigma' must be a positive"),
        ({"kernel_latency": {"normal": {"mean": "4.5 us", "std": "-1 us"}}}, "std' must be a positive"),
        ({"kernel_latency": {"normal": {"mean": "-4.5 us", "std": "1 us"}}}, "mean' must be a number"),
        ({"kernel_latency": {"uniform": {"low": "5 us", "high": "4 us"}}}, r"high' must be more than low"),
        ({"kernel_latency": {"uniform": {"low": "5 us", "high": "5 us"}}}, r"high' must be more than low"),
        ({"sustained": {"uniform": {"low": 0.5, "high": 1.5}}}, "positive and at most 1"),
        ({"kernel_latency": {"samples": []}}, "samples' must be a list of at least one value"),
        ({"kernel_latency": {"samples": ["1 us", "1 GB"]}}, r"samples\[1\]' must be a time"),
        ({"kernel_latncy": LATENCY}, r"uncertain.kernel_latncy' .* Nearest: kernel_latency"),
        ({"kernel_latency": {"lognorml": {}}}, "Nearest: lognormal"),
        ({"kernel_latency": {"lognormal": {"median": "4 us"}}}, "sigma' must be given"),
        ({"kernel_latency": {"lognormal": {"median": "4 us", "sigma": 1, "x": 1}}}, "x' must be absent"),
        ({"kernel_latency": {}}, "one distribution of"),
        ({"kernel_latency": "4 us"}, "a distribution such as"),
        ({"kernel_latency": {**LATENCY, "source": 2024}}, "source' must be a text"),
        ({"kernel_latency": {"lognormal": 3}}, "a table of median and sigma"),
        ({}, "at least one input"),
        ({**TWO, "latency": LATENCY}, "left out beside latency"),
        ({**TWO, "correlation": {"matrix": [[1, 0.5], [0.4, 1]]}}, "matrix' must be symmetric"),
        ({**TWO, "correlation": {"matrix": [[1, 1.5], [1.5, 1]]}}, "matrix' must be positive definite"),
        ({**TWO, "correlation": {"matrix": [[2, 0.5], [0.5, 1]]}}, "matrix' must be 1 on its diagonal"),
        ({**TWO, "correlation": {"matrix": [[1]]}}, "matrix' must be 2 rows of 2 numbers"),
        ({**TWO, "correlation": {"matrix": [["a", 1], [1, 1]]}}, "matrix' must be 2 rows of 2 numbers"),
        ({**TWO, "correlation": {"matrix": [[1, 0], [0]]}}, "matrix' must be 2 rows of 2 numbers"),
        ({**TWO, "correlation": {"inputs": ["memory"], "matrix": [[1]]}}, "inputs' must be uncertain inputs"),
        ({**TWO, "correlation": [[1]]}, "a table of inputs and matrix"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line(tables, said):
    with pytest.raises(InputError, match=said) as caught:
        read(tables, KNOWN)
    assert not isinstance(caught.value, InputErrors) or "latency" in tables
    if "latency" not in tables:
        assert "\n" not in str(caught.value)


def test_all_faults_are_found_in_one_go():
    wrong = {"kernel": LATENCY, "memory": {"samples": []}}
    with pytest.raises(InputErrors) as caught:
        read(wrong, KNOWN)
    assert len(caught.value.errors) == 2


def test_without_scipy_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ScalewallError, match=re.escape("pip install 'scalewall[uncertainty]'")):
        distributions.need_scipy()


# Sobol indices -----------------------------------------------------------------------------------------


def test_indices_of_a_line_are_its_squared_slopes():
    slopes = np.array([1.0, 2.0, 4.0])
    found = study.sobol_indices(lambda u: np.stack([u @ slopes, 5.0 - u @ slopes]), 3, 4096, seed=3)
    shares = slopes**2 / (slopes**2).sum()
    for output in range(2):
        assert found.first[output] == pytest.approx(shares, abs=0.01)
        assert found.total[output] == pytest.approx(shares, abs=0.01)
        for value, ends in ((found.first, found.first_interval), (found.total, found.total_interval)):
            assert (ends[0, output] <= value[output]).all()
            assert (value[output] <= ends[1, output]).all()


def test_a_product_is_all_interaction():
    """Of ``(u − ½)·(w − ½)`` neither input alone explains anything, and both together all."""
    found = study.sobol_indices(lambda u: (u[:, 0] - 0.5)[None] * (u[:, 1] - 0.5), 2, 4096)
    assert found.first[0] == pytest.approx([0, 0], abs=0.02)
    assert found.total[0] == pytest.approx([1, 1], abs=0.02)


def test_indices_are_those_of_scipy():
    from scipy.stats import sobol_indices

    n, seed = 64, 5

    def model(u):
        return np.stack([np.exp(u[:, 0] + 2 * u[:, 1]) + u[:, 2], u[:, 0] * u[:, 2]])

    outputs = []
    found = study.sobol_indices(lambda u: outputs.append(model(u)) or outputs[-1], 3, n, seed)
    parts = outputs[0].reshape(2, 5, n)
    func = {"f_A": parts[:, 0], "f_B": parts[:, 1], "f_AB": np.moveaxis(parts[:, 2:], 1, 0)}
    theirs = sobol_indices(func=func, n=n)
    assert found.first == pytest.approx(theirs.first_order, rel=1e-9)
    assert found.total == pytest.approx(theirs.total_order, rel=1e-9)


def test_what_does_not_vary_has_no_shares():
    found = study.sobol_indices(lambda u: np.ones((1, len(u))), 2, 8)
    assert not found.first.any()
    assert not found.total.any()


# The limits ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uncertain")
    hardware = write_quick(folder)
    file = folder / "question.toml"
    file.write_text(
        f"""\
hardware = ["{hardware}"]
[uncertain]
kernel_latency = {{ lognormal = {{ median = "4.5 us", sigma = 0.5 }}, source = "a guess" }}
sustained = {{ uniform = {{ low = 0.4, high = 0.5 }} }}
""",
        encoding="utf-8",
    )
    return file


@pytest.fixture(scope="module")
def answer(quick):
    return study.uncertainty(from_toml(quick), samples=4, seed=7, at=["1e27"])


def test_a_seed_gives_the_same_numbers_twice_in_any_number_of_processes(quick, answer):
    again = study.uncertainty(from_toml(quick), samples=4, seed=7, at=["1e27"], jobs=2)
    assert again.spreads[0].outcomes == answer.spreads[0].outcomes
    assert (again.spreads[0].drawn == answer.spreads[0].drawn).all()
    assert (unit_cube(4, 2, 7) == unit_cube(4, 2, 7)).all()
    assert not (unit_cube(4, 2, 7) == unit_cube(4, 2, 8)).any()


def test_draws_are_answers_of_their_own(answer):
    """Each is what a scenario with these values says; more latency lowers the wall."""
    from scalewall.study.boundary import find_wall

    spread = answer.spreads[0]
    assert spread.baseline.wall_flop == find_wall(answer.scenario, spread.cluster).training_flop
    device = attrs.evolve(
        spread.cluster.device, kernel_latency=spread.drawn[0, 0], sustained=spread.drawn[0, 1]
    )
    slow = attrs.evolve(spread.cluster, device=device)
    assert spread.outcomes[0].wall_flop == pytest.approx(
        find_wall(answer.scenario, slow).training_flop, rel=0.01
    )
    by_latency = np.argsort(spread.drawn[:, 0])
    walls = [spread.outcomes[i].wall_flop for i in by_latency]
    assert walls == sorted(walls, reverse=True)
    low, middle, high = spread.interval("wall_flop")
    assert walls[-1] <= low < middle < high <= walls[0]
    assert 1e27 in spread.computes
    assert (np.diff(spread.band(), axis=0) >= 0).all()


def test_indices_of_the_limits(quick):
    found = study.uncertainty(from_toml(quick), samples=2, sobol=True).spreads[0]
    assert len(found.outcomes) == len(found.drawn) == 4
    assert found.indices is not None
    assert found.indices.n == 2
    kernel, sustained = found.indices.total[1]
    assert kernel > 10 * sustained  # the wall is where latency fills the time
    document = records.of_uncertainty(
        study.Answer(scenario=from_toml(quick), samples=2, seed=0, spreads=(found,))
    )
    assert document["hardware"][0]["sobol"]["wall_flop"]["kernel_latency"]["total"] == kernel
    json.dumps(document, allow_nan=False)


def test_the_figure_has_a_band_and_intervals(answer):
    figure = figures_uncertainty.uncertainty_figure(answer)
    names = [trace.name for trace in figure.data]
    assert "quick, 5% to 95%" in names
    assert sum(trace.error_x.array is not None for trace in figure.data) == 2


def test_defaults_apply_to_every_device_and_have_reasons():
    tables = study.defaults()
    some = read(tables, KNOWN)
    assert [u.name for u in some.inputs] == list(tables)
    assert all(len(u.source) > 20 for u in some.inputs)
    constant = scenario(batch_law="constant")
    fewer = read(tables, inputs(constant, constant.clusters[0]), lenient=True)
    assert [u.name for u in fewer.inputs] == [n for n in tables if n != "batch_exponent"]


def test_a_scenario_carries_its_table(quick):
    asked = from_toml(quick)
    assert set(asked.uncertain) == {"kernel_latency", "sustained"}
    assert scenario(**asked.as_dict()) == asked
    assert "uncertain" not in H100.as_dict()
    with pytest.raises(InputError, match="'uncertain' must be a table"):
        scenario(uncertain=3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"samples": 100}, "'samples' must be a power of two. Got 100 instead. Nearest: 64, 128."),
        ({"samples": 1}, "'samples' must be a whole number from 2"),
        ({"seed": -1}, "'seed' must be a whole number"),
        ({"jobs": 0}, "'jobs' must be a whole number"),
        ({"at": ["-1"]}, "'at' must be a positive number of FLOP"),
    ],
)
def test_wrong_words(words, said):
    with pytest.raises(InputError, match=re.escape(said)):
        study.uncertainty(H100, **words)


def test_correlated_inputs_have_no_indices():
    tables = {**TWO, "correlation": {"matrix": [[1, 0.5], [0.5, 1]]}}
    with pytest.raises(InputError, match="'sobol' must be left out"):
        study.uncertainty(scenario(uncertain=tables), sobol=True)


# The command ---------------------------------------------------------------------------------------------


def test_the_command_prints_one_document(quick, tmp_path, capsys):
    out, picture = tmp_path / "draws.csv", tmp_path / "band.html"
    words = ["uncertainty", "--scenario", str(quick), "--samples", "2", "--json"]
    assert cli.run([*words, "-o", str(out), "--figure", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    (device,) = document["hardware"]
    assert [i["name"] for i in device["inputs"]] == ["kernel_latency", "sustained"]
    assert device["wall_flop"]["p05"] <= device["wall_flop"]["p50"] <= device["wall_flop"]["p95"]
    assert len(device["draws"]) == document["samples"] == 2
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2 + 2
    assert picture.stat().st_size > 1e6


def test_the_tables_say_it_all(answer):
    spread = attrs.evolve(
        answer.spreads[0], indices=study.sobol_indices(lambda u: np.stack([u[:, 0], u[:, 1]]), 2, 8)
    )
    file = io.StringIO()
    tables_uncertainty.show_uncertainty(
        Console(width=200, file=file), attrs.evolve(answer, spreads=(spread,))
    )
    said = file.getvalue()
    for text in ("kernel_latency", "a guess", "knee, FLOP", "MFU at", "Sobol indices", "seed 7"):
        assert text in said


# Limits and forecasts of such a scenario -----------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(quick):
    return study_limits.limits(from_toml(quick, points=3), draws=study.Draws(samples=4, seed=7))


def test_limits_have_the_same_draws_as_the_study_of_uncertainty(limited, answer):
    (curve,) = limited.curves
    assert (curve.spread.drawn == answer.spreads[0].drawn).all()
    assert curve.spread.computes == tuple(point.training_flop for point in curve.points)
    assert curve.spread.baseline.mfu == tuple(point.mfu for point in curve.points)
    for mine, other in zip(curve.spread.outcomes, answer.spreads[0].outcomes, strict=True):
        assert mine.wall_flop == other.wall_flop
        assert mine.mfu[0] == other.mfu[0]  # both begin at the same compute
    again = study_limits.limits(limited.scenario, draws=study.Draws(samples=4, seed=7, jobs=2))
    assert again.curves[0].spread.outcomes == curve.spread.outcomes


def test_limits_without_distributions_have_no_new_keys(quick):
    sure = study_limits.limits(scenario(hardware=from_toml(quick).hardware, points=2))
    document = records.of_limits(sure)
    assert set(document) == {"scenario", "curves"}
    assert not [key for key in document["curves"][0] if "interval" in key or "median" in key]
    assert not [key for key in document["curves"][0]["points"][0] if "interval" in key]
    assert sure.draws is None


def test_limits_give_medians_and_intervals(quick, tmp_path, capsys):
    words = ["limits", "--scenario", str(quick), "--points", "2", "--samples", "4", "--seed", "7"]
    out = tmp_path / "l.parquet"
    assert cli.run([*words, "--json", "-o", str(out), "--figure", str(tmp_path / "l.html")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["draws"] == {"samples": 4, "seed": 7, "interval": [0.05, 0.95]}
    (curve,) = document["curves"]
    for limit in ("knee_flop", "wall_flop"):
        low, high = curve[f"{limit}_interval"]
        assert low < curve[f"{limit}_median"] < high
    for point in curve["points"]:
        low, high = point["mfu_interval"]
        assert low <= point["mfu_median"] <= high
    assert [one["name"] for one in curve["inputs"]] == ["kernel_latency", "sustained"]
    import polars as pl

    frame = pl.read_parquet(out)
    assert frame["mfu_low"].to_list() == [point["mfu_interval"][0] for point in curve["points"]]
    assert frame["wall_flop_high"][0] == curve["wall_flop_interval"][1]
    assert cli.run(words) == 0
    said = capsys.readouterr().out
    assert "5% to 95%" in said
    assert "With kernel_latency, sustained uncertain, 4 quasi-random draws, seed 7:" in said
    assert "knee: median" in said


def test_the_figure_of_limits_has_bands_and_bars_apart(limited):
    figure = figures.limits_figure(attrs.evolve(limited, curves=limited.curves * 2))
    names = [trace.name for trace in figure.data]
    assert names.count("quick, 5% to 95%") == names.count("quick, median") == 2
    bars = [trace.y[0] for trace in figure.data if len(trace.y) == 3 and max(trace.y) < 0]
    assert len(set(bars)) == 4
    assert min(bars) > figure.layout.yaxis.range[0]
    assert "4 draws of kernel_latency, sustained" in figure.layout.title.text


def test_a_date_joins_the_growths_uncertainty_and_the_limits(limited):
    plain = forecasts.forecast_from(limited, today="2026-07-19")
    fixed = forecasts.forecast_from(limited, today="2026-07-19", growth=plain.growth)
    spread = limited.curves[0].spread
    for both, alone in zip(plain.meetings, fixed.meetings, strict=True):
        assert both.flop_spread == spread.interval(f"{both.kind}_flop")
        assert both.year == alone.year
        low, middle, high = both.year_spread
        assert low <= alone.year_spread[0] + 0.05
        assert alone.year_spread[2] - 0.05 <= high
        assert low < middle < high
    walls = sorted(outcome.wall_flop for outcome in spread.outcomes)
    years = [forecasts.meeting_year(flop, fixed.start, fixed.growth) for flop in walls]
    assert fixed.meetings[1].year_spread == (years[0], years[1], years[3])  # of four, with the growth known


def test_growth_that_is_uncertain_alone_has_its_own_interval():
    """With a limit that is sure, nine tenths of the rates lie within; Student's t of 122 degrees."""
    from scipy import stats

    answer = attrs.evolve(papers_answer(), curves=())
    asked = forecasts.forecast_from(answer, today="2026-07-19")
    low, _, high = forecasts.year_spread([1e30], asked.start, forecasts._rates(asked))
    slope = math.log10(asked.growth)
    half = (math.log10(asked.growth_interval[1]) - slope) / stats.t.ppf(0.975, 122) * stats.t.ppf(0.95, 122)
    assert len(asked.trend.models) == 124
    for year, rate in ((low, 10 ** (slope + half)), (high, 10 ** (slope - half))):
        exact = forecasts.meeting_year(1e30, asked.start, rate)
        assert year == pytest.approx(exact, abs=0.02)


def test_the_forecast_of_an_uncertain_scenario(quick, tmp_path, capsys):
    words = ["forecast", "--scenario", str(quick), "--samples", "2", "--today", "2026-07-19"]
    out = tmp_path / "dates.csv"
    assert cli.run([*words, "--json", "-o", str(out), "--figure", str(tmp_path / "f.html")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["draws"]["samples"] == 2
    for meeting in document["meetings"]:
        first, last = meeting["date_interval"]
        assert first <= meeting["date_median"] <= last
        assert meeting["training_flop_interval"][0] <= meeting["training_flop_median"]
    assert "date_low,date_high" in out.read_text(encoding="utf-8").splitlines()[1]
    assert cli.run(words) == 0
    said = capsys.readouterr().out
    assert "median date" in said
    assert "and the trend's growth" in said


def test_the_forecasts_figure_holds_what_it_draws(limited):
    drawn = figures_forecast.over_time(forecasts.forecast_from(limited, today="2026-07-19"))
    held = {row["training_flop"] for row in drawn.rows}
    bars = [trace for trace in drawn.figure.data if "through the medians" in (trace.name or "")]
    assert len(bars) == 4
    assert sum(trace.showlegend for trace in bars) == 1
    assert {value for trace in bars for value in trace.y} <= held


def test_a_draw_without_limits_is_named(quick):
    asked = from_toml(quick, uncertain={"duration": {"samples": ["1 ns", "3 months"]}})
    with pytest.raises(NoAnswer, match=r"One of the draws has no limits: duration 1 ns\. No strategy"):
        study_limits.limits(asked, draws=study.Draws(samples=2))


def test_python_takes_the_same_words(quick):
    import scalewall

    asked = from_toml(quick)
    (curve,) = scalewall.limits(
        asked.hardware, points=2, samples=2, seed=3, uncertain=dict(asked.uncertain)
    ).curves
    assert len(curve.spread.outcomes) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("limits --samples 3 --scenario {quick}", "'--samples' must be a power of two"),
        ("limits --samples 64", "'--samples' must be left out where the scenario has no table [uncertain]"),
        ("forecast --seed 1", "'--seed' must be left out where"),
        ("limits --scenario {quick} --preset epoch-2024", "'uncertain' must be left out under epoch-2024"),
        ("limits --scenario {inline}", "Distributions stand in the table [uncertain]"),
        ("forecast --scenario {bad}", "sigma' must be a positive number"),
    ],
)
def test_what_is_wrong_with_such_a_scenario_is_a_line(quick, tmp_path, capsys, line, said):
    inline, bad = tmp_path / "inline.toml", tmp_path / "bad.toml"
    inline.write_text('duration = { uniform = { low = "2 months", high = "4 months" } }', encoding="utf-8")
    bad.write_text(
        "[uncertain]\nkernel_latency = { lognormal = { median = '4 us', sigma = -1 } }", encoding="utf-8"
    )
    words = [word.format(quick=quick, inline=inline, bad=bad) for word in line.split()]
    if "--preset" in words:  # with hardware that the preset has
        quick = tmp_path / "h100.toml"
        quick.write_text("[uncertain]\nmemory = { samples = ['80 GB'] }", encoding="utf-8")
        words[words.index("--scenario") + 1] = str(quick)
    assert cli.run(words) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out
    assert err.count("\n") == 1


def test_wrong_input_is_a_line_and_exit_2(quick, capsys):
    bad = quick.parent / "bad.toml"
    bad.write_text("[uncertain]\nkernel_latncy = { samples = [1e-6] }\n", encoding="utf-8")
    assert cli.run(["uncertainty", "--scenario", str(bad)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
