"""What the sources claim, our own figure for each claim, and whether the two agree.

The claims are data (`data/claims.toml`), our figures are functions (`claim_limits`, `claim_facts`) that
work them out anew every time. Whether they agree follows from the claim's tolerance and from nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs

from scalewall.errors import InputError, NoAnswer, nearest
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.schema import read_toml, structure
from scalewall.study import claim_facts, claim_limits
from scalewall.study.claim_bench import DEVICE, FIGURES, Bench, Finding
from scalewall.study.scenario import PAPER_PRESET, Scenario, scenario

__all__ = ["DEVICE", "VERDICTS", "Checked", "Claim", "claims", "find_device", "read_claims"]

SHIPPED = Path(str(files("scalewall"))) / "data" / "claims.toml"
AGREES, DIFFERS = "agrees", "differs"
CONTRADICTS, UNKNOWN = "the source contradicts itself", "not computable"
VERDICTS = (AGREES, DIFFERS, CONTRADICTS, UNKNOWN)
_FIGURES_FROM = (claim_facts, claim_limits)  # importing them has entered their functions in FIGURES

Progress = Callable[[int, int, str], None]


def _numbers(field: str) -> Callable[[object], tuple[float, ...]]:
    def read(value: object) -> tuple[float, ...]:
        values: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            raise InputError(field, "a number or a list of numbers", value)
        return tuple(float(v) for v in values)

    return read


@attrs.frozen(kw_only=True)
class Claim:
    """One claim of a source, in our own words.

    Attributes
    ----------
    claimed
        Its number or numbers; none for a claim in words.
    unit
        What the numbers, or for a claim in words our figures, count.
    tolerance, range
        By which share every figure may miss the claimed one, or between what it must lie: one of the two.
    reason
        Why that tolerance or range.
    compute
        Name of the function that finds our figure.
    """

    id: str
    source: str
    where: str
    claim: str
    unit: str
    reason: str
    compute: str
    claimed: tuple[float, ...] = attrs.field(default=(), metadata={"read": _numbers("claimed")})
    tolerance: float | None = None
    range: tuple[float, ...] | None = attrs.field(default=None, metadata={"read": _numbers("range")})
    note: str = ""

    def __attrs_post_init__(self) -> None:
        if (self.tolerance is None) == (self.range is None):
            raise InputError("tolerance", "given, or else a range", self.tolerance, f"Claim '{self.id}'.")
        if self.tolerance is not None and not self.claimed:
            raise InputError(
                "claimed", "given where there is a tolerance", self.claimed, f"Claim '{self.id}'."
            )
        if self.range is not None and (len(self.range) != 2 or not self.range[0] < self.range[1]):
            raise InputError("range", "two numbers, the lower first", self.range, f"Claim '{self.id}'.")
        if self.compute not in FIGURES:
            hint = nearest(self.compute, FIGURES)
            raise InputError("compute", "the name of a function that finds a figure", self.compute, hint)

    def admits(self, figures: Sequence[float]) -> bool:
        """Return whether `figures` are within the claim's tolerance or range."""
        if self.range is not None:
            return all(self.range[0] <= x <= self.range[1] for x in figures)
        allowed = self.tolerance or 0.0
        return len(figures) == len(self.claimed) and all(
            abs(x - c) <= allowed * abs(c) for x, c in zip(figures, self.claimed, strict=True)
        )


@attrs.frozen(kw_only=True)
class Checked:
    """A claim beside our own figure; `computed` is None where there is none, and then so is `agrees`."""

    claim: Claim
    computed: tuple[float, ...] | None
    note: str
    implied: float | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether our figure is within the claim's tolerance."""
        return None if self.computed is None else self.claim.admits(self.computed)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`: a source contradicts itself if its own other claims miss the tolerance too."""
        if self.agrees is None:
            return UNKNOWN
        if self.agrees:
            return AGREES
        contradicted = self.implied is not None and not self.claim.admits((self.implied,))
        return CONTRADICTS if contradicted else DIFFERS


def read_claims(path: Path = SHIPPED) -> tuple[Claim, ...]:
    """Return the claims of a TOML file, in its order.

    Raises
    ------
    InputError
        If the file cannot be read or a claim is wrong.
    """
    tables = read_toml(path).get("claims")
    if not isinstance(tables, list):
        raise InputError("claims", "a list of tables [[claims]]", tables)
    found = []
    for i, table in enumerate(tables):
        try:
            found.append(structure(table, Claim))
        except InputError as error:
            raise error.within(f"claims[{i}]") from None
    return tuple(found)


@functools.cache
def _shipped() -> tuple[Claim, ...]:
    return read_claims()


def claims(
    only: Sequence[str] = (),
    *,
    device: Cluster | str | None = None,
    listed: Sequence[Claim] | None = None,
    progress: Progress | None = None,
) -> tuple[Checked, ...]:
    """Return every claim with our own figure, worked out now.

    Parameters
    ----------
    only
        Ids of the claims that are wanted; all if left out.
    device
        What stands in for the H100 wherever a claim is about it: a cluster, a name of the preset
        epoch-2024 or else of the catalogue, or the path of a TOML file.
    listed
        Claims to check in place of those that ship.
    progress
        Called as claims are done.

    Raises
    ------
    InputError
        If an id or the device is unknown.
    """
    known = tuple(listed) if listed is not None else _shipped()
    chosen = _chosen(known, only)
    numbers = {claim.id: claim.claimed for claim in (*_shipped(), *known)}
    bench = Bench(numbers, find_device(device) if isinstance(device, str) else device)
    tell = progress or (lambda done, total, what: None)
    checked = []
    for i, claim in enumerate(chosen):
        tell(i, len(chosen), claim.id)
        checked.append(_check(claim, bench))
    tell(len(chosen), len(chosen), "done")
    return tuple(checked)


def find_device(name: str) -> Cluster:
    """Return the entry called `name` of the paper's preset, else of the catalogue, or that of a TOML file."""
    if name.endswith(".toml") or name in catalogue.names(PAPER_PRESET):
        return catalogue.load(name, PAPER_PRESET)
    try:
        return catalogue.load(name)
    except InputError as error:
        if error.field != "hardware":
            raise
        raise InputError("device", error.must, name, error.hint) from None


def asked_of(name: str) -> Scenario:
    """Return the scenario that claims are checked in where `name` stands in for the H100."""
    papers = name.endswith(".toml") or name in catalogue.names(PAPER_PRESET)
    return scenario(hardware=name, preset=PAPER_PRESET if papers else None)


def _chosen(known: Sequence[Claim], only: Sequence[str]) -> list[Claim]:
    ids = [claim.id for claim in known]
    for name in only:
        if name not in ids:
            raise InputError("only", "the id of a claim", name, nearest(name, ids))
    return [claim for claim in known if not only or claim.id in only]


def _check(claim: Claim, bench: Bench) -> Checked:
    try:
        found = FIGURES[claim.compute](bench)
    except NoAnswer as error:
        found = Finding(None, str(error))
    note = " ".join(part for part in (claim.note, found.note) if part)
    return Checked(claim=claim, computed=_tuple(found.value), note=note, implied=found.implied)


def _tuple(value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    values = tuple(float(v) for v in value) if isinstance(value, tuple) else (float(value),)
    return values if all(map(math.isfinite, values)) else None
