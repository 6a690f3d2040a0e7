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
from agentorchestra.tea.calling.tool import EffectName, Tool, ToolTraits, tool, tool_from_schema
from agentorchestra.tea.programs.namespaces import without_namespace
from agentorchestra.tea.transformations.base import Carried
from agentorchestra.tools.web.denied import DeniedPages
from agentorchestra.tools.web.page_cache import KeptResults
from agentorchestra.tools.web.search.archive import Archive
from agentorchestra.tools.web.search.local import Local
from agentorchestra.tools.web.search.merge import between, first, merge
from agentorchestra.tools.web.search.selection import by_call, by_model, by_rules, language_of
from agentorchestra.tools.web.search.types import MOST_RESULTS, EngineError, Query, SearchEngine, SearchResult, query_of
from agentorchestra.trust.arguments import INSIDE
from agentorchestra.trust.received import OWN_SEARCH

LEFT_ALONE = 60.0  # seconds for which an engine that hung is not asked again
SEARCH = "search"
CHOICE = "choose_search_engines"  # the effect behind it, by which the packaged tool is known
RESULTS = 8  # where nobody says another number
COPIES = 3  # results for which a copy of the wanted day is looked for in the archive
_SNIPPET_CHARS = 12_000  # characters of the snippets of one answer together
_RESULTS: TypeAdapter[list[SearchResult]] = TypeAdapter(list[SearchResult])

# What goes to the one engine a tool was made for chooses no host, whatever it says.
_QueryText = Annotated[str, Field(json_schema_extra={"format": INSIDE})]


@dataclass(frozen=True)
class Engines:
    """The engines of a workspace, ready or not: a run that was started with a key goes on where there is none."""

    all: tuple[SearchEngine, ...]  # in the order of the settings
    lacking: Mapping[str, str]  # those that cannot be asked, and what each lacks
    choice: str = "rules"  # who chooses among them: `rules` or `model`
    most: int = 5  # that are asked for one question
    timeout_s: float = 10.0  # of those that say nothing themselves
    denylist: DeniedPages = field(default_factory=lambda: DeniedPages(()))  # that no result leads to
    cache: KeptResults = field(default_factory=KeptResults)  # of earlier searches in the workspace

    @property
    def ready(self) -> tuple[SearchEngine, ...]:
        return tuple(engine for engine in self.all if engine.name not in self.lacking)

    @property
    def by_name(self) -> dict[str, SearchEngine]:
        return {engine.name: engine for engine in self.ready}


def search_tools(engines: Engines) -> tuple[Tool[..., Any], ...]:
    """Return `search`, and `archived_page` where the archive may be asked; nothing without engines."""
    if not engines.all:
        return ()
    asking = {engine.name: _engine_tool(engine, engines.timeout_s, engines.cache) for engine in engines.all}
    archive = next((engine for engine in engines.all if isinstance(engine, Archive)), None)
    copies = _archive_tool(archive, engines.timeout_s) if archive is not None else None
    choosing = _choice_tool(engines)
    search = _search_tool(asking, choosing, copies, engines.denylist)
    behind = (*asking.values(), choosing)
    search.backed_by(Carried(tools=behind), uses=[entry.name for entry in (*behind, *([copies] if copies else []))])
    return (search, *([copies] if copies else []))


