"""The words of a plan: which model on which cluster, how it is trained, and what of the plan is fixed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from scalewall.cost.machine import Machine
from scalewall.cost.practice import SOFTWARE, Practice, Software, software
from scalewall.cost.training_memory import Allowance
from scalewall.errors import InputError, InputErrors, nearest
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.schema import read_toml, structure, whole
from scalewall.strategy.plans import SCHEDULES, PlanSpace, Question, recomputation
from scalewall.units import quantity
from scalewall.workload.formats import read_model
from scalewall.workload.job import RECIPES, Job

MOST_DEVICES = 10_000_000
_COUNT = re.compile(r"\d+(_\d+)*|\d{1,3}(,\d{3})+", re.ASCII)
DEGREES = ("tp", "cp", "dp", "pp", "vpp", "micro_batch", "zero")


def _degrees(name: str) -> Any:
    return attrs.field(
        default=None,
        metadata={
            "doc": f"{name}, or several to choose from",
            "read": lambda value: read_degrees(value, name),
        },
    )


def read_degrees(value: object, field: str) -> tuple[int, ...] | None:
    """Return the degrees that a user fixes: a number, several, or text of several apart by commas.

    Raises
    ------
    InputError
        If one is no whole number, or too small.
    """
    if value is None:
        return None
    parts: Sequence[Any] = (
        value.split(",")
        if isinstance(value, str)
        else (value if isinstance(value, (list, tuple)) else [value])
    )
    least = 0 if field == "zero" else 1
    must = "0, 1, 2 or 3" if field == "zero" else "a whole number of at least 1, or several such as '4,8'"
    found = []
    for part in parts:
        text = str(part).strip()
        if isinstance(part, bool) or not text.isdecimal() or int(text) < least or len(text) > 9:
            raise InputError(field, must, value)
        found.append(int(text))
    if not found or (field == "zero" and max(found) > 3):
        raise InputError(field, must, value)
    return tuple(dict.fromkeys(found))


def read_recompute(value: object) -> str | int | None:
    """Return how much is recomputed, as `strategy.plans.recomputation` reads it; None is left open."""
    if value is None:
        return None
    recomputation(value)
    text = str(value)
    return int(text) if text.isdecimal() else text


@attrs.frozen(kw_only=True)
class PlanScenario:
    """What is asked of `plan`: everything that a TOML file or a link can hold.

    `model` and `hardware` are names of the catalogues or paths. What is left None of the degrees is
    searched, but for `cp`, which is 1 where `tp`, `pp` and `dp` are given. `tokens` makes a whole run
    of the step.
    """

    model: str = attrs.field(
        metadata={
            "doc": "a name, or the path of a config.json, a TOML file or arguments",
            "read": lambda v: read_name(v, "model"),
        }
    )
    hardware: str = attrs.field(
        metadata={
            "doc": "device: a name, or the path of a TOML file",
            "read": lambda v: read_name(v, "hardware"),
        }
    )
    gpus: int = attrs.field(
        metadata={"unit": "1", "doc": "devices", "read": lambda v: read_count(v, "gpus", MOST_DEVICES)}
    )
    batch: int = attrs.field(
        metadata={"unit": "1", "doc": "sequences a step", "read": lambda v: read_count(v, "batch", 10**9)}
    )
    seq: int = attrs.field(
        metadata={"unit": "tokens", "doc": "tokens a sequence", "read": lambda v: read_count(v, "seq", 10**9)}
    )
    preset: str | None = attrs.field(default=None, metadata={"doc": "study whose hardware is used"})
    precision: str = attrs.field(default="bf16", metadata={"doc": f"recipe: {', '.join(RECIPES)}"})
    software: str = attrs.field(default="megatron", metadata={"doc": f"framework: {', '.join(SOFTWARE)}"})
    tp: tuple[int, ...] | None = _degrees("tp")
    cp: tuple[int, ...] | None = _degrees("cp")
    dp: tuple[int, ...] | None = _degrees("dp")
    pp: tuple[int, ...] | None = _degrees("pp")
    vpp: tuple[int, ...] | None = _degrees("vpp")
    micro_batch: tuple[int, ...] | None = _degrees("micro_batch")
    zero: tuple[int, ...] | None = _degrees("zero")
    shard: int | None = attrs.field(
        default=None,
        metadata={
            "doc": "ranks over which ZeRO and FSDP shard",
            "read": lambda v: None if v is None else read_count(v, "shard", MOST_DEVICES),
        },
    )
    recompute: str | int | None = attrs.field(
        default=None,
        metadata={"doc": "none, selective, full, layers of a stage, or selective+3", "read": read_recompute},
    )
    schedule: str = attrs.field(default="1f1b", metadata={"doc": "1f1b or zero-bubble"})
    top: int = attrs.field(
        default=10, metadata={"doc": "strategies shown", "read": lambda v: read_count(v, "top", 10_000)}
    )
    tokens: float | None = quantity("tokens", "of the whole run", default=None, optional=True, most=1e18)
    price: float | None = quantity("USD", "a device and hour", default=None, optional=True, most=1e9)
    practice: Practice = attrs.field(factory=Practice)
    allowance: Allowance = attrs.field(factory=Allowance)

    def __attrs_post_init__(self) -> None:
        faults = []
        if self.schedule not in SCHEDULES:
            faults.append(InputError("schedule", f"one of {', '.join(SCHEDULES)}", self.schedule))
        if self.preset is not None and self.preset not in catalogue.presets():
            known = nearest(str(self.preset), catalogue.presets())
            faults.append(InputError("preset", "a known preset", self.preset, known))
        if self.price is not None and self.tokens is None:
            faults.append(InputError("price", "left out without tokens, whose cost it makes", self.price))
        if faults:
            raise faults[0] if len(faults) == 1 else InputErrors(faults)

    def as_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values, as a TOML file would hold them."""
        return attrs.asdict(self, filter=lambda _, value: value is not None)

    @property
    def cluster(self) -> Cluster:
        """The cluster that `hardware` names."""
        return catalogue.load(self.hardware, self.preset)

    @property
    def framework(self) -> Software:
        """The framework that `software` names."""
        return software(self.software)

    @property
    def job(self) -> Job:
        """The model with its batch, sequence and precision."""
        job = Job(model=read_model(self.model), sequence=self.seq, batch=self.batch, precision=self.precision)
        computes = {"bf16", "fp16", *self.cluster.device.peak}
        known = [name for name, recipe in RECIPES.items() if recipe.matmul in computes]
        if job.precision not in known:
            raise InputError("precision", f"one that {self.hardware} has: {', '.join(known)}", self.precision)
        return job

    @property
    def space(self) -> PlanSpace:
        """What of a plan is fixed."""
        return PlanSpace(
            tp=self.tp,
            cp=(1,) if self.cp is None and self.tp and self.pp and self.dp else self.cp,
            dp=self.dp,
            pp=self.pp,
            interleave=self.vpp,
            micro_batch=self.micro_batch,
            zero=self.zero,
            shard=self.shard,
            recompute=self.recompute,
            schedule=self.schedule,
        )

    def question(self) -> Question:
        """Return the question for the search, once what is fixed has been found possible.

        Raises
        ------
        InputError
            If a name is not known, or what is fixed cannot be; it says what would work.
        """
        job, cluster = self.job, self.cluster
        check(self, job, cluster)
        return Question(
            job=job,
            machine=Machine.of(cluster),
            devices=self.gpus,
            practice=self.practice,
            software=self.framework,
            allowance=self.allowance,
            space=self.space,
        )


