"""The words that commands share: how they are read, the scenario they make, and where an answer goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from scalewall.cli.shown import console, print_json
from scalewall.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from scalewall.study.citations import Answered
    from scalewall.study.scenario import Scenario
    from scalewall.study.uncertainty import Draws

Word = Annotated[str | None, Parameter(negative="")]
_RUNS = Group("How runs scale", sort_key=1)
Runs = Annotated[str | None, Parameter(group=_RUNS)]
Range = Annotated[str | None, Parameter(group=Group("Where to look", sort_key=2))]
Lock = Annotated[str | None, Parameter(group=Group("Fixing parts of the strategy", sort_key=3))]
_SHOW = Group("What to show", sort_key=4)
TREND = Group("How the frontier grows", sort_key=2)
Growth = Annotated[str | None, Parameter(group=TREND)]
_Drawn = Annotated[str | None, Parameter(group=Group("How uncertain inputs are drawn", sort_key=2))]
Flag = Annotated[bool, Parameter(negative="", show_default=False, group=_SHOW)]
Json = Annotated[Flag, Parameter(name="--json")]
File = Annotated[Path | None, Parameter(group=_SHOW)]
Several = Annotated[list[str] | None, Parameter(negative="")]
Names = Annotated[Several, Parameter(consume_multiple=True, group=Group("Where to look", sort_key=2))]


@Parameter(name="*")
@dataclass(kw_only=True)
class Scaled:
    """How runs scale, whatever they run on.

    Parameters
    ----------
    duration
        Longest a run may take (default '3 months').
    batch_law
        Tokens a batch: baseline, constant, zhang-2024, deepseek-2024, or such as '17.75*D^0.47'.
    depth_law
        Blocks: baseline, constant, or a power law.
    tokens_per_parameter
        Training tokens a parameter (default 20).
    threshold
        Share of the sustained MFU below which utilisation has fallen (default 0.8).
    set_
        Any other assumption, as NAME=VALUE; 'scalewall assumptions' lists them.
    """

    duration: Runs = None
    batch_law: Runs = None
    depth_law: Runs = None
    tokens_per_parameter: Runs = None
    threshold: Runs = None
    set_: Annotated[Several, Parameter(name="--set", group=_RUNS)] = None

    def words(self, **more: Any) -> dict[str, Any]:
        """Return what was said, with `more` words of a command's own, in the words of `study.scenario`."""
        given = {**vars(self), **more}
        said = {name: value for name, value in given.items() if value is not None and value is not False}
        chosen = pairs("set", said.pop("set_", None))
        settings = {
            name: {"true": True, "false": False}.get(value.lower(), value) for name, value in chosen.items()
        }
        layout = pairs("layout", said.pop("layout", None))
        return together(said | ({"layout": layout} if layout else {}), settings)


@Parameter(name="*")
@dataclass(kw_only=True)
class Asked(Scaled):
    """What every question about scaling may say.

    Parameters
    ----------
    hardware
        Devices: names of the catalogue, or paths of .toml files (default h100-sxm).
    preset
        Study whose hardware, grid and space are used: epoch-2024.
    scenario
        TOML file that holds a scenario; options win over it.
    sparse
        Sparse models (mixtures of experts) by the baseline sparsity law.
    sparsity_law
        Total over active parameters: dense, baseline, or a power law in d and f.
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
    sparse: Annotated[Flag, Parameter(group=_RUNS)] = False
    sparsity_law: Runs = None
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

        words = self.words(**more)
        file = words.pop("scenario", None)
        return scenarios.from_toml(file, **words) if file else scenarios.scenario(**words)


@Parameter(name="*")
@dataclass(kw_only=True)
class Drawing:
    """How inputs that a scenario says to be uncertain are drawn.

    Parameters
    ----------
    samples
        Draws of the uncertain inputs, a power of two (default 64).
    seed
        The same seed gives the same draws (default 0).
    jobs
        Processes that share the draws (default 1).
    """

    samples: _Drawn = None
    seed: _Drawn = None
    jobs: _Drawn = None

    def read(self, scenario: Scenario) -> Draws | None:
        """Return how to draw; None where nothing is uncertain."""
        from scalewall.study.uncertainty import Draws

        said = {name: value for name, value in vars(self).items() if value is not None}
        if scenario.uncertain:
            return Draws(**said)
        for name, value in said.items():
            must = "left out where the scenario has no table [uncertain]"
            raise InputError(name, must, value, "'scalewall uncertainty' has one of its own.")
        return None


@Parameter(name="*")
@dataclass(kw_only=True)
class Shown:
    """Where an answer goes.

    Parameters
    ----------
    json
        Print one JSON document instead of a table.
    output
        Write the rows of the answer to a .parquet or .csv file.
    figure
        Write a figure: .html, or .png, .svg, .pdf.
    """

    json: Json = False
    output: Annotated[File, Parameter(name=("--output", "-o"))] = None
    figure: File = None

    def check(self) -> None:
        """Raise `InputError` unless the files can be written, before anything is computed for them."""
        from scalewall.present import files

        for path, field, endings in (
            (self.output, "output", files.TABLES),
            (self.figure, "figure", files.FIGURES),
        ):
            if path is not None:
                files.check_path(path, field, endings)

    def show(
        self,
        answered: Answered,
        document: Callable[[], dict[str, Any]],
        table: Callable[[Console], None],
        rows: Callable[[], list[dict[str, Any]]],
        figure: Callable[[], Any],
        inside: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Show an answer: its `document` or its `table`, then its `rows` and its `figure` as files.

        Documents say what they are `answered` to.

        The files come last, so that nothing computed is lost if they fail. What they hold beside the
        rows is what is `inside`, the document if left out.
        """
        from scalewall.present import files

        if self.json:
            print_json({"answer": answered.as_dict(), **document()})
        else:
            table(console())
        if self.output is not None:
            about = {"answer": answered.as_dict(), **(inside or document)()}
            files.write_rows(rows(), about, self.output)
        if self.figure is not None:
            files.write_figure(figure(), self.figure)


def pairs(field: str, texts: list[str] | None) -> dict[str, str]:
    """Return what texts of the form NAME=VALUE say."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise InputError(field, "of the form NAME=VALUE", text)
        if name.strip() in pairs:
            raise InputError(field, f"given once for {name.strip()}", text)
        pairs[name.strip()] = value.strip()
    return pairs


def together(options: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of options with those of --set, which may not say the same."""
    for name, value in settings.items():
        if name in options:
            raise InputError("set", f"of what no option says, and one says {name}", f"{name}={value}")
    return {**options, **settings}
