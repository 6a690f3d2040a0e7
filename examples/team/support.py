"""What the examples of the team share: the small site, the model that decides by what it is shown, what is printed.

`Mind` stands in for a language model. Each of its replies is a function of the prompt of that one request: it plans by
the task, delegates with the facts that agents reported, and answers with figures that a tool computed. What is not
shown to it, it does not know.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import JsonValue

from agentorchestra import RunResult, Workspace
from agentorchestra.core.content import MediaBlock
from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import load_settings

Calls = ToolCall | Sequence[ToolCall]


@asynccontextmanager
async def site(pages: Mapping[str, str | bytes], paths: Sequence[str]) -> AsyncIterator[str]:
    """Pages by their paths on the loopback address, until the block ends; gives `127.0.0.1:PORT`.

    Args:
        pages: HTML as text, anything else as bytes; they may be added later.
        paths: of all there will be.
    """

    async def give(request: web.Request) -> web.Response:
        found = pages[request.path]
        if isinstance(found, bytes):
            return web.Response(body=found, content_type="text/plain")
        return web.Response(text=found, content_type="text/html")

    app = web.Application()
    app.add_routes([web.get(path, give) for path in paths])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


def page(title: str, body: str) -> str:
    """A page of HTML."""
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>{body}</html>'


@dataclass(frozen=True)
class Shown:
    """What one request shows.

    Attributes:
        request: the request.
        media: the bytes of pictures, recordings and videos in it, in order.
    """

    request: ModelRequest
    media: tuple[tuple[MediaBlock, bytes], ...] = ()

    @property
    def text(self) -> str:
        """All of it as text."""
        return "\n".join(render_message(one) for one in self.request.messages)

    @property
    def told(self) -> str:
        """Without the system prompt."""
        return "\n".join(render_message(one) for one in self.request.messages if one.role != "system")

    @property
    def page(self) -> str:
        """What stands last: of an agent in the browser, the page."""
        return render_message(self.request.messages[-1])

    @property
    def task(self) -> str:
        """What the agent was asked for."""
        found = re.search(r"<task>\n(.*?)\n</task>", self.told, re.DOTALL)
        return found[1] if found else ""

    @property
    def address(self) -> str:
        """Where the browser is."""
        return self.find(r"tab \d+ \(current\): (\S+)", self.page)

    @property
    def tools(self) -> frozenset[str]:
        """The names of what can be called."""
        return frozenset(one.name for one in self.request.tools)

    def results(self, tool: str) -> list[str]:
        """What the calls of a tool or agent gave, in order: the words, not what stands around them."""
        names = {one.id: one.name for message in self.request.messages for one in message.tool_calls}
        return [
            message.text
            for message in self.request.messages
            if message.role == "tool" and names.get(message.tool_call_id or "") == tool
        ]

    def find(self, pattern: str, text: str | None = None) -> str:
        """The first group of a pattern in what is shown, "" where it is not."""
        found = re.search(pattern, self.told if text is None else text, re.DOTALL)
        return found[1] if found else ""


class Mind(ScriptedModel):
    """Decides for every role of the team, from what that role is shown."""

    def __init__(self) -> None:
        super().__init__([], name="mind", profile=ModelProfile(model="mind", vision=True, audio=True))

    async def request(self, request: ModelRequest, *, media: Any = None, on_delta: Any = None) -> ModelResponse:
        """Look at the media of the request, then decide."""
        blocks = [one for message in request.messages for one in message.media]
        shown = Shown(request, tuple([(one, await media(one.sha256)) for one in blocks] if media is not None else ()))
        self._function = lambda _: self._reply(shown)
        return await super().request(request, media=media, on_delta=on_delta)

    def _reply(self, shown: Shown) -> ModelResponse:
        tools, said = shown.tools, shown.request.messages[0].text
        if "Verify a claim" in shown.task:
            return _decision(self.verify(shown))
        if "deep_analyzer" in tools:
            return _decision(_marked(shown, self.plan(shown)))
        if any(name.startswith("browser_") for name in tools):
            return _decision(self.browse(shown))
        if tools:
            return _decision(self.analyse(shown))
        if shown.media:
            return ModelResponse(text=self.look(shown))
        if "You check an answer" in shown.text:
            return ModelResponse(text=json.dumps(self.judge(shown)))
        if "go_on" in said:
            return ModelResponse(text=json.dumps({"go_on": False}))
        return ModelResponse(text=self.answer(shown))

    # -- what an example says ----------------------------------------------------------------------------------------

    def plan(self, shown: Shown) -> Calls:
        """The planner's next calls."""
        raise NotImplementedError

    def browse(self, shown: Shown) -> Calls:
        """What the browser use agent does next."""
        raise NotImplementedError

    def analyse(self, shown: Shown) -> Calls:
        """What the deep analyzer does next."""
        raise NotImplementedError

    def look(self, shown: Shown) -> str:
        """What is seen or heard in the media of a question."""
        raise NotImplementedError

    def answer(self, shown: Shown) -> str:
        """The reply to any other question; a form that is asked for is kept."""
        return "KEEP"

    def verify(self, shown: Shown) -> Calls:
        """Whether the quotes of a claim stand on their pages; they are read again, where there is a way to."""
        quotes = re.findall(r"- (http\S+?)(?:, [^:“]*)?: “(.*?)”", shown.told, re.DOTALL)
        read = "\n".join(shown.results("fetch"))
        for address, _ in quotes:
            if "fetch" in shown.tools and address not in read and len(shown.results("fetch")) < len(quotes):
                return call("fetch", url=address)
        stands = bool(quotes) and all(_plain(words) in _plain(read) for _, words in quotes)
        held = [(address, words) for address, words in quotes if _plain(words) in _plain(read)]
        verdict = "confirmed" if stands else "undecided"
        sources: list[JsonValue] = [{"source": address, "quote": words} for address, words in held]
        output: JsonValue = {"reason": f"{len(held)} of {len(quotes)} quotes stand there", "verdict": verdict}
        return call("done", answer=verdict, output=output, sources=sources)

    def judge(self, shown: Shown) -> dict[str, Any]:
        """Whether the figures of an answer stand in what the team found."""
        answer = shown.find(r"<answer>\n(.*?)\n</answer>", shown.text)
        found = shown.find(r"<found_by_the_team>\n(.*?)\n</found_by_the_team>", shown.text)
        missing = [one for one in re.findall(r"\d+", answer) if one not in re.findall(r"\d+", found)]
        reason = f"nobody found {', '.join(missing)}" if missing else "every figure was found"
        return {"reason": reason, "settle": "look it up" if missing else "", "supported": not missing}


