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


def named_experts(given: Sequence[str], agents: Collection[str]) -> list[Expert]:
    """Return the experts that somebody named: `NAME` of an agent, or `NAME: description` of one made for the debate.

    Raises:
        UsageError: for a name that no agent has, with the nearest one; for one given twice; for too few or too many.
    """
    found: list[Expert] = []
    able = sorted({*agents} - NEVER)
    for one in given:
        name, sign, description = (part.strip() for part in one.partition(":"))
        name = "_".join(name.lower().split()) if sign else name
        if sign and not (_NAME.fullmatch(name) and description):
            raise UsageError(
                f"{one!r} is no expert; write 'NAME: description', the name in letters, digits and '_', at most 40"
            )
        if sign and name in agents:
            raise UsageError(f"an expert cannot be called {name!r}: an agent is; name it alone, or choose another name")
        if not sign and name not in able:
            guess = did_you_mean(name, able, f"there are {', '.join(able)}.")
            raise UnknownComponentError(
                f"there is no expert {name!r}; {guess} An expert of your own is written 'NAME: description'"
            )
        if name in [other.name for other in found]:
            raise UsageError(f"the expert {name!r} is named twice; name another one")
        found.append(Expert(LETTERS[len(found) % len(LETTERS)], name, description, guest=bool(sign)))
    if len(found) == 1:
        raise UsageError(
            f"a debate needs at least two experts, but only {found[0].name!r} is named; name another one, or none, and "
            "those that fit the topic are invited"
        )
    if len(found) > MOST_EXPERTS:
        raise UsageError(f"{len(found)} experts are named; a debate has at most {MOST_EXPERTS}")
    return found


def check_options(options: Mapping[str, JsonValue], agents: Collection[str], model: str) -> None:
    """Raise UsageError for options (`experts`, `rounds`) that no debate could be held with, with what to do."""
    unknown = sorted({*options} - {"experts", "rounds"})
    if unknown:
        raise SettingsError(f"a debate has no option {unknown[0]!r}; its options: experts, rounds")
    experts, rounds = options.get("experts", []), options.get("rounds", 1)
    if not isinstance(experts, list) or not all(isinstance(one, str) for one in experts):
        raise SettingsError(f"experts is {experts!r}; give a list of names, e.g. ['finance_expert', 'deep_analyzer']")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MOST_ROUNDS:
        raise SettingsError(f"rounds is {rounds!r}; a debate has 1 to {MOST_ROUNDS}")
    named_experts([str(one) for one in experts], agents)
    if model == OFFLINE:
        raise UsageError(
            "the offline model holds no opinions, so it cannot debate; name a model with --model (docs/models.md)"
        )


def named_in(text: str) -> tuple[str, list[str]]:
    """Return a task without its lines `Experts: NAME, NAME`, and these names."""
    names = [one.strip() for match in _LINE.finditer(text) for one in match[1].split(",") if one.strip()]
    return _LINE.sub("", text).strip() or text, names


# -- finding -----------------------------------------------------------------------------------------------------------


async def candidates(topic: str, offered: Sequence[Delegate], ctx: BranchContext[Any], kit: Kit) -> list[Delegate]:
    """Search the agents that fit a topic, best first; where few are found, the others stand behind them."""
    able = {one.agent.name: one for one in offered if one.agent.name not in NEVER}
    tools = AgentToolset((), offered=[*able.values()], role=ctx.role)
    room = ctx.manifest.prompt_tool_chars or 32_000
    discovery = Discovery(tools, kit.finder or Finder(Retriever()), core=(), room=room, offered=[*able])
    add_tools(ctx, *discovery.own)
    find = next((one for one in discovery.own if one.name == FIND_AGENTS), None)
    found: list[str] = []
    if find is not None:
        asked = {"query": topic[:LONGEST_TASK], "limit": CANDIDATES}
        outcome = await ctx.perform(effect_for(find, asked, role=ctx.role, provenance=ctx.provenance))
        lines = outcome.value.get("found") if outcome.ok and isinstance(outcome.value, dict) else None
        found = [str(one).partition(":")[0] for one in lines] if isinstance(lines, list) else []
    names = [name for name in found if name in able]
    # Words alone find nobody for a topic that no description speaks of.
    names += [name for name in sorted(able) if name not in names]
    return [able[name] for name in names[:CANDIDATES]]


def candidates_block(found: Sequence[Delegate], guests: Sequence[Expert] = ()) -> Block:
    """Return the experts that a manager may invite or has, with their descriptions, a line each."""
    lines = [f"- {entry_of(one.schema)}" for one in found]
    lines += [f"- {one.name}: {one.description}" for one in guests]
    trust = lowest(Trust.AGENT, *(one.trust for one in found))
    return TextBlock(text="\n".join(lines), source=Source(kind="agent", ref="registered"), trust=trust)


def seated(chosen: Sequence[Agent]) -> list[Expert]:
    """Return agents as experts, with their letters."""
    return [Expert(letter, one.name, one.description) for letter, one in zip(LETTERS, chosen, strict=False)]