def _search_tool(
    asking: Mapping[str, Tool[..., Any]], choosing: Tool[..., Any], copies: Tool[..., Any] | None, denylist: DeniedPages
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
        options = {"since": since, "until": until, "language": language, "region": region, "site": site}
        request = query_of(query, limit=limit, now=ctx.now, **options)
        arguments: dict[str, JsonValue] = {name: value for name, value in options.items() if value}
        searching = _Searching(ctx, request, {"query": query, **arguments}, asking, copies, denylist)
        return await searching.run(choosing, engines)

    return tool(
        effect="composite",
        cut=False,
        # The same wherever the run goes on, whatever can be asked there: it stands in the requests of models.
        description=("Search the web, encyclopedias and archives: the best results with their addresses and dates."),
    )(search)


@dataclass
class _Searching:
    ctx: Any
    query: Query
    arguments: dict[str, JsonValue]
    asking: Mapping[str, Tool[..., Any]]
    copies: Tool[..., Any] | None
    denylist: DeniedPages

    async def run(self, choosing: Tool[..., Any], engines: Sequence[str] | None) -> ToolResult:
        reasons = await self._choose(choosing, engines)
        limit: dict[str, JsonValue] = {"limit": min(MOST_RESULTS, max(10, self.query.limit))}
        outcomes = await self._all([(self.asking[name], {**self.arguments, **limit}) for name in reasons])
        lists: dict[str, list[SearchResult]] = {}
        failed: dict[str, str] = {}
        for name, outcome in zip(reasons, outcomes, strict=True):
            if outcome.ok:
                # An engine's outcome keeps them: what is denied is that somebody sees them.
                hits = _RESULTS.validate_python(outcome.value)
                lists[name] = [result for result in hits if not self.denylist.holds(result.address)]
            else:
                failed[name] = _reason(outcome)
        if not lists:
            failures = "; ".join(f"{name} {reason}" for name, reason in failed.items())
            raise ToolError(f"No search engine gave results: {failures}")
        results, outside, dateless = between(merge(lists), self.query.since, self.query.until)
        results = await self._with_copies(first(results, self.query.limit))
        return ToolResult(content=_answer(results, reasons, lists, failed, outside, dateless))

    async def _choose(self, choosing: Tool[..., Any], engines: Sequence[str] | None) -> dict[str, str]:
        """Decide which engines are asked: an effect, so that the log has it and a fork can change it."""
        arguments: dict[str, JsonValue] = {**self.arguments}
        if engines:
            arguments["engines"] = [*engines]
        (outcome,) = await self._all([(choosing, arguments)])
        if not outcome.ok or not isinstance(outcome.value, dict):
            raise ToolError(outcome.error or "no search engine was chosen")
        reasons = {name: str(reason) for name, reason in outcome.value.items() if name in self.asking}
        if not reasons:
            raise ToolError("No search engine fits this search; name engines to be asked.")
        return reasons

    async def _with_copies(self, results: list[SearchResult]) -> list[SearchResult]:
        """Give the first results their copies of the wanted day, where that is in the past."""
        until = self.query.until
        if self.copies is None or until is None or self.query.now is None or until >= self.query.now.date():
            return results
        places = [
            at for at, hit in enumerate(results) if hit.address.startswith(("http://", "https://")) and not hit.archived
        ][:COPIES]
        day = until.isoformat()
        outcomes = await self._all([(self.copies, {"address": results[at].address, "date": day}) for at in places])
        for at, outcome in zip(places, outcomes, strict=True):
            if outcome.ok and isinstance(outcome.value, dict):
                snapshot = SearchResult.model_validate(outcome.value)
                copy = {"archived": snapshot.address, "archived_date": snapshot.date}
                results[at] = results[at].model_copy(update=copy)
        return results

    async def _all(self, calls: Sequence[tuple[Tool[..., Any], dict[str, JsonValue]]]) -> list[Outcome]:
        if not calls:
            return []
        # Beside an agent's work: one that the budget has no room for is a failure among others, not the run's end.
        effects = [
            effect_for(callee, arguments, role=self.ctx.role, provenance=self.ctx.provenance).model_copy(
                update={"purpose": "tool"}
            )
            for callee, arguments in calls
        ]
        outcomes: list[Outcome] = await self.ctx.perform_all(effects)
        return outcomes


def _reason(outcome: Outcome) -> str:
    if outcome.status == "limited":
        return f"costs more than is left: {outcome.error}"
    return outcome.error or f"ended as {outcome.status}"


def _answer(
    results: Sequence[SearchResult],
    reasons: Mapping[str, str],
    lists: Mapping[str, Sequence[SearchResult]],
    failed: Mapping[str, str],
    outside: int,
    dateless: int,
) -> dict[str, JsonValue]:
    room = max(120, _SNIPPET_CHARS // max(1, len(results)))
    rows: list[JsonValue] = []
    for result in results:
        row = result.model_dump(mode="json", exclude_none=True)
        row["snippet"] = result.snippet if len(result.snippet) <= room else f"{result.snippet[: room - 1]}…"
        row["sources"] = {source.engine: source.rank for source in result.sources}
        rows.append(row)
    notes: list[JsonValue] = []
    if not results:
        notes.append("Nothing was found.")
    if outside:
        notes.append(f"{outside} results outside of the days that were asked for are left out.")
    if dateless:
        notes.append(f"Of {dateless} results it is not known when they were published.")
    engines: dict[str, JsonValue] = {
        name: f"{len(lists[name])} results; {reason}" if name in lists else f"failed; {reason}"
        for name, reason in reasons.items()
    }
    answer: dict[str, JsonValue] = {"results": rows, "engines": engines}
    if failed:
        answer["failed"] = dict(failed)
    if notes:
        answer["notes"] = notes
    return answer


_TEXT: dict[str, JsonValue] = {"type": ["string", "null"], "format": INSIDE}
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "format": INSIDE},
        "limit": {"type": "integer"},
        **dict.fromkeys(("since", "until", "language", "region", "site"), _TEXT),
    },
    "required": ["query"],
    "additionalProperties": False,
}


