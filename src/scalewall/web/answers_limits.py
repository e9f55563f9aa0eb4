"""Callbacks of the limits page: a sketch of what changed at once, the whole curve after."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from threading import Lock, Thread
from typing import Any

import attrs
from dash import Dash, Input, Output, no_update
from dash.exceptions import PreventUpdate

from scalewall.errors import InputError, InputErrors, NoAnswer
from scalewall.hardware import catalogue
from scalewall.present.figures_overlay import Parts, curve_parts, overlay_figure
from scalewall.study.limits import Curve, Limits
from scalewall.study.scenario import PAPER_PRESET
from scalewall.units import parse
from scalewall.web import link, views, work
from scalewall.web.asked import MOST_RUNS, Entry, read_limits
from scalewall.web.fields import Field, limits_fields
from scalewall.web.pool import Busy, Cancelled, Defect, Job, Pool

SKETCH_SECONDS, CURVE_SECONDS = 8.0, 30.0
"""Budgets of a sketch and of a curve."""

KINDS = ("sketch", "limits", "wall", *(f"part-{n}" for n in range(work.PARTS)))
"""What is computed for a curve."""

DEFECT = "This went wrong; it is in the server's log."
_MOST_VISITORS, _MOST_DRAWN = 2000, 100


@attrs.define
class Visitors:
    """Each visitor's latest request, by which older ones are known."""

    latest: OrderedDict[str, int] = attrs.field(factory=OrderedDict)
    lock: Any = attrs.field(factory=Lock)

    def newest(self, who: str, token: int) -> bool:
        """Note a request, and return whether it is the visitor's newest."""
        with self.lock:
            self.latest[who] = max(token, self.latest.get(who, token))
            self.latest.move_to_end(who)
            while len(self.latest) > _MOST_VISITORS:
                self.latest.popitem(last=False)
            return self.latest[who] == token


@attrs.frozen(kw_only=True)
class Asked:
    """What a browser asks of the limits page."""

    who: str
    token: int
    runs: tuple[Entry, ...]
    good: tuple[Entry | None, ...]
    active: int

    @classmethod
    def read(cls, data: object) -> Asked:
        """Return what a browser sent, checked.

        Raises
        ------
        InputError
            If it is none of the page's doing.
        """
        if not isinstance(data, Mapping):
            raise InputError("request", "one of this page", data)
        runs, good = data.get("runs"), data.get("good") or []
        token, active = data.get("token"), data.get("active", 0)
        if not isinstance(runs, list) or not 1 <= len(runs) <= MOST_RUNS or not isinstance(good, list):
            raise InputError("runs", f"a list of 1 to {MOST_RUNS} scenarios", runs)
        if not isinstance(token, int) or not isinstance(active, int):
            raise InputError("request", "one of this page", token)
        before = [None if value is None else read_limits(value) for value in good[: len(runs)]]
        return cls(
            who=str(data.get("who", ""))[:40],
            token=token,
            runs=tuple(map(read_limits, runs)),
            good=tuple(before + [None] * (len(runs) - len(before))),
            active=min(max(active, 0), len(runs) - 1),
        )


