"""The last answer, remembered for `scalewall cite`: which it was, when, and what it rests on.

The record is a file in the user's folder for states, or in the folder that the environment variable
``SCALEWALL_STATE`` names; empty, nothing is remembered. No answer fails for want of it.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewall.errors import ScalewallError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewall.study.citations import Answered, Citation

_VARIABLE = "SCALEWALL_STATE"
_NAME = "last-answer.json"


def folder() -> Path | None:
    """Return where the record is kept; None if it is not wanted."""
    named = os.environ.get(_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    import platformdirs

    return platformdirs.user_state_path("scalewall", appauthor=False)


def remember(answered: Answered, words: Sequence[str]) -> None:
    """Keep what an answer was to, the `words` of its command line, and its sources as they are now."""
    import attrs

    try:
        where = folder()
        if where is None:
            return
        record = {
            "words": list(words),
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "scenario": None,
            **answered.as_documents(),
            "citations": [attrs.asdict(citation) for citation in answered.citations],
        }
        where.mkdir(parents=True, exist_ok=True)
        _replace(where / _NAME, json.dumps(record, default=str))
    except Exception:  # whatever it is, the answer stands
        return


def _replace(path: Path, text: str) -> None:
    """Write a file in one go: who reads it meanwhile, or writes it too, sees one whole or the other."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def recall() -> tuple[str, tuple[Citation, ...], dict[str, Any]] | None:
    """Return which answer was the last, in words, its sources, and what it was; None if none is remembered.

    Raises
    ------
    ScalewallError
        If the record cannot be read.
    """
    from scalewall.study.citations import Citation

    where = folder()
    if where is None:
        return None
    path = where / _NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        command = shlex.join(["scalewall", *record["words"]])
        when = datetime.datetime.fromisoformat(record["when"]).astimezone()
        found = tuple(
            Citation(**{**citation, "used_for": tuple(citation["used_for"])})
            for citation in record["citations"]
        )
        about = {
            "answer": {**record["answer"], "words": record["words"], "when": record["when"]},
            "scenario": record["scenario"],
        }
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ScalewallError(
            f"The record of the last answer, {path}, is unreadable: {error.strerror}."
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ScalewallError(
            f"The record of the last answer, {path}, is damaged; the next answer replaces it."
        ) from None
    return f"the last answer: {command}, of {when:%Y-%m-%d %H:%M}", found, about
