"""A server of the page for the tests, and a Chromium to look at it with; without them, a clear skip."""

from __future__ import annotations

import os
import shutil
import socket
import threading

import pytest

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def pool():
    pytest.importorskip("dash", reason="the page needs scalewall[web]")
    pytest.importorskip("waitress", reason="the page needs scalewall[web]")
    from scalewall.web.pool import Pool

    made = Pool(2)
    yield made
    made.close()


@pytest.fixture(scope="session")
def address(pool):
    """The page's address, served from a thread."""
    from scalewall.web.server import listen

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = listen(pool, "127.0.0.1", port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.close()


@pytest.fixture(scope="session")
def browser():
    play = pytest.importorskip("playwright.sync_api", reason="looking at the page needs playwright")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("looking at the page needs a Chromium on the PATH")
    with play.sync_playwright() as started:
        made = started.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()