def key(entry: Entry, kind: str = "limits") -> str:
    """Return the name under which an entry's answer is kept; what it is called does not count."""
    said = json.dumps([kind, {**attrs.asdict(entry), "name": ""}], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@attrs.define
class Shown:
    """What is shown of one run: its answer or a sketch, and what is wrong with its entry."""

    answer: Limits | None = None
    sketch: Curve | None = None
    facts: Any = None
    faults: list[dict[str, str]] = attrs.field(factory=list)
    note: str = ""
    wanted: bool = False

    def fail(self, error: Exception, before: Limits | None) -> None:
        """Say what is wrong, and go back to what was there `before`."""
        if isinstance(error, InputError):
            self.faults = faults_of(error)
        else:
            self.note = str(error) or DEFECT
        self.answer, self.wanted = before, False


def warm(pool: Pool, runs: Iterable[object]) -> None:
    """Have the curves of `runs` found and drawn before anybody asks for them, while the caller goes on."""
    data = {"who": "start", "token": 0, "runs": list(runs)}
    asked = Asked.read(data)

    def find() -> None:
        with contextlib.suppress(PreventUpdate):  # the server is stopped
            shown: list[Shown] | None = _sketched(asked, pool)
            while shown is not None and not _output(asked, shown, data)[1]["done"]:
                shown = _refined(asked, pool)

    Thread(target=find, daemon=True).start()


def faults_of(error: InputError) -> list[dict[str, str]]:
    """Return the faults of an error: a field and a line each."""
    errors = error.errors if isinstance(error, InputErrors) else (error,)
    return [{"field": one.field, "text": str(one)} for one in errors]


def register(app: Dash, pool: Pool) -> None:
    """Give the app the callbacks of the limits page."""
    visitors = Visitors()
    outputs = [
        Output("picture-limits", "data", allow_duplicate=True),
        Output("answer-limits", "data", allow_duplicate=True),
        Output("table-limits", "children", allow_duplicate=True),
        Output("words-limits", "children", allow_duplicate=True),
        Output("pending-limits", "data", allow_duplicate=True),
    ]

    @app.callback(*outputs, Input("asked-limits", "data"))
    def sketch(data: object) -> tuple[Any, ...]:
        asked = Asked.read(data)
        visitors.newest(asked.who, asked.token)
        pool.keep_only(asked.who, {key(run, kind) for run in asked.runs for kind in KINDS})
        shown = _sketched(asked, pool)
        return _output(asked, shown, data)

    @app.callback(*outputs, Input("next-limits", "data"))
    def refine(data: object) -> tuple[Any, ...]:
        asked = Asked.read(data)
        if not visitors.newest(asked.who, asked.token):
            raise PreventUpdate
        try:
            shown = _refined(asked, pool)
        except Busy as error:
            kept = [pool.kept(key(run)) for run in asked.runs]
            shown = [Shown(answer=one, note="" if one else str(error)) for one in kept]
        if shown is None or not visitors.newest(asked.who, asked.token):
            raise PreventUpdate
        return _output(asked, shown, data)


def _sketched(asked: Asked, pool: Pool) -> list[Shown]:
    """Return what can be shown at once: what is kept already, and sketches of what is not."""
    shown, jobs = [], []
    for run, good in zip(asked.runs, asked.good, strict=True):
        kept = pool.kept(key(run))
        before = pool.kept(key(good)) if good is not None else None
        one = Shown(answer=kept, wanted=kept is None)
        shown.append(one)
        try:
            job = pool.ask(
                key(run, "sketch"),
                work.sketched,
                run,
                before,
                who=asked.who,
                seconds=SKETCH_SECONDS,
                quick=True,
            )
            jobs.append((one, job, before))
        except Busy as error:
            one.fail(error, kept or before)
    for one, job, before in jobs:
        _take_sketch(one, job, before, pool)
    return shown


def _take_sketch(one: Shown, job: Job, before: Limits | None, pool: Pool) -> None:
    try:
        found: work.Sketch = pool.wait(job)
        one.facts = found.facts
        if one.answer is None:
            one.sketch = found.curve
    except (InputError, NoAnswer, Defect) as error:
        one.fail(error, before)
    except Cancelled:
        raise PreventUpdate from None


def _jobs(run: Entry, asked: Asked, pool: Pool) -> list[Job]:
    """Return what is to be done next for a run's curve: its wall, then its points, then the rest."""

    def ask(kind: str, work_of: Any, *arguments: Any) -> Job:
        later = 2 * (run is not asked.runs[asked.active]) + (kind == "wall")  # what is begun is ended first
        return pool.ask(
            key(run, kind), work_of, run, *arguments, who=asked.who, seconds=CURVE_SECONDS, urgency=later
        )

    sketch: work.Sketch | None = pool.kept(key(run, "sketch"))
    there = pool.kept(key(run)) is not None or pool.under_way(key(run))
    if there or run.words.get("preset") == PAPER_PRESET:
        return [ask("limits", work.limited)]
    wall = pool.kept(key(run, "wall"))
    if wall is None:
        return [ask("wall", work.walled)]
    parts = [pool.kept(key(run, f"part-{n}")) for n in range(work.PARTS)]
    if any(part is None for part in parts):
        hints = sketch.curve.points if sketch is not None and sketch.curve is not None else ()
        return [ask(f"part-{n}", work.part, wall, hints, n) for n in range(work.PARTS)]
    return [ask("limits", work.limited, wall, tuple(parts))]


def _refined(asked: Asked, pool: Pool) -> list[Shown] | None:
    """Return what is there once one more curve is; None if nobody wants it any more."""
    before = sum(pool.kept(key(run)) is not None for run in asked.runs)
    end = time.monotonic() + 4.0 * CURVE_SECONDS
    while True:
        jobs = [_jobs(run, asked, pool) for run in asked.runs]
        ended = [job for some in jobs for job in some if job.future.done()]
        failed = [job for job in ended if job.future.exception() is not None]
        done = sum(pool.kept(key(run)) is not None for run in asked.runs)
        if done > before or failed or done == len(asked.runs) or time.monotonic() > end:
            break
        waiting = [job.future for some in jobs for job in some if not job.future.done()]
        wait(waiting, timeout=CURVE_SECONDS, return_when=FIRST_COMPLETED)
        failed = [job for some in jobs for job in some if job.future.done() and job.future.exception()]
        if failed:
            break
    return _taken(asked, jobs, pool)


def _taken(asked: Asked, jobs: list[list[Job]], pool: Pool) -> list[Shown] | None:
    shown = []
    for run, good, some in zip(asked.runs, asked.good, jobs, strict=True):
        before = pool.kept(key(good)) if good is not None else None
        drawn = pool.kept(key(run, "sketch"))
        one = Shown(facts=drawn.facts if drawn else None, sketch=drawn.curve if drawn else None)
        one.answer = pool.kept(key(run))
        one.wanted = one.answer is None
        try:
            for job in some:
                if job.future.done():
                    pool.wait(job)
        except (InputError, NoAnswer, Defect) as error:
            one.fail(error, before)
        except Cancelled:
            return None
        shown.append(one)
    return shown


def _output(asked: Asked, shown: list[Shown], data: Any) -> tuple[Any, ...]:
    picture = _picture(asked, shown)
    table = views.limits_table(
        [(run.name, one.answer, one.wanted) for run, one in zip(asked.runs, shown, strict=True)]
    )
    active = shown[asked.active]
    words = views.summary(active.answer.curves[0], active.answer) if active.answer else no_update
    known = active.facts
    answer = {
        "token": asked.token,
        "active": asked.active,
        "faults": [one.faults for one in shown],
        "notes": [one.note for one in shown],
        "at": positions(asked.runs[asked.active], known or (), limits_fields()),
        "done": not any(one.wanted for one in shown),
        "facts": [attrs.asdict(fact) for fact in known] if known is not None else None,
        "devices": catalogue.names(asked.runs[asked.active].words.get("preset"))
        if not active.faults
        else None,
        "link": link_of(data) if not any(one.faults for one in shown) else None,
    }
    return picture, answer, table, words, data if not answer["done"] else None


def _picture(asked: Asked, shown: list[Shown]) -> Any:
    drawn = [(i, run, one) for i, (run, one) in enumerate(zip(asked.runs, shown, strict=True))]
    drawn = [(i, run, one) for i, run, one in drawn if one.answer or one.sketch]
    if not drawn:
        return no_update
    parts = []
    for i, run, one in drawn:
        curve = one.answer or one.sketch
        if curve is not None:
            parts.append(_parts(curve, run.name, i, len(drawn) == 1))
    return overlay_figure(parts)


_drawn: OrderedDict[tuple[int, str, int, bool], tuple[Any, Parts]] = OrderedDict()
_drawn_lock = Lock()


def _parts(curve: Limits | Curve, name: str, place: int, alone: bool) -> Parts:
    """Return a curve's part of a figure, drawn once: only what changed is drawn anew."""
    known = (id(curve), name, place, alone)  # the curve itself is kept too, so that its id stays its own
    with _drawn_lock:
        found = _drawn.get(known)
        if found is not None:
            _drawn.move_to_end(known)
            return found[1]
    parts = curve_parts(name, curve, place, alone)
    with _drawn_lock:
        _drawn[known] = curve, parts
        while len(_drawn) > _MOST_DRAWN:
            _drawn.popitem(last=False)
    return parts


def positions(entry: Entry, known: Iterable[Any], fields: Iterable[Field]) -> dict[str, float | None]:
    """Return where sliders stand: the value in SI of every entry that is a number."""
    found: dict[str, float | None] = {}
    texts = {("words", f.key): (entry.words.get(f.key, f.default), f.unit) for f in fields if f.ends}
    texts |= {("device", f.key): (entry.device.get(f.key, f.shown), f.unit) for f in known}
    for (table, name), (text, unit) in texts.items():
        try:
            found[f"{table}.{name}"] = parse(text, unit or "1")
        except InputError:
            found[f"{table}.{name}"] = None
    return found


def link_of(data: Any) -> str | None:
    """Return the link to what a browser asks; None if it is too long for one."""
    try:
        return link.encode(data.get("state"))
    except InputError:
        return None
