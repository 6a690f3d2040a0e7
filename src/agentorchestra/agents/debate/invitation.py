"""The experts of a debate: those that were named, or those that are found for its topic (ACP)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import Agent, Delegate
from agentorchestra.agents.debate.experts import DEBATE, GUEST
from agentorchestra.agents.debate.statements import Expert
from agentorchestra.agents.reporting.agent import NAME as REPORTER
from agentorchestra.agents.state import add_tools
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.errors import SettingsError, UnknownComponentError, UsageError
from agentorchestra.core.names import did_you_mean
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.retrieval.discovery import FIND_AGENTS, LONGEST_TASK, Discovery, Finder, entry_of
from agentorchestra.tea.retrieval.retriever import Retriever

OFFLINE = "offline"
MOST_EXPERTS, MOST_ROUNDS = 8, 10
CANDIDATES = 10  # agents that a manager may choose from

LETTERS = "ABCDEFGH"
NEVER = frozenset({DEBATE, GUEST, REPORTER})  # agents that have nothing to say in a debate of their own

_NAME = re.compile(r"[a-z0-9_]{1,40}")
_LINE = re.compile(r"^[ \t]*experts:[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)


def named_experts(entries: Sequence[str], agents: Collection[str]) -> list[Expert]:
    """Return the experts that somebody named: `NAME` of an agent, or `NAME: description` of one made for the debate.

    Raises:
        UsageError: for a name that no agent has, with the nearest one; for one given twice; for too few or too many.
    """
    experts: list[Expert] = []
    able = sorted({*agents} - NEVER)
    for entry in entries:
        name, sign, description = (part.strip() for part in entry.partition(":"))
        name = "_".join(name.lower().split()) if sign else name
        if sign and not (_NAME.fullmatch(name) and description):
            raise UsageError(
                f"{entry!r} is no expert; write 'NAME: description', the name in letters, digits and '_', at most 40"
            )
        if sign and name in agents:
            raise UsageError(f"an expert cannot be called {name!r}: an agent is; name it alone, or choose another name")
        if not sign and name not in able:
            guess = did_you_mean(name, able, f"there are {', '.join(able)}.")
            raise UnknownComponentError(
                f"there is no expert {name!r}; {guess} An expert of your own is written 'NAME: description'"
            )
        if name in [other.name for other in experts]:
            raise UsageError(f"the expert {name!r} is named twice; name another one")
        experts.append(Expert(LETTERS[len(experts) % len(LETTERS)], name, description, guest=bool(sign)))
    if len(experts) == 1:
        raise UsageError(
            f"a debate needs at least two experts, but only {experts[0].name!r} is named; name another one, or none, "
            "and those that fit the topic are invited"
        )
    if len(experts) > MOST_EXPERTS:
        raise UsageError(f"{len(experts)} experts are named; a debate has at most {MOST_EXPERTS}")
    return experts


def check_options(options: Mapping[str, JsonValue], agents: Collection[str], model: str) -> None:
    """Raise UsageError for options (`experts`, `rounds`) that no debate could be held with, with what to do."""
    unknown = sorted({*options} - {"experts", "rounds"})
    if unknown:
        raise SettingsError(f"a debate has no option {unknown[0]!r}; its options: experts, rounds")
    experts, rounds = options.get("experts", []), options.get("rounds", 1)
    if not isinstance(experts, list) or not all(isinstance(name, str) for name in experts):
        raise SettingsError(f"experts is {experts!r}; give a list of names, e.g. ['finance_expert', 'deep_analyzer']")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MOST_ROUNDS:
        raise SettingsError(f"rounds is {rounds!r}; a debate has 1 to {MOST_ROUNDS}")
    named_experts([str(name) for name in experts], agents)
    if model == OFFLINE:
        raise UsageError(
            "the offline model holds no opinions, so it cannot debate; name a model with --model (docs/models.md)"
        )


def named_in(text: str) -> tuple[str, list[str]]:
    """Return a task without its lines `Experts: NAME, NAME`, and these names."""
    names = [name.strip() for match in _LINE.finditer(text) for name in match[1].split(",") if name.strip()]
    return _LINE.sub("", text).strip() or text, names


async def candidates(topic: str, delegates: Sequence[Delegate], ctx: BranchContext[Any], kit: Kit) -> list[Delegate]:
    """Search the agents that fit a topic, best first; where few are found, the others stand behind them."""
    able = {delegate.agent.name: delegate for delegate in delegates if delegate.agent.name not in NEVER}
    tools = AgentToolset((), agents=[*able.values()], role=ctx.role)
    room = ctx.manifest.prompt_tool_chars or 32_000
    discovery = Discovery(tools, kit.finder or Finder(Retriever()), core=(), room=room, agent_names=[*able])
    add_tools(ctx, *discovery.own)
    find = next((tool for tool in discovery.own if tool.name == FIND_AGENTS), None)
    names_by_fit: list[str] = []
    if find is not None:
        arguments = {"query": topic[:LONGEST_TASK], "limit": CANDIDATES}
        outcome = await ctx.perform(effect_for(find, arguments, role=ctx.role, provenance=ctx.provenance))
        lines = outcome.value.get("found") if outcome.ok and isinstance(outcome.value, dict) else None
        names_by_fit = [str(line).partition(":")[0] for line in lines] if isinstance(lines, list) else []
    names = [name for name in names_by_fit if name in able]
    # Words alone find nobody for a topic that no description speaks of.
    names += [name for name in sorted(able) if name not in names]
    return [able[name] for name in names[:CANDIDATES]]


def candidates_block(delegates: Sequence[Delegate], guests: Sequence[Expert] = ()) -> Block:
    """Return the experts that a manager may invite or has, with their descriptions, a line each."""
    lines = [f"- {entry_of(delegate.schema)}" for delegate in delegates]
    lines += [f"- {expert.name}: {expert.description}" for expert in guests]
    trust = lowest(Trust.AGENT, *(delegate.trust for delegate in delegates))
    return TextBlock(text="\n".join(lines), source=Source(kind="agent", ref="registered"), trust=trust)


def seat(agents: Sequence[Agent]) -> list[Expert]:
    """Return agents as experts, with their letters."""
    return [Expert(letter, agent.name, agent.description) for letter, agent in zip(LETTERS, agents, strict=False)]
