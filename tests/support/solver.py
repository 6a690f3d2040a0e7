"""A model for every system: what it does next is a function of the messages and tools that one request shows.

It knows no task, no system and no prompt. What a tool is good for, it takes from the tool's schema: one that ends the
work, hands work on, writes to others, runs a program, reads a page or a file. Work that can be handed on is handed on,
piece by piece where the question has pieces; else a program answers by the general rules of `rules.py`, which it is
sent whole, or the same rules are applied to pages and files that were read. What was not found is not answered.

It finds an error in what came back exactly when what it is shown also holds the condition that is broken. Then it has
that piece of work done again, and says the condition with it.
"""

from __future__ import annotations

import asyncio
import json
import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from pydantic import JsonValue

from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.testing import Body, LoopbackModelServer, call, decide
from tests.support import rules

RULES = Path(rules.__file__).read_text(encoding="utf-8")
MOST_PAGES = 6
FILE = r"\b\w+\.[a-z]\w{1,3}\b"
"""The name of a file."""

Sources = list[dict[str, JsonValue]]
Finish = Callable[[str, Sources], ToolCall]
"""Finishes with what was found, "" for nothing, and what it rests on."""


@dataclass(frozen=True)
class Tool:
    """A tool as its schema describes it."""

    name: str
    description: str
    properties: dict[str, Any]
    required: list[str]

    def text(self, *words: str) -> str:
        """The name of the first text parameter that one of the words is a part of, "" where there is none."""
        texts = [name for name, one in self.properties.items() if one.get("type") == "string" and "enum" not in one]
        return next((name for word in words for name in texts if word in name.split("_")), "")

    @property
    def ends(self) -> str:
        """The parameter for the last word, of a tool that ends the work."""
        found = self.text("answer", "reason", "result", "message")
        said = f"{self.name} {self.description}".lower()
        if found in self.required and re.search(r"\b(finish|ends?|complete|submit)", said):
            return found
        return "output" if "output" in self.required else ""

    @property
    def hands_on(self) -> str:
        """The parameter for the work, of a tool that hands work on: whoever gets it is told what is known, too."""
        return self.text("task", "instruction") if self.text("context") else ""

    @property
    def runs(self) -> str:
        """The parameter for the program, of a tool that runs one and waits for its end."""
        found = self.text("code", "command", "script")
        return found if self.required == [found] and "background" not in self.description else ""

    @property
    def lists(self) -> str:
        """The first required parameter that is a list, "" where there is none."""
        return next((name for name in self.required if self.properties[name].get("type") == "array"), "")

    @property
    def writes(self) -> str:
        """The parameter for the words, of a tool that writes to those who are listed."""
        return self.text("content") if self.lists else ""

    @property
    def reads_files(self) -> str:
        """The parameter for the name, of a tool that reads a file."""
        return self.text("name", "path") if self.description.lower().startswith("read a file") else ""

    @property
    def reads_pages(self) -> str:
        """The parameter for the address, of a tool that reads a page."""
        return self.text("url", "address") if self.description.lower().startswith("read") else ""


@dataclass(frozen=True)
class Shown:
    """What one request shows."""

    body: Body

    @cached_property
    def tools(self) -> list[Tool]:
        """The tools."""
        found = []
        for one in self.body.get("tools") or []:
            function = one["function"]
            schema = function.get("parameters") or {}
            given = schema.get("properties") or {}
            found.append(Tool(function["name"], function.get("description", ""), given, schema.get("required") or []))
        return found

    def said(self, role: str) -> list[str]:
        """The texts of the messages of a role."""
        return [_text(one) for one in self.body["messages"] if one["role"] == role]

    def does(self, word: str) -> list[Tool]:
        """The tools whose descriptions begin with a word."""
        return [one for one in self.tools if one.description.startswith(word)]

    @cached_property
    def told(self) -> str:
        """All that the user says."""
        return "\n\n".join(self.said("user"))

    @cached_property
    def question(self) -> str:
        """The part of what the user says that asks for something: the first one with a question in it."""
        parts = [part for text in (*self.said("user"), *self.said("system")) for part in _parts(text)]
        return next((one for one in parts if "?" in one), parts[0] if parts else "")

    @cached_property
    def results(self) -> list[tuple[str, dict[str, Any], str]]:
        """The calls that came back, in order: the tool, what it was given, what it gave."""
        made = {
            one["id"]: (one["function"]["name"], json.loads(one["function"]["arguments"] or "{}"))
            for message in self.body["messages"]
            for one in message.get("tool_calls") or []
        }
        return [
            (*made[one["tool_call_id"]], _text(one))
            for one in self.body["messages"]
            if one["role"] == "tool" and one.get("tool_call_id") in made
        ]

    def of(self, tools: list[Tool]) -> list[tuple[str, dict[str, Any], str]]:
        """What these tools gave."""
        names = {one.name for one in tools}
        return [one for one in self.results if one[0] in names]


