"""A museum that does not exist, with a question about it in the shape of 002, app. C.1, and models that work on it.

The question names objects that are not the right ones. The right ones can be seen in a reading room only, which shows
a few sheets to one visitor and then nothing more: whoever does not know what earlier visitors saw never sees the rest.
A note of the curator may change the count. The models are functions of their prompts and know nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.testing import ScriptedModel, call, say
from tests.support.web import serving
from tests.systems.planning import results, shown

AT_ONCE = 3
"""Sheets that the reading room shows to one visitor."""

ANIMALS = ("heron", "otter", "badger", "weasel", "lizard", "magpie", "marten", "beetle", "donkey", "turtle")
THINGS = ("lantern", "trumpet", "ladder", "sickle")
OTHERS = ("kettle", "basket", "bucket")


@dataclass
class Museum:
    """What is there to be found.

    Attributes:
        chance: what draws it.
        address: of its site.
        asked: the paths that were asked for, in order.
    """

    chance: random.Random
    address: str = ""
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = self.chance
        self.year, self.wrong = chance.randint(1960, 2020), chance.randint(300, 800)
        self.patron, *self.figures = chance.sample(ANIMALS, AT_ONCE + 3)
        self.thing, self.other = chance.choice(THINGS), chance.choice(OTHERS)
        stem = f"{chance.randint(10, 99)}.{chance.randint(100, 999)}"
        self.numbers = {one: f"{stem}{letter}" for one, letter in zip(self.figures, "abcdefgh", strict=False)}
        self.hidden = chance.choice(self.figures[:AT_ONCE])
        self.mistaken = chance.choice([*(one for one in self.figures if one != self.hidden), "", "", ""])

    @property
    def guesses(self) -> tuple[str, str]:
        """The addresses of two objects that have nothing to do with the question."""
        return f"{self.address}/objects/{self.wrong}", f"{self.address}/objects/{self.wrong + 1}"

    @property
    def question(self) -> str:
        """The question of somebody who remembers wrongly."""
        return (
            f"The catalogue at {self.address}/shows lists the shows of a museum. In {self.year} there was one that is "
            f"named after an animal, with a set of figures. How many figures of the set hold a {self.thing} that one "
            f"can see? I think they are {' and '.join(self.guesses)}. Answer with the number alone."
        )

    @property
    def answer(self) -> str:
        """The right one."""
        return str(len([one for one in self.figures if one not in (self.hidden, self.mistaken)]))

    def sheet(self, figure: str) -> str:
        """What the sheet of a figure says."""
        how = "hides its {} under a long coat" if figure == self.hidden else "holds its {} before its chest"
        return f"The {figure} ({self.numbers[figure]}) {how.format(self.thing)}."

    def page(self, path: str, ticket: int) -> str | None:
        """The text of a page; None for one that is never shown."""
        show = f"year-of-the-{self.patron}"
        if path.startswith("/objects/"):
            return f"Object {path.rpartition('/')[2]} is a drawing of a bridge. It was never part of a show."
        if path == "/shows":
            shows = {self.year - 1: "bridges", self.year: show, self.year + 1: "maps"}
            return "\n".join(f"- {year}: {self.address}/shows/{name}" for year, name in shows.items())
        if path == f"/shows/{show}":
            names = ", ".join(f"{one} ({self.numbers[one]})" for one in self.figures)
            return (
                f"The set has these figures: {names}.\nThe sheets are in the reading room, {self.address}/room.\n"
                f"The curator has written a note on the set, {self.address}/note."
            )
        if path == "/room":
            return "\n".join(f"- {one}: {self.address}/room/{ticket}/{one}" for one in self.figures)
        if path == "/note":
            if not self.mistaken:
                return f"The figures of the set that hold something hold a {self.thing}."
            number = self.numbers[self.mistaken]
            return f"The {self.mistaken} ({number}) has a {self.other} in its hand and no {self.thing}."
        room, _, figure = path.rpartition("/")
        shown_before = [one for one in self.asked[:-1] if one.startswith(f"{room}/")]
        return self.sheet(figure) if len(shown_before) < AT_ONCE else None


@asynccontextmanager
async def opened(seed: int) -> AsyncIterator[Museum]:
    """A museum, until the block ends."""
    museum, tickets, closing = Museum(random.Random(seed)), itertools.count(1), asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        museum.asked.append(request.path)
        text = museum.page(request.path, next(tickets))
        if text is None:
            await closing.wait()
        return web.Response(text=f"{text}\n", content_type="text/markdown")

    async with serving(handle) as museum.address:
        try:
            yield museum
        finally:
            closing.set()


# -- the models --------------------------------------------------------------------------------------------------------

ADDRESS = re.compile(r"http://[\w.:]+/[\w/-]*\w")
LISTED = re.compile(r"- (\w+): (http://\S+)")
STATED = re.compile(r"\b(?:Object|The) [^;:\n]*?(?:: [^;:\n]*?|http://\S*?)?\.(?=\s|$|\")")
"""A sentence of a page, wherever it stands."""
SEEN = re.compile(r"The (\w+) \([\d.]+\w\) (holds|hides) its [^.\n]*\.")
"""What a sheet says."""


def orchestrator(request: ModelRequest) -> ModelResponse:
    """Decides from the question and what came back."""
    question, known = task_of(request), "\n".join(results(request))
    shows, *guesses = ADDRESS.findall(question)
    if not known:
        return delegated(request, f"Read {' and '.join(guesses)}, and say what these objects are.")
    year, thing = (found(pattern, question) for pattern in (r"In (\d+)", r"hold an? (\w+)"))
    listed = re.search(r"these figures: ([^:\n]*?\))\.", known)
    if listed is None:
        return delegated(
            request,
            f"Do not use {' and '.join(guesses)}, because each is {found(r'is (a [a-z ]+)', known)}. Start at {shows}, "
            f"follow the show of {year}, and say what its page says of the figures of the set.",
        )
    room, note = (next(one for one in ADDRESS.findall(known) if one.endswith(end)) for end in ("/room", "/note"))
    figures, seen = re.findall(r"(\w+) \(", listed[1]), seen_in(known)
    if missing := [one for one in figures if one not in seen]:
        if "word for word" in results(request)[-1]:
            return decided(call("complete", answer=f"not seen: {', '.join(missing)}", status="partial"))
        again = "An earlier visitor was cut off: go on with the figures not looked at then. " if seen else ""
        return delegated(
            request,
            f"{again}Visit {room}, look at the sheet of each figure, and say if it holds a {thing} for all to see.",
            f"The figures of the set: {listed[1]}.",
            *seen.values(),
        )
    plain = [one for one in figures if " holds " in seen[one]]
    if note not in "".join(instructed(request)[-1:]):
        return delegated(
            request,
            f"Verify that {len(plain)} figures of the set hold a {thing} for all to see: read {note}.",
            *seen.values(),
        )
    mistaken = re.findall(rf"The (\w+) \([\d.]+\w\) has an? \w+ in its hand and no {thing}", results(request)[-1])
    return decided(call("complete", answer=str(len([one for one in plain if one not in mistaken]))))


def delegated(request: ModelRequest, instruction: str, *facts: str) -> ModelResponse:
    """Delegates; facts go where the schema has a place for what a sub-agent needs to know."""
    schema = next(one for one in request.tools if one.name == "delegate_task")
    place: Mapping[str, str] = {"context": "\n".join(facts)} if "context" in schema.parameters["properties"] else {}
    return decided(call("delegate_task", task_instruction=instruction, tools=["fetch"], **place))


def visitor(request: ModelRequest) -> ModelResponse:
    """Reads what it is told to read and what that lists; says what the pages say."""
    task, pages = task_of(request), "\n".join(results(request))
    told = "\n".join(one.text for one in request.messages if one.role == "user")
    known, asked = seen_in(f"{told}\n{pages}"), "".join(instructed(request))
    year = re.search(r"the show of (\d+)", task)
    wanted = ADDRESS.findall(re.sub(r"Do not use [^,]*,", "", task))
    for name, address in LISTED.findall(pages):
        wanted += [address] if (name == year[1] if year else name not in known) else []
    further = [one for one in wanted if f'"{one}"' not in asked]
    last = "<last_step>" in told
    if further and not last:
        return decided(call("fetch", url=further[0]))
    said = dict.fromkeys([*known.values(), *STATED.findall(pages)])
    return decided(call("done", answer="\n".join(said), status="partial" if last else "completed"))


def reviewer(request: ModelRequest) -> ModelResponse:
    """Takes the sentences of pages out of a log."""
    points = [*dict.fromkeys(STATED.findall(request.messages[-1].text.rpartition("The log follows.")[2]))]
    issues = ["It was cut off."] if "timed_out" in shown(request) else []
    return say(json.dumps({"points": points, "issues": issues}))


def decided(one: ToolCall) -> ModelResponse:
    """A call without a word beside it: nothing but the log has what a page said."""
    return ModelResponse(tool_calls=(one,))


def models() -> dict[str, ScriptedModel]:
    """One for each role, by the role's name."""
    made = {"main": orchestrator, "child": visitor, "reviewer": reviewer}
    return {role: ScriptedModel(function, name=f"{role}_model") for role, function in made.items()}


def task_of(request: ModelRequest) -> str:
    """What whoever is asked is to do."""
    return found(r"<task>\n((?:.|\n)*?)\n</task>", shown(request))


def instructed(request: ModelRequest) -> list[str]:
    """The arguments of the calls that were made so far."""
    return [json.dumps(one.arguments) for message in request.messages for one in message.tool_calls]


def seen_in(text: str) -> dict[str, str]:
    """What sheets say, by figure."""
    return {one[1]: one[0] for one in SEEN.finditer(text)}


def found(pattern: str, text: str) -> str:
    """The first group of a pattern, which must be there."""
    match = re.search(pattern, text)
    assert match is not None, (pattern, text)
    return match[1]
