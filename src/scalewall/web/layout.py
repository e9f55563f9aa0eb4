"""What is on the page before anybody has asked anything."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from scalewall.web.fields import forms
from scalewall.web.presets import all_presets

TABS = {"limits": "Limits", "plan": "Plan", "claims": "Claims", "validation": "Validation"}
STORES = (
    *("asked-limits", "next-limits", "pending-limits", "picture-limits", "answer-limits"),
    *("asked-plan", "next-plan", "picture-plan", "answer-plan"),
    *("asked-claims", "picture-claims", "asked-validation", "picture-validation"),
    *(
        "asked-link",
        "answer-link",
        "asked-share",
        "asked-explained",
        "asked-help",
        "picture-help",
        "asked-download",
    ),
)
_GRAPH: dict[str, Any] = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}


def graph(name: str, label: str) -> html.Div:
    """Return a place for a figure, with buttons that save it."""
    return html.Figure(
        [
            dcc.Graph(
                id=name,
                config=_GRAPH,
                figure={"data": [], "layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}}},
            ),
            html.Figcaption([html.Span(label, className="faint"), saving(name)], className="under"),
        ],
        className="figure",
        id=f"{name}-figure",
    )


def saving(name: str) -> html.Span:
    """Return the buttons that save a figure as it is seen."""
    return html.Span(
        [
            html.Button(
                kind.upper(),
                type="button",
                className="quiet",
                **{"data-save": name, "data-kind": kind, "aria-label": f"Save the figure as {kind.upper()}"},
            )
            for kind in ("svg", "png", "html")
        ],
        className="saving",
    )


def layout() -> html.Div:
    """Return the page."""
    return html.Div(
        [
            html.A("Skip to the answer", href="#main", className="skip"),
            _header(),
            html.Div(id="trouble", role="alert"),
            html.Main(
                [_limits(), _plan(), *map(_checked, ("claims", "validation"))], id="main", tabIndex="-1"
            ),
            _dialogs(),
            html.Div(id="said", role="status", className="unseen", **{"aria-live": "polite"}),
            dcc.Store(id="forms", data={"fields": forms(), "presets": all_presets()}),
            *[dcc.Store(id=name) for name in STORES],
            dcc.Download(id="download"),
        ],
        id="page",
    )


def _header() -> html.Header:
    tabs = [
        html.Button(
            label,
            id=f"tab-{name}",
            type="button",
            role="tab",
            className="tab",
            tabIndex="0" if name == "limits" else "-1",
            **{
                "aria-selected": str(name == "limits").lower(),
                "aria-controls": f"panel-{name}",
                "data-tab": name,
            },
        )
        for name, label in TABS.items()
    ]
    return html.Header(
        [
            html.H1("scalewall", className="brand"),
            html.Div(tabs, role="tablist", className="tabs", **{"aria-label": "Questions"}),
            html.Div(
                [
                    html.Button("Share", type="button", id="share", className="button"),
                    html.Button(
                        "Dark", type="button", id="theme", className="quiet", **{"aria-pressed": "false"}
                    ),
                ],
                className="actions",
            ),
        ],
        className="head",
    )


def _panel(name: str, parts: list[Any]) -> html.Section:
    return html.Section(
        parts,
        id=f"panel-{name}",
        role="tabpanel",
        className="panel",
        hidden=name != "limits",
        **{"aria-labelledby": f"tab-{name}"},
    )


def _form(name: str, label: str, parts: list[Any]) -> html.Div:
    """Return a form; where it would stand above the answer, all but its head is folded behind a button."""
    fold = html.Button(
        "Change the inputs",
        type="button",
        className="quiet fold",
        **{"data-fold": name, "aria-expanded": "false", "aria-controls": f"form-{name}"},
    )
    return html.Div(
        [html.Div(id=f"presets-{name}"), *parts, fold, html.Div(id=f"form-{name}", className="folded")],
        className="form",
        role="group",
        **{"aria-label": label},
    )


def _limits() -> html.Section:
    form = _form("limits", "Scenarios", [html.Div(id="runs")])
    answer = html.Div(
        [
            html.Div(id="notes-limits", className="notes", role="status", **{"aria-live": "polite"}),
            graph("graph-limits", "Click a point for its run. Hover for its strategy."),
            html.Div(id="table-limits"),
            html.Div(id="words-limits"),
            html.Div(
                [
                    html.Button("What would help?", type="button", id="help", className="button"),
                    html.Button("Download CSV", type="button", className="quiet", **{"data-download": "csv"}),
                    html.Button(
                        "Download Parquet", type="button", className="quiet", **{"data-download": "parquet"}
                    ),
                    html.Span(id="about-help", className="faint"),
                ],
                className="row",
            ),
            html.Div(
                graph("graph-help", "Per cent more for one per cent more of each input."),
                id="help-figure",
                hidden=True,
            ),
            html.Div(id="table-help"),
        ],
        className="answer",
    )
    return _panel("limits", [html.H2("Limits", className="unseen"), form, answer])


def _plan() -> html.Section:
    form = _form("plan", "The run", [])
    answer = html.Div(
        [
            html.Div(id="notes-plan", className="notes", role="status", **{"aria-live": "polite"}),
            html.Div(id="words-plan"),
            html.Div(id="table-plan"),
            html.Div(
                [
                    html.Button("Lock the degrees shown", type="button", id="lock", className="button"),
                    html.Button("Unlock all", type="button", id="unlock", className="quiet"),
                    html.Button("Download CSV", type="button", className="quiet", **{"data-download": "csv"}),
                    html.Button(
                        "Download Parquet", type="button", className="quiet", **{"data-download": "parquet"}
                    ),
                ],
                className="row",
            ),
            graph(
                "graph-plan",
                "From the peak to the MFU, memory against what a device has, and the pipeline in time.",
            ),
            html.Div(id="tables-plan", className="pair"),
        ],
        className="answer",
    )
    return _panel("plan", [html.H2("Plan", className="unseen"), form, answer])


def _checked(name: str) -> html.Section:
    said = {
        "claims": "Each claim of the sources beside the product's own figure, computed now; "
        "the first time takes about a minute.",
        "validation": "Predicted against measured step times of published runs.",
    }[name]
    parts = [
        html.P(said, className="words"),
        html.Div(html.P("Computing …", className="faint"), id=f"table-{name}", className="answer"),
    ]
    figure = html.Div(graph(f"graph-{name}", "Hover for the run."), hidden=name == "claims")
    return _panel(
        name,
        [html.H2(TABS[name], className="unseen"), html.Div([parts[0], figure, parts[1]], className="answer")],
    )


def _dialogs() -> html.Div:
    return html.Div(
        [_dialog("share", "Share", "shared"), _dialog("explain", "Where it comes from", "explained", "side")]
    )


def _dialog(name: str, title: str, body: str, where: str | None = None) -> html.Dialog:
    """Return a dialog with a title and a button that closes it, around the place `body`."""
    close = html.Button("✕", type="button", className="quiet close", **{"aria-label": "Close"})
    head = html.Div([html.H2(title, id=f"{name}-title"), close], className="row apart")
    return html.Dialog(
        [head, html.Div(id=body)],
        id=f"{name}-dialog",
        className=where,
        **{"aria-labelledby": f"{name}-title"},
    )
