"""The command line. Every command reads words, asks `study`, and shows what comes back."""

from __future__ import annotations

import io
import os
import sys
import warnings

from cyclopts import App, CycloptsError

from scalewall.cli import known, last, planning, scaling, serving, sweeping, why
from scalewall.cli.shown import complain
from scalewall.errors import InputError, ScalewallError

app = App(
    name="scalewall",
    help="How large an AI training run can get on given hardware, how to parallelise it, and what binds.",
    help_format="plaintext",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)
for command in (
    *(scaling.limits, scaling.best, scaling.wall),
    *(planning.plan, planning.validate, planning.models),
    *(why.sensitivity, why.forecast, why.uncertainty, why.claims, why.cite),
    *(known.hardware, known.assumptions, serving.serve),
):
    app.command(command)
app.command(why.figures_, name="figures")
app.command(sweeping.sweep)
app.command(sweeping.sweep_figure)

_FIELDS = {"from": "from_flop", "to": "to_flop"}
"""Fields that are not called as their options."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 an answer, 1 no answer, 2 wrong input."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # who started it has closed it (>&-) and wants none of it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  it stays open to the end
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status; whatever is wrong goes to standard error, a line each."""
    # Absurd inputs overflow on the way to an answer; what comes out is checked, not the way.
    warnings.simplefilter("ignore", RuntimeWarning)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no µ gets a question mark
            stream.reconfigure(errors="replace")
    try:
        answered = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        if answered is not None:  # commands that answer return what they answered
            last.remember(answered, arguments)
    except InputError as error:
        complain(str(error.named(_typed(arguments))))
        return error.exit_status
    except ScalewallError as error:
        complain(str(error))
        return error.exit_status
    except CycloptsError as error:
        hint = " Options begin with two dashes, as in --hardware h100-sxm." if "Unused" in str(error) else ""
        complain(" ".join(str(error).split()) + hint)
        return InputError.exit_status
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        complain(f"The output could not be written: {error.strerror or error}.")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt as stopped:
        complain(str(stopped) or "Stopped.")
        return 130
    return 0


def _typed(arguments: list[str]) -> dict[str, str]:
    """Return by their fields the options on a command line, as they were typed; options win over files."""
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    fields = {option[2:].replace("-", "_"): option for option in options}
    found = {field: fields[word] for word, field in _FIELDS.items() if word in fields}
    return fields | found | ({"output": "-o"} if "-o" in arguments else {})
