"""The sandboxes under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.sandbox import Sandbox
from tests.sandbox.support import here, usable


def _contract() -> list[Any]:
    """All that are here; the one without walls in the long tier, where there is another."""
    found = here()
    return [pytest.param(one, marks=pytest.mark.long) if one == "unsafe-local" != found[0] else one for one in found]


@pytest.fixture(params=_contract())
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Every backend that works here."""
    return usable(str(request.param))


@pytest.fixture(params=[name for name in here() if name != "unsafe-local"])
def safe(request: pytest.FixtureRequest) -> Sandbox:
    """Every backend that isolates."""
    return usable(str(request.param))


@pytest.fixture
def bubblewrap() -> Sandbox:
    """The one with a filter of system calls of ours."""
    return usable("bubblewrap")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this process go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder
