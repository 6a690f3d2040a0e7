"""The examples of docs/web.md, run as they stand by a shell against a server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Folder, clean_environment
from tests.support.patience import LONGEST_S
from tests.support.web_serve import TOKEN, serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8765"

APP = '''
"""Books tables: asks for how many, and reads what it is told meanwhile."""

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.testing import ScriptedModel, call


@tool(effect="composite")
async def ask_user(question: str, ctx: RunContext[None]) -> str:
    """Ask the user."""
    return await ctx.ask(question)


def script(request):
    answers = [message.text for message in request.messages if message.role == "tool"]
    if not answers:
        return call("ask_user", question="For how many?")
    near = "near the station" if "Near the station" in str(request.messages) else "somewhere"
    return call("done", answer=f"A table {near}: {answers[0]}")


def workspace():
    return Workspace(tools=[ask_user], models={"scripted": ScriptedModel(script)})
'''


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_examples_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("app.py", APP)
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n')
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    environment = {**clean_environment(), "AGENTORCHESTRA_TOKEN": TOKEN}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with serving(folder, env={"AGENTORCHESTRA_TOKEN": TOKEN}) as (_, address):
        assert f"api={ADDRESS}\n" in blocks[0]
        program = "set -eu -o pipefail\n" + "echo; echo ----\n".join(blocks).replace(ADDRESS, address)
        done = subprocess.run(
            ["bash", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LONGEST_S
        )
    assert done.returncode == 0, done.stdout + done.stderr
    _, submitted, again, status, events, booked, figures = done.stdout.split("----\n")
    assert len(re.findall(r'"run_id":"run_\w+"', again)) == 2 and len(set(re.findall(r"run_\w{26}", again))) == 1
    assert '"ready":true' in figures and 'agentorchestra_runs{standing="queued"} 0.0' in figures
    assert '"run_id":"run_' in submitted
    assert '"task":"How much did General Electric invest in 1946?"' in status and '"team":"finance"' in status
    whole, _, rest = events.partition("event: end")
    assert re.findall(r"^id: (\d+)$", whole, re.MULTILINE)[:4] == ["1", "2", "3", "4"]
    assert re.findall(r"^id: (\d+)$", rest, re.MULTILINE)[0] == "4"
    assert '"status": "completed"' in booked
    (table, *_) = folder.ids()
    assert folder.assert_readable(table)["result"]["answer"] == "A table near the station: For six."
