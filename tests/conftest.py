"""Hypothesis tries the same examples on every run; ``--hypothesis-profile=explore`` looks for new ones.

No test writes to the user's own folders: the last answer is remembered in one of the test's.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile(
    "explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the last answer is remembered, which is empty."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("SCALEWALL_STATE", str(folder))
    return folder
