"""Claims: every one is there, our figures are worked out live, and agreement follows from the tolerance."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.cli import run
from scalewall.errors import InputError, NoAnswer
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster
from scalewall.study import claims as study
from scalewall.study.claim_bench import FIGURES, Bench, Finding
from scalewall.study.claims import Checked, Claim, claims, read_claims

IDS = [
    "growth-rate",
    "run-length",
    "transformer-2017",
    "llama-405b",
    "knee",
    "knee-params",
    "wall",
    "distance-100x",
    "current-largest",
    "years-to-knee",
    "a100-above-h100",
    "matmul-intensity",
    "matmul-10m",
    "quadratic-compute",
    "dp-frequency",
    "tp-frequency",
    "balanced-parallelism",
    "falcon-180b",
    "wall-formula",
    "wall-params",
    "wall-flop",
    "batch-4m",
    "no-wall-below-knee",
    "latency-slowest",
    "undertraining",
    "batch-exponent",
    "wall-mainline",
    "zhang-law",
    "zhang-knee",
    "zhang-two-orders",
    "depth-exponent",
    "depth-batch-cancel",
    "constant-depth",
    "ten-times",
    "nccl-tree-log",
    "sram-weights",
    "no-wait-for-failures",
    "digest-knee",
    "digest-wall",
    "digest-batch",
    "digest-100x",
    "digest-years",
    "gtx580-run",
    "gtx580-cluster",
    "gtx580-strategy",
    "paper-knee",
    "paper-wall",
]

CLAIMED = {  # what the sources say, as gathered when the claims were read
    "knee": (2e28,),
    "wall": (2e31,),
    "knee-params": (15e12,),
    "wall-params": (400e12,),
    "wall-flop": (2e31,),
    "distance-100x": (100,),
    "current-largest": (5e25,),
    "years-to-knee": (3,),
    "wall-mainline": (7e31,),
    "zhang-knee": (3e30,),
    "digest-knee": (1e27,),
    "digest-wall": (1e29,),
    "digest-batch": (1e29,),
    "gtx580-run": (1e26,),
    "gtx580-cluster": (16e6,),
    "gtx580-strategy": (1024, 32, 512),
    "paper-knee": (1e28,),
    "paper-wall": (1e31,),
}

KEYS = {"id", "source", "where", "claim", "claimed", "computed", "unit", "agrees", "verdict", "note"}
KEYS |= {"tolerance", "range", "reason", "implied"}

DISAGREEING = {
    "knee-params": study.CONTRADICTS,
    "distance-100x": study.CONTRADICTS,
    "years-to-knee": study.CONTRADICTS,
    "digest-100x": study.CONTRADICTS,
    "batch-4m": study.DIFFERS,
    "wall-mainline": study.DIFFERS,
    "digest-knee": study.DIFFERS,
    "digest-wall": study.DIFFERS,
    "digest-batch": study.DIFFERS,
    "digest-years": study.DIFFERS,
    "gtx580-run": study.DIFFERS,
    "gtx580-strategy": study.DIFFERS,
    "run-length": study.UNKNOWN,
    "latency-slowest": study.UNKNOWN,
    "no-wait-for-failures": study.UNKNOWN,
}

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def everything() -> dict[str, Checked]:
    """Every claim, checked once; some twenty seconds."""
    return {one.claim.id: one for one in claims()}


def one_of(name: str, **words: Any) -> Checked:
    return claims([name], **words)[0]


def slower_network(factor: float) -> Cluster:
    """The paper's H100 with networks of a `factor` of their bandwidth."""
    h100 = catalogue.load("h100-sxm", "epoch-2024")
    tiers = tuple(attrs.evolve(tier, bandwidth=factor * tier.bandwidth) for tier in h100.tiers)
    return attrs.evolve(h100, tiers=tiers)


# The list


def test_every_claim_is_listed_once() -> None:
    assert [claim.id for claim in read_claims()] == IDS
    assert len(IDS) == 47


