"""Search: the best strategies of a space, exactly; `engine` has the how and the why."""

from __future__ import annotations

import attrs

from scalewall.strategy.engine import Engine
from scalewall.strategy.question import OBJECTIVES, Certificate, Question, Result
from scalewall.strategy.space import Strategy

__all__ = ["OBJECTIVES", "Certificate", "Question", "Result", "ruled_out", "search"]


def search(question: Question, hints: tuple[Strategy, ...] = ()) -> Result:
    """Return the best strategies of the question's space: the true optimum, see `engine`.

    Parameters
    ----------
    question
        What to search.
    hints
        Strategies thought to be good, such as the best ones of a similar question; they only save time.
    """
    found = Engine(question).run(hints)
    if question.objective == "devices" and found.best is not None:
        fewest = attrs.evolve(question, objective="time", devices=found.best.devices)
        fastest = Engine(fewest).run((found.best,))
        return attrs.evolve(fastest, certificate=found.certificate)
    return found


def ruled_out(question: Question) -> bool:
    """Return whether bounds alone show that no strategy ends in time: cheap, and no proof of the contrary."""
    return Engine(question).ruled_out()
