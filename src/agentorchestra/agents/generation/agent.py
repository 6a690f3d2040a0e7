"""The tool generator: finds a tool for a need, or makes, tries and registers one (000, app. D.6; 001, 3.3.4).

    analyse -> retrieve -> (trial fits: reuse) -> create -> evaluate -> register -> execute
                                                     ^________|  at most so many attempts, then it is discarded

What a tool is to do is written down, with examples, before there is any code. Generated code runs in the sandbox only.
Each phase is in the log (`tool_phase`), each question, trial and registration an effect: a resume goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.forms import FLAG, TEXT, TEXTS, Form, Inquiry, Limited, Questioner, form, list_of, material
from agentorchestra.agents.generation.specification import (
    LONGEST_NAME,
    SPECIFICATION,
    Case,
    Specification,
    SpecificationError,
    calls_of,
    json_value,
    read_specification,
    short,
)
from agentorchestra.agents.generation.structure import STANDARD, imported_modules, problems_of
from agentorchestra.agents.generation.trials import Trials, try_cases
from agentorchestra.agents.handover import give
from agentorchestra.agents.state import add_tools, call_own
from agentorchestra.agents.types import Kit
from agentorchestra.agents.workshop import TRIAL, TRIAL_S, Workshop, may_try, performance, workshop_tools
from agentorchestra.core.content import TextBlock
from agentorchestra.core.effects import Outcome
from agentorchestra.core.ids import sha256_json, sha256_text
from agentorchestra.core.reply_text import without_fence
from agentorchestra.core.settings import GeneratorSettings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.environments.registry import PACKAGED
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.programs.foreign import called_tools
from agentorchestra.tea.programs.imports import parse_source

NAME = "tool_generator"

CODE = form(["code"], code=TEXT)
FITS = form(["fits"], fits=list_of(form(["tool", "calls"], tool=TEXT, calls=Form(TEXTS, {"type": "array"}))))
VERDICT = form(["right"], reason=TEXT, right=FLAG, problem=TEXT)
EXAMPLES = 2  # of what a tool is to give, written before its code; more are tried too
CANDIDATES = 3  # tools that are there already and are tried in its place
_ANALYSES = 2  # times that a specification is asked for, where the first one is none
_MOST_PROBLEMS = 5  # problems of one attempt that its author is told


@dataclass
class _Generation:
    """One need for a tool."""

    spec: AgentSpec
    ctx: BranchContext[Any]
    kit: Kit
    shop: Workshop
    limits: GeneratorSettings
    questioner: Questioner
    judging: Questioner
    tools: dict[str, Tool[..., Any]]
    reasons: list[str] = field(default_factory=list)
    attempt: int = 0

    async def run(self) -> AgentResult:
        need = await self._analyse()
        if need is None:
            return self._without()
        match = await self._retrieve(need)
        if isinstance(match, AgentResult):
            return match
        need = match
        problems: list[str] = []
        code = ""
        for number in range(1, self.limits.attempts + 1):
            self.attempt = number
            draft = await self._create(need, code, problems)
            if draft is None:
                problems = [self.questioner.limited or "the model gave no code"]
                self.reasons = problems
                break
            code = draft
            trials = await self._evaluate(need, code)
            problems = [*trials.problems][:_MOST_PROBLEMS]
            if not problems:
                registration = await self._register(need, code, trials)
                if isinstance(registration, AgentResult):
                    return registration
                # Somebody else has the name since: what was made is right, and is called otherwise.
                need = registration
                problems = [f"another tool is called so by now: name the function {need.name}"]
            self.reasons = problems
        await self._phase("discarded", "no attempt passed", need.name, self.reasons)
        return self._without(need.name)

    # -- analyse -----------------------------------------------------------------------------------------------------

    async def _analyse(self) -> Specification | None:
        values: dict[str, Any] = {
            "task": self.spec.instruction,
            "examples": EXAMPLES,
            "tools": self._callable(),
            "problem": "",
        }
        for _ in range(_ANALYSES):
            reply = await self.questioner.one(Inquiry("tool_spec", SPECIFICATION, values, tuple(self.spec.context)))
            if reply is None:
                self.reasons = [self.questioner.limited or "the model gave no specification"]
                break
            if not reply["possible"]:
                self.reasons = [str(reply.get("reason") or "the model says that no function can do it")]
                break
            try:
                need = read_specification(reply, self.spec.instruction, EXAMPLES)
            except SpecificationError as exc:
                self.reasons = [str(exc)]
                values = {**values, "problem": str(exc)}
                continue
            self.reasons = []
            need = replace(need, name=self._free(need.name))
            await self._phase("analysed", "specified", need.name)
            return need
        await self._phase("analysed", "no specification", "", self.reasons)
        return None

    def _free(self, name: str) -> str:
        """Return the name; another one where an action of an environment may have it, since an agent may have both."""
        clash = any(name.startswith(f"{environment}_") for environment in (*PACKAGED, *self.kit.environments))
        return f"tool_{name}"[:LONGEST_NAME] if clash else name

    def _callable(self) -> list[str]:
        rights = self.ctx.capabilities
        return [name for name in self.limits.tools if name in self.kit.tools and (rights is None or name in rights)]

    # -- retrieve ----------------------------------------------------------------------------------------------------

    async def _retrieve(self, need: Specification) -> AgentResult | Specification:
        """Return the result of a tool that is there already; else the specification, under a name that is free."""
        query = f"{need.name.replace('_', ' ')}: {need.description}"
        arguments = {"query": query, "name": need.name, "limit": CANDIDATES}
        outcome = await self._own("retrieve_tools", arguments)
        reply: dict[str, Any] = outcome.value if outcome.ok and isinstance(outcome.value, dict) else {}
        candidates = [candidate for candidate in reply.get("candidates", ()) if isinstance(candidate, dict)]
        refusals: list[str] = []
        for candidate, calls in await self._fitting(need, candidates):
            name = str(candidate["name"])
            tool = self._registered_tool(candidate)
            if tool is None:
                continue
            trial = tool.with_name(f"{TRIAL}{name}"[:64], "0.0.0")
            cases = [Case(call, case.expected, case.known) for call, case in zip(calls, need.cases, strict=True)]
            trials = await try_cases(self.ctx, trial, cases, need.returns, twice=False)
            problems = [*trials.problems] or await self._judge(need, cases[-1], trials.value)
            if problems:
                refusals.append(f"{name}: {problems[0]}")
                continue
            await self._phase("retrieved", f"{name}@{tool.version} fits", need.name, refusals)
            result = await self._execute(tool, calls[-1], f"The tool {tool.component} was there already.", need)
            if result.status is RunStatus.COMPLETED and candidate.get("source") and candidate.get("for_all"):
                give(self.ctx, name, tool.version, str(candidate["source"]), str(candidate.get("symbol") or ""))
            return result
        await self._phase("retrieved", "nothing that fits" if candidates else "nothing", need.name, refusals)
        name = str(reply.get("free_name") or need.name)
        return replace(need, name=name)

    async def _fitting(
        self, need: Specification, candidates: list[dict[str, Any]]
    ) -> list[tuple[dict[str, Any], list[dict[str, JsonValue]]]]:
        """Candidates with the arguments of every case: as they are where they fit, else as the model says."""
        matches = []
        misfits = []
        for candidate in candidates:
            closed = {"additionalProperties": False, **candidate["parameters"]}
            calls = [dict(case.arguments) for case in need.cases]
            if any(schema_problems(call, closed) for call in calls):
                misfits.append(candidate)
            else:
                matches.append((candidate, calls))
        if not misfits:
            return matches
        values = {"task": self.spec.instruction, "spec": {**need.shown, "case": need.case.arguments}}
        reply = await self.questioner.one(Inquiry("tool_fit", FITS, values, (_candidates_block(misfits),)))
        for fit in (reply or {}).get("fits", ()):
            candidate_rows = [candidate for candidate in misfits if candidate["name"] == fit["tool"]]
            fit_calls = [call for call in map(json_value, fit["calls"]) if isinstance(call, dict)]
            if candidate_rows and len(fit_calls) == len(need.cases):
                matches.append((candidate_rows[0], fit_calls))
        return matches

    def _registered_tool(self, candidate: Mapping[str, Any]) -> Tool[..., Any] | None:
        name, version = str(candidate["name"]), str(candidate["version"])
        if candidate.get("source"):
            return self.shop.tool(candidate["source"], name, version, symbol=str(candidate.get("symbol") or ""))
        kit_tool = self.kit.tools.get(name)
        caller = self.ctx.parent
        rights = caller.capabilities if caller is not None else None
        if kit_tool is None or kit_tool.version != version or not may_try(kit_tool):
            return None
        return kit_tool if rights is None or name in rights else None

    # -- create and evaluate -----------------------------------------------------------------------------------------

    async def _create(self, need: Specification, before: str, problems: list[str]) -> str | None:
        values = {
            "spec": need.shown,
            "libraries": sorted({*self.limits.libraries}),
            "standard": sorted(STANDARD),
            "tools": self._callable(),
            "seconds": f"{TRIAL_S:g}",
            "before": before,
            "problems": problems,
        }
        reply = await self.questioner.one(Inquiry("tool_code", CODE, values, _failures(problems)))
        code = _plain_code(str(reply["code"])) if reply is not None else ""
        await self._phase("created", "written" if code else "no code", need.name)
        return code or None

    async def _evaluate(self, need: Specification, code: str) -> Trials:
        """Check the structure, run the trials and have the case judged; return what is wrong with it all."""
        trials = Trials(tuple(problems_of(code, need, self.limits)))
        if not trials.problems:
            trial_tool = self.shop.trial(code, need.name)
            trials = await try_cases(self.ctx, trial_tool, need.cases, need.returns, twice=True)
        if not trials.problems:
            verdict = await self._judge(need, need.case, trials.value)
            trials = Trials(tuple(verdict), trials.value, trials.seconds)
        outcome = "failed" if trials.problems else "passed"
        await self._phase("evaluated", outcome, need.name, [*trials.problems][:_MOST_PROBLEMS])
        return trials

    async def _judge(self, need: Specification, case: Case, value: JsonValue) -> list[str]:
        """Return what somebody who has not seen the code finds wrong with a result that the task does not state."""
        if case.known:
            return []
        values = {"task": self.spec.instruction, "description": need.description, "arguments": case.arguments}
        result = material(short(value, 20_000), need.name, "tool")
        reply = await self.judging.one(Inquiry("tool_judge", VERDICT, values, (*self.spec.context, result)))
        if reply is None:
            return ["nobody could judge its result"]
        if reply["right"]:
            return []
        return [f"with {short(case.arguments)} it gave {short(value)}: {reply.get('problem') or 'that is not right'}"]

    # -- register and execute ----------------------------------------------------------------------------------------

    async def _register(self, need: Specification, code: str, trials: Trials) -> AgentResult | Specification:
        """Return the result of the new tool; of another's where the name was taken meanwhile; else a free name."""
        manifest: dict[str, JsonValue] = {
            "id": f"{need.name}-{sha256_text(code)[:12]}",
            "display_name": need.title,
            "purpose": need.description,
            "generated": True,
            "parameters": need.parameters,
            "returns": need.returns,
            "dependencies": [*imported_modules(code)],
            "permissions": ["execute", *sorted(called_tools(parse_source(code)))],
            "fingerprint": sha256_text(code),
            "examples": [*calls_of(need.examples), *calls_of([Case(need.case.arguments, trials.value)])],
            "performance": performance(trials.seconds, self.attempt),
        }
        arguments: dict[str, Any] = {
            "name": need.name,
            "source": code,
            "reason": self.spec.instruction,
            "manifest": manifest,
        }
        if not await self._keeps(need, code):
            arguments["keep"] = False
        outcome = await self._own("register_tool", arguments)
        if not outcome.ok or not isinstance(outcome.value, dict):
            self.reasons = [outcome.error or "it could not be registered"]
            await self._phase("discarded", "not registered", need.name, self.reasons)
            # Somebody else was faster, perhaps with the same need.
            match = await self._retrieve(need)
            clash = isinstance(match, AgentResult) or match.name != need.name
            return match if clash else self._without(need.name)
        version = str(outcome.value["version"])
        await self._phase("registered", f"version {version}", need.name)
        new_tool = self.shop.tool(code, need.name, version)
        origin = f"The tool {new_tool.component} was made and tried."
        result = await self._execute(new_tool, need.case.arguments, origin, need)
        if result.status is RunStatus.COMPLETED:
            give(self.ctx, need.name, version, code)
        return result

    async def _keeps(self, need: Specification, code: str) -> bool:
        """Return True if the workspace keeps the tool for later runs, as the run was set or the user says."""
        keep = self.ctx.manifest.keep_tools
        if keep != "ask":
            return keep == "workspace"
        question = (
            f"Keep the generated tool {need.name!r} for later tasks of this workspace? "
            "Answer yes or no; with no, only this run can use it."
        )
        reply = await self.ctx.ask(question, tool=need.name, description=need.description, source=code, otherwise="no")
        return reply.strip().strip(".!").casefold() in ("y", "yes")

    async def _execute(
        self, tool: Tool[..., Any], arguments: Mapping[str, JsonValue], origin: str, need: Specification
    ) -> AgentResult:
        outcome = await call_own(self.ctx, tool, arguments, self.ctx.provenance)
        await self._phase(
            "executed", "done" if outcome.ok else "failed", tool.name, [outcome.error or ""][outcome.ok :]
        )
        summary = f"{origin} {need.description} It was called with {short(dict(arguments))}."
        if not outcome.ok:
            return AgentResult(status=RunStatus.BLOCKED, report=f"{summary} It failed: {outcome.error}")
        value = outcome.value
        schema = self.spec.output_schema
        return AgentResult(
            answer=value if isinstance(value, str) else short(value, 20_000),
            output=value if schema is not None and not schema_problems(value, schema) else None,
            report=f"{summary} Agents that run Python and are asked from now on can call it as {tool.name}.",
            steps=max(1, self.attempt),
        )

    def _without(self, name: str = "") -> AgentResult:
        head = f"The tool {name} was discarded" if name else "No tool was made"
        tries = f" after {self.attempt} attempts" if self.attempt > 1 else ""
        return AgentResult(
            status=RunStatus.BLOCKED, report=f"{head}{tries}: {'; '.join(self.reasons)}", steps=max(1, self.attempt)
        )

    # -- effects -----------------------------------------------------------------------------------------------------

    async def _own(self, name: str, arguments: dict[str, Any]) -> Outcome:
        return await call_own(self.ctx, self.tools[name], arguments, self.ctx.provenance)

    async def _phase(self, phase: str, outcome: str, tool: str, reasons: list[str] | None = None) -> None:
        excerpts = [reason[:600] for reason in reasons or ()]
        fields = {"phase": phase, "outcome": outcome, "reasons": excerpts, "tool": tool, "attempt": self.attempt}
        await self._own("tool_phase", {name: value for name, value in fields.items() if value})


