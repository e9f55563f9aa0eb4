"""Sweeps that are killed: what was written stays, is not computed again, and no file is torn."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scalewall.study.sweep_open import open_sweep
from scalewall.study.sweep_store import parts_in

SCRIPT = Path(__file__).with_name("sweep_driver_script.py")
MANY = """\
ask = "wall"
[grid]
latency = { from = "1us", to = "20us", points = 200 }
layers = { from = 50, to = 249, points = 200 }
"""
KILLS, SECONDS = 30, 60.0  # how often something is killed, and after how long no more

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for workers in /proc")


def start(folder: Path, seconds: float, killer: int = -1) -> subprocess.Popen[str]:
    (folder / "sweep.toml").write_text(MANY)
    words = [
        str(folder / "sweep.toml"),
        str(folder / "rows"),
        str(folder / "diary"),
        str(seconds),
        str(killer),
    ]
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def workers(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


def there(folder: Path) -> pl.DataFrame:
    """Return the rows that count; each file is whole."""
    parts = parts_in(folder / "rows")[0] if (folder / "rows").is_dir() else []
    if not parts:
        return pl.DataFrame({"index": []}, schema={"index": pl.Int64})
    return pl.concat([pl.read_parquet(part.path) for part in parts]).sort("index")


def answered(folder: Path) -> list[int]:
    diary = folder / "diary"
    lines = diary.read_text().splitlines() if diary.exists() else []
    return [int(line) for line in lines if line]


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    def alive(pid: int) -> bool:
        try:
            return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False

    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def test_killed_at_any_moment_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    chance = random.Random(7)
    begin, kills, rows_seen = time.monotonic(), 0, []
    process: Any = None
    while kills < KILLS and time.monotonic() - begin < SECONDS:
        if process is None:
            before = len(answered(tmp_path))
            process = start(tmp_path, 0.002)
            while len(answered(tmp_path)) == before and process.poll() is None:
                time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.8))
        known, pids = there(tmp_path), workers(process.pid)
        noted = len(answered(tmp_path))
        driver_dies = kills % 2 == 0
        if driver_dies:
            process.kill()
            process.communicate()
            assert gone(pids), "workers outlive their driver"
            process = None
        elif pids:
            os.kill(chance.choice(pids), signal.SIGKILL)
            time.sleep(0.3)
        kills += 1
        now = there(tmp_path)
        assert now["index"].n_unique() == now.height
        assert now.filter(pl.col("index").is_in(known["index"].implode())).equals(known)
        again = set(answered(tmp_path)[noted:]) & set(known["index"].to_list())
        assert not again, "what was written is computed again"
        rows_seen.append(now.height)
    if process is not None:
        process.kill()
        process.communicate()
    assert kills >= 10
    assert rows_seen[-1] > rows_seen[0]
    missing = 40_000 - there(tmp_path).height
    out, err = start(tmp_path, 0.0).communicate(timeout=60)
    assert (out, err) == (f"{missing}\n", "")
    whole = there(tmp_path)
    (tmp_path / "calm").mkdir()
    start(tmp_path / "calm", 0.0).communicate(timeout=60)
    assert whole.equals(there(tmp_path / "calm"))
    assert whole["index"].to_list() == list(range(40_000))
    assert not list((tmp_path / "rows").glob(".writing*"))
    assert open_sweep(tmp_path / "rows").select(pl.len()).collect().item() == 40_000
    print(f"{kills} kills, rows after each: {rows_seen}")


def test_a_scenario_that_kills_its_worker_is_a_row(tmp_path: Path) -> None:
    out, err = start(tmp_path, 0.0, killer=12_345).communicate(timeout=60)
    assert err == ""
    assert out.strip() == "40000"
    rows = there(tmp_path)
    failed = rows.filter(pl.col("error").is_not_null())
    assert rows.height == rows["index"].n_unique() == 40_000
    assert failed["index"].to_list() == [12_345]
    assert failed["error"].to_list() == ["Its worker died each time: killed, or out of memory."]
    assert failed["layers"].to_list()[0] > 0
