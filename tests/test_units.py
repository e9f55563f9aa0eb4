"""Text with units: what is read, what is shown, and that both agree."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.errors import InputError
from scalewall.units import YEAR, parse, quantity, show

UNITS = ["s", "B", "B/s", "FLOP", "FLOP/s", "Hz", "W", "USD", "tokens", "parameters", "1"]


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3 months", "s", 0.25 * 3.154e7),
        ("0.25 years", "s", 0.25 * 3.154e7),
        ("1 year", "s", YEAR),
        ("2 weeks", "s", 14 * 86400.0),
        ("90 min", "s", 5400.0),
        ("9us", "s", 9e-6),
        ("4.5 µs", "s", 4.5e-6),
        ("4.5 μs", "s", 4.5e-6),  # the Greek letter, not the micro sign
        ("7", "s", 7.0),
        ("80 GB", "B", 80e9),
        ("50 MiB", "B", 50 * 2**20),
        ("256KiB", "B", 256 * 2**10),
        ("900 GB/s", "B/s", 900e9),
        ("900 GB / s", "B/s", 900e9),
        ("900 GBps", "B/s", 900e9),
        ("989.4 TFLOP/s", "FLOP/s", 989.4e12),
        ("1.98 PFLOPS", "FLOP/s", 1.98e15),
        ("1e28", "FLOP", 1e28),
        ("2.5e28 FLOP", "FLOP", 2.5e28),
        ("1830 MHz", "Hz", 1.83e9),
        ("0.7 kW", "W", 700.0),
        ("30000 USD", "USD", 3e4),
        ("30 k$", "USD", 3e4),
        ("4Mi", "tokens", 2**22),
        ("4e6", "tokens", 4e6),
        ("1.5 Ttokens", "tokens", 1.5e12),
        ("70 %", "1", 0.7),
        ("4x", "1", 4.0),
        ("1_000_000", "1", 1e6),
        (".5", "1", 0.5),
        ("-3", "1", -3.0),
        (0.7, "1", 0.7),
        (80, "B", 80.0),
        (math.inf, "B/s", math.inf),
    ],
)
def test_what_is_read(text, unit, value):
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


def test_three_months_are_a_quarter_of_the_papers_year():
    assert parse("3 months", "s") == 0.25 * 3.154e7


def test_bits_are_an_eighth_of_bytes():
    assert [parse(text, "B/s") for text in ("400 Gb/s", "400 Gbps", "400 Gbit/s")] == [50e9] * 3
    assert [parse(text, "B/s") for text in ("400 GB/s", "400 GBps")] == [400e9] * 2


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("900 GB", "B/s"),  # an amount is no rate
        ("900 GB/s", "B"),
        ("5 parsecs", "s"),
        ("5 m", "s"),  # minutes or months?
        ("80 gb", "B"),
        ("3 KIB", "B"),
        ("10 GHz", "1"),
        ("1e28 FLOP/s", "FLOP"),
        ("three months", "s"),
        ("1,5 GB", "B"),
        ("", "s"),
        ("s", "s"),
        ("nan", "1"),
        ("1.5.2", "1"),
        (math.nan, "B"),
        (True, "1"),
        (None, "s"),
        ([80], "B"),
        (10**400, "FLOP"),
    ],
)
def test_what_is_refused(text, unit):
    with pytest.raises(InputError, match=r"^The 'memory' must be .+\. Got .+ instead\.") as caught:
        parse(text, unit, "memory")
    assert "\n" not in str(caught.value)
    assert caught.value.field == "memory"
    assert caught.value.got is text


def test_a_wrong_unit_is_named():
    with pytest.raises(InputError, match=r"The unit 'parsecs' is not one of s\."):
        parse("5 parsecs", "s")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25 * 3.154e7, "s", "3 months"),
        (3 * YEAR, "s", "3 years"),
        (0.0, "s", "0 s"),
        (4.5e-6, "s", "4.5 µs"),
        (1.125e-6, "s", "1.125 µs"),
        (86400.0, "s", "1 days"),
        (2e-10, "s", "0.2 ns"),
        (80e9, "B", "80 GB"),
        (3.352e12, "B/s", "3.352 TB/s"),
        (989.42976e12, "FLOP/s", "989.4 TFLOP/s"),
        (1.83e9, "Hz", "1.83 GHz"),
        (700.0, "W", "700 W"),
        (2.05e28, "FLOP", "2.05e+28 FLOP"),
        (0.69897, "1", "0.699"),
        (None, "USD", "unknown"),
    ],
)
def test_what_is_shown(value, unit, text):
    assert show(value, unit) == text


@given(st.sampled_from(UNITS), st.floats(1e-300, 1e300))
def test_what_is_shown_can_be_read(unit, value):
    assert parse(show(value, unit, digits=17), unit) == pytest.approx(value, rel=1e-15)


@given(st.sampled_from(UNITS), st.floats(1e-30, 1e40), st.integers(2, 9))
def test_digits_are_as_many_as_asked_for(unit, value, digits):
    assert parse(show(value, unit, digits), unit) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


@given(st.sampled_from(UNITS), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_taken_as_they_are(unit, value):
    assert parse(value, unit) == value
    assert parse(repr(value), unit) == value


@given(st.text(max_size=12) | st.text("019eE.+-_ kMGTiBbFLOPs/%µ", max_size=12), st.sampled_from(UNITS))
def test_any_text_is_read_or_refused_in_one_line(text, unit):
    read = read_or_refused(text, unit)
    assert not math.isnan(read) if isinstance(read, float) else len(read.splitlines()) == 1


def read_or_refused(text, unit):
    try:
        return parse(text, unit)
    except InputError as error:
        return str(error)


@attrs.frozen(kw_only=True)
class Thing:
    size: float = quantity("B", "size", default=1.0)
    share: float = quantity("1", "share", default=0.5, most=1.0)
    wait: float = quantity("s", "wait", default=0.0, open_below=False)
    price: float | None = quantity("USD", "price", default=None, optional=True)
    blocks: float = quantity("1", "blocks", default=1.0, least=1.0, open_below=False)


@pytest.mark.parametrize(
    ("field", "value", "must"),
    [
        ("size", 0.0, "a positive number of B"),
        ("size", -1.0, "a positive number of B"),
        ("size", math.nan, "a positive number of B"),
        ("size", True, "a positive number of B"),
        ("size", "80 GB", "a positive number of B"),
        ("size", None, "a positive number of B"),
        ("share", 1.1, "a positive number, at most 1"),
        ("wait", -1e-9, "a number of s, at least 0"),
        ("price", -5.0, "a positive number of USD"),
        ("blocks", 0.5, "a number of at least 1"),
    ],
)
def test_bounds_hold_on_construction_and_on_change(field, value, must):
    for attempt in (lambda: Thing(**{field: value}), lambda: attrs.evolve(Thing(), **{field: value})):
        with pytest.raises(InputError) as caught:
            attempt()
        assert str(caught.value) == f"The '{field}' must be {must}. Got {value!r} instead."


def test_bounds_themselves():
    thing = Thing(size=math.inf, share=1.0, wait=0.0, price=None, blocks=1.0)
    assert thing.size == math.inf


def test_fields_know_their_unit():
    assert {field.name: field.metadata["unit"] for field in attrs.fields(Thing)} == {
        "size": "B",
        "share": "1",
        "wait": "s",
        "price": "USD",
        "blocks": "1",
    }
