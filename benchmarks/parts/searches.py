"""Pages that a seed draws, an engine and an archive: small tasks on which one way to search decides each.

The servers are real ones on the loopback address. The model answers right exactly when a number stands in its request.
Where it acts, it searches what it is told to search for, then reads one address after the other that it was given.
Where it fills a form, it writes the same words in the one other way that it knows. It knows no part and no heading.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.parts.task import Found, Task
from tests.agents.researching import chosen, page
from tests.site import Site, served
from tests.site.pages import PAGES, VERSIONS
from tests.tools.search.support import KEYS

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

ORDER = re.compile(r'[Ss]earch for "([^"]+)"')
DAY = re.compile(r"as of (\d{4}-\d{2}-\d{2})")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/[^\s\"'<>,)\]\\]*")
OTHER_WORDS = {"beacon": "lighthouse"}
NOT_KNOWN = "I do not know."
TASK = 'What does the bell weigh? Search for "beacon bell".'


@dataclass
class Seeker:
    """The model.

    Attributes:
        fact: the number.
        says: what it writes into a form, by the name of a property, in place of its own words.
        shown: what it was shown, request by request.
        forms: the same for requests with a form.
    """

    fact: str
    says: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)

    def model(self) -> ScriptedModel:
        """The model."""
        return ScriptedModel(self.reply)

    def reply(self, request: ModelRequest) -> ModelResponse:
        """Fill the form, where there is one, else act."""
        text = "\n".join(render_message(message) for message in request.messages)
        self.shown.append(text)
        words = next(iter(ORDER.findall(text)), "")
        if request.settings.output_schema is not None:
            self.forms.append(text)
            return ModelResponse(text=json.dumps(self.filled(request.settings.output_schema, words)))
        names = [one.name for one in request.tools]
        end = next(one for one in names if one in ("done", "complete"))
        calls = [one for message in request.messages for one in message.tool_calls]
        if self.fact in text:
            return decide(calls=[call(end, answer=self.fact)])
        if "delegate_task" in names and not calls:
            task = f'Search for "{words}".'
            return decide(calls=[call("delegate_task", task_instruction=task, tools=["search", "fetch"])])
        if "search" in names and words and "search" not in [one.name for one in calls]:
            day = DAY.search(text)
            return decide(calls=[call("search", query=words, **({"until": day[1]} if day else {}))])
        given = [one.text for one in request.messages if one.role == "tool"]
        read = {str(dict(one.arguments).get("url")) for one in calls if isinstance(one.arguments, dict)}
        left = [one for one in dict.fromkeys(ADDRESS.findall("\n".join(given))) if one not in read]
        if left and "fetch" in names:
            return decide(calls=[call("fetch", url=left[0])])
        return decide(calls=[call(end, answer=NOT_KNOWN)])

    def filled(self, form: dict[str, Any], words: str) -> Any:
        """A value of a schema: the words in another way."""
        if form.get("type") == "object":
            return {
                name: self.says[name] if name in self.says else self.filled(one, words)
                for name, one in form["properties"].items()
            }
        if form.get("type") == "array":
            return [self.filled(form["items"], words)]
        if form.get("type") in ("integer", "number"):
            return 1
        if form.get("type") == "boolean":
            return True
        return " ".join(OTHER_WORDS.get(one, one) for one in words.split())


@asynccontextmanager
async def emptied() -> AsyncIterator[Site]:
    """A site with no pages but those of a task."""
    pages, versions = dict(PAGES), dict(VERSIONS)
    PAGES.clear()
    VERSIONS.clear()
    try:
        async with served() as running:
            yield running
    finally:
        PAGES.clear()
        VERSIONS.clear()
        PAGES.update(pages)
        VERSIONS.update(versions)


def drawn(seed: int) -> str:
    """A number that a seed draws, which stands on one page; another page has the words of the task."""
    fact = str(random.Random(seed).randrange(10_000, 40_000))
    PAGES["/tower"] = page("The lighthouse", f"The heaviest thing of the lighthouse weighs {fact} kg.")
    PAGES["/hope"] = page("Beacon of hope", "A song of the islands.")
    return fact


async def run(
    folder: Path, site: Site, seeker: Seeker, parts: dict[str, Any], *engines: str, **options: Any
) -> tuple[Any, list[str]]:
    """A run's result, which a replay gives again, and what its calls of `search` gave, as texts."""
    settings = chosen(site, *(engines or ("google",)), parts=parts)
    given = {"task": TASK, "system": "react", **options}
    async with Workspace(folder, settings=settings, models={"scripted": seeker.model()}, environ=KEYS) as ws:
        result = await ws.run(given.pop("task"), model="scripted", on_ask="deny", **given)
        asked = len(seeker.shown), len(site.requests)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        assert (len(seeker.shown), len(site.requests)) == asked
    return result, queries(site)


def queries(site: Site) -> list[str]:
    """What the engine was asked."""
    return [one.query["q"] for one in site.asked("/engines/google/")]


@dataclass(frozen=True)
class Seeking:
    """A question on the web, for `react`.

    Attributes:
        past: it is about a page as it once was, which stands in the archive alone.
    """

    past: bool = False

    async def __call__(self, parts: PartSettings, seeds: range, folder: Path) -> list[Found]:
        """Do it, on a site and in a workspace for each seed."""
        return [await self.done(parts, seed, folder / str(seed)) for seed in seeds]

    async def done(self, parts: PartSettings, seed: int, folder: Path, *engines: str) -> Found:
        """Do it with these engines, by default one."""
        async with emptied() as site:
            fact, task = drawn(seed), TASK
            if self.past:
                PAGES["/tower"] = page("The lighthouse", "The beacon of the lighthouse has no bell.")
                VERSIONS["/tower"] = (("20170302080000", f"<p>The bell of the lighthouse weighs {fact} kg.</p>"),)
                task = f"As it was as of 2018-01-31: {TASK}"
            seeker = Seeker(fact)
            result, _ = await run(folder, site, seeker, parts.model_dump(exclude_none=True), *engines, task=task)
        return Found(result.answer == fact, any(fact in one for one in seeker.shown), len(seeker.shown))


@dataclass(frozen=True)
class Archive(Task):
    """The archive among the engines, which is a setting of `[search]`."""

    async def done(self, seeds: range, folder: Path) -> tuple[list[Found], list[Found]]:
        """Do it without the archive and with it."""
        past, found = Seeking(past=True), []
        for n, engines in enumerate((("google",), ("google", "archive"))):
            places = ((seed, folder / str(n) / str(seed)) for seed in seeds)
            found.append([await past.done(PartSettings(), seed, place, *engines) for seed, place in places])
        plain, having = found
        return plain, having


TASKS = (
    # No page with the fact has the words of the task.
    Task("reflect on the query", {"reflect": True}, Seeking(), {"reflect": False}),
    # The query itself is searched as the agent wrote it.
    Task("expand the query", {"expand": 1}, Seeking(), {"expand": 0}),
    # What stood on a page once stands there no more.
    Archive("archive", {"engines": ["google", "archive"]}, Seeking(past=True), {"engines": ["google"]}),
)
