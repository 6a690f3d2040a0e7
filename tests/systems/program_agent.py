"""Programs as systems, for the tests: `python -m tests.systems.program_agent FOLDER ADDRESS run|resume`.

It drives the program below, which asks twice, the second time what stands in the folder, and dies where KILL_AT says.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra.core.settings import ModelProfile, Price, ProgramSettings, Settings
from agentorchestra.workspace import Workspace
from tests.chaos.killing import hooks

ASKS = """
import json, os, sys, urllib.request

def ask(text):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}]}
    head = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), head)) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

with open(sys.argv[1], "a") as notes:
    notes.write(str(os.getpid()) + "\\n")
with open("made.txt", "a") as made:
    made.write("x")
print(ask(sys.stdin.read()), ask(sys.argv[2] if len(sys.argv) > 2 else open("made.txt").read()))
"""


def settings(folder: Path, address: str, *more: str) -> Settings:
    """The settings with the program `asks`, which notes its starts in `notes.txt`."""
    program = ProgramSettings(command=(sys.executable, "-c", ASKS, str(folder / "notes.txt"), *more))
    profile = ModelProfile(
        model="openai:test", base_url=address, api_key_env="", price=Price(input=1.0, output=2.0), stream=False
    )
    return Settings(programs={"asks": program}, models={"test": profile}, model="test", system="asks")


async def work(folder: Path, address: str, what: str, *more: str) -> None:
    """Run it, or go on; print status, answer and report."""
    folder.mkdir(exist_ok=True)
    store, wrap = hooks(folder / "ws")
    async with Workspace(folder / "ws", store=store, handlers=wrap, settings=settings(folder, address, *more)) as ws:
        if what == "run":
            result = await ws.run("begin", environments=["files"])
        else:
            (record,) = await ws.runs.list()
            result = await ws.resume(record.id)
        print(f"{result.status.value}: {result.answer if result.has_answer else ''}: {result.report}")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), *sys.argv[2:]))
