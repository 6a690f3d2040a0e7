"""Delegation to sub-agents that are made on demand, of instruction, context, tools and model (002, sec. 3.2, 4.3).

How many there were and what came back is read from the log: a resume and a replay come to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import agent_effect, caller_words, order_trust
from agentorchestra.agents.forms import TEXTS, Inquiry, Questioner, form
from agentorchestra.agents.outputs import ended_on
from agentorchestra.agents.trace import Trace, handed_back, result_of, trace_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.names import nearest
from agentorchestra.core.settings import AOrchestraSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema

DELEGATE = "delegate_task"
CHILD, REVIEWER = "child", "reviewer"  # roles whose models can be chosen (002, table 3)

REVIEW = form(["points"], points=TEXTS, issues=TEXTS)

MOST_POINTS, POINT_CHARS = 10, 600
"""Points of a trace that the orchestrator is shown at most, and as many issues; the length of one."""


@dataclass
class DelegateTask:
    """`delegate_task`: makes a sub-agent of the four-tuple and hands back what it came to."""

    spec: AgentSpec
    ctx: BranchContext[Any]
    kit: Kit
    limits: AOrchestraSettings
    tools: Mapping[str, str]  # what sub-agents may be given, with what each is for
    models: Mapping[str, str]  # real names by the names that delegations use

    @property
    def tool(self) -> Tool[..., Any]:
        schema = self._schema()

        def check(arguments: dict[str, Any]) -> list[str]:
            return [self._with_near(problem, arguments) for problem in schema_problems(arguments, schema.parameters)]

        # The names in the schema are trusted as far as a server whose tools are among them.
        trust = lowest(Trust.SYSTEM, *(tool.schema.trust for name in self.tools if (tool := self.kit.tools.get(name))))
        rest: dict[str, Any] = {"takes_context": True, "traits": ToolTraits(delegates=True), "trust": trust}
        return tool_from_schema(self._delegate, schema, effect="composite", check=check, **rest)

    def _schema(self) -> ToolSchema:
        part, names = "What the sub-agent is to do, and by what it is done.", {"type": "string", "enum": [*self.tools]}
        needs = "What it needs to know: what was found, with its places; what was ruled out."
        use = "What it may use, and nothing else."
        properties: dict[str, Any] = {
            "task_instruction": {"type": "string", "minLength": 1, "description": part},
            "context": {"type": "string", "description": needs},
            "tools": {"type": "array", "items": names, "minItems": 1, "description": use},
            "model": {"type": "string", "enum": [*self.models], "description": "Which model it is."},
        }
        if self.limits.context != "curated":
            del properties["context"]
        if len(self.models) < 2:
            del properties["model"]
        required = [name for name in properties if name != "context"]
        parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        purpose = "Have a sub-agent, made for this, do one part of the task."
        return ToolSchema(name=DELEGATE, description=purpose, parameters=parameters)

    def _with_near(self, problem: str, arguments: dict[str, Any]) -> str:
        """Return a problem with the name that was probably meant."""
        field, valid = ("tools", self.tools) if problem.startswith("tools") else ("model", self.models)
        value = arguments.get(field, "") if problem.startswith(field) else []
        names = [str(name) for name in (value if isinstance(value, list) else [value])]
        misspelt = [name for name in names if name not in valid and repr(name) in problem]
        near = [candidate for name in misspelt for candidate in nearest(name, valid)]
        return f"{problem}; did you mean {near[0]!r}?" if near else problem

    async def _delegate(
        self, ctx: BranchContext[Any], task_instruction: str, tools: list[str], context: str = "", model: str = ""
    ) -> ToolResult:
        """Make the sub-agent, let it work, have its log reviewed."""
        attempt = self._attempt(ctx)
        limits = self.limits
        capabilities = ctx.capabilities
        behind = [name for name in ("check_quotes",) if capabilities is None or name in capabilities]
        child = AgentSpec(
            name="sub_agent",
            instruction=task_instruction,
            context=self._context(context, ctx),
            tools=tuple(dict.fromkeys((*tools, *behind))),
            model=self.models.get(model) or (limits.models[0] if len(limits.models) == 1 else ""),
            role=CHILD,
            system=limits.executor,
            max_steps=limits.child_steps,
            budget=Budget(active_s=limits.child_seconds) if limits.child_seconds else None,
            on_demand=True,
        )
        effect = agent_effect(child, ctx, provenance=ctx.provenance)
        # Its budget is looked at between two effects: what hangs within one is cut off by the limit of the whole.
        outcome = await ctx.perform(effect.model_copy(update={"timeout_s": limits.child_seconds or None}))
        trace = trace_of(ctx.run.ledger, f"{EffectKey(ctx.branch, ctx.last_n).path}.{child.name}")
        points = await self._review(ctx, child, result_of(outcome), trace)
        result, trust = handed_back(outcome, trace)
        view: dict[str, JsonValue] = {"attempt": attempt, "attempts_left": limits.attempts - attempt}
        view |= {"model": model} if model else {}
        return ToolResult(content=view | _outline(result, points), artifacts=result.artifacts, trust=trust)

    def _attempt(self, ctx: BranchContext[Any]) -> int:
        """Return the number of this delegation; ToolError if no attempt is left, or it was made before."""
        *earlier, current = self._delegations(ctx.key)
        most = self.limits.attempts
        if len(earlier) >= most:
            raise ToolError(f"all {most} attempts are used; finish now, with the best answer that there is")
        if current in earlier:
            raise ToolError(
                "the same delegation was made before, word for word; change the instruction, the context, the tools or "
                "the model, or finish with what you have"
            )
        return len(earlier) + 1

    def _delegations(self, upto: EffectKey) -> Iterator[Any]:
        """Yield the arguments of the delegations so far, this one included, but for mistakes."""
        records = self.ctx.run.ledger.records
        for n in range(1, upto.n + 1):
            record = records.get(EffectKey(upto.branch, n))
            if record is None or str(record.effect.get("component", "")).partition("@")[0] != DELEGATE:
                continue
            if record.outcome is None or record.outcome.status != "mistake":
                yield record.effect.get("arguments")

    def _context(self, excerpt: str, ctx: BranchContext[Any]) -> tuple[Block, ...]:
        """Return what a sub-agent is given to know besides its instruction (002, sec. 4.3.1)."""
        blocks: list[Block] = []
        if self.limits.question or self.limits.context == "full":
            question = f"The question that this is a part of:\n{self.spec.instruction}"
            source = Source(kind="agent", ref=ctx.actor)
            blocks.append(TextBlock(text=question, source=source, trust=order_trust(self.ctx)))
        if self.limits.context == "full":
            blocks += self.spec.context
            for view, _ in self.finished(before=ctx.decided_n):
                blocks.append(TextBlock(text=view, source=Source(kind="agent", ref=DELEGATE), trust=Trust.UNTRUSTED))
        if self.limits.context == "curated":
            blocks += caller_words(excerpt, ctx, ctx.provenance)
        return tuple(blocks)

    def finished(self, *, before: int | None = None) -> list[tuple[str, AgentResult]]:
        """Return what was delegated and came back, in order: as the orchestrator was shown it, and the result.

        Args:
            before: the number of a decision on the orchestrator's branch; only what came back until then.
        """
        records = self.ctx.run.ledger.records
        results = []
        for n, call in ended_on(self.ctx, [EffectKind.INVOKE_TOOL]):
            if before is not None and n >= before:
                break
            agent = records.get(EffectKey(f"{EffectKey(self.ctx.branch, n).path}.{DELEGATE}", 1))
            if agent is not None and agent.outcome is not None and agent.effect.get("kind") == EffectKind.INVOKE_AGENT:
                back = call.outcome.value if call.outcome is not None else None
                view = {"task": agent.effect["arguments"]["instruction"], **(back if isinstance(back, dict) else {})}
                results.append((canonical_json(view), result_of(agent.outcome)))
        return results

    async def _review(
        self, ctx: BranchContext[Any], child: AgentSpec, result: AgentResult, trace: Trace
    ) -> tuple[str, ...]:
        """Return the points of the reviewer; where it says nothing of use, the last steps as the log has them.

        A short piece of work that ended well says itself what it found.
        """
        short = (result.steps or trace.steps) < self.limits.review_from
        if not trace.lines or (short and result.status is RunStatus.COMPLETED):
            return ()
        source = Source(kind="agent", ref=child.name)
        outcome = "\n\n".join(text for text in (result.answer, result.report) if text) or "nothing"
        texts = (f"Its result:\n{outcome}", "\n\n".join(("Its log:", *trace.lines)))
        blocks = tuple(TextBlock(text=text, source=source, trust=trace.trust) for text in texts)
        values = {"task": child.instruction, "status": result.status.value}
        questioner = Questioner(ctx, self.kit, REVIEWER)
        reply = await questioner.one(Inquiry("aorchestra_review", REVIEW, values, blocks, beside=True))
        notes = [" ".join(str(point).split()) for point in ((reply or {}).get("points") or ())]
        notes += [f"Issue: {' '.join(str(issue).split())}" for issue in ((reply or {}).get("issues") or ())]
        points = [point for point in notes if point][: 2 * MOST_POINTS] or trace.lines[-MOST_POINTS:]
        return tuple(point[:POINT_CHARS] for point in points)


def _outline(result: AgentResult, points: Sequence[str]) -> dict[str, JsonValue]:
    """Return what the orchestrator is shown of a result, under the paper's names: never its raw trace."""
    view: dict[str, JsonValue] = {
        "status": result.status.value,
        "result": result.answer,
        "summary": result.report,
        "sources": list(dict.fromkeys(f"{ref.source}, {ref.place}".strip(", ") for ref in result.sources)),
        "findings": [*points],
        "artifacts": [artifact.name for artifact in result.artifacts],
        "errors": [*result.errors[-MOST_POINTS:]],
        "steps": result.steps,
        "cost_usd": result.cost_usd,
    }
    return {name: value for name, value in view.items() if value not in ("", [], None)}
