"""A scenario: everything a question about limits needs, as one object that TOML can hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.errors import InputError, InputErrors, nearest
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.schema import read_toml, structure, whole
from scalewall.strategy.space import Space
from scalewall.units import quantity
from scalewall.workload.scaling import Scaling

SEARCH_OBJECTIVES = ("mfu", "devices")
PAPER_PRESET = "epoch-2024"
MOST_POINTS = 10_000


def _table(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(field, "a table", value)
    return dict(value)


@attrs.frozen(kw_only=True)
class Scenario:
    """What is asked of `limits`: devices, how runs scale, how long they may take, and where to look.

    `hardware` holds names of the catalogue or paths of TOML files. Under a `preset` the entries,
    the grid of workloads and the space of strategies are those of its study. `to_flop` left None
    means up to the wall.
    """

    hardware: tuple[str, ...] = attrs.field(
        default=("h100-sxm",),
        metadata={
            "doc": "devices: names of the catalogue, or paths of TOML files",
            "read": lambda value: (value,) if isinstance(value, str) else tuple(value),
        },
    )
    preset: str | None = attrs.field(default=None, metadata={"doc": "study whose values are used"})
    duration: float = quantity(
        "s", "longest a run may take", default=0.25 * 3.154e7, most=3e11, source="arXiv 2411.01137"
    )
    threshold: float = quantity(
        "1",
        "share of the sustained MFU below which utilisation has fallen",
        default=0.8,
        most=1.0,
        source="arXiv 2411.01137",
    )
    scaling: Scaling = attrs.field(factory=Scaling)
    how: Assumptions = attrs.field(factory=Assumptions)
    objective: str = attrs.field(default="mfu", metadata={"doc": "what is sought: mfu or devices"})
    space: Space = attrs.field(factory=Space)
    from_flop: float = quantity(
        "FLOP", "least training compute of the curve", default=1e24, least=1.0, open_below=False, most=1e45
    )
    to_flop: float | None = quantity(
        "FLOP",
        "most training compute of the curve; the wall if left out",
        default=None,
        optional=True,
        most=1e45,
    )
    points: int = attrs.field(
        default=31,
        metadata={
            "unit": "1",
            "doc": "points of the curve",
            "read": lambda value: whole(value, "points", 2, MOST_POINTS),
        },
    )
    uncertain: Mapping[str, Any] = attrs.field(
        factory=dict,
        metadata={
            "doc": "distributions of uncertain inputs, as study.distributions reads them",
            "read": lambda value: _table(value, "uncertain"),
        },
    )

    @hardware.validator
    def _check_hardware(self, attribute: object, value: object) -> None:
        if not isinstance(value, tuple) or not value or not all(isinstance(name, str) for name in value):
            raise InputError("hardware", "at least one name of the catalogue or path of a .toml file", value)

    @preset.validator
    def _check_preset(self, attribute: object, value: str | None) -> None:
        if value is not None and value not in catalogue.presets():
            raise InputError("preset", "a known preset", value, nearest(str(value), catalogue.presets()))

    @objective.validator
    def _check_objective(self, attribute: object, value: str) -> None:
        if value not in SEARCH_OBJECTIVES:
            raise InputError("objective", f"one of {', '.join(SEARCH_OBJECTIVES)}", value)

    @points.validator
    def _check_points(self, attribute: object, value: object) -> None:
        whole(value, "points", 2, MOST_POINTS)

    def __attrs_post_init__(self) -> None:
        if self.to_flop is not None and self.to_flop <= self.from_flop:
            must = f"more than the {self.from_flop:g} FLOP at which the curve begins"
            raise InputError("to_flop", must, self.to_flop)

    @functools.cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """The hardware's entries."""
        return tuple(catalogue.load(name, self.preset) for name in self.hardware)

    @property
    def is_papers(self) -> bool:
        """Whether grid and space are those of arXiv 2411.01137."""
        return self.preset == PAPER_PRESET

    def as_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values in SI, as `scenario` reads them back."""
        laws = {law: getattr(self.scaling, law).text for law in ("batch", "depth", "sparsity")}
        return {
            **{
                name: getattr(self, name)
                for name in ("preset", "duration", "threshold", "from_flop", "to_flop")
            },
            **({} if self.is_papers else {"points": self.points, "objective": self.objective}),
            "hardware": list(self.hardware),
            "scaling": {**attrs.asdict(self.scaling, filter=lambda a, _: a.name not in laws), **laws},
            "how": attrs.asdict(self.how),
            "space": attrs.asdict(self.space, filter=lambda a, value: value != a.default and bool(value)),
            **({"uncertain": dict(self.uncertain)} if self.uncertain else {}),
        }


_INSIDE: Mapping[str, tuple[str, str]] = {
    **{name: ("scaling", name) for name in ("tokens_per_parameter", "ff_ratio")},
    **{f"{law}_law": ("scaling", law) for law in ("batch", "depth", "sparsity")},
    **{a.name: ("how", a.name) for a in attrs.fields(Assumptions)},
    **{a.name: ("space", a.name) for a in attrs.fields(Space) if a.name not in {"schedules", "inner"}},
    "schedule": ("space", "schedules"),
    "layout": ("space", "inner"),
}
"""Where in a scenario's tables the words stand that a call or a command uses."""


