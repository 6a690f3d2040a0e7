"""The sandboxes under test."""

from __future__ import annotations

import pytest

from agentorchestra.runtime.sandbox import Sandbox
from tests.sandbox.support import here, usable


@pytest.fixture(params=here())
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
