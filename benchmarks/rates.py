"""How many strategies are priced and covered a second: ``python benchmarks/rates.py``.

Three numbers from one run, on one core: strategies a second of the cost functions on an open grid
(one axis a degree, in blocks that fit the cache), of a naive enumerator that prices one strategy
after another with the same functions, and of the search, which covers its space without pricing it.
"""

from __future__ import annotations

import functools
import itertools
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
from questions import CURVE, figure, ideal

from scalewall.cost import step
from scalewall.cost.step import AXES, Strategies
from scalewall.strategy.search import Question, search
from scalewall.strategy.space import smooth_numbers
from scalewall.study.limits import limits

ROUNDS = 5


def median_seconds(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median CPU seconds of `action`, after one round that is not counted."""
    action()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return statistics.median(times)


def open_grid(question: Question) -> Strategies:
    """Return a block of strategies as an open grid: tensor and data degrees by micro-batches by stages."""
    inner = {axis: np.ones((1, 1, 1)) for axis in AXES}
    tp = np.array(smooth_numbers(512), dtype=float)
    m = np.array(smooth_numbers(4096)[::2], dtype=float)
    pp = np.array(smooth_numbers(512), dtype=float)
    outer = {"tp_model": tp[:, None, None], "tp_ff": 4.0 * tp[:, None, None], "pp": pp[None, None, :]}
    return Strategies(
        degrees={axis: [inner[axis], outer.get(axis, inner[axis])] for axis in AXES},
        microbatches=m[None, :, None],
        interleave=np.ones((1, 1, 1)),
        zero_bubble=np.zeros((1, 1, 1), dtype=bool),
    )


def kernel_rate(question: Question) -> float:
    """Return strategies a second of the cost functions on an open grid."""
    grid = open_grid(question)

    def price() -> np.ndarray:
        return step.parts(question.cluster, question.workload, grid, question.how).seconds

    return price().size / median_seconds(lambda: [price() for _ in range(20)]) * 20


def naive_rate(question: Question, count: int = 300) -> float:
    """Return strategies a second of an enumerator that prices one after another."""
    degrees = itertools.product(smooth_numbers(64), smooth_numbers(64), smooth_numbers(64))
    some = list(itertools.islice(degrees, count))

    def price() -> None:
        for tp_model, tp_ff, pp in some:
            one = Strategies(
                degrees={
                    axis: [np.ones(1), np.array([float(p)])]
                    for axis, p in zip(AXES, (1, tp_model, tp_ff, pp, 1), strict=True)
                },
                microbatches=np.array([2.0 * pp]),
                interleave=np.ones(1),
                zero_bubble=np.array([True]),
            )
            float(step.parts(question.cluster, question.workload, one, question.how).seconds[0])

    return count / median_seconds(price, rounds=3)


def report(name: str, value: str, note: str = "") -> None:
    """Print one line of the table."""
    print(f"{name:<28}{value:>14}  {note}")


def main() -> None:
    """Print all rates and times."""
    question = ideal(1e28)
    kernel, naive = kernel_rate(question), naive_rate(question)
    seconds, proof = median_seconds(lambda: search(question)), search(question).certificate
    report("kernel, open grid", f"{kernel:.3g}", "strategies a second")
    report(
        "naive enumerator",
        f"{naive:.3g}",
        f"strategies a second; the kernel is {kernel / naive:,.0f} times faster",
    )
    report("search at 1e28 FLOP", f"{proof.space / seconds:.2g}", "strategies covered a second")
    report("", f"{proof.space:.3g}", f"in the space; {proof.bounded:,} bounds, {proof.priced:,} priced")
    for flop in (1e24, 1e26, 1e28, 1e30, 1e31, 1e32, 1e34):
        one = ideal(flop)
        best = search(one).best
        note = f"{best.devices:.3g} devices" if best else "nothing feasible"
        report(
            f"one point, {flop:.0e} FLOP",
            f"{median_seconds(functools.partial(search, one)) * 1e3:.1f} ms",
            note,
        )
    questions = [ideal(float(flop)) for flop in CURVE]

    def curve() -> None:
        hints: tuple = ()
        for q in questions:
            hints = search(q, hints).strategies

    report(f"curve of {len(CURVE)} points", f"{median_seconds(curve, rounds=3):.2f} s", "1e24 to 3e31 FLOP")
    report(
        "figure of three devices",
        f"{median_seconds(lambda: limits(figure()), rounds=3):.2f} s",
        "60 points each",
    )
    report("peak memory", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
