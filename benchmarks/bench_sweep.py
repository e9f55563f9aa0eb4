"""What a sweep costs beside its answers: rates, overhead, memory.

``pytest benchmarks/bench_sweep.py`` runs each once, small. For the numbers in docs/sweeps.md:
``python benchmarks/bench_sweep.py rate 10000 3`` and ``python benchmarks/bench_sweep.py memory 100000``.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scalewall.study.sweep import Swept, sweep

CHEAP = {  # a strategy that is given: some four milliseconds each
    "ask": "point",
    "scenario": {
        **{"pp": 256, "tp_ff": 64, "microbatches": 512, "schedule": "zero-bubble"},
        "layout": {"dp": 1, "tp_model": 1, "tp_ff": 8, "pp": 1, "ep": 1},
    },
}


def points(n: int) -> dict[str, Any]:
    computes = {"from": 1e26, "to": 2e26, "points": n // 4}
    return {**CHEAP, "grid": {"training_flop": computes, "tokens_per_parameter": [20, 21, 22, 23]}}


def walls(n: int) -> dict[str, Any]:
    latencies = {"from": "1us", "to": "20us", "points": n // 10}
    return {"ask": "wall", "grid": {"latency": latencies, "layers": list(range(50, 60))}}


def processor_seconds() -> tuple[float, float]:
    """Return what this process and its ended children have taken."""
    own, children = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def timed(table: dict[str, Any], workers: int) -> dict[str, float]:
    """Return what a sweep took, a scenario: seconds, and processor time of driver and workers."""
    with tempfile.TemporaryDirectory() as folder:
        before = processor_seconds()
        answer = sweep(table, Path(folder) / "rows", workers=workers)
        after = processor_seconds()
    n = answer.computed
    return {
        "seconds": answer.seconds,
        "rate": n / answer.seconds,
        "driver_ms": (after[0] - before[0]) / n * 1e3,
        "worker_ms": (after[1] - before[1]) / n * 1e3,
        "busy": answer.worker_seconds / answer.seconds / workers,
    }


def on_free_cores(run: dict[str, float], workers: int) -> float:
    """Return the rate that a run would have with the cores to itself, from processor time.

    Workers are busy for the share of time that was measured, which counts being kept waiting by
    other programs as busy, and being kept waiting by the driver as idle; driver and workers share
    two cores.
    """
    by_workers = workers * run["busy"] / run["worker_ms"]
    by_cores = 2.0 / (run["worker_ms"] + run["driver_ms"])
    return min(by_workers, by_cores)


def rate(n: int, rounds: int) -> None:
    ratios, clean = [], []
    for _ in range(rounds):
        one, two = timed(points(n), 1), timed(points(n), 2)
        for name, run in (("one", one), ("two", two)):
            print(name, {key: round(value, 3) for key, value in run.items()}, "load", os.getloadavg()[0])
        ratios.append(two["rate"] / one["rate"] / 2)
        clean.append(on_free_cores(two, 2) / on_free_cores(one, 1) / 2)
        print(f"  by the clock {ratios[-1]:.1%}, by processor time {clean[-1]:.1%}", flush=True)
    by_clock, by_processor = statistics.median(ratios), statistics.median(clean)
    print(
        f"share of twice the rate of one: {by_clock:.1%} by the clock, {by_processor:.1%} by processor time"
    )


def memory(n: int) -> None:
    """Print how memory grows with the sweep: the driver's, at a tenth, at all and at ten times the size."""
    for size in (n // 10, n, 10 * n):
        with tempfile.TemporaryDirectory() as folder:
            answer = sweep(walls(size), Path(folder) / "rows", workers=2)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        each = answer.seconds / answer.computed * 1e6
        print(f"{size:>9,} scenarios: driver's peak {peak:.0f} MiB, {each:.0f} µs each", flush=True)


def test_a_thousand_points(benchmark: Any, tmp_path: Path) -> None:
    count = iter(range(1000))

    def run() -> Swept:
        with ThreadPoolExecutor(1) as pool:
            return sweep(points(200), tmp_path / str(next(count)), executor=pool)

    assert benchmark.pedantic(run, rounds=3).computed == 200


def test_overhead(benchmark: Any, tmp_path: Path) -> None:
    count = iter(range(1000))

    def run() -> Swept:
        with ThreadPoolExecutor(1) as pool:
            return sweep(walls(10_000), tmp_path / str(next(count)), executor=pool)

    assert benchmark.pedantic(run, rounds=3).computed == 10_000


if __name__ == "__main__":
    {"rate": lambda: rate(int(sys.argv[2]), int(sys.argv[3])), "memory": lambda: memory(int(sys.argv[2]))}[
        sys.argv[1]
    ]()
