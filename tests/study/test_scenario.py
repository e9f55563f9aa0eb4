"""Scenarios: words in, one checked object out, and the same object again from what it says of itself."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewall.cost.assumptions import Assumptions
from scalewall.errors import InputError, InputErrors
from scalewall.strategy.space import Space
from scalewall.study.scenario import Scenario, from_toml, scenario
from scalewall.units import YEAR
from scalewall.workload.scaling import Scaling

PAPER = "epoch-2024"


def faults(**words: Any) -> dict[str, InputError]:
    """Return the faults of a scenario by field."""
    with pytest.raises(InputError) as error:
        scenario(**words)
    found = getattr(error.value, "errors", (error.value,))
    assert len(str(error.value).splitlines()) == len(found)  # one line each
    return {fault.field: fault for fault in found}


# Words


def test_the_default() -> None:
    made = scenario()
    assert made == Scenario()
    assert made.hardware == ("h100-sxm",)
    assert (made.duration, made.threshold, made.points, made.objective) == (7.885e6, 0.8, 31, "mfu")
    assert (made.from_flop, made.to_flop, made.preset) == (1e24, None, None)
    assert (made.scaling, made.how, made.space) == (Scaling(), Assumptions(), Space())
    assert [c.name for c in made.clusters] == ["h100-sxm"]


def test_each_word_goes_where_it_belongs() -> None:
    made = scenario(
        hardware=["v100", "h200"],
        duration="6 months",
        threshold="60%",
        objective="devices",
        from_flop="1e23",
        to_flop=1e27,
        points="7",
        batch_law="17.75*D^0.47",
        depth_law="constant",
        sparsity_law="d^0.5",
        tokens_per_parameter="40",
        ff_ratio=3,
        dp="4,8",
        tp_model=2,
        pp=[1, 2],
        microbatches="16",
        interleave=2,
        schedule="1f1b",
        layout={"tp_ff": [8]},
        fill="50%",
        word="1 B",
        overlap_data=True,
    )
    assert made.hardware == ("v100", "h200")
    assert [c.name for c in made.clusters] == ["v100", "h200"]
    assert (made.duration, made.threshold, made.points) == (YEAR / 2, 0.6, 7)
    assert (made.from_flop, made.to_flop, made.objective) == (1e23, 1e27, "devices")
    assert made.scaling.batch.text == "17.75*D^0.47"
    assert made.scaling.batch.exponents == {"D": 0.47}
    assert (made.scaling.depth.coefficient, made.scaling.depth.exponents) == (128.0, {})
    assert made.scaling.sparsity.exponents == {"d": 0.5}
    assert (made.scaling.tokens_per_parameter, made.scaling.ff_ratio) == (40.0, 3.0)
    space = Space(
        dp=(4, 8),
        tp_model=(2,),
        pp=(1, 2),
        microbatches=16,
        interleave=2,
        schedules=("1f1b",),
        inner={"tp_ff": (8,)},
    )
    assert made.space == space
    assert made.how == Assumptions(fill=0.5, word=1.0, overlap_data=True)


def test_what_is_none_keeps_its_default() -> None:
    assert scenario(duration=None, preset=None, dp=None, batch_law=None, sparse=None) == scenario()


def test_sparse_means_the_baseline_law_and_goes_with_no_other() -> None:
    assert scenario(sparse=True) == scenario(sparsity_law="baseline")
    assert set(faults(sparse=True, sparsity_law="4")) == {"sparse"}
    assert scenario(sparse=False) == scenario()
    assert set(faults(sparse="no")) == {"sparse"}


def test_words_and_tables_join() -> None:
    joined = scenario(scaling={"batch": "constant", "depth": "constant"}, batch_law="zhang-2024")
    assert (joined.scaling.batch.text, joined.scaling.depth.text) == ("zhang-2024", "constant")
    assert joined == scenario(batch_law="zhang-2024", scaling={"batch": "constant", "depth": "constant"})


def test_a_scenario_does_not_change_and_checks_evolve() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        scenario().points = 3  # type: ignore[misc]
    for change in ({"points": 1}, {"threshold": 0.0}, {"objective": "x"}, {"hardware": ()}, {"to_flop": 1e3}):
        with pytest.raises(InputError) as error:
            attrs.evolve(scenario(), **change)
        assert error.value.field in change


# Round trips


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"preset": PAPER},
        {"preset": PAPER, "to_flop": 1e26, "sparse": True, "batch_law": "zhang-2024"},
        {"sparse": True},
        {"batch_law": "17.75*D^0.47", "depth_law": "2*(d*f)^0.3", "sparsity_law": "d^0.5 / 8"},
        {"dp": "4,8", "tp_ff": 2, "microbatches": 7, "interleave": 3, "schedule": "1f1b"},
        {"layout": {"dp": [2], "pp": [4]}, "ep": 1},
        {"objective": "devices", "points": 5, "to_flop": "1e26", "duration": "1 year", "fill": 0.5},
        {"hardware": ["v100", "h200"], "overlap_data": True, "precision": "fp8", "ff_ratio": 3},
    ],
    ids=lambda words: "-".join(words) or "default",
)
def test_a_scenario_reads_back_what_it_says(words: dict[str, Any]) -> None:
    made = scenario(**words)
    text = json.dumps(made.as_dict(), allow_nan=False)
    assert scenario(**json.loads(text)) == made


# Faults


def test_all_faults_in_one_go_and_in_the_callers_words() -> None:
    found = faults(
        hardware=["h100-smx", "v100", "nope"],
        duration=0,
        threshold=2,
        points=1,
        batch_law="17*D^",
        depth_law="nothing",
        dp="x",
        fill=7,
        interleave=0.5,
    )
    named = {"hardware", "duration", "threshold", "points", "batch_law", "depth_law", "dp", "fill"}
    assert set(found) == named | {"interleave"}
    with pytest.raises(InputErrors) as error:
        scenario(hardware=["h100-smx", "nope"], duration=0)
    assert str(error.value).count("'hardware'") == 2


@pytest.mark.parametrize(
    ("words", "field", "got"),
    [
        ({"duration": "0"}, "duration", "0"),
        ({"duration": "-3 months"}, "duration", "-3 months"),
        ({"duration": "3 fortnights"}, "duration", "3 fortnights"),
        ({"duration": ""}, "duration", ""),
        ({"threshold": "120%"}, "threshold", "120%"),
        ({"threshold": 0}, "threshold", 0),
        ({"points": "1.5"}, "points", "1.5"),
        ({"points": True}, "points", True),
        ({"points": 10_001}, "points", 10_001),
        ({"batch_law": "17*D^"}, "batch_law", "17*D^"),
        ({"sparsity_law": "C"}, "sparsity_law", "C"),
        ({"tokens_per_parameter": -1}, "tokens_per_parameter", -1),
        ({"ff_ratio": "wide"}, "ff_ratio", "wide"),
        ({"objective": "cost"}, "objective", "cost"),
        ({"preset": "epoch-2023"}, "preset", "epoch-2023"),
        ({"dp": 0}, "dp", 0),
        ({"pp": "4,x"}, "pp", "4,x"),
        ({"microbatches": -1}, "microbatches", -1),
        ({"schedule": "gpipe"}, "schedule", "gpipe"),
        ({"layout": {"dp": "x"}}, "layout.dp", "x"),
        ({"precision": "bf61"}, "precision", "bf61"),
        ({"overlap_data": "yes"}, "overlap_data", "yes"),
        ({"from_flop": 1e30, "to_flop": 1e25}, "to_flop", 1e25),
        ({"from_flop": 0}, "from_flop", 0),
        ({"scaling": 3}, "scaling", 3),
        ({"how": "x"}, "how", "x"),
        ({"space": []}, "space", []),
        ({"hardware": []}, "hardware", ()),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_a_fault_names_the_callers_word_and_what_was_given(words: Any, field: str, got: object) -> None:
    found = faults(**words)
    assert set(found) == {field}
    assert found[field].got == got


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"points": float("nan")}, "points"),
        ({"points": float("inf")}, "points"),
        ({"schedule": 3}, "schedule"),
        ({"layout": [1]}, "layout"),
        ({"layout": "x"}, "layout"),
        ({"batch_law": []}, "batch_law"),
        ({"precision": "bf61"}, "precision"),
    ],
    ids=repr,
)
def test_no_fault_quotes_pythons_own_errors(words: Any, field: str) -> None:
    found = faults(**words)
    assert set(found) == {field}
    assert not any(word in str(found[field]) for word in ("object", "cannot convert", "unhashable", "attr"))


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ({"treshold": 0.8}, "threshold"),
        ({"hardwares": "v100"}, "hardware"),
        ({"how": {"fil": 0.7}}, "fill"),
        ({"scaling": {"tokens_per_paramter": 20}}, "tokens_per_parameter"),
        ({"fil": 0.7}, "fill"),
        ({"batch_lw": "constant"}, "batch_law"),
        ({"microbatch": 4}, "microbatches"),
        ({"sparce": True}, "sparse"),
    ],
    ids=repr,
)
def test_an_unknown_word_gets_the_nearest(unknown: dict[str, Any], meant: str) -> None:
    (fault,) = faults(**unknown).values()
    assert fault.hint.startswith("Nearest:")
    assert meant in fault.hint


def test_an_unknown_device_gets_the_nearest_of_its_preset() -> None:
    assert "h100-sxm" in faults(hardware="h100-smx")["hardware"].hint
    assert "h100-sxm-superpod" in faults(hardware="h100-sxm-superpot", preset=PAPER)["hardware"].hint
    assert "superpod" not in faults(hardware="h100-sxm-superpot")["hardware"].hint


@pytest.mark.parametrize(
    ("word", "value"), [("points", 5), ("objective", "devices"), ("dp", 8), ("space", {"dp": 8})]
)
def test_the_preset_fixes_what_is_its_own(word: str, value: Any) -> None:
    found = faults(preset=PAPER, **{word: value})
    assert set(found) == {word}
    assert PAPER in str(found[word])


# TOML


def test_a_file_with_tables_and_words(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'hardware = ["v100", "h200"]\nduration = "1 year"\nbatch_law = "constant"\nsparse = true\n'
        'points = 7\n[how]\nfill = 0.5\n[space]\ndp = [4, 8]\nschedules = ["1f1b"]\n'
    )
    made = from_toml(path)
    assert made == scenario(
        hardware=["v100", "h200"],
        duration=YEAR,
        batch_law="constant",
        sparse=True,
        points=7,
        fill=0.5,
        dp="4,8",
        schedule="1f1b",
    )
    other = from_toml(str(path), duration="1 month", batch_law="baseline", fill=None, pp=2)
    assert (other.duration, other.scaling.batch.text, other.how.fill) == (YEAR / 12, "baseline", 0.5)
    assert (other.space.dp, other.space.pp, other.points) == ((4, 8), (2,), 7)


def test_words_win_over_a_file_whose_tables_say_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[scaling]\nbatch = "constant"\n[how]\nfill = 0.5\n')
    made = from_toml(path, batch_law="zhang-2024", fill=0.6)
    assert (made.scaling.batch.text, made.how.fill) == ("zhang-2024", 0.6)


def test_a_file_says_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('batch_law = "constant"\n[scaling]\nbatch = "baseline"\n')
    with pytest.raises(InputError, match=r"'batch_law' must be left out where the file has scaling\.batch"):
        from_toml(path)


def test_sparse_wins_over_a_file_of_dense_models(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('sparsity_law = "dense"\n')
    assert from_toml(path, sparse=True).scaling.sparsity.text == "baseline"


def test_faults_of_a_file_and_of_words_come_together(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("duration = -1\n[how]\nfil = 3\n[space]\ndp = 'x'\n")
    with pytest.raises(InputErrors) as error:
        from_toml(path, threshold=3)
    assert {e.field for e in error.value.errors} == {"duration", "how.fil", "space.dp", "threshold"}


# Anything at all

WORDS = [
    *(a.name for cls in (Scenario, Assumptions, Space, Scaling) for a in attrs.fields(cls)),
    *("batch_law", "depth_law", "sparsity_law", "sparse", "schedule", "layout", "nope"),
]
KEYS = st.sampled_from([*WORDS, "tp", "x", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["h100-sxm", PAPER, "1e28", "3 months", "constant", "D^0.5", "4,8", "1f1b", "a.toml"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=4))
def test_any_words_make_a_scenario_or_an_input_error(words: dict[str, Any]) -> None:
    made = None
    with contextlib.suppress(InputError):
        made = scenario(**words)
    if made is not None:
        assert scenario(**json.loads(json.dumps(made.as_dict(), allow_nan=False))) == made
