"""Plans: the best of all there are, what is fixed, what does not fit, and what would."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.cost.layer import Setting
from scalewall.cost.training import TRAINING_CAUSES, step
from scalewall.cost.training_memory import MEMORY_ITEMS, total_bytes
from scalewall.errors import InputError, InputErrors, NoAnswer
from scalewall.strategy.plans import Plan, Question, best_plans, divisors
from scalewall.study import plan as study
from scalewall.study.plan import Planning, fewest, plan
from scalewall.study.planning import PlanScenario, plan_scenario, read_constants

GPT3 = {"model": "gpt3-175b", "hardware": "a100-80gb-sxm", "gpus": 1024, "batch": 1536, "seq": 2048}
LLAMA = {"model": "llama-3.1-8b", "hardware": "h100-sxm", "gpus": 16, "batch": 64, "seq": 8192}

SMALL = """\
layers = 6
d_model = 2048
heads = 4
kv_heads = 2
head_dim = 512
d_ff = 8192
vocab = 32000
gated = true
tied = false
"""


@pytest.fixture
def small(tmp_path: Path) -> dict[str, Any]:
    """Words of a question so small that every plan can be priced one by one."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return {"model": str(path), "hardware": "h100-sxm", "gpus": 12, "batch": 12, "seq": 4096}


