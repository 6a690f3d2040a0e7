"""What a workspace is made of: what was given to it, by name and checked."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import importlib.resources
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import (
    BudgetError,
    PromptError,
    SettingsError,
    UnknownComponentError,
    UnknownModelError,
)
from agentorchestra.core.policy import Policy
from agentorchestra.core.spec import RunFields, RunManifest, RunSpec

if TYPE_CHECKING:
    from agentorchestra.agents.agent import Agent
    from agentorchestra.core.settings import Settings
    from agentorchestra.tea.prompts.catalog import PromptLibrary


@dataclass(frozen=True)
class Equipment:
    """The tools, models and prompts of one run: the workspace's, and what was given to the run.

    Attributes:
        recorded: the manifest of a run that is replayed with nothing else than what it had, None for today's.
        environments: names of the packaged environments that its top agent works in.
        system: that drives it, "" for calls outside of runs.
    """

    tools: Mapping[str, Any]
    models: Any
    prompts: PromptLibrary
    recorded: RunManifest | None = None
    environments: tuple[str, ...] = ()
    system: str = ""


def tools_by_name(given: Sequence[Any]) -> dict[str, Any]:
    """Tools by name, from tools, plain functions, and classes and objects with tools; toolkits give theirs later."""
    from agentorchestra.tea.registry.registration import tools_in

    made: dict[str, Any] = {}
    for one in given:
        if is_toolkit(one):
            continue
        for found in tools_in(one):
            if found.name == "done":
                raise UnknownComponentError(
                    "a tool cannot be named 'done': that is how agents finish; choose another name"
                )
            made[found.name] = found
    return made


def is_toolkit(one: Any) -> bool:
    """Whether tools come from it once it is open."""
    from agentorchestra.tea.calling.tool import Tool
    from agentorchestra.tea.calling.toolkit import Toolkit

    return not isinstance(one, Tool) and not isinstance(one, type) and isinstance(one, Toolkit)


@dataclass(frozen=True, kw_only=True)
class RunObjects:
    """What a run has besides its RunSpec, which no log can hold: another process has to be given it again.

    Attributes:
        model: a ModelClient; a name, or None, where the model is found by its name.
        tools: further tools for this run.
        deps: dependencies instead of the workspace's.
        policy: replaces the workspace's.
        output_type: the type of the result's output.
    """

    model: Any = None
    tools: Sequence[Any] = ()
    deps: Any = None
    policy: Policy | None = None
    output_type: type[Any] | None = None


class RunOptions(RunFields, total=False):
    """What `Workspace.run` takes besides a task: the fields of RunSpec and of RunObjects."""

    tools: Sequence[Any]
    deps: Any
    policy: Policy | None
    output_type: type[Any] | None


def run_request(task: str | RunSpec, options: Mapping[str, object]) -> tuple[RunSpec, RunObjects]:
    """Return what is asked and what is given besides; fields among the options replace those of a spec.

    Raises:
        UsageError: for a value that does not fit.
        TypeError: for an option that there is not.
    """
    fields: dict[str, Any] = {**options}
    objects = {one.name: fields.pop(one.name) for one in dataclasses.fields(RunObjects) if one.name in fields}
    model = objects.get("model")
    if model is not None:
        fields["model"] = model_name(model)
        if isinstance(model, str):
            del objects["model"]
    if unknown := fields.keys() - RunSpec.model_fields:
        raise TypeError(f"a run has no option {min(unknown)!r}; its options: {', '.join(RunOptions.__annotations__)}")
    budget = fields.get("budget")
    if budget is not None and not isinstance(budget, Budget):
        raise BudgetError(f"budget is {budget!r}; give a Budget, e.g. Budget(cost_usd=0.5)")
    base = dict(task) if isinstance(task, RunSpec) else {"task": task}
    try:
        return RunSpec(**(base | fields)), RunObjects(**objects)
    except ValidationError as exc:
        first = exc.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{name} = {first['input']!r} does not fit: {first['msg']}") from None


def model_name(model: Any) -> str:
    """Return the name of a model that is given as a name or a client."""
    name = model if isinstance(model, str) else getattr(model, "name", None)
    if not isinstance(name, str):
        raise UnknownModelError(f"{model!r} is neither a model's name nor a ModelClient")
    return name


def check_options(system: str, drive: Any, options: dict[str, JsonValue], agents: Collection[str], model: str) -> None:
    """Refuse options that a system does not take.

    Args:
        system: its name.
        drive: runs it.
        options: by name.
        agents: names of the run's.
        model: of the run.

    Raises:
        SettingsError: it takes none; else what the system itself refuses.
    """
    check = getattr(drive, "check_options", None)
    if check is not None:
        check(options, agents, model)
    elif options:
        raise SettingsError(
            f"the system {system!r} has no options, but {', '.join(options)} were given; leave them out"
        )


def prompt_text(name: str, path: Path, prompts: PromptLibrary) -> str:
    prompts.get(name)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise PromptError(f"the prompt {path} cannot be read: {exc}") from None


def check_finish(finish: str, output_type: type[Any] | None, *, native: bool) -> None:
    if finish == "text" and output_type is not None:
        raise SettingsError(
            f"finish='text' and output_type={getattr(output_type, '__name__', output_type)} exclude each other: "
            "an answer in plain words has no type; leave one of them out"
        )
    if not native:
        raise SettingsError(
            "finish='text' needs a model that takes native tool calls: this one says everything in one JSON format; "
            "leave finish out"
        )


def agents_by_name(
    given: Sequence[Any], tools: Mapping[str, Any], systems: Mapping[str, Any], prompts: Any, settings: Settings
) -> dict[str, Any]:
    """Agents by name, as the settings want them; what an agent names must be there."""
    from agentorchestra.agents.agent import Agent
    from agentorchestra.agents.registry import adjusted, builtin_agents

    found: dict[str, Agent] = builtin_agents(settings)
    for one in given:
        if not isinstance(one, Agent):
            raise UnknownComponentError(f"{one!r} is not an agent; make one with agentorchestra.agents.agent.Agent")
        taken = "a tool" if one.name in tools else "a system" if one.name in systems else ""
        if taken or one.name == "done":
            raise UnknownComponentError(
                f"an agent is named {one.name!r} like {taken or 'a tool'}; give it another name"
            )
        found[one.name] = one
        if one.drive is None:
            prompts.get(one.prompt)
    return adjusted(found, settings.agents)


def packaged_prompts() -> list[Any]:
    """The folders of the packaged prompts."""
    return [importlib.resources.files(f"agentorchestra.{room}") / "prompts" for room in ("tools", "agents", "systems")]


def systems(settings: Settings | None = None) -> dict[str, Any]:
    """The systems by name, with the limits of the settings."""
    from agentorchestra.agents.debate.agent import DebateDriver
    from agentorchestra.core.settings import Settings
    from agentorchestra.systems.agentorchestra import AgentOrchestra
    from agentorchestra.systems.react import react

    return {
        "agentorchestra": AgentOrchestra(*([settings.team] if settings else [])),
        "debate": DebateDriver((settings or Settings()).debate),
        "react": react,
    }


def memories_by_name(given: Mapping[str, Any]) -> dict[str, Any]:
    """The memory systems by name, the packaged ones and the user's.

    Raises:
        UsageError: for one that is none, or a name that none can have.
    """
    from agentorchestra.tea.memory.base import check_memories
    from agentorchestra.tea.memory.systems import builtin_memories

    check_memories(given)
    return {**builtin_memories(), **given}


@cache
def distribution() -> str:
    try:
        return metadata.version("agentorchestra")
    except metadata.PackageNotFoundError:
        return ""


def schema_of(output_type: type[Any] | None) -> dict[str, Any] | None:
    if output_type is None:
        return None
    try:
        return TypeAdapter(output_type).json_schema()
    except Exception as exc:
        raise SettingsError(f"output_type={output_type!r} has no JSON schema: {exc}; use a pydantic model") from None


def run_anywhere(work: Callable[[], Any]) -> Any:
    """Run a coroutine function whether or not this thread has a running loop (notebooks have one)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    outcome: dict[str, Any] = {}
    stop: list[Callable[[], object]] = []

    async def stoppable() -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stop.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def target() -> None:
        try:
            outcome["value"] = asyncio.run(stoppable())
        except BaseException as exc:
            outcome["error"] = exc

    thread = threading.Thread(target=target, name="agentorchestra-run-sync")
    thread.start()
    try:
        thread.join()
    except BaseException:  # Ctrl-C reaches only this thread: the run is cancelled, and nothing is left behind
        for one in stop:
            one()
        thread.join()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]
