"""A run whose browser works while its process is killed; started and resumed as a process of its own.

python -m tests.environments.browser.browser_program FOLDER ADDRESS [direct]
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import BrowserSettings, Settings, WebSettings
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.trust.policy import AllowAll


def decide(request: ModelRequest) -> ToolCall:
    """Log in, store something, go where nobody answers, come back, and say what is there: by what is shown."""
    shown = "\n".join(one.text for one in request.messages)
    address = re.findall(r"http://127\.0\.0\.1:\d+", shown)[0]
    done = [one.text for one in request.messages if one.role == "tool"]
    store = re.findall(r'\[(\w+)\] button "Store"', shown)
    if not done:
        return call("browser_go_to_url", url=f"{address}/login")
    if len(done) == 1 and store:
        return call("browser_click", ref=store[-1])
    if len(done) == 2:
        return call("browser_go_to_url", url=f"{address}/hang")
    if len(done) == 3:
        return call("browser_go_to_url", url=f"{address}/tab")
    said = re.findall(r"tab: [^,\n]*, site: [^,\n]*, cookie: [\w=]*", shown)
    return call("done", answer=said[-1] if said else shown[-2000:])


async def main(folder: Path, address: str) -> str:
    """Start the run, or go on with the one that is there."""
    settings = Settings(
        prompt_tool_chars=0,
        lease_s=2,
        web=WebSettings(private=(address.removeprefix("http://"),)),
        browser=BrowserSettings(load_s=60),
    )
    async with Workspace(folder, settings=settings, policy=AllowAll()) as ws:
        model = ScriptedModel(decide)
        runs = await ws.runs.list()
        if runs:
            result = await ws.resume(runs[0].id, model=model)
        else:
            result = await ws.run(f"look at {address}", model=model, system="react", environments=["browser"])
        return result.answer or str(result.error)


if __name__ == "__main__":
    print(asyncio.run(main(Path(sys.argv[1]), sys.argv[2])))
