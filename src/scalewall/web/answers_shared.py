"""Callbacks of everything else: links, texts to copy, downloads, formulas, the tables of other commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.exceptions import PreventUpdate

from scalewall.errors import InputError, ScalewallError, shown
from scalewall.study.limits import Limits
from scalewall.web import explain, link, texts, views, work
from scalewall.web.answers_limits import CURVE_SECONDS, DEFECT, key
from scalewall.web.asked import LIMITS_WORDS, MOST_RUNS, PLAN_WORDS, Entry, read_limits, read_plan
from scalewall.web.pool import Cancelled, Defect, Job, Pool

HELP_SECONDS, REPORT_SECONDS, SHARE_SECONDS = 240.0, 300.0, 10.0
"""Budgets of elasticities, of the claims and the validation, and of what is shared."""


def register(app: Dash, pool: Pool) -> None:
    """Give the app the callbacks that both pages share."""
    _links(app)
    _texts(app, pool)
    _downloads(app, pool)
    _formulas(app, pool)
    _help(app, pool)
    for name, job in (("claims", work.claimed), ("validation", work.validated)):
        _report(app, pool, name, job)


def _links(app: Dash) -> None:
    @app.callback(Output("answer-link", "data"), Input("asked-link", "data"))
    def opened(data: object) -> dict[str, Any]:
        try:
            found = link.decode(str(data["text"]) if isinstance(data, Mapping) else "")
            unknown: list[str] = []
            state = read_state(found, unknown)
        except InputError as error:
            return {"fault": str(error).splitlines()[0]}
        left = f"The link holds what this page does not know, and leaves out: {', '.join(unknown)}."
        return {"state": state, "fault": left if unknown else ""}


def read_state(state: object, unknown: list[str]) -> dict[str, Any]:
    """Return a page's state, with only what it may hold; words that are no fields are put into `unknown`.

    Raises
    ------
    InputError
        If it is none.
    """
    must = "one that this page made"
    if not isinstance(state, Mapping) or not isinstance(state.get("limits"), Mapping):
        raise InputError("link", must, state)
    runs = state["limits"].get("runs")
    if not isinstance(runs, list) or not 1 <= len(runs) <= MOST_RUNS:
        raise InputError("link", must, runs)

    def entry(value: Any, read: Any, words: frozenset[str]) -> dict[str, Any]:
        if isinstance(value, Mapping) and isinstance(value.get("words"), Mapping):
            unknown.extend(shown(name) for name in value["words"] if name not in words)
            value = {**value, "words": {n: text for n, text in value["words"].items() if n in words}}
        found: Entry = read(value)
        parts = {name: getattr(found, name) for name in ("name", "paste", "model")}
        tables = {name: dict(getattr(found, name)) for name in ("words", "device")}
        return {**parts, **tables, "from": str(value.get("from", ""))[:60]}

    active = state["limits"].get("active", 0)
    return {
        "limits": {
            "active": active if isinstance(active, int) and 0 <= active < len(runs) else 0,
            "preset": str(state["limits"].get("preset", ""))[:60],
            "runs": [entry(run, read_limits, LIMITS_WORDS) for run in runs],
        },
        "plan": {
            **entry(state.get("plan"), read_plan, PLAN_WORDS),
            "preset": str(state["plan"].get("preset", ""))[:60],
        },
    }


def _texts(app: Dash, pool: Pool) -> None:
    @app.callback(Output("shared", "children"), Input("asked-share", "data"))
    def shared(data: Any) -> list[Any]:
        page = str(data["page"])
        blocks, faults = [], []
        try:
            packed = link.encode(read_state(data["state"], []))
            tab = "" if page == "limits" else f".{page}"
            blocks.append(("Link", f"{str(data['at'])[:200]}#{packed}{tab}"))
        except InputError as error:
            faults.append(str(error).splitlines()[0])
        if page in ("limits", "plan"):
            more, wrong = _as_words(page, data["state"], pool)
            blocks, faults = [*blocks, *more], [*faults, *wrong]
        else:
            blocks.append(("Command line", f"scalewall {'claims' if page == 'claims' else 'validate'}"))
        said = [html.P(text, className="fault") for text in faults]
        return [*said, *(_block(i, title, text) for i, (title, text) in enumerate(blocks))]


def _as_words(page: str, state: Any, pool: Pool) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what a page asks as a command line, TOML, Python and files, and what is wrong with it."""
    plan = page == "plan"
    entries = (read_plan(state["plan"]),) if plan else tuple(map(read_limits, state["limits"]["runs"]))
    active = 0 if plan else min(max(int(state["limits"]["active"]), 0), len(entries) - 1)
    name = "|".join(key(entry, "files") for entry in entries)
    own: work.OwnFiles = pool.wait(
        pool.ask(name, work.own_files, entries, plan, who="share", seconds=SHARE_SECONDS, quick=True)
    )
    words = [
        texts.plan_words(entry, *names) if plan else texts.limits_words(entry, names[0])
        for entry, names in zip(entries, own.names, strict=True)
    ]
    of = f" of {entries[active].name}" if len(entries) > 1 else ""
    return [
        ("Command line", "\n".join(texts.command(page, one) for one in words)),
        (f"TOML{of}, for --scenario", texts.tables(words[active])),
        (f"Python{of}", texts.python(page, words[active])),
        *((f"{file}, a file that these need beside them", text) for file, text in own.texts.items()),
    ], list(own.faults)


