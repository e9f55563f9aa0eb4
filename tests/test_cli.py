"""The command line: one document or one table out, one line a fault, and never a traceback."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from scalewall.cli import app, run
from scalewall.errors import NoAnswer
from scalewall.strategy import paper
from scalewall.study import limits as study
from scalewall.study.scenario import Scenario, scenario
from tests.study.answers import PAPER, QUICK, remembering, write_quick

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

BAD_DEVICE = """\
[device]
sustained = 7
memory = "much"
memory_bandwidth = "2 TB/s"
[device.peak]
bf16 = "500 TFLOP/s"
[[tiers]]
name = "one"
bandwidth = "-100 GB/s"
latency = "-2us"
"""


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: Patch) -> None:
    """Run in a folder with a quick device and some broken files, and find each paper point once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paper, "smallest_cluster", remembering)
    write_quick(tmp_path)
    Path("four.toml").write_text(BAD_DEVICE)
    Path("negative.toml").write_text(QUICK.replace('"100 GB/s"', '"-100 GB/s"'))
    Path("broken.toml").write_text("[device\n")
    Path("binary.toml").write_bytes(bytes(range(256)))
    Path("folder.toml").mkdir()


@pytest.fixture
def asked(monkeypatch: Patch) -> list[Scenario]:
    """Gather the scenarios that `limits` is asked, none of which is worked out."""
    found: list[Scenario] = []

    def answer(scenario: Scenario, progress: Any = None, draws: Any = None) -> None:
        found.append(scenario)
        raise NoAnswer("Not now.")

    monkeypatch.setattr(study, "limits", answer)
    return found


