"""A researcher on the local site: pages of its own for each test, and a model that knows only what its prompt shows."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentorchestra.agents.research.agent import deep_researcher
from agentorchestra.core.clock import Clock
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, ResearchSettings, Settings
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.prices import FREE
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.site import Site
from tests.site.pages import Page
from tests.tools.search.support import KEYS, settings

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


TASK = "In which town was the last keeper of the lighthouse of Skerrow born?"


def _made(count: int) -> list[str]:
    """Names that no model can know: others in each run."""
    parts = ["bel", "dro", "fin", "gau", "hal", "kem", "lor", "mir", "nas", "pol", "rud", "sev", "tam", "vig", "wex"]
    found: set[str] = set()
    while len(found) < count:
        found.add("".join(CHANCE.sample(parts, 3)).capitalize())
    return sorted(found, key=lambda _: CHANCE.random())


FIRST, LAST, TOWN, OTHER, EVIL = _made(5)
KEEPER = f"{FIRST} {LAST}"


def page(title: str, *paragraphs: str, **more: Any) -> Page:
    """A page as Markdown, which is read at once."""
    return Page(title, "\n\n".join([f"# {title}", *paragraphs]) + "\n", media_type="text/markdown", **more)


TOWER = page("The lighthouse", f"The tower of Skerrow is automatic. Its last keeper was {KEEPER}, who left in 2019.")
PERSON = page(KEEPER, f"{KEEPER} reads aloud in the library on Sundays. Born in {TOWN} in 1961.")
NOISE = page("Keepers of bees", "Twelve keepers of bees live at the lighthouse road. None of them is known here.")
ISLAND = {"/places/lighthouse": TOWER, f"/people/{LAST.lower()}": PERSON, "/bees": NOISE}
"""Nothing but the keeper's name leads from the first page to the second."""

Answering = Callable[[str, str], Any]


