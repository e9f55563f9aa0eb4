"""Commands on sweeps: many scenarios into a folder, and a figure of what is there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from scalewall.cli.shown import console, print_json, progress
from scalewall.cli.words import File, Flag, Json, Range, Word

_OUTPUT = Annotated[Path | None, Parameter(name=("--output", "-o"), negative="")]


def sweep(
    file: Path,
    /,
    *,
    out: File = None,
    dry_run: Flag = False,
    workers: Word = None,
    scheduler: Word = None,
    mix: Flag = False,
    json: Json = False,
) -> None:
    """Answer many scenarios, on all cores or a cluster, into a folder of Parquet files; losing nothing.

    Running it again does only what is missing. The file's form is in the documentation, under sweeps.

    Parameters
    ----------
    file
        TOML file with what is asked and a [grid], a [[list]] or a [sample] of scenarios.
    out
        Folder of the rows (default: the file's name without its ending).
    dry_run
        Only say how many scenarios there are, and about how long they would take.
    workers
        Processes (default: as many as there are processors).
    scheduler
        Dask: the address of a scheduler, or local:N for a cluster of N processes on this machine.
    mix
        Go on in a folder that holds rows of another file or version.
    json
        Print one JSON document instead of a summary.
    """
    from scalewall.present import tables_sweep
    from scalewall.study import sweep as study

    folder = out or Path(file.stem if file.suffix else f"{file.name}-rows")
    if dry_run:
        found = study.estimate(file, folder, workers)
        print_json(tables_sweep.of_estimate(found)) if json else tables_sweep.show_estimate(console(), found)
        return
    with progress() as tell, _terminated():
        answer = study.sweep(file, folder, workers=workers, scheduler=scheduler, mix=mix, progress=tell)
    print_json(tables_sweep.of_swept(answer)) if json else tables_sweep.show_swept(console(), answer)


def sweep_figure(
    folder: Path, x: str, y: str, /, *, colour: Range = None, output: _OUTPUT = None, json: Json = False
) -> None:
    """Draw any two fields of a sweep against each other.

    Parameters
    ----------
    folder
        The sweep's folder.
    x
        Field across, swept or answered.
    y
        Field upwards.
    colour
        Field that gives the colour.
    output
        The file: .html, or .png, .svg, .pdf (default: Y-against-X.html).
    json
        Print one JSON document instead of the file's name.
    """
    from scalewall.present import figures_sweep, files

    path = output or Path(f"{y}-against-{x}.html")
    files.check_path(path, "output", files.FIGURES)
    figure = figures_sweep.sweep_figure(folder, x, y, colour)
    files.write_figure(figure, path)
    shown = figures_sweep.points_of(figure)
    print_json({"written": str(path), "rows": shown}) if json else print(path)


@contextmanager
def _terminated() -> Iterator[None]:
    """Take a polite end (SIGTERM, as batch systems send it) for Ctrl-C."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: whoever runs that has the signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
