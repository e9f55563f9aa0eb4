"""The fields of the forms: what is asked for, in which unit, between which ends, and what it stands at.

Meaning, unit, default and source are those of the classes that read the words; here stands only how a
form shows them. No entry that is not a field here reaches `study`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.cost.practice import SOFTWARE
from scalewall.hardware import catalogue
from scalewall.hardware.device import PRECISIONS
from scalewall.strategy.plans import SCHEDULES
from scalewall.strategy.space import Space
from scalewall.study import records
from scalewall.study.planning import PlanScenario
from scalewall.study.scenario import SEARCH_OBJECTIVES, Scenario
from scalewall.units import YEAR, show
from scalewall.workload.formats import model_names
from scalewall.workload.job import RECIPES
from scalewall.workload.scaling import BATCH_LAWS, DEPTH_LAWS, SPARSITY_LAWS

MOST_POINTS = 120
"""Of a curve on the page."""

MOST_STRATEGIES = 50
"""Of a plan on the page."""

POINTS = "60"
"""Of a curve on the page, unless a visitor says otherwise."""

MONTH = YEAR / 12


@attrs.frozen(kw_only=True)
class Field:
    """One entry of a form.

    `kind` is ``text``, ``choice`` (one of `options`) or ``switch``; a text may have a slider between
    `ends` (SI), which moves in equal factors, or in equal steps if `straight`; `scale` is the unit that
    the slider writes.
    """

    key: str
    label: str
    group: str
    kind: str = "text"
    default: str = ""
    unit: str = ""
    doc: str = ""
    source: str = ""
    options: tuple[str, ...] = ()
    ends: tuple[float, float] | None = None
    straight: bool = False
    whole: bool = False
    scale: tuple[str, float] = ("", 1.0)
    empty: str = ""


def _known() -> dict[str, dict[str, Any]]:
    """Return meaning, unit, default and source of every word of a scenario."""
    found = {entry["name"]: entry for entry in records.assumptions()}
    for cls in (Scenario, Space):
        for a in attrs.fields(cls):
            found.setdefault(a.name, {"default": a.default, **dict(a.metadata)})
    return found


def _default(known: dict[str, Any]) -> str:
    default, unit = known.get("default"), known.get("unit") or "1"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return show(default, unit) if unit not in {"FLOP"} else f"{default:g}"
    return str(default) if isinstance(default, (str, int)) else ""


def _field(known: dict[str, Any], key: str, label: str, group: str, **more: Any) -> Field:
    given = {
        "default": _default(known),
        **{name: str(known.get(name) or "") for name in ("unit", "doc", "source")},
    }
    return Field(key=key, label=label, group=group, **{**given, **more})


def limits_fields() -> Iterator[Field]:
    """Yield the fields of a question about limits."""
    known = _known()

    def of(key: str, label: str, group: str, **more: Any) -> Field:
        return _field(known.get(key, {}), key, label, group, **more)

    run, law, how, lock, look = "The run", "Scaling laws", "Assumptions", "Lock degrees", "Where to look"
    yield of("hardware", "Device", run, kind="choice", options=tuple(catalogue.names()), default="h100-sxm")
    yield of(
        "preset",
        "Study",
        run,
        kind="choice",
        options=("", *catalogue.presets()),
        empty="none: the whole space",
    )
    yield of(
        "duration",
        "Longest duration",
        run,
        ends=(MONTH / 30, 120 * MONTH),
        scale=("months", MONTH),
        default="3 months",
    )
    yield of("threshold", "Utilisation floor", run, ends=(0.05, 1.0), straight=True, scale=("", 1.0))
    yield of("batch_law", "Batch", law, options=tuple(BATCH_LAWS))
    yield of("depth_law", "Depth", law, options=tuple(DEPTH_LAWS))
    yield of("sparsity_law", "Sparsity", law, options=tuple(SPARSITY_LAWS))
    yield of("tokens_per_parameter", "Tokens a parameter", law, ends=(1.0, 1000.0))
    yield of("ff_ratio", "MLP width over model width", law, ends=(1.0, 16.0))
    yield of("precision", "Precision", how, kind="choice", options=PRECISIONS)
    yield of("word", "Bytes a number that moves", how, ends=(0.5, 4.0), straight=True, scale=("B", 1.0))
    yield of(
        "optimizer", "Optimizer state a parameter", how, ends=(0.0, 16.0), straight=True, scale=("B", 1.0)
    )
    yield of("fill", "Share of a cache that a tile fills", how, ends=(0.05, 1.0), straight=True)
    for name, what in (
        ("tensor", "Tensor-parallel"),
        ("exchange", "Pipeline and expert"),
        ("data", "Data-parallel"),
    ):
        yield of(f"overlap_{name}", f"{what} traffic overlaps", how, kind="switch")
    yield from _limits_locks(known, lock)
    yield of("from_flop", "From", look, ends=(1e20, 1e32))
    yield of("to_flop", "To", look, default="", empty="the wall")
    yield of("points", "Points", look, default=POINTS, ends=(5, MOST_POINTS), straight=True, whole=True)
    yield of("objective", "Best means", look, kind="choice", options=SEARCH_OBJECTIVES)


def _limits_locks(known: dict[str, Any], lock: str) -> Iterator[Field]:
    for key, label in (
        ("dp", "Data parallel"),
        ("tp_model", "Tensor parallel, model width"),
        ("tp_ff", "Tensor parallel, MLP width"),
        ("pp", "Pipeline stages"),
        ("ep", "Expert parallel"),
        ("microbatches", "Micro-batches"),
        ("interleave", "Chunks a stage"),
    ):
        yield _field(known.get(key, {}), key, label, lock, default="", empty="best")
    yield _field(
        known.get("schedules", {}),
        "schedule",
        "Schedule",
        lock,
        kind="choice",
        options=("", "1f1b", "zero-bubble"),
        default="",
        empty="best",
    )


def plan_fields() -> Iterator[Field]:
    """Yield the fields of a question about a plan."""
    known = {a.name: {"default": a.default, **dict(a.metadata)} for a in attrs.fields(PlanScenario)}

    def of(key: str, label: str, group: str, **more: Any) -> Field:
        return _field(known[key], key, label, group, **more)

    run, lock, cost = "The run", "Lock and re-optimise", "Cost of the whole run"
    yield of("model", "Model", run, kind="choice", options=tuple(model_names()), default="gpt3-175b")
    yield of(
        "hardware", "Device", run, kind="choice", options=tuple(catalogue.names()), default="a100-80gb-sxm"
    )
    yield of("gpus", "Devices", run, default="1024", ends=(8, 131072), whole=True)
    yield of("batch", "Sequences a step", run, default="1536", ends=(16, 65536), whole=True)
    yield of("seq", "Tokens a sequence", run, default="2048", ends=(512, 1048576), whole=True)
    yield of("precision", "Precision", run, kind="choice", options=tuple(RECIPES))
    yield of("software", "Software", run, kind="choice", options=tuple(SOFTWARE))
    for key, label in (
        ("tp", "Tensor parallel"),
        ("pp", "Pipeline stages"),
        ("dp", "Data parallel"),
        ("cp", "Context parallel"),
        ("vpp", "Chunks a stage"),
        ("micro_batch", "Micro-batch"),
        ("zero", "ZeRO stage"),
        ("shard", "Ranks ZeRO shards over"),
        ("recompute", "Recomputation"),
    ):
        options = ("none", "selective", "full") if key == "recompute" else ()
        yield of(key, label, lock, default="", empty="best", options=options)
    yield of("schedule", "Schedule", lock, kind="choice", options=SCHEDULES)
    yield of(
        "top", "Strategies shown", lock, default="10", ends=(1, MOST_STRATEGIES), straight=True, whole=True
    )
    yield of("tokens", "Tokens", cost, default="", ends=(1e9, 1e15), empty="none")
    yield of(
        "price",
        "Price a device and hour",
        cost,
        default="",
        ends=(0.1, 20.0),
        scale=("USD", 1.0),
        empty="none",
    )


def forms() -> dict[str, list[dict[str, Any]]]:
    """Return the fields of both forms as plain values."""
    return {
        "limits": [attrs.asdict(field) for field in limits_fields()],
        "plan": [attrs.asdict(field) for field in plan_fields()],
    }


ASSUMED = frozenset(a.name for a in attrs.fields(Assumptions)) | {"ff_ratio"}
"""Words that a command takes as ``--set NAME=VALUE``."""
