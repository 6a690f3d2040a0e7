"""How the browser is started: with its sandbox wherever that works."""

from __future__ import annotations

import os

import pytest

from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import BrowserSettings
from agentorchestra.environments.browser.session.chromium import SharedBrowser, has_sandbox


def test_pages_are_in_a_sandbox_unless_root_or_the_settings_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert has_sandbox(BrowserSettings()) and not has_sandbox(BrowserSettings(sandbox=False))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not has_sandbox(BrowserSettings())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused the sandbox everywhere")
@pytest.mark.real
async def test_a_sandbox_that_does_not_work_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ToolError, match=r"its sandbox does not work here .* set browser\.sandbox = false"):
        await SharedBrowser(BrowserSettings()).browser(object())