def read_name(value: object, field: str) -> str:
    """Return a name or a path as text."""
    if not isinstance(value, (str, Path)):
        raise InputError(field, "a name or a path", value)
    return str(value)


def read_count(value: object, field: str, most: float) -> int:
    """Return `value`, a whole number from 1 to `most`, also as text such as ``16,384``."""
    read = value
    if isinstance(value, str) and _COUNT.fullmatch(value.strip()):
        read = int(re.sub("[,_]", "", value.strip())[:30])
    try:
        return whole(read, field, 1, most)
    except InputError as error:
        raise InputError(field, error.must, value) from None


def check(asked: PlanScenario, job: Job, cluster: Cluster) -> None:
    """Raise the first thing that makes what is fixed impossible, with what would work."""
    model = job.model
    if asked.gpus > cluster.capacity:
        must = f"at most the {cluster.capacity:,.0f} devices that the network of {asked.hardware} joins"
        raise InputError("gpus", must, asked.gpus)
    _each(asked.tp, "tp", f"a divisor of the model's {model.heads} heads", lambda d: model.heads % d == 0)
    kv = model.kv_heads
    must = f"a divisor or a multiple of the model's {kv} heads of keys and values"
    _each(asked.tp, "tp", must, lambda d: kv % d == 0 or d % kv == 0)
    _each(
        asked.cp,
        "cp",
        f"1, or half a divisor of the sequence's {job.sequence} tokens",
        lambda d: d == 1 or job.sequence % (2 * d) == 0,
    )
    _each(asked.pp, "pp", f"at most the model's {model.layers} layers", lambda d: d <= model.layers)
    for name in ("tp", "cp", "pp", "dp"):
        must = f"a divisor of the {asked.gpus} devices"
        _each(getattr(asked, name), name, must, lambda d: asked.gpus % d == 0)
    stage = -(-model.layers // min(asked.pp or (1,)))
    layers, _ = recomputation(asked.recompute or 0)
    if stage < layers < math.inf:
        must = f"none, selective, full, or at most the {stage} layers of a stage"
        raise InputError("recompute", must, asked.recompute)
    _product(asked)
    for dp in _data_parallel(asked):
        sizes = asked.micro_batch or (1,)
        if all(job.batch % (dp * size) for size in sizes):
            group = dp * min(sizes)
            below = job.batch // group * group
            near = f"{below:,} or {below + group:,}" if below else f"{group:,}"
            must = f"a multiple of dp x micro-batch = {dp} x {min(sizes)} = {group}, such as {near}"
            raise InputError("batch", must, job.batch)
    if asked.pp and asked.vpp:
        chunks = [(pp, v) for pp in asked.pp for v in asked.vpp]
        fits = [
            v == 1 or (pp > 1 and (model.layers % (pp * v) == 0 or (model.layers + 2) % (pp * v) == 0))
            for pp, v in chunks
        ]
        if not any(fits):
            counts = [v for v in range(1, model.layers + 1) if model.layers % (asked.pp[0] * v) == 0]
            must = f"1, or so that pp x vpp divides the {model.layers} layers" + (
                f": {', '.join(map(str, counts))} for pp {asked.pp[0]}" if counts and asked.pp[0] > 1 else ""
            )
            raise InputError("vpp", must, ",".join(map(str, asked.vpp)))
    _schedule(asked, job)


def _schedule(asked: PlanScenario, job: Job) -> None:
    """Raise if the micro-batches that are fixed do not suit the schedule, or `shard` not the ranks."""
    plain = asked.schedule == "1f1b"
    chunked = bool(asked.vpp and min(asked.vpp) > 1)
    if chunked and not plain:
        raise InputError("vpp", f"1 with the schedule {asked.schedule}", asked.vpp and asked.vpp[0])
    (dp,), pp = _data_parallel(asked) or (None,), asked.pp[0] if asked.pp and len(asked.pp) == 1 else None
    cp = asked.space.cp
    if asked.zero == (0,) and asked.shard not in (None, 1):
        raise InputError("shard", "left out with ZeRO stage 0, which shards nothing", asked.shard)
    if asked.shard and dp and cp and len(cp) == 1 and dp * cp[0] % asked.shard:
        must = f"a divisor of the dp x cp = {dp * cp[0]} ranks that hold the same weights"
        raise InputError("shard", must, asked.shard)
    if dp is None or pp in (None, 1) or not asked.micro_batch:
        return
    counts = [job.batch // (dp * size) for size in asked.micro_batch]
    if chunked and all(m % pp for m in counts):
        must = f"such that a rank's micro-batches, batch / (dp x micro-batch), are a multiple of pp {pp}"
        raise InputError("batch", f"{must}, as stages have chunks", job.batch, f"They are {counts[0]}.")
    if not plain and all(m < 2 * pp for m in counts):
        must = f"such that a rank has at least 2 x pp = {2 * pp} micro-batches, for {asked.schedule}"
        raise InputError("batch", must, job.batch, f"It has {counts[0]}.")


def _each(values: tuple[int, ...] | None, field: str, must: str, good: Any) -> None:
    for value in values or ():
        if not good(value):
            raise InputError(field, must, value)


def _product(asked: PlanScenario) -> None:
    """Raise if degrees that are all fixed do not multiply to the devices."""
    space = asked.space
    fixed: Mapping[str, tuple[int, ...] | None] = {n: getattr(space, n) for n in ("tp", "cp", "pp", "dp")}
    known = {name: values[0] for name, values in fixed.items() if values and len(values) == 1}
    product = math.prod(known.values())
    if len(known) == len(fixed) and product != asked.gpus:
        degrees = " x ".join(f"{name} {value}" for name, value in known.items())
        rest = product // known["dp"]
        would = f" (dp {asked.gpus // rest} would do)" if asked.gpus % rest == 0 else ""
        raise InputError("gpus", f"the product of the degrees, {degrees} = {product}{would}", asked.gpus)
    if asked.gpus % product:
        degrees = " x ".join(f"{name} {value}" for name, value in known.items())
        raise InputError(
            "gpus", f"a multiple of the degrees that are fixed, {degrees} = {product}", asked.gpus
        )


def _data_parallel(asked: PlanScenario) -> tuple[int, ...]:
    """Return the data-parallel degrees that are fixed, outright or by all the others."""
    if asked.dp:
        return asked.dp if len(asked.dp) == 1 else ()
    others = [asked.tp, asked.cp, asked.pp]
    if all(values and len(values) == 1 for values in others):
        return (asked.gpus // math.prod(values[0] for values in others if values),)
    return ()


def plan_scenario(file: Path | None = None, /, **words: Any) -> PlanScenario:
    """Return the scenario that `words` describe, over the tables of a TOML file if there is one.

    A constant of `Practice` or `Allowance` may stand among the words; so may `ep`, the degree of expert
    parallelism, as long as it is 1.

    Raises
    ------
    InputError
        For every word that is wrong, all in one go.
    """
    tables = dict(read_toml(file)) if file else {}
    experts = words.pop("ep", tables.pop("ep", None))
    if experts is not None and read_degrees(experts, "ep") != (1,):
        raise InputError("ep", "1, as models with experts are not priced yet", experts)
    names = {a.name for a in attrs.fields(PlanScenario)}
    for part, cls in (("practice", Practice), ("allowance", Allowance)):
        own = {name: words.pop(name) for name in {a.name for a in attrs.fields(cls)} & set(words) - names}
        if own and isinstance(tables.get(part, {}), dict):  # else what it is instead is the fault
            tables[part] = {**tables.get(part, {}), **own}
    unknown = sorted(set(words) - names)
    if unknown:
        constants = {a.name for cls in (Practice, Allowance) for a in attrs.fields(cls)}
        raise InputError(
            unknown[0], "a word of plan", words[unknown[0]], nearest(unknown[0], names | constants)
        )
    tables |= {name: value for name, value in words.items() if value is not None}
    return structure(tables, PlanScenario)


def read_constants(words: Mapping[str, Any]) -> tuple[Practice, Allowance]:
    """Return the constants of `Practice` and `Allowance` with those that `words` give in their place.

    Raises
    ------
    InputError
        For every word that is wrong, all in one go.
    """
    known = {a.name: cls for cls in (Practice, Allowance) for a in attrs.fields(cls)}
    for name in words:
        if name not in known:
            raise InputError("set", "of a constant", name, nearest(name, known))
    own = [
        {name: word for name, word in words.items() if known[name] is cls} for cls in (Practice, Allowance)
    ]
    return structure(own[0], Practice), structure(own[1], Allowance)
