"""Tables to objects: every fault is found in one go, each with its path."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.errors import InputError, InputErrors
from scalewall.schema import read_toml, structure, whole
from scalewall.units import quantity


def even(value: object) -> int:
    """Return an even number; a reader of a field's own."""
    if not isinstance(value, int) or value % 2:
        raise InputError("pairs", "an even number", value)
    return value


@attrs.frozen(kw_only=True)
class Part:
    name: str
    mass: float = quantity("B", "what it weighs")
    count: int = 1


@attrs.frozen(kw_only=True)
class Whole:
    title: str
    fast: bool = False
    note: str | None = None
    speed: float = quantity("B/s", "how fast", default=1e9)
    share: float | None = quantity("1", "how much", default=None, optional=True, most=1.0)
    pairs: int = attrs.field(default=2, metadata={"read": even})
    first: Part
    parts: tuple[Part, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.title == "bad":
            raise InputError("title", "a good one", self.title)
        if self.title == "rebel":
            raise InputError("first.count", "more than the title", self.first.count)


GOOD: dict[str, Any] = {"title": "t", "first": {"name": "a", "mass": "1 kB"}}


def faults(tables: Any, cls: type[Any] = Whole) -> dict[str, InputError]:
    """Return the faults that are found in `tables`, by field."""
    with pytest.raises(InputError) as error:
        structure(tables, cls)
    found = getattr(error.value, "errors", (error.value,))
    assert len({fault.field for fault in found}) == len(found)
    assert len(str(error.value).splitlines()) == len(found)
    return {fault.field: fault for fault in found}


# What is right


def test_good_tables() -> None:
    made = structure(
        {
            **GOOD,
            "fast": True,
            "speed": "2 GB/s",
            "share": "50%",
            "pairs": 4,
            "parts": [{"name": "b", "mass": 3.0}, {"name": "c", "mass": "1 KiB", "count": "7"}],
        },
        Whole,
    )
    assert made == Whole(
        title="t",
        fast=True,
        speed=2e9,
        share=0.5,
        pairs=4,
        first=Part(name="a", mass=1000.0),
        parts=(Part(name="b", mass=3.0), Part(name="c", mass=1024.0, count=7)),
    )
    assert isinstance(made.parts, tuple)


def test_what_is_left_out_has_its_default() -> None:
    made = structure(GOOD, Whole)
    assert (made.fast, made.note, made.speed, made.share, made.pairs, made.parts) == (
        *(False, None, 1e9, None, 2),
        (),
    )


def test_an_optional_field_may_be_none_and_is_checked_if_not() -> None:
    assert structure({**GOOD, "note": None, "share": None}, Whole).share is None
    assert structure({**GOOD, "note": "n", "share": 1}, Whole).note == "n"
    assert set(faults({**GOOD, "note": 3, "share": 2})) == {"note", "share"}


# Faults


def test_all_faults_are_found_in_one_go() -> None:
    found = faults(
        {
            "title": 7,
            "fast": "yes",
            "speed": "-2 GB/s",
            "share": "150%",
            "pairs": 3,
            "frist": {},
            "first": {"name": "a", "mass": "1 s", "count": 0, "colour": "red"},
            "parts": [{"name": "b", "mass": 1}, {"mass": 0}, {"name": "d", "mass": 1, "cuont": 2}],
        }
    )
    assert set(found) == {
        *("title", "fast", "speed", "share", "pairs", "frist"),
        *("first.mass", "first.count", "first.colour"),
        *("parts[1].name", "parts[1].mass", "parts[2].cuont"),
    }
    assert found["speed"].got == "-2 GB/s"
    assert found["share"].got == "150%"
    assert found["first.mass"].got == "1 s"
    assert found["parts[1].name"].must == "given"
    assert found["parts[1].mass"].got == 0


def test_one_fault_is_no_list_of_faults() -> None:
    with pytest.raises(InputError) as error:
        structure({**GOOD, "speed": 0}, Whole)
    assert type(error.value) is InputError
    with pytest.raises(InputErrors):
        structure({**GOOD, "speed": 0, "pairs": 1}, Whole)


def test_an_unknown_key_gets_the_nearest() -> None:
    assert faults({**GOOD, "tilte": 1})["tilte"].hint == "Nearest: title."
    assert faults({**GOOD, "first": {**GOOD["first"], "cuont": 1}})["first.cuont"].hint == "Nearest: count."
    assert faults({**GOOD, "xyzzy": 1})["xyzzy"].hint.startswith("Known: ")


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ({}, {"title", "first"}),
        ({"title": "t"}, {"first"}),
        ({"title": "t", "first": {}}, {"first.name", "first.mass"}),
        ({**GOOD, "parts": [{}]}, {"parts[0].name", "parts[0].mass"}),
    ],
)
def test_what_is_missing_is_named_by_its_path(tables: Any, field: set[str]) -> None:
    found = faults(tables)
    assert set(found) == field
    assert all(fault.must == "given" for fault in found.values())


