"""A run of a browser use agent in a process that dies when it is signed in: `FOLDER HOST TASK`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest
from tests.agents.browsing import clerk, opened, page_of, team


def dying(request: ModelRequest) -> Any:
    """Signs in, and dies before it says what it sees."""
    if "Welcome, ada" in page_of(request):
        os.kill(os.getpid(), signal.SIGKILL)
    return clerk(request)


async def main(folder: Path, host: str, task: str) -> None:
    async with opened(folder, team(dying, dying), host) as ws:
        await ws.run(task, system="browser_use")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
