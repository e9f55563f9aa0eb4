"""Uncertain inputs: what a table `[uncertain]` may say, and draws from it."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from scalewall.errors import InputError, InputErrors, ScalewallError, nearest
from scalewall.study.inputs import Input
from scalewall.units import parse, show

Array = Any

KINDS = {
    "lognormal": ("median", "sigma"),
    "normal": ("mean", "std"),
    "uniform": ("low", "high"),
    "loguniform": ("low", "high"),
}
"""Distributions and their parameters; one more is a list of ``samples``, each as likely as the others."""

SEQUENCES = ("sobol", "halton")
"""Quasi-random sequences of the unit cube, by the names of `quasi_random`."""

_TIMES = re.compile(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*x\s*")
_EDGE = 1e-12  # no draw lies farther out than that share of a distribution
_EXAMPLE = "{ lognormal = { median = '4.5 us', sigma = 0.3 } }"


@attrs.frozen(kw_only=True)
class Uncertain:
    """One input with its distribution, cut to the values that it can take.

    Attributes
    ----------
    given
        The input.
    kind, numbers
        One of `KINDS` with its two parameters, or ``samples``. In the input's unit; `sigma` is that of
        the natural logarithm.
    source
        Why it is distributed like that.
    """

    given: Input
    kind: str
    numbers: tuple[float, ...]
    source: str = ""

    @property
    def name(self) -> str:
        """The input's name."""
        return self.given.name

    @property
    def text(self) -> str:
        """The distribution in words."""
        unit = self.given.unit
        if self.kind == "samples":
            return f"one of {', '.join(show(value, unit) for value in sorted(self.numbers))}"
        first, second = self.numbers
        spread = f"{second:.3g}" if self.kind == "lognormal" else show(second, unit)
        names = KINDS[self.kind]
        return f"{self.kind}, {names[0]} {show(first, unit)}, {names[1]} {spread}"

    def values(self, shares: Array) -> Array:
        """Return the values below which the `shares` of the distribution lie, in the input's unit."""
        from scipy.special import ndtr, ndtri

        u = np.clip(shares, _EDGE, 1.0 - _EDGE)
        if self.kind == "samples":
            found = np.sort(self.numbers)[np.floor(u * len(self.numbers)).astype(int)]
        elif self.kind == "uniform":
            low, high = self.numbers
            found = low + u * (high - low)
        elif self.kind == "loguniform":
            low, high = self.numbers
            found = low * np.exp(u * np.log(high / low))
        else:
            middle, spread = self.numbers
            log = self.kind == "lognormal"
            ends = []
            for end in (self.given.least, self.given.most):
                with np.errstate(divide="ignore"):
                    place = np.log(end / middle) if log else end - middle
                ends.append(ndtr(place / spread))
            z = spread * ndtri(np.clip(ends[0] + u * (ends[1] - ends[0]), _EDGE, 1.0 - _EDGE))
            found = middle * np.exp(z) if log else middle + z
        # Nothing but rounding can lie outside here.
        tiny = self.given.least or 1e-300
        return np.clip(np.round(found) if self.given.whole else found, tiny, self.given.most)


@attrs.frozen(kw_only=True, eq=False)
class Uncertainty:
    """Uncertain inputs, and how they go together: the correlation of the normals behind each (a copula)."""

    inputs: tuple[Uncertain, ...]
    correlation: Array

    @property
    def is_correlated(self) -> bool:
        """Whether any two inputs go together."""
        return bool(np.any(self.correlation != np.eye(len(self.inputs))))

    def draw(self, shares: Array) -> Array:
        """Return inputs for points of the unit cube, both of shape (points, inputs).

        Gaussian copula: `shares` become independent normals, these are mixed to have the correlation,
        and their shares go to each input's distribution.
        """
        from scipy.special import ndtr, ndtri

        u = np.asarray(shares, dtype=float)
        if self.is_correlated:
            normals = ndtri(np.clip(u, _EDGE, 1.0 - _EDGE))
            u = ndtr(normals @ np.linalg.cholesky(self.correlation).T)
        return np.stack([some.values(u[:, i]) for i, some in enumerate(self.inputs)], axis=1)


