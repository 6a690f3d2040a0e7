"""`search` and `archived_page`: what agents are given.

`search` chooses engines, asks them at the same time, each as an effect of its own, and makes one list of what they
found. The engines are tools behind it that nobody is offered: the door logs, judges, bounds and pays each of them, and
a replay asks none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Annotated, Any

from pydantic import Field, JsonValue, TypeAdapter

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.tool import EffectName, Tool, tool, tool_from_schema
from agentorchestra.tea.calling.tool import Traits as ToolTraits
from agentorchestra.tea.programs.namespaces import without_namespace
from agentorchestra.tea.transformations.base import Carried
from agentorchestra.tools.web.denied import DeniedPages
from agentorchestra.tools.web.page_cache import KeptResults
from agentorchestra.tools.web.search.archive import Archive
from agentorchestra.tools.web.search.local import Local
from agentorchestra.tools.web.search.merge import between, first, merged
from agentorchestra.tools.web.search.selection import by_model, by_rules, language_of, named
from agentorchestra.tools.web.search.types import MOST_RESULTS, EngineError, Query, SearchEngine, SearchResult, query_of
from agentorchestra.trust.arguments import INSIDE
from agentorchestra.trust.received import OWN_SEARCH

LEFT_ALONE = 60.0  # seconds for which an engine that hung is not asked again
SEARCH = "search"
CHOICE = "choose_search_engines"  # the effect behind it, by which the packaged tool is known
RESULTS = 8  # where nobody says another number
COPIES = 3  # results for which a copy of the wanted day is looked for in the archive
_SHOWN = 12_000  # characters of the snippets of one answer together
_RESULTS: TypeAdapter[list[SearchResult]] = TypeAdapter(list[SearchResult])

# What goes to the one engine a tool was made for chooses no host, whatever it says.
_Sought = Annotated[str, Field(json_schema_extra={"format": INSIDE})]


@dataclass(frozen=True)
class Engines:
    """The engines of a workspace, ready or not: a run that was started with a key goes on where there is none."""

    all: tuple[SearchEngine, ...]  # in the order of the settings
    lacking: Mapping[str, str]  # those that cannot be asked, and what each lacks
    choice: str = "rules"  # who chooses among them: `rules` or `model`
    most: int = 5  # that are asked for one question
    timeout_s: float = 10.0  # of those that say nothing themselves
    denied: DeniedPages = field(default_factory=lambda: DeniedPages(()))  # that no result leads to
    kept: KeptResults = field(default_factory=KeptResults)  # of earlier searches in the workspace

    @property
    def ready(self) -> tuple[SearchEngine, ...]:
        return tuple(one for one in self.all if one.name not in self.lacking)

    @property
    def by_name(self) -> dict[str, SearchEngine]:
        return {one.name: one for one in self.ready}


def search_tools(engines: Engines) -> tuple[Tool[..., Any], ...]:
    """Return `search`, and `archived_page` where the archive may be asked; nothing without engines."""
    if not engines.all:
        return ()
    asking = {one.name: _engine_tool(one, engines.timeout_s, engines.kept) for one in engines.all}
    archive = next((one for one in engines.all if isinstance(one, Archive)), None)
    copies = _archive_tool(archive, engines.timeout_s) if archive is not None else None
    choosing = _choice_tool(engines)
    found = _search_tool(asking, choosing, copies, engines.denied)
    behind = (*asking.values(), choosing)
    found.backed_by(Carried(tools=behind), uses=[one.name for one in (*behind, *([copies] if copies else []))])
    return (found, *([copies] if copies else []))


def _search_tool(
    asking: Mapping[str, Tool[..., Any]], choosing: Tool[..., Any], copies: Tool[..., Any] | None, denied: DeniedPages
) -> Tool[..., Any]:
    async def search(
        ctx: RunContext[Any],
        query: str,
        limit: int = RESULTS,
        since: str | None = None,
        until: str | None = None,
        language: str | None = None,
        region: str | None = None,
        site: str | None = None,
        engines: list[str] | None = None,
    ) -> ToolResult:
        """Search.

        Args:
            query: A few words.
            limit: Results at most, 1 to 50.
            since: Published on this day or later: "2024-01-31", "2024-01", "2024".
            until: Published, or as archived, on this day or earlier.
            language: Two letters, e.g. "en".
            region: Two letters of a country, e.g. "de".
            site: Only this host, e.g. "docs.python.org".
            engines: Only these, e.g. ["wikipedia"].
        """
        given = {"since": since, "until": until, "language": language, "region": region, "site": site}
        wanted = query_of(query, limit=limit, now=ctx.now, **given)
        asked: dict[str, JsonValue] = {name: value for name, value in given.items() if value}
        return await _Searching(ctx, wanted, {"query": query, **asked}, asking, copies, denied).run(choosing, engines)

    return tool(
        effect="composite",
        cut=False,
        # The same wherever the run goes on, whatever can be asked there: it stands in the requests of models.
        description=("Search the web, encyclopedias and archives: the best results with their addresses and dates."),
    )(search)


@dataclass
class _Searching:
    ctx: Any
    wanted: Query
    asked: dict[str, JsonValue]
    asking: Mapping[str, Tool[..., Any]]
    copies: Tool[..., Any] | None
    denied: DeniedPages

    async def run(self, choosing: Tool[..., Any], engines: Sequence[str] | None) -> ToolResult:
        chosen = await self._chosen(choosing, engines)
        limit: dict[str, JsonValue] = {"limit": min(MOST_RESULTS, max(10, self.wanted.limit))}
        outcomes = await self._all([(self.asking[name], {**self.asked, **limit}) for name in chosen])
        lists: dict[str, list[SearchResult]] = {}
        failed: dict[str, str] = {}
        for name, outcome in zip(chosen, outcomes, strict=True):
            if outcome.ok:
                # An engine's outcome keeps them: what is denied is that somebody sees them.
                listed = _RESULTS.validate_python(outcome.value)
                lists[name] = [one for one in listed if not self.denied.holds(one.address)]
            else:
                failed[name] = _why(outcome)
        if not lists:
            said = "; ".join(f"{name} {why}" for name, why in failed.items())
            raise ToolError(f"No search engine gave results: {said}")
        results, outside, undated = between(merged(lists), self.wanted.since, self.wanted.until)
        results = await self._with_copies(first(results, self.wanted.limit))
        return ToolResult(content=_shown(results, chosen, lists, failed, outside, undated))

    async def _chosen(self, choosing: Tool[..., Any], engines: Sequence[str] | None) -> dict[str, str]:
        """Decide which engines are asked: an effect, so that the log has it and a fork can change it."""
        asked: dict[str, JsonValue] = {**self.asked}
        if engines:
            asked["engines"] = [*engines]
        (outcome,) = await self._all([(choosing, asked)])
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or "no search engine was chosen")
        chosen = {name: str(why) for name, why in outcome.value.items() if name in self.asking}
        if not chosen:
            raise ToolError("No search engine fits this search; name engines to be asked.")
        return chosen

    async def _with_copies(self, results: list[SearchResult]) -> list[SearchResult]:
        """Give the first results their copies of the wanted day, where that is in the past."""
        until = self.wanted.until
        if self.copies is None or until is None or self.wanted.now is None or until >= self.wanted.now.date():
            return results
        places = [
            at for at, one in enumerate(results) if one.address.startswith(("http://", "https://")) and not one.archived
        ][:COPIES]
        day = until.isoformat()
        outcomes = await self._all([(self.copies, {"address": results[at].address, "date": day}) for at in places])
        for at, outcome in zip(places, outcomes, strict=True):
            if outcome.ok and isinstance(outcome.value, dict):
                found = SearchResult.model_validate(outcome.value)
                copy = {"archived": found.address, "archived_date": found.date}
                results[at] = results[at].model_copy(update=copy)
        return results

    async def _all(self, calls: Sequence[tuple[Tool[..., Any], dict[str, JsonValue]]]) -> list[Outcome]:
        if not calls:
            return []
        # Beside an agent's work: one that the budget has no room for is a failure among others, not the run's end.
        effects = [
            effect_for(one, arguments, role=self.ctx.role, provenance=self.ctx.provenance).model_copy(
                update={"purpose": "tool"}
            )
            for one, arguments in calls
        ]
        outcomes: list[Outcome] = await self.ctx.perform_all(effects)
        return outcomes


def _why(outcome: Outcome) -> str:
    if outcome.status == "limited":
        return f"costs more than is left: {outcome.error}"
    return outcome.error or f"ended as {outcome.status}"


def _shown(
    results: Sequence[SearchResult],
    chosen: Mapping[str, str],
    lists: Mapping[str, Sequence[SearchResult]],
    failed: Mapping[str, str],
    outside: int,
    undated: int,
) -> dict[str, JsonValue]:
    room = max(120, _SHOWN // max(1, len(results)))
    listed: list[JsonValue] = []
    for one in results:
        row = one.model_dump(mode="json", exclude_none=True)
        row["snippet"] = one.snippet if len(one.snippet) <= room else f"{one.snippet[: room - 1]}…"
        row["sources"] = {source.engine: source.rank for source in one.sources}
        listed.append(row)
    notes: list[JsonValue] = []
    if not results:
        notes.append("Nothing was found.")
    if outside:
        notes.append(f"{outside} results outside of the days that were asked for are left out.")
    if undated:
        notes.append(f"Of {undated} results it is not known when they were published.")
    asked: dict[str, JsonValue] = {
        name: f"{len(lists[name])} results; {why}" if name in lists else f"failed; {why}"
        for name, why in chosen.items()
    }
    shown: dict[str, JsonValue] = {"results": listed, "engines": asked}
    if failed:
        shown["failed"] = dict(failed)
    if notes:
        shown["notes"] = notes
    return shown


_TEXT: dict[str, JsonValue] = {"type": ["string", "null"], "format": INSIDE}
_ASKED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "format": INSIDE},
        "limit": {"type": "integer"},
        **dict.fromkeys(("since", "until", "language", "region", "site"), _TEXT),
    },
    "required": ["query"],
    "additionalProperties": False,
}


def _engine_tool(engine: SearchEngine, timeout_s: float, kept: KeptResults) -> Tool[..., Any]:
    """Return an engine as a tool: with its own limit of time, cost and tags."""
    traits = engine.traits
    seconds = traits.timeout_s or timeout_s
    silent_until = 0.0

    async def ask(ctx: RunContext[Any], query: str, limit: int = 10, **more: Any) -> ToolResult:
        nonlocal silent_until
        if problem := engine.missing():
            raise EngineError(problem)
        asked = {"query": query, "limit": limit, **more}
        if traits.network:  # what is on this machine changes with the run
            known = await asyncio.to_thread(kept.get, engine.name, asked)
            if known is not None:
                return ToolResult(content=known, cost_usd=0.0)
        if (left := silent_until - time.monotonic()) > 0:
            raise EngineError(f"did not answer lately; it is asked again in {left:.0f} s", wait_s=left)
        wanted = query_of(query, limit=limit, now=ctx.now, **more)
        try:
            async with asyncio.timeout(seconds):
                found = _listed(await engine.search(replace(wanted, language=language_of(wanted)), ctx))
        except TimeoutError:
            silent_until = time.monotonic() + LEFT_ALONE
            raise EngineError(f"did not answer in {seconds:g} s", wait_s=LEFT_ALONE) from None
        found = found[:MOST_RESULTS]
        results = [one.model_dump(mode="json", exclude_none=True) for one in found]
        if traits.network:
            await asyncio.to_thread(kept.put, engine.name, asked, results)
        links = tuple((str(at), "address") for at, one in enumerate(found) if one.mirrored)
        return ToolResult(content=results, links=links)

    name = f"{OWN_SEARCH}{engine.name}"  # nobody is offered it: a name that no tool of a user will have
    about = f"Search with {engine.name}: {traits.about or 'an engine of this workspace'}."
    effect: tuple[EffectName, ...] = ("read", "network") if traits.network else ("read",)
    # One schema for all of them: reading the signature again for each would take a workspace's opening twice as long.
    return tool_from_schema(
        ask,
        ToolSchema(name=name, description=about, parameters=_ASKED),
        effect="composite" if traits.composite else effect,
        takes_context=True,
        source=f"{without_namespace(type(engine).__module__)}.{type(engine).__qualname__}",
        # Its own limit comes first: it says which engine it was, and leaves that one alone.
        traits=ToolTraits(timeout_s=2 * seconds, max_cost_usd=traits.cost_usd, cut=False),
        trust=Trust.SYSTEM,
    )


def _listed(found: Any) -> list[SearchResult]:
    """Return what an engine gave, which may be anybody's code."""
    if not isinstance(found, list) or not all(isinstance(one, SearchResult) for one in found):
        raise EngineError(f"gave {type(found).__name__} in place of a list of SearchResult")
    return found


