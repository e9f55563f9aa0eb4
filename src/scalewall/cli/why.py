"""Commands on why the limits are where they are, what moves them, and when they are met."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from scalewall.cli import last
from scalewall.cli.shown import complain, console, print_json, progress
from scalewall.cli.words import (
    TREND,
    Asked,
    Drawing,
    Flag,
    Growth,
    Json,
    Names,
    Range,
    Scaled,
    Several,
    Shown,
    Word,
)
from scalewall.errors import InputError

if TYPE_CHECKING:
    pass


def sensitivity(
    *,
    asked: Asked | None = None,
    at: Names = None,
    flop: Range = None,
    step: Range = None,
    target: Range = None,
    only: Names = None,
    shown: Shown | None = None,
) -> Any:
    """What the limits depend on: elasticities of knee, wall and MFU, and what a larger run would need.

    Parameters
    ----------
    at
        knee, wall, mfu, or several of them (default all).
    flop
        Training compute at which the MFU is meant (default: the knee).
    step
        Share by which inputs go up and down (default 0.1); exponents by a tenth of it, sizes by two.
    target
        Training compute: also the least change of each input alone that makes such a run efficient.
    only
        Names of inputs, such as scale_out_bandwidth (default all).
    """
    from scalewall.present import tables_sensitivity
    from scalewall.study import records
    from scalewall.study import sensitivity as study
    from scalewall.study.citations import Answered

    out = shown or Shown()
    out.check()
    scenario = (asked or Asked()).read()
    outputs = at or study.OUTPUTS
    with progress() as tell:
        answer = study.sensitivity(
            scenario, at=outputs, flop=flop, step=step or "0.1", target=target, only=only, progress=tell
        )

    def figure() -> Any:
        from scalewall.present import figures_sensitivity

        return figures_sensitivity.tornado_figure(answer)

    answered = Answered(command="sensitivity", scenarios=(scenario,))
    out.show(
        answered,
        lambda: records.of_sensitivity(answer),
        lambda screen: tables_sensitivity.show_sensitivity(screen, answer),
        lambda: records.sensitivity_rows(answer),
        figure,
    )
    return answered


def forecast(
    *,
    asked: Asked | None = None,
    growth: Growth = None,
    start: Growth = None,
    since: Growth = None,
    top: Growth = None,
    today: Growth = None,
    models: Annotated[Path | None, Parameter(group=TREND)] = None,
    drawing: Drawing | None = None,
    shown: Shown | None = None,
) -> Any:
    """When the frontier of training compute meets the knee and the wall of devices.

    Where the --scenario file has a table [uncertain], medians and intervals are given too.

    Parameters
    ----------
    growth
        Factor a year by which the frontier grows from now on (default: that of the trend).
    start
        Where it grows from: trend, the fitted line today (default); largest, the largest known run; or FLOP.
    since
        Year from which models count for the trend (default 2010).
    top
        How many of the largest known models made the frontier at a time (default 10).
    today
        Date, such as 2026-07-15; models published later are left out.
    models
        CSV file of models in place of the one that ships, by Epoch AI.
    """
    from scalewall.present import tables_forecast
    from scalewall.study import forecast as study
    from scalewall.study import records
    from scalewall.study.citations import Answered

    out = shown or Shown()
    out.check()
    named = {"growth": growth, "start": start, "since": since, "top": top, "today": today, "models": models}
    words = {name: word for name, word in named.items() if word is not None}
    scenario = (asked or Asked()).read()
    draws = (drawing or Drawing()).read(scenario)
    with progress() as tell:
        answer = study.forecast(scenario, tell, draws, **words)

    def figure() -> Any:
        from scalewall.present import figures_forecast

        return figures_forecast.over_time(answer).figure

    kinds = ("models",) if answer.is_shipped else ()
    answered = Answered(command="forecast", scenarios=(scenario,), kinds=kinds)
    out.show(
        answered,
        lambda: records.of_forecast(answer),
        lambda screen: tables_forecast.show_forecast(screen, answer),
        lambda: [records.flat(row) for row in records.forecast_rows(answer)],
        figure,
    )
    return answered


def figures_(folder: Path, /, *, scaled: Scaled | None = None, json: Json = False) -> Any:
    """Redraw the three figures of Epoch AI's article, each with its data, into a folder; some two minutes.

    Parameters
    ----------
    folder
        Where to; it is made if it is not there. Files of the same names are replaced.
    json
        Print one JSON document instead of lines.
    """
    from scalewall.present import drawn, figures_article
    from scalewall.study.citations import Answered

    words = (scaled or Scaled()).words()
    scenarios = figures_article.scenarios(words)  # what is wrong with them comes first
    drawn.make_folder(folder)
    written: list[str] = []
    missing: list[str] = []
    with progress() as tell:
        for figure in figures_article.article_figures(tell, words):
            paths, lacking = drawn.write_drawn(figure, folder)
            written += [str(path) for path in paths]
            missing += [lacking] if lacking else []
    if json:
        print_json({"written": written, "missing": missing})
    else:
        console().print("\n".join([*written, *missing]), markup=False, soft_wrap=True)
    return Answered(command="figures", scenarios=scenarios, kinds=("figures", "models"))


def uncertainty(
    *,
    asked: Asked | None = None,
    drawing: Drawing | None = None,
    at: Names = None,
    sobol: Flag = False,
    shown: Shown | None = None,
) -> Any:
    """How sure the limits are: knee, wall and MFU where inputs are uncertain, and what the spread is due to.

    The distributions stand in a table [uncertain] of the --scenario file; else those of the baseline count.

    Parameters
    ----------
    at
        Further training computes at which MFU is wanted.
    sobol
        Also find Sobol indices: samples times (inputs + 2) draws.
    """
    from scalewall.present import tables_uncertainty
    from scalewall.study import records
    from scalewall.study import uncertainty as study
    from scalewall.study.citations import Answered

    out = shown or Shown()
    out.check()
    scenario = (asked or Asked()).read()
    choices = {name: word for name, word in vars(drawing or Drawing()).items() if word is not None}
    with progress() as tell:
        answer = study.uncertainty(scenario, at=at or (), sobol=sobol, progress=tell, **choices)

    def figure() -> Any:
        from scalewall.present import figures_uncertainty

        return figures_uncertainty.uncertainty_figure(answer)

    kinds = ("draws", "sobol") if sobol else ("draws",)
    answered = Answered(command="uncertainty", scenarios=(study.as_drawn(scenario),), kinds=kinds)
    out.show(
        answered,
        lambda: records.of_uncertainty(answer),
        lambda screen: tables_uncertainty.show_uncertainty(screen, answer),
        lambda: records.uncertainty_rows(answer),
        figure,
        lambda: {"scenario": scenario.as_dict()},
    )
    return answered


def claims(
    *,
    only: Annotated[Several, Parameter(consume_multiple=True)] = None,
    device: Word = None,
    json: Json = False,
) -> Any:
    """What the sources claim, the product's own figure for each claim, and whether they agree.

    Parameters
    ----------
    only
        Ids of the claims that are wanted (default all).
    device
        What stands in for the H100: a name of the preset epoch-2024 or of the catalogue, or the path of a
        .toml file (default h100-sxm of the preset).
    json
        Print one JSON document instead of a table.
    """
    from scalewall.present import tables_claims
    from scalewall.study import claims as study
    from scalewall.study import records
    from scalewall.study.citations import Answered

    with progress() as tell:
        checked = study.claims(only or (), device=device, progress=tell)
    scenario = study.asked_of(device or study.DEVICE)
    answered = Answered(command="claims", scenarios=(scenario,), kinds=("claims", "models"))
    if json:
        about = {"answer": answered.as_dict(), "scenario": scenario.as_dict()}
        print_json({**about, **records.of_claims(checked, device or study.DEVICE)})
    else:
        tables_claims.show_claims(console(), checked)
    return answered


def cite(
    file: Path | None = None, /, *, asked: Asked | None = None, bibtex: Flag = False, json: Json = False
) -> None:
    """The sources behind an answer: the last one, that of a file, or what is said as to 'limits'.

    Parameters
    ----------
    file
        What --json printed or -o wrote: a .json, .parquet or .csv file. Left out, and with no other
        word but the two below, the last answer is meant.
    bibtex
        Print BibTeX instead of a list.
    json
        Print one JSON document instead of a list.
    """
    from scalewall.present import tables_claims
    from scalewall.study import citations as study
    from scalewall.study import records

    said = asked is not None and asked != Asked()
    if file is not None and said:
        raise InputError("file", "left out where a scenario is described, or the other way about", str(file))
    remembered = None if file is not None or said else last.recall()
    if remembered is not None:
        whose, found, about = remembered
    else:
        answered = _answered(file, asked)
        found, about = answered.citations, answered.as_documents()
        whose = f"{file}: scalewall {answered.command}" if file is not None else ""
        if file is None and not said:
            complain(
                "No answer is remembered: these are the sources of 'scalewall limits' with its defaults."
            )
    if json:
        print_json(records.of_citations(about, found))
    elif bibtex:
        # Outside of entries BibTeX reads nothing but @.
        print("\n\n".join([*([f"% {whose}".replace("@", " at ")] if whose else []), study.as_bibtex(found)]))
    else:
        tables_claims.show_citations(console(), found, whose)


def _answered(file: Path | None, asked: Asked | None) -> Any:
    """Return what the answer in `file` is to, or else what is `asked`, as of `limits`."""
    from scalewall.study.citations import Answered, answered_in

    if file is None:
        return Answered(command="limits", scenarios=((asked or Asked()).read(),))
    from scalewall.present import files

    return answered_in(files.read_document(file))
