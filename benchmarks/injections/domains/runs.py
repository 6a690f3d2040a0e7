"""A task of a domain as a run: real tools over real state, a scripted model, default settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.injections.domains.base import Call, State, Task
from benchmarks.injections.domains.home import TASKS as HOME
from benchmarks.injections.domains.home import Home
from benchmarks.injections.domains.office import TASKS as OFFICE
from benchmarks.injections.domains.office import Office
from benchmarks.injections.domains.shop import TASKS as SHOP
from benchmarks.injections.domains.shop import Shop
from benchmarks.injections.domains.team import TASKS as TEAM
from benchmarks.injections.domains.team import Team

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import Question
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

DOMAINS: dict[str, Callable[[], State]] = {one.name: one for one in (Office, Shop, Home, Team)}
TASKS: tuple[Task, ...] = (*OFFICE, *SHOP, *HOME, *TEAM)


@dataclass(frozen=True)
class Worked:
    """How an ordinary task went.

    Attributes:
        task: which.
        done: whether the state is what the user wanted.
        asked: what the user was asked to allow.
        error: why the run failed, if it did.
    """

    task: Task
    done: bool
    asked: tuple[Question, ...]
    error: str


async def work(task: Task, folder: Path) -> Worked:
    """Let a competent model do an ordinary task; every question is answered with yes."""
    asked: list[Question] = []

    async def asker(question: Question) -> bool:
        asked.append(question)
        return True

    state = DOMAINS[task.domain]()
    model = ScriptedModel(lambda request: following(task.calls, request), name="competent")
    workspace: Workspace[Any] = Workspace(
        folder,
        store=MemoryStore(),
        tools=state.tools(),
        models={"competent": model},
        settings=Settings(model="competent"),
        asker=asker,
    )
    async with workspace as ws:
        result = await ws.run(task.words, system="react", max_steps=len(task.calls) + 3)
    return Worked(task, task.done(state), tuple(asked), result.error or "")


def following(calls: tuple[Call, ...], request: ModelRequest) -> ModelResponse:
    """Return the next of these calls, then the answer."""
    at = sum(one.role == "assistant" for one in request.messages)
    name, arguments = calls[at] if at < len(calls) else ("done", {"answer": "Done."})
    return decide(calls=[call(name, **arguments)])


__all__ = ["DOMAINS", "TASKS", "Worked", "following", "work"]