def _decision(calls: Calls) -> ModelResponse:
    return decide(calls=[calls] if isinstance(calls, ToolCall) else calls)


def _marked(shown: Shown, calls: Calls) -> Calls:
    """The planner's calls, with its plan kept: a step is done for each agent that came back, all of them at the end."""
    plans = shown.results("todo")
    if not plans:
        return calls
    planned = len(re.findall(r"^\d+\. ", plans[0], re.MULTILINE))
    ends = isinstance(calls, ToolCall) and calls.name == "done"
    came_back = sum(message.role == "tool" for message in shown.request.messages) - len(plans)
    reached = planned if ends else min(came_back, planned)
    marks = [call("todo", action="complete", step_index=step) for step in range(len(plans) - 1, reached)]
    if ends:
        return marks or calls
    return [*marks, *([calls] if isinstance(calls, ToolCall) else calls)]


def _plain(text: str) -> str:
    return " ".join(text.replace("\\", "").split()).casefold()


def steps(shown: Shown, title: str, planned: Sequence[tuple[str, str]]) -> ToolCall | None:
    """The plan, while there is none; None afterwards.

    Args:
        shown: what the planner is shown.
        title: of the plan.
        planned: the steps and the agents they are for.
    """
    if shown.results("todo"):
        return None
    return call("todo", action="create", title=title, steps=[{"text": text, "agent": agent} for text, agent in planned])


def facts_of(*results: str) -> list[JsonValue]:
    """The sources that agents gave with their results: what the planner cites."""
    found: list[JsonValue] = []
    for result in results:
        value, _ = json.JSONDecoder().raw_decode(result[max(0, result.find("{")) :])
        found += value["sources"]
    return found


