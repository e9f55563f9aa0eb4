"""Answers that several tests look at, each found once a session; and a device that is quick to search."""

from __future__ import annotations

import csv
import functools
from pathlib import Path
from typing import Any, cast
from unittest import mock

from scalewall.cost.assumptions import Assumptions
from scalewall.hardware.cluster import Cluster
from scalewall.strategy import paper
from scalewall.strategy.space import Strategy
from scalewall.study import limits as study
from scalewall.study.limits import Curve, Limits
from scalewall.study.scenario import scenario
from scalewall.workload.scaling import Workload

PAPER = "epoch-2024"

QUICK = """\
title = "A small machine"
vendor = "Nobody"
notes = "One network, no caches: its searches take a tenth of a second."
[device]
sustained = 0.5
memory = { value = "80 GB", source = "a datasheet", date = "2022-09" }
memory_bandwidth = { value = "2 TB/s", derived = "twice the last one" }
[device.peak]
bf16 = "500 TFLOP/s"
[[tiers]]
name = "one"
bandwidth = "100 GB/s"
latency = "2us"
"""
"""A device of one network, as TOML."""


def write_quick(folder: Path) -> str:
    """Write the quick device to `folder` and return its path."""
    path = folder / "quick.toml"
    path.write_text(QUICK, encoding="utf-8")
    return str(path)


_FOUND: dict[Any, Any] = {}
_smallest_cluster = paper.smallest_cluster


def remembering(cluster: Cluster, workload: Workload, duration: float, how: Assumptions) -> Strategy | None:
    """Return what `paper.smallest_cluster` returns, which has no reason to work it out twice a session."""
    question = (cluster.name, workload, duration, how)
    if question not in _FOUND:
        _FOUND[question] = _smallest_cluster(cluster, workload, duration, how)
    return cast("Strategy | None", _FOUND[question])


@functools.cache
def papers(hardware: str = "h100-sxm", **words: Any) -> Curve:
    """Return a device's curve under the paper's preset; two to eight seconds each."""
    return papers_answer(hardware, **words).curves[0]


@functools.cache
def papers_answer(hardware: str = "h100-sxm", **words: Any) -> Limits:
    """Return the whole answer under the paper's preset."""
    with mock.patch.object(paper, "smallest_cluster", remembering):
        return study.limits(scenario(hardware=hardware, preset=PAPER, **words))


@functools.cache
def searched(**words: Any) -> Limits:
    """Return the answer of the exact search for the catalogue's H100, six points; some four seconds."""
    return study.limits(scenario(**{"points": 6, **words}))


def published() -> list[dict[str, float]]:
    """Return the curve that the paper's published code gives for dense runs on the H100."""
    path = Path(__file__).parents[1] / "data" / "paper_curve_h100_dense.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
