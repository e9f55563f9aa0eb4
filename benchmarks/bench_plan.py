"""Times of plans of real runs: ``python benchmarks/bench_plan.py``, or by pytest-benchmark as the others."""

from __future__ import annotations

import statistics
import time

import pytest

from scalewall.strategy.plans import best_plans
from scalewall.study.plan import priced
from scalewall.study.planning import PlanScenario, plan_scenario
from scalewall.study.validation import validate_file

ASKED = {
    "gpt3-175b on 1,024 A100": {
        "model": "gpt3-175b",
        "hardware": "a100-80gb-sxm",
        "gpus": 1024,
        "batch": 1536,
        "seq": 2048,
    },
    "llama-3.1-405b on 16,384 H100": {
        "model": "llama-3.1-405b",
        "hardware": "h100-sxm",
        "gpus": 16384,
        "batch": 2048,
        "seq": 8192,
    },
}


def scenario(name: str) -> PlanScenario:
    return plan_scenario(**ASKED[name])


@pytest.mark.parametrize("name", ASKED)
def test_best_plans(benchmark, name):
    question = scenario(name).question()
    assert benchmark(best_plans, question, 10).plans


@pytest.mark.parametrize("name", ASKED)
def test_one_estimate(benchmark, name):
    asked = scenario(name)
    question = asked.question()
    one = best_plans(question, 1).plans[0]
    assert benchmark(priced, asked, question, one).fits


def test_validation(benchmark):
    assert benchmark.pedantic(validate_file, rounds=1).rows


def seconds(action, rounds=9):
    """Return the median CPU seconds of `action`, after one round that is not counted."""
    action()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> None:
    """Print the rates of the search and the time of one estimate."""
    for name in ASKED:
        asked = scenario(name)
        question = asked.question()
        found = best_plans(question, 10)
        search = seconds(lambda question=question: best_plans(question, 10))
        one = found.plans[0]
        single = seconds(lambda asked=asked, question=question, one=one: priced(asked, question, one))
        print(
            f"{name}: {found.priced:,} plans in {search * 1e3:.1f} ms, {found.priced / search:.2e} a second;"
        )
        print(f"    one estimate with causes and memory {single * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
