"""A run with everything a bundle must carry, and another machine to take it to."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.budget import Budget
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunResult
from agentorchestra.testing import ScriptedModel, call, decide
from tests import warm
from tests.bundle.tools import both, draw
from tests.support.patience import LONGEST_S

SOURCE = Path(__file__).resolve().parents[2]
TASK = "Draw the figures of the report."
SECRET = "s3cret-value-of-the-tests"
PROFILE = ModelProfile(
    model="drawer",
    base_url="https://user:hunter2-password@models.example.com/v1?key=hunter3-query",
    price=Price(input=1.0, output=1.0),
    max_tokens=777,
    temperature=0.25,
    context_window=50_000,
)

PROMPT = """---
name: react
version: 3.2.1
description: Ours.
variables: [native, code, max_tools, tools, environments, has_todo, finish]
---
You draw figures{% if has_todo %} and keep a list{% endif %}.
"""


def drawing(steps: list[Any] | None = None) -> ScriptedModel:
    """A model that draws, delegates to a tool that works for itself, and is done."""
    given = steps or [
        decide(memory="one", calls=[call("draw", what="cover", size=2), call("read_file", path="report.txt")]),
        decide(memory="two", calls=[call("both"), call("draw", what="cover", size="huge")]),
        decide(calls=[call("done", answer="seen by the looker")]),
        decide(memory="three \U0001f600", calls=[call("nothing")]),
        decide(calls=[call("done", answer="three figures")]),
    ]
    return ScriptedModel(given, name="drawer", profile=PROFILE)


def settings(**changes: Any) -> Settings:
    """Of the machine the run is made on."""
    models = {"other": ModelProfile(model="offline"), "drawer": PROFILE}
    return Settings(**{"models": models, "secrets": ("TOKEN_OF_TESTS",), "max_steps": 11, **changes})


def here(folder: Path, model: ScriptedModel | None = None, **options: Any) -> Workspace[None]:
    """The workspace of the machine the run is made on."""
    client = model or drawing()
    prompts = folder / "ws" / "prompts"
    prompts.mkdir(parents=True, exist_ok=True)
    (prompts / "react.md").write_text(PROMPT, encoding="utf-8")
    options.setdefault("settings", settings())
    options.setdefault("tools", [draw, both])
    return Workspace(
        folder / "ws",
        models={"drawer": client},
        environ={"TOKEN_OF_TESTS": SECRET, "PATH": os.environ["PATH"]},
        **options,
    )


async def recorded(ws: Workspace[None], folder: Path, **options: Any) -> RunResult:
    """The run, made."""
    report = folder / "report.txt"
    report.write_text("Figures wanted: cover, left, right.\n", encoding="utf-8")
    (folder / "more").mkdir(exist_ok=True)
    (folder / "more" / "ä b.txt").write_text("further words\n", encoding="utf-8")
    options = {"system": "react", "model": "drawer", "session": "reports", "budget": Budget(cost_usd=1.0), **options}
    return await ws.run(TASK, files=[report, folder / "more"], **options)


def elsewhere(folder: Path, *words: str, code: int = 0) -> str:
    """A command on another machine: another process, folder, settings; none of the tools, models and prompts."""
    folder.mkdir(exist_ok=True)
    toml = folder / "agentorchestra.toml"
    if not toml.exists():
        toml.write_text(
            'model = "drawer"\nmax_steps = 2\nmax_result_chars = 200\n[models.drawer]\nmodel = "offline"\n'
            "max_tokens = 5\n[models.extra]\nmodel = 'offline'\n[policy]\ndeny = ['draw', 'read_file']\n",
            encoding="utf-8",
        )
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE / "src"), "HOME": str(folder)}
    done = warm.run(["-m", "agentorchestra", *words], cwd=folder, environ=environ, timeout=LONGEST_S)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout if code == 0 else done.stderr


def other(folder: Path) -> Workspace[None]:
    """The same in this process."""
    given = Settings(model="drawer", max_steps=2, max_result_chars=200, models={"extra": ModelProfile(model="offline")})
    return Workspace(folder / ".agentorchestra", settings=given, environ={})


def rewritten(bundle: Path, out: Path, change: Callable[[dict[str, bytes]], Any], *, sums: bool = True) -> Path:
    """A bundle with other members, and sums that fit them (unless they are to stay as they were)."""
    import hashlib

    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if sums and "sums.json" in members:
        fitting = {
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
            for name, data in members.items()
            if name != "sums.json"
        }
        members["sums.json"] = json.dumps(fitting).encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out


def scripted(answer: Callable[[ModelRequest], ModelResponse]) -> ScriptedModel:
    """A model that is a function."""
    return ScriptedModel(answer, name="drawer", profile=PROFILE)
