"""The command that serves the page."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import scalewall

Word = Annotated[str, Parameter(negative="")]


def serve(*, host: Word = "127.0.0.1", port: Word = "8050", processes: Word | None = None) -> None:
    """The interactive page, in a browser on this machine, until interrupted.

    Parameters
    ----------
    host
        Address to listen at; another than this machine's own shows the page to others.
    port
        Port to listen at.
    processes
        Processes that compute curves (default: as many as there are processors, at most 4).
    """
    scalewall.serve(host, port, processes)
