"""The closed form of the latency wall: N = t·B/(80·L·latency), C = 120·N²."""

from __future__ import annotations

from typing import Any

import pytest

from scalewall.errors import InputError
from scalewall.study.closed_form import wall
from scalewall.units import YEAR


def test_the_formula_by_hand() -> None:
    # t B = 1000 · 1e6 = 1e9; 80 L latency = 80 · 10 · 1e-3 = 0.8
    answer = wall(latency=1e-3, layers=10, batch=1e6, duration=1000.0)
    assert answer.parameters == pytest.approx(1.25e9, rel=1e-12)
    assert answer.training_flop == pytest.approx(120 * 1.25e9**2, rel=1e-12)


def test_tokens_per_parameter_stretch_the_run() -> None:
    # 40 tokens a parameter: twice the steps, so half the parameters; 6 · 40 · N² FLOP
    answer = wall(latency=1e-3, layers=10, batch=1e6, duration=1000.0, tokens_per_parameter=40)
    assert answer.parameters == pytest.approx(0.625e9, rel=1e-12)
    assert answer.training_flop == pytest.approx(240 * 0.625e9**2, rel=1e-12)


def test_a_hundred_days_give_the_published_figure() -> None:
    # 8.64e6 s · 4e6 / (80 · 120 · 9e-6) = 4e14, and 120 · (4e14)² = 1.92e31. Published are "4.0e14
    # parameters" and "1.9e31 FLOP" for three months: that is a hundred days by the published formula.
    answer = wall(duration="100 days")
    assert answer.parameters == pytest.approx(4.0e14, rel=1e-12)
    assert answer.training_flop == pytest.approx(1.92e31, rel=1e-12)


def test_a_quarter_of_a_year_is_the_default() -> None:
    # 7.885e6 s · 4e6 / (80 · 120 · 9e-6) = 3.650e14, and 120 · (3.65e14)² = 1.599e31. The published
    # "4.0e14 and 1.9e31" for three months do not follow from their own formula with a quarter of a year.
    answer = wall()
    assert answer.duration == 0.25 * YEAR == 7.885e6
    assert answer.parameters == pytest.approx(3.6505e14, rel=1e-4)
    assert answer.training_flop == pytest.approx(1.5991e31, rel=1e-4)
    assert wall(duration="3 months") == answer


def test_text_with_units() -> None:
    assert wall(latency="9us", layers="120", batch="4e6", duration="3 months") == wall()
    assert wall(batch="4Mi").batch == 4 * 2**20


@pytest.mark.parametrize("name", ["latency", "layers", "batch", "duration", "tokens_per_parameter"])
@pytest.mark.parametrize(
    "value", [0, -1.0, "0", "-2", "much", "", float("nan"), float("inf"), None, [], True]
)
def test_each_bad_input_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError) as error:
        wall(**{name: value})
    assert error.value.field == name


@pytest.mark.parametrize(
    "words",
    [
        {"batch": 1e300},  # N² is too large for a float
        {"batch": 1e300, "duration": 1e300},  # and so is N
        {"latency": 1e-200, "layers": 1e-200},  # no time to wait at all
        {"latency": 1e300, "layers": 1e300, "duration": 1e-300},  # no parameters
    ],
    ids=["compute-overflows", "parameters-overflow", "no-latency", "no-parameters"],
)
def test_values_beyond_what_floats_hold_are_an_input_error(words: dict[str, float]) -> None:
    with pytest.raises(InputError):
        wall(**words)