def _candidates_block(candidates: list[dict[str, Any]]) -> TextBlock:
    """Return the candidates as material: their words are anybody's."""
    lines = [f"{tool['name']}: {tool['description']}\n  {short(tool['parameters'], 3000)}" for tool in candidates]
    return material("\n".join(lines), "registry", "tool")


def _failures(problems: list[str]) -> tuple[TextBlock, ...]:
    """Return what was wrong with the last code, as material: results and errors in it may be anybody's words."""
    if not problems:
        return ()
    return (material("\n".join(f"- {problem}" for problem in problems), "trial", "tool"),)


def _plain_code(text: str) -> str:
    code = without_fence(text).strip()
    return f"{code}\n" if code else ""


class ToolGenerator(Limited[GeneratorSettings]):
    @property
    def content_hash(self) -> str:
        return sha256_json(self.limits.model_dump(mode="json", exclude={"keep"}))  # `keep` is the run's

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Return the result of the task's case, by a tool that was found or made."""
        shop = kit.workshop
        if shop is None or (not ctx.run.replaying and (problem := await shop.problem())):
            reason = problem if shop is not None else "this workspace has no sandbox"
            return AgentResult(status=RunStatus.BLOCKED, report=f"No tool can be made here: {reason}")
        tools = workshop_tools(shop, ctx.actor)
        add_tools(ctx, *tools.values())
        questioner = Questioner(ctx, kit, spec.role, spec.model)
        judging = Questioner(ctx, kit, "judge")
        return await _Generation(spec, ctx, kit, shop, self.limits, questioner, judging, tools).run()


def tool_generator(limits: GeneratorSettings | None = None) -> Agent:
    limits = limits or GeneratorSettings()
    return Agent(
        name=NAME,
        description=(
            "Provides a missing tool: a calculation, conversion, parser or extraction as a Python function of JSON "
            "values. It finds or makes, tests and registers one, and gives its result for the case at hand. Say what "
            "is wanted and the values."
        ),
        tools=limits.tools,
        role="generator",
        max_steps=limits.attempts,
        drive=ToolGenerator(limits),
        needs=("sandbox",),
    )
