"""AOrchestra: an orchestrator that makes its sub-agents on demand (002, sec. 3.2, app. D.1).

    delegate_task(task_instruction, context, tools, model) ─> a sub-agent of this four-tuple works; a reviewer reads
                                                              its log; status, result and findings come back
    complete(answer), or submit(reason) where tests grade  ─> the end

The orchestrator never acts itself. Any system, agent or program can be the executor of its sub-agents (sec. 4.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import JsonValue

from agentorchestra.agents.agent import agent_effect, caller_words, order_trust
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.forms import TEXTS, Limited, Question, Questioner, form
from agentorchestra.agents.handler import find_system
from agentorchestra.agents.outputs import ended_on
from agentorchestra.agents.toolkit import purpose
from agentorchestra.agents.trace import CALLED_BY_CODE, Trace, handed_back, result_of, trace_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.budget import Budget
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import EffectKind, Outcome
from agentorchestra.core.errors import ToolError, UnknownComponentError
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.names import nearest
from agentorchestra.core.settings import AOrchestraSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool, Traits, tool_from_schema
from agentorchestra.tea.transformations.base import Factory
from agentorchestra.tea.transformations.e2t import e2t
from agentorchestra.tools.done import complete, done_tool, submit_tool

NAME = "aorchestra"
DELEGATE = "delegate_task"
MAIN, CHILD, REVIEWER = "main", "child", "reviewer"  # the roles whose models can be chosen (002, table 3)

TOOLSETS: Mapping[str, Sequence[str]] = {
    "gaia": ("search", "fetch", "python", "bash", "ask_media", "transcribe_file"),
    "terminal": ("terminal",),
    "swe": ("execute", "view_file", "edit_file"),
}
"""Tools and environments of sub-agents by benchmark (002, table 6); those of SWE by its names, the others by ours."""

SWE = {"execute": ("terminal", "run"), "view_file": ("files", "read"), "edit_file": ("files", "edit")}
"""The actions that are meant by 002's tools for SWE (app. D.2)."""


def swe_tools(environments: Mapping[str, Factory]) -> list[Tool[..., Any]]:
    """Return these actions, as far as the environments are there, as tools of those names."""
    tools = []
    for name, (environment, action) in SWE.items():
        if environment in environments:
            (tool,) = e2t(environments[environment], only=[action], state=False)
            tools.append(tool.with_name(name, tool.version))
    return tools


REVIEW = form(["points"], points=TEXTS, issues=TEXTS)

MOST_POINTS, POINT_CHARS = 10, 600
"""Points of a trace that the orchestrator is shown at most, and as many issues; the length of one."""


