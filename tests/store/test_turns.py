"""Turns of a session on several machines with one database: each goes on from the last, one begins at a time."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.postgres import Postgres
from tests.s3 import bucket
from tests.workspace.test_turns import worker

from agentorchestra.core.errors import FileInputError, SessionBusyError
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace


def options(server: Postgres, schema: str, **settings: Any) -> dict[str, Any]:
    """What workspaces on one database are made with."""
    given = Settings(database=SecretStr(server.url), database_schema=schema, model="m", system="react", **settings)
    return {"settings": given, "models": {"m": ScriptedModel(worker)}}


async def test_machines_with_one_database_share_a_session(tmp_path: Path, server: Postgres, schema: str) -> None:
    both = options(server, schema)
    async with Workspace(tmp_path / "a", **both) as one, Workspace(tmp_path / "b", **both) as other:
        first = await one.session("s").run("run x = 40")
        second = await other.session("s").run("run print(x + 1)")
        third = await one.session("s").run("run print(x + 2)")
        assert (second.answer, third.answer) == ("41", "42"), (second, third)
        # All have seen the same end: the database lets one of them begin.
        ended = await asyncio.gather(
            *(ws.session("s").run("run print(x)") for ws in (one, other, one, other)), return_exceptions=True
        )
        (fourth,) = [one for one in ended if not isinstance(one, BaseException)]
        assert [type(one) for one in ended if isinstance(one, BaseException)] == [SessionBusyError] * 3
        assert (fourth.status, fourth.answer) == (RunStatus.COMPLETED, "40")
        turns = [first.run_id, second.run_id, third.run_id, fourth.run_id]
        assert [turn.id for turn in await other.session("s").turns()] == turns
        assert (await other.replay(third.run_id)).answer == "42"
        assert len((await one.session("s").erase(grace_s=0)).runs) == 4 and await other.runs.list() == []


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_files_of_a_session_are_on_another_machine_where_a_bucket_carries_them(
    tmp_path: Path, server: Postgres, schema: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("the note\n")
    with bucket() if shared else nullcontext() as s3:
        both = options(server, schema, artifacts=f"s3://{s3.name}/{schema}" if s3 else None)
        for name, value in (s3.environ if s3 else {}).items():
            monkeypatch.setenv(name, value)
        async with Workspace(tmp_path / "a", **both) as one, Workspace(tmp_path / "b", **both) as other:
            await one.session("s").run("read note.txt", files=[note])
            turn = other.session("s").run("read note.txt")
            if shared:
                assert (await turn).answer == "1\tthe note"
                return
            with pytest.raises(FileInputError, match=r"note.txt, which this session was given, is not on this machine"):
                await turn
            assert (await other.session("s").run("read note.txt", files=[note])).answer == "1\tthe note"
