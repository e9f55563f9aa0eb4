"""What commands write: the answer on standard output, all else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def complain(text: str) -> None:
    """Print what is wrong on standard error."""
    print(text, file=sys.stderr)


def print_json(document: Any) -> None:
    """Print one JSON document on standard output."""
    from scalewall.study.records import as_json

    print(as_json(document, indent=1))


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    class Plain(Console):
        """A console that leaves a broken pipe to `run`."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    screen = Plain(highlight=False)
    # A file or a pipe has no width of its own: cut nothing.
    return screen if screen.is_terminal else Plain(highlight=False, width=200)


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None] | None]:
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
