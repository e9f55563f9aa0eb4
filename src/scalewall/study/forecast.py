"""When training runs will meet the limits of hardware: a trend of known runs, carried on to knee and wall."""

from __future__ import annotations

import bisect
import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from scalewall.errors import InputError, NoAnswer
from scalewall.schema import whole
from scalewall.study.limits import Limits, Progress, limits
from scalewall.study.notable import SHIPPED, Model, read_models
from scalewall.study.scenario import Scenario
from scalewall.study.uncertainty import SHARES, Draws
from scalewall.units import parse

STARTS = ("trend", "largest")
CONFIDENCE = 0.95
_DAYS_A_YEAR = 365.25
_EPOCH = datetime.date(2000, 1, 1)
_RATES = 64  # equally likely rates of growth that stand for its distribution
_LEAST_MODELS = 3  # a line through two points has no scatter, hence no interval


@attrs.frozen(kw_only=True)
class Trend:
    """A straight line through log compute over time, fitted to the models of the frontier.

    Attributes
    ----------
    since, top
        Which models: published in or after that year, and then among the `top` largest known.
    models
        The models it was fitted to, by date.
    growth, growth_interval
        Factor a year, and its 95% interval.
    scatter
        Standard deviation of the models about the line, in powers of ten.
    centre
        Year (decimal) and log10 FLOP of the models' mean, through which the line passes.
    """

    since: int
    top: int
    models: tuple[Model, ...]
    growth: float
    growth_interval: tuple[float, float]
    scatter: float
    centre: tuple[float, float]

    def flop(self, year: float) -> float:
        """Return the line's training compute at a decimal year."""
        return math.pow(10.0, self.centre[1] + math.log10(self.growth) * (year - self.centre[0]))


@attrs.frozen(kw_only=True)
class Meeting:
    """When the frontier meets one limit of one device.

    `year` is decimal, `interval` its range for the range of growth; infinite (of either sign) means
    never, and `interval` is None where growth has no interval. `training_flop` is None where a
    device has no knee before its wall; then so is `year`.

    Where inputs of the limits are uncertain, `flop_spread` has the 5%, 50% and 95% quantiles of the
    limit, and `year_spread` those of the date: of each draw of the limit under each of many equally
    likely rates of growth, or under the rate that was given.
    """

    hardware: str
    kind: str
    training_flop: float | None
    binding: str | None
    year: float | None
    interval: tuple[float, float] | None
    passed: bool
    flop_spread: tuple[float, float, float] | None = None
    year_spread: tuple[float, float, float] | None = None


@attrs.frozen(kw_only=True)
class Forecast:
    """When the frontier of training compute meets the limits of devices.

    `start` is the decimal year and compute from which the frontier grows by `growth` a year.
    """

    today: datetime.date
    source: str
    is_shipped: bool
    known: tuple[Model, ...]
    trend: Trend
    start: tuple[float, float]
    start_from: str
    growth: float
    growth_interval: tuple[float, float] | None
    limits: Limits
    meetings: tuple[Meeting, ...]

    @property
    def largest(self) -> Model:
        """The largest run known today."""
        return max(self.known, key=lambda model: model.training_flop)

    @property
    def now(self) -> float:
        """Today as a decimal year."""
        return decimal_year(self.today)

    @property
    def flop_today(self) -> float:
        """The frontier's training compute today: `start`, grown since."""
        return self.start[1] * math.pow(self.growth, self.now - self.start[0])


def forecast(
    scenario: Scenario, progress: Progress | None = None, draws: Draws | None = None, **words: Any
) -> Forecast:
    """Return when the frontier of training compute meets the knee and the wall of the scenario's devices.

    Parameters
    ----------
    scenario
        Devices, and how runs scale.
    progress
        Called as points of the limits are done.
    draws
        How inputs are drawn where the scenario says that they are uncertain.
    words
        As `forecast_from` takes them; they are checked before the limits are looked for.

    Raises
    ------
    InputError
        If a word or the file is wrong.
    NoAnswer
        If too few models remain for a trend, or a device has no feasible run.
    """
    nothing = Limits(scenario=scenario, curves=())
    checked = forecast_from(nothing, **words)
    found = limits(scenario, progress, draws=draws)
    return attrs.evolve(checked, limits=found, meetings=_meetings(found, checked))