def every_plan(question: Question) -> list[Plan]:
    """Return all plans of a question with nothing fixed, written down from the rules alone."""
    model, job, n = question.job.model, question.job, question.devices
    found = []
    for tp, cp, pp in itertools.product(
        divisors(model.heads), (1, 2, 3, 4, 6, 12), range(1, model.layers + 1)
    ):
        if n % (tp * cp * pp) or (cp > 1 and job.sequence % (2 * cp)):
            continue
        if model.kv_heads % tp and tp % model.kv_heads:
            continue
        dp = n // (tp * cp * pp)
        for micro_batch in range(1, job.batch + 1):
            if job.batch % (dp * micro_batch):
                continue
            m = job.batch // (dp * micro_batch)
            for v in range(1, model.layers + 1):
                even = model.layers % (pp * v) == 0 or (model.layers + 2) % (pp * v) == 0
                if v > 1 and (pp == 1 or m % pp or not even):
                    continue
                for zero in (1, 2, 3):
                    for shard in {dp * cp, min(dp * cp, 8 // tp)} if zero == 3 else {dp * cp}:
                        if (
                            dp * cp % shard == 0
                            and (shard > 1 or dp * cp == 1)
                            and not (zero > 1 and dp * cp == 1)
                        ):
                            found.append(
                                Plan(
                                    tp=tp,
                                    cp=cp,
                                    dp=dp,
                                    pp=pp,
                                    interleave=v,
                                    micro_batch=micro_batch,
                                    zero=zero,
                                    shard=shard,
                                    recomputed=0.0,
                                    selective=False,
                                    schedule="1f1b",
                                )
                            )
    return found


def alone(question: Question, one: Plan) -> tuple[float, float]:
    """Return a plan's seconds and bytes, priced by itself."""
    arrays = one.arrays(question.software.sequence_parallel)
    setting = Setting.of(question.job, question.machine, arrays, question.practice, question.software)
    return float(step(setting).seconds), float(total_bytes(setting, question.allowance))


def best_of_all(question: Question) -> tuple[float, int, int]:
    """Return the least seconds of any plan that fits, how many there are, and how many fit somehow."""
    capacity, best = question.machine.cluster.device.memory, math.inf
    plans, fitting = every_plan(question), 0
    for one in plans:
        stage, somehow = math.ceil(question.job.model.layers / one.pp), False
        for k in range(stage + 1):
            seconds, size = alone(question, attrs.evolve(one, recomputed=k / stage))
            if size <= capacity:
                best, somehow = min(best, seconds), True
        fitting += somehow
    return best, len(plans), fitting


# The best there is


@pytest.mark.parametrize("framework", [3e9, 76e9, 77.5e9, 78.5e9])
def test_no_plan_is_better(small: dict[str, Any], framework: float) -> None:
    answer = plan(**small, framework=framework)
    best, count, fitting = best_of_all(answer.scenario.question())
    assert answer.strategies[0].step_time_s == pytest.approx(best, rel=1e-12)
    assert (answer.priced, answer.fitting) == (count, fitting)
    assert framework < 10e9 or any(one.plan.recomputed for one in answer.strategies)


@pytest.mark.parametrize("words", [GPT3, LLAMA, LLAMA | {"precision": "fp8", "schedule": "zero-bubble"}])
def test_every_second_and_byte_has_one_name(words: dict[str, Any]) -> None:
    answer = plan(**words, top=4)
    times = [one.step_time_s for one in answer.strategies]
    assert times == sorted(times)
    assert len({one.plan for one in answer.strategies}) == 4
    for one in answer.strategies:
        assert one.plan.devices == words["gpus"]
        assert tuple(one.seconds_by_cause) == tuple(TRAINING_CAUSES)
        assert sum(one.seconds_by_cause.values()) == pytest.approx(one.step_time_s, rel=1e-9)
        assert min(one.seconds_by_cause.values()) >= -1e-9 * one.step_time_s
        assert one.mfu == pytest.approx(one.seconds_by_cause["arithmetic"] / one.step_time_s, rel=1e-12)
        assert one.hfu >= one.mfu
        assert tuple(one.memory_bytes) == tuple(MEMORY_ITEMS)
        assert one.fits
        assert one.memory <= one.memory_capacity
        tokens = words["batch"] * words["seq"] / one.step_time_s
        assert one.tokens_per_s_per_device == pytest.approx(tokens / words["gpus"], rel=1e-12)
        assert one.binds != "arithmetic"


def test_a_shorter_list_is_the_beginning_of_a_longer_one() -> None:
    # Where a copy is alone the stages of ZeRO are the same: such a step is there twice.
    question = plan_scenario(**GPT3 | {"gpus": 64, "batch": 64}, dp=1, zero="0,1").question()
    most = best_plans(question, 100)
    assert len(set(most.seconds)) < 80
    for top in range(1, 100):
        assert best_plans(question, top).plans == most.plans[:top]


# What is fixed


@pytest.mark.parametrize(
    "words",
    [
        LLAMA,
        LLAMA | {"software": "torchtitan", "gpus": 8},
        GPT3 | {"software": "megatron-2021"},
        GPT3 | {"schedule": "zero-bubble"},
    ],
)
def test_every_strategy_of_a_list_can_be_asked_for(words: dict[str, Any]) -> None:
    answer = plan(**words, top=60)
    assert not any(one.plan.selective and one.plan.recomputed == 1.0 for one in answer.strategies)
    for one in answer.strategies:
        fixed = {name: getattr(one.plan, name) for name in ("tp", "cp", "dp", "pp", "micro_batch", "zero")}
        layers = round(one.plan.recomputed * math.ceil(answer.scenario.job.model.layers / one.plan.pp))
        kind = f"selective+{layers}" if one.plan.selective else layers
        again = plan(**words, **fixed, vpp=one.plan.interleave, shard=one.plan.shard, recompute=kind)
        assert [(other.plan, other.step_time_s) for other in again.strategies] == [
            (one.plan, one.step_time_s)
        ]


def test_what_is_fixed_is_kept_and_the_free_optimum_is_named() -> None:
    answer = plan(**GPT3, tp=8, pp="8,16", micro_batch=1, recompute="full", zero=2)
    for one in answer.strategies:
        assert (one.plan.tp, one.plan.micro_batch, one.plan.zero, one.plan.recomputed) == (8, 1, 2, 1.0)
        assert one.plan.pp in (8, 16)
    assert answer.free is not None
    assert answer.free.step_time_s == plan(**GPT3).strategies[0].step_time_s
    gain = answer.strategies[0].step_time_s - answer.free.step_time_s
    assert answer.differences is not None
    assert sum(answer.differences.values()) == pytest.approx(gain, rel=1e-9)
    assert answer.differences["recomputation"] > 0


def test_nothing_fixed_has_no_other_optimum() -> None:
    answer = plan(**LLAMA)
    assert answer.free is None
    assert answer.differences is None


@pytest.mark.parametrize(
    ("asked", "share"),
    [("none", 0.0), ("full", 1.0), (3, 3 / 12), ("5", 5 / 12), (12, 1.0), ("selective+4", 4 / 12)],
)
def test_recomputation_that_is_fixed(asked: str | int, share: float) -> None:
    answer = plan(**GPT3, tp=8, pp=8, recompute=asked, top=1)
    assert answer.strategies[0].plan.recomputed == pytest.approx(share)


def test_more_recomputed_layers_than_a_stage_has() -> None:
    with pytest.raises(InputError, match="at most the 12 layers of a stage"):
        plan(**GPT3, tp=8, pp=8, recompute=13)


def test_context_is_not_split_where_all_other_degrees_are_given() -> None:
    assert plan(**GPT3, tp=8, pp=8, dp=16).strategies[0].plan.cp == 1
    assert plan(**GPT3, tp=8, pp=8, dp=8, cp=2).strategies[0].plan.cp == 2


def test_constants_are_words_too() -> None:
    slow = plan(**LLAMA, host_step="2 s", top=1)
    assert slow.strategies[0].step_time_s > plan(**LLAMA, top=1).strategies[0].step_time_s + 1.5
    assert slow.scenario.practice.host_step == 2.0
    practice, allowance = read_constants({"matmul": 0.5, "framework": "1 GB"})
    assert (practice.matmul, allowance.framework) == (0.5, 1e9)
    with pytest.raises(InputError, match="matmul"):
        read_constants({"matmull": 0.5})


def test_a_file_of_words(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'model = "llama-3.1-8b"\nhardware = "h100-sxm"\ngpus = 16\nbatch = 64\nseq = 8192\ntp = [2, 4]\n'
        '[practice]\nhost_step = "10 ms"\n'
    )
    scenario = plan_scenario(path, tp="4", tokens="1e12")
    assert (scenario.tp, scenario.tokens, scenario.practice.host_step) == ((4,), 1e12, 0.01)
    assert plan_scenario(path).tp == (2, 4)
    assert scenario.as_dict()["tp"] == (4,)


# A whole run


def test_a_whole_run() -> None:
    answer = plan(**LLAMA, tokens="1e12", price="2 USD", top=1)
    (one,) = answer.strategies
    run = one.run
    assert run is not None
    assert run.steps == pytest.approx(1e12 / (64 * 8192))
    assert run.duration_s == pytest.approx(run.steps * one.step_time_s)
    assert run.device_hours == pytest.approx(run.duration_s * 16 / 3600)
    assert run.energy_j == pytest.approx(700.0 * run.duration_s * 16)
    assert run.cost_usd == pytest.approx(2.0 * run.device_hours)
    assert plan(**LLAMA, top=1).strategies[0].run is None


# What does not fit


def test_a_given_strategy_that_does_not_fit_says_what_would() -> None:
    answer = plan(**GPT3 | {"batch": 1024}, tp=1, pp=1, dp=1024, zero=1, micro_batch=1)
    (one,) = answer.strategies
    assert not one.fits
    assert one.memory > one.memory_capacity
    assert answer.fitting == 0
    assert answer.free is not None
    assert "ZeRO stage 3" in answer.remedies
    for remedy in answer.remedies:
        kind, _, value = remedy.rpartition(" ")
        changed = {"ZeRO stage": {"zero": value}, "tp": {"tp": value}, "pp": {"pp": value}}.get(kind)
        if changed:
            words = {"tp": 1, "pp": 1, "zero": 1, "micro_batch": 1, "cp": 1, **changed}
            assert plan(**GPT3 | {"batch": 1024}, **words).strategies[0].fits, remedy


def test_a_fixed_number_of_layers_that_does_not_fit_is_shown_as_fixed() -> None:
    answer = plan(**GPT3 | {"gpus": 64, "batch": 64}, tp=8, pp=8, vpp=1, recompute=2, framework="25 GB")
    assert not answer.strategies[0].fits
    assert answer.strategies[0].plan.recomputed == pytest.approx(2 / 12)
    assert "recomputing layers" in answer.remedies


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (GPT3 | {"gpus": 8}, r"No strategy fits 8 devices: .* What would do: \d+ devices"),
        (LLAMA | {"gpus": 8, "batch": 8, "seq": 2**20}, "sequences of 524,288 tokens"),
        (GPT3 | {"pp": 1, "dp": 256, "zero": 0}, "a plan with nothing fixed"),
        (LLAMA | {"gpus": 1021}, "No degrees divide 1,021 devices"),
    ],
)
def test_nothing_fits(words: dict[str, Any], says: str) -> None:
    with pytest.raises(NoAnswer, match=says) as caught:
        plan(**words)
    assert "\n" not in str(caught.value)


