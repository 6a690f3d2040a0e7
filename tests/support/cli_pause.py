"""What `tests/cli/test_pause.py` and other tests share."""

from __future__ import annotations

GATE = '''
import asyncio
from pathlib import Path

from agentorchestra import Workspace, tool
from agentorchestra.testing import ScriptedModel, call


@tool(effect="write")
async def pass_gate() -> str:
    """Wait at the gate."""
    with Path("reached.txt").open("a") as reached:
        reached.write("x")
    while not Path("open.txt").exists():
        await asyncio.sleep(0.02)
    return f"passed {len(Path('reached.txt').read_text())} times"


def script(request):
    said = [message.text for message in request.messages if message.role == "tool"]
    return call("done", answer=said[-1]) if Path("finish.txt").exists() else call("pass_gate")


def workspace():
    return Workspace(tools=[pass_gate], models={"scripted": ScriptedModel(script, name="scripted")})
'''


SETTINGS = 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n'
