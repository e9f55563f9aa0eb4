"""A sweep as it is asked for: a grid, a list and a quasi-random sample over fields of a scenario.

Scenarios have numbers: the draws of the sample vary slowest, then the list, then the grid, its last axis
fastest. Any scenario is made from its number alone, so nothing is ever held for all of them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from scalewall.study.distributions import Uncertainty, quasi_random, read
from scalewall.study.inputs import Input
from scalewall.study.sweep_asks import ASKS, device_numbers, number
from scalewall.units import parse

Array = Any
Values = tuple[Any, ...]

BLOCK = 1 << 12  # draws made at once
_OWN_BEFORE = {"index": "int", "hash": "text"}
_OWN_BEHIND = {"error": "text", "version": "text", "seed": "int", "sweep": "text"}
RESERVED = frozenset(_OWN_BEFORE) | frozenset(_OWN_BEHIND)


def canonical(value: Any) -> str:
    """Return plain values as JSON that is the same for the same values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """Return 128 bits of SHA-256 of plain values, as hexadecimal digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]


@attrs.frozen(kw_only=True)
class Sample:
    """Draws of some fields: how many, from which sequence, and the distributions as they were written."""

    size: int
    seed: int
    sequence: str
    inputs: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are drawn, in the order of the sequence's dimensions."""
        return tuple(name for name in self.inputs if name != "correlation")

    def blocks(self) -> Iterator[Array]:
        """Yield points of the unit cube, `BLOCK` at a time: (points, fields)."""
        generator = quasi_random(self.sequence, len(self.names), self.seed)
        for _ in range(0, self.size, BLOCK):
            yield generator.random(BLOCK)