def test_what_would_do_does() -> None:
    with pytest.raises(NoAnswer) as caught:
        plan(**GPT3 | {"gpus": 8})
    more = int(str(caught.value).split("What would do: ")[1].split()[0])
    assert plan(**GPT3 | {"gpus": more}).strategies[0].fits


# The fewest devices


@pytest.mark.parametrize("words", [{}, {"tp": 8}, {"tp": 4, "pp": 6}, {"dp": 2}])
def test_the_fewest_devices(words: dict[str, Any]) -> None:
    answer = fewest(plan_scenario(**GPT3 | {"gpus": 1}, **words))
    least = answer.min_gpus
    assert least == answer.scenario.gpus == answer.strategies[0].plan.devices
    group = math.prod(words.values())
    for factor in (1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32, 36, 48):
        if group * factor < least:
            with pytest.raises((NoAnswer, AssertionError)):
                assert plan(**GPT3 | {"gpus": group * factor}, **words).fitting


def test_no_number_of_devices_is_enough() -> None:
    with pytest.raises(NoAnswer, match="No number of devices"):
        fewest(plan_scenario(**GPT3 | {"gpus": 1}, tp=1, cp=1, pp=1, zero=1))


# What cannot be


@pytest.mark.parametrize(
    ("words", "field", "says"),
    [
        ({"tp": 7}, "tp", "a divisor of the model's 96 heads"),
        ({"cp": 3}, "cp", "half a divisor of the sequence"),
        ({"pp": 97}, "pp", "at most the model's 96 layers"),
        ({"tp": 8, "pp": 3}, "pp", "a divisor of the 1024 devices"),
        ({"tp": 8, "pp": 8, "dp": 8}, "gpus", r"8 x cp 1 x pp 8 x dp 8 = 512 \(dp 16 would do\)"),
        ({"tp": 8, "pp": 64, "dp": 4, "cp": 1}, "gpus", r"= 2048"),
        ({"tp": 32, "pp": 64}, "gpus", "a multiple of the degrees that are fixed"),
        ({"tp": 8, "pp": 8, "cp": 1, "batch": 1000}, "batch", "16 x 1 = 16, such as 992 or 1,008"),
        ({"dp": 64, "micro_batch": 48}, "batch", "64 x 48 = 3072, such as 3,072"),
        ({"tp": 8, "pp": 8, "vpp": 5}, "vpp", "1, 2, 3, 4, 6, 12 for pp 8"),
        ({"tp": 8, "pp": 8, "dp": 16, "vpp": 2, "micro_batch": 32}, "batch", "a multiple of pp 8"),
        ({"vpp": 2, "schedule": "zero-bubble"}, "vpp", "1 with the schedule"),
        ({"tp": 8, "pp": 8, "dp": 16, "micro_batch": 12, "schedule": "zero-bubble"}, "batch", "2 x pp = 16"),
        ({"tp": 8, "pp": 8, "dp": 16, "zero": 3, "shard": 7}, "shard", "a divisor of the dp x cp = 16"),
        ({"ep": 2}, "ep", "not priced yet"),
        ({"gpus": 0}, "gpus", "from 1 to"),
        ({"gpus": 20_000_000}, "gpus", "from 1 to"),
        ({"zero": 4}, "zero", "0, 1, 2 or 3"),
        ({"tp": "a"}, "tp", "whole number"),
        ({"tp": 0}, "tp", "at least 1"),
        ({"recompute": "some"}, "recompute", "none, selective, full"),
        ({"recompute": "selective+"}, "recompute", "both as in selective"),
        ({"recompute": True}, "recompute", "none, selective, full"),
        ({"tp": 8, "pp": 8, "recompute": "selective+13"}, "recompute", "at most the 12 layers"),
        ({"schedule": "gpipe"}, "schedule", "1f1b, zero-bubble"),
        ({"precision": "fp8"}, "precision", "bf16"),
        ({"precision": "fp9"}, "precision", "one of"),
        ({"software": "megatorn"}, "software", "megatron"),
        ({"model": "gpt3-175"}, "model", "gpt3-175b"),
        ({"hardware": "a100-80gb"}, "hardware", "a100-80gb-sxm"),
        ({"tpp": 8}, "tpp", "a word of plan"),
    ],
)
def test_what_cannot_be_says_what_would(words: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        plan(**GPT3 | words)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_heads_of_keys_and_values_split_too(small: dict[str, Any]) -> None:
    path = Path(small["model"])
    path.write_text(SMALL.replace("kv_heads = 2", "kv_heads = 8").replace("\nheads = 4", "\nheads = 24"))
    with pytest.raises(InputError, match="multiple of the model's 8 heads of keys"):
        plan(**small, tp=6)


def test_a_missing_word_is_named_and_all_faults_are_told() -> None:
    with pytest.raises(InputErrors, match="batch") as caught:
        plan(model="llama-3.1-8b", hardware="h100-sxm", gpus=8)
    assert {error.field for error in caught.value.errors} == {"batch", "seq"}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("config.json", '{"a": 1}', "model_type"),
        ("config.json", "[1, 2]", "JSON object"),
        ("config.json", "{", "JSON"),
        ("config.json", '{"model_type": "mamba"}', "mamba"),
    ],
)
def test_a_file_that_is_no_model(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        plan(**LLAMA | {"model": str(path)})


def test_a_configuration_of_hugging_face_is_a_model() -> None:
    path = Path(__file__).parents[1] / "data" / "configs" / "llama-3.1-405b.json"
    words = {"hardware": "h100-sxm", "gpus": 1024, "batch": 128, "seq": 8192, "top": 1}
    one, other = (plan(model=model, **words) for model in (path, "llama-3.1-405b"))
    assert one.strategies[0].step_time_s == other.strategies[0].step_time_s


# The published ones


def test_a_published_strategy_is_among_the_best_or_the_difference_is_explained() -> None:
    """Llama 3 405B on 16,384 H100 (arXiv 2407.21783, table 4): tp 8, pp 16, dp 128."""
    words = {"model": "llama-3.1-405b", "hardware": "h100-sxm", "gpus": 16384, "batch": 2048, "seq": 8192}
    answer = plan(**words, tp=8, cp=1, pp=16, dp=128)
    best = answer.strategies[0]
    assert answer.free is not None
    gain = best.step_time_s - answer.free.step_time_s
    assert 0 <= gain < 0.15 * best.step_time_s
    assert answer.differences is not None
    assert sum(answer.differences.values()) == pytest.approx(gain)


def test_one_question_one_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = plan_scenario(**LLAMA, top=1)
    assert isinstance(scenario, PlanScenario)
    answer = plan(scenario)
    assert isinstance(answer, Planning)
    assert answer.scenario is scenario
    monkeypatch.setattr(study, "best_plans", lambda *_: pytest.fail("it was priced anew"))
    assert study.priced(scenario, scenario.question(), answer.strategies[0].plan) == answer.strategies[0]