def test_an_owners_own_check_is_named_by_its_path() -> None:
    assert set(faults({**GOOD, "title": "bad"})) == {"title"}
    assert set(faults({**GOOD, "title": "rebel"})) == {"first.count"}


@pytest.mark.parametrize("value", [7, "text", [], [1], None])
def test_a_table_that_is_none(value: Any) -> None:
    found = faults({**GOOD, "first": value})
    assert set(found) == {"first"}
    assert found["first"].must == "a table"
    assert found["first"].got == value


@pytest.mark.parametrize("value", [7, "text", {"name": "a", "mass": 1}, None])
def test_a_list_that_is_none(value: Any) -> None:
    found = faults({**GOOD, "parts": value})
    assert all(field.startswith("parts") for field in found)
    assert not any("object" in str(fault) for fault in found.values())


def test_an_item_that_is_no_table() -> None:
    found = faults({**GOOD, "parts": [7, {"name": "b", "mass": 1}, "x"]})
    assert set(found) == {"parts[0]", "parts[2]"}
    assert found["parts[0]"].got == 7


@pytest.mark.parametrize("tables", [7, "text", [], None])
def test_no_tables_at_all(tables: Any) -> None:
    with pytest.raises(InputError, match="a table"):
        structure(tables, Whole)


# Whole numbers


@pytest.mark.parametrize(("value", "number"), [(3, 3), (3.0, 3), ("3", 3), (" 12 ", 12), (1e15, 10**15)])
def test_whole_numbers(value: object, number: int) -> None:
    made = whole(value, "n")
    assert made == number
    assert type(made) is int


@pytest.mark.parametrize(
    "value", [0, -1, 2.5, "2.5", "x", "", None, True, [], math.nan, math.inf, "1e3", "²", 1j], ids=repr
)
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(InputError) as error:
        whole(value, "n")
    assert error.value.field == "n"
    assert error.value.must == "a whole number of at least 1"


def test_bounds_of_whole_numbers() -> None:
    assert whole(0, "n", least=0) == 0
    assert whole(7, "n", 2, 7) == 7
    with pytest.raises(InputError, match="from 2 to 7"):
        whole(8, "n", 2, 7)


# Files


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('a = 1\n[b]\nc = "µ"\n', encoding="utf-8")
    assert read_toml(tmp_path / "a.toml") == {"a": 1, "b": {"c": "µ"}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"a = [", "TOML"),
        (b"a = 1\na = 2", "TOML"),
        (b"\xff\xfe\x00", "utf-8"),
        (bytes(range(256)), ""),
    ],
    ids=["missing", "broken", "twice", "not-utf-8", "binary"],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "a.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_toml(path)
    assert error.value.field == "file"
    assert str(path)[:40] in str(error.value)
    assert why in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory"):
        read_toml(tmp_path)
