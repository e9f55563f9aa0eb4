"""Predicted against measured: which plans a run may have had, which is taken, and errors added up."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from scalewall.cost.layer import Setting
from scalewall.cost.plans import Plans
from scalewall.cost.practice import Practice
from scalewall.cost.training import TRAINING_CAUSES, step
from scalewall.cost.training_memory import Allowance, total_bytes
from scalewall.study.runs import read_run
from scalewall.study.validation import (
    MOST_MICRO_BATCH,
    Compared,
    Validation,
    compare,
    machine_of,
    possible_plans,
    predict,
    validate,
)
from tests.study.test_runs import LLAMA, ROW

PRACTICE, ALLOWANCE = Practice(), Allowance()


def run(**changes):
    return read_run(ROW | changes)


def alone(one, **degrees):
    """Seconds and bytes of a run under one plan, all numbers."""
    plans = Plans(
        **{axis: one.degrees[axis] for axis in ("tp", "cp", "dp", "pp")},
        zero=one.zero,
        shard=one.shard,
        sequence_parallel=one.sequence_parallel and one.degrees["tp"] > 1,
        **degrees,
    )
    setting = Setting.of(one.job, machine_of(one), plans, PRACTICE, one.software)
    return float(step(setting).seconds), float(total_bytes(setting, ALLOWANCE))


def choices(one):
    """The plans a run may have had, each as its open degrees."""
    plans = possible_plans(one)
    fields = ("micro_batch", "interleave", "recomputed", "selective")
    flat = [np.broadcast_to(getattr(plans, name), np.shape(plans.micro_batch)).ravel() for name in fields]
    return [
        {"micro_batch": float(b), "interleave": float(v), "recomputed": float(r), "selective": bool(s)}
        for b, v, r, s in zip(*flat, strict=True)
    ]


# Which plans a run may have had


def test_a_run_that_says_everything_has_one_plan():
    assert choices(run()) == [{"micro_batch": 1, "interleave": 4, "recomputed": 0.0, "selective": True}]


@pytest.mark.parametrize(
    ("stated", "share", "selective"), [("none", 0.0, False), ("selective", 0.0, True), ("full", 1.0, False)]
)
def test_stated_recomputation(stated, share, selective):
    (only,) = choices(run(activation_recompute=stated))
    assert (only["recomputed"], only["selective"]) == (share, selective)


def test_recomputation_that_is_open_is_none_selective_or_of_more_and_more_layers():
    found = choices(run(activation_recompute="unknown"))
    modes = [(one["recomputed"], one["selective"]) for one in found]
    assert modes == [(0.0, False), (0.0, True), *((k / 16, True) for k in range(1, 17))]


def test_micro_batches_divide_what_a_rank_has():
    found = choices(run(micro_batch_size=None, global_batch_size=8 * 36))
    assert sorted({one["micro_batch"] for one in found}) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    found = choices(run(micro_batch_size=None, global_batch_size=8 * 256))
    assert max(one["micro_batch"] for one in found) == MOST_MICRO_BATCH


def test_interleaving_that_is_open_divides_the_layers_of_a_stage():
    found = choices(run(micro_batch_size=None, virtual_pp=None))
    assert sorted({one["interleave"] for one in found}) == [1, 2, 4, 8, 16]
    assert len(found) == 5 * 5


@pytest.mark.parametrize(
    "changes",
    [
        {"virtual_pp": None},  # with a micro-batch size: a row that is complete, and has none
        {"micro_batch_size": None},  # stated
        {"micro_batch_size": None, "virtual_pp": None, "notes": "Megatron-DeepSpeed"},
    ],
)
def test_interleaving_that_is_not_open(changes):
    stated = changes.get("virtual_pp", 4) or 1
    assert {one["interleave"] for one in choices(run(**changes))} == {stated}


def test_what_is_stated_is_the_same_in_every_plan():
    plans = possible_plans(run(micro_batch_size=None, activation_recompute=None, cp=2, dp=4))
    assert (plans.tp, plans.cp, plans.dp, plans.pp) == (4, 2, 4, 2)
    assert (plans.zero, plans.shard) == (1, 8)
    assert plans.sequence_parallel
    assert not plans.zero_bubble
    assert not possible_plans(run(tp=1, dp=32)).sequence_parallel


# Which of them is taken


OPEN = {"micro_batch_size": None, "virtual_pp": None, "activation_recompute": None}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_recompute": None},
        {"micro_batch_size": None},
        OPEN,
        {**OPEN, **LLAMA, "seq_len": 8192, "tp": 2, "dp": 16},
        {
            **OPEN,
            "virtual_pp": 4,
            "n_layers": 96,
            "d_model": 12288,
            "n_heads": 96,
            "n_kv_heads": 96,
            "d_ff": 49152,
            "tp": 8,
            "dp": 4,
        },
    ],
)
def test_the_fastest_that_fits_is_taken(changes):
    """One plan at a time, where the code prices all of them at once."""
    one = run(**changes)
    found = compare(one, PRACTICE, ALLOWANCE)
    priced = [(*alone(one, **plan), plan) for plan in choices(one)]
    capacity = one.cluster.device.memory
    fitting = [entry for entry in priced if entry[1] <= capacity]
    best = min(fitting, key=lambda entry: entry[0]) if fitting else min(priced, key=lambda entry: entry[1])
    assert found.predicted_step_time_s == pytest.approx(best[0], rel=1e-12)
    assert found.memory_bytes == pytest.approx(best[1], rel=1e-12)
    chosen = {name: getattr(found, name) for name in best[2]}
    assert chosen == best[2]


def test_a_faster_plan_that_does_not_fit_is_left():
    """Nothing recomputed is fastest, and too large for a long sequence on one node."""
    one = run(
        **LLAMA, tp=1, pp=1, dp=8, n_gpus=8, seq_len=16384, global_batch_size=8, activation_recompute=None
    )
    found = compare(one, PRACTICE, ALLOWANCE)
    assert found.memory_bytes <= one.cluster.device.memory
    assert found.recomputed > 0
    fastest = min(alone(one, **plan)[0] for plan in choices(one))
    assert found.predicted_step_time_s > fastest


def test_where_nothing_fits_the_smallest_is_taken():
    shape = {"n_layers": 96, "d_model": 12288, "n_heads": 96, "n_kv_heads": 96, "d_ff": 49152}
    one = run(**OPEN | shape | {"tp": 1, "dp": 32, "virtual_pp": 4})
    found = compare(one, PRACTICE, ALLOWANCE)
    assert found.memory_bytes > one.cluster.device.memory
    assert found.memory_bytes == pytest.approx(min(alone(one, **plan)[1] for plan in choices(one)))
    assert (found.micro_batch, found.recomputed) == (1, 1.0)


def test_more_memory_never_makes_it_slower():
    times = []
    for memory in (20e9, 40e9, 80e9, 160e9, 1e12):
        one = run(**LLAMA, tp=1, pp=1, dp=64, seq_len=16384, global_batch_size=512, **OPEN)
        device = attrs.evolve(one.cluster.device, memory=memory)
        one = attrs.evolve(one, cluster=attrs.evolve(one.cluster, device=device))
        found = compare(one, PRACTICE, ALLOWANCE)
        if found.memory_bytes <= memory:
            times.append(found.predicted_step_time_s)
    assert len(times) >= 3
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ()),
        ({"micro_batch_size": None}, ("micro_batch",)),
        ({"activation_recompute": None}, ("recompute",)),
        ({"virtual_pp": None}, ()),
        (OPEN, ("micro_batch", "interleave", "recompute")),
        ({**OPEN, "pp": 1, "dp": 16}, ("micro_batch", "recompute")),
    ],
)
def test_what_was_searched_is_named(changes, names):
    assert compare(run(**changes), PRACTICE, ALLOWANCE).searched == names


def test_the_place_of_the_plan_is_that_of_its_numbers():
    one = run(**OPEN)
    plans, found, total, at = predict(one, PRACTICE, ALLOWANCE)
    assert np.shape(total) == np.shape(plans.micro_batch)
    result = compare(one, PRACTICE, ALLOWANCE)
    assert result.predicted_step_time_s == np.broadcast_to(found.seconds, np.shape(total)).flat[at]
    assert result.memory_bytes == total.flat[at]
    assert result.micro_batch == plans.micro_batch.flat[at]


# One run beside its measurement


def test_what_is_told_of_a_run():
    found = compare(run(), PRACTICE, ALLOWANCE)
    assert (found.id, found.source, found.device, found.model) == ("case-001", "case", "h100-sxm", "GPT 7B")
    assert (found.precision, found.software, found.devices) == ("bf16", "megatron", 64)
    assert (found.measured_step_time_s, found.settled) == (2.5, run().settled)
    assert (found.micro_batch, found.interleave, found.selective) == (1, 4, True)


def test_causes_add_up_to_the_prediction():
    for changes in ({}, OPEN, LLAMA):
        found = compare(run(**changes), PRACTICE, ALLOWANCE)
        assert list(found.seconds_by_cause) == list(TRAINING_CAUSES)
        assert sum(found.seconds_by_cause.values()) == pytest.approx(found.predicted_step_time_s)


def test_utilisation_is_of_the_predicted_time():
    found = compare(run(), PRACTICE, ALLOWANCE)
    peak = 64 * run().cluster.device.peak_rate("bf16")
    assert found.mfu == pytest.approx(run().job.model_flop / peak / found.predicted_step_time_s)


def test_an_error_is_positive_where_the_prediction_is_slower():
    predicted = compare(run(), PRACTICE, ALLOWANCE).predicted_step_time_s
    for factor, error in ((0.5, 1.0), (1.0, 0.0), (2.0, -0.5), (4.0, -0.75)):
        found = compare(run(step_time_s=factor * predicted), PRACTICE, ALLOWANCE)
        assert found.error == pytest.approx(error, abs=1e-12)
        assert found.predicted_step_time_s == predicted


def test_practice_and_allowance_are_those_given():
    slow = attrs.evolve(PRACTICE, host_step=100.0)
    (row,) = validate([ROW], practice=slow).rows
    assert row.predicted_step_time_s > 100
    (row,) = validate([ROW], allowance=attrs.evolve(ALLOWANCE, framework=1e12)).rows
    assert row.memory_bytes > 1e12


# Errors added up


def compared(error, source="a", device="x"):
    base = compare(run(), PRACTICE, ALLOWANCE)
    return attrs.evolve(base, error=error, source=source, device=device)


def test_errors_by_hand():
    errors = [-0.5, 0.1, 0.2, -0.3, 0.0]
    rows = tuple(compared(e, s, d) for e, s, d in zip(errors, "aabbb", "xyxyx", strict=True))
    found = Validation(rows=rows, skipped={"z-1": "states no step time", "z-2": "has experts"}).summary
    assert (found.n, found.skipped) == (5, 2)
    assert found.median_abs_error == pytest.approx(0.2)
    assert found.p90_abs_error == pytest.approx(0.3 + 0.6 * 0.2)  # place 3.6 of 0 to 4
    assert found.mean_abs_error == pytest.approx(0.22)
    assert dict(found.by_source["a"]) == pytest.approx(
        {"n": 2, "median_abs_error": 0.3, "mean_abs_error": 0.3, "median_error": -0.2}
    )
    assert dict(found.by_source["b"]) == pytest.approx(
        {"n": 3, "median_abs_error": 0.2, "mean_abs_error": 0.5 / 3, "median_error": 0.0}
    )
    assert dict(found.by_device["y"]) == pytest.approx(
        {"n": 2, "median_abs_error": 0.2, "mean_abs_error": 0.2, "median_error": -0.1}
    )
    assert list(found.by_source) == ["a", "b"]
    assert list(found.by_device) == ["x", "y"]


def test_groups_make_up_the_whole():
    rows = tuple(compared(0.01 * i, "abc"[i % 3], "xy"[i % 2]) for i in range(-7, 12))
    found = Validation(rows=rows, skipped={}).summary
    for groups in (found.by_source, found.by_device):
        assert sum(group["n"] for group in groups.values()) == found.n
        mean = sum(group["n"] * group["mean_abs_error"] for group in groups.values()) / found.n
        assert mean == pytest.approx(found.mean_abs_error)


def test_no_runs():
    found = validate([]).summary
    assert (found.n, found.skipped) == (0, 0)
    assert (dict(found.by_source), dict(found.by_device)) == ({}, {})


def test_no_runs_have_no_error():
    assert validate([]).summary.median_abs_error != 0.0


def test_rows_are_compared_or_skipped():
    rows = [ROW, ROW | {"id": "b-2", "n_experts": 8}, ROW | {"id": "c-3", "tp": "four"}, ROW | {"id": "b-4"}]
    found = validate(iter(rows))
    assert [row.id for row in found.rows] == ["case-001", "b-4"]
    assert list(found.skipped) == ["b-2", "c-3"]
    assert isinstance(found.rows[0], Compared)
    assert found.summary.by_source["b"]["n"] == 1


def test_a_precision_that_the_device_has_not_stops_nothing():
    found = validate([ROW, ROW | {"id": "b-2", "device": "a100-80gb-sxm", "precision": "fp8"}])
    assert [row.id for row in found.rows] == ["case-001"]
    assert list(found.skipped) == ["b-2"]
