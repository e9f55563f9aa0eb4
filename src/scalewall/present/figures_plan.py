"""Plans as Plotly figures: from the peak to the MFU, memory against capacity, and a step stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalewall.cost.training import TRAINING_CAUSES
from scalewall.cost.training_memory import MEMORY_ITEMS
from scalewall.present.drawn import finish
from scalewall.present.figures import PALETTE
from scalewall.present.figures_timeline import add_timeline, is_cut
from scalewall.present.tables_plan import degrees
from scalewall.study.plan import Planned, Planning
from scalewall.study.planning import PlanScenario
from scalewall.study.timeline import timeline
from scalewall.units import show

BLUE, VERMILION, _, PURPLE, ORANGE, _, _ = PALETTE
GREY = "#8a8a8a"
KINDS = {
    **dict.fromkeys(("kernel_efficiency", "memory_bandwidth", "recomputation", "optimizer"), ORANGE),
    "host": GREY,
    **dict.fromkeys(("tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel"), VERMILION),
    **dict.fromkeys(("pipeline_bubble", "straggling"), PURPLE),
}
"""Colours of causes: what the device does itself, the host, the network, and waiting."""

ITEMS = dict(zip(MEMORY_ITEMS, (*PALETTE[:6], "#3d3d3d", "#b8b8b8"), strict=True))
"""Colours of what memory holds."""

MOST_BARS = 6
LEAST_SHARE = 5e-4


def planning_figure(answer: Planning) -> Any:
    """Return a plan's figure: what eats the best strategy's peak, what fills the memory, and its step."""
    from plotly.subplots import make_subplots

    scenario, best = answer.scenario, answer.strategies[0]
    step = timeline(scenario.question(), best.plan)
    cut = is_cut(step)
    figure = make_subplots(
        rows=2,
        cols=2,
        specs=[[{}, {}], [{}, {}] if cut else [{"colspan": 2}, None]],
        row_heights=[0.5, 0.5],
        vertical_spacing=0.14,
        subplot_titles=(
            "From peak to MFU",
            "Memory of the fullest devices",
            *(("How the step begins", "How it ends") if cut else ("The step, stage by stage",)),
        ),
    )
    _add_waterfall(figure, best)
    shown = answer.strategies[:MOST_BARS]
    _add_memory(figure, scenario, shown)
    add_timeline(figure, step)
    model = scenario.job.model
    what = (
        f"{scenario.gpus:,} {scenario.hardware}, {scenario.batch:,} × {scenario.seq:,} tokens a step, "
        f"{scenario.precision}; {degrees(best.plan, scenario)}"
    )
    title = f"{model.title or model.name}: {show(best.step_time_s, 's', 3)} a step, MFU {best.mfu:.1%}"
    finish(figure, title, what, "scalewall plan", 920, {"l": 145, "r": 40, "t": 110, "b": 115})
    _layout(figure, cut)
    return figure


def _layout(figure: Any, cut: bool) -> None:
    figure.update_layout(
        barmode="overlay",
        bargap=0.25,
        uniformtext={"mode": "hide", "minsize": 7},  # numbers of micro-batches where there is room
        legend={"x": 1.0, "xanchor": "right", "y": 0.485, "yanchor": "top", "orientation": "h"},
        legend2={"x": 0.0, "xanchor": "left", "y": -0.095, "yanchor": "top", "orientation": "h"},
    )
    for legend in ("legend", "legend2"):
        figure.update_layout({legend: {"font": {"size": 12}, "traceorder": "normal"}})
    figure.update_xaxes(domain=[0.0, 0.36], row=1, col=1)
    figure.update_xaxes(domain=[0.6, 1.0], row=1, col=2)
    figure.update_yaxes(domain=[0.57, 1.0], showgrid=False, row=1)
    figure.update_yaxes(domain=[0.0, 0.37], showgrid=False, row=2)
    if cut:
        figure.update_xaxes(domain=[0.0, 0.49], row=2, col=1)
        figure.update_xaxes(domain=[0.51, 1.0], row=2, col=2)
    # Titles stand over the domains that they were made for; these have moved.
    titles = figure.layout.annotations[: 4 if cut else 3]
    for title, left in zip(titles, (0.0, 0.6, 0.0, 0.51), strict=False):
        title.update(x=left, xanchor="left", y=0.37 if title in titles[2:] else 1.0, font={"size": 15})


def _add_waterfall(figure: Any, one: Planned) -> None:
    """Add the shares of the step that are lost to each cause, from the peak down to the MFU."""
    import plotly.graph_objects as go

    left, rows = 1.0, [("dense peak", 0.0, 1.0, BLUE, "all of the device's dense peak")]
    for cause, seconds in one.seconds_by_cause.items():
        share = seconds / one.step_time_s
        if cause != "arithmetic" and abs(share) > LEAST_SHARE:
            left -= share
            text = f"{TRAINING_CAUSES[cause]}: {show(seconds, 's', 3)}"
            rows.append((cause.replace("_", " "), left, share, KINDS[cause], text))
    rows.append(("MFU", 0.0, one.mfu, BLUE, "what the model's own arithmetic takes of the peak"))
    names, bases, shares, colours, texts = zip(*rows, strict=True)
    figure.add_trace(
        go.Bar(
            orientation="h",
            y=names,
            base=bases,
            x=shares,
            marker={"color": colours},
            customdata=texts,
            hovertemplate="<b>%{y}</b> %{x:.2%}<br>%{customdata}<extra></extra>",
            showlegend=False,
        ),
        row=1,
        col=1,
    )
    for name, base, share, _, _ in rows:
        inside, left_of = share > 0.3, base > 0.12
        figure.add_annotation(
            x=base if left_of and not inside else base + share,
            y=name,
            text=f"{share:.1%}",
            showarrow=False,
            xanchor="right" if left_of or inside else "left",
            xshift=-4 if left_of or inside else 4,
            font={"size": 12, "color": "white" if inside else "#333"},
            row=1,
            col=1,
        )
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%", title_text="share of the dense peak", row=1, col=1)
    figure.update_yaxes(autorange="reversed", row=1, col=1)


def _add_memory(figure: Any, scenario: PlanScenario, strategies: Sequence[Planned]) -> None:
    """Add what fills the fullest stage's devices, a bar each strategy, against what a device has."""
    import plotly.graph_objects as go

    names = [_label(i, one) for i, one in enumerate(strategies, 1)]
    bases = [0.0] * len(strategies)
    for item, colour in ITEMS.items():
        sizes = [one.memory_bytes[item] / 1e9 for one in strategies]
        texts = [f"{_label(i, one)}: {degrees(one.plan, scenario)}" for i, one in enumerate(strategies, 1)]
        if max(sizes) > 0:
            figure.add_trace(
                go.Bar(
                    orientation="h",
                    name=item,
                    y=names,
                    base=list(bases),
                    x=sizes,
                    marker={"color": colour},
                    customdata=texts,
                    hovertemplate=f"<b>{item}</b> %{{x:.2f}} GB<br>%{{customdata}}<extra></extra>",
                ),
                row=1,
                col=2,
            )
        bases = [base + size for base, size in zip(bases, sizes, strict=True)]
    capacity = strategies[0].memory_capacity / 1e9
    figure.add_vline(x=capacity, line={"color": "black", "width": 2, "dash": "dash"}, row=1, col=2)
    figure.add_annotation(
        x=capacity,
        y=1.0,
        yref="y2 domain",
        text=f"{capacity:g} GB ",
        showarrow=False,
        xanchor="right",
        yanchor="bottom",
        font={"size": 12},
        row=1,
        col=2,
    )
    figure.update_xaxes(range=[0, 1.06 * max(capacity, *bases)], title_text="GB", row=1, col=2)
    figure.update_yaxes(autorange="reversed", tickfont={"size": 12}, row=1, col=2)


def _label(number: int, one: Planned) -> str:
    plan = one.plan
    parts = [f"tp {plan.tp}", *([f"cp {plan.cp}"] if plan.cp > 1 else [])]
    parts += [f"pp {plan.pp}", *([f"vpp {plan.interleave}"] if plan.interleave > 1 else []), f"dp {plan.dp}"]
    return f"{number}: {' '.join(parts)}"
