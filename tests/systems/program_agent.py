"""Programs as systems, for the tests: `python -m tests.systems.program_agent FOLDER ADDRESS run|resume`.

It drives the program below, which asks twice and notes that it was started, and dies where KILL_AT says.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra.core.settings import ModelProfile, Price, ProgramSettings, Settings
from agentorchestra.workspace import Workspace
from tests.chaos.killing import hooks

ASKS = """
import os, sys
from openai import OpenAI

with open(sys.argv[1], "a") as notes:
    notes.write(str(os.getpid()) + "\\n")
client = OpenAI(max_retries=0)
said = []
for number in range(2):
    asked = sys.argv[2] if len(sys.argv) > 2 and number else str(number)
    messages = [{"role": "user", "content": sys.stdin.read() if not number else asked}]
    reply = client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=messages)
    said.append(reply.choices[0].message.content)
print(" ".join(said))
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
            result = await ws.run("begin")
        else:
            (record,) = await ws.runs()
            result = await ws.resume(record.id)
        print(f"{result.status.value}: {result.answer}: {result.report}")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), *sys.argv[2:]))
