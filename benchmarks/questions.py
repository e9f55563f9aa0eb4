"""The questions that are timed: runs on devices of the catalogue."""

from __future__ import annotations

import numpy as np

from scalewall.hardware import catalogue
from scalewall.strategy.search import Question
from scalewall.study.scenario import Scenario, scenario

DEVICES = ("h100-sxm", "a100-40gb-sxm", "v100")
CURVE = np.geomspace(1e24, 3e31, 60)


def ideal(training_flop: float, device: str = "h100-sxm", **words: object) -> Question:
    """Return the search for the best run of `training_flop` over the full space on a two-tier cluster."""
    asked = scenario(hardware=device, **words)
    return Question(
        cluster=catalogue.load(device),
        workload=asked.scaling.workload(training_flop),
        how=asked.how,
        duration=asked.duration,
    )


def figure(points: int = 60) -> Scenario:
    """Return the scenario of a figure of three devices, from 1e24 FLOP to their walls."""
    return scenario(hardware=DEVICES, points=points)
