"""The words that commands share: how they are read, and the scenario that they make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from scalewall.errors import InputError

if TYPE_CHECKING:
    from scalewall.study.scenario import Scenario

Word = Annotated[str | None, Parameter(negative="")]
Runs = Annotated[str | None, Parameter(group=Group("How runs scale", sort_key=1))]
Range = Annotated[str | None, Parameter(group=Group("Where to look", sort_key=2))]
Lock = Annotated[str | None, Parameter(group=Group("Fixing parts of the strategy", sort_key=3))]
_SHOW = Group("What to show", sort_key=4)
TREND = Group("How the frontier grows", sort_key=2)
Growth = Annotated[str | None, Parameter(group=TREND)]
Flag = Annotated[bool, Parameter(negative="", show_default=False, group=_SHOW)]
Json = Annotated[Flag, Parameter(name="--json")]
File = Annotated[Path | None, Parameter(group=_SHOW)]
Several = Annotated[list[str] | None, Parameter(negative="")]
Names = Annotated[Several, Parameter(consume_multiple=True, group=Group("Where to look", sort_key=2))]


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
        chosen = pairs("set", words.pop("set_", None))
        settings = {
            name: {"true": True, "false": False}.get(value.lower(), value) for name, value in chosen.items()
        }
        layout = pairs("layout", words.pop("layout", None))
        file = words.pop("scenario", None)
        words |= settings | ({"layout": layout} if layout else {}) | more
        return scenarios.from_toml(file, **words) if file else scenarios.scenario(**words)


def pairs(field: str, texts: list[str] | None) -> dict[str, str]:
    """Return what texts of the form NAME=VALUE say."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise InputError(field, "of the form NAME=VALUE", text)
        pairs[name.strip()] = value.strip()
    return pairs
