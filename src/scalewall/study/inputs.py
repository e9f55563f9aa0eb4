"""The numbers of a scenario that can be changed one by one: name, unit, value, bounds, and a way to set each.

What asks how an answer depends on its inputs (elasticities, inverse design, draws of uncertain values)
asks it of these. Nothing is changed in place: `Input.set` returns another scenario and cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from scalewall.errors import InputError
from scalewall.hardware.cluster import Cluster, Tier
from scalewall.hardware.device import Device
from scalewall.study.scenario import Scenario
from scalewall.workload.scaling import BATCH_LAWS, DEPTH_LAWS, PowerLaw, Scaling

Change = Callable[[Scenario, Cluster, float], tuple[Scenario, Cluster]]

_PIVOT = r"\(\s*{variable}\s*/\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*\)"
"""How a law writes the value of its variable at which it is anchored: ``(C/3e23)^(1/6)``."""

_MAIN = ("C", "N", "D", "d", "f")
"""Variables of which the first that a law has is its main one; S only corrects for sparse models."""


@attrs.frozen(kw_only=True)
class Input:
    """One number that an answer depends on.

    Attributes
    ----------
    name, unit, doc
        What it is called, its unit in SI, and what it is.
    value
        Its value in the scenario and cluster that were asked, in SI; positive and finite.
    least, most
        The values it can take, both included, but for a `least` of zero.
    whole
        Whether it must be a whole number.
    exponent
        Whether it is an exponent: a share of it changes an answer by orders of magnitude.
    """

    name: str
    unit: str
    doc: str
    value: float
    change: Change = attrs.field(eq=False, repr=False)
    least: float = 0.0
    most: float = math.inf
    whole: bool = False
    exponent: bool = False

    def set(self, scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
        """Return `scenario` and `cluster` with this input at `value`, in SI.

        Raises
        ------
        InputError
            If it cannot take that value.
        """
        if not self.allows(value):
            sign = f"from {self.least:g}" if self.least else "above 0"
            top = f" to {self.most:g}" if math.isfinite(self.most) else ""
            raise InputError(self.name, f"a {'whole ' if self.whole else ''}number {sign}{top}", value)
        return self.change(scenario, cluster, value)

    def scale(self, scenario: Scenario, cluster: Cluster, factor: float) -> tuple[Scenario, Cluster]:
        """Return `scenario` and `cluster` with this input at `factor` times its `value`."""
        return self.set(scenario, cluster, self.value * factor)

    def allows(self, value: float) -> bool:
        """Return whether this input can take `value`."""
        inside = 0.0 < value < math.inf and self.least <= value <= self.most
        return inside and (not self.whole or value == int(value))


def inputs(scenario: Scenario, cluster: Cluster) -> dict[str, Input]:
    """Return by name every input of `scenario` on `cluster` that can be changed by a factor.

    What is zero, infinite or unknown (an infinite network, a cache without a limit to its bandwidth)
    has no factor and is left out.

    - Tiers are ``scale_up`` and ``scale_out``, or have their own names where there are more than two.
      ``latency`` is all latencies together: what one multiplication waits for, its kernel and an
      all-reduce over all tiers.
    - ``sustained`` moves with the clock, and with it caches whose bandwidth is bytes a clock.
    - An exponent changes about the law's pivot, which a law states by writing its variable over a
      number: the baseline batch law, ``(C/3e23)^(1/6)``, keeps its batch at 3e23 FLOP. A law without
      a pivot keeps its coefficient, its value where the variable is 1, which changes it greatly
      wherever runs are. A constant is the law's value at the pivot, or else its coefficient.
    """
    found = [*_of_network(cluster), *_of_device(scenario, cluster), *_of_scenario(scenario)]
    return {i.name: i for i in found if 0.0 < i.value < math.inf}


def inputs_of_cluster(scenario: Scenario, cluster: Cluster) -> dict[str, Input]:
    """Return those of `inputs` that are the network's and the device's."""
    found = [*_of_network(cluster), *_of_device(scenario, cluster)]
    return {i.name: i for i in found if 0.0 < i.value < math.inf}


# Network ---------------------------------------------------------------------------------------------


def _of_network(cluster: Cluster) -> Iterator[Input]:
    names = _tier_names(cluster)
    for place, (name, tier) in enumerate(zip(names, cluster.tiers, strict=True)):
        what = f"{tier.name}, a device and direction"
        yield Input(
            name=f"{name}_bandwidth",
            unit="B/s",
            doc=what,
            value=tier.bandwidth,
            change=_tier_change(place, "bandwidth"),
        )
    for place, (name, tier) in enumerate(zip(names, cluster.tiers, strict=True)):
        what = f"{tier.name}, one network operation"
        yield Input(
            name=f"{name}_latency",
            unit="s",
            doc=what,
            value=tier.latency,
            change=_tier_change(place, "latency"),
        )
    for place, (name, tier) in enumerate(zip(names, cluster.tiers, strict=True)):
        yield Input(
            name="domain_size" if place == 0 else f"{name}_size",
            unit="1",
            doc=f"{tier.name}, members it joins",
            value=tier.size,
            change=_tier_change(place, "size"),
            least=1.0,
            whole=True,
        )
    yield Input(
        name="latency",
        unit="s",
        doc="all latencies together: kernel and an all-reduce over all tiers",
        value=_wait(cluster),
        change=_all_latencies,
    )


def _tier_names(cluster: Cluster) -> list[str]:
    if len(cluster.tiers) <= 2:
        return ["scale_up", "scale_out"][: len(cluster.tiers)]
    return _distinct([tier.name for tier in cluster.tiers])


def _distinct(names: list[str]) -> list[str]:
    """Return `names` as words of small letters, with a number behind those that would be alike."""
    words = [re.sub(r"\W+", "_", name.lower()).strip("_") or "unnamed" for name in names]
    return [word if words.count(word) == 1 else f"{word}_{i + 1}" for i, word in enumerate(words)]


def _tier_change(place: int, field: str) -> Change:
    def change(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
        tiers = list(cluster.tiers)
        to: dict[str, Any] = {field: value}
        tiers[place] = attrs.evolve(tiers[place], **to)
        return scenario, attrs.evolve(cluster, tiers=tuple(tiers))

    return change


def _wait(cluster: Cluster) -> float:
    return cluster.device.kernel_latency + 2.0 * sum(tier.latency for tier in cluster.tiers)


def _all_latencies(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
    factor = value / _wait(cluster)

    def slower(tier: Tier) -> Tier:
        return attrs.evolve(tier, latency=factor * tier.latency)

    device = attrs.evolve(cluster.device, kernel_latency=factor * cluster.device.kernel_latency)
    return scenario, attrs.evolve(cluster, device=device, tiers=tuple(map(slower, cluster.tiers)))


# Device ----------------------------------------------------------------------------------------------


def _of_device(scenario: Scenario, cluster: Cluster) -> Iterator[Input]:
    device, precision = cluster.device, scenario.how.precision
    for name, unit, doc in (
        ("kernel_latency", "s", "start of one matrix multiplication"),
        ("memory", "B", "main memory"),
        ("memory_bandwidth", "B/s", "of main memory"),
        ("sustained", "1", "share of the peak that is sustained"),
    ):
        most = 1.0 if name == "sustained" else math.inf
        value = getattr(device, name)
        yield Input(name=name, unit=unit, doc=doc, value=value, change=_device_change(name), most=most)
    yield Input(
        name="peak_rate",
        unit="FLOP/s",
        doc=f"dense peak in {precision}; other precisions change with it",
        value=device.peak_rate(precision),
        change=_peak,
    )
    for place, name in enumerate(_distinct([cache.name for cache in device.caches])):
        cache = device.caches[place]
        yield Input(
            name=f"{name}_bandwidth",
            unit="B/s",
            doc=f"of {cache.name}, all instances",
            value=device.cache_bandwidth(cache) or math.inf,
            change=_cache_change(place),
        )


def _with(cluster: Cluster, device: Device) -> Cluster:
    return attrs.evolve(cluster, device=device)


def _device_change(field: str) -> Change:
    def change(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
        to: dict[str, Any] = {field: value}
        return scenario, _with(cluster, attrs.evolve(cluster.device, **to))

    return change


def _peak(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
    device = cluster.device
    factor = value / device.peak_rate(scenario.how.precision)
    peak = {precision: factor * rate for precision, rate in device.peak.items()}
    return scenario, _with(cluster, attrs.evolve(device, peak=peak))


def _cache_change(place: int) -> Change:
    def change(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
        device, caches = cluster.device, list(cluster.device.caches)
        cache = caches[place]
        if cache.bytes_per_clock is None:
            caches[place] = attrs.evolve(cache, bandwidth=value)
        else:
            factor = value / (device.cache_bandwidth(cache) or math.inf)
            caches[place] = attrs.evolve(cache, bytes_per_clock=factor * cache.bytes_per_clock)
        return scenario, _with(cluster, attrs.evolve(device, caches=tuple(caches)))

    return change


# How runs scale --------------------------------------------------------------------------------------


def _of_scenario(scenario: Scenario) -> Iterator[Input]:
    def of_run(s: Scenario, c: Cluster, value: float) -> tuple[Scenario, Cluster]:
        return attrs.evolve(s, duration=value), c

    def of_fill(s: Scenario, c: Cluster, value: float) -> tuple[Scenario, Cluster]:
        return attrs.evolve(s, how=attrs.evolve(s.how, fill=value)), c

    def of_tokens(s: Scenario, c: Cluster, value: float) -> tuple[Scenario, Cluster]:
        return attrs.evolve(s, scaling=attrs.evolve(s.scaling, tokens_per_parameter=value)), c

    longest = attrs.fields(Scenario).duration.metadata["most"]
    scaling, fill = scenario.scaling, scenario.how.fill
    yield Input(
        name="duration",
        unit="s",
        doc="longest a run may take",
        value=scenario.duration,
        change=of_run,
        most=longest,
    )
    yield from _of_law(scaling, "batch", "tokens")
    yield from _of_law(scaling, "depth", "1")
    yield Input(
        name="tokens_per_parameter",
        unit="1",
        doc="training tokens a parameter",
        value=scaling.tokens_per_parameter,
        change=of_tokens,
    )
    dense = not scaling.sparsity.exponents
    yield Input(
        name="sparsity",
        unit="1",
        doc="total over active parameters" if dense else "coefficient of the sparsity law",
        value=scaling.sparsity.coefficient,
        change=_constant_change("sparsity", _Form()),
        least=1.0 if dense else 0.0,  # a model has no fewer parameters than are active
    )
    yield Input(
        name="fill",
        unit="1",
        doc="share of a cache that a tile may fill",
        value=fill,
        change=of_fill,
        most=1.0,
    )


def _of_law(scaling: Scaling, field: str, unit: str) -> Iterator[Input]:
    law: PowerLaw = getattr(scaling, field)
    form = _form(law, BATCH_LAWS if field == "batch" else DEPTH_LAWS)
    what = "·".join(form.variables)
    at = f"at {what} = {form.pivot:g}"
    if form.variables:
        yield Input(
            name=f"{field}_exponent",
            unit="1",
            doc=f"of {what} in the {field} law" + (f", kept {at}" if form.pivot else ""),
            value=law.exponents[form.variables[0]],
            change=_exponent_change(field, form),
            most=max(1.0, law.exponents[form.variables[0]]),  # batch and depth outgrow nothing they follow
            exponent=True,
        )
    yield Input(
        name=f"{field}_constant",
        unit=unit,
        doc=f"{field} law {at}" if form.pivot else f"coefficient of the {field} law",
        value=form.constant(law),
        change=_constant_change(field, form),
    )


@attrs.frozen
class _Form:
    """How a law is written: the variables that share its main exponent, and the pivot if there is one."""

    variables: tuple[str, ...] = ()
    pivot: float = 0.0

    def constant(self, law: PowerLaw) -> float:
        """Return the law's value at the pivot, other variables being 1; its coefficient without a pivot."""
        return law.coefficient * self.at_pivot(law.exponents)

    def at_pivot(self, exponents: Mapping[str, float]) -> float:
        """Return what the main variable contributes at the pivot; 1 without a pivot."""
        return self.pivot ** exponents.get(self.variables[0], 0.0) if self.pivot else 1.0

    def changed(self, law: PowerLaw, factor: float, exponents: Mapping[str, float]) -> PowerLaw:
        """Return the law times `factor`, with other exponents, in words that can be read back."""
        over = {self.variables[0]: self.pivot} if self.pivot else {}
        new = PowerLaw(factor * law.coefficient, exponents)
        terms = [(f"({v}/{over[v]!r})" if v in over else v, e) for v, e in exponents.items() if e]
        text = " * ".join([repr(self.constant(new)), *(f"{v}^{e!r}" for v, e in terms)])
        return attrs.evolve(new, text=text)


