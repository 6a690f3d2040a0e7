"""Search: a query is looked at again, then searched in other words too (004, sec. 3.1.2, app. 8.1, 9.2).

    the agent's query ─> reflect: problems, suggestion, better query ─> expand: variants ─> `search`, all at the same
    time ─> one list

It stands before the run's tool `search`, under its name: the agent has one tool for searching, whatever is done with
its query. How queries are bettered is the deep researcher's way too (`queries.py`, the prompt `research_queries`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.forms import Inquiry, Questioner, call_tools
from agentorchestra.agents.search.queries import BETTER, NO_RESULTS, Hits, Queries, ResearchQuery, query_from
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.state import PRIVATE
from agentorchestra.tea.calling.tool import Tool, tool_from_schema
from agentorchestra.tools.web.search.merge import page_key
from agentorchestra.tools.web.search.tool import CHOICE, RESULTS, SEARCH
from agentorchestra.tools.web.search.types import query_of

_OWN_CHOICE = "parts of search"  # where a system's own choice stands, which its sub-agents have too

_QUERIES = f"{PRIVATE}searched "
"""How the places begin at which an agent's queries stand, one for each search: several may be under way at once."""

_MOST_ASKED = 20


def keep_search(ctx: BranchContext[Any], parts: PartSettings) -> None:
    """Let the whole run search as its top agent does, where its system has a way of its own."""
    settings = ctx.manifest.parts
    if (parts.reflect, parts.expand) != (settings.reflect, settings.expand):
        ctx.vars[_OWN_CHOICE] = {"reflect": parts.reflect, "expand": parts.expand}


def search_parts(ctx: BranchContext[Any]) -> PartSettings:
    """Return how the agents of a run search: its settings, with its system's own way where they say nothing."""
    choice = ctx.vars.get(_OWN_CHOICE)
    return ctx.manifest.parts if choice is None else PartSettings.model_validate(choice)


def searching(tools: Sequence[Tool[..., Any]], spec: AgentSpec, ctx: BranchContext[Any]) -> list[Tool[..., Any]]:
    """Return an agent's tools, with the parts before the packaged `search` where they are wanted."""
    parts = search_parts(ctx)
    if not parts.reflect and not parts.expand:
        return [*tools]
    return [
        _Searching(tool, spec, parts).tool if tool.name == SEARCH and CHOICE in tool.uses else tool for tool in tools
    ]


