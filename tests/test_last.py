"""The last answer: remembered for `cite` whole, by any command that answers, and never in an answer's way."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from scalewall.cli import last, run
from scalewall.study.citations import Answered, answered_in, citations
from scalewall.study.scenario import scenario
from scalewall.study.validation import validate_file
from tests.study.answers import write_quick

Capture = pytest.CaptureFixture[str]

PLAN = "plan llama-3-8b --hardware h100-sxm --gpus 16 --batch 64 --seq 8192 --top 1"
RUNS = (
    "id,device,n_gpus,tp,pp,seq_len,global_batch_size,n_layers,d_model,n_heads,step_time_s,precision\n"
    "mine-1,h100-sxm,8,1,1,4096,64,32,4096,32,3.5,bf16\n"
)


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_quick(tmp_path)
    (tmp_path / "runs.csv").write_text(RUNS, encoding="utf-8")
    return "quick.toml"


def cited(capsys: Capture, *words: str) -> dict[str, list[str]]:
    """Return by key what rests on each source that `cite` names."""
    capsys.readouterr()
    assert run(["cite", *words, "--json"]) == 0
    return {one["key"]: one["used_for"] for one in json.loads(capsys.readouterr().out)["citations"]}


@pytest.mark.parametrize(
    ("words", "keys", "missing"),
    [
        ("limits --hardware quick.toml --points 2", {"erdil2024limits", "quick-1"}, {"joe2008sobol"}),
        ("best 1e25 --hardware quick.toml --batch-law zhang-2024", {"zhang2024batch"}, {"epochmodels"}),
        ("wall", {"epoch2024bottlenecks"}, {"williams2009roofline"}),
        ("forecast --hardware quick.toml", {"epochmodels", "quick-1"}, {"vaswani2017attention"}),
        ("claims --only wall-params", {"brown2020gpt3", "grattafiori2024llama3"}, {"land1960branch"}),
        (
            "sensitivity --hardware quick.toml --at wall --only duration",
            {"land1960branch", "quick-1"},
            {"epochmodels"},
        ),
        ("uncertainty --hardware quick.toml --samples 2", {"joe2008sobol"}, {"saltelli2010variance"}),
        (
            PLAN,
            {"shoeybi2019megatron", "rajbhandari2019zero", "grattafiori2024llama3", "nvidia2022hopper"},
            {"qi2023zerobubble", "bang2023vtrain", "land1960branch"},
        ),
        (f"{PLAN} --schedule zero-bubble --pp 2", {"qi2023zerobubble"}, {"bang2023vtrain"}),
        ("validate --runs runs.csv", {"shah2024flash3", "nvidia2022hopper"}, {"bang2023vtrain"}),
        ("models gpt3-175b", {"brown2020gpt3", "gpt3-175b"}, {"shoeybi2019megatron"}),
    ],
)
def test_each_answer_is_what_cite_cites(
    quick: str, capsys: Capture, words: str, keys: set[str], missing: set[str]
) -> None:
    assert run(words.split()) == 0
    found = cited(capsys)
    assert keys <= set(found)
    assert not missing & set(found)
    assert run(["cite"]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert head.startswith(f"Sources of the last answer: scalewall {words}, of 20")
    assert run(["cite", "--bibtex"]) == 0
    assert capsys.readouterr().out.startswith(f"% the last answer: scalewall {words}, of 20")


def test_sources_are_those_of_the_time(quick: str, capsys: Capture) -> None:
    assert run(["limits", "--hardware", quick, "--points", "2"]) == 0
    Path(quick).unlink()
    assert "quick-1" in cited(capsys)


def test_what_fails_and_what_only_informs_is_not_remembered(quick: str, capsys: Capture) -> None:
    assert run(["wall"]) == 0
    assert run(["limits", "--hardware", "nope"]) == 2
    assert run(["hardware", "h100-sxm"]) == 0
    assert run(["cite", "--hardware", "v100"]) == 0
    assert set(cited(capsys)) == {"erdil2024limits", "epoch2024bottlenecks"}


def test_without_a_last_answer_the_default_is_cited_and_that_is_said(capsys: Capture) -> None:
    assert run(["cite"]) == 0
    out, err = capsys.readouterr()
    assert "the batch law baseline" in out
    assert err == "No answer is remembered: these are the sources of 'scalewall limits' with its defaults.\n"


@pytest.mark.parametrize("name", ["a.json", "a.parquet", "a.csv"])
def test_a_file_is_cited_by_what_it_holds(quick: str, capsys: Capture, name: str) -> None:
    words = ["limits", "--hardware", quick, "--points", "2", "--batch-law", "deepseek-2024", "--json"]
    assert run([*words, *([] if name == "a.json" else ["-o", name])]) == 0
    if name == "a.json":
        Path(name).write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["wall"]) == 0
    found = cited(capsys, name)
    assert found == {
        c.key: list(c.used_for) for c in citations(scenario(hardware=quick, batch_law="deepseek-2024"))
    }


@pytest.mark.parametrize(
    "words",
    [
        *("wall", "claims --only wall-params", "best 1e25 --hardware quick.toml"),
        *(PLAN, "validate --runs runs.csv", "models llama-3-8b"),
    ],
)
def test_documents_say_what_they_answer(quick: str, capsys: Capture, words: str) -> None:
    assert run([*words.split(), "--json"]) == 0
    Path("a.json").write_text(capsys.readouterr().out, encoding="utf-8")
    assert cited(capsys, "a.json") == cited(capsys)


def test_a_plan_in_a_file_is_cited_by_what_it_holds(quick: str, capsys: Capture) -> None:
    assert run([*PLAN.split(), "-o", "a.csv"]) == 0
    found = cited(capsys)
    assert run(["validate", "--runs", "runs.csv", "-o", "b.parquet"]) == 0
    assert cited(capsys, "a.csv") == found
    assert cited(capsys, "b.parquet") == cited(capsys)


def test_the_runs_that_ship_are_cited_by_where_they_are_from() -> None:
    """Every group of them but those that are skipped whole."""
    said = " ".join(c.used_for[-1] for c in citations(None, "validate"))
    for group in {row.source for row in validate_file().rows}:
        assert f"measured runs ({group})" in said


def test_a_models_own_file_is_cited(quick: str, capsys: Capture) -> None:
    Path("own.toml").write_text('base = "gpt2"\nsource = "a report, of {ours}"\n', encoding="utf-8")
    assert run(["models", "own.toml"]) == 0
    assert list(cited(capsys).values()) == [["the model own: its dimensions"]]
    assert run(["cite", "--bibtex"]) == 0
    assert "title = {a report, of (ours)}," in capsys.readouterr().out


def test_a_document_of_before_is_read_too() -> None:
    asked = scenario(batch_law="zhang-2024")
    assert answered_in({"scenario": asked.as_dict(), "curves": []}) == Answered(
        command="limits", scenarios=(asked,)
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "[1]"),
        ("a.json", '{"a": 1}'),
        ("a.json", '{"answer": {"command": "wall", "kinds": ["x"]}}'),
        ("a.json", '{"answer": 3}'),
        ("a.json", '{"answer": {"command": "plan", "kinds": ["plan"], "hardware": [3]}}'),
        ("a.json", '{"answer": {"command": "plan", "kinds": ["plan"], "hardware": {"a": 1}}}'),
        ("a.json", '{"answer": {"command": "plan", "kinds": ["plan"], "model": null}}'),
        ("a.json", '{"answer": {"command": "plan", "kinds": ["plan"], "hardware": ["nope"]}}'),
        ("a.json", '{"answer": {"command": "models", "kinds": [], "model": "nope"}}'),
        ("a.csv", "a,b\n1,2\n"),
        ("a.parquet", "PAR1"),
        ("missing.json", None),
        ("a.toml", "a = 1"),
        ("a.json", '{"scenario": {"hardware": ["nope"]}}'),
    ],
)
def test_a_file_that_is_no_answer_gets_one_line(
    quick: str, capsys: Capture, name: str, text: str | None
) -> None:
    if text is not None:
        Path(name).write_text(text, encoding="utf-8")
    assert run(["cite", name]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1


def test_a_file_and_a_scenario_are_not_asked_together(quick: str, capsys: Capture) -> None:
    assert run(["cite", "a.json", "--hardware", quick]) == 2
    assert "'file' must be left out" in capsys.readouterr().err


def test_no_record_breaks_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for bad in (str(file), str(file / "below"), "", "a\0b"):
        if "\0" in bad:
            monkeypatch.setattr(last, "folder", lambda bad=bad: Path(bad))
        else:
            monkeypatch.setenv("SCALEWALL_STATE", bad)
        assert run(["wall"]) == 0
        out, err = capsys.readouterr()
        assert out
        assert not err
    assert file.read_text() == ""


def test_a_damaged_record_gets_one_line_and_is_replaced(state: Path, capsys: Capture) -> None:
    for text in ("", "[]", "{}", '{"words": 3}'):
        (state / "last-answer.json").write_text(text)
        assert run(["cite"]) == 1
        assert "is damaged" in capsys.readouterr().err
    assert run(["wall"]) == 0
    assert len(cited(capsys)) == 2


def test_runs_at_a_time_leave_one_whole_record(state: Path) -> None:
    """While eight write, a reader always finds one of their records, and no other file stays."""
    answered = Answered(command="wall", kinds=("wall",))
    last.remember(answered, ["wall"])
    writers = [
        threading.Thread(
            target=lambda i=i: [last.remember(answered, ["wall", str(i)] * 99) for _ in range(20)]
        )
        for i in range(8)
    ]
    for writer in writers:
        writer.start()
    read = 0
    while any(writer.is_alive() for writer in writers):
        assert last.recall() is not None
        read += 1
    assert read
    assert [path.name for path in state.iterdir()] == ["last-answer.json"]


def test_the_users_own_folder_is_meant_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALEWALL_STATE")
    where = last.folder()
    assert where is not None
    assert where.name == "scalewall"
    assert where.is_absolute()
