"""The sources behind an answer: those of its devices' numbers, its laws, assumptions and formulas.

Some sources stand behind some kinds of answers alone: ``wall``, ``claims``, ``figures`` are commands,
``models`` is the table of notable models, ``draws`` the draws of uncertain inputs, ``sobol`` Sobol indices,
``reduction`` networks whose switches reduce, ``plan`` the step of a real run, ``zero-bubble`` one with that
schedule, ``validate`` the measured runs that ship.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs

from scalewall.cost.assumptions import Assumptions
from scalewall.errors import InputError
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster, Source
from scalewall.schema import read_toml, structure
from scalewall.study.scenario import Scenario, scenario
from scalewall.workload.formats import read_model
from scalewall.workload.scaling import Scaling

SHIPPED = Path(str(files("scalewall"))) / "data" / "sources.toml"

_LAWS = {
    ("batch", "baseline"): ("mccandlish2018batch", "hoffmann2022chinchilla", "erdil2024limits"),
    ("batch", "zhang-2024"): ("zhang2024batch",),
    ("batch", "deepseek-2024"): ("deepseek2024llm",),
    ("depth", "baseline"): ("erdil2024limits", "hoffmann2022chinchilla"),
    ("sparsity", "baseline"): ("erdil2024limits",),
}
"""What the named laws rest on; a law of the user's own rests on the user."""

KINDS = (
    *("wall", "claims", "figures", "models", "draws", "sobol", "reduction"),
    *("plan", "zero-bubble", "validate"),
)
"""Kinds of answers that some sources stand behind alone."""

_BIBTEX = (
    *("title", "author", "year", "eprint", "archiveprefix", "journal", "volume", "number", "pages"),
    *("booktitle", "howpublished", "url", "doi", "note"),
)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError("list", "a list of texts", value)
    return tuple(value)


