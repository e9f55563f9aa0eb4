"""What the browser does by itself with what comes from the server; the functions are in the assets."""

from __future__ import annotations

from dash import ClientsideFunction, Dash, Input, Output

FIGURES = ("limits", "help", "plan", "claims", "validation")


def register(app: Dash) -> None:
    """Give the app the callbacks that run in the browser."""

    def call(name: str, source: str, prop: str, *outputs: Output) -> None:
        app.clientside_callback(
            ClientsideFunction("scalewall", name),
            *outputs,
            Input(source, prop),
            prevent_initial_call=name != "start",
        )

    call("start", "forms", "data")
    for name in FIGURES:
        call(f"draw_{name}", f"picture-{name}", "data", Output(f"graph-{name}", "figure"))
    call("answered", "answer-limits", "data")
    call("pending", "pending-limits", "data")
    call("answered_plan", "answer-plan", "data")
    call("opened", "answer-link", "data")
    call("point", "graph-limits", "clickData")
    call("explained", "explained", "children")
    call("shared", "shared", "children")
    call("helped", "table-help", "children")