def _block(number: int, title: str, text: str) -> html.Div:
    name = f"copied-{number}"
    button = html.Button(
        "Copy", type="button", className="quiet", **{"data-copy": name, "aria-label": f"Copy: {title}"}
    )
    return html.Div(
        [html.Div([html.H3(title), button], className="row apart"), html.Pre(text, id=name, tabIndex="0")]
    )


def _downloads(app: Dash, pool: Pool) -> None:
    @app.callback(Output("download", "data"), Input("asked-download", "data"))
    def download(data: Any) -> Any:
        plan, kind = data["page"] == "plan", data["kind"]
        if kind not in ("csv", "parquet"):
            raise InputError("kind", "csv or parquet", kind)
        entry = (read_plan if plan else read_limits)(data["run"])
        job = pool.ask(
            key(entry, f"file-{kind}-{plan}"),
            work.plan_file if plan else work.limits_file,
            entry,
            kind,
            who=str(data["who"])[:40] + "-file",
            seconds=CURVE_SECONDS,
        )
        content: bytes = pool.wait(job)
        return dcc.send_bytes(content, f"{texts.file_name(entry)}.{kind}")


def _formulas(app: Dash, pool: Pool) -> None:
    @app.callback(Output("explained", "children"), Input("asked-explained", "data"))
    def explained(data: Any) -> list[Any]:
        entry = read_limits(data["run"])
        answer: Limits = pool.wait(
            pool.ask(
                key(entry),
                work.limited,
                entry,
                who=str(data["who"])[:40] + "-explain",
                seconds=CURVE_SECONDS,
                urgency=0,
            )
        )
        flop = data.get("flop")
        found = explain.limits(answer, str(data["what"]), flop if isinstance(flop, (int, float)) else None)
        return [html.P(entry.name, className="faint"), *found]


def _help(app: Dash, pool: Pool) -> None:
    @app.callback(
        Output("picture-help", "data"), Output("table-help", "children"), Input("asked-help", "data")
    )
    def helped(data: Any) -> tuple[Any, Any]:
        entry, who = read_limits(data["run"]), str(data["who"])[:40]
        name = key(entry, "help")
        pool.keep_only(who, {name})
        return _reported(
            lambda: pool.ask(name, work.helped, entry, who=who, seconds=HELP_SECONDS, urgency=2), pool
        )


def _report(app: Dash, pool: Pool, name: str, job: Any) -> None:
    @app.callback(
        Output(f"picture-{name}", "data"), Output(f"table-{name}", "children"), Input(f"asked-{name}", "data")
    )
    def report(data: Any) -> tuple[Any, Any]:
        who = str(data["who"])[:40]
        return _reported(lambda: pool.ask(name, job, who=who, seconds=REPORT_SECONDS, urgency=3), pool)


def _reported(asked: Callable[[], Job], pool: Pool) -> tuple[Any, Any]:
    """Return the figure of a report, and its words and tables or what is wrong."""
    try:
        found: work.Report = pool.wait(asked())
    except (ScalewallError, Defect) as error:
        return None, html.P(str(error) or DEFECT, className="fault")
    except Cancelled:
        raise PreventUpdate from None
    words = [html.Div([html.P(line) for line in found.words], className="words")] if found.words else []
    tables = [views.html_table(table, views.VERDICT_CLASSES) for table in found.tables]
    return json.loads(found.figure) if found.figure else None, [*words, *tables]