def unit_cube(n: int, dimensions: int, seed: int) -> Array:
    """Return `n` (a power of two) scrambled Sobol points of the unit cube: (points, dimensions)."""
    return quasi_random("sobol", dimensions, seed).random(n)


def quasi_random(sequence: str, dimensions: int, seed: int) -> Any:
    """Return scipy's generator of one of `SEQUENCES`, scrambled; it may be drawn from in blocks."""
    qmc = need_scipy().qmc
    kind = {"sobol": qmc.Sobol, "halton": qmc.Halton}[sequence]
    # scipy renamed the argument in 1.15; under the old name the same seed means other points.
    name = "rng" if "rng" in inspect.signature(qmc.Sobol.__init__).parameters else "seed"
    seeded: Mapping[str, Any] = {name: np.random.default_rng(seed)}
    return kind(dimensions, scramble=True, **seeded)


def need_scipy() -> Any:
    """Return `scipy.stats`.

    Raises
    ------
    ScalewallError
        If it is not installed.
    """
    try:
        from scipy import stats
    except ImportError:
        raise ScalewallError(
            "Quasi-random draws need scipy, which is not installed: pip install 'scalewall[uncertainty]'."
        ) from None
    return stats


# Reading ---------------------------------------------------------------------------------------------


def read(tables: Mapping[str, Any], known: Mapping[str, Input], lenient: bool = False) -> Uncertainty:
    """Return the uncertain inputs that the table `[uncertain]` names.

    Parameters
    ----------
    tables
        By input a distribution: ``{lognormal: {median, sigma}}``, ``{normal: {mean, std}}``,
        ``{uniform: {low, high}}``, ``{loguniform: {low, high}}`` or ``{samples: [...]}``, with an optional
        ``source``. Values may be text with a unit, or multiples of what the scenario has (``1.2x``).
        Optionally ``correlation: {inputs: [...], matrix: [[...], ...]}``.
    known
        The scenario's inputs by name.
    lenient
        Leave out inputs that the scenario has not.

    Raises
    ------
    InputErrors
        All that is wrong with it.
    """
    faults: list[InputError] = []
    found: list[Uncertain] = []
    for name, table in tables.items():
        if name == "correlation" or (lenient and name not in known):
            continue
        try:
            found.append(_uncertain(name, table, known))
        except InputError as error:
            faults.append(error)
    if not tables.keys() - {"correlation"}:
        faults.append(InputError("uncertain", "a table with at least one input", dict(tables)))
    names = [some.name for some in found]
    if "latency" in names:  # it moves the others
        for other in (n for n in names if n.endswith("_latency")):
            faults.append(InputError(f"uncertain.{other}", "left out beside latency, which moves it", other))
    correlation = np.eye(len(found))
    if not faults and "correlation" in tables:
        try:
            correlation = _correlation(tables["correlation"], names)
        except InputError as error:
            faults.append(error)
    if faults:
        raise faults[0] if len(faults) == 1 else InputErrors(faults)
    return Uncertainty(inputs=tuple(found), correlation=correlation)


def _uncertain(name: str, table: Any, known: Mapping[str, Input]) -> Uncertain:
    field = f"uncertain.{name}"
    if name not in known:
        raise InputError(field, "an input of the scenario", name, nearest(name, known))
    if not isinstance(table, Mapping):
        raise InputError(field, f"a distribution such as {_EXAMPLE}", table)
    kinds = [kind for kind in table if kind != "source"]
    allowed = [*KINDS, "samples"]
    for kind in kinds:
        if kind not in allowed:
            must = f"a distribution: {', '.join(allowed)}"
            raise InputError(f"{field}.{kind}", must, kind, nearest(str(kind), allowed))
    if len(kinds) != 1:
        raise InputError(field, f"one distribution of {', '.join(allowed)}", kinds)
    if not isinstance(table.get("source", ""), str):
        raise InputError(f"{field}.source", "a text", table["source"])
    kind, given = kinds[0], known[name]
    reader = _samples if kind == "samples" else _parameters
    numbers = reader(kind, table[kind], given, f"{field}.{kind}")
    return Uncertain(given=given, kind=kind, numbers=numbers, source=table.get("source", ""))


