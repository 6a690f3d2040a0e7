"""A desktop that cannot be had here is refused before a run is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.errors import MissingExtraError
from agentorchestra.workspace import Workspace


async def test_missing_programs_are_told_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, **_: None)
    async with Workspace(tmp_path / "ws") as ws:
        with pytest.raises(MissingExtraError, match="the desktop needs Xvfb and openbox"):
            await ws.run("x", environments=["computer"])
        assert await ws.runs.list() == []