def _by_kind(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or not set(value) <= set(KINDS):
        raise InputError("when", f"a table of texts by kind of answer: {', '.join(KINDS)}", value)
    return {str(kind): str(what) for kind, what in value.items()}


@attrs.frozen(kw_only=True)
class Reference:
    """One entry of the literature: BibTeX's fields, how other texts name it, and what it stands behind.

    `when` is what it stands behind in answers of some kinds alone; `searched` whether it only counts
    where all strategies are searched.
    """

    key: str
    kind: str
    title: str
    author: str = ""
    year: int | None = None
    eprint: str = ""
    journal: str = ""
    volume: str = ""
    number: str = ""
    pages: str = ""
    booktitle: str = ""
    howpublished: str = ""
    url: str = ""
    doi: str = ""
    note: str = ""
    match: tuple[str, ...] = attrs.field(default=(), metadata={"read": _texts})
    used_for: tuple[str, ...] = attrs.field(default=(), metadata={"read": _texts})
    when: Mapping[str, str] = attrs.field(factory=dict, metadata={"read": _by_kind})
    searched: bool = False

    @property
    def archiveprefix(self) -> str:
        """Where an eprint is kept."""
        return "arXiv" if self.eprint else ""

    @property
    def text(self) -> str:
        """The entry in one line."""
        names = [re.sub(r"(?<=\w),.*", "", name.strip()) for name in self.author.split(" and ")]
        who = ", ".join(name for name in names if name not in ("", "others"))
        who += " et al." if "others" in names else ""
        when = f" ({self.year})" if self.year else ""
        place = self.journal and f"{self.journal} {self.volume}({self.number}), {self.pages}"
        where = [
            place,
            self.booktitle,
            self.howpublished,
            self.eprint and f"arXiv {self.eprint}",
            self.doi,
            self.url,
            self.note,
        ]
        said = f"{who}{when}. {self.title}" if who else self.title
        line = re.sub(r"[{}]", "", ". ".join([said, *filter(None, where)]).replace("--", "-"))
        return line.replace("?.", "?") + "."

    @property
    def bibtex(self) -> str:
        """The entry in BibTeX."""
        given = {name: getattr(self, name) for name in _BIBTEX if getattr(self, name)}
        width = max(map(len, given))
        lines = [f"  {name:<{width}} = {{{value}}}," for name, value in given.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", *lines, "}"])


@attrs.frozen(kw_only=True)
class Citation:
    """A source, and what of the answer rests on it; `bibtex` is empty for what was only worked out."""

    key: str
    text: str
    bibtex: str
    used_for: tuple[str, ...]


def citations(asked: Scenario | None, *kinds: str) -> tuple[Citation, ...]:
    """Return the sources behind an answer: literature first, then what only devices name.

    Parameters
    ----------
    asked
        What was asked; None where there is none, as for the closed form of the wall.
    kinds
        Of `KINDS`, those that the answer is of; what the scenario itself says of them is added.
    """
    if asked is None:
        return _found(_used_by(kinds))
    searched = not asked.is_papers
    known = references()
    used = _used_by((*kinds, *_kinds_of(asked)))
    for reference in known:
        if searched or not reference.searched:
            used[reference.key] = [*reference.used_for, *used[reference.key]]
    for keys, what in _choices(asked):
        for key in keys:
            used[key].append(what)
    return _with_entries(used, asked.clusters)


def citations_of_run(
    hardware: Iterable[str], preset: str | None, model: str, *kinds: str
) -> tuple[Citation, ...]:
    """Return the sources behind an answer on real runs: by its kinds, of its devices, of its model if any.

    Parameters
    ----------
    hardware, preset
        Names of the devices, or paths, and the preset whose entries are meant.
    model
        Name or path of the model; empty if no one model is meant.
    kinds
        Of `KINDS`, those that the answer is of.
    """
    used = _used_by(kinds)
    loose: list[Citation] = []
    if model:
        shape = read_model(model)
        for key in _matching(shape.source):
            used[key].append(f"the model {shape.name}")
        if shape.source:
            key = re.sub(r"[^\w.-]+", "-", shape.name)
            made = Reference(key=key, kind="misc", title=_escaped(shape.source))
            what = (f"the model {shape.name}: its dimensions",)
            loose.append(Citation(key=made.key, text=shape.source, bibtex=made.bibtex, used_for=what))
    return (*_with_entries(used, [catalogue.load(name, preset) for name in hardware]), *loose)


def _with_entries(used: dict[str, list[str]], clusters: Iterable[Cluster]) -> tuple[Citation, ...]:
    """Return the literature that is used, that of hardware entries added, then what only these name."""
    loose: list[Citation] = []
    for cluster in clusters:
        for key, fields in _known_fields(cluster).items():
            used[key].append(f"{cluster.name}: {', '.join(fields)}")
        loose += _loose(cluster)
    return (*_found(used), *loose)


@attrs.frozen(kw_only=True)
class Answered:
    """An answer as far as its sources go: the command that gave it, what was asked, and its kinds.

    `scenarios` holds all that was asked, in the order of its parts; it is empty where there is no
    scenario, as for the closed form of the wall. `kinds` are as in `citations`; answers on real runs
    name their `hardware`, its `preset` and their `model`, as in `citations_of_run`.
    """

    command: str
    scenarios: tuple[Scenario, ...] = ()
    kinds: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    preset: str | None = None
    model: str = ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The sources behind the answer."""
        if not self.scenarios and (self.hardware or self.model):
            return citations_of_run(self.hardware, self.preset, self.model, *self.kinds)
        return merged(*(citations(asked, *self.kinds) for asked in self.scenarios or (None,)))

    def as_dict(self) -> dict[str, Any]:
        """Return what an answer's document says of it besides its scenario, as plain values."""
        run = {"hardware": list(self.hardware), "preset": self.preset, "model": self.model}
        said = {name: value for name, value in run.items() if value}
        return {"command": self.command, "kinds": list(self.kinds), **said}

    def as_documents(self) -> dict[str, Any]:
        """Return the same with the scenario, as a document holds it; of several, that of the first part."""
        asked = {"scenario": self.scenarios[0].as_dict()} if self.scenarios else {}
        return {"answer": self.as_dict(), **asked}


def answered_in(document: Mapping[str, Any]) -> Answered:
    """Return what a document, of ``--json`` or inside a file, is an answer to.

    Raises
    ------
    InputError
        If it is no answer of scalewall, or what it asks can be asked no more.
    """
    about, asked = document.get("answer", {}), document.get("scenario")
    known = isinstance(about, Mapping) and (bool(about) or isinstance(asked, Mapping))
    kinds = about.get("kinds", []) if known else None
    if not isinstance(kinds, list) or not set(map(str, kinds)) <= set(KINDS):
        raise InputError("answer", "an answer of scalewall", sorted(document)[:5])
    command = str(about.get("command", "limits"))
    run = {name: about[name] for name in ("hardware", "preset", "model") if name in about}
    if run:
        return _answered_run(command, tuple(kinds), **run)
    scenarios = (scenario(**asked),) if isinstance(asked, Mapping) else ()
    return Answered(command=command, scenarios=scenarios, kinds=tuple(kinds))


def _answered_run(
    command: str, kinds: tuple[str, ...], hardware: object = (), preset: object = None, model: object = ""
) -> Answered:
    """Return what a document on real runs is an answer to."""
    names = hardware if isinstance(hardware, (list, tuple)) else [None]
    if not all(isinstance(name, str) for name in (*names, model, preset or "")):
        raise InputError("answer", "an answer of scalewall", [hardware, preset, model])
    return Answered(
        command=command,
        kinds=kinds,
        hardware=tuple(map(str, names)),
        preset=str(preset) if preset else None,
        model=str(model),
    )


def merged(*several: tuple[Citation, ...]) -> tuple[Citation, ...]:
    """Return the sources of several answers, each once, with all that rests on it."""
    found: dict[tuple[str, str], Citation] = {}
    for citation in itertools.chain(*several):
        there = found.setdefault((citation.key, citation.text), citation)
        used = dict.fromkeys((*there.used_for, *citation.used_for))
        found[citation.key, citation.text] = attrs.evolve(there, used_for=tuple(used))
    return tuple(found.values())


@functools.cache
def references() -> tuple[Reference, ...]:
    """Return the literature that ships."""
    return tuple(structure(table, Reference) for table in read_toml(SHIPPED)["sources"])


def _used_by(kinds: Iterable[str]) -> dict[str, list[str]]:
    """Return by key what of an answer of these `kinds` rests on each entry of the literature."""
    return {r.key: [r.when[kind] for kind in dict.fromkeys(kinds) if kind in r.when] for r in references()}


def _kinds_of(scenario: Scenario) -> Iterator[str]:
    """Yield the kinds of answers that any answer to a scenario is of."""
    if scenario.uncertain:
        yield "draws"
    if any(tier.in_network_reduction for cluster in scenario.clusters for tier in cluster.tiers):
        yield "reduction"


def _found(used: Mapping[str, list[str]]) -> tuple[Citation, ...]:
    return tuple(
        Citation(key=r.key, text=r.text, bibtex=r.bibtex, used_for=tuple(dict.fromkeys(used[r.key])))
        for r in references()
        if used[r.key]
    )


def _choices(scenario: Scenario) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what a scenario chooses, its laws and its assumptions, with the keys of the sources behind."""
    if scenario.preset:
        yield (
            ("erdil2024limits",),
            f"the preset {scenario.preset}: its devices, models and strategies",
        )
    for law in ("batch", "depth", "sparsity"):
        name = getattr(scenario.scaling, law).text
        if (law, name) in _LAWS:
            yield _LAWS[law, name], f"the {law} law {name}"
    for owner, cls in ((scenario, Scenario), (scenario.scaling, Scaling), (scenario.how, Assumptions)):
        for a in attrs.fields(cls):  # a value that was changed is no longer its source's
            source = a.metadata.get("source", "")
            if source and getattr(owner, a.name) == a.default:
                yield _matching(source), f"the default of {a.name}"
    for name, table in scenario.uncertain.items():
        if isinstance(table, Mapping):
            yield _matching(str(table.get("source", ""))), f"the distribution of {name}"


def _matching(text: str) -> tuple[str, ...]:
    """Return the keys of the literature that a text names."""
    return tuple(r.key for r in references() if any(word in text for word in r.match))


def _known_fields(cluster: Cluster) -> dict[str, list[str]]:
    """Return the fields of an entry whose sources name each entry of the literature."""
    fields: dict[str, list[str]] = {}
    for path, source in cluster.sources.items():
        for key in _matching(source.text):
            fields.setdefault(key, []).append(_field(path, source))
    return fields


def _loose(cluster: Cluster) -> Iterator[Citation]:
    """Yield what sources of an entry are not in the literature; what was worked out is nothing to cite."""
    fields: dict[tuple[str, bool], list[str]] = {}
    for path, source in cluster.sources.items():
        if source.text and not _matching(source.text):
            fields.setdefault((source.text, source.derived), []).append(_field(path, source))
    for i, ((text, derived), paths) in enumerate(fields.items(), 1):
        made = Reference(key=f"{cluster.name}-{i}", kind="misc", title=_escaped(text))
        yield Citation(
            key=made.key,
            text=text,
            bibtex="" if derived else made.bibtex,
            used_for=(f"{cluster.name}: {', '.join(paths)}",),
        )


def _field(path: str, source: Source) -> str:
    return path.removeprefix("device.") + (" (derived)" if source.derived else "")


def _escaped(text: str) -> str:
    return re.sub(r"([&%$#_])", r"\\\1", text.replace("{", "(").replace("}", ")"))


def as_bibtex(found: tuple[Citation, ...]) -> str:
    """Return the sources as one BibTeX file."""
    return "\n\n".join(citation.bibtex for citation in found if citation.bibtex)
