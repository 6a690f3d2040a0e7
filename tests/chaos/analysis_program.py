"""An analyzer of a file: what the test names as the `app` of a workspace. Each request is written into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from tests.agents.analysing import Reader
from tests.chaos.killing import hooks

HERE = Path(__file__).parent


class Counted(Reader):
    """A reader whose requests are counted over the processes."""

    async def request(self, request: ModelRequest, **more: Any) -> ModelResponse:
        with (HERE / "requests.txt").open("a", encoding="utf-8") as file:
            file.write(sha256_json([one.text for one in request.messages]) + "\n")
        return await super().request(request, **more)


def workspace() -> Workspace[None]:
    """The workspace, with the hooks that KILL_AT asks for."""
    store, wrap = hooks(HERE / "ws")
    settings = Settings(model="reader", system="deep_analyzer")
    models = {"reader": Counted()}
    return Workspace(HERE / "ws", models=models, settings=settings, environ={}, store=store, handlers=wrap)


__all__ = ["workspace"]