def _samples(kind: str, values: Any, given: Input, field: str) -> tuple[float, ...]:
    if not isinstance(values, (list, tuple)) or not values:
        raise InputError(field, "a list of at least one value", values)
    return tuple(_possible(value, given, f"{field}[{i}]") for i, value in enumerate(values))


def _parameters(kind: str, values: Any, given: Input, field: str) -> tuple[float, ...]:
    names = KINDS[kind]
    if not isinstance(values, Mapping):
        raise InputError(field, f"a table of {' and '.join(names)}", values)
    for name in sorted(set(values) - set(names)):
        raise InputError(f"{field}.{name}", "absent or a known field", name, nearest(str(name), names))
    for name in names:
        if name not in values:
            raise InputError(f"{field}.{name}", "given", None)
    if kind in ("uniform", "loguniform"):
        low, high = (_possible(values[name], given, f"{field}.{name}") for name in names)
        if low >= high:
            raise InputError(f"{field}.high", f"more than low ({show(low, given.unit)})", values["high"])
        return low, high
    middle = _possible(values[names[0]], given, f"{field}.{names[0]}")
    place = f"{field}.{names[1]}"
    spread = (
        parse(values["sigma"], "1", place) if kind == "lognormal" else number_of(values["std"], given, place)
    )
    if not 0.0 < spread < math.inf:
        raise InputError(place, "a positive number", values[names[1]])
    return middle, spread


def number_of(value: Any, given: Input, field: str) -> float:
    """Return a value in SI: a number, a text with a unit, or a multiple such as ``1.2x`` of `given`."""
    if isinstance(value, str) and (match := _TIMES.fullmatch(value)):
        return float(match[1]) * given.value
    return parse(value, given.unit, field)


def _possible(value: Any, given: Input, field: str) -> float:
    number = number_of(value, given, field)
    if not given.allows(number):
        low = f"at least {show(given.least, given.unit)}" if given.least else "positive"
        high = f" and at most {show(given.most, given.unit)}" if math.isfinite(given.most) else ""
        raise InputError(field, f"a {'whole ' if given.whole else ''}number, {low}{high}", value)
    return number


def _correlation(table: Any, names: list[str]) -> Array:
    """Return the correlation of all inputs; those that the table does not name are independent."""
    where = "uncertain.correlation"
    if not isinstance(table, Mapping) or set(table) - {"inputs", "matrix"} or "matrix" not in table:
        raise InputError(where, "a table of inputs and matrix", table)
    some = table.get("inputs", names)
    if not isinstance(some, list):
        raise InputError(f"{where}.inputs", "a list of uncertain inputs", some)
    for name in some:
        if name not in names or some.count(name) > 1:
            must = "uncertain inputs, each once"
            raise InputError(f"{where}.inputs", must, name, nearest(str(name), names))
    try:
        matrix = np.array(table["matrix"], dtype=float)
    except (TypeError, ValueError):
        matrix = np.zeros(())
    checks: list[tuple[str, Callable[[], bool]]] = [
        (f"{len(some)} rows of {len(some)} numbers", lambda: matrix.shape == (len(some), len(some))),
        ("symmetric", lambda: bool(np.allclose(matrix, matrix.T, atol=1e-12))),
        ("1 on its diagonal", lambda: bool(np.allclose(np.diag(matrix), 1.0, atol=1e-12))),
        ("positive definite", lambda: bool(np.linalg.eigvalsh(matrix).min() > 1e-12)),
    ]
    for must, holds in checks:
        if not holds():
            raise InputError(f"{where}.matrix", must, table["matrix"])
    full = np.eye(len(names))
    at = [names.index(name) for name in some]
    full[np.ix_(at, at)] = matrix
    return full
