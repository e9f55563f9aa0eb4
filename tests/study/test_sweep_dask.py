"""Sweeps on a Dask cluster: the same rows bit by bit, and one line when the cluster is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalewall.study.sweep import sweep
from scalewall.study.sweep_open import open_sweep
from tests.study.answers import write_quick

pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install 'scalewall[dask]'")
# Its own threads and sockets warn as they please; in the command they are in a process of their own.
pytestmark = pytest.mark.filterwarnings("ignore")

TABLE = """\
ask = "best"
[scenario]
hardware = "quick.toml"
[sample]
size = {size}
seed = 5
[sample.inputs]
training_flop = {{ loguniform = {{ low = 1e24, high = 1e26 }} }}
latency = {{ lognormal = {{ median = "1x", sigma = 0.2 }} }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_quick(tmp_path)
    (tmp_path / "sweep.toml").write_text(TABLE.format(size=200))
    (tmp_path / "long.toml").write_text(TABLE.format(size=20_000))
    return tmp_path


def command(folder: Path, *words: str) -> subprocess.Popen[str]:
    code = "from scalewall.cli import main; main()"
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code, "sweep", *words], cwd=folder, stdout=pipe, stderr=pipe, text=True
    )


@pytest.fixture
def scheduler(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """Give the address of a scheduler with two workers, and the three processes."""
    file = folder / "scheduler.json"
    base = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "text": True}
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    started = [subprocess.Popen([*base, *words], **quiet)]
    end = time.monotonic() + 30
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file)]
    more = ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(folder / "dask")]
    started += [subprocess.Popen([*worker, *more], **quiet) for _ in range(2)]
    time.sleep(0.2)
    yield json.loads(file.read_text())["address"], started
    for process in started:
        process.kill()
        process.wait()


def wait_for_rows(folder: Path, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not list(folder.glob("part*")) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(folder.glob("part*"))


def test_four_worker_processes_give_the_same_rows_bit_by_bit(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    process = command(folder, "sweep.toml", "--out", "dask", "--scheduler", "local:4", "--json")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert '"computed": 200' in out
    sweep("sweep.toml", "own", workers=1)
    assert open_sweep("dask").sort("index").collect().equals(open_sweep("own").sort("index").collect())


def test_a_scheduler_that_goes_away(folder: Path, scheduler) -> None:
    address, processes = scheduler
    process = command(folder, "long.toml", "--out", "rows", "--scheduler", address)
    wait_for_rows(folder / "rows")
    os.kill(processes[0].pid, signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert f"The scheduler at '{address}' is gone" in err
    assert "of 20,000 rows are in 'rows'; the same command goes on from there." in err
    before = open_sweep(folder / "rows").collect()
    again = command(folder, "long.toml", "--out", "rows", "--workers", "2")
    time.sleep(4)
    again.send_signal(signal.SIGINT)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 130
    assert err.startswith("Stopped. ")
    after = open_sweep(folder / "rows").collect()
    assert after.height > before.height
    assert after["index"].n_unique() == after.height


def test_a_worker_that_is_killed_is_made_up_for(folder: Path, scheduler) -> None:
    address, processes = scheduler
    (folder / "some.toml").write_text(TABLE.format(size=600))
    process = command(folder, "some.toml", "--out", "rows", "--scheduler", address)
    wait_for_rows(folder / "rows")
    os.kill(processes[1].pid, signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    rows = open_sweep(folder / "rows").sort("index").collect()
    assert rows["index"].to_list() == list(range(600))
    assert rows["error"].null_count() == 600


@pytest.mark.parametrize("scheduler", ["nonsense://x", "local:0", "local:two", "here"])
def test_an_address_that_is_none(scheduler: str, folder: Path) -> None:
    process = command(folder, "sweep.toml", "--scheduler", scheduler)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("The '--scheduler' must be ")
    assert len(err.splitlines()) == 1