@dataclass(frozen=True)
class _Searching:
    behind: Tool[..., Any]
    spec: AgentSpec
    parts: PartSettings

    @property
    def tool(self) -> Tool[..., Any]:
        """Return it: for the model the same tool."""
        return tool_from_schema(
            self.search,
            self.behind.schema,
            effect="composite",
            takes_context=True,
            source=f"agentorchestra.agents.parts.search {self.parts.reflect} {self.parts.expand}",
            traits=self.behind.traits,
            trust=Trust.SYSTEM,
        )

    async def search(self, ctx: BranchContext[Any], **arguments: Any) -> JsonValue:
        """Better the query, search its variants, make one list; ToolError for no query, or where nothing is given."""
        filters = {name: value for name, value in arguments.items() if name not in ("query", "engines")}
        query = query_of(arguments["query"], now=ctx.now, **filters)  # refuses what is none before anybody is asked
        draft = replace(query_from(arguments), query=query.text)
        queries, notes = await self._queries(ctx, draft)
        # What the draft says of days and language the better query says anew.
        rest = {name: value for name, value in arguments.items() if name not in draft.arguments}
        outcomes = await call_tools(ctx, [(SEARCH, {**rest, **variant.arguments}) for variant in queries])
        row_lists = [_rows(outcome) for outcome in outcomes]
        rows = zip(queries, outcomes, row_lists, strict=True)
        ctx.vars[f"{_QUERIES}{ctx.key}"] = [
            {"query": variant.query, "failed": "" if listing else NO_RESULTS if outcome.ok else "nobody answered"}
            for variant, outcome, listing in rows
        ]
        if not any(outcome.ok for outcome in outcomes):
            raise ToolError("; ".join(dict.fromkeys(str(outcome.error) for outcome in outcomes)))
        if len(queries) == 1 and queries[0].mark == draft.mark and not notes:
            return outcomes[0].value
        return self._joint_list(queries, outcomes, row_lists, notes, int(arguments.get("limit") or RESULTS))

    async def _queries(self, ctx: BranchContext[Any], draft: ResearchQuery) -> tuple[list[ResearchQuery], list[str]]:
        """Return what is searched, and a sentence for each part that came to nothing."""
        most = self.parts.expand or 0
        values = {
            "task": self.spec.instruction,
            "questions": [],
            "today": ctx.now.date().isoformat(),
            "drafts": [asdict(draft)],
            "asked": _earlier_queries(ctx),
            "variants": most,
            "reflect": bool(self.parts.reflect),
        }
        question = Inquiry("research_queries", BETTER, values, tuple(self.spec.context), beside=True)
        reply = await Questioner(ctx, None, self.spec.role, self.spec.model).one(question)
        if reply is None:
            return [draft], ["No usable reply came on the query; it was searched as it is."]
        pool = Queries(1)
        (better,) = pool.revise([draft], reply["queries"])
        notes = []
        if not self.parts.reflect:
            better = replace(draft, variants=better.variants)
        elif better is draft:
            notes.append("The reflection gave no better query; it was searched as it is.")
        queries = pool.spread([better], most)
        if len(queries) <= most:
            notes.append(f"{len(queries) - 1} of {most} variants were searched; the others are missing or repeat one.")
        return queries, notes

    def _joint_list(
        self,
        queries: Sequence[ResearchQuery],
        outcomes: Sequence[Outcome],
        row_lists: Sequence[Sequence[Mapping[str, JsonValue]]],
        notes: list[str],
        limit: int,
    ) -> JsonValue:
        """Return what several searches gave as one list, the best of each query first, as the researcher reads."""
        hits = Hits()
        rows: dict[str, Mapping[str, JsonValue]] = {}
        for number, listing in enumerate(row_lists, start=1):
            hits.take(number, listing)
            for row in listing:
                rows.setdefault(page_key(str(row.get("archived") or row["address"])), row)
        failed: dict[str, JsonValue] = {}
        accounts: list[JsonValue] = []
        for query, outcome, listing in zip(queries, outcomes, row_lists, strict=True):
            value = outcome.value if outcome.ok and isinstance(outcome.value, dict) else {}
            failed |= _object(value.get("failed"))
            notes += [str(note) for note in _list(value.get("notes"))]
            accounts.append(
                {"query": query.query, "gave": f"{len(listing)} results" if outcome.ok else str(outcome.error)}
            )
        best = hits.best(limit, range(1, len(queries) + 1))
        reply: dict[str, JsonValue] = {
            "results": [dict(rows[page_key(hit.address)]) for hit in best],
            "queries": accounts,
        }
        if queries[0].problems:
            reply["problems"] = [*queries[0].problems]
        if queries[0].suggestion:
            reply["suggestion"] = queries[0].suggestion
        if failed:
            reply["failed"] = failed
        if notes:
            reply["notes"] = [*dict.fromkeys(notes)]
        return reply


def _earlier_queries(ctx: BranchContext[Any]) -> list[JsonValue]:
    """Return the queries of the agent so far, the last ones; see `Research._asked`."""
    queries = [entry for name, entries in ctx.vars.items() if name.startswith(_QUERIES) for entry in _list(entries)]
    return queries[-_MOST_ASKED:]


def _rows(outcome: Outcome) -> list[dict[str, JsonValue]]:
    value = outcome.value if outcome.ok else None
    rows = _list(value.get("results")) if isinstance(value, dict) else []
    return [row for row in rows if isinstance(row, dict)]


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}
