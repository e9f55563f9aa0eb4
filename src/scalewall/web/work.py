"""What a process of the pool does: each function one job, from entries to an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from scalewall.errors import InputError
from scalewall.study import limits as study
from scalewall.study import sensitivity as sensitivities
from scalewall.study.boundary import find_wall
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point, trace
from scalewall.study.sketch import sketch
from scalewall.units import show
from scalewall.web.asked import Entry, Fact, facts, folder, limits_scenario, plan_words
from scalewall.web.behind import Formula, formulas, sources
from scalewall.web.plain import Plain, plain

SKETCH_SECONDS = 0.08
"""After which no further point of a sketch is begun."""


@attrs.frozen(kw_only=True)
class Sketch:
    """A curve in a hurry, and the numbers of its device before they were changed.

    Of the curve neither knee nor wall is known; its last point stands in for the wall.
    """

    curve: Curve | None
    facts: list[Fact]


def sketched(entry: Entry, before: Limits | None) -> Sketch:
    """Return a few points of an entry's curve."""
    with folder():
        asked = limits_scenario(entry)
        (cluster,) = asked.clusters
        points = sketch(asked, cluster, SKETCH_SECONDS, before)
        threshold = asked.threshold * cluster.device.sustained
        curve = (
            Curve(cluster=cluster, threshold_mfu=threshold, knee=None, wall=points[-1], points=points)
            if points
            else None
        )
        return Sketch(curve=curve, facts=facts(entry))


PARTS = 2
"""Processes that share the points of a curve."""


def walled(entry: Entry) -> Point:
    """Return the wall of an entry."""
    with folder():
        asked = limits_scenario(entry)
        return find_wall(asked, asked.clusters[0])


def part(entry: Entry, wall: Point, known: tuple[Point, ...], number: int) -> tuple[Point, ...]:
    """Return every other point of an entry's curve, whose wall is known and some points near."""
    with folder():
        asked = limits_scenario(entry)
        computes = study.curve_computes(asked, wall)[number::PARTS]
        return tuple(p for _, p in trace(asked, asked.clusters[0], computes, known) if p is not None)


def limited(entry: Entry, wall: Point | None = None, parts: tuple[tuple[Point, ...], ...] = ()) -> Limits:
    """Return the limits of an entry, as the command finds them; what is known is not searched again."""
    with folder():
        asked = limits_scenario(entry)
        known = None
        if wall is not None:
            points = tuple(sorted((p for part in parts for p in part), key=lambda p: p.training_flop))
            curve = Curve(cluster=asked.clusters[0], threshold_mfu=0.0, knee=None, wall=wall, points=points)
            known = Limits(scenario=asked, curves=(curve,))
        return study.limits(asked, coarse=known)


@attrs.frozen(kw_only=True)
class PlanAnswer:
    """The best strategies of an entry, in tables and words, and how each would be locked."""

    strategies: Plain
    head: list[str]
    findings: list[str]
    gains: Plain | None
    degrees: list[dict[str, str]]
    facts: list[Fact]
    fits: bool


def planned(entry: Entry) -> PlanAnswer:
    """Return the best strategies of an entry."""
    from scalewall.present import tables_plan
    from scalewall.study.plan import plan

    with folder():
        answer = plan(plan_words(entry))
        slower = answer.differences and answer.strategies[0].step_time_s > 1.0000001 * (
            answer.free.step_time_s if answer.free else 0.0
        )
        return PlanAnswer(
            strategies=plain(
                tables_plan.strategies_table(answer.scenario, answer.strategies), "Strategies, best first"
            ),
            head=list(tables_plan.head(answer)),
            findings=list(tables_plan.findings(answer)),
            gains=plain(
                tables_plan.differences_table(answer.differences, answer.strategies[0].step_time_s),
                "Where the best strategy with nothing locked gains",
            )
            if answer.differences is not None and slower
            else None,
            degrees=[_locks(one.plan) for one in answer.strategies],
            facts=facts(entry),
            fits=answer.strategies[0].fits,
        )


def _locks(one: Any) -> dict[str, str]:
    """Return the words that lock a plan's degrees."""
    words = {"tp": one.tp, "cp": one.cp, "pp": one.pp, "dp": one.dp, "vpp": one.interleave}
    return {name: str(n) for name, n in {**words, "micro_batch": one.micro_batch, "zero": one.zero}.items()}


@attrs.frozen(kw_only=True)
class PlanDrawn:
    """One strategy of an entry: its figure as JSON, where seconds and bytes go, what is behind them."""

    figure: str
    seconds: Plain
    bytes: Plain
    formulas: list[Formula]
    sources: Plain


