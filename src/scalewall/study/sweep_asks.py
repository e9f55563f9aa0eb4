"""What a sweep can ask of a scenario: the fields that each question takes, and the columns of its answer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.cost.machine import Machine
from scalewall.cost.practice import Practice
from scalewall.cost.step import AXES, CAUSES
from scalewall.cost.training import TRAINING_CAUSES
from scalewall.cost.training_memory import MEMORY_ITEMS, Allowance
from scalewall.errors import InputError, NoAnswer
from scalewall.hardware.cluster import Cluster
from scalewall.schema import whole
from scalewall.strategy.plans import Plan, best_plans, nearest_plan
from scalewall.study import closed_form
from scalewall.study.distributions import number_of
from scalewall.study.inputs import Input, inputs, inputs_of_cluster
from scalewall.study.limits import limits_of
from scalewall.study.plan import priced
from scalewall.study.planning import PlanScenario, plan_scenario
from scalewall.study.points import Point, best_points
from scalewall.study.records import STRATEGY_FIELDS, of_point
from scalewall.study.scenario import Scenario, scenario, words_known
from scalewall.units import parse, show
from scalewall.workload.scaling import Scaling

Words = Mapping[str, Any]
Read = tuple[dict[str, Any], tuple[Any, ...]]
Columns = Mapping[str, str]
"""Names of columns with what they hold: float, int, text, bool or floats (a list)."""

_DEGREES = ("dp", "tp_model", "tp_ff", "pp", "ep", "microbatches", "interleave")
_OF_A_CURVE = {"from_flop", "to_flop", "points"}
_TABLES = {"scaling", "how", "space", "uncertain", "practice", "allowance"}
_FIRST = ("sustained", "peak_rate")  # set before caches, whose bandwidth moves with them


@attrs.frozen(kw_only=True)
class Ask:
    """One kind of question.

    Attributes
    ----------
    words
        The fields that it takes beside the numbers of devices.
    needs
        Those that have no default.
    columns
        The columns of its answer.
    read
        Reads the words, and the numbers of the device to change, without answering: the scenario as
        plain values (with these numbers in SI under ``changes``), and what `answer` takes.
    answer
        Answers with the columns as plain values.
    """

    words: frozenset[str]
    needs: tuple[str, ...]
    columns: Columns
    read: Callable[[Words, Words], Read]
    answer: Callable[..., dict[str, Any]]


def number(ask: str, name: str) -> Input | None:
    """Return the word `name` of a question as a number with unit and bounds, or None if it is no number."""
    owners: tuple[Any, ...] = (PlanScenario, Practice, Allowance)
    if ask == "wall":
        return _input(name, _WALL_UNITS[name], _WALL_DEFAULTS[name], 1e-30, 1e30)
    if ask != "plan":
        owners = (Scenario, Scaling, Assumptions)
        if name == "training_flop":
            return _input(name, "FLOP", math.nan, 0.0, 1e45)
        if name in {*_DEGREES, "devices"}:
            return _input(name, "1", math.nan, 1.0, 1e18, whole=True)
    for owner in owners:
        for a in attrs.fields(owner):
            if a.name != name:
                continue
            default = math.nan if a.default in (attrs.NOTHING, None) else a.default
            if "open_below" in a.metadata:
                m = a.metadata
                return _input(name, m["unit"], default, m["least"], m["most"])
            if a.metadata.get("unit") in ("1", "tokens") and isinstance(default, (int, float)):
                least = 2.0 if name == "points" else 1.0
                return _input(name, a.metadata["unit"], default, least, 1e9, whole=True)
            if ask == "plan" and name in ("tp", "cp", "dp", "pp", "vpp", "micro_batch", "zero", "shard"):
                return _input(name, "1", math.nan, 1.0, 1e9, whole=True)
    return None


def _input(name: str, unit: str, value: Any, least: float, most: float, whole: bool = False) -> Input:
    """Return a number that is a word of the question: it is said, not set."""
    return Input(
        name=name,
        unit=unit,
        doc="",
        value=float(value),
        change=lambda s, c, _: (s, c),
        least=least,
        most=most,
        whole=whole,
    )


# Scaling ---------------------------------------------------------------------------------------------


def device_numbers(ask: str, words: Words) -> dict[str, Input]:
    """Return by name the numbers that a question can change beside its words, on the device it names."""
    if ask == "wall":
        return {}
    if ask == "plan":
        asked = scenario(**{name: words[name] for name in ("hardware", "preset") if name in words})
        return inputs_of_cluster(asked, asked.clusters[0])
    of_scenario = {n: v for n, v in words.items() if n in words_known() - {"uncertain"}}
    asked = scenario(**of_scenario)
    own = ASKS[ask].words
    return {n: given for n, given in inputs(asked, asked.clusters[0]).items() if n not in own}


def _with_changes(ask: str, words: Words, changes: Words) -> tuple[Scenario, Cluster, dict[str, float]]:
    """Return the scenario, its one device with `changes` made to it, and these in SI."""
    asked = _one_device(scenario(**words))
    cluster = asked.clusters[0]
    if not changes:
        return asked, cluster, {}
    known = device_numbers(ask, words)
    for name in changes:
        if name not in known:
            raise InputError(name, f"a number that {cluster.name} has and that is not infinite", name)
    values = {name: number_of(value, known[name], name) for name, value in changes.items()}
    for name in sorted(values, key=lambda name: name not in _FIRST):
        asked, cluster = known[name].set(asked, cluster, values[name])
    return asked, cluster, values


def _read_limits(words: Words, changes: Words) -> Read:
    asked, cluster, values = _with_changes("limits", words, changes)
    return {"scenario": asked.as_dict(), "changes": values}, (asked, cluster)


def _limits(asked: Scenario, cluster: Cluster) -> dict[str, Any]:
    curve = limits_of(asked, cluster)
    row: dict[str, Any] = {name: getattr(curve, name) for name in _LIMITS if hasattr(curve, name)}
    if curve.knee is not None:
        row |= {"knee_mfu": curve.knee.mfu, "knee_devices": curve.knee.n_devices}
    row["curve_flop"] = [point.training_flop for point in curve.points]
    row["curve_mfu"] = [point.mfu for point in curve.points]
    row["curve_devices"] = [float(point.n_devices) for point in curve.points]
    return row


def _read_best(words: Words, changes: Words) -> Read:
    rest = {name: value for name, value in words.items() if name not in ("training_flop", "devices")}
    flop = parse(words.get("training_flop"), "FLOP", "training_flop")
    devices = words.get("devices")
    devices = None if devices is None else whole(parse(devices, "1", "devices"), "devices")
    asked, cluster, values = _with_changes("best", rest, changes)
    said = {"scenario": asked.as_dict(), "changes": values, "training_flop": flop, "devices": devices}
    return said, (asked, cluster, flop, devices)


def _best(asked: Scenario, cluster: Cluster, flop: float, devices: int | None) -> dict[str, Any]:
    found = best_points(asked, flop, devices=devices, top=1, clusters=[cluster])
    row = point_row(found[cluster.name][0])
    return {**row, "in_time": row["duration_s"] <= asked.duration}


def _read_point(words: Words, changes: Words) -> Read:
    degrees = dict.fromkeys(_DEGREES, 1) | {n: words[n] for n in _DEGREES if n in words}
    for name, value in degrees.items():
        if not str(value).isdecimal():
            raise InputError(name, "one whole number of at least 1", value)
    devices = math.prod(int(degrees[name]) for name in AXES)
    return _read_best({"schedule": "1f1b", **words, **degrees, "devices": devices}, changes)


def point_row(point: Point) -> dict[str, Any]:
    """Return a point as one flat row."""
    record = of_point(point)
    strategy = record.pop("strategy")
    layout = {f"{axis}_layout": "x".join(map(str, p)) for axis, p in strategy.pop("layout").items()}
    seconds = {f"{cause}_s": time for cause, time in record.pop("seconds_by_cause").items()}
    return {**record, **strategy, **layout, **seconds}


def _one_device(asked: Scenario) -> Scenario:
    if len(asked.hardware) != 1:
        raise InputError("hardware", "one device; several are an axis of a grid", list(asked.hardware))
    return asked


# Plans and the closed form ---------------------------------------------------------------------------


def _read_plan(words: Words, changes: Words) -> Read:
    asked = plan_scenario(**words)
    _ = asked.job  # raises what is wrong with its names
    device = {"hardware": asked.hardware, "preset": asked.preset}
    _, cluster, values = _with_changes("plan", device, changes)
    return {"scenario": attrs.asdict(asked), "changes": values}, (asked, cluster)


def _plan(asked: PlanScenario, cluster: Cluster) -> dict[str, Any]:
    question = asked.question()
    if cluster != question.machine.cluster:
        question = attrs.evolve(question, machine=Machine.of(cluster))
    found = best_plans(question, 1)
    plan = found.plans[0] if found.plans else nearest_plan(question)
    if plan is None:
        raise NoAnswer(
            f"Nothing that is left open divides a batch of {asked.batch:,} over {asked.gpus:,} devices."
        )
    one = priced(asked, question, plan)
    if not found.plans and not (asked.tp and asked.pp):
        need, have = show(one.memory, "B", 3), show(one.memory_capacity, "B", 3)
        raise NoAnswer(
            f"No strategy fits {asked.gpus:,} devices: one needs at least {need}, a device has {have}."
        )
    row: dict[str, Any] = {name: getattr(one, name) for name in _PLANNED}
    row |= attrs.asdict(plan) | {f"{name}_s": time for name, time in one.seconds_by_cause.items()}
    row |= {f"{name}_bytes": size for name, size in one.memory_bytes.items()}
    row["memory_bytes"] = one.memory
    return row | ({name: getattr(one.run, name) for name in _RUN} if one.run else {})


def _read_wall(words: Words, changes: Words) -> Read:
    said = {name: parse(value, _WALL_UNITS[name], name) for name, value in words.items()}
    closed_form.wall(**said)  # it checks the bounds, and takes no time
    return {"scenario": said, "changes": {}}, (said,)


def _wall(said: Mapping[str, float]) -> dict[str, Any]:
    answer = closed_form.wall(**said)
    return {"parameters": answer.parameters, "training_flop": answer.training_flop}


def _of(kind: str, names: Iterable[str], ending: str = "") -> dict[str, str]:
    return {f"{name}{ending}": kind for name in names}


_LIMITS = {
    **_of("float", ("sustained_mfu", "threshold_mfu", "knee_flop", "knee_mfu")),
    **{"knee_devices": "int", "knee_binding": "text", "wall_flop": "float"},
    **{"wall_binding": "text", "binding": "text"},
    **_of("floats", ("curve_flop", "curve_mfu", "curve_devices")),
}
_POINT = {
    **{"training_flop": "float", "mfu": "float", "n_devices": "int", "duration_s": "float"},
    **{"binding": "text", "step_seconds": "float", "memory_bytes": "float"},
    **_of("float", ("parameters", "sparsity", "tokens", "d_model", "layers", "batch_tokens")),
    **{name: "text" if name == "schedule" else "int" for name in STRATEGY_FIELDS},
    **_of("text", AXES, "_layout"),
    **_of("float", CAUSES, "_s"),
}
_PLANNED = {
    **_of("float", ("step_time_s", "mfu", "hfu", "tokens_per_s", "tokens_per_s_per_device")),
    **{"binds": "text", "fits": "bool", "stage": "text", "memory_capacity": "float"},
}
_KINDS = {"recomputed": "float", "selective": "bool", "schedule": "text"}
_RUN = {name: "float" for name in ("steps", "duration_s", "device_hours", "energy_j", "cost_usd")}
_WALL_UNITS = {
    **{"latency": "s", "layers": "1", "batch": "tokens", "duration": "s"},
    "tokens_per_parameter": "1",
}
_WALL_DEFAULTS = {n: p.default for n, p in inspect.signature(closed_form.wall).parameters.items()}
_SCALING = frozenset(words_known() - _TABLES)
_PLAN_WORDS = frozenset(
    a.name
    for owner in (PlanScenario, Practice, Allowance)
    for a in attrs.fields(owner)
    if a.name not in _TABLES | {"top"}
)

ASKS: Mapping[str, Ask] = {
    "limits": Ask(words=_SCALING, needs=(), columns=_LIMITS, read=_read_limits, answer=_limits),
    "best": Ask(
        words=(_SCALING - _OF_A_CURVE) | {"training_flop", "devices"},
        needs=("training_flop",),
        columns={**_POINT, "in_time": "bool"},
        read=_read_best,
        answer=_best,
    ),
    "point": Ask(
        words=(_SCALING - _OF_A_CURVE) | {"training_flop"},
        needs=("training_flop",),
        columns={**_POINT, "in_time": "bool"},
        read=_read_point,
        answer=_best,
    ),
    "plan": Ask(
        words=_PLAN_WORDS,
        needs=("model", "hardware", "gpus", "batch", "seq"),
        columns={
            **_PLANNED,
            **{a.name: _KINDS.get(a.name, "int") for a in attrs.fields(Plan)},
            **_of("float", TRAINING_CAUSES, "_s"),
            **_of("float", ("memory", *MEMORY_ITEMS), "_bytes"),
            **_RUN,
        },
        read=_read_plan,
        answer=_plan,
    ),
    "wall": Ask(
        words=frozenset(_WALL_UNITS),
        needs=(),
        columns={"parameters": "float", "training_flop": "float"},
        read=_read_wall,
        answer=_wall,
    ),
}
"""The questions by name: ``limits``, ``best`` and ``plan`` as the commands; ``point`` is one given strategy,
deadline aside; ``wall`` the closed form."""
