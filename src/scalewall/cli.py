"""The command line. Every command reads words, asks `study`, and shows what comes back."""

# size: every command stands here with its options and their help, most of which is text.

from __future__ import annotations

import io
import json as json_format
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter

from scalewall.errors import InputError, ScalewallError

if TYPE_CHECKING:
    from rich.console import Console

    from scalewall.study.scenario import Scenario

app = App(
    name="scalewall",
    help="How large an AI training run can get on given hardware, how to parallelise it, and what binds.",
    help_format="plaintext",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)

Word = Annotated[str | None, Parameter(negative="")]
Runs = Annotated[str | None, Parameter(group=Group("How runs scale", sort_key=1))]
Range = Annotated[str | None, Parameter(group=Group("Where to look", sort_key=2))]
Lock = Annotated[str | None, Parameter(group=Group("Fixing parts of the strategy", sort_key=3))]
_SHOW = Group("What to show", sort_key=4)
Flag = Annotated[bool, Parameter(negative="", show_default=False, group=_SHOW)]
Json = Annotated[Flag, Parameter(name="--json")]
File = Annotated[Path | None, Parameter(group=_SHOW)]
Several = Annotated[list[str] | None, Parameter(negative="")]


@Parameter(name="*")
@dataclass(kw_only=True)
class Asked:
    """What every question about scaling may say.

    Parameters
    ----------
    hardware
        Devices: names of the catalogue, or paths of .toml files (default h100-sxm).
    preset
        Study whose hardware, grid and space are used: epoch-2024.
    scenario
        TOML file that holds a scenario; options win over it.
    duration
        Longest a run may take (default '3 months').
    batch_law
        Tokens a batch: baseline, constant, zhang-2024, deepseek-2024, or such as '17.75*D^0.47'.
    depth_law
        Blocks: baseline, constant, or a power law.
    sparse
        Sparse models (mixtures of experts) by the baseline sparsity law.
    sparsity_law
        Total over active parameters: dense, baseline, or a power law in d and f.
    tokens_per_parameter
        Training tokens a parameter (default 20).
    threshold
        Share of the sustained MFU below which utilisation has fallen (default 0.8).
    set_
        Any other assumption, as NAME=VALUE; 'scalewall assumptions' lists them.
    dp
        Data-parallel degree, or several such as 8,16.
    tp_model
        Tensor-parallel degree of the model's width.
    tp_ff
        Tensor-parallel degree of the MLP's width.
    pp
        Pipeline stages.
    ep
        Expert-parallel degree.
    microbatches
        Micro-batches a replica and step.
    interleave
        Chunks a pipeline stage.
    schedule
        1f1b or zero-bubble.
    layout
        Degree of an axis within the scale-up domain (and further tiers), as AXIS=DEGREES: tp_ff=8.
    """

    hardware: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    preset: Word = None
    scenario: Path | None = None
    duration: Runs = None
    batch_law: Runs = None
    depth_law: Runs = None
    sparse: Annotated[Flag, Parameter(group=Group("How runs scale", sort_key=1))] = False
    sparsity_law: Runs = None
    tokens_per_parameter: Runs = None
    threshold: Runs = None
    set_: Annotated[Several, Parameter(name="--set", group=Group("How runs scale", sort_key=1))] = None
    dp: Lock = None
    tp_model: Lock = None
    tp_ff: Lock = None
    pp: Lock = None
    ep: Lock = None
    microbatches: Lock = None
    interleave: Lock = None
    schedule: Lock = None
    layout: Annotated[Several, Parameter(group=Group("Fixing parts of the strategy", sort_key=3))] = None

    def read(self, **more: Any) -> Scenario:
        """Return the scenario, with `more` words of a command's own."""
        from scalewall.study import scenario as scenarios

        words = {
            name: value for name, value in vars(self).items() if value is not None and value is not False
        }
        pairs = _pairs("set", words.pop("set_", None))
        settings = {
            name: {"true": True, "false": False}.get(value.lower(), value) for name, value in pairs.items()
        }
        layout = _pairs("layout", words.pop("layout", None))
        file = words.pop("scenario", None)
        words |= settings | ({"layout": layout} if layout else {}) | more
        return scenarios.from_toml(file, **words) if file else scenarios.scenario(**words)