def drawn(entry: Entry, place: int) -> PlanDrawn:
    """Return the strategy at a place of an entry's answer, drawn."""
    from scalewall.present import tables_plan
    from scalewall.present.figures_plan import planning_figure
    from scalewall.study.plan import plan

    with folder():
        answer = plan(plan_words(entry))
        found = answer.strategies
        place = min(max(place, 0), len(found) - 1)
        first = attrs.evolve(answer, strategies=(found[place], *found[:place], *found[place + 1 :]))
        step = show(found[place].step_time_s, "s", 3)
        return PlanDrawn(
            figure=planning_figure(first).to_json(),
            seconds=plain(tables_plan.seconds_table(found[place]), f"Where the {step} of a step go"),
            bytes=plain(
                tables_plan.bytes_table(found[place]),
                f"Where the bytes of the fullest stage's devices go (the {found[place].stage} stage)",
            ),
            formulas=formulas(answer.scenario, found[place]),
            sources=sources(answer.scenario),
        )


@attrs.frozen(kw_only=True)
class Report:
    """Tables, words and a figure (JSON) of a command that is shown as it is."""

    tables: list[Plain]
    words: list[str]
    figure: str | None = None


def helped(entry: Entry) -> Report:
    """Return what an entry's limits depend on."""
    from scalewall.present.figures_sensitivity import tornado_figure
    from scalewall.present.tables_sensitivity import elasticities_table

    with folder():
        found = sensitivities.sensitivity(limits_scenario(entry))
    return Report(
        tables=[plain(elasticities_table(found.devices[0]))], words=[], figure=tornado_figure(found).to_json()
    )


def claimed() -> Report:
    """Return the table of claims."""
    from scalewall.present import tables_claims
    from scalewall.study import claims

    checked = claims.claims()
    return Report(
        tables=[
            plain(tables_claims.claims_table(checked), "Claims of the sources, and the product's own figures")
        ],
        words=[tables_claims.verdicts(checked)],
    )


def validated() -> Report:
    """Return predicted against measured step times."""
    from scalewall.present import tables_validation
    from scalewall.present.figures_validation import validation_figure
    from scalewall.study.validation import validate_file

    answer = validate_file()
    summary = answer.summary
    return Report(
        tables=[
            plain(tables_validation.groups_table("source", summary.by_source), "Errors by source"),
            plain(tables_validation.groups_table("device", summary.by_device), "Errors by device"),
            plain(tables_validation.rows_table(answer), "Every run"),
        ],
        words=list(tables_validation.words(answer)),
        figure=validation_figure(answer).to_json(),
    )


@attrs.frozen(kw_only=True)
class OwnFiles:
    """What a visitor must have to ask elsewhere what entries ask.

    `names` are those of each entry's device and model, `texts` all files by name; `faults` are what is
    wrong with entries, a line each.
    """

    names: tuple[tuple[str | None, str | None], ...]
    texts: dict[str, str]
    faults: tuple[str, ...]


def own_files(entries: tuple[Entry, ...], plan: bool) -> OwnFiles:
    """Return the files that entries need beside their words."""
    names: list[tuple[str | None, str | None]] = []
    faults = []
    with folder():
        for entry in entries:
            device = model = None
            try:
                if plan:
                    asked = plan_words(entry)
                    device, model = asked.hardware, asked.model
                else:
                    (device,) = limits_scenario(entry).hardware
            except InputError as error:
                faults.append(str(error).splitlines()[0])
            texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path().iterdir())}
            names.append((device if device in texts else None, model if model in texts else None))
    return OwnFiles(names=tuple(names), texts=texts, faults=tuple(faults))


def limits_file(entry: Entry, kind: str) -> bytes:
    """Return the file that the command writes for an entry with ``-o``."""
    from scalewall.present import files
    from scalewall.study import records
    from scalewall.study.citations import Answered

    with folder():
        path = Path(f"answer.{kind}")
        answer = study.limits(limits_scenario(entry))
        answered = Answered(command="limits", scenarios=(answer.scenario,)).as_dict()
        files.write_rows(records.rows(answer), {"answer": answered, **files.about(answer)}, path)
        return path.read_bytes()


def plan_file(entry: Entry, kind: str) -> bytes:
    """Return the file that the command writes for an entry of the plan page with ``-o``."""
    from scalewall.present import files
    from scalewall.study import records_plan
    from scalewall.study.plan import plan

    with folder():
        path = Path(f"answer.{kind}")
        answer = plan(plan_words(entry))
        about = {
            "answer": records_plan.answered(answer.scenario).as_dict(),
            **records_plan.of_planning(answer),
        }
        files.write_rows(records_plan.planning_rows(answer), about, path)
        return path.read_bytes()
