"""Commands on how far training scales: limits, the best strategies, the wall in closed form."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from scalewall.cli.shown import console, print_json, progress
from scalewall.cli.words import Asked, Drawing, Flag, Json, Range, Shown


def limits(
    *,
    asked: Asked | None = None,
    from_: Annotated[Range, Parameter(name="--from")] = None,
    to: Range = None,
    points: Range = None,
    objective: Range = None,
    drawing: Drawing | None = None,
    shown: Shown | None = None,
    explain: Flag = False,
) -> Any:
    """How far training scales: MFU against training compute, the knee, and the latency wall.

    Where the --scenario file has a table [uncertain], medians and intervals are given too.

    Parameters
    ----------
    from_
        Least training compute, FLOP (default 1e24).
    to
        Most training compute, FLOP (default: the wall).
    points
        Points of the curve (default 31).
    objective
        mfu: the highest utilisation (default); devices: the smallest cluster.
    explain
        Say what the search did to be sure of every optimum.
    """
    from scalewall.present import files, tables
    from scalewall.study import limits as study
    from scalewall.study import records
    from scalewall.study.citations import Answered

    out = shown or Shown()
    out.check()
    scenario = (asked or Asked()).read(from_flop=from_, to_flop=to, points=points, objective=objective)
    draws = (drawing or Drawing()).read(scenario)
    with progress() as tell:
        answer = study.limits(scenario, tell, draws=draws)

    def figure() -> Any:
        from scalewall.present import figures

        return figures.limits_figure(answer)

    answered = Answered(command="limits", scenarios=(scenario,))
    out.show(
        answered,
        lambda: records.of_limits(answer),
        lambda screen: tables.show_limits(screen, answer, explain),
        lambda: records.rows(answer),
        figure,
        lambda: files.about(answer),
    )
    return answered


def best(
    training_flop: str,
    /,
    *,
    asked: Asked | None = None,
    devices: Range = None,
    top: Range = None,
    objective: Range = None,
    json: Json = False,
    explain: Flag = False,
) -> Any:
    """The best strategies for one training compute, and where a step's time goes.

    The whole space is searched; a preset gives the hardware alone.

    Parameters
    ----------
    training_flop
        Training compute, such as 1e28.
    devices
        Number of devices: the fastest strategies on just as many, deadline and objective aside.
    top
        How many strategies of different degrees to show (default 5).
    objective
        mfu: the highest utilisation (default); devices: the smallest cluster.
    json
        Print one JSON document instead of a table.
    explain
        Say what the search did to be sure.
    """
    from scalewall.present import tables
    from scalewall.study import points, records
    from scalewall.study.citations import Answered

    scenario = (asked or Asked()).read(objective=objective)
    found = points.best_points(scenario, training_flop, devices=devices, top=top or "5")
    answered = Answered(command="best", scenarios=(scenario,))
    if json:
        print_json({"answer": answered.as_dict(), **records.of_best(scenario, found)})
    else:
        tables.show_best(console(), found, explain)
    return answered


def wall(
    *,
    latency: str = "9us",
    layers: str = "120",
    batch: str = "4e6",
    duration: str = "3 months",
    tokens_per_parameter: str = "20",
    json: Json = False,
) -> Any:
    """The latency wall's closed form: the largest model whose steps fit a run, on any number of devices.

    Parameters
    ----------
    latency
        Wait of one matrix multiplication, its network operations included.
    layers
        Number of blocks.
    batch
        Tokens a batch.
    duration
        Longest the run may take.
    tokens_per_parameter
        Training tokens a parameter.
    json
        Print one JSON document instead of a sentence.
    """
    from scalewall.present import tables
    from scalewall.study import closed_form, records
    from scalewall.study.citations import Answered

    answer = closed_form.wall(
        latency=latency,
        layers=layers,
        batch=batch,
        duration=duration,
        tokens_per_parameter=tokens_per_parameter,
    )
    answered = Answered(command="wall", kinds=("wall",))
    if json:
        print_json({"answer": answered.as_dict(), **records.of_wall(answer)})
    else:
        tables.show_wall(console(), answer)
    return answered
