"""Plays: conversations of agents, written line by line and spoken in real runs of CORAL.

    === NAME
    task: the task of the run
    open THREAD: AGENT, AGENT       the orchestrator opens a thread
    add THREAD: AGENT               it takes an agent in; `remove` takes one out
    close THREAD: words             it ends a thread
    > AGENT, AGENT: words           it writes, in the newest open thread with all of them (refused if there is none)
    < AGENT: words                  the agent replies; without words it ends its turn in silence
    lost AGENT: why                 the agent's model is out of service
    submit: the answer

A line that is indented goes on with the words before it. `python -m tests.support.society_plays` speaks the plays of
`tests/data/societies/plays` again and writes what was said beside them.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.log.conversation import Conversation, conversation
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.support.clock import FakeClock

LEADER = "coral"
AGENTS = ("planner", "web_agent", "document_agent", "coding_agent")
LINE = re.compile(r"(>|<|open|add|remove|close|lost|submit|task) ?([\w, ]*)(?:: (.*))?", re.DOTALL)
DATA = Path(__file__).parents[1] / "data" / "societies"


@dataclass
class Line:
    """A line of a play: the act, who it names or its thread, and the words."""

    act: str
    name: str
    words: str

    @property
    def actor(self) -> str:
        """Who acts."""
        return self.name if self.act in ("<", "lost") else LEADER

    @property
    def names(self) -> list[str]:
        """The agents that it names."""
        return (self.name if self.act == ">" else self.words).split(", ")

    @property
    def seconds(self) -> float:
        """How long it takes on the clock of the run: whoever replies has worked before."""
        return round(9 + len(self.words) / 8 if self.act == "<" else 2 + len(self.words) / 40)


def plays(text: str) -> dict[str, list[Line]]:
    """The plays of a file by name; the first line of each is its task."""
    found = {}
    for play in ("\n" + text).split("\n=== ")[1:]:
        name, rest = play.split("\n", 1)
        lines = re.split(r"\n(?!  )", rest.strip())
        read = [LINE.fullmatch(one.replace("\n  ", "\n")) for one in lines]
        assert None not in read, (name, lines[read.index(None)])
        found[name] = [Line(one[1], one[2], one[3] or "") for one in read if one is not None]
        assert (found[name][0].act, found[name][-1].act) == ("task", "submit"), name
    return found


def every_play() -> dict[str, list[Line]]:
    """All plays that there are."""
    files = sorted((DATA / "plays").glob("*.txt"))
    return {name: lines for file in files for name, lines in plays(file.read_text(encoding="utf-8")).items()}


@dataclass
class Cast:
    """All agents of one play. Who is asked waits for its line; each line begins after the one before has arrived."""

    lines: list[Line]
    clock: FakeClock
    at: int = 0
    speaking: str = ""
    listening: bool = False
    """The orchestrator waits, so that what comes reaches it before its next decision."""
    threads: dict[str, set[str]] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def __call__(self, request: ModelRequest) -> ModelResponse:
        """Speak the next line of whoever is asked, or wait."""
        leads = any(one.name == "submit_answer" for one in request.tools)
        actor = LEADER if leads else next(one for one in AGENTS if f"You are {one}." in request.messages[1].text)
        async with self.changed:
            self.listening = self.listening and not leads
            arrived = self.speaking == actor
            if arrived:
                self.at, self.speaking = self.at + 1, ""
            self.changed.notify_all()
            if leads:
                await self.changed.wait_for(lambda: not self.speaking)
            elif not arrived:
                await self.changed.wait_for(lambda: self._may_speak(actor))
            if self._may_speak(actor):
                return self._spoken()
            self.listening = self.listening or leads
            self.changed.notify_all()
            return decide(calls=[call("wait_for_mention")])

    @property
    def line(self) -> Line:
        """The line whose turn it is."""
        return self.lines[self.at]

    def _may_speak(self, actor: str) -> bool:
        return not self.speaking and self.line.actor == actor and (actor == LEADER or self.listening)

    def _spoken(self) -> ModelResponse:
        line = self.line
        self.clock.time += timedelta(seconds=line.seconds)
        if line.act == "lost" or not line.words:
            self.at += 1  # it is not asked again
            self.changed.notify_all()
            if line.act == "lost":
                raise ModelAuthError(line.words)
            return decide(calls=[call("wait_for_mention")])
        self.speaking = line.actor
        return decide(calls=[self._call(line)])

    def _call(self, line: Line) -> ToolCall:
        match line.act:
            case ">" | "<":
                to = line.names if line.act == ">" else [LEADER]
                there = [name for name, members in self.threads.items() if {*to, line.actor} <= {*members, LEADER}]
                return call("send_message", thread=(there or [*self.threads])[-1], content=line.words, mentions=[*to])
            case "open":
                self.threads[line.name] = {*line.names}
                return call("create_thread", thread=line.name, participants=[*line.names])
            case "close":
                del self.threads[line.name]
                return call("close_thread", thread=line.name, summary=line.words)
            case "submit":
                return call("submit_answer", answer=line.words)
        (set.add if line.act == "add" else set.remove)(self.threads[line.name], line.words)
        return call(f"{line.act}_participant", thread=line.name, participant=line.words)


async def spoken(lines: list[Line], folder: Path) -> Conversation:
    """The conversation of a run in which the agents speak a play."""
    task, *rest = lines
    clock = FakeClock()
    model = ScriptedModel(Cast(rest, clock))
    async with Workspace(folder, models={model.name: model}, clock=clock) as ws:
        result = await ws.run(task.words, system=LEADER, model=model.name)
        assert result.answer == rest[-1].words, (result.status, result.answer, result.error)
        found = conversation(await ws.log.events(result.run_id))
    assert found is not None
    return found.model_copy(update={"origin": "run"})


async def main() -> None:
    """Speak all plays and write the conversations."""
    for name, lines in every_play().items():
        with TemporaryDirectory() as folder:
            (DATA / f"{name}.jsonl").write_text((await spoken(lines, Path(folder))).lines(), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
