"""A turn of a session, and a run on a copy of a folder, on another machine."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ProjectError, SessionError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.support.projects import files_below, repository, write
from tests.workspace.test_projects import needs_bubblewrap, printed


def adder(request: ModelRequest) -> ModelResponse:
    """Runs the code that the last task names, and answers with what it prints."""
    place = max(at for at, one in enumerate(request.messages) if "<task>" in one.text)
    results = [one.text for one in request.messages[place:] if one.role == "tool"]
    if results:
        return decide(calls=[call("done", answer=results[-1])])
    code = re.findall(r"`(.*)`", request.messages[place].text)
    return decide(calls=[call("python", code=code[-1]) if code else call("read_file", name="note.txt")])


async def test_a_turn_goes_alone_to_another_machine_and_on_there(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("the note\n")
    models = {"m": ScriptedModel(adder)}
    options: dict[str, Any] = {"model": "m", "system": "react"}
    async with Workspace(tmp_path / "ws", models=models, environ={}) as ws:
        session = ws.session("sums")
        first = await session.run("Run `x = 40`", files=[note], **options)
        second = await session.run("Run `print(x + 2)`", **options)
        assert second.answer.strip() == "42"
        bundle = (await ws.log.export(second.run_id, tmp_path / "turn.zip")).path
    async with Workspace(tmp_path / "there", models=models, environ={}) as there:
        await there.log.import_file(bundle)
        (record,) = await there.runs.list()
        assert (record.manifest.session, record.manifest.previous) == ("sums", first.run_id)
        assert "Run `x = 40`" in str((await there.log.events(second.run_id))[0].body["begins"]["messages"])
        assert (await there.replay(second.run_id)).answer == second.answer
        with pytest.raises(SessionError, match="came from elsewhere, and its log may say anything; fork it"):
            await there.session("sums").run("Run `print(x + 3)`", **options)
        fork = await there.fork(second.run_id)
        assert (await there.resume(fork)).status is RunStatus.COMPLETED
        branch = there.session(fork)
        assert (await branch.run("Run `print(x + 3)`", **options)).answer.strip() == "43"
        assert "the note" in (await branch.run("Read it", **options)).answer


@pytest.mark.long
@needs_bubblewrap
async def test_of_a_run_from_elsewhere_no_folder_of_this_machine_is_meant(tmp_path: Path) -> None:
    user = repository(tmp_path / "user", {"a.txt": "1\n"})
    write(user, {"node_modules/secret": "SECRET"})
    look = "ls node_modules .git/alternate | wc -l; pwd; echo 2 >a.txt"
    steps = [call("terminal_run", command=look), call("done", answer="done")]
    async with Workspace(tmp_path / "ws", models={"m": ScriptedModel(steps)}) as ws:
        result = await ws.run("Look", model="m", system="react", project=user)
        at = next(one.seq for one in await ws.log.events(result.run_id) if one.type == "started" and (one.n or 0) > 1)
        bundle = (await ws.log.export(result.run_id, tmp_path / "run.zip")).path
    with zipfile.ZipFile(bundle) as held:
        assert not [one for one in held.namelist() if b"SECRET" in held.read(one)]
    async with Workspace(tmp_path / "there", models={"m": ScriptedModel(steps)}) as there:
        await there.log.import_file(bundle)
        assert (await there.replay(result.run_id)).answer == "done"
        assert (await there.files.changes(result.run_id)).diff() == result.diff
        fork = await there.fork(result.run_id, at=at)
        again = await there.resume(fork)
        assert (again.status, again.diff) == (RunStatus.COMPLETED, result.diff), again.error
        (here,), (away,) = [[one.split() for one in await printed(there, run)] for run in (fork, result.run_id)]
        assert (int(here[0]) < int(away[0]), here[1], away[1]) == (True, "/work", str(user))
        for one in (result.run_id, fork):
            with pytest.raises(ProjectError, match="came from elsewhere, and the folder that it names is not meant"):
                await there.files.apply(one)
    assert files_below(user)["a.txt"] == b"1\n"
