"""A researcher on a site of the test's: what the test names as the `app` of a workspace.

Its model is the function of the prompt that the researcher's tests use. Each request is written into a file.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel
from tests.agents.researching import model
from tests.chaos.killing import hooks
from tests.tools.search.support import KEYS

HERE = Path(__file__).parent


def workspace() -> Workspace[None]:
    """The workspace, with the hooks that KILL_AT asks for."""
    store, wrap = hooks(HERE / "ws")
    inner = model()

    def answer(request: ModelRequest) -> ModelResponse:
        # When a page was read is another time in each run.
        asked = re.sub(r"(?:read at|kept since) [^;\n]*", "", "\n".join(one.text for one in request.messages))
        with (HERE / "requests.txt").open("a", encoding="utf-8") as file:
            file.write(sha256_json(asked) + "\n")
        assert inner._function is not None
        return inner._function(request)  # type: ignore[return-value]

    settings = Settings.model_validate(json.loads(os.environ["RESEARCH_SETTINGS"]))
    models = {"scripted": ScriptedModel(answer, profile=inner.profile)}
    given = settings.model_copy(update={"model": "scripted", "system": "deep_researcher"})
    return Workspace(HERE / "ws", models=models, settings=given, environ=KEYS, store=store, handlers=wrap)


__all__ = ["workspace"]
