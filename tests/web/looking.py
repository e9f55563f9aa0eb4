"""A page that is being looked at, with all that it must never do."""

from __future__ import annotations

import contextlib


class Looked:
    """A page in a context of its own, and what went wrong on it."""

    def __init__(self, page, address):
        self.page, self.address, self.wrong = page, address, []
        page.on("console", lambda m: self.wrong.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
        page.on("request", self.requested)
        page.on("response", lambda r: self.wrong.append(f"{r.status} {r.url}") if r.status >= 400 else None)

    def requested(self, request):
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(f"a request off the machine: {request.url}")

    def open(self, link=""):
        self.page.goto(f"{self.address}/{link}")
        self.page.wait_for_selector("#form-limits .field", state="attached")
        return self

    def settle(self):
        """Wait until the limits are complete."""
        self.page.wait_for_function(
            """() => {
                if (!window.scalewall.answered_once.limits) return false;
                if (document.body.classList.contains('busy-limits')) return false;
                const drawn = document.querySelector('#graph-limits .js-plotly-plot');
                const said = (data) => JSON.stringify(data.map((t) => [t.name, t.x, t.y]));
                const wanted = window.scalewall.raw['graph-limits'].data;
                return drawn && drawn.data && said(drawn.data) === said(wanted);
            }""",
            timeout=240_000,
        )
        return self

    def figure(self):
        """Return x and y of every curve of utilisation."""
        return self.page.evaluate(
            "() => document.querySelector('#graph-limits .js-plotly-plot').data"
            ".filter((t) => t.yaxis === 'y' && t.mode !== 'markers').map((t) => [t.name, [...t.x], [...t.y]])"
        )


@contextlib.contextmanager
def looking(browser, address, **context):
    made = browser.new_context(viewport={"width": 1280, "height": 900}, **context)
    try:
        looked = Looked(made.new_page(), address)
        yield looked
        assert not looked.wrong
    finally:
        made.close()