def forecast_from(
    answer: Limits,
    *,
    models: str | Path | None = None,
    since: int | str = 2010,
    top: int | str = 10,
    growth: float | str | None = None,
    start: float | str = "trend",
    today: datetime.date | str | None = None,
) -> Forecast:
    """Return when the frontier of training compute meets limits that are known already.

    Parameters
    ----------
    answer
        The limits.
    models
        CSV file of models with known training compute; the one that ships if left out.
    since
        Year from which models count for the trend.
    top
        A model is of the frontier if it was among this many of the largest when it was published.
    growth
        Factor a year by which the frontier grows from now on; the trend's if left out.
    start
        Where it grows from: ``trend``, the line's value today; ``largest``, the largest known run on
        its own date; or an amount of FLOP today.
    today
        Date, such as ``2026-07-15``. Models published later are left out, so a day of the past shows
        what could be known then.

    Raises
    ------
    InputError
        If a word or the file is wrong.
    NoAnswer
        If too few models remain for a trend.
    """
    day = read_day(today)
    rate = None if growth is None else _growth(growth)
    source = SHIPPED if models is None else Path(models)
    known = tuple(m for m in read_models(source) if m.date <= day)
    if not known:
        raise NoAnswer(f"No model of {source.name} was published by {day}.")
    trend = fit_trend(known, since=whole(since, "since", 1900, day.year), top=whole(top, "top"))
    made = Forecast(
        today=day,
        source=source.name,
        is_shipped=source == SHIPPED,
        known=known,
        trend=trend,
        start=_anchor(start, known, trend, decimal_year(day)),
        start_from=str(start) if start in STARTS else "given",
        growth=rate or trend.growth,
        growth_interval=trend.growth_interval if rate is None else None,
        limits=answer,
        meetings=(),
    )
    return attrs.evolve(made, meetings=_meetings(answer, made))


def frontier(models: Sequence[Model], top: int) -> list[Model]:
    """Return the models that were among the `top` largest known when they were published, by date."""
    found: list[Model] = []
    computes: list[float] = []
    for model in sorted(models, key=lambda m: (m.date, -m.training_flop)):
        larger = len(computes) - bisect.bisect_right(computes, model.training_flop)
        if larger < top:
            found.append(model)
        bisect.insort(computes, model.training_flop)
    return found


def fit_trend(models: Sequence[Model], since: int, top: int) -> Trend:
    """Return the trend of the frontier: ordinary least squares of log10 compute over publication date.

    Notes
    -----
    The interval of the slope ``b`` is ``b ± t·s/√Σ(x − x̄)²`` with ``s² = Σr²/(n − 2)`` and Student's
    ``t`` of ``n − 2`` degrees of freedom. It takes the models' distances ``r`` from the line for
    independent, which those of a running record are not quite: read it as a lower bound of doubt.

    Raises
    ------
    NoAnswer
        If fewer than three models, or models of a single day, are left.
    """
    chosen = [m for m in frontier(models, top) if m.date.year >= since]
    x = np.array([decimal_year(m.date) for m in chosen])
    y = np.log10([m.training_flop for m in chosen])
    if len(chosen) < _LEAST_MODELS or np.ptp(x) == 0.0:
        raise NoAnswer(
            f"A trend needs at least {_LEAST_MODELS} frontier models of different days since {since}; "
            f"there are {len(chosen)}."
        )
    mean_x, mean_y = float(x.mean()), float(y.mean())
    spread = float(np.sum((x - mean_x) ** 2))
    slope = float(np.sum((x - mean_x) * (y - mean_y))) / spread
    residuals = y - mean_y - slope * (x - mean_x)
    free = len(chosen) - 2
    scatter = math.sqrt(float(np.sum(residuals**2)) / free)
    half = student_t(free) * scatter / math.sqrt(spread)
    return Trend(
        since=since,
        top=top,
        models=tuple(chosen),
        growth=10.0**slope,
        growth_interval=(10.0 ** (slope - half), 10.0 ** (slope + half)),
        scatter=scatter,
        centre=(mean_x, mean_y),
    )


def student_t(free: int, confidence: float = CONFIDENCE) -> float:
    """Return the two-sided quantile of Student's t with `free` degrees of freedom, to five digits.

    With ``t = √free·tan θ`` the density is ``cos^(free−1) θ``, which is integrated numerically.
    """
    angle = np.linspace(0.0, math.pi / 2.0, 200_001)
    density = np.cos(angle) ** (free - 1)
    area = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(free) * math.tan(float(np.interp(confidence, area / area[-1], angle)))


