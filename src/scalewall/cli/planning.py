"""Commands on real runs: plans for a model on a cluster, predicted against measured, the models known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from scalewall.cli.shown import console, print_json, progress
from scalewall.cli.words import File, Flag, Json, Several, Shown, Word, pairs, together
from scalewall.errors import InputError

if TYPE_CHECKING:
    from scalewall.study.planning import PlanScenario

Train = Annotated[str | None, Parameter(group=Group("How it is trained", sort_key=1))]
Fix = Annotated[str | None, Parameter(group=Group("Fixing parts of the strategy", sort_key=2))]
Settings = Annotated[Several, Parameter(name="--set")]


@Parameter(name="*")
@dataclass(kw_only=True)
class Wanted:
    """What a plan may say.

    Parameters
    ----------
    hardware
        Device: a name of the catalogue, or the path of a .toml file.
    gpus
        Number of devices.
    batch
        Sequences a step, over all devices.
    seq
        Tokens a sequence.
    scenario
        TOML file that holds these words; options win over it.
    preset
        Study whose hardware is used: epoch-2024.
    precision
        bf16 (default), fp16, fp8, fp8-block or fp4.
    software
        Framework: megatron (default), or one of those that 'scalewall assumptions' lists.
    tokens
        Tokens of the whole run, such as 15e12: its time, device-hours, energy.
    price
        Price of a device and hour, such as '2.5 USD': with --tokens, the cost of the whole run.
    set_
        A constant of practice or memory, as NAME=VALUE; 'scalewall assumptions' lists them.
    tp
        Tensor-parallel degree, or several such as 4,8.
    pp
        Pipeline stages.
    dp
        Data-parallel degree.
    cp
        Context-parallel degree; 1 if tp, pp and dp are given.
    ep
        Expert-parallel degree: 1, as experts are not priced yet.
    vpp
        Chunks a pipeline stage (virtual pipeline size).
    micro_batch
        Sequences a micro-batch.
    zero
        ZeRO stage: 0, 1, 2, or 3 (FSDP).
    shard
        Ranks over which ZeRO and FSDP shard (default: all that hold the same weights).
    recompute
        none, selective, full, a number of layers of a stage, or both as in selective+3 (default: the
        least that fits).
    schedule
        1f1b (default) or zero-bubble.
    """

    hardware: Word = None
    gpus: Word = None
    batch: Word = None
    seq: Word = None
    scenario: Path | None = None
    preset: Word = None
    precision: Train = None
    software: Train = None
    tokens: Train = None
    price: Train = None
    set_: Annotated[Settings, Parameter(group=Group("How it is trained", sort_key=1))] = None
    tp: Fix = None
    pp: Fix = None
    dp: Fix = None
    cp: Fix = None
    ep: Fix = None
    vpp: Fix = None
    micro_batch: Fix = None
    zero: Fix = None
    shard: Fix = None
    recompute: Fix = None
    schedule: Fix = None

    def read(self, **more: str | int | None) -> PlanScenario:
        """Return the scenario, with `more` words of a command's own."""
        from scalewall.study.planning import plan_scenario

        words = {name: value for name, value in {**vars(self), **more}.items() if value is not None}
        constants = pairs("set", words.pop("set_", None))
        file = words.pop("scenario", None)
        return plan_scenario(file, **together(words, constants))


