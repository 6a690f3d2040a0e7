"""Discovery of tools by an agent that has very many: few schemas, some lines, and tools that find and open the others.

    its core (done, packaged tools) ──────────────> schemas in every prompt
    the others ─> find_tools(the task) ─> the best > schemas from the first step on
                                       └> further > one line each
                  find_tools(query), open_tools ──> schemas from the next step on

So a prompt has the same size at a hundred tools as at ten thousand. The list of schemas only grows at its end, so that
what a provider keeps of a prompt stays valid. What was found is the outcome of a call, recorded as any other: a resume,
a replay and a fork show the same, whatever can be found by then. Nothing is found but what the agent may call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import Effect, Provenance
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ToolCall, ToolSchema
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.retrieval.index import Described
from agentorchestra.tea.retrieval.retriever import Retriever

FIND_TOOLS, FIND_AGENTS, OPEN_TOOLS = "find_tools", "find_agents", "open_tools"
OPENING = frozenset({FIND_TOOLS, FIND_AGENTS, OPEN_TOOLS})  # their outcomes say what is open from then on
FIRST_LINES, LINES, MOST_LINES = 40, 10, 50  # lines found before the first step, by a later search, and at most
BEST = 3  # schemas that a search opens
LINE_CHARS = 160
LONGEST_TASK = 2_000  # characters of a task that are searched for before the first step
_BATCH = 200  # descriptions that are indexed before other work has its turn


@dataclass(frozen=True)
class Finder:
    """The index of a workspace's tools; shared by its agents and runs."""

    retriever: Retriever  # by the schemas' digests
    model: str = ""  # what its vectors were made with, "" for none