def _meetings(answer: Limits, asked: Forecast) -> tuple[Meeting, ...]:
    """Return when the frontier of `asked` meets each limit of `answer`."""
    found = []
    for curve in answer.curves:
        for kind, flop, binds in (
            ("knee", curve.knee_flop, curve.knee_binding),
            ("wall", curve.wall_flop, curve.wall_binding),
        ):
            year = None if flop is None else meeting_year(flop, asked.start, asked.growth)
            ends = None
            if flop is not None and asked.growth_interval is not None:
                ends = sorted(meeting_year(flop, asked.start, rate) for rate in asked.growth_interval)
            some = Meeting(
                hardware=curve.hardware,
                kind=kind,
                training_flop=flop,
                binding=binds,
                year=year,
                interval=(ends[0], ends[1]) if ends else None,
                passed=year is not None and year <= asked.now,
            )
            if curve.spread is not None:
                limits = [getattr(outcome, f"{kind}_flop") for outcome in curve.spread.outcomes]
                some = attrs.evolve(
                    some,
                    flop_spread=curve.spread.interval(f"{kind}_flop"),
                    year_spread=year_spread(limits, asked.start, _rates(asked)),
                )
            found.append(some)
    return tuple(found)


def _rates(asked: Forecast) -> list[float]:
    """Return equally likely rates of growth: quantiles of the trend's, or the one that was given."""
    if asked.growth_interval is None:
        return [asked.growth]
    from scipy import stats

    trend = asked.trend
    free = len(trend.models) - 2
    slope, high = math.log10(trend.growth), math.log10(trend.growth_interval[1])
    shares = (np.arange(_RATES) + 0.5) / _RATES
    slopes = slope + (high - slope) / student_t(free) * stats.t.ppf(shares, free)
    return [float(rate) for rate in 10.0**slopes]


def year_spread(
    limits: Sequence[float], start: tuple[float, float], rates: Sequence[float]
) -> tuple[float, float, float]:
    """Return the 5%, 50% and 95% quantiles of when a frontier meets a limit.

    Limit and growth are independent: every one of `limits` is met at every one of `rates`.
    """
    years = [meeting_year(flop, start, rate) for flop in limits for rate in rates]
    # One of the years, not a mean of two, of which one can be infinite.
    low, middle, high = np.quantile(years, SHARES, method="inverted_cdf")
    return float(low), float(middle), float(high)


def meeting_year(flop: float, start: tuple[float, float], growth: float) -> float:
    """Return the decimal year at which a frontier that grows from `start` reaches `flop`.

    Infinite where it does not grow: later than any year if `flop` is ahead, earlier if it is behind.
    """
    ahead = math.log(flop / start[1])
    if growth <= 1.0:
        return start[0] if ahead == 0.0 else math.copysign(math.inf, ahead)
    return start[0] + ahead / math.log(growth)


def decimal_year(day: datetime.date) -> float:
    """Return a day as a decimal year, such that equal times are equally long."""
    return 2000.0 + (day - _EPOCH).days / _DAYS_A_YEAR


def day_of(year: float) -> datetime.date | None:
    """Return the day of a decimal year, or None outside the calendar (years 1 to 9999)."""
    if not 2.0 < year < 9999.0:
        return None
    return _EPOCH + datetime.timedelta(days=round((year - 2000.0) * _DAYS_A_YEAR))


def read_day(value: datetime.date | str | None) -> datetime.date:
    """Return a date, that of today if `value` is None."""
    if value is None:
        return datetime.date.today()
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise InputError("today", "a date such as 2026-07-15", value) from None


def _growth(value: float | str) -> float:
    must = "a factor a year of more than 1, such as 4.5"
    try:
        rate = parse(value, "1", "growth")
    except InputError:
        raise InputError("growth", must, value) from None
    if not 1.0 < rate < math.inf:
        raise InputError("growth", must, value)
    return rate


def _anchor(value: float | str, known: Sequence[Model], trend: Trend, now: float) -> tuple[float, float]:
    if value == "trend":
        return now, trend.flop(now)
    if value == "largest":
        largest = max(known, key=lambda model: model.training_flop)
        return decimal_year(largest.date), largest.training_flop
    must = "trend, largest, or an amount of FLOP such as 5e26"
    try:
        flop = parse(value, "FLOP", "start")
    except InputError:
        raise InputError("start", must, value) from None
    if not 0.0 < flop < math.inf:
        raise InputError("start", must, value)
    return now, flop
