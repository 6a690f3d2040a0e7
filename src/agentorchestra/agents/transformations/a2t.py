"""A2T: an agent as a tool: a question in, an answer out (000, app. A.2, "Agent-to-Tool")."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import Agent, agent_effect, caller_words
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Outcome
from agentorchestra.core.errors import ToolError, TransformationError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.permission import OF_EVERY_AGENT
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.actions import tool_result
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema
from agentorchestra.tea.transformations.base import Carried, Transformation

LONGEST_INSTANCE = 64

_INSTANCE: dict[str, Any] = {
    "type": "string",
    "maxLength": LONGEST_INSTANCE,
    "description": (
        "Who is asked: under the same name it remembers what it was asked and answered before. "
        "Left out, somebody new is asked."
    ),
}


def _a2t(agent: Agent, *, name: str = "", instance: str = "") -> tuple[Tool[..., Any], ...]:
    """Return the agent as a tool `task, context, instance -> answer`.

    Asked under an instance it is the same individual again: it keeps its name in the log, and is told its earlier
    tasks and answers, in this run and in later runs of the session. Two instances know nothing of each other.

    Args:
        agent: the agent; whoever has the tool is not offered the agent itself.
        name: of the tool; the agent's by default.
        instance: makes every call one to this individual; without it the caller may name one.

    Raises:
        TransformationError: for an instance that cannot be a name.
    """
    if instance:
        _instance_name(instance)
    schema = agent.schema
    properties = dict(schema.parameters["properties"])
    if not instance:
        properties["instance"] = _INSTANCE
    schema = ToolSchema(
        name=name or agent.name,
        description=f"{agent.description}\n{agent.profile}".strip(),
        parameters={**schema.parameters, "properties": properties},
    )
    owner = instance

    async def ask(ctx: Any, task: str, context: str = "", instance: str = "") -> ToolResult:
        spec = spec_of(agent, task, ctx, context=context, instance=_instance_name(owner or instance), by=schema.name)
        return answer_of(await ctx.perform(agent_effect(spec, ctx, provenance=ctx.provenance)))

    tool = tool_from_schema(
        ask,
        schema,
        effect="composite",
        takes_context=True,
        source=sha256_json(["a2t", agent.content_hash, instance]),
        # One individual is asked one thing after the other.
        traits=ToolTraits(version=agent.version, sequential=True, origin=f"agent:{agent.name}"),
        trust=Trust.SYSTEM,
    )
    return (tool.backed_by(Carried(agents=(agent,)), agent.reach()),)


def _instance_name(instance: str) -> str:
    """Return an instance's name, which becomes a part of the log's names; refuse one that cannot."""
    if instance and (len(instance) > LONGEST_INSTANCE or not instance.isprintable() or "/" in instance):
        raise TransformationError(
            f"{instance[:80]!r} cannot be an instance's name: it has at most {LONGEST_INSTANCE} printable characters, "
            "and no '/'"
        )
    return instance


def spec_of(agent: Agent, task: str, ctx: Any, *, context: str = "", instance: str = "", by: str = "") -> AgentSpec:
    """Return what an agent is asked to do on behalf of a tool or an environment, under the identity `instance`.

    It is asked by `by`: an agent that holds what its caller holds does not get that too.
    """
    capabilities = ctx.capabilities or frozenset()
    tools = agent.reach(tuple(sorted(capabilities - OF_EVERY_AGENT - {by})))
    blocks = caller_words(context, ctx, ctx.provenance)
    name = f"{agent.name}.{instance}" if instance else agent.name
    return agent.spec(task, name=name, context=blocks, tools=tools, instance=instance)


def answer_of(outcome: Outcome) -> ToolResult:
    """Return the answer of an agent as a tool's result; raise ToolError with its reason if it gave none."""
    if not outcome.ok:
        return tool_result(outcome)
    result = AgentResult.model_validate(outcome.value)
    answer: Any = result.output if result.output is not None else result.answer
    if result.status is not RunStatus.COMPLETED:
        words = " ".join(part for part in (result.answer, result.report) if part) or "without an answer"
        raise ToolError(f"it ended as {result.status.value}: {words}")
    return ToolResult(content=answer, trust=outcome.trust)


a2t: Transformation[Agent, tuple[Tool[..., Any], ...]] = Transformation("a2t", "agent", "tool", _a2t)
"""An agent as a tool; see `_a2t` for the options `name` and `instance`."""
