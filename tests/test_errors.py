"""Errors: one sentence each, exit statuses, hints."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall import errors
from scalewall.errors import InputError, InputErrors, NoAnswer, ScalewallError, nearest, shown


def test_the_tree():
    assert issubclass(InputErrors, InputError)
    assert issubclass(InputError, ScalewallError)
    assert issubclass(InputError, ValueError)
    assert issubclass(NoAnswer, ScalewallError)
    assert not issubclass(NoAnswer, InputError)


def test_exit_statuses():
    wrong = InputError("a", "b", 1)
    assert (NoAnswer("no").exit_status, wrong.exit_status, InputErrors([wrong]).exit_status) == (1, 2, 2)


def test_one_sentence():
    error = InputError("bandwidth", "a positive number of B/s", -3, "Nearest: latency.")
    text = "The 'bandwidth' must be a positive number of B/s. Got -3 instead. Nearest: latency."
    assert str(error) == text
    assert str(InputError("x", "a number", None)) == "The 'x' must be a number. Got None instead."


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_one_line_whatever_was_given(got):
    error = InputError("x", "a number", got)
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 150


def test_long_values_are_cut():
    assert shown("x" * 1000) == "'" + "x" * 78 + "…"
    assert shown(["a", "\n  b"]) == r"['a', '\n b']"


def test_a_path_is_put_before_the_field():
    error = InputError("bandwidth", "positive", 0, "Hint.").within("tiers[0]").within("cluster")
    assert error.field == "cluster.tiers[0].bandwidth"
    assert error.hint == "Hint."
    assert InputError("[2]", "positive", 0).within("caches").field == "caches[2]"


def test_several_errors_are_one_a_line():
    several = InputErrors([InputError("a", "x", 1), InputError("b", "y", 2)])
    assert str(several).splitlines() == [
        "The 'a' must be x. Got 1 instead.",
        "The 'b' must be y. Got 2 instead.",
    ]
    assert several.field == "a"
    assert [error.field for error in several.errors] == ["a", "b"]


def test_nearest_names():
    names = ["h100-sxm", "h100-pcie", "h200", "a100-80gb-sxm", "v100"]
    assert nearest("h100-sxn", names).startswith("Nearest: h100-sxm")
    assert nearest("H100", names).startswith("Nearest: h100")
    assert "h100-sxm" in nearest("zzz", names)
    assert nearest("zzz", names).startswith("Known: ")
    assert nearest("zzz", [f"name {i:02}" for i in range(20)]).endswith(", ….")


@pytest.mark.parametrize(
    "error",
    [
        NoAnswer("nothing fits"),
        InputError("memory", "a positive number of B", -1, "Hint."),
        InputErrors([InputError("a", "x", 1), InputError("b", "y", [2])]),
    ],
)
def test_errors_survive_the_way_from_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again).keys() == vars(error).keys()


def test_every_exception_is_in_the_docstring():
    names = [
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, Exception)
    ]
    assert [name for name in names if name not in (errors.__doc__ or "")] == []