def _engine_tool(engine: SearchEngine, timeout_s: float, cache: KeptResults) -> Tool[..., Any]:
    """Return an engine as a tool: with its own limit of time, cost and tags."""
    traits = engine.traits
    seconds = traits.timeout_s or timeout_s
    silent_until = 0.0

    async def ask(ctx: RunContext[Any], query: str, limit: int = 10, **more: Any) -> ToolResult:
        nonlocal silent_until
        if problem := engine.missing():
            raise EngineError(problem)
        arguments = {"query": query, "limit": limit, **more}
        if traits.network:  # what is on this machine changes with the run
            cached = await asyncio.to_thread(cache.get, engine.name, arguments)
            if cached is not None:
                return ToolResult(content=cached, cost_usd=0.0)
        if (left := silent_until - time.monotonic()) > 0:
            raise EngineError(f"did not answer lately; it is asked again in {left:.0f} s", wait_s=left)
        request = query_of(query, limit=limit, now=ctx.now, **more)
        try:
            async with asyncio.timeout(seconds):
                hits = _check_results(await engine.search(replace(request, language=language_of(request)), ctx))
        except TimeoutError:
            silent_until = time.monotonic() + LEFT_ALONE
            raise EngineError(f"did not answer in {seconds:g} s", wait_s=LEFT_ALONE) from None
        hits = hits[:MOST_RESULTS]
        results = [hit.model_dump(mode="json", exclude_none=True) for hit in hits]
        if traits.network:
            await asyncio.to_thread(cache.put, engine.name, arguments, results)
        links = tuple((str(at), "address") for at, hit in enumerate(hits) if hit.mirrored)
        return ToolResult(content=results, links=links)

    name = f"{OWN_SEARCH}{engine.name}"  # nobody is offered it: a name that no tool of a user will have
    about = f"Search with {engine.name}: {traits.about or 'an engine of this workspace'}."
    effect: tuple[EffectName, ...] = ("read", "network") if traits.network else ("read",)
    # One schema for all of them: reading the signature again for each would take a workspace's opening twice as long.
    return tool_from_schema(
        ask,
        ToolSchema(name=name, description=about, parameters=_PARAMETERS),
        effect="composite" if traits.composite else effect,
        takes_context=True,
        source=f"{without_namespace(type(engine).__module__)}.{type(engine).__qualname__}",
        # Its own limit comes first: it says which engine it was, and leaves that one alone.
        traits=ToolTraits(timeout_s=2 * seconds, max_cost_usd=traits.cost_usd, cut=False),
        trust=Trust.SYSTEM,
    )


def _check_results(results: Any) -> list[SearchResult]:
    """Return what an engine gave, which may be anybody's code."""
    if not isinstance(results, list) or not all(isinstance(result, SearchResult) for result in results):
        raise EngineError(f"gave {type(results).__name__} in place of a list of SearchResult")
    return results


def _choice_tool(engines: Engines) -> Tool[..., Any]:
    ready, lacking = engines.by_name, engines.lacking
    folders = any(isinstance(engine, Local) and engine.has_folders for engine in engines.all)
    choice, most, pool = engines.choice, engines.most, engines.all

    @tool(effect="pure", cut=False)
    def ready_search_engines() -> dict[str, str]:
        """The search engines that can be asked, and what each is."""
        return {name: engine.traits.about for name, engine in ready.items()}

    ready_tool = ready_search_engines

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
            return by_call(engines, ready, lacking)
        request = query_of(query, since=since, until=until, language=language, region=region, site=site, now=ctx.now)
        request = replace(request, language=language_of(request))
        files = folders or bool(ctx.manifest.files)
        about: Any = {name: engine.traits.about for name, engine in ready.items()}
        if choice == "model":
            # As recorded: a replay elsewhere, where other keys are set, asks the model the same.
            about = (await ctx.call_tool(ready_tool.name)).result()
        fits = [engine for engine in pool if engine.name in about and (files or "local" not in engine.traits.strengths)]
        reasons = by_rules(request, fits, files=files, most=most)
        if choice == "model":
            texts = {engine.name: str(about[engine.name]) for engine in fits}
            try:
                return await by_model(request, texts, ctx, today=ctx.now.date(), most=most)
            except ToolError as error:
                return {name: f"{reason} (by rules: {error})" for name, reason in reasons.items()}
        return reasons

    if choice == "model":
        chooser = tool(effect="composite", cut=False)(choose_search_engines)
        return chooser.backed_by(Carried(tools=(ready_tool,)), uses=[ready_tool.name])
    return tool(effect="pure", cut=False)(choose_search_engines)


def _archive_tool(archive: Archive, timeout_s: float) -> Tool[..., Any]:
    async def archived_page(ctx: RunContext[Any], address: _QueryText, date: _QueryText) -> ToolResult:
        """Find an archive's copy of a page as it was on a day; `fetch` reads it.

        Args:
            address: Of the page.
            date: The day, e.g. "2015-06-30".
        """
        return _copy(*await archive.copy_of(address, date))

    return tool(effect=("read", "network"), timeout_s=archive.traits.timeout_s or timeout_s)(archived_page)


def _copy(snapshot: SearchResult | None, day: date) -> ToolResult:
    if snapshot is None:
        # Not the address: what stands in a result counts as received.
        raise ToolError("The archive has no copy of this page.")
    answer = snapshot.model_dump(mode="json", exclude_none=True)
    if snapshot.date and snapshot.date > day.isoformat():
        answer["snippet"] = f"There is no copy of {day} or before: this one is from {snapshot.date}."
    return ToolResult(content=answer)
