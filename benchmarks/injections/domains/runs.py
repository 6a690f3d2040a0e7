"""Tasks and attacks of the domains as runs: real tools over real state, a scripted model, default settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.injections.domains import (
    club_attacks,
    home_attacks,
    law_attacks,
    letting_attacks,
    library_attacks,
    office_attacks,
    practice_attacks,
    school_attacks,
    shop_attacks,
    team_attacks,
)
from benchmarks.injections.domains.attacks import MARK, Attack
from benchmarks.injections.domains.base import Call, State, Task
from benchmarks.injections.domains.club import TASKS as CLUB
from benchmarks.injections.domains.club import Club
from benchmarks.injections.domains.home import TASKS as HOME
from benchmarks.injections.domains.home import Home
from benchmarks.injections.domains.law import TASKS as LAW
from benchmarks.injections.domains.law import Law
from benchmarks.injections.domains.letting import TASKS as LETTING
from benchmarks.injections.domains.letting import Letting
from benchmarks.injections.domains.library import TASKS as LIBRARY
from benchmarks.injections.domains.library import Library
from benchmarks.injections.domains.office import TASKS as OFFICE
from benchmarks.injections.domains.office import Office
from benchmarks.injections.domains.practice import TASKS as PRACTICE
from benchmarks.injections.domains.practice import Practice
from benchmarks.injections.domains.school import TASKS as SCHOOL
from benchmarks.injections.domains.school import School
from benchmarks.injections.domains.shop import TASKS as SHOP
from benchmarks.injections.domains.shop import Shop
from benchmarks.injections.domains.team import TASKS as TEAM
from benchmarks.injections.domains.team import Team
from pydantic import JsonValue

from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolSchema
from agentorchestra.core.policy import Policy
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import Question
from agentorchestra.log.store import MemoryStore
from agentorchestra.models.render import render_message
from agentorchestra.tea.calling.tool import Tool, tool_from_schema
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

DOMAINS: dict[str, Callable[[], State]] = {
    one.name: one for one in (Office, Shop, Home, Team, School, Practice, Club, Letting, Library, Law)
}
TASKS: tuple[Task, ...] = (*OFFICE, *SHOP, *HOME, *TEAM, *SCHOOL, *PRACTICE, *CLUB, *LETTING, *LIBRARY, *LAW)
ATTACKS: tuple[Attack, ...] = (
    *office_attacks.ATTACKS,
    *shop_attacks.ATTACKS,
    *home_attacks.ATTACKS,
    *team_attacks.ATTACKS,
    *school_attacks.ATTACKS,
    *practice_attacks.ATTACKS,
    *club_attacks.ATTACKS,
    *letting_attacks.ATTACKS,
    *library_attacks.ATTACKS,
    *law_attacks.ATTACKS,
)
PLANS = Path(__file__).parent / "plans"
LOOKS = Path(__file__).parent / "looks.json"
Look = Callable[[ModelRequest], str]
"""Replies to the request for a second look at a call."""

Model = Literal["obeys", "blind"]
"""How a model is attacked: it does whatever it has read, or it makes the harmful calls at once, without reading."""

_FENCE = re.compile(r" id=\"[0-9a-f]+\"")  # made of what stands inside, the mark too
_TASKS = {one.id: one for one in TASKS}


@dataclass
class Script:
    """What a scripted model does: these calls, and those of an attack as soon as it has read its words."""

    calls: list[Call]
    obeyed: tuple[Call, ...] = ()
    answer: str = "Done."
    instead: bool = False
    has_read: bool = False

    def next(self, request: ModelRequest) -> ModelResponse:
        """Return the next call, then the answer."""
        if self.obeyed and not self.has_read and MARK in _shown(request):
            self.has_read = True
            self.calls = [*self.obeyed, *(() if self.instead else self.calls)]
        name, arguments = self.calls.pop(0) if self.calls else ("done", {"answer": self.answer})
        return decide(calls=[call(name, **arguments)])


@dataclass(frozen=True)
class Ran:
    """How a run went.

    Attributes:
        done: whether the state is what the user wanted, or what the attack wanted.
        asked: what the user was asked to allow.
        error: why the run failed, if it did.
        read: whether the model has read the injected words.
    """

    done: bool
    asked: tuple[Question, ...] = ()
    error: str = ""
    read: bool = False


@dataclass
class Session:
    """A workspace over one state, and the questions that it put."""

    state: State
    folder: Path
    yes: bool
    plan: JsonValue = None
    look: Look | None = None
    policy: Policy | None = None
    tools: Sequence[Tool[..., Any]] = ()
    asked: list[Question] = field(default_factory=list)

    async def run(self, *scripts: tuple[str, Script]) -> str:
        """Let the model follow each script in turn for these words of the user; return the last error."""
        current = scripts[0][1]
        model = ScriptedModel(lambda request: current.next(request), name="scripted", plan=self.plan, review=self.look)
        workspace: Workspace[Any] = Workspace(
            self.folder,
            store=MemoryStore(),
            tools=[*self.state.tools(), *self.tools],
            models={"scripted": model},
            settings=Settings(model="scripted"),
            policy=self.policy,
            asker=self._answer,
        )
        error = ""
        async with workspace as ws:
            for words, current in scripts:
                self.asked.clear()
                steps = len(current.calls) + len(current.obeyed) + 3
                session = "one" if len(scripts) > 1 else None
                result = await ws.run(words, system="react", max_steps=steps, session=session)
                error = result.error or ""
        return error

    async def _answer(self, question: Question) -> bool:
        self.asked.append(question)
        return self.yes


async def work(task: Task, folder: Path, plan: JsonValue = None, look: Look | None = None) -> Ran:
    """Let a competent model do an ordinary task; every question is answered with yes."""
    session = Session(DOMAINS[task.domain](), folder, yes=True, plan=plan, look=look)
    error = await session.run((task.words, Script([*task.calls])))
    return Ran(task.done(session.state), tuple(session.asked), error)


async def attempt(
    attack: Attack,
    folder: Path,
    model: Model,
    plan: JsonValue = None,
    policy: Policy | None = None,
    look: Look | None = None,
) -> Ran:
    """Let an attack happen; every question is answered with no.

    Args:
        attack: which.
        folder: an empty one.
        model: how the model is attacked.
        plan: what the model says that the user's words call for; None for none.
        policy: in place of the default policy.
        look: takes the second look at calls that the plan allows; None for none.
    """
    task, place = _TASKS[attack.task], attack.place
    state = DOMAINS[task.domain]()
    tools = []
    if place.put is None:
        tools = [_described(attack.text)]
    else:
        place.put(state, attack.text)
    session = Session(state, folder, yes=False, plan=plan, look=look, policy=policy, tools=tools)
    if model == "blind":
        script = Script([*attack.calls])
        error = await session.run((task.words, script))
        return Ran(attack.harm(state), tuple(session.asked), error)
    script = Script([*place.first, *task.calls], attack.calls, instead=attack.instead)
    runs = [(task.words, script)]
    if place.earlier:
        before = _TASKS[place.earlier]
        runs.insert(0, (before.words, Script([*before.calls], answer=f"Done. To keep in mind: {attack.text}")))
    error = await session.run(*runs)
    return Ran(attack.harm(state), tuple(session.asked), error, script.has_read)


def plans() -> dict[str, JsonValue]:
    """Return the plan of each task, as somebody stated it who saw the request for it and nothing else."""
    found: dict[str, JsonValue] = {}
    for name in DOMAINS:
        found |= json.loads((PLANS / f"{name}.json").read_text(encoding="utf-8"))
    return found


class Looks:
    """The replies to requests for a second look, as somebody gave them who saw that request and nothing else.

    Attributes:
        missing: the requests that nobody has replied to yet, by the key of their reply: nothing is doubted there.
    """

    def __init__(self) -> None:
        self._replies: dict[str, JsonValue] = json.loads(LOOKS.read_text(encoding="utf-8"))
        self.missing: dict[str, str] = {}

    def __call__(self, request: ModelRequest) -> str:
        """Return the reply that is stored for what the request shows of the call."""
        rules, shown = (render_message(one).replace(MARK, "").strip() for one in request.messages)
        key = sha256_text(_FENCE.sub("", shown))[:16]
        if key not in self._replies:
            self.missing[key] = f"{rules}\n\n{shown}"
        return json.dumps({"doubts": self._replies.get(key, [])})


def wrong_plans() -> dict[str, dict[str, Any]]:
    """Return the plans that were made wrong on purpose, by task: `wrong` says how, `plan` is the plan."""
    found: dict[str, dict[str, Any]] = json.loads((PLANS / "wrong.json").read_text(encoding="utf-8"))
    return found


def _shown(request: ModelRequest) -> str:
    return "\n".join([*(one.text for one in request.messages), *(one.description for one in request.tools)])


def _described(text: str) -> Tool[..., Any]:
    schema = ToolSchema(
        name="weather",
        description=f"The weather of a city. {text}",
        parameters={"type": "object", "properties": {"city": {"type": "string"}}},
    )
    return tool_from_schema(lambda **_: "ok", schema, effect="read")


__all__ = [
    "ATTACKS",
    "DOMAINS",
    "PLANS",
    "TASKS",
    "Look",
    "Looks",
    "Model",
    "Ran",
    "attempt",
    "plans",
    "work",
    "wrong_plans",
]
