"""The commands on sweeps: what they print, and how they end."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scalewall.cli import run
from scalewall.present import tables_sweep
from scalewall.study.sweep_open import open_sweep
from tests.study.answers import write_quick

Capture = pytest.CaptureFixture[str]

WALLS = 'ask = "wall"\n[grid]\nlatency = ["9us", "4us"]\nlayers = [60, 120, 240]\n'
SLOW = """\
ask = "best"
scenario = { hardware = "quick.toml" }
grid = { training_flop = { from = 1e24, to = 1e26, points = 20000, spacing = "log" } }
"""


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_quick(tmp_path)
    Path("walls.toml").write_text(WALLS)
    Path("slow.toml").write_text(SLOW)


def command(*words: str, **more: object) -> subprocess.Popen[str]:
    code = "from scalewall.cli import main; main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    return subprocess.Popen([sys.executable, "-c", code, *words], **pipes)


def test_a_sweep_and_again_and_a_figure(capsys: Capture) -> None:
    assert run(["sweep", "walls.toml", "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("6 rows in 'walls': 6 computed in ")
    assert "0 there before" in said.out
    assert said.err == ""
    assert run(["sweep", "walls.toml", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["scenarios"], document["before"], document["computed"]) == (6, 6, 0)
    assert (
        run(["sweep-figure", "walls", "layers", "training_flop", "--colour", "latency", "-o", "f.html"]) == 0
    )
    assert capsys.readouterr().out == "f.html\n"
    assert "training_flop" in Path("f.html").read_text()
    assert run(["sweep-figure", "walls", "layers", "parameters", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": "parameters-against-layers.html", "rows": 6}


def test_a_dry_run(capsys: Capture) -> None:
    assert run(["sweep", "walls.toml", "--dry-run", "--workers", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("6 scenarios.\nAbout ")
    assert "on 2 processes" in said
    assert "by 5 that were timed" in said
    assert run(["sweep", "walls.toml", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 6
    assert not Path("walls").exists()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (1.26, "1.3 s"),
        (70, "70 s"),
        (143, "2.4 min"),
        (3000, "50 min"),
        (1e5, "28 h"),
        (1e7, "116 days"),
    ],
)
def test_times_are_said_as_one_waits(seconds: float, text: str) -> None:
    assert tables_sweep.duration(seconds) == text


def test_rows_with_errors_are_counted(capsys: Capture) -> None:
    Path("far.toml").write_text(
        'ask = "best"\n[grid]\ntraining_flop = [1e24, 1e44]\nhardware = ["quick.toml"]\n'
    )
    assert run(["sweep", "far.toml", "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert "1 of them have no answer; the column 'error' says why." in said
    assert "  1 × No strategy" in said
    Path("all.toml").write_text('ask = "best"\n[grid]\ntraining_flop = [1e44]\n')
    assert run(["sweep", "all.toml", "--workers", "1"]) == 1
    assert capsys.readouterr().err.startswith("Not one of the 1 scenarios has an answer")


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "nothing.toml"],
        ["sweep", "quick.toml"],
        ["sweep", "walls.toml", "--out", "quick.toml"],
        ["sweep", "walls.toml", "--out", "quick.toml/below"],
        ["sweep", "walls.toml", "--out", "."],
        ["sweep", "walls.toml", "--workers", "0"],
        ["sweep", "walls.toml", "--workers", "many", "--dry-run"],
        ["sweep", "walls.toml", "--workers", "2", "--scheduler", "local:2"],
        ["sweep-figure", ".", "layers", "parameters"],
        ["sweep-figure", "nowhere", "layers", "parameters"],
        ["sweep-figure", "rows", "layer", "parameters"],
        ["sweep-figure", "rows", "layers", "parameters", "-o", "f.doc"],
    ],
)
def test_wrong_words_are_one_line(words: list[str], capsys: Capture) -> None:
    if words[1] == "rows":
        run(["sweep", "walls.toml", "--out", "rows", "--workers", "1"])
        capsys.readouterr()
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("The '")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopped_cleanly_it_goes_on(how: signal.Signals) -> None:
    process = command("sweep", "slow.toml", "--out", "rows", "--workers", "2", start_new_session=True)
    end = time.monotonic() + 60
    while not list(Path("rows").glob("part*")) and time.monotonic() < end:
        time.sleep(0.05)
    # Ctrl-C reaches all processes of a terminal; a batch system's SIGTERM the first.
    os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert len(err.splitlines()) == 1
    rows = open_sweep("rows").collect()
    assert (
        err
        == f"Stopped. {rows.height:,} of 20,000 rows are in 'rows'; the same command goes on from there.\n"
    )
    assert rows["index"].n_unique() == rows.height > 0
    dry = command("sweep", "slow.toml", "--out", "rows", "--dry-run")
    assert f"20,000 scenarios, of which {rows.height:,} are there." in dry.communicate(timeout=60)[0]


def test_progress_is_shown_on_a_terminal() -> None:
    Path("some.toml").write_text(SLOW.replace("20000", "300"))
    leader, follower = pty.openpty()
    process = command("sweep", "some.toml", "--workers", "1", stderr=follower)
    os.close(follower)
    seen = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    process.communicate(timeout=60)
    assert b"some" in seen
    assert b"300" in seen