def section(text: str, name: str) -> str:
    """What stands in a part of a prompt."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", text, re.DOTALL)
    return found[1] if found else ""


def planned(system: str, material: str) -> Any:
    """Words of the task that are no small ones."""
    words = re.findall(r"\b(?:keeper|lighthouse|Skerrow|oysters|mill)\b", section(system, "task"))
    return {"questions": ["Who was the last keeper?"], "queries": [{"query": " ".join(dict.fromkeys(words))}]}


def looked_at(system: str, material: str) -> Any:
    """Nothing is wrong with the drafts."""
    drafts = re.findall(r"- draft (\d+): ([^(\n]*[^(\n ])", section(system, "drafts"))
    return {"queries": [{"draft": int(number), "query": query, "problems": []} for number, query in drafts]}


def lines_with(*wanted: str) -> Answering:
    """Takes the lines that hold one of these out of a page; of one that gives orders it says so."""

    def taken(system: str, material: str) -> Any:
        found = []
        for number, text in re.findall(
            r"\[(\d+)\] (.*?)(?=\n</content |\n\[\w{8}[:\]]|\n\[\d+\] |$)", material, re.DOTALL
        ):
            for line in re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).splitlines():  # without addresses
                if any(one in line for one in wanted):
                    relevance = 0.9 if "orn in" in line else 0.6
                    found.append({"fact": line, "quote": line, "piece": int(number), "relevance": relevance})
        return {"insights": found, "read_on": "", "orders": "IGNORE" in material}

    return taken


taken = lines_with("last keeper was", "Born in", "born in")
BORN = re.compile(r"\[(E\d+)\][^\n]*?orn in (?:\d+ in )?([A-Z]\w+)")


def judged(system: str, material: str) -> Any:
    """Complete when a birthplace is among the findings; else the name among them is searched for."""
    towns = BORN.findall(material)
    names = re.findall(r"last keeper was ([A-Z]\w+ [A-Z]\w+)", material)
    conflicts = []
    if len({town for _, town in towns}) > 1:
        conflicts = [{"about": "where she was born", "marks": [mark for mark, _ in towns], "believe": ""}]
    further = [] if towns else [{"query": f"{name} born", "follows": 1} for name in dict.fromkeys(names)]
    missing = [] if towns else ["the town"]
    return {"complete": bool(towns), "missing": missing, "conflicts": conflicts, "follow_ups": further}


def written(system: str, material: str) -> Any:
    """The towns of the findings with their marks."""
    towns = BORN.findall(material)
    lines = [f"She was born in {town} [{mark}]." for mark, town in towns]
    return {"answer": " or ".join(dict.fromkeys(town for _, town in towns)), "report": "\n\n".join(lines) or "Nothing."}


def marked(system: str, material: str) -> Any:
    """Knows no finding behind a paragraph."""
    return {"paragraphs": []}


ASKED: dict[str, Answering] = {
    "You prepare a web search": planned,
    "You improve search queries": looked_at,
    "You read one page": taken,
    "You judge for a researcher": judged,
    "You write the report of a researcher": written,
    "Some paragraphs of your report": marked,
}
NAMES = dict(zip(("planned", "looked_at", "taken", "judged", "written", "marked"), ASKED, strict=True))
NO_MORE = "There will be no further search"
"""A phrase of the last check."""


def model(
    *,
    tool: str = "deep_researcher",
    sees: bool | None = None,
    concurrency: int | None = None,
    lead: Callable[[ModelRequest], ModelResponse] | None = None,
    **changed: Any,
) -> ScriptedModel:
    """The model; `changed` gives other functions, those with three arguments get the whole request.

    Args:
        lead: answers for whoever has the researcher as a tool.
    """
    functions = {**ASKED, **{NAMES[name]: function for name, function in changed.items()}}

    def answer(request: ModelRequest) -> ModelResponse:
        system = request.messages[0].text
        offered = {one.name for one in request.tools}
        results = [message.text for message in request.messages if message.role == "tool"]
        if tool in offered and lead is not None:
            return lead(request)
        if tool in offered:  # whoever has the researcher as a tool
            if not results:
                return decide(calls=[call(tool, task=TASK)])
            return decide(calls=[call("done", answer=TOWN if TOWN in results[-1] else "unknown")])
        if offered:  # whoever is asked to verify what it found
            if not results:
                address = re.findall(r"https?://[^\s,)\]]+", request.messages[1].text)[0]
                return decide(calls=[call("fetch", url=address)])
            verdict = "confirmed" if f"Born in {TOWN}" in results[-1] else "contradicted"
            return decide(calls=[call("done", answer="", output={"reason": "it stands there", "verdict": verdict})])
        if "You judge for an analyst" in system:
            return say('{"go_on": false}')
        if "<found_by_the_team>" in system:
            return say(json.dumps({"supported": TOWN in section(system, "found_by_the_team"), "problem": "no town"}))
        material = request.messages[-1].text
        name = next(start for start in functions if start in system)
        # The task stands in the user's message, before the material.
        seen = f"{system}\n{material}"
        reply = _said(functions[name], seen, material, request)
        if name == NAMES["judged"] and isinstance(reply, dict):
            searching = reply.get("calculations") or (reply.get("follow_ups") and NO_MORE not in system)
            reply = reply if searching else {**reply, **_said(functions[NAMES["written"]], seen, material, request)}
        return say(json.dumps(reply))

    profile = ModelProfile(model="scripted", tools=True, price=FREE, vision=sees, concurrency=concurrency)
    return ScriptedModel(answer, profile=profile)


def _said(function: Any, seen: str, material: str, request: ModelRequest) -> Any:
    """Call a function, which may want the whole request too."""
    return function(seen, material, request) if function.__code__.co_argcount == 3 else function(seen, material)


def chosen(site: Site, *engines: str, engine: dict[str, dict[str, Any]] | None = None, **more: Any) -> Settings:
    """Settings with engines at the site, which may be read; `engine` says more of single ones."""
    given = settings(site, *(engines or ("serper",)), engine=engine)
    web = {"private": [site.address.removeprefix("http://")]}
    return Settings.model_validate({**given.model_dump(exclude_unset=True), "web": web, **more})


def world(
    site: Site,
    scripted: ScriptedModel,
    *engines: str,
    more: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    **research: Any,
) -> dict[str, Any]:
    """What a workspace is made of in which the researcher has these limits; see `researched`."""
    names = {"reflect": "reflect", "variants": "expand"}
    parts = {part: research.pop(name) for name, part in names.items() if name in research}
    further = {**(more or {}), **({"parts": parts} if parts else {})}
    given: dict[str, Any] = {"settings": chosen(site, *engines, **further), "environ": KEYS}
    given |= {"agents": [deep_researcher(ResearchSettings(**research))], "models": {"scripted": scripted}}
    return given | ({"clock": clock} if clock is not None else {})


async def researched(
    site: Site,
    folder: Path,
    scripted: ScriptedModel,
    *engines: str,
    more: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    **research: Any,
) -> Any:
    """The result of a run of the researcher alone, which a replay gives again without asking anybody.

    Args:
        site: where the engines and the pages are.
        folder: of the workspace.
        scripted: the model.
        engines: that are asked; `serper` by default.
        more: further settings.
        run: further arguments of the run.
        clock: in place of the machine's.
        research: the limits.
    """
    given = world(site, scripted, *engines, more=more, clock=clock, **research)
    async with Workspace(folder / "ws", **given) as ws:
        result = await ws.run(TASK, system="deep_researcher", model="scripted", **(run or {}))
        before = len(site.requests), len(scripted.requests)
        again = await ws.replay(result.run_id)
        assert again.answer == result.answer_text
        assert (len(site.requests), len(scripted.requests)) == before
    return result


async def performed(folder: Path, run: str, name: str) -> list[dict[str, Any]]:
    """The arguments of the effects of a run with this name, in order."""
    async with Workspace(folder / "ws", environ={}) as ws:
        records = Ledger.of(await ws.store.load(run)).records.values()
    found = [one.effect for one in records if str(one.effect.get("component", "")).partition("@")[0] == name]
    return [one["arguments"].get("arguments", one["arguments"]) for one in found]


def searched(site: Site, engine: str = "serper") -> list[str]:
    """The queries that the engine was asked."""
    return [json.loads(one.body)["q"] for one in site.asked(f"/engines/{engine}/search")]


def paths(result: Any, site: Site) -> set[str]:
    """The paths of the cited pages."""
    return {one.source.removeprefix(site.address) for one in result.sources}
