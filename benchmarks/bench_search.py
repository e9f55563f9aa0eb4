"""Times of the search: ``pytest benchmarks --benchmark-enable``; in CI each runs once, untimed."""

from __future__ import annotations

import pytest
from questions import CURVE, figure, ideal

from scalewall.strategy.search import search
from scalewall.study.limits import limits


@pytest.mark.parametrize("training_flop", [1e24, 1e26, 1e28, 1e30, 1e31])
def test_one_point(benchmark, training_flop):
    question = ideal(training_flop)
    result = benchmark(search, question)
    assert result.best is not None


def test_far_beyond_the_wall(benchmark):
    question = ideal(1e34)
    assert benchmark(search, question).best is None


def test_one_sparse_point(benchmark):
    question = ideal(1e28, sparse=True)
    assert benchmark(search, question).best is not None


def test_curve_of_60_points(benchmark):
    questions = [ideal(float(flop)) for flop in CURVE]

    def curve():
        found = []
        for question in questions:
            found.append(search(question, found[-1].strategies if found else ()))
        return found

    assert all(result.best for result in benchmark.pedantic(curve, rounds=3, warmup_rounds=1))


def test_figure_of_three_devices(benchmark):
    answer = benchmark.pedantic(limits, args=(figure(),), rounds=3, warmup_rounds=0)
    assert len(answer.curves) == 3
