"""A scenario as others take it: a command line, TOML, Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from scalewall.study.scenario import PAPER_PRESET
from scalewall.web import toml
from scalewall.web.asked import Entry, slug
from scalewall.web.fields import ASSUMED, POINTS, plan_fields

_OPTIONS = {"from_flop": "from", "to_flop": "to"}
_SWITCHES = {"true": True, "false": False}


def limits_words(entry: Entry, file: str | None = None) -> dict[str, str | bool]:
    """Return the words of an entry as a call or a file takes them; `file` stands in for its device."""
    words: dict[str, str | bool] = {"hardware": file or entry.words.get("hardware", "h100-sxm")}
    for name, text in entry.words.items():
        if name != "hardware":
            words[name] = _SWITCHES.get(text, text) if name.startswith("overlap_") else text
    if words.get("preset") != PAPER_PRESET:
        words.setdefault("points", POINTS)
    return words


def plan_words(entry: Entry, file: str | None = None, model: str | None = None) -> dict[str, str | bool]:
    """Return the words of an entry of the plan page."""
    must = {
        field.key: field.default
        for field in plan_fields()
        if field.key in {"model", "hardware", "gpus", "batch", "seq"}
    }
    words: dict[str, str | bool] = {**must, **entry.words}
    return words | ({"hardware": file} if file else {}) | ({"model": model} if model else {})


def command(page: str, words: Mapping[str, str | bool]) -> str:
    """Return the command line of a page's words."""
    given = dict(words)
    parts = ["scalewall", page, *([str(given.pop("model"))] if page == "plan" else [])]
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else value
        option = _OPTIONS.get(name, name).replace("_", "-")
        parts += (
            ["--set", f"{name}={text}"] if page == "limits" and name in ASSUMED else [f"--{option}", text]
        )
    return shlex.join(parts)


def tables(words: Mapping[str, str | bool]) -> str:
    """Return the TOML file of a page's words."""
    return "\n".join([*toml.lines(words), ""])


def python(page: str, words: Mapping[str, str | bool]) -> str:
    """Return a script that asks the same."""
    given = dict(words)
    if page == "plan":
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return (
            f"from scalewall.study.plan import plan\n\nanswer = plan({said})\nprint(answer.strategies[0])\n"
        )
    hardware = given.pop("hardware")
    said = "".join(f", {name}={value!r}" for name, value in given.items())
    call = f"answer = scalewall.limits({hardware!r}{said})"
    return f"import scalewall\n\n{call}\nprint(answer.curves[0].knee_flop)\n"


def file_name(entry: Entry) -> str:
    """Return the name of a download."""
    return slug(entry.name, "scenario")