@dataclass(frozen=True)
class Example:
    """One example.

    Attributes:
        task: what the team is asked; `{host}` stands for the site.
        right: the answer.
        mind: makes the model that decides where no other is named.
        pages: of the site, by their paths; `{host}` stands for it.
        files: makes the files of the task in a folder, for a site.
        browser: whether the team works in the browser.
    """

    task: str
    right: str
    mind: Callable[[], Mind]
    pages: Mapping[str, str | bytes] = field(default_factory=dict)
    files: Callable[[Path, str], Sequence[Path]] | None = None
    browser: bool = False


async def solve(example: Example, folder: Path, model: str = "") -> tuple[RunResult, list[str]]:
    """Let the team work on an example.

    Args:
        example: see Example.
        folder: where its files and its workspace are made.
        model: a language model; "" for the example's own mind.

    Returns:
        The result, and the names of the agents that worked on it, in order.
    """
    pages: dict[str, str | bytes] = {}
    async with site(pages, [*example.pages]) as host:
        for path, text in example.pages.items():
            pages[path] = text.replace("{host}", host) if isinstance(text, str) else text
        files = [*example.files(folder, host)] if example.files else []
        # The task names the host: its pages may be read whatever an address there was made of.
        given = load_settings(folder / "workspace")
        settings = given.model_copy(
            update={
                "web": given.web.model_copy(update={"private": (host,)}),
                "policy": given.policy.model_copy(update={"allowed_hosts": ("127.0.0.1",)}),
            }
        )
        async with Workspace(folder / "workspace", settings=settings) as ws:
            task = example.task.replace("{host}", host)
            print(f"task:   {task}", *(f"        {one.name} ({one.stat().st_size:,} bytes)" for one in files), sep="\n")
            environments = ("browser",) if example.browser else ()
            result = await ws.run(task, files=files, model=model or example.mind(), environments=environments)
            return result, _printed(await ws.log.events(result.run_id))


def _printed(events: Sequence[Any]) -> list[str]:
    """Print the plan and who did what; the agents that worked, in order."""
    plan, lines, agents = "", [], []
    for event in events:
        effect = event.body.get("effect") or {}
        name, given = str(effect.get("component", "")).partition("@")[0], effect.get("arguments") or {}
        if effect.get("kind") not in ("InvokeAgent", "InvokeTool", "InvokeAction") or event.branch == "/":
            continue
        if name == "todo":
            plan = str((event.body.get("outcome") or {}).get("value") or plan)
            continue
        if effect["kind"] == "InvokeAgent":
            agents.append(name)
            given = {"task": given.get("instruction", "")}
        elif effect["kind"] == "InvokeAction":
            if given.get("action") == "state":
                continue
            name, given = f"{name}.{given.get('action')}", given.get("arguments") or {}
        said = " ".join(" ".join(str(value).split()) for value in given.values() if value)
        lines.append(f"{'  ' * event.branch.count('/')}{event.actor}: {name} {said}"[:110])
    print("plan:", *(f"  {line}" for line in plan.splitlines()), "steps:", *lines, sep="\n")
    return agents


def main(example: Example, about: str) -> int:
    """Run an example from the command line; 0 when the answer is right."""
    reading = argparse.ArgumentParser(description=about.splitlines()[0])
    reading.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="keeps the files and the workspace")
    reading.add_argument("--model", default="", metavar="NAME", help="a language model, such as openai:gpt-5")
    given = reading.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            result, agents = asyncio.run(solve(example, folder, given.model))
        except AgentOrchestraError as exc:
            print(f"error: {exc}", file=sys.stderr)
            return 1
    print(f"agents: {', '.join(dict.fromkeys(agents))}\nanswer: {result.answer_text}")
    for one in result.sources:
        print(f"        {one.source}{f', {one.place}' if one.place else ''}: {one.quote}")
    right = result.answer_text.strip().rstrip(".") == example.right
    print(f"run:    {result.run_id} ({result.status}, ${result.cost_usd or 0:.4f})")
    print(f"check:  {'right' if right else f'not right: it is {example.right}'}")
    return 0 if right else 1
