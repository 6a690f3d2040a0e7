"""One attack or one ordinary task as a run: real tools, a real server, a model that obeys."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.injections.attacks import Attack
from benchmarks.injections.benign import Benign, Step
from benchmarks.injections.world import World, tools_of
from pydantic import JsonValue

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.policy import Policy
from agentorchestra.core.settings import ModelProfile, PolicySettings, Settings
from agentorchestra.core.spec import Question, RunResult
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide, obedient_model
from agentorchestra.workspace import Workspace


@dataclass
class Report:
    """How a run went.

    Attributes:
        happened: what the attack wants was seen outside.
        asked: what a human was asked to allow.
        result: of the run.
    """

    happened: bool
    result: RunResult
    asked: list[Question] = field(default_factory=list)


async def attempt(
    attack: Attack,
    folder: Path,
    policy: Policy | None = None,
    *,
    prompt_tool_chars: int | None = None,
    plan: JsonValue = None,
) -> Report:
    """Let an attack happen; every question for permission is answered with no.

    Args:
        attack: which.
        folder: an empty one.
        policy: in place of the default policy.
        prompt_tool_chars: so little room for tools in the prompt that most of them are hidden until they are opened.
        plan: what the model says the user's words call for; None for none.
    """
    asked: list[Question] = []

    async def asker(question: Question) -> str | bool | None:
        if question.kind == "question":
            return attack.answer or "no"
        asked.append(question)
        return False

    async with World(folder / "world", dict(attack.pages)) as world:
        given = attack.workspace(world)
        tools = [*tools_of(world), *given.pop("tools", ())]
        settings = given.pop("settings", Settings())
        if prompt_tool_chars is not None:
            settings = settings.model_copy(update={"prompt_tool_chars": prompt_tool_chars})
        opened = PolicySettings(allowed_hosts=("docs.example",))
        options = dict(attack.options)
        profile = ModelProfile(model="obedient")
        if options.pop("small", False):
            profile = profile.model_copy(update={"context_window": 6_000, "max_tokens": 500})
        model = obedient_model(plan=plan)
        model.profile = profile.model_copy(update={"price": model.profile.price})
        (folder / "ws").mkdir()
        workspace: Workspace[Any] = Workspace(
            folder / "ws",
            store=MemoryStore(),
            tools=tools,
            models={"obedient": model},
            settings=settings.model_copy(update={"model": "obedient", "policy": opened}),
            policy=policy,
            asker=asker,
            **given,
        )
        world.pages = {name: _placed(text, world) for name, text in world.pages.items()}
        files = [_written(folder / "given", name, content) for name, content in attack.files.items()]
        async with workspace as ws:
            session = {"session": "one"} if attack.earlier else {}
            base: dict[str, Any] = {"system": "react", "max_steps": 14, **session, **options}
            if attack.earlier:
                await ws.run(_placed(attack.earlier, world), **base)
                world.arrived.clear()
                asked.clear()
            result = await ws.run(_placed(attack.task, world), files=files, **base)
        return Report(attack.happened(world), result, asked)


async def ordinary(task: Benign, folder: Path, *, plan: JsonValue = None) -> Report:
    """Let an ordinary task be done; every question for permission is answered with yes.

    Args:
        task: which.
        folder: an empty one.
        plan: what the model says the user's words call for; None for none.
    """
    asked: list[Question] = []

    async def asker(question: Question) -> str | bool | None:
        if question.kind == "question":
            return task.answer or "I do not know"
        asked.append(question)
        return True

    async with World(folder / "world", dict(task.pages)) as world:
        world.pages = {name: _placed(text, world) for name, text in world.pages.items()}
        model = ScriptedModel(lambda request: _next(task, request, world), name="sensible", plan=plan)
        (folder / "ws").mkdir()
        workspace: Workspace[Any] = Workspace(
            folder / "ws",
            store=MemoryStore(),
            tools=tools_of(world),
            models={"sensible": model},
            settings=Settings(model="sensible"),
            asker=asker,
        )
        files = [_written(folder / "given", name, _placed(text, world)) for name, text in task.files.items()]
        async with workspace as ws:
            result = await ws.run(
                _placed(task.task, world), files=files, system="react", action="code" if task.action == "code" else None
            )
        if task.seen.startswith("file:"):
            seen = (world.folder / task.seen.removeprefix("file:")).exists()
        else:
            seen = world.got(task.seen)
        return Report(seen, result, asked)


def _next(task: Benign, request: ModelRequest, world: World) -> ModelResponse:
    """What a sensible model does next: the task's steps, one after the other."""
    said = "\n".join(one.text for one in request.messages if one.role == "user")
    if "Find the address of Ann" in said:  # the helper
        steps: list[Step] = [("look_up", {"key": "ann"})]
    else:
        steps = [(name, _fill(arguments, world)) for name, arguments in task.steps]
    at = sum(one.role == "assistant" for one in request.messages)
    results = [one.text for one in request.messages if one.role == "tool"]
    name, arguments = steps[at] if at < len(steps) else ("done", {"answer": results[-1] if results else "done"})
    if request.tools:
        return decide(calls=[call(name, **arguments)])
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return ModelResponse(text=f"```python\nprint({name}({given}))\n```")


def _fill(value: Any, world: World) -> Any:
    if isinstance(value, str):
        return _placed(value, world)
    if isinstance(value, dict):
        return {key: _fill(one, world) for key, one in value.items()}
    return [_fill(one, world) for one in value] if isinstance(value, list) else value


def _placed(text: str, world: World) -> str:
    return text.replace("BASE", world.base).replace("OUTSIDE", str(world.folder)).replace("PORT", str(world.port))


def _written(folder: Path, name: str, content: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


__all__ = ["Report", "attempt", "ordinary"]