def in_a_process(*arguments: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m scalewall`` for real."""
    command = [sys.executable, "-m", "scalewall", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, **options)


# One document


PROMISED: dict[str, set[str]] = {
    "limits --hardware quick.toml --points 2": {"scenario", "curves"},
    f"limits --preset {PAPER} --to 1e26": {"scenario", "curves"},
    "limits --hardware quick.toml --points 2 --to 1e25 --explain": {"scenario", "curves"},
    "best 1e25 --hardware quick.toml --top 3 --explain": {"scenario", "best"},
    "best 1e25 --hardware quick.toml --devices 2048": {"scenario", "best"},
    "wall": {"parameters", "training_flop"},
    "hardware": {"hardware"},
    f"hardware --preset {PAPER}": {"hardware"},
    "hardware h100-sxm": {"name", "device", "tiers", "sources"},
    f"hardware v100 --preset {PAPER}": {"name", "device", "tiers", "sources"},
    "hardware quick.toml": {"name", "device", "tiers", "sources"},
    "assumptions": {"assumptions", "practice", "allowance", "software"},
    "models": {"models"},
    "models gpt3-175b": {"name", "parameters", "training_flop_per_token"},
    "claims --only wall wall-params": {"claims"},
    "cite --hardware quick.toml": {"scenario"},
    "forecast --hardware quick.toml": {"scenario"},
    "sensitivity --hardware quick.toml --at wall --only duration": {"scenario"},
}
LONGER = {
    "serve",
    "figures",
    "uncertainty",
    "plan",
    "validate",
    "sweep",
    "sweep-figure",
}  # tried where they are tested


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@pytest.mark.parametrize("words", PROMISED)
def test_json_prints_one_document_and_nothing_else(words: str, capsys: Capture) -> None:
    assert run([*words.split(), "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out, parse_constant=refuse)  # one document, or this raises
    assert PROMISED[words] <= set(document)
    assert err == ""


@pytest.mark.parametrize("words", PROMISED)
def test_without_json_there_is_a_table(words: str, capsys: Capture) -> None:
    assert run(words.split()) == 0
    out, err = capsys.readouterr()
    assert out.strip()
    assert not out.lstrip().startswith("{")
    assert "…" not in out
    assert err == ""


def test_every_command_is_tried_here() -> None:
    commands = {name for name in app if not name.startswith("-")}
    assert commands == {words.split()[0] for words in PROMISED} | LONGER


def test_a_document_holds_the_papers_limits(capsys: Capture) -> None:
    assert run(["limits", "--preset", PAPER, "--json"]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    assert curve["knee_flop"] == pytest.approx(2.0484e28, rel=1e-4)
    assert curve["wall_flop"] == pytest.approx(2.7074e31, rel=1e-4)
    assert len(curve["points"]) == 31


def test_a_real_process_prints_the_same() -> None:
    done = in_a_process("limits", "--hardware", "quick.toml", "--points", "2", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(json.loads(done.stdout)["curves"][0]["points"]) == 2
    done = in_a_process("wall", "--duration", "100 days")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"4e+14 parameters" in done.stdout


def test_version_and_help(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == version("scalewall")
    assert run(["limits", "--help"]) == 0
    assert "--batch-law" in capsys.readouterr().out


# Words


def test_options_reach_the_scenario(asked: list[Scenario]) -> None:
    words = {
        **{"duration": "1 year", "batch-law": "constant", "depth-law": "constant", "threshold": "0.7"},
        **{"sparsity-law": "4", "tokens-per-parameter": "40", "from": "1e23", "to": "1e26", "points": "7"},
        **{"objective": "devices", "dp": "4,8", "tp-model": "2", "tp-ff": "4", "pp": "8", "ep": "2"},
        **{"microbatches": "16", "interleave": "2", "schedule": "1f1b"},
    }
    line = [part for name, value in words.items() for part in (f"--{name}", value)]
    assert run(["limits", *line, "--set", "fill=0.5", "--set", "overlap_data=true"]) == 1
    renamed = {"from": "from_flop", "to": "to_flop"}
    names = {renamed.get(name, name.replace("-", "_")): value for name, value in words.items()}
    assert asked == [scenario(**names, fill=0.5, overlap_data=True)]


@pytest.mark.parametrize(
    "line",
    [
        "--hardware v100 h200 b200",
        "--hardware v100 --hardware h200 --hardware b200",
        "--hardware v100 h200 --points 5 --hardware b200",
    ],
)
def test_several_devices(asked: list[Scenario], line: str) -> None:
    assert run(["limits", *line.split()]) == 1
    assert asked[0].hardware == ("v100", "h200", "b200")


def test_options_win_over_a_scenario_file(asked: list[Scenario]) -> None:
    Path("s.toml").write_text('hardware = "v100"\nduration = "1 year"\npoints = 5\nsparsity_law = "dense"\n')
    assert run(["limits", "--scenario", "s.toml", "--points", "7", "--sparse"]) == 1
    assert asked == [scenario(hardware="v100", duration="1 year", points=7, sparse=True)]


def test_the_scenario_that_a_document_holds_can_be_asked_again(asked: list[Scenario]) -> None:
    for made in (scenario(fill=0.5, dp=8, sparse=True), scenario(preset=PAPER)):
        assert scenario(**made.as_dict()) == made
    assert run(["limits"]) == 1
    assert asked == [scenario()]


# Faults: each is a command, what standard error says, one line a fault


FAULTS: list[tuple[list[str], list[str]]] = [
    (["limits", "--hardware", "h100-smx"], ["hardware h100-smx h100-sxm"]),
    (["limits", "--hardware", "h100-smx", "nope"], ["hardware h100-smx", "hardware nope"]),
    (["limits", "--hardware"], ["hardware"]),
    (["limits", "--hardware", "negative.toml"], ["tiers[0].bandwidth '-100_GB/s'"]),
    (
        ["limits", "--hardware", "four.toml"],
        ["device.sustained 7", "device.memory much", "tiers[0].bandwidth -100", "tiers[0].latency -2us"],
    ),
    (["limits", "--hardware", "broken.toml"], ["broken.toml TOML"]),
    (["limits", "--hardware", "folder.toml"], ["folder.toml directory"]),
    (["limits", "--hardware", "binary.toml"], ["binary.toml TOML"]),
    (["limits", "--scenario", "broken.toml"], ["broken.toml TOML"]),
    (["limits", "--preset", "epoch-2023"], ["preset epoch-2023 epoch-2024"]),
    (["limits", "--preset", ""], ["preset"]),
    (["limits", "--preset", PAPER, "--dp", "8"], ["dp 8"]),
    (["limits", "--duration", "0"], ["duration '0'"]),
    (["limits", "--duration=-3 months"], ["duration -3"]),
    (["limits", "--duration", "3 fortnights"], ["duration fortnights"]),
    (["limits", "--duration", ""], ["duration"]),
    (["limits", "--duration"], ["duration argument"]),
    (["limits", "--batch-law", "17.75*D^"], ["--batch-law exponent"]),
    (["limits", "--batch-law", "zhang"], ["--batch-law zhang-2024"]),
    (["limits", "--from", "1e30", "--to", "1e25"], ["'--to' 1e+30 1e+25"]),
    (["limits", "--points", "1"], ["points 2"]),
    (["limits", "--dp", "x"], ["dp 'x'"]),
    (["limits", "--schedule", "gpipe"], ["'--schedule' gpipe 1f1b"]),
    (["limits", "--set", "fill"], ["set NAME=VALUE fill"]),
    (["limits", "--set", "fill="], ["set NAME=VALUE"]),
    (["limits", "--set", "fil=0.5"], ["fil Nearest: fill"]),
    (["limits", "--set", "fill=0.5", "--set", "fill=0.6"], ["set once fill"]),
    (["limits", "--points", "5", "--set", "points=6"], ["set points points=6"]),
    (["limits", "--dp", "5", "--set", "dp=6"], ["set dp dp=6"]),
    (["limits", "--layout", "dp=5", "--layout", "dp=6"], ["layout once dp"]),
    (["limits", "--scenario", os.devnull, "--set", "path=1"], ["path known"]),
    (["limits", "--set", "sparse=maybe"], ["sparse true false maybe"]),
    (["limits", "--set", "fill=7"], ["fill '7'"]),
    (["limits", "--set", "precision=bf61"], ["'precision' bf61 bf16"]),
    (["limits", "--set", "how=x", "--set", "fill=0.7"], ["how"]),
    (["limits", "--duration", "0", "--points", "1", "--dp", "x"], ["duration", "points", "dp"]),
    (["limits", "-o", "nowhere/x.csv"], ["'-o' folder nowhere/x.csv"]),
    (["limits", "-o", "folder.toml"], ["'-o' folder.toml"]),
    (["limits", "-o", f"{'x' * 300}.csv"], ["'-o'"]),
    (["limits", "--figure", "x.jpg"], ["figure .html x.jpg"]),
    (["limits", "--presets", PAPER], ["--presets --preset"]),
    (["limits", "stray"], ["stray"]),
    (["limit"], ["limit limits"]),
    (["hardware", "h100-smx"], ["hardware h100-smx h100-sxm"]),
    (["hardware", "four.toml"], ["sustained", "memory", "bandwidth", "latency"]),
    (["limits", "--layout", "dp"], ["layout dp"]),
    (["limits", "--layout", "xp=2"], ["layout xp dp"]),
    (["limits", "--layout", "dp=x"], ["layout.dp 'x'"]),
    (["best"], ["training"]),
    (["best", "much"], ["training_flop much"]),
    (["best", "1"], ["training_flop '1'"]),
    (["best", "1e25", "--top", "0"], ["top 1 0"]),
    (["best", "1e25", "--devices", "0"], ["devices '0'"]),
    (["best", "1e25", "--devices", "2.5"], ["devices '2.5'"]),
    (["best", "1e25", "--devices", "1e999"], ["devices 1e999"]),
    (["wall", "--latency", "0"], ["latency"]),
    (["wall", "--latency", "9 GB"], ["latency GB"]),
    (["wall", "--batch", "1e300"], [""]),
    (["wall", "--latency", "1e-200", "--layers", "1e-200"], [""]),
]


@pytest.mark.parametrize(
    ("line", "said"), FAULTS, ids=[" ".join(line).replace("x" * 300, "x…x") for line, _ in FAULTS]
)
def test_a_fault_is_one_line_and_status_two(
    line: list[str], said: list[str], capsys: Capture, asked: list[Scenario]
) -> None:
    assert run(line) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == len(said)
    for told, facts in zip(sorted(lines), sorted(said, key=lambda s: _place(s, lines)), strict=True):
        for fact in facts.split():
            assert fact.replace("_GB", " GB").lower() in told.lower()
    assert asked == []  # nothing was worked out for it


def _place(facts: str, lines: list[str]) -> int:
    """Return which of the sorted lines holds the first of `facts`, quoted as a field if need be."""
    field = facts.split()[0] if facts.split() else ""
    return next((i for i, line in enumerate(sorted(lines)) if field.lower() in line.lower()), 0)


@pytest.mark.parametrize("line", [["limits", "--hardware", "four.toml"], ["limits", "--foo"], ["nope"]])
def test_a_real_process_fails_the_same_way(line: list[str]) -> None:
    done = in_a_process(*line)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == (4 if "four.toml" in line else 1)


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are bytes there")
@pytest.mark.parametrize("option", ["--hardware", "--duration", "--scenario", "-o", "--set"])
def test_an_argument_that_is_not_text(option: str) -> None:
    done = in_a_process(b"limits", option.encode(), b"\xff\xfe")
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(done.stderr.splitlines()) == 1
    assert b"Traceback" not in done.stderr


# No answer


def test_beyond_the_wall_there_is_no_answer(capsys: Capture) -> None:
    for device in (["--hardware", "quick.toml"], ["--preset", PAPER]):
        assert run(["limits", *device, "--from", "1e33"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1
        assert "wall" in err
        assert "e+31 FLOP" in err  # where it is


def test_nothing_can_run_in_no_time(capsys: Capture) -> None:
    assert run(["limits", "--hardware", "quick.toml", "--duration", "1ns"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "quick" in err


# Files


def test_files_are_written(capsys: Capture) -> None:
    line = ["limits", "--hardware", "quick.toml", "--points", "2", "--to", "1e25", "--json"]
    assert run([*line, "-o", "x.parquet", "--figure", "x.html"]) == 0
    assert run([*line, "--output", "x.csv"]) == 0
    assert len(json.loads(capsys.readouterr().out.split("\n}\n", 1)[1])["curves"]) == 1
    assert Path("x.parquet").read_bytes().startswith(b"PAR1")
    assert Path("x.csv").read_text().splitlines()[1].startswith("hardware,training_flop")
    assert "plotly" in Path("x.html").read_text(encoding="utf-8")


# Streams


def on_a_terminal(*arguments: str, stdout: int) -> tuple[int, str]:
    """Run with standard error on a terminal; return the status and what the terminal got."""
    main, side = pty.openpty()
    command = [sys.executable, "-m", "scalewall", *arguments]
    with subprocess.Popen(command, stdout=stdout, stderr=side) as process:
        os.close(side)
        told = b""
        try:
            while part := os.read(main, 65536):
                told += part
        except OSError:  # what Linux says when the other end is closed
            pass
    os.close(main)
    return process.returncode, told.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_is_shown_only_on_a_terminal(tmp_path: Path) -> None:
    line = ["limits", "--hardware", "quick.toml", "--points", "3", "--json"]
    with (tmp_path / "out").open("wb") as out:
        status, told = on_a_terminal(*line, stdout=out.fileno())
    assert status == 0
    assert "quick: " in told
    assert len(json.loads((tmp_path / "out").read_text())["curves"]) == 1
    done = in_a_process(*line)
    assert done.stderr == b""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_of_a_validation(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        status, told = on_a_terminal("validate", "--json", stdout=out.fileno())
    summary = json.loads((tmp_path / "out").read_text())["summary"]
    assert status == 0
    assert f"/{summary['n']}" in told
    assert any(source in told for source in summary["by_source"])


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break otherwise there")
@pytest.mark.parametrize("line", ["hardware", "hardware --json", "wall"])
def test_a_reader_that_has_seen_enough(line: str) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "scalewall", *line.split()]
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(write)
    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("line", ["hardware", "wall --json"])
def test_a_full_disk(line: str) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "scalewall", *line.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.returncode != 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("line", ["wall --json", "hardware", "nope"])
def test_an_output_that_is_closed_from_the_start(line: str) -> None:
    closed = ["sh", "-c", f"'{sys.executable}' -m scalewall {line} >&-"]
    done = subprocess.run(closed, capture_output=True, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == ((2, 1) if line == "nope" else (0, 0))


def test_a_stop_by_the_user(monkeypatch: Patch, capsys: Capture) -> None:
    def stop(*_: object, draws: Any = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "limits", stop)
    assert run(["limits"]) == 130
    assert capsys.readouterr().err.splitlines() == ["Stopped."]


@pytest.mark.parametrize("line", ["hardware h100-sxm", f"hardware --preset {PAPER}"])
def test_a_stream_that_lacks_some_signs(line: str) -> None:  # µ and ∞
    done = in_a_process(*line.split(), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


def test_markup_in_a_users_text(capsys: Capture) -> None:
    Path("mine.toml").write_text(QUICK.replace("A small machine", "A [/small] machine"))
    for line in ("hardware mine.toml", "limits --hardware mine.toml --points 2 --to 1e25"):
        assert run(line.split()) == 0
        assert "A [/small] machine" in capsys.readouterr().out