def solve(body: Body) -> ModelResponse:
    """Reply to a request."""
    shown = Shown(body)
    ends = [one for one in shown.tools if one.ends]
    writers = [one for one in shown.tools if one.writes]
    if writers:
        return decide(calls=[_lead_by_mail(shown, writers[0], ends[0]) if ends else _answer_mail(shown, writers[0])])
    if not ends:
        return ModelResponse(text=_reply(shown))
    agents = [one for one in shown.tools if one.hands_on]
    return decide(calls=[_lead(shown, agents, ends[0]) if agents else _act(shown, partial(_end, shown, ends[0]))])


@contextmanager
def serving() -> Iterator[LoopbackModelServer]:
    """A server of this model on a thread of its own, for commands that run in the process of the tests."""
    ready: queue.Queue[tuple[LoopbackModelServer, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        ended = asyncio.Event()
        async with LoopbackModelServer(solve) as server:
            ready.put((server, asyncio.get_running_loop(), ended))
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    server, loop, ended = ready.get(timeout=60)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


# -- handing on --------------------------------------------------------------------------------------------------------


def _lead(shown: Shown, agents: list[Tool], end: Tool) -> ToolCall:
    """Hand the question on, to whoever fits it best and was not asked; take over what came back.

    Where there is only one tool that hands on, it makes whom it asks: it is used once more, with what came back.
    """
    came = shown.of(agents)
    for _, _, text in came:
        value = _object(text)
        found = str(value.get("answer") or value.get("result") or "")
        if found and str(value.get("status", "done")) in ("done", "completed"):
            return _end(shown, end, found, value.get("sources") or [])
    asked = [name for name, _, _ in came]
    times = 2 if len(agents) == 1 else 1
    left = [one for one in agents if asked.count(one.name) < times]
    left.sort(key=lambda one: -_fits(one.description, shown.question))
    if not left:
        return _end(shown, end)
    told = "\n".join(text for _, _, text in came)
    return call(left[0].name, **_filled_in(left[0], left[0].hands_on, shown.question, told))


def _fits(description: str, question: str) -> float:
    """How well a description names the kinds of things that a question has; work in a folder and sums first."""
    wants = [
        (2, r"\.py\b", r"\b(terminal|programs?|code|tests?)\b"),
        (2, r"\b(work out|add up)\b", r"\bprograms?\b"),
        (1, FILE, r"\b(files?|tables?)\b"),
        (1, r"https?://", r"\b(addresses|pages?)\b"),
        (1, r"\d", r"\b(computes?|calculat\w+|mathematics)\b"),
        (0.5, "", r"\bprograms?\b"),
    ]
    return sum(weight for weight, there, named in wants if re.search(there, question) and re.search(named, description))


def _filled_in(tool: Tool, main: str, text: str, known: str) -> dict[str, JsonValue]:
    """The arguments that a schema requires: the work, what is known, all that may be chosen from."""
    given: dict[str, JsonValue] = {}
    for name in tool.required:
        one = tool.properties[name]
        if one.get("type") == "array":
            given[name] = list(one.get("items", {}).get("enum", []))
        elif "enum" in one:
            given[name] = one["enum"][0]
        else:
            given[name] = text if name == main else known
    return given


# -- mail --------------------------------------------------------------------------------------------------------------

MAIL = re.compile(r"^(\w+) in thread '([^']*)':\n(.*?)(?:\n</content\b|\Z)", re.MULTILINE | re.DOTALL)


def _lead_by_mail(shown: Shown, writer: Tool, end: Tool) -> ToolCall:
    """Write a piece of work to whoever fits it best and was not asked; go on with what came back.

    A reply that breaks a condition of the question is not gone on with: the piece of work is written once more, and
    the condition with it.
    """
    listing, opener, waiter = (shown.does(word)[0] for word in ("List", "Open", "Wait"))
    listed, came = shown.of([listing]), shown.of([writer])
    if not listed:
        return call(listing.name)
    last, _, text = shown.results[-1]
    if last == writer.name or "still at work" in text:
        return call(waiter.name)
    pieces, known, wrong, tried = rules.pieces(shown.question), "", "", list[str]()
    replies = [words for _, _, one in shown.of([waiter]) for _, _, words in MAIL.findall(one)]
    for (_, given, _), reply in zip(came, replies, strict=False):
        found = "\n".join(re.findall(r"^found: (.*)$", reply, re.MULTILINE))
        broken = rules.broken(shown.question, found)
        if found and not broken:
            pieces, known, wrong, tried = pieces[1:], found, "", []
        elif found and not wrong:
            wrong = broken
        else:
            tried += given[writer.lists]
    if not pieces:
        return _end(shown, end, known)
    agents = re.findall(r"^- (\w+): (.*)$", listed[0][2], re.MULTILINE)
    left = [(_fits(said, pieces[0]), name) for name, said in agents if name not in tried and _fits(said, pieces[0])]
    if not left:
        return _end(shown, end)
    _, name = max(left, key=lambda one: one[0])
    if not any(name in given[opener.lists] for _, given, _ in shown.of([opener])):
        return call(opener.name, **{opener.text("thread"): name, opener.lists: [name]})
    words = "\n\n".join(one for one in (f"{pieces[0]} {wrong}".strip(), known) if one)
    return call(writer.name, **{writer.text("thread"): name, writer.writes: words, writer.lists: [name]})


def _answer_mail(shown: Shown, writer: Tool) -> ToolCall:
    """Do the work of the last message, write back what came of it, and wait for the next one."""
    messages = shown.body["messages"]
    place = max(n for n, one in enumerate(messages) if one["role"] == "user" and MAIL.search(_text(one)))
    sender, thread, words = MAIL.findall(_text(messages[place]))[-1]
    now = Shown({**shown.body, "messages": [{"role": "user", "content": words}, *messages[place + 1 :]]})
    if now.of([writer]):
        return call(shown.does("Wait")[0].name)

    def write(found: str, _: Sources) -> ToolCall:
        words = "\n".join(f"found: {one}" for one in found.splitlines()) or "It was not found."
        return call(writer.name, **{writer.text("thread"): thread, writer.writes: words, writer.lists: [sender]})

    return _act(now, write)


# -- acting ------------------------------------------------------------------------------------------------------------


def _act(shown: Shown, finish: Finish) -> ToolCall:
    """Read what is to be read, run a program, then finish."""
    readers = [one for one in shown.tools if one.reads_pages]
    addresses = re.findall(r"https?://[^\s<>\"')]+[^\s<>\"').,?]", shown.question)
    if readers and addresses:
        return _browse(shown, readers[0], addresses, finish)
    question = " ".join(dict.fromkeys([shown.question, rules.broken(shown.told, shown.told)])).strip()
    tables = "\n\n".join(one for one in _parts(shown.told) if one.startswith("|"))
    runners = [one for one in shown.tools if one.runs]
    runners.sort(key=lambda one: (one.runs == "code") == bool(re.search(r"\.py\b", shown.question)))
    files = [one for one in shown.tools if one.reads_files]
    if files and not runners:
        return _read(shown, files[0], question, tables, finish)
    came = shown.of(runners)
    for name, _, text in came:
        found = re.findall(r"^found: (.*)$", text, re.MULTILINE)
        if found:
            return finish("\n".join(found), [{"source": name, "quote": f"found: {found[0]}"}])
    left = [one for one in runners if one.name not in [name for name, _, _ in came]]
    if not left:
        return finish("", [])
    program = f"{RULES}\n\nwork({question!r}, {tables!r})\n"
    if left[0].runs != "code":
        program = f"python3 - <<'THE_END'\n{program}THE_END\n"
    return call(left[0].name, **{left[0].runs: program})


def _read(shown: Shown, reader: Tool, question: str, tables: str, finish: Finish) -> ToolCall:
    """Read the files that the question names, and answer from them."""
    texts = {str(given.get(reader.reads_files)): text for _, given, text in shown.of([reader])}
    for one in re.findall(FILE, question):
        if one not in texts:
            return call(reader.name, **{reader.reads_files: one})
    return _finish(finish, rules.solved(question, {name: _file(text) for name, text in texts.items()}, tables))


def _browse(shown: Shown, reader: Tool, addresses: list[str], finish: Finish) -> ToolCall:
    """Read the pages that are named, then those behind links with names of the question, until they answer it."""
    pages = {str(given.get(reader.reads_pages)): text for _, given, text in shown.of([reader])}
    for one in addresses:
        if one not in pages:
            return call(reader.name, **{reader.reads_pages: one})
    question = re.sub(r"https?://\S+", "", shown.question)
    found = rules.answer(question, {address: _page(text) for address, text in pages.items()})
    if found is not None:
        return _finish(finish, found)
    words = set(re.findall(r"\b[A-Z]\w+", question))
    links = [
        (len(words & set(title.split())), urljoin(base, target))
        for base, text in pages.items()
        for title, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", text)
    ]
    likely = max((one for one in links if one[1] not in pages), default=(0, ""))
    if likely[0] and len(pages) < MOST_PAGES:
        return call(reader.name, **{reader.reads_pages: likely[1]})
    return _finish(finish, None)


def _finish(finish: Finish, found: rules.Found | None) -> ToolCall:
    """Finish with what the rules found in texts."""
    answer, sources = found or ("", [])
    return finish(answer, [{"source": name, "quote": words} for name, words in sources])


def _file(text: str) -> str:
    """The text of a file, without the tags around it and the numbers and letters of its lines and columns."""
    return re.sub(r"^(?:</?content\b.*\n?|row,.*\n|\s*\d+[\t,])", "", text, flags=re.MULTILINE)


def _page(text: str) -> str:
    """The text of a page, without the numbers before its lines."""
    return re.sub(r"^\s*\d+\t", "", text, flags=re.MULTILINE)


def _end(shown: Shown, end: Tool, found: str = "", sources: Sources | None = None) -> ToolCall:
    """Finish with what was found, or say that it was not."""
    given: dict[str, JsonValue] = {}
    if "output" in end.required:
        told = any(found in one for one in shown.said("user"))
        given["output"] = _fill(end.properties["output"], found, holds=bool(found) and told)
    if end.ends != "output":
        given[end.ends] = found or "It was not found."
    states = end.properties.get("status", {}).get("enum", [])
    if not found and "blocked" in states:
        given["status"] = "blocked"
    elif "status" in end.required and states:
        given["status"] = states[0]
    if sources and "sources" in end.properties:
        given["sources"] = [*sources]
    return call(end.name, **given)


# -- replies in words --------------------------------------------------------------------------------------------------


def _reply(shown: Shown) -> str:
    """Fill the form that is asked for; where there is none, repeat the shortest part of what is shown.

    What is claimed holds if something else that is shown says the same: a part recurs in another one.
    """
    parts = [part for one in shown.said("user") for part in _parts(one) if "?" not in part]
    again = [one for one in parts if any(one in other and one != other for other in parts)]
    # Of several pieces of work the last one gives the answer.
    several = len(rules.pieces(shown.question)) > 1
    found = parts[-1] if parts and several else min(again or parts, key=len, default="")
    form = (shown.body.get("response_format") or {}).get("json_schema", {}).get("schema")
    return found if form is None else json.dumps(_fill(_chosen(form, shown), found, holds=bool(again)))


def _chosen(form: dict[str, Any], shown: Shown) -> dict[str, Any]:
    """The form with what the question says of it: a list of tasks is its pieces, each with the condition that was
    broken before; a name is that of the one whose description fits."""
    properties = dict(form.get("properties", {}))
    described = dict(re.findall(r"^- (\w+): (.*)$", "\n".join(shown.said("system")), re.MULTILINE))
    for name, one in properties.items():
        named = [each for each in one.get("enum") or [] if each in described]
        if one.get("type") == "array" and name.endswith("tasks"):
            wrong = rules.broken(shown.question, shown.told)
            properties[name] = {"const": [f"{each} {wrong}".strip() for each in rules.pieces(shown.question)]}
        elif named:
            properties[name] = {"const": max(named, key=lambda each: _fits(described[each], shown.question))}
    return {**form, "properties": properties}


def _fill(form: dict[str, Any], found: str, *, holds: bool, name: str = "") -> Any:
    """A value of a schema: yes and the first of several choices where what is claimed holds."""
    if "const" in form:
        return form["const"]
    if "anyOf" in form:
        return _fill(form["anyOf"][0], found, holds=holds, name=name)
    if "enum" in form:
        return form["enum"][0 if holds else -1]
    if form.get("type") == "object":
        return {one: _fill(each, found, holds=holds, name=one) for one, each in form.get("properties", {}).items()}
    if form.get("type") == "boolean":
        return holds != (name in ("go_on", "continue", "retry"))
    if form.get("type") in ("integer", "number"):
        return 0
    if form.get("type") == "array":
        texts = form.get("items", {}).get("type") == "string" and found
        return [found] * max(1, form.get("minItems", 0)) if texts else []
    return found if name in ("answer", "result") else ""


def _text(message: dict[str, Any]) -> str:
    """The text of a message."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(one.get("text", "") for one in content)


def _parts(text: str) -> Iterator[str]:
    """The parts of a text, between blank lines, headings and lines that are a tag."""
    for part in re.split(r"\n\s*\n|^\s*</?\w[^>]*>\s*$|^#+ .*$", text, flags=re.MULTILINE):
        if part.strip():
            yield part.strip()


def _object(text: str) -> dict[str, Any]:
    """The JSON object in a text, {} where there is none."""
    start = text.find("{")
    try:
        value = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else {}
    except ValueError:
        value = {}
    return value if isinstance(value, dict) else {}