@dataclass(frozen=True)
class AOrchestra(Limited[AOrchestraSettings]):
    """The system: orchestrate, delegate, complete."""

    finishes_by_call: ClassVar[bool] = True
    description: ClassVar[str] = "Directs sub-agents that it makes for each part, with the tools that the part needs."

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Do one task.

        Raises:
            UnknownComponentError: the settings name a toolset of which the run has nothing.
            UnknownSystemError: the settings name an executor that is not there.
        """
        limits = self.limits
        if limits.executor not in kit.agents:
            find_system(limits.executor, kit.systems, kit.absent)
        tools = offered_tools(spec, kit, limits)
        models = offered_models(ctx, limits)
        work = Delegation(spec, ctx, kit, limits, tools, models)
        is_graded = limits.toolset in ("terminal", "swe")
        finish = submit_tool() if is_graded else done_tool(spec.output_schema, base=complete)
        own = spec.model_copy(update={"role": MAIN, "tools": ()})
        values = {
            "graded": is_graded,
            "attempts": limits.attempts,
            "context": limits.context,
            "sees_question": limits.question,
            "actions": [{"name": name, "purpose": purpose} for name, purpose in tools.items()],
            "models": [{"name": name, **self._price(real, kit)} for name, real in models.items()],
        }
        narrow = replace(kit, max_calls=limits.parallel)
        result = await run_agent(own, ctx, narrow, prompt=NAME, own=(work.tool, finish), values=values, receives=False)
        sources = dict.fromkeys(citation for _, result in work.finished() for citation in result.sources)
        return result.model_copy(update={"sources": (*result.sources, *sources)})

    def _price(self, model: str, kit: Kit) -> dict[str, str]:
        price = kit.models.dollars(model)
        rates = "" if price is None else f"${price[0]:g} in, ${price[1]:g} out per million tokens"
        return {"price": rates, "guide": self.limits.guide.get(model, "")}


def offered_tools(spec: AgentSpec, kit: Kit, limits: AOrchestraSettings) -> dict[str, str]:
    """Return what sub-agents may be given, by name, with what each is for: of what the orchestrator itself may use.

    Raises:
        UnknownComponentError: of the toolset nothing is in the run.
    """
    available = {*kit.tools, *kit.environments} - CALLED_BY_CODE
    usable = [name for name in spec.tools if name in available]
    subset = TOOLSETS.get(limits.toolset)
    names = [name for name in usable if (name in subset if subset is not None else name not in kit.apart)]
    if subset is not None and not names:
        raise UnknownComponentError(
            f"the toolset {limits.toolset!r} (aorchestra.toolset) needs {' or '.join(subset)}, and the run has none of "
            "them; name environments with --environment, and see that the settings leave the tools on"
        )
    return {name: purpose(name, kit) for name in names}


def offered_models(ctx: BranchContext[Any], limits: AOrchestraSettings) -> dict[str, str]:
    """Return the models that a delegation may name, by the name it uses: their own, or `model_1`, ..."""
    choices = limits.models or ctx.manifest.choices or ()
    return {f"model_{n}" if limits.mask else name: name for n, name in enumerate(choices, start=1)}


@dataclass
class Delegation:
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

        return tool_from_schema(
            self._delegate,
            schema,
            effect="composite",
            check=check,
            takes_context=True,
            traits=Traits(delegates=True),
            trust=self._trust(),
        )

    def _trust(self) -> Trust:
        """Return how far the names in the schema are trusted: a server's tools are named by whoever runs it."""
        return lowest(Trust.SYSTEM, *(tool.schema.trust for name in self.tools if (tool := self.kit.tools.get(name))))

    def _schema(self) -> ToolSchema:
        properties: dict[str, Any] = {
            "task_instruction": {
                "type": "string",
                "minLength": 1,
                "description": "What the sub-agent is to do, and by what it is done.",
            },
            "context": {
                "type": "string",
                "description": "What it needs to know: what was found, with its places; what was ruled out.",
            },
            "tools": {
                "type": "array",
                "items": {"type": "string", "enum": [*self.tools]},
                "minItems": 1,
                "description": "What it may use, and nothing else.",
            },
            "model": {"type": "string", "enum": [*self.models], "description": "Which model it is."},
        }
        if self.limits.context != "curated":
            del properties["context"]
        if len(self.models) < 2:
            del properties["model"]
        return ToolSchema(
            name=DELEGATE,
            description="Have a sub-agent, made for this, do one part of the task.",
            parameters={
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if name != "context"],
                "additionalProperties": False,
            },
        )

    def _with_near(self, problem: str, arguments: dict[str, Any]) -> str:
        """Return a problem with the name that was probably meant."""
        tools = arguments.get("tools")
        wrong = [str(name) for name in (tools if isinstance(tools, list) else ()) if name not in self.tools]
        valid = [*self.tools] if problem.startswith("tools") else [*self.models] if problem.startswith("model") else []
        names = wrong if problem.startswith("tools") else [str(arguments.get("model", ""))]
        misspelt = [name for name in names if name and repr(name) in problem]
        near = [candidate for name in misspelt for candidate in nearest(name, valid)]
        return f"{problem}; did you mean {near[0]!r}?" if near else problem

    # -- one delegation ------------------------------------------------------------------------------------------------

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
        result, trust = await self._handed_back(ctx, child, outcome)
        return ToolResult(content=self._view(result, model, attempt), artifacts=result.artifacts, trust=trust)

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

    # -- what comes back -----------------------------------------------------------------------------------------------

    async def _handed_back(
        self, ctx: BranchContext[Any], child: AgentSpec, outcome: Outcome
    ) -> tuple[AgentResult, Trust]:
        """Return a sub-agent's result with what its log shows, also of one that was cut off."""
        trace = trace_of(ctx.run.ledger, f"{EffectKey(ctx.branch, ctx.last_n).path}.{child.name}")
        points = await self._review(ctx, child, result_of(outcome), trace)
        result, trust = handed_back(outcome, trace)
        return result.model_copy(update={"findings": points}), trust

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
        reply = await questioner.one(Question("aorchestra_review", REVIEW, values, blocks, beside=True))
        notes = [" ".join(str(point).split()) for point in ((reply or {}).get("points") or ())]
        notes += [f"Issue: {' '.join(str(issue).split())}" for issue in ((reply or {}).get("issues") or ())]
        points = [point for point in notes if point][: 2 * MOST_POINTS] or trace.lines[-MOST_POINTS:]
        return tuple(point[:POINT_CHARS] for point in points)

    def _view(self, result: AgentResult, model: str, attempt: int) -> dict[str, JsonValue]:
        """Return what the orchestrator is shown of a sub-agent: never its raw trace."""
        left = self.limits.attempts - attempt
        model_field = {"model": model} if model else {}
        return {"attempt": attempt, "attempts_left": left, **model_field, **_outline(result)}


def _outline(result: AgentResult) -> dict[str, JsonValue]:
    """Return what a result says, under the paper's names."""
    view: dict[str, JsonValue] = {
        "status": result.status.value,
        "result": result.answer,
        "summary": result.report,
        "sources": list(dict.fromkeys(f"{ref.source}, {ref.place}".strip(", ") for ref in result.sources)),
        "findings": [*result.findings],
        "artifacts": [artifact.name for artifact in result.artifacts],
        "errors": [*result.errors[-MOST_POINTS:]],
        "steps": result.steps,
        "cost_usd": result.cost_usd,
    }
    return {name: value for name, value in view.items() if value not in ("", [], None)}