def test_the_numbers_are_those_of_the_sources() -> None:
    claimed = {claim.id: claim.claimed for claim in read_claims()}
    assert {name: claimed[name] for name in CLAIMED} == CLAIMED


def test_every_tolerance_has_a_reason_and_admits_the_claim_itself() -> None:
    for claim in read_claims():
        assert claim.reason
        assert claim.unit
        if claim.claimed:
            assert claim.admits(claim.claimed), claim.id


def test_every_figure_is_used_and_says_what_it_is() -> None:
    used = {claim.compute for claim in read_claims()}
    assert used == set(FIGURES)
    assert all(function.__doc__ for function in FIGURES.values())


# What comes out


def test_what_agrees_and_what_does_not(everything: dict[str, Checked]) -> None:
    found = {name: one.verdict for name, one in everything.items() if one.verdict != study.AGREES}
    assert found == DISAGREEING


def test_agreement_is_nothing_but_the_tolerance(everything: dict[str, Checked]) -> None:
    for one in everything.values():
        claim, computed = one.claim, one.computed
        if computed is None:
            assert one.agrees is None
            assert one.note
        elif claim.range is not None:
            low, high = claim.range
            assert one.agrees == all(low <= x <= high for x in computed)
        else:
            assert claim.tolerance is not None
            pairs = zip(computed, claim.claimed, strict=True)
            assert one.agrees == all(abs(x / c - 1) <= claim.tolerance for x, c in pairs)


def test_known_figures(everything: dict[str, Checked]) -> None:
    known = {
        "knee": (2.0484e28,),
        "wall-params": (3.6505e14,),
        "wall-flop": (1.5991e31,),
        "paper-wall": (2.7074e31,),
        "zhang-knee": (3.0082e30,),
        "a100-above-h100": (3.4015e28 / 2.0484e28,),
        "wall-mainline": (1.0031e32,),
    }
    for name, figures in known.items():
        assert everything[name].computed == pytest.approx(figures, rel=1e-4), name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wall-params", "100 days to give 4e+14"),
        ("wall-flop", "1.92e+31"),
        ("distance-100x", "400x"),
        ("years-to-knee", "3.7 to 4.3 years"),
        ("digest-knee", "2e+28"),
        ("digest-wall", "2e+31"),
        ("digest-batch", "3e+30"),
        ("wall-mainline", "Nearest: sparse, any MFU"),
        ("latency-slowest", "no source states"),
        ("gtx580-run", "assumptions"),
        ("knee", "1.63e+29"),
    ],
)
def test_notes_say_what_matters(everything: dict[str, Checked], name: str, words: str) -> None:
    assert words in everything[name].note


# What flips it


def test_another_tolerance_flips_a_claim() -> None:
    claim = next(claim for claim in read_claims() if claim.id == "wall-params")
    assert one_of("wall-params").agrees
    strict = attrs.evolve(claim, range=None, tolerance=0.05)
    assert one_of("wall-params", listed=[strict]).verdict == study.DIFFERS
    assert one_of("wall-params", listed=[attrs.evolve(strict, tolerance=0.1)]).agrees


def test_another_bandwidth_flips_the_knee() -> None:
    assert one_of("knee").agrees
    slow = one_of("knee", device=slower_network(0.1))
    assert slow.agrees is False
    assert slow.computed is not None
    assert slow.computed[0] < 1e28


def test_another_latency_flips_the_wall() -> None:
    h100 = catalogue.load("h100-sxm", "epoch-2024")
    slow = attrs.evolve(h100, device=attrs.evolve(h100.device, kernel_latency=20e-6))
    assert one_of("wall").agrees
    assert one_of("wall", device=slow).agrees is False


def test_a_device_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    tiers = (
        '[[tiers]]\nname = "a"\nsize = 8\nbandwidth = "45 GB/s"\nlatency = "1.125us"\n'
        '[[tiers]]\nname = "b"\nbandwidth = "5 GB/s"\nlatency = "1.125us"\n'
    )
    path.write_text(f'base = "h100-sxm"\n{tiers}', encoding="utf-8")
    by_file = one_of("paper-knee", device=str(path))
    assert by_file.computed == one_of("paper-knee", device=slower_network(0.1)).computed
    assert by_file.computed != one_of("paper-knee").computed