def _form(law: PowerLaw, known: Mapping[str, str]) -> _Form:
    main = next((v for v in _MAIN if law.exponents.get(v)), None)
    if main is None:
        return _Form()
    stated = re.search(_PIVOT.format(variable=main), known.get(law.text, law.text))
    if stated:
        return _Form((main,), float(stated[1]))
    return _Form(tuple(v for v in _MAIN if law.exponents.get(v) == law.exponents[main]))


def _exponent_change(field: str, form: _Form) -> Change:
    def change(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
        law: PowerLaw = getattr(scenario.scaling, field)
        exponents = {**law.exponents, **dict.fromkeys(form.variables, value)}
        factor = form.at_pivot(law.exponents) / form.at_pivot(exponents)
        return _with_law(scenario, field, form.changed(law, factor, exponents)), cluster

    return change


def _constant_change(field: str, form: _Form) -> Change:
    def change(scenario: Scenario, cluster: Cluster, value: float) -> tuple[Scenario, Cluster]:
        law: PowerLaw = getattr(scenario.scaling, field)
        factor = value / form.constant(law)
        return _with_law(scenario, field, form.changed(law, factor, law.exponents)), cluster

    return change


def _with_law(scenario: Scenario, field: str, law: PowerLaw) -> Scenario:
    to: dict[str, Any] = {field: law}
    return attrs.evolve(scenario, scaling=attrs.evolve(scenario.scaling, **to))
