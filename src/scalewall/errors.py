"""Every exception that scalewall raises on purpose.

::

    ScalewallError
    ├── InputError      the input is wrong: one field, what it must be, what it was  (exit 2)
    │   └── InputErrors several of them, found in one go                             (exit 2)
    └── NoAnswer        the question is sound, but has no answer                     (exit 1)

Anything else that escapes is a defect.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence


class ScalewallError(Exception):
    """Base of all errors that scalewall raises on purpose; its text is one line."""

    exit_status = 1


class NoAnswer(ScalewallError):
    """The question is sound but nothing satisfies it; the text says why."""


class InputError(ScalewallError, ValueError):
    """One wrong field: which, what it must be, what it was.

    Parameters
    ----------
    field
        Name or path of the field, as the user wrote it (``tiers[0].bandwidth``).
    must
        What it must be, to follow "must be" (``a positive number of B/s``).
    got
        The value that was given.
    hint
        An optional further sentence, such as the nearest valid names.
    """

    exit_status = 2

    def __init__(self, field: str, must: str, got: object, hint: str = "") -> None:
        self.field, self.must, self.got, self.hint = field, must, got, hint
        text = f"The '{field}' must be {must}. Got {shown(got)} instead."
        super().__init__(f"{text} {hint}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:  # so that it comes through from another process
        return InputError, (self.field, self.must, self.got, self.hint)

    def named(self, names: Mapping[str, str]) -> InputError:
        """Return the same error with the field called what `names` have for it."""
        return InputError(names.get(self.field, self.field), self.must, self.got, self.hint)

    def within(self, path: str) -> InputError:
        """Return the same error with `path` put before the field."""
        joint = "" if self.field.startswith("[") else "."
        return InputError(f"{path}{joint}{self.field}", self.must, self.got, self.hint)


class InputErrors(InputError):
    """Several wrong fields of one input, reported together, one line each."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        self.field, self.must, self.got, self.hint = first.field, first.must, first.got, first.hint
        Exception.__init__(self, "\n".join(str(error) for error in self.errors))

    def __reduce__(self) -> tuple[object, ...]:
        return InputErrors, (self.errors,)

    def named(self, names: Mapping[str, str]) -> InputError:
        """Return the same errors with the fields called what `names` have for them."""
        return InputErrors([error.named(names) for error in self.errors])


def shown(value: object, limit: int = 80) -> str:
    """Return `value` as it is quoted in an error: on one line and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(name: str, names: Iterable[str], most: int = 3) -> str:
    """Return a hint that names the valid `names` nearest to `name`, or all if they are few."""
    known = sorted(names)
    begins = [n for n in known if n.startswith(name.lower())]
    alike = difflib.get_close_matches(name.lower(), known, n=most, cutoff=0.6)
    close = list(dict.fromkeys([*begins, *alike]))[:most]
    if close:
        return f"Nearest: {', '.join(close)}."
    return f"Known: {', '.join(known[:12])}{', …' if len(known) > 12 else ''}."
