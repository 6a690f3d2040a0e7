"""The first view of an agent: short files, and of its tools those that fit its task.

Agents open rarely used tools when they want them; of very many tools the best are found (`tea/retrieval/`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.agents.conversation import conversation, files_in_conversation
from agentorchestra.agents.requests import model_of
from agentorchestra.agents.state import add_tools
from agentorchestra.agents.types import TERMINAL, Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import Provenance, provenance_of
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import Environment
from agentorchestra.core.spec import AgentSpec, FileRef
from agentorchestra.environments.registry import PACKAGED
from agentorchestra.loop import opened_by
from agentorchestra.models.prices import IMAGE_TOKENS
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.retrieval.deferred import DeferredTools
from agentorchestra.tea.retrieval.discovery import FIND_AGENTS, FIND_TOOLS, OPEN_TOOLS, Discovery, Finder
from agentorchestra.tea.retrieval.retriever import Retriever

VIEW = "files_in_view"
"""The tool that gives short files whole."""

_LARGE = 100_000
"""Bytes of a text or a table from which it is worth having it read whole by another model."""

_FILE_TOOLS = frozenset({"read_file", "search_files"})
_RARE = frozenset({"todo", "bash", "wait_until", "archived_page", "read_artifact", "tool_generator"})
_BESIDE_A_SHELL = frozenset({"python", "search", "fetch"})


async def short_files(ctx: BranchContext[Any], spec: AgentSpec, *, goes_on: bool = False) -> tuple[Block, ...]:
    """Return the short files of the task, whole, with their places, and its first pictures: read through the door.

    Args:
        spec: of the agent, which is shown pictures if its model may see.
        goes_on: for an agent that goes on with the conversation of its session: only the new ones.
    """
    manifest = ctx.manifest
    later = goes_on and bool(conversation(ctx, native=True))
    if not (manifest.given if later else manifest.files) or not manifest.in_view_chars or VIEW not in manifest.tools:
        return ()
    model, kinds = model_of(spec, ctx), {file.media_type.partition("/")[0] for file in manifest.files}
    room = manifest.context_windows.get(model, 0) // 4 // IMAGE_TOKENS  # a quarter of the window at most
    most = min(manifest.in_view_pictures, room) if model in manifest.media_models.get("image", ()) else 0
    arguments = {**({"new": True} if later else {}), **({"pictures": most} if most and "image" in kinds else {})}
    outcome = await ctx.call_tool(VIEW, chars=manifest.in_view_chars, **arguments)
    return outcome.blocks() if outcome.ok and outcome.value else ()


def files_shown(context: Sequence[Block]) -> frozenset[str]:
    """Return the names of the files that stand in what an agent is given to know."""
    sources = [block.source for block in context]
    return frozenset(source.ref for source in sources if source is not None and source.kind == "file" and source.place)


def waiting_tools(names: Sequence[str], files: Sequence[FileRef], in_view: frozenset[str]) -> tuple[str, ...]:
    """Return the packaged tools and agents that need not stand in a first prompt beside the files shown."""
    kinds = {ref.media_type.partition("/")[0] for ref in files}
    looked_at = bool(kinds & {"image", "video"}) or any(ref.media_type == "application/pdf" for ref in files)
    left = [ref for ref in files if ref.name not in in_view]
    plain = all(ref.media_type.startswith("text/") and ref.size < _LARGE for ref in left)
    fits = {
        **dict.fromkeys(_FILE_TOOLS, bool(left)),
        "ask_media": looked_at or "audio" in kinds,
        "transcribe_file": bool(kinds & {"audio", "video"}),
        "analyze_file": not plain,
        **dict.fromkeys(_RARE, False),
    }
    return tuple(name for name in names if not fits.get(name, True))


def _waiting_actions(environments: Mapping[str, Environment], names: Collection[str] | None) -> set[str]:
    """Return the tools of actions with which no environment begins; those `told` of, in a run from before that."""
    return {
        tool
        for name, environment in environments.items()
        for action in environment.actions()
        if (tool := f"{name}_{action.name}")
        and (action.name not in getattr(environment, "begins_with", [action.name]) if names is None else tool in names)
    }


@dataclass(frozen=True)
class FirstView:
    """The first view besides the core of the tools.

    Attributes:
        open_names: what is open from the first step on.
        blocks: what the agent is told of the others, for its first message.
    """

    discovery: Discovery | DeferredTools
    open_names: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        return provenance_of(self.blocks)


async def choose_first_view(
    spec: AgentSpec,
    ctx: BranchContext[Any],
    kit: Kit,
    tools: AgentToolset,
    environments: Mapping[str, Environment],
    *,
    agents: Sequence[str],
    code: bool,
    provenance: tuple[Provenance, ...],
) -> FirstView | None:
    """Choose what fits the task: of very many tools by a search; None where everything is shown.

    Args:
        tools, environments: what it may call, where it works; what finds and opens the others is added.
        agents: the names of those of `tools` that are agents.
    """
    room = ctx.manifest.prompt_tool_chars
    user_tools = set(kit.given)
    own_tools = [name for name in spec.tools if name in kit.tools and name not in user_tools]
    waiting: tuple[str, ...] = ()
    is_few = ctx.manifest.first_actions == "few"
    if ctx.manifest.first_tools == "fitting" and not code:
        if not spec.on_demand:  # else its caller chose its tools
            names = [*own_tools, *(name for name in kit.packaged if name in agents)]
            seen = files_shown(spec.context) | files_in_conversation(ctx)
            waiting = waiting_tools(names, ctx.manifest.files, seen)
            if is_few and TERMINAL in environments:
                waiting += tuple(name for name in names if name in _BESIDE_A_SHELL)
        later = _waiting_actions(environments, None if is_few else ctx.run.ledger.codec.words_of(OPEN_TOOLS))
        waiting = tuple(name for name in tools.names if name in {*waiting, *later})
    record = ctx.run.ledger.records.get(EffectKey(ctx.branch, ctx.last_n + 1))
    if record is not None:  # whether there was a search stays so, whatever size the tools have by now
        by_search = str(record.effect.get("component", "")).partition("@")[0] in (FIND_TOOLS, FIND_AGENTS)
    else:
        by_search = bool(room) and sum(schema.chars for schema in tools.schemas()) > room
    if not by_search:
        if not waiting:
            return None
        listing = DeferredTools(tools, waiting, by_name=is_few)
        add_tools(ctx, *listing.own)
        return FirstView(listing, (), ())
    rest = {*tools.names} - {*own_tools, *agents, tools.finish}
    if rest:  # they are found with those that have no room; a planner's few tools stay where all others are agents
        own_tools = [name for name in own_tools if name not in waiting]
    own_agents = [name for name in kit.packaged if name in agents and name not in waiting]
    actions = [name for name in tools.names if tools.path(name).startswith("environments/")]
    # What somebody chose for this agent comes before what every agent has, small environments before large ones.
    fitting = [name for name in actions if tools.path(name).removeprefix("environments/") in PACKAGED]
    sizes = Counter[str]()
    for name in fitting:
        sizes[tools.path(name)] += tools.schema(name).chars
    fitting.sort(key=lambda name: (sizes[tools.path(name)], name))
    discovery = Discovery(
        tools,
        kit.finder or Finder(Retriever()),
        core=(tools.finish, *fitting, *own_tools, *own_agents, *actions),
        room=room,
        agent_names=agents,
        functions=code,
    )
    add_tools(ctx, *discovery.own)
    effects = discovery.first(spec.instruction, role=spec.role, provenance=provenance)
    outcomes = await ctx.perform_all(effects)
    open_names: list[str] = []
    blocks: list[Block] = []
    for effect, outcome in zip(effects, outcomes, strict=True):
        if outcome.ok:
            open_names += [name for name in opened_by(effect, outcome) if name not in open_names]
            blocks += outcome.blocks(Source(kind="tool", ref=effect.name))
    text = kit.prompts.get("discovery").render(**discovery.counts, code=code)
    return FirstView(discovery, tuple(open_names), (TextBlock(text=text, trust=Trust.SYSTEM), *blocks))
