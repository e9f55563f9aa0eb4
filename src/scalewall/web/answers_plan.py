"""Callbacks of the plan page: the strategies at once, the picture of the chosen one after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
from dash import Dash, Input, Output, no_update
from dash.exceptions import PreventUpdate

from scalewall.errors import InputError, NoAnswer
from scalewall.hardware import catalogue
from scalewall.web import views, work
from scalewall.web.answers_limits import DEFECT, Visitors, faults_of, key, link_of, positions
from scalewall.web.asked import Entry, read_plan
from scalewall.web.fields import plan_fields
from scalewall.web.pool import Cancelled, Defect, Pool

PLAN_SECONDS = 10.0
"""Budget of a plan."""


def register(app: Dash, pool: Pool) -> None:
    """Give the app the callbacks of the plan page."""
    visitors = Visitors()

    @app.callback(
        Output("answer-plan", "data"),
        Output("words-plan", "children"),
        Input("asked-plan", "data"),
    )
    def strategies(data: object) -> tuple[Any, ...]:
        who, token, run, place = _read(data)
        visitors.newest(who, token)
        pool.keep_only(who, {key(run, "plan"), key(run, f"drawn-{place}")})
        answer = {"token": token, "faults": [], "note": "", "link": None}
        try:
            job = pool.ask(
                key(run, "plan"), work.planned, run, who=who, seconds=PLAN_SECONDS, quick=True, urgency=0
            )
            found: work.PlanAnswer = pool.wait(job)
        except InputError as error:
            return {**answer, "faults": faults_of(error)}, no_update
        except Cancelled:
            raise PreventUpdate from None
        except (NoAnswer, Defect) as error:
            return {**answer, "note": str(error) or DEFECT}, no_update
        answer |= {
            "table": attrs.asdict(found.strategies),
            "degrees": found.degrees,
            "facts": [attrs.asdict(fact) for fact in found.facts],
            "at": positions(run, found.facts, plan_fields()),
            "devices": catalogue.names(),
            "link": link_of(data),
        }
        return answer, views.findings(found)

    @app.callback(
        Output("picture-plan", "data"),
        Output("tables-plan", "children"),
        Input("next-plan", "data"),
    )
    def picture(data: object) -> tuple[Any, ...]:
        who, token, run, place = _read(data)
        if not visitors.newest(who, token):
            raise PreventUpdate
        try:
            job = pool.ask(
                key(run, f"drawn-{place}"), work.drawn, run, place, who=who, seconds=PLAN_SECONDS, quick=True
            )
            found: work.PlanDrawn = pool.wait(job)
        except (Cancelled, InputError, NoAnswer, Defect):
            raise PreventUpdate from None
        return json.loads(found.figure), views.drawn(found)


def _read(data: object) -> tuple[str, int, Entry, int]:
    if not isinstance(data, Mapping) or not isinstance(data.get("token"), int):
        raise InputError("request", "one of this page", data)
    place = data.get("place", 0)
    return (
        str(data.get("who", ""))[:40],
        data["token"],
        read_plan(data.get("run")),
        place if isinstance(place, int) else 0,
    )