def test_a_source_contradicts_itself_only_where_its_own_claims_miss_the_tolerance() -> None:
    claim = next(claim for claim in read_claims() if claim.id == "distance-100x")
    verdicts = [
        Checked(claim=claim, computed=computed, note="", implied=implied).verdict
        for computed, implied in (((100.0,), 400.0), ((400.0,), 400.0), ((400.0,), 100.0), ((400.0,), None))
    ]
    assert verdicts == [study.AGREES, study.CONTRADICTS, study.DIFFERS, study.DIFFERS]
    assert Checked(claim=claim, computed=None, note="").verdict == study.UNKNOWN


def test_no_answer_makes_a_claim_not_computable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(bench: Bench) -> Finding:
        raise NoAnswer("There is no knee.")

    monkeypatch.setitem(FIGURES, "knee", refuse)
    found = one_of("knee")
    assert (found.computed, found.agrees, found.verdict) == (None, None, study.UNKNOWN)
    assert found.note == "There is no knee."
    monkeypatch.setitem(FIGURES, "knee", lambda bench: Finding(math.inf, "No end."))
    assert one_of("knee").computed is None


# The command


def test_the_document(capsys: Capture) -> None:
    names = ["wall-flop", "gtx580-cluster", "a100-above-h100", "run-length", "matmul-intensity"]
    assert run(["claims", "--only", *names, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"answer", "scenario", "device", "claims"}
    assert {one["id"] for one in document["claims"]} == set(names)
    for one in document["claims"]:
        assert set(one) == KEYS
        assert one["agrees"] in (True, False, None)
        assert one["verdict"] in study.VERDICTS
    by_id = {one["id"]: one for one in document["claims"]}
    assert by_id["a100-above-h100"]["claimed"] is None
    assert by_id["a100-above-h100"]["range"] == [1.0, None]
    assert by_id["run-length"]["computed"] is by_id["run-length"]["agrees"] is None
    assert by_id["matmul-intensity"]["claimed"] == [2, 3]
    assert by_id["wall-flop"]["claimed"] == 2e31


def test_the_table(capsys: Capture) -> None:
    assert run(["claims", "--only", "wall-params", "distance-100x", "falcon-180b"]) == 0
    shown = capsys.readouterr().out
    assert "4,096" in shown
    assert "Agrees: 2. The source contradicts itself: 1." in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "kne"], "Nearest: knee, knee-params."),
        (["--device", "h100-smx"], "'--device' must be"),
        (["--device", "absent.toml"], "absent.toml"),
    ],
)
def test_bad_words_get_one_line(capsys: Capture, words: list[str], says: str) -> None:
    assert run(["claims", *words]) == 2
    out, complaint = capsys.readouterr()
    assert not out
    assert says in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tolerance": None}, "tolerance"),
        ({"range": (1.0, 2.0)}, "tolerance"),
        ({"claimed": ()}, "claimed"),
        ({"tolerance": None, "range": (2.0, 1.0)}, "range"),
        ({"compute": "kne"}, "compute"),
    ],
)
def test_a_wrong_claim_is_refused(change: dict[str, Any], field: str) -> None:
    good = Claim(
        **{"id": "a", "source": "s", "where": "w", "claim": "c", "unit": "1", "reason": "r"},
        **{"compute": "knee", "claimed": (1.0,), "tolerance": 0.1},
    )
    with pytest.raises(InputError) as caught:
        attrs.evolve(good, **change)
    assert caught.value.field == field


def test_a_wrong_file_of_claims_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text('[[claims]]\nid = "a"\ncolour = "red"\n')
    with pytest.raises(InputError, match=r"claims\[0\]"):
        read_claims(path)
    path.write_text("claims = 3\n")
    with pytest.raises(InputError, match="claims"):
        read_claims(path)
