"""Citations: what an answer rests on, in text and BibTeX, and in step with the documentation's references."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scalewall.cli import run
from scalewall.hardware import catalogue
from scalewall.study.citations import Citation, Reference, as_bibtex, citations, merged, references
from scalewall.study.scenario import scenario

BIB = Path(__file__).parents[2] / "docs" / "references.bib"
Capture = pytest.CaptureFixture[str]


def cited(**words: object) -> dict[str, Citation]:
    return {citation.key: citation for citation in citations(scenario(**words))}


def bib_entries(text: str) -> dict[str, dict[str, str]]:
    """Return the entries of BibTeX by key, their fields on one line each."""
    found = {}
    for key, body in re.findall(r"@\w+\{([^,]+),\n(.*?)\n\}", text, re.DOTALL):
        fields = re.findall(r"^\s*(\w+)\s*=\s*\{(.*?)\},?$", body, re.DOTALL | re.MULTILINE)
        found[key] = {name: " ".join(value.split()) for name, value in fields}
    return found


def test_the_default_cites_model_device_laws_and_formulas() -> None:
    found = cited()
    assert {"erdil2024limits", "epoch2024bottlenecks", "williams2009roofline", "land1960branch"} <= set(found)
    assert "the batch law baseline" in found["mccandlish2018batch"].used_for
    assert "the default of tokens_per_parameter" in found["hoffmann2022chinchilla"].used_for
    assert any("memory_bandwidth" in what for what in found["epochhardware"].used_for)
    assert "zhang2024batch" not in found
    assert all(citation.used_for for citation in found.values())


def test_a_law_brings_its_source_and_a_changed_default_loses_its_own() -> None:
    found = cited(batch_law="zhang-2024", tokens_per_parameter=10)
    assert found["zhang2024batch"].used_for == ("the batch law zhang-2024",)
    assert "mccandlish2018batch" not in found
    assert "the default of tokens_per_parameter" not in str(found["hoffmann2022chinchilla"].used_for)
    own = cited(batch_law="2^22", depth_law="constant", tokens_per_parameter=10)
    assert "hoffmann2022chinchilla" not in own


def test_the_preset_is_cited_and_its_space_is_not_searched() -> None:
    found = cited(preset="epoch-2024")
    assert any("preset epoch-2024" in what for what in found["erdil2024limits"].used_for)
    assert "land1960branch" not in found
    assert "epochhardware" not in found


@pytest.mark.parametrize("name", catalogue.names())
def test_every_number_of_every_entry_is_cited(name: str) -> None:
    said = [what for c in citations(scenario(hardware=name)) for what in c.used_for]
    lines = " ".join(what for what in said if what.startswith(f"{name}: "))
    for path in catalogue.load(name).sources:
        assert path.removeprefix("device.") in lines


def test_what_was_only_worked_out_is_told_and_not_cited() -> None:
    found = [c for c in citations(scenario(hardware="gtx-580")) if not c.bibtex]
    assert any("assumption" in citation.text for citation in found)
    assert all("(derived)" in what for citation in found for what in citation.used_for)


def test_bibtex_can_be_read_and_keys_are_unique() -> None:
    every = citations(scenario(hardware=catalogue.names()))
    entries = [c for c in every if c.bibtex]
    read = bib_entries(as_bibtex(every))
    assert list(read) == [c.key for c in entries]
    assert len({c.key for c in every}) == len(every)
    assert all(entry["title"] for entry in read.values())
    assert as_bibtex(every).count("{") == as_bibtex(every).count("}")


def test_the_literature_is_that_of_the_documentation() -> None:
    """``scripts/make_references.py`` writes the one from the other."""
    ours = "\n\n".join(reference.bibtex for reference in references()) + "\n"
    assert set(bib_entries(ours)) == set(bib_entries(BIB.read_text(encoding="utf-8")))
    assert ours == BIB.read_text(encoding="utf-8")
    assert len({reference.key for reference in references()}) == len(references())


def test_every_key_that_the_pages_cite_is_there() -> None:
    keys = {reference.key for reference in references()}
    pages = sorted(BIB.parent.glob("*.md"))
    cited = {
        key.strip()
        for page in pages
        for found in re.findall(r"\{cite:[pt]\}`([^`]+)`", page.read_text(encoding="utf-8"))
        for key in found.split(",")
    }
    assert len(cited) > 10
    assert cited <= keys


def test_a_kind_of_answer_brings_its_sources() -> None:
    assert {c.key for c in citations(None, "wall")} == {"erdil2024limits", "epoch2024bottlenecks"}
    assert "epochmodels" not in cited()
    assert "epochmodels" in {c.key for c in citations(scenario(), "models")}
    some = {"kernel_latency": {"samples": ["4 us"], "source": "see arXiv 2410.21676"}}
    found = cited(uncertain=some)
    assert found["zhang2024batch"].used_for == ("the distribution of kernel_latency",)
    assert "joe2008sobol" in found
    assert "saltelli2010variance" not in found


def test_merged_sources_are_named_once() -> None:
    both = merged(citations(scenario()), citations(scenario(batch_law="zhang-2024")))
    assert len({c.key for c in both}) == len(both)
    assert {"mccandlish2018batch", "zhang2024batch"} <= {c.key for c in both}


def test_a_line_of_text() -> None:
    made = Reference(
        **{"key": "k", "kind": "article", "title": "On {TPUs}?", "author": "Doe, A. and Roe, B. and others"},
        **{"year": 2020, "journal": "J", "volume": "1", "number": "2", "pages": "3--4"},
    )
    assert made.text == "Doe, Roe et al. (2020). On TPUs? J 1(2), 3-4."


def test_the_command(capsys: Capture) -> None:
    assert run(["cite", "--hardware", "b200", "--batch-law", "deepseek-2024", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scenario"]["hardware"] == ["b200"]
    assert {"key", "text", "bibtex", "used_for"} == set(document["citations"][0])
    assert "deepseek2024llm" in {c["key"] for c in document["citations"]}
    assert run(["cite", "--bibtex"]) == 0
    assert "@misc{erdil2024limits," in capsys.readouterr().out
    assert run(["cite"]) == 0
    assert "the batch law baseline" in capsys.readouterr().out


def test_bad_names_get_one_line(capsys: Capture) -> None:
    assert run(["cite", "--hardware", "b200x"]) == 2
    out, complaint = capsys.readouterr()
    assert not out
    assert "b200" in complaint
    assert complaint.count("\n") == 1
