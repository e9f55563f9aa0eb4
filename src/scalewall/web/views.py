"""Tables and words of the page, made of the tables that the commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from scalewall.present import tables
from scalewall.present.figures import PALETTE, power
from scalewall.study import claims
from scalewall.study.limits import Curve, Limits
from scalewall.study.points import Point
from scalewall.units import YEAR, show
from scalewall.web.plain import Plain, plain
from scalewall.web.work import PlanAnswer, PlanDrawn

MONTH = YEAR / 12
_PROSE = 50  # letters from which on a text of a table needs room to be read


def html_table(table: Plain, classes: Mapping[str, str] | None = None) -> html.Div:
    """Return a table of texts as one of the page; `classes` gives cells of a text a class."""
    known = classes or {}

    def cell(i: int, text: str) -> html.Td:
        prose = "prose" if len(text) > _PROSE else ""
        named = ["number" if table.right[i] else "", prose, known.get(text, "")]
        return html.Td(text, className=" ".join(filter(None, named)))

    head = [
        html.Th(text or "#", scope="col", className="number" if table.right[i] else "")
        for i, text in enumerate(table.heads)
    ]
    rows = [html.Tr([cell(i, text) for i, text in enumerate(cells)]) for cells in table.rows]
    return framed([html.Thead(html.Tr(head)), html.Tbody(rows)], table.caption)


def framed(parts: list[Any], caption: str) -> html.Div:
    """Return a table in a frame that scrolls sideways and can be reached by the keyboard."""
    named = [html.Caption(caption)] if caption else []
    return html.Div(
        html.Table([*named, *parts]),
        className="scroll",
        tabIndex="0",
        role="region",
        **{"aria-label": caption or "Table"},
    )


def number(text: str, page: str, what: str, place: int) -> html.Button:
    """Return a number that opens its formula."""
    return html.Button(
        text,
        type="button",
        className="explained",
        **{"data-page": page, "data-what": what, "data-place": str(place), "aria-haspopup": "dialog"},
    )


def swatch(place: int) -> html.Span:
    """Return a dot in the colour of a scenario's curve."""
    return html.Span(className=f"swatch series-{place % len(PALETTE)}", **{"aria-hidden": "true"})


def _efficient(point: Point, place: int) -> list[html.Td]:
    s = point.strategy
    dp, width, ff, pp, ep = map(tables.count, (s.dp, s.tp_model, s.tp_ff, s.pp, s.ep))
    degrees = f"{dp} × {width}·{ff} × {pp}" + (f" × {ep}" if s.ep > 1 else "")
    return [*_run(point, "knee", place), html.Td(degrees, className="number strategy")]


def _short(n: float) -> str:
    return tables.count(n).replace("e+0", "e").replace("e+", "e")


def _run(point: Point, kind: str, place: int) -> list[html.Td]:
    def cell(text: str, what: str) -> html.Td:
        return html.Td(number(text, "limits", f"{kind}.{what}", place), className="number")

    whole = [
        cell(power(point.training_flop), "flop"),
        cell(_short(point.n_devices), "devices"),
        cell(f"{point.mfu:.1%}", "mfu"),
        cell(f"{point.duration_s / MONTH:.2f}", "duration"),
    ]
    return whole if kind == "knee" else [*whole[:2], whole[3]]


def limits_table(named: Sequence[tuple[str, Limits | None, bool]]) -> html.Div:
    """Return the largest efficient and the largest feasible run of every scenario.

    Each has a name, its answer if there is one, and whether one is still being found.
    """
    head = html.Thead(
        [
            html.Tr(
                [
                    html.Th("Scenario", rowSpan=2, scope="col"),
                    html.Th("Largest efficient run (knee)", colSpan=6, scope="colgroup", className="group"),
                    html.Th("Largest feasible run (wall)", colSpan=4, scope="colgroup", className="group"),
                ]
            ),
            html.Tr(
                [
                    html.Th(text, scope="col", className=named)
                    for text, named in (
                        *(("FLOP", "number"), ("devices", "number"), ("MFU", "number"), ("months", "number")),
                        *(("data × tensor × pipeline", "number strategy"), ("binds", "")),
                        *(("FLOP", "number"), ("devices", "number"), ("months", "number"), ("binds", "")),
                    )
                ]
            ),
        ]
    )
    rows = []
    for place, (name, answer, wanted) in enumerate(named):
        label = html.Th([swatch(place), name or "unnamed"], scope="row")
        if answer is None:
            text = "being found …" if wanted else "no answer to its entries"
            rows.append(html.Tr([label, html.Td(text, colSpan=10, className="faint")]))
            continue
        curve = answer.curves[0]
        knee = (
            [*_efficient(curve.knee, place), html.Td(str(curve.knee_binding))]
            if curve.knee
            else [html.Td("none before the wall", colSpan=6, className="faint")]
        )
        wall = [*_run(curve.wall, "wall", place), html.Td(curve.wall_binding)]
        rows.append(html.Tr([label, *knee, *wall]))
    return framed([head, html.Tbody(rows)], "Largest runs by scenario")


def summary(curve: Curve, answer: Limits) -> html.Div:
    """Return a curve's answer in words, as the command prints it."""
    return html.Div([html.P(line) for line in tables.summary(curve, answer)], className="words")


def point_panel(curve: Curve, point: Point) -> list[Any]:
    """Return all of one point: the run, its strategy and where a step's time goes."""
    return [
        html_table(plain(tables.points_table([point]), "The run")),
        html_table(
            plain(tables.causes_table([point]), f"Where the {show(point.step_seconds, 's', 3)} of a step go")
        ),
    ]


VERDICT_CLASSES = {claims.AGREES: "good", claims.DIFFERS: "bad", claims.CONTRADICTS: "warn"}
"""How verdicts on claims look."""


def findings(found: PlanAnswer) -> list[Any]:
    """Return what a plan's answer says in words."""
    head = html.Div([html.P(line) for line in found.head], className="words")
    words = html.Div(
        [html.P(line) for line in found.findings], className="words" if found.fits else "words unfit"
    )
    return [head, words, *([html_table(found.gains)] if found.gains else [])]


def drawn(found: PlanDrawn) -> list[Any]:
    """Return where a strategy's seconds and bytes go, and the formulas behind it."""
    blocks = [
        html.Div(
            [html.H3(one.title), html.Div([html.Div(one.formula), html.Div(one.put_in)], className="formula")]
        )
        for one in found.formulas
    ]
    behind = html.Details(
        [html.Summary("Formulas with the values put in, and sources"), *blocks, html_table(found.sources)],
        className="behind",
    )
    return [html_table(found.seconds), html_table(found.bytes), behind]
