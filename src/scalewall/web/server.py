"""The server of the page: an app of Dash behind guards, and how it is started."""

from __future__ import annotations

import logging
import signal
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

from dash import Dash
from flask import Flask, Response, abort, request

from scalewall.errors import InputError, ScalewallError
from scalewall.schema import whole
from scalewall.web import answers_limits, answers_plan, answers_shared, clientside
from scalewall.web.layout import layout
from scalewall.web.pool import Pool
from scalewall.web.presets import LIMITS

MOST_BODY = 1_000_000
"""Bytes of a request's body; more is refused."""

THREADS = 48
"""Requests that may wait for an answer at once."""

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ASSETS = Path(str(files("scalewall"))) / "web" / "assets"


def make_app(pool: Pool, hosts: frozenset[str] | None = None) -> Dash:
    """Return the app.

    Parameters
    ----------
    pool
        What computes.
    hosts
        Names under which the page may be asked for; None if any.
    """
    server = Flask("scalewall.web", static_folder=None)
    server.config["MAX_CONTENT_LENGTH"] = MOST_BODY
    app = Dash(
        "scalewall.web",
        server=server,
        title="scalewall",
        update_title="",
        assets_folder=str(_ASSETS),
        serve_locally=True,
        compress=False,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
        suppress_callback_exceptions=False,
        prevent_initial_callbacks=True,
    )
    app.enable_dev_tools(debug=False, dev_tools_ui=False, dev_tools_props_check=False)
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.layout = layout()
    server.add_url_rule("/plotly.min.js", view_func=plotly_script)  # for figures saved as HTML
    answers_limits.register(app, pool)
    answers_plan.register(app, pool)
    answers_shared.register(app, pool)
    clientside.register(app)
    _guard(server, hosts, policy(app))
    return app


def plotly_script() -> Response:
    """Return Plotly as a script of its own."""
    from plotly.offline import get_plotlyjs

    return Response(get_plotlyjs(), mimetype="text/javascript")


def policy(app: Dash) -> str:
    """Return the content security policy: nothing from elsewhere, no script but ours and Dash's own."""
    scripts = " ".join(["'self'", *app.csp_hashes()])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _guard(server: Flask, hosts: frozenset[str] | None, content_policy: str) -> None:
    @server.before_request
    def admit() -> None:
        name = request.host.rsplit(":", 1)[0].strip("[]") if request.host.count(":") != 0 else request.host
        if hosts is not None and name not in hosts:  # a page elsewhere that calls itself by our address
            abort(403)
        if request.content_length is not None and request.content_length > MOST_BODY:
            abort(413)
        if request.method == "POST" and request.mimetype != "application/json":
            abort(415)

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = content_policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
        return response

    @server.errorhandler(Exception)
    def fail(error: Exception) -> tuple[str, int]:
        if isinstance(error, ScalewallError):  # the page shows it as it is
            return str(error).splitlines()[0], 400
        code = getattr(error, "code", None)
        if isinstance(code, int) and 400 <= code < 500:
            return f"{getattr(error, 'name', 'Error')}.", code
        logging.getLogger(__name__).error("a request failed", exc_info=error)
        return "Something went wrong; it is in the server's log.", 500


def serve(host: str = "127.0.0.1", port: int | str = 8050, processes: int | str | None = None) -> None:
    """Serve the page until interrupted.

    Raises
    ------
    InputError
        If the port cannot be listened at.
    """
    number = whole(port, "port", 1, 65535)
    pool = Pool(None if processes is None else whole(processes, "processes", 1, 64))

    def stop(*_: object) -> None:
        threading.Thread(target=pool.cancel).start()  # so that no request waits for an answer any more
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
    try:
        try:
            made = listen(pool, host, number)
        except OSError as error:
            raise InputError(
                "port", "free, on a host of this machine", number, f"{error.strerror}."
            ) from None
        answers_limits.warm(pool, next(iter(LIMITS.values()))[1])
        print(f"scalewall is at http://{host}:{number}", flush=True)
        made.run()
    finally:
        pool.close()


def listen(pool: Pool, host: str, port: int) -> Any:
    """Return the page's server, which listens already; its `run` answers.

    At an address of this machine's own it answers to that machine's names alone.
    """
    import waitress

    return waitress.create_server(
        make_app(pool, _LOOPBACK if host in _LOOPBACK else None).server,
        host=host,
        port=port,
        threads=THREADS,
        max_request_body_size=MOST_BODY,
        max_request_header_size=32_768,
        connection_limit=400,
        ident="scalewall",
    )