def _choice_tool(engines: Engines) -> Tool[..., Any]:
    ready, lacking = engines.by_name, engines.lacking
    folders = any(isinstance(one, Local) and one.has_folders for one in engines.all)
    choice, most, everything = engines.choice, engines.most, engines.all

    @tool(effect="pure", cut=False)
    def ready_search_engines() -> dict[str, str]:
        """The search engines that can be asked, and what each is."""
        return {name: one.traits.about for name, one in ready.items()}

    known = ready_search_engines

    async def choose_search_engines(
        ctx: RunContext[Any],
        query: str,
        since: str | None = None,
        until: str | None = None,
        language: str | None = None,
        region: str | None = None,
        site: str | None = None,
        engines: list[str] | None = None,
    ) -> dict[str, str]:
        """Choose the search engines for a question; each with the reason."""
        if engines:
            return named(engines, ready, lacking)
        wanted = query_of(query, since=since, until=until, language=language, region=region, site=site, now=ctx.now)
        wanted = replace(wanted, language=language_of(wanted))
        files = folders or bool(ctx.manifest.files)
        there: Any = {name: one.traits.about for name, one in ready.items()}
        if choice == "model":
            # As recorded: a replay elsewhere, where other keys are set, asks the model the same.
            there = (await ctx.call_tool(known.name)).result()
        usable = [one for one in everything if one.name in there and (files or "local" not in one.traits.strengths)]
        chosen = by_rules(wanted, usable, files=files, most=most)
        if choice == "model":
            about = {one.name: str(there[one.name]) for one in usable}
            try:
                return await by_model(wanted, about, ctx, today=ctx.now.date(), most=most)
            except ToolError as error:
                return {name: f"{why} (by rules: {error})" for name, why in chosen.items()}
        return chosen

    if choice == "model":
        made = tool(effect="composite", cut=False)(choose_search_engines)
        return made.backed_by(Carried(tools=(known,)), uses=[known.name])
    return tool(effect="pure", cut=False)(choose_search_engines)


def _archive_tool(archive: Archive, timeout_s: float) -> Tool[..., Any]:
    async def archived_page(ctx: RunContext[Any], address: _Sought, date: _Sought) -> ToolResult:
        """Find an archive's copy of a page as it was on a day; `fetch` reads it.

        Args:
            address: Of the page.
            date: The day, e.g. "2015-06-30".
        """
        return _copy(*await archive.copy_of(address, date))

    return tool(effect=("read", "network"), timeout_s=archive.traits.timeout_s or timeout_s)(archived_page)


def _copy(found: SearchResult | None, day: date) -> ToolResult:
    if found is None:
        # Not the address: what stands in a result counts as received.
        raise ToolError("The archive has no copy of this page.")
    shown = found.model_dump(mode="json", exclude_none=True)
    if found.date and found.date > day.isoformat():
        shown["snippet"] = f"There is no copy of {day} or before: this one is from {found.date}."
    return ToolResult(content=shown)