def plan(
    model: str | None = None,
    /,
    *,
    wanted: Wanted | None = None,
    top: Word = None,
    min_gpus: Flag = False,
    json: Json = False,
    output: Annotated[File, Parameter(name=("--output", "-o"))] = None,
    figure: File = None,
) -> Any:
    """The best strategies for a real model on a real cluster, or what a given one does.

    Step time, utilisation, where every second and every byte goes, what binds, and whether it fits.

    Parameters
    ----------
    model
        A name that 'scalewall models' lists, or the path of a config.json, a .toml file, or Megatron-LM
        arguments (.sh, .txt).
    top
        How many strategies to show (default 10).
    min_gpus
        Find the fewest devices that fit, and plan for those; --gpus is then not needed.
    json
        Print one JSON document instead of tables.
    output
        Write every strategy to a .parquet or .csv file.
    figure
        Write a figure: .html, or .png, .svg, .pdf.
    """
    from scalewall.present import tables_plan
    from scalewall.study import plan as study
    from scalewall.study import records_plan

    out = Shown(json=json, output=output, figure=figure)
    out.check()
    wanted = wanted or Wanted()
    if min_gpus:
        if wanted.gpus is not None:
            raise InputError("gpus", "left out with --min-gpus, which finds it", wanted.gpus)
        wanted.gpus = "1"
    scenario = wanted.read(model=model, top=top)
    answer = study.fewest(scenario) if min_gpus else study.plan(scenario)
    answered = records_plan.answered(scenario)

    def drawn() -> Any:
        from scalewall.present import figures_plan

        return figures_plan.planning_figure(answer)

    out.show(
        answered,
        lambda: records_plan.of_planning(answer),
        lambda screen: tables_plan.show_planning(screen, answer),
        lambda: records_plan.planning_rows(answer),
        drawn,
    )
    return answered


def validate(
    *,
    runs: Path | None = None,
    set_: Settings = None,
    rows: Flag = False,
    json: Json = False,
    output: Annotated[File, Parameter(name=("--output", "-o"))] = None,
    figure: File = None,
) -> Any:
    """Predicted against measured: the step time of every published run that says enough.

    Parameters
    ----------
    runs
        CSV file of runs in place of those that ship; 'id' and the columns of those.
    set_
        A constant of practice or memory, as NAME=VALUE; 'scalewall assumptions' lists them.
    rows
        Also print every run, with what it left open and how that was settled.
    json
        Print one JSON document instead of tables.
    output
        Write every run to a .parquet or .csv file.
    figure
        Write a figure: .html, or .png, .svg, .pdf.
    """
    from scalewall.present import files, tables_validation
    from scalewall.study import records_plan
    from scalewall.study import validation as study
    from scalewall.study.citations import Answered

    Shown(output=output, figure=figure).check()
    with progress() as tell:
        answer = study.validate_file(runs, tell, **pairs("set", set_))
    answered = Answered(
        command="validate",
        kinds=("plan",) if runs else ("plan", "validate"),
        hardware=tuple(answer.summary.by_device),
    )
    document = {"answer": answered.as_dict(), **records_plan.of_validation(answer)}
    if json:
        print_json(document)
    else:
        tables_validation.show_validation(console(), answer, rows)
    if output is not None:
        about = {"runs": str(runs or "those that ship"), **document}
        about.pop("rows")
        files.write_rows(records_plan.validation_rows(answer), about, output)
    if figure is not None:
        from scalewall.present import figures_validation

        files.write_figure(figures_validation.validation_figure(answer), figure)
    return answered


def models(name: str | None = None, /, *, seq: Word = None, json: Json = False) -> Any:
    """The catalogue of models, or one of them with its exact counts.

    Parameters
    ----------
    name
        A name of the catalogue, or the path of a config.json, a .toml file, or Megatron-LM arguments;
        all if left out.
    seq
        Tokens a sequence, for the arithmetic of training on a token (default 4096).
    json
        Print one JSON document instead of a table.
    """
    from scalewall.present import tables_models
    from scalewall.study import records_plan
    from scalewall.study.citations import Answered
    from scalewall.study.planning import read_count
    from scalewall.workload.formats import model_names, read_model

    length = read_count(seq or "4096", "seq", 10**9)
    if name is not None:
        model = read_model(name)
        answered = Answered(command="models", model=name)
        if json:
            print_json({"answer": answered.as_dict(), **records_plan.of_model(model, length)})
        else:
            console().print(tables_models.model_entry(model, length))
        return answered
    known = [read_model(one) for one in model_names()]
    if json:
        print_json({"models": [records_plan.of_model(model, length) for model in known]})
    else:
        tables_models.show_models(console(), known)
    return None
