"""Measure the page: from key press to picture in a browser, and twenty visitors at once without one.

    python benchmarks/measure_page.py            both, against a server of its own
    python benchmarks/measure_page.py --seconds 30 --visitors 20 --rounds 11

Needs Chromium (its path in the environment variable CHROMIUM, or `chromium` on the PATH) and
``pip install 'scalewall[test,web]'``. How each number is taken is in docs/page.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
WATCH = """() => {
  window.pressed = 0; window.plots = [];
  document.addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
  const look = (id) => document.querySelector('#' + id + ' .js-plotly-plot')
    .on('plotly_afterplot', () => window.plots.push([id, performance.now()]));
  look('graph-limits');
}"""
SKETCHED = """() => window.plots.some(([, t]) => t > window.pressed + 5)"""
DONE = """() => !document.body.classList.contains('busy-limits')"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "scalewall", "serve", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).read()
            return process
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def median(times: list[float]) -> str:
    return f"median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms of {len(times)}"


def in_browser(port: int, rounds: int) -> None:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        begun = time.perf_counter()
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("#graph-limits .scatterlayer .trace")
        print(f"first load to first curves, cold: {1000 * (time.perf_counter() - begun):.0f} ms")
        page.wait_for_function(DONE, timeout=60_000)
        page.evaluate(WATCH)
        entry = page.locator("#limits-words-duration")
        sketches, curves = [], []
        for i in range(rounds):
            entry.fill("")
            page.wait_for_function(DONE, timeout=60_000)
            page.wait_for_timeout(600)
            text = f"{3 + i // 10}.{i % 10}1 months"
            page.evaluate(
                "(text) => { const e = document.getElementById('limits-words-duration'); e.value = text; }",
                text,
            )
            page.evaluate("() => { window.plots = []; }")
            entry.press("End")
            entry.press("Space")  # a key that changes the entry, and so what is asked
            page.wait_for_function(SKETCHED, timeout=30_000)
            page.wait_for_function(DONE, timeout=60_000)
            page.wait_for_timeout(150)
            pressed = page.evaluate("window.pressed")
            plots = [t - pressed for _, t in page.evaluate("window.plots") if t > pressed + 5]
            sketches.append(plots[0])
            curves.append(plots[-1])
        print(f"limits, three scenarios, key to coarse picture: {median(sketches)}")
        print(f"limits, three scenarios, key to all 60 points: {median(curves)}")
        page.click("#tab-plan")
        page.wait_for_selector("#table-plan tbody tr")
        page.wait_for_timeout(2500)
        page.evaluate(
            """() => { window.tables = []; new MutationObserver(() => window.tables.push(performance.now()))
              .observe(document.getElementById('table-plan'), { childList: true });
              document.querySelector('#graph-plan .js-plotly-plot')
              .on('plotly_afterplot', () => window.plots.push(['graph-plan', performance.now()])); }"""
        )
        shown, drawn = [], []
        lock = page.locator("#plan-words-tp")
        for i in range(rounds):
            lock.fill("")
            page.wait_for_timeout(1800)
            page.evaluate("() => { window.plots = []; window.tables = []; }")
            lock.press("148"[i % 3])
            page.wait_for_function("() => window.tables.length", timeout=20_000)
            page.wait_for_function("() => window.plots.length", timeout=20_000)
            pressed = page.evaluate("window.pressed")
            shown.append(page.evaluate("window.tables[0]") - pressed)
            drawn.append(page.evaluate("window.plots[0][1]") - pressed)
        print(f"plan, key to the re-optimised strategies: {median(shown)}")
        print(f"plan, key to their picture: {median(drawn)}")
        browser.close()


class Visitor(threading.Thread):
    """One visitor who changes entries, without a browser: the requests that the page would send."""

    def __init__(self, port: int, number: int, until: float, outputs: dict[str, str]) -> None:
        super().__init__()
        self.port, self.number, self.until, self.outputs = port, number, until, outputs
        self.random = random.Random(number)
        self.errors: list[str] = []
        self.first: list[float] = []
        self.whole: list[float] = []

    def ask(self, store: str, value: object) -> dict[str, object] | None:
        output = self.outputs[store]
        parts = output.strip(".").split("...")
        body = {
            "output": output,
            "outputs": [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in parts],
            "inputs": [{"id": store, "property": "data", "value": value}],
            "changedPropIds": [f"{store}.data"],
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/_dash-update-component",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=180) as answer:
            text = answer.read()
            return json.loads(text)["response"] if answer.status == 200 and text else None

    def run(self) -> None:
        token, name = 0, f"visitor {self.number}"
        while time.monotonic() < self.until:
            token += 1
            months = f"{self.random.uniform(1, 12):.2f} months"
            run = {
                "name": name,
                "words": {"hardware": self.random.choice(["h100-sxm", "b200"]), "duration": months},
            }
            data = {
                "who": name,
                "token": token,
                "active": 0,
                "runs": [run],
                "good": [],
                "state": {"run": run},
            }
            try:
                begun = time.monotonic()
                answer = self.ask("asked-limits", data)
                self.first.append(1000 * (time.monotonic() - begun))
                self.check(answer, token)
                if self.random.random() < 0.7:  # the others type on
                    answer = self.ask("next-limits", data)
                    self.whole.append(1000 * (time.monotonic() - begun))
                    if answer is not None:
                        self.check(answer, token)
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            time.sleep(self.random.uniform(0.3, 2.0))

    def check(self, answer: dict[str, object] | None, token: int) -> None:
        text = json.dumps(answer)
        names = {f"visitor {i}" for i in range(100) if f'"visitor {i}"' in text}
        told = answer["answer-limits"]["data"]  # type: ignore[index]
        if names != {f"visitor {self.number}"} or told["token"] != token:
            self.errors.append(f"got {names}, token {told['token']}")
        if any(told["faults"]) or any(told["notes"]):
            self.errors.append(f"{told['faults']} {told['notes']}")


def resident(pid: int) -> float:
    """Return the MB that a process and its children hold."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += (task / "children").read_text().split()
    return pages * 4096 / 1e6 + sum(resident(int(child)) for child in set(children))


def visitors(port: int, pid: int, count: int, seconds: float) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_dash-dependencies") as answer:
        outputs = {
            one["inputs"][0]["id"]: one["output"]
            for one in json.load(answer)
            if not one["clientside_function"]
        }
    until = time.monotonic() + seconds
    people = [Visitor(port, number, until, outputs) for number in range(count)]
    for one in people:
        one.start()
    held = []
    while any(one.is_alive() for one in people):
        held.append(resident(pid))
        time.sleep(2.0)
    errors = [error for one in people for error in one.errors]
    first = [t for one in people for t in one.first]
    whole = [t for one in people for t in one.whole]
    third = max(1, len(held) // 3)
    print(f"{count} visitors for {seconds:.0f} s: {len(first)} sketches ({median(first)})")
    print(f"  {len(whole)} whole curves ({median(whole)}); {len(errors)} errors {errors[:3]}")
    print(
        f"  memory of all processes: {statistics.mean(held[:third]):.0f} MB in the first third, "
        f"{statistics.mean(held[-third:]):.0f} MB in the last, at most {max(held):.0f} MB"
    )


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=11)
    words.add_argument("--visitors", type=int, default=20)
    words.add_argument("--seconds", type=float, default=120.0)
    asked = words.parse_args()
    port = free_port()
    process = start(port)
    try:
        if asked.rounds:
            in_browser(port, asked.rounds)
        if asked.visitors:
            visitors(port, process.pid, asked.visitors, asked.seconds)
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