@app.command
def limits(
    *,
    asked: Asked | None = None,
    from_: Annotated[Range, Parameter(name="--from")] = None,
    to: Range = None,
    points: Range = None,
    objective: Range = None,
    json: Json = False,
    output: Annotated[File, Parameter(name=("--output", "-o"))] = None,
    figure: File = None,
    explain: Flag = False,
) -> None:
    """How far training scales: MFU against training compute, the knee, and the latency wall.

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
    json
        Print one JSON document instead of a table.
    output
        Write every point to a .parquet or .csv file.
    figure
        Write a figure: .html, or .png, .svg, .pdf.
    explain
        Say what the search did to be sure of every optimum.
    """
    from scalewall.present import files, tables
    from scalewall.study import limits as study
    from scalewall.study import records

    for path, field, endings in ((output, "output", files.TABLES), (figure, "figure", files.FIGURES)):
        if path is not None:
            files.check_path(path, field, endings)
    scenario = (asked or Asked()).read(from_flop=from_, to_flop=to, points=points, objective=objective)
    with _progress() as tell:
        answer = study.limits(scenario, tell)
    if json:
        _print_json(records.of_limits(answer))
    else:
        tables.show_limits(_console(), answer, explain)
    if output is not None:  # after the answer is shown: nothing computed is lost if this fails
        files.write_limits(answer, output)
    if figure is not None:
        from scalewall.present import figures

        files.write_figure(figures.limits_figure(answer), figure)


@app.command
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
) -> None:
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

    scenario = (asked or Asked()).read(objective=objective)
    found = points.best_points(scenario, training_flop, devices=devices, top=top or "5")
    if json:
        _print_json(records.of_best(scenario, found))
    else:
        tables.show_best(_console(), found, explain)


@app.command
def wall(
    *,
    latency: str = "9us",
    layers: str = "120",
    batch: str = "4e6",
    duration: str = "3 months",
    tokens_per_parameter: str = "20",
    json: Json = False,
) -> None:
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

    answer = closed_form.wall(
        latency=latency,
        layers=layers,
        batch=batch,
        duration=duration,
        tokens_per_parameter=tokens_per_parameter,
    )
    if json:
        _print_json(records.of_wall(answer))
    else:
        tables.show_wall(_console(), answer)


@app.command
def hardware(name: str | None = None, /, *, preset: Word = None, json: Json = False) -> None:
    """The hardware catalogue, or one entry with the unit and source of every number.

    Parameters
    ----------
    name
        A name of the catalogue or the path of a .toml file; all if left out.
    preset
        Preset whose entries are meant.
    json
        Print one JSON document instead of a table.
    """
    from scalewall.hardware import catalogue
    from scalewall.present import tables
    from scalewall.study import records

    if name is None:
        entries = catalogue.load_all(preset)
        if json:
            _print_json({"hardware": [records.of_hardware(entry) for entry in entries]})
        else:
            _console().print(tables.hardware_list(entries))
        return
    entry = catalogue.load(name, preset)
    if json:
        _print_json(records.of_hardware(entry))
    else:
        _console().print(tables.hardware_entry(entry))


@app.command
def assumptions(*, json: Json = False) -> None:
    """Every assumption that belongs to no device: meaning, unit, default and source.

    Parameters
    ----------
    json
        Print one JSON document instead of a table.
    """
    from scalewall.present import tables
    from scalewall.study import records

    if json:
        _print_json({"assumptions": records.assumptions()})
    else:
        _console().print(tables.assumptions_table(records.assumptions()))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 an answer, 1 no answer, 2 wrong input."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status; whatever is wrong goes to standard error, a line each."""
    # Absurd inputs overflow on the way to an answer; what comes out is checked, not the way.
    warnings.simplefilter("ignore", RuntimeWarning)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no µ gets a question mark
            stream.reconfigure(errors="replace")
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except ScalewallError as error:
        _complain(str(error))
        return error.exit_status
    except CycloptsError as error:
        hint = " Options begin with two dashes, as in --hardware h100-sxm." if "Unused" in str(error) else ""
        _complain(" ".join(str(error).split()) + hint)
        return InputError.exit_status
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _complain(f"The output could not be written: {error.strerror or error}.")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        _complain("Stopped.")
        return 130
    return 0


def _pairs(field: str, texts: list[str] | None) -> dict[str, str]:
    """Return what texts of the form NAME=VALUE say."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise InputError(field, "of the form NAME=VALUE", text)
        pairs[name.strip()] = value.strip()
    return pairs


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


def _print_json(document: Any) -> None:
    print(json_format.dumps(document, indent=1, allow_nan=False))


def _console() -> Console:
    from rich.console import Console

    class Plain(Console):
        """A console that leaves a broken pipe to `run`."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = Plain(highlight=False)
    # A file or a pipe has no width of its own: cut nothing.
    return console if console.is_terminal else Plain(highlight=False, width=200)


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None] | None]:
    """Give a function that shows progress and the time left on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