def words_known() -> set[str]:
    """Return every word that `scenario` takes."""
    return {a.name for a in attrs.fields(Scenario)} | set(_INSIDE) | {"sparse"}


def scenario(**words: Any) -> Scenario:
    """Return the scenario that `words` describe; what is left out or None keeps its default.

    Parameters
    ----------
    words
        ``hardware`` (a name or several), ``preset``, ``duration``, ``threshold``, ``objective``,
        ``from_flop``, ``to_flop``, ``points``; ``batch_law``, ``depth_law``, ``sparsity_law``,
        ``sparse``, ``tokens_per_parameter``, ``ff_ratio``; fixed parts of strategies (``dp``,
        ``tp_model``, ``tp_ff``, ``pp``, ``ep``, ``microbatches``, ``interleave``, ``schedule``,
        ``layout``); any field of `Assumptions`; or the tables ``scaling``, ``how`` and ``space``
        themselves. Quantities may be text with units.

    Raises
    ------
    InputErrors
        All that is wrong, in one go.
    """
    given = {name: value for name, value in words.items() if value is not None}
    sparse = given.pop("sparse", False)
    faults = [] if isinstance(sparse, bool) else [InputError("sparse", "true or false", sparse)]
    both = sparse and "sparsity_law" in given
    if sparse:
        given.setdefault("sparsity_law", "baseline")
    known = words_known() - {"sparse"}
    faults += [
        InputError(name, "absent or a known field", name, nearest(name, words_known()))
        for name in set(given) - known
    ]
    if both:
        faults.append(InputError("sparse", "left out where a sparsity_law is given", sparse))
    tables: dict[str, Any] = {name: value for name, value in given.items() if name not in _INSIDE}
    tables = {name: value for name, value in tables.items() if name in known}
    for name in [name for name in given if name in _INSIDE]:
        table, field = _INSIDE[name]
        whole_table = tables.get(table, {})
        if isinstance(whole_table, dict):  # else what it is instead is the fault
            tables[table] = {**whole_table, field: given[name]}
    made = None
    try:
        made = structure(tables, Scenario)
    except InputErrors as found:
        faults += found.errors
    except InputError as found:
        faults.append(found)
    faults = [_distributed(fault) for fault in faults] + _unknown_hardware(tables)
    if tables.get("preset") == PAPER_PRESET:
        for name in sorted(given):
            fixes = name in {"points", "objective"} or _INSIDE.get(name, (name,))[0] == "space"
            if fixes and given[name] != {}:
                faults.append(InputError(name, f"left out under {PAPER_PRESET}, which fixes it", given[name]))
    if faults or made is None:
        faults = [_in_the_callers_words(fault, given) for fault in faults]
        raise faults[0] if len(faults) == 1 else InputErrors(faults)
    return made


def _distributed(fault: InputError) -> InputError:
    """Return a fault with a hint if the value is a distribution, which has a place of its own."""
    kinds = {"lognormal", "normal", "uniform", "samples"}
    if isinstance(fault.got, Mapping) and kinds & set(fault.got) and not fault.field.startswith("uncertain"):
        hint = "Distributions stand in the table [uncertain], by the names of 'scalewall sensitivity'."
        return InputError(fault.field, fault.must, fault.got, hint)
    return fault


def _unknown_hardware(tables: Mapping[str, Any]) -> list[InputError]:
    """Return what is wrong with the entries of the hardware named, as far as there are names."""
    names, preset = tables.get("hardware", ()), tables.get("preset")
    if preset is not None and preset not in catalogue.presets():
        return []
    faults: list[InputError] = []
    names = (names,) if isinstance(names, str) else names
    for name in names if isinstance(names, (list, tuple)) else ():
        if isinstance(name, str):
            try:
                catalogue.load(name, preset)
            except InputErrors as found:
                faults += found.errors
            except InputError as found:
                faults.append(found)
    return faults


def _in_the_callers_words(fault: InputError, given: Mapping[str, Any]) -> InputError:
    for word, path in _INSIDE.items():
        here = ".".join(path)
        if word not in given:  # a table said it
            continue
        if fault.field == here or fault.field.startswith(f"{here}."):
            return InputError(word + fault.field.removeprefix(here), fault.must, fault.got, fault.hint)
    return fault


def from_toml(path: str | Path, /, **words: Any) -> Scenario:
    """Return the scenario in the TOML file at `path`, with `words` in place of the file's.

    Raises
    ------
    InputErrors
        All that is wrong with either.
    """
    tables = read_toml(Path(path))
    for name in sorted(tables.keys() & _INSIDE.keys()):
        table, field = _INSIDE[name]
        if isinstance(tables.get(table), dict) and field in tables[table]:
            raise InputError(name, f"left out where the file has {table}.{field}", tables[name])
    if words.get("sparse") and isinstance(tables.get("scaling", {}), dict):  # wins over the file's law
        tables.pop("sparsity_law", None)
        tables.get("scaling", {}).pop("sparsity", None)
    return scenario(**{**tables, **{name: value for name, value in words.items() if value is not None}})