@attrs.frozen(kw_only=True)
class Design:
    """A sweep that has been read and checked.

    Attributes
    ----------
    ask
        One of `ASKS`.
    base
        What all scenarios have in common.
    grid, listed, sample
        Axes by name, rows that each name some fields, and draws.
    files
        By the text that names it, the path and the content's digest of each file that scenarios use.
    """

    ask: str
    base: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    listed: tuple[Mapping[str, Any], ...] = ({},)
    sample: Sample | None = None
    files: Mapping[str, tuple[str, str]] = attrs.field(factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that vary: the grid's, the list's, the sample's."""
        of_list = dict.fromkeys(name for row in self.listed for name in row)
        return (*self.grid, *of_list, *(self.sample.names if self.sample else ()))

    @property
    def shape(self) -> tuple[int, ...]:
        """Draws, rows of the list, and the lengths of the grid's axes."""
        draws = self.sample.size if self.sample else 1
        return (draws, len(self.listed), *(len(values) for values in self.grid.values()))

    @property
    def size(self) -> int:
        """How many scenarios there are."""
        return math.prod(self.shape)

    @property
    def seed(self) -> int | None:
        """The sample's seed, if there is a sample."""
        return self.sample.seed if self.sample else None

    def content(self) -> dict[str, Any]:
        """Return everything that the scenarios follow from, as plain values."""
        found: dict[str, Any] = {
            "ask": self.ask,
            "scenario": dict(self.base),
            "grid": {name: list(values) for name, values in self.grid.items()},
            "axes": list(self.grid),  # their order is the scenarios' order
            "list": [dict(row) for row in self.listed],
            "files": {name: content for name, (_, content) in self.files.items()},
        }
        if self.sample:
            first = next(self.sample.blocks())[: self.sample.size]
            drawn = hashlib.sha256(np.ascontiguousarray(first).tobytes()).hexdigest()[:32]
            found["sample"] = {**attrs.asdict(self.sample), "first_draws": drawn}
        return found

    # Columns -----------------------------------------------------------------------------------------

    def swept(self) -> dict[str, str]:
        """Return the columns of the fields that vary, and what they hold."""
        found: dict[str, str] = {}
        for name in self.names:
            given = [*self.grid.get(name, ()), *(row[name] for row in self.listed if name in row)]
            known = number(self.ask, name) if name in ASKS[self.ask].words else None
            if name not in ASKS[self.ask].words:
                found[name] = "float"
            elif all(isinstance(value, bool) for value in given) and given:
                found[name] = "bool"
            elif known is not None and not any(isinstance(value, str) for value in given):
                found[name] = "int" if known.whole else "float"
            else:
                found[name] = "text"
        return found

    def answers(self) -> dict[str, str]:
        """Return by its own name the column in which a part of the answer stands."""
        taken = set(self.names)
        echoed = taken & {"training_flop"} if self.ask in ("best", "point") else set()
        names = [name for name in ASKS[self.ask].columns if name not in echoed]
        return {name: f"found_{name}" if name in taken else name for name in names}

    def columns(self) -> dict[str, str]:
        """Return every column of a row, in order, and what it holds."""
        kinds = ASKS[self.ask].columns
        answers = {column: kinds[name] for name, column in self.answers().items()}
        return {**_OWN_BEFORE, **self.swept(), **answers, **_OWN_BEHIND}

    # Scenarios ---------------------------------------------------------------------------------------

    def scenarios(self, missing: Iterable[Array]) -> Iterator[tuple[int, Values]]:
        """Yield number and values (None: left out) of the scenarios that `missing` numbers, in order."""
        inner = self.size // self.shape[0]
        draws = _Draws(self)
        axes = list(self.grid.values())
        of_list = list(dict.fromkeys(name for row in self.listed for name in row))
        rows = [tuple(row.get(name) for name in of_list) for row in self.listed]
        at = {name: place for place, name in enumerate((*self.grid, *of_list))}
        per_row = inner // len(rows)
        for numbers in missing:
            for index in numbers.tolist():
                draw, rest = divmod(index, inner)
                row, rest = divmod(rest, per_row)
                chosen = []
                for values in reversed(axes):
                    rest, place = divmod(rest, len(values))
                    chosen.append(values[place])
                fixed = (*reversed(chosen), *rows[row])
                yield (
                    index,
                    fixed if self.sample is None else (*fixed, *draws.at(draw, self._device(fixed, at))),
                )

    def _device(self, fixed: Values, at: Mapping[str, int]) -> tuple[Any, Any]:
        """Return the hardware and the preset of a scenario."""
        found = []
        for name in ("hardware", "preset"):
            value = fixed[at[name]] if name in at else None
            found.append(self.base.get(name) if value is None else value)
        return found[0], found[1]

    def distributions(self, hardware: Any, preset: Any) -> Uncertainty:
        """Return the sample's distributions on a device."""
        words = dict(self.base)
        words |= {} if hardware is None else {"hardware": self.path(hardware)}
        words |= {} if preset is None else {"preset": preset}
        return read(self.sample.inputs if self.sample else {}, self.numbers(words))

    def numbers(self, words: Mapping[str, Any]) -> dict[str, Input]:
        """Return every number that may be drawn, with its value where the others are `words`."""
        found = {}
        for name in ASKS[self.ask].words:
            given = number(self.ask, name)
            if given is not None:
                said = words.get(name)
                plain = said is not None and not (isinstance(said, str) and "," in said)
                found[name] = attrs.evolve(given, value=parse(said, given.unit, name)) if plain else given
        own = {name: value for name, value in words.items() if name in ASKS[self.ask].words or name in TABLES}
        return {**device_numbers(self.ask, own), **found}

    def path(self, name: Any) -> Any:
        """Return where the file is that `name` names, or `name` if that is no file."""
        return self.files[name][0] if isinstance(name, str) and name in self.files else name


TABLES = ("scaling", "how", "space", "practice", "allowance")
"""Tables of a scenario that may stand in what all have in common."""


class _Draws:
    """Values of draws by device, one block of draws at a time."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.blocks = design.sample.blocks() if design.sample else iter(())
        self.block, self.shares = -1, np.empty((0, 0))
        self.known: dict[tuple[Any, Any], tuple[Uncertainty, list[bool]]] = {}
        self.drawn: dict[tuple[Any, Any], list[list[float]]] = {}

    def at(self, draw: int, device: tuple[Any, Any]) -> list[Any]:
        """Return the values of a draw; draws are asked for in order."""
        block, place = divmod(draw, BLOCK)
        while self.block < block:
            self.shares, self.drawn = next(self.blocks), {}
            self.block += 1
        key = (str(device[0]), device[1])
        if key not in self.drawn:
            if key not in self.known:
                found = self.design.distributions(*device)
                self.known[key] = found, [some.given.whole for some in found.inputs]
            self.drawn[key] = self.known[key][0].draw(self.shares).tolist()
        whole = self.known[key][1]
        return [int(v) if w else v for v, w in zip(self.drawn[key][place], whole, strict=True)]