class Discovery:
    """The toolset of an agent that has more tools than its prompt has room for (`room`, characters of schemas).

    Schemas of its `core` stand in every prompt, in order of importance, as far as half of the room goes. Programs call
    `functions`: nothing has to be opened, and what was found is shown as functions.
    """

    def __init__(
        self,
        tools: AgentToolset,
        finder: Finder,
        *,
        core: Sequence[str],
        room: int,
        agent_names: Sequence[str] = (),
        functions: bool = False,
    ) -> None:
        self._tools = tools
        self._finder = finder
        self._room = room
        self._functions = functions
        schemas = {schema.name: schema for schema in tools.schemas()}
        front = _fitting(schemas, core, room // 2)
        agents = set(agent_names)
        self._hidden = {name: schema for name, schema in schemas.items() if name not in front}
        self._keys: dict[str, dict[str, str]] = {FIND_TOOLS: {}, FIND_AGENTS: {}}
        for name, schema in self._hidden.items():
            self._keys[FIND_AGENTS if name in agents else FIND_TOOLS][schema.digest] = name
        self.own = tuple(self._build())
        for own_tool in self.own:
            tools.add(own_tool)
        self._core = tuple(sorted({*front, *(own_tool.name for own_tool in self.own)}))

    def add_later(self, tool: Tool[..., Any]) -> None:
        """Add one more tool in the middle of the work: it can be opened and found as the others that are not shown."""
        self._tools.add_later(tool)
        self._hidden[tool.name] = tool.schema
        self._keys[FIND_TOOLS][tool.schema.digest] = tool.name

    # -- what is shown -------------------------------------------------------------------------------------------------

    @property
    def core(self) -> tuple[ToolSchema, ...]:
        return tuple(self._tools.schema(name) for name in self._core)

    def schemas(self, open_names: Sequence[str] = ()) -> tuple[ToolSchema, ...]:
        return (*self.core, *self.open_schemas(open_names))

    def open_schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]:
        """Return the schemas of what was opened; a recorded name that is no longer there is left out."""
        return tuple(self._hidden[name] for name in dict.fromkeys(names) if name in self._hidden)

    @property
    def counts(self) -> dict[str, int]:
        """How many tools and agents are not in every prompt."""
        return {"tools": len(self._keys[FIND_TOOLS]), "agents": len(self._keys[FIND_AGENTS])}

    # -- what is called ------------------------------------------------------------------------------------------------

    def effect(
        self, call: ToolCall, ctx: Any, provenance: tuple[Provenance, ...], open_names: Sequence[str] = ()
    ) -> Effect:
        """Return the effect of a call; what was not open is opened instead, for nobody has read how it is called."""
        if call.name in self._hidden and call.name not in open_names:
            call = ToolCall(id=call.id, name=OPEN_TOOLS, arguments={"names": [call.name]})
        effect = self._tools.effect(call, ctx, provenance)
        if call.name not in self._hidden and call.name not in self._core:
            effect = effect.model_copy(update={"invalid": f"there is no tool {call.name!r}{self._guess(call.name)}"})
        return effect

    def first(self, task: str, *, role: str, provenance: tuple[Provenance, ...]) -> list[Effect]:
        """Return the searches before the first step: what fits the task."""
        search: dict[str, Any] = {"query": task[:LONGEST_TASK], "limit": FIRST_LINES}
        return [effect_for(own, search, role=role, provenance=provenance) for own in self.own if own.name != OPEN_TOOLS]

    # -- finding -------------------------------------------------------------------------------------------------------

    def _build(self) -> Iterable[Tool[..., Any]]:
        effect: Any = "composite" if self._finder.model else "pure"  # whoever embeds performs an effect

        @tool(effect=effect, thread=False, cut=False)
        async def find_tools(ctx: RunContext[Any], query: str = "", under: str = "", limit: int = LINES) -> ToolResult:
            """Find further tools by what they are for. They come one line each, best first; the best are opened:
            they can be called from the next step on. To see which groups of tools there are, leave the query empty.

            Args:
                query: What is to be done, in a few words.
                under: Only tools of this group.
                limit: At most so many lines.
            """
            return await self._find(FIND_TOOLS, query, under, limit, ctx)

        @tool(effect=effect, thread=False, cut=False)
        async def find_agents(ctx: RunContext[Any], query: str, limit: int = LINES) -> ToolResult:
            """Find further agents by what they are for. They come one line each, best first; the best can be called
            from the next step on.

            Args:
                query: The work that is to be done, in a few words.
                limit: At most so many lines.
            """
            return await self._find(FIND_AGENTS, query, "", limit, ctx)

        @tool(effect="pure", thread=False, cut=False)
        def open_tools(names: list[str]) -> dict[str, JsonValue]:
            """Open tools that were found: they can be called from the next step on.

            Args:
                names: Their names, as they were found.
            """
            return self._open(names)

        if self._keys[FIND_TOOLS]:
            yield find_tools
        if self._keys[FIND_AGENTS]:
            yield find_agents
        if not self._functions:
            yield open_tools

    async def _find(self, kind: str, query: str, under: str, limit: int, ctx: Any) -> ToolResult:
        names = self._keys[kind]
        among = [self._hidden[name] for name in names.values()]
        count = max(1, min(limit, MOST_LINES))
        matches = await matching(self._finder, among, query, count, ctx, under=under, path=self._tools.path)
        lines, trust = lines_of(matches, self._room // 4)
        top = matches[: len(lines)]
        best = _fitting({schema.name: schema for schema in top[:BEST]} if query.strip() else {}, None, self._room // 4)
        value: dict[str, JsonValue] = {"found": [*lines], "opened": [*best]}
        if not query.strip():
            groups = self._finder.retriever.browse(under, among=names)
            value["groups"] = {group.path: group.count for group in groups[:MOST_LINES]}
        if self._functions:
            del value["opened"]
            value["functions"] = [self._text(name) for name in best]
        return ToolResult(content=value, trust=trust)

    def _open(self, names: list[str]) -> dict[str, JsonValue]:
        targets = [name for name in dict.fromkeys(names) if name in self._hidden]
        strange = [name for name in dict.fromkeys(names) if name not in self._hidden and name not in self._core]
        fitting = _fitting(self._hidden, targets, self._room)
        if not fitting and (strange or targets):
            if not strange:
                raise ToolError(f"the schema of {targets[0]!r} is longer than a prompt has room for ({self._room:,})")
            raise ToolError(f"there is no tool {strange[0]!r}{self._guess(strange[0])}")
        value: dict[str, JsonValue] = {"opened": [*fitting], "note": "Not called yet: call it from the next step on."}
        left = [*strange, *(name for name in targets if name not in fitting)]
        return value | ({"not_opened": [*left]} if left else {})

    def _guess(self, name: str) -> str:
        """Return what may have been meant, as the end of a sentence."""
        keys = {key: tool_name for names in self._keys.values() for key, tool_name in names.items()}
        near = [keys[key] for key in self._finder.retriever.nearest(name, among=keys)]
        return f"; did you mean {' or '.join(near)}?" if near else "; search with find_tools"

    def _text(self, name: str) -> str:
        from agentorchestra.tea.programs.functions import Functions, python_name

        return Functions(self._tools, only=(name,)).text(python_name(name))


async def matching(
    finder: Finder,
    among: Sequence[ToolSchema],
    query: str,
    limit: int,
    ctx: Any,
    *,
    under: str = "",
    path: Callable[[str], str] = lambda name: "agents",
) -> list[ToolSchema]:
    """Return those `among` tools or agents that fit, best first; descriptions that many agents share are read once."""
    retriever, schemas = finder.retriever, {schema.digest: schema for schema in among}
    missing = [(key, schema) for key, schema in schemas.items() if key not in retriever]
    for number, (key, entry) in enumerate(missing, 1):
        retriever.add(key, Described.of_schema(entry.name, entry.description, entry.parameters), path=path(entry.name))
        if number % _BATCH == 0:
            await asyncio.sleep(0)
    # Vectors of another model than the run's cannot be compared with its question.
    vectors = bool(finder.model) and ctx.manifest.embedding_model == finder.model
    matches = await retriever.search(
        query, limit=limit, under=under or None, among=schemas, embed=ctx.embed if vectors else None, vectors=vectors
    )
    return [schemas[match.key] for match in matches]


def lines_of(schemas: Sequence[ToolSchema], room: int | None = None) -> tuple[list[str], Trust]:
    """Return a line for each, as far as they have room, and how far they may be trusted together."""
    lines: list[str] = []
    left = room
    for schema in schemas:
        line = entry_of(schema)
        if left is not None and (left := left - len(line)) < 0:
            break
        lines.append(line)
    return lines, lowest(Trust.AGENT, *(schema.trust for schema in schemas[: len(lines)]))


def entry_of(schema: ToolSchema) -> str:
    text = " ".join(schema.description.split())
    line = f"{schema.name}: {text}" if text else schema.name
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"


def _fitting(schemas: Mapping[str, ToolSchema], names: Sequence[str] | None, room: int) -> list[str]:
    """Return the names whose schemas have room together, in order; one that is too long does not keep out the next."""
    fitting, left = [], room
    for name in schemas if names is None else dict.fromkeys(names):
        if name in schemas and (size := schemas[name].chars) <= left:
            fitting.append(name)
            left -= size
    return fitting
