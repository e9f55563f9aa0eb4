"""The three figures of Epoch AI's article on data movement, redrawn from data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from scalewall.errors import InputError
from scalewall.present.drawn import SYMBOLS, Drawn, Row, finish
from scalewall.present.figures import PALETTE, power
from scalewall.present.figures_forecast import over_time
from scalewall.study import ways
from scalewall.study.citations import Answered
from scalewall.study.forecast import forecast_from
from scalewall.study.limits import Curve, Limits, limits
from scalewall.study.scenario import PAPER_PRESET, Scenario, scenario
from scalewall.units import YEAR, show

OVER_TIME_HARDWARE = ("v100", "a100-80gb-sxm", "h100-sxm", "b200")
PAPER_HARDWARE = ("v100", "a100-40gb-sxm", "h100-sxm")


_THEIR_OWN = {"hardware", "preset", "points", "objective", "from_flop", "to_flop", "uncertain"} | {
    "sparse",
    "sparsity_law",
}


def scenarios(words: Mapping[str, Any] | None = None) -> tuple[Scenario, Scenario, Scenario]:
    """Return what the figures ask: of the catalogue's devices, and of the paper's, dense and sparse.

    `words` are those of `study.scenario` that say how runs scale, on whatever hardware.

    Raises
    ------
    InputErrors
        All that is wrong with them.
    """
    said = dict(words or {})
    for name in sorted(_THEIR_OWN & set(said)):
        raise InputError(name, "left out, since the figures have their own", said[name])
    papers = {**said, "hardware": PAPER_HARDWARE, "preset": PAPER_PRESET}
    return (
        scenario(**{**said, "hardware": OVER_TIME_HARDWARE, "points": 9}),
        scenario(**papers),
        scenario(**{**papers, "sparse": True}),
    )


def article_figures(
    tell: Callable[[int, int, str], None] | None = None, words: Mapping[str, Any] | None = None
) -> Iterator[Drawn]:
    """Yield the article's figures as they are made; `tell` is called as parts of them are done.

    `words` are as in `scenarios`. The first takes the catalogue's devices and the exact search; the
    second the paper's devices, grid and space (preset ``epoch-2024``); the third the paper's devices and
    the exact search.
    """
    total = len(OVER_TIME_HARDWARE) + 2 * len(PAPER_HARDWARE) + len(ways.WAYS)
    done = 0

    def next_part(what: str) -> None:
        nonlocal done
        if tell is not None:
            tell(done, total, what)
        done += 1

    over, *papers = scenarios(words)
    parts: list[Limits] = []
    for name in over.hardware:
        next_part(f"{name}: limits")
        parts.append(limits(attrs.evolve(over, hardware=(name,))))
    answer = Limits(scenario=over, curves=tuple(part.curves[0] for part in parts))
    yield _citable(over_time(forecast_from(answer)), over, "figures", "models")
    curves: list[tuple[Curve, bool]] = []
    for sparse, asked in zip((False, True), papers, strict=True):
        for name in asked.hardware:
            next_part(f"{name}, {_kind(sparse)}: curve")
            curves.append((limits(attrs.evolve(asked, hardware=(name,))).curves[0], sparse))
    yield _citable(utilisation(curves, papers[0].duration), papers[0], "figures")
    yield _citable(moved_limits(ways.find_all(next_part, words)), papers[0], "figures")
    if tell is not None:
        tell(total, total, "done")


def _citable(drawn: Drawn, asked: Scenario, *kinds: str) -> Drawn:
    """Return a figure whose files say what they answer, so that they can be cited."""
    answered = Answered(command="figures", scenarios=(asked,), kinds=kinds)
    return attrs.evolve(drawn, about={**answered.as_documents(), **drawn.about})


# Utilisation -----------------------------------------------------------------------------------------


def utilisation(curves: Sequence[tuple[Curve, bool]], duration: float = 0.25 * YEAR) -> Drawn:
    """Return MFU against training compute by device, dense and sparse (each curve comes with which it is)."""
    rows: list[Row] = []
    for curve, sparse in curves:
        same = {"hardware": curve.hardware, "models": _kind(sparse)}
        for p in curve.points:
            point = {"training_flop": p.training_flop, "mfu": p.mfu, "n_devices": p.n_devices}
            rows.append({"series": "curve", **same, **point, "binding": p.binding})
        for kind, end in (("knee", curve.knee), ("wall", curve.wall)):
            if end is not None:
                point = {"training_flop": end.training_flop, "mfu": end.mfu, "n_devices": end.n_devices}
                rows.append({"series": kind, **same, **point, "binding": end.binding})
    title = "Best utilisation of the paper's devices"
    return Drawn(
        name="utilisation",
        title=title,
        figure=_utilisation_figure(rows, title, show(duration, "s")),
        rows=rows,
        about={"credit": "Computed by scalewall", "preset": PAPER_PRESET, "duration": duration},
    )


def _utilisation_figure(rows: Sequence[Row], title: str, longest: str) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    pairs = list(dict.fromkeys((row["hardware"], row["models"]) for row in rows))
    devices = list(dict.fromkeys(hardware for hardware, _ in pairs))
    for hardware, models in pairs:
        i = devices.index(hardware)
        colour, symbol = PALETTE[i % len(PALETTE)], SYMBOLS[i % len(SYMBOLS)]
        own = {
            kind: [r for r in rows if (r["series"], r["hardware"], r["models"]) == (kind, hardware, models)]
            for kind in ("curve", "knee", "wall")
        }
        ends = ", ".join(
            f"{kind} {power(r['training_flop'])}" for kind in ("knee", "wall") for r in own[kind]
        )
        open_ = "-open" if models == "sparse" else ""
        figure.add_scatter(
            x=[row["training_flop"] for row in own["curve"]],
            y=[row["mfu"] for row in own["curve"]],
            name=f"{hardware}, {models}<br><sup>{ends}</sup>",
            mode="lines+markers",
            legendgroup=f"{hardware} {models}",
            line={"color": colour, "width": 2.2, "dash": "dash" if models == "sparse" else "solid"},
            marker={"symbol": f"{symbol}{open_}", "size": 6, "color": colour},
            hovertemplate="%{x:.3g} FLOP<br>MFU %{y:.1%}<extra></extra>",
        )
        for kind, mark in (("knee", "circle-open"), ("wall", "x-thin")):
            figure.add_scatter(
                x=[row["training_flop"] for row in own[kind]],
                y=[row["mfu"] for row in own[kind]],
                mode="markers",
                showlegend=False,
                legendgroup=f"{hardware} {models}",
                name=f"{kind}, {hardware}, {models}",
                cliponaxis=False,
                marker={"symbol": mark, "size": 15, "color": colour, "line": {"width": 2.5, "color": colour}},
            )
    what = f"runs of at most {longest} on the paper's grid of models; ring: knee, cross: wall"
    finish(figure, title, what, f"Computed by scalewall, preset {PAPER_PRESET}.", 640, {"r": 250})
    figure.update_xaxes(
        title_text="training compute (FLOP)",
        type="log",
        dtick=1,
        exponentformat="power",
    )
    figure.update_yaxes(title_text="MFU", tickformat=".0%", rangemode="tozero")
    figure.update_layout(legend={"x": 1.02, "y": 1.0, "tracegroupgap": 8})
    return figure


# Ways to move the limits -----------------------------------------------------------------------------


def moved_limits(found: Sequence[ways.Moved]) -> Drawn:
    """Return the knee and the wall under each way, beside those of the first."""
    base = found[0]
    rows = []
    for moved in found:
        knee = moved.knee.training_flop if moved.knee else None
        base_knee = base.knee.training_flop if base.knee else None
        rows.append(
            {
                "way": moved.way.name,
                "kind": moved.way.kind,
                "hardware": moved.way.hardware,
                "knee_flop": knee,
                "knee_binding": moved.knee.binding if moved.knee else None,
                "knee_factor": knee / base_knee if knee and base_knee else None,
                "wall_flop": moved.wall.training_flop,
                "wall_binding": moved.wall.binding,
                "wall_factor": moved.wall.training_flop / base.wall.training_flop,
            }
        )
    title = "Ways to move the limits"
    about = {"credit": "Computed by scalewall", "scenario": base.scenario.as_dict(), "preset": PAPER_PRESET}
    return Drawn(name="ways", title=title, figure=_ways_figure(rows, title), rows=rows, about=about)


def _ways_figure(rows: Sequence[Row], title: str) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    names = [row["way"] for row in rows]
    for row in rows:
        if row["knee_flop"] is not None:
            figure.add_scatter(
                x=[row["knee_flop"], row["wall_flop"]],
                y=[row["way"]] * 2,
                mode="lines",
                line={"color": "#bbb", "width": 3},
                showlegend=False,
                hoverinfo="skip",
            )
    looks = (("knee", PALETTE[0], "circle", "right"), ("wall", PALETTE[1], "x", "left"))
    for kind, colour, symbol, anchor in looks:
        own = [row for row in rows if row[f"{kind}_flop"] is not None]
        if rows[0] in own:
            line = {"color": colour, "width": 1.2, "dash": "dot"}
            figure.add_vline(x=rows[0][f"{kind}_flop"], line=line, layer="below")
        figure.add_scatter(
            x=[row[f"{kind}_flop"] for row in own],
            y=[row["way"] for row in own],
            mode="markers",
            name=kind,
            cliponaxis=False,
            marker={"symbol": symbol, "size": 11, "color": colour},
            customdata=[(row[f"{kind}_factor"], row[f"{kind}_binding"]) for row in own],
            hovertemplate="%{y}: %{x:.3g} FLOP<br>× %{customdata[0]:.3g}, %{customdata[1]}<extra></extra>",
        )
        for row in own:
            _add_number(figure, row["way"], row[f"{kind}_flop"], colour, anchor)
    what = "each alone; exact search over all strategies, any number of devices; dotted: the baseline"
    credit = f"Computed by scalewall, devices of the preset {PAPER_PRESET}."
    finish(figure, title, what, credit, 190 + 36 * len(rows), {"l": 315})
    ends = [
        math.log10(row[f"{kind}_flop"]) for row in rows for kind in ("knee", "wall") if row[f"{kind}_flop"]
    ]
    figure.update_xaxes(
        title_text="training compute (FLOP)",
        type="log",
        dtick=1,
        exponentformat="power",
        range=[math.floor(min(ends) - 0.6), math.ceil(max(ends) + 0.6)],
    )
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], ticks="", showgrid=False)
    figure.update_layout(
        legend={"orientation": "h", "x": 1.0, "xanchor": "right", "y": 1.0, "yanchor": "bottom"}
    )
    return figure


def _add_number(figure: Any, way: str, flop: float, colour: str, anchor: str) -> None:
    """Write a compute beside its mark, on white, so that dotted lines do not run through it."""
    figure.add_annotation(
        x=math.log10(flop),
        y=way,
        text=power(flop),
        font={"color": colour, "size": 12},
        bgcolor="white",
        borderpad=1,
        showarrow=False,
        xanchor=anchor,
        xshift=-11 if anchor == "right" else 11,
    )


def _kind(sparse: bool) -> str:
    return "sparse" if sparse else "dense"
