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
from agentorchestra.agents.forms import FLAG, TEXT, TEXTS, Form, Limited, Question, Questioner, form, list_of, material
from agentorchestra.agents.generation.delivery import give
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
from agentorchestra.agents.generation.structure import STANDARD, imported, problems_of
from agentorchestra.agents.generation.trials import Trials, tried
from agentorchestra.agents.generation.workshop import TRIAL, Workshop, may_try, performance, workshop_tools
from agentorchestra.agents.state import add_tools, call_own
from agentorchestra.agents.types import Kit
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
_ANALYSES = 2  # times that a specification is asked for, where the first one is none
_TOLD = 5  # problems of one attempt that its author is told


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
        wanted = await self._analyse()
        if wanted is None:
            return self._without()
        reused = await self._retrieve(wanted)
        if isinstance(reused, AgentResult):
            return reused
        wanted = reused
        problems: list[str] = []
        code = ""
        for number in range(1, self.limits.attempts + 1):
            self.attempt = number
            written = await self._create(wanted, code, problems)
            if written is None:
                problems = [self.questioner.limited or "the model gave no code"]
                self.reasons = problems
                break
            code = written
            trials = await self._evaluate(wanted, code)
            problems = [*trials.problems][:_TOLD]
            if not problems:
                made = await self._register(wanted, code, trials)
                if isinstance(made, AgentResult):
                    return made
                # Somebody else has the name since: what was made is right, and is called otherwise.
                wanted, problems = made, [f"another tool is called so by now: name the function {made.name}"]
            self.reasons = problems
        await self._phase("discarded", "no attempt passed", wanted.name, self.reasons)
        return self._without(wanted.name)

    # -- analyse -----------------------------------------------------------------------------------------------------

    async def _analyse(self) -> Specification | None:
        values: dict[str, Any] = {
            "task": self.spec.instruction,
            "examples": self.limits.examples,
            "tools": self._callable(),
            "problem": "",
        }
        for _ in range(_ANALYSES):
            reply = await self.questioner.one(Question("tool_spec", SPECIFICATION, values, tuple(self.spec.context)))
            if reply is None:
                self.reasons = [self.questioner.limited or "the model gave no specification"]
                break
            if not reply["possible"]:
                self.reasons = [str(reply.get("reason") or "the model says that no function can do it")]
                break
            try:
                wanted = read_specification(reply, self.spec.instruction, self.limits.examples)
            except SpecificationError as exc:
                self.reasons = [str(exc)]
                values = {**values, "problem": str(exc)}
                continue
            self.reasons = []
            wanted = replace(wanted, name=self._free(wanted.name))
            await self._phase("analysed", "specified", wanted.name)
            return wanted
        await self._phase("analysed", "no specification", "", self.reasons)
        return None

    def _free(self, name: str) -> str:
        """Return the name; another one where an action of an environment may have it, since an agent may have both."""
        taken = any(name.startswith(f"{one}_") for one in (*PACKAGED, *self.kit.environments))
        return f"tool_{name}"[:LONGEST_NAME] if taken else name

    def _callable(self) -> list[str]:
        held = self.ctx.capabilities
        return [name for name in self.limits.tools if name in self.kit.tools and (held is None or name in held)]

    # -- retrieve ----------------------------------------------------------------------------------------------------

    async def _retrieve(self, wanted: Specification) -> AgentResult | Specification:
        """Return the result of a tool that is there already; else the specification, under a name that is free."""
        query = f"{wanted.name.replace('_', ' ')}: {wanted.description}"
        asked = {"query": query, "name": wanted.name, "limit": self.limits.candidates}
        outcome = await self._own("retrieve_tools", asked)
        found: dict[str, Any] = outcome.value if outcome.ok and isinstance(outcome.value, dict) else {}
        held = [one for one in found.get("candidates", ()) if isinstance(one, dict)]
        refused: list[str] = []
        for one, calls in await self._fitting(wanted, held):
            name = str(one["name"])
            known = self._known(one)
            if known is None:
                continue
            trial = known.renamed(f"{TRIAL}{name}"[:64], "0.0.0")
            cases = [Case(call, case.expected, case.known) for call, case in zip(calls, wanted.cases, strict=True)]
            trials = await tried(self.ctx, trial, cases, wanted.returns, twice=False)
            problems = [*trials.problems] or await self._judged(wanted, cases[-1], trials.value)
            if problems:
                refused.append(f"{name}: {problems[0]}")
                continue
            await self._phase("retrieved", f"{name}@{known.version} fits", wanted.name, refused)
            result = await self._execute(known, calls[-1], f"The tool {known.component} was there already.", wanted)
            if result.status is RunStatus.COMPLETED and one.get("source") and one.get("for_all"):
                give(self.ctx, name, known.version, str(one["source"]), str(one.get("symbol") or ""))
            return result
        await self._phase("retrieved", "nothing that fits" if held else "nothing", wanted.name, refused)
        name = str(found.get("free_name") or wanted.name)
        return replace(wanted, name=name)

    async def _fitting(
        self, wanted: Specification, held: list[dict[str, Any]]
    ) -> list[tuple[dict[str, Any], list[dict[str, JsonValue]]]]:
        """Candidates with the arguments of every case: as they are where they fit, else as the model says."""
        found = []
        others = []
        for one in held:
            closed = {"additionalProperties": False, **one["parameters"]}
            calls = [dict(case.arguments) for case in wanted.cases]
            if any(schema_problems(call, closed) for call in calls):
                others.append(one)
            else:
                found.append((one, calls))
        if not others:
            return found
        values = {"task": self.spec.instruction, "spec": {**wanted.shown, "case": wanted.case.arguments}}
        reply = await self.questioner.one(Question("tool_fit", FITS, values, (_listed(others),)))
        for said in (reply or {}).get("fits", ()):
            named = [one for one in others if one["name"] == said["tool"]]
            given = [call for call in map(json_value, said["calls"]) if isinstance(call, dict)]
            if named and len(given) == len(wanted.cases):
                found.append((named[0], given))
        return found

    def _known(self, candidate: Mapping[str, Any]) -> Tool[..., Any] | None:
        name, version = str(candidate["name"]), str(candidate["version"])
        if candidate.get("source"):
            return self.shop.tool(candidate["source"], name, version, symbol=str(candidate.get("symbol") or ""))
        one = self.kit.tools.get(name)
        caller = self.ctx.parent
        held = caller.capabilities if caller is not None else None
        if one is None or one.version != version or not may_try(one):
            return None
        return one if held is None or name in held else None

    # -- create and evaluate -----------------------------------------------------------------------------------------

    async def _create(self, wanted: Specification, before: str, problems: list[str]) -> str | None:
        values = {
            "spec": wanted.shown,
            "libraries": sorted({*self.limits.libraries}),
            "standard": sorted(STANDARD),
            "tools": self._callable(),
            "seconds": f"{self.limits.trial_s:g}",
            "before": before,
            "problems": problems,
        }
        reply = await self.questioner.one(Question("tool_code", CODE, values, _failures(problems)))
        code = _plain_code(str(reply["code"])) if reply is not None else ""
        await self._phase("created", "written" if code else "no code", wanted.name)
        return code or None

    async def _evaluate(self, wanted: Specification, code: str) -> Trials:
        """Check the structure, run the trials and have the case judged; return what is wrong with it all."""
        trials = Trials(tuple(problems_of(code, wanted, self.limits)))
        if not trials.problems:
            one = self.shop.trial(code, wanted.name, self.limits.trial_s)
            trials = await tried(self.ctx, one, wanted.cases, wanted.returns, twice=True)
        if not trials.problems:
            judged = await self._judged(wanted, wanted.case, trials.value)
            trials = Trials(tuple(judged), trials.value, trials.seconds)
        outcome = "failed" if trials.problems else "passed"
        await self._phase("evaluated", outcome, wanted.name, [*trials.problems][:_TOLD])
        return trials

    async def _judged(self, wanted: Specification, case: Case, value: JsonValue) -> list[str]:
        """Return what somebody who has not seen the code finds wrong with a result that the task does not state."""
        if case.known:
            return []
        values = {"task": self.spec.instruction, "description": wanted.description, "arguments": case.arguments}
        result = material(short(value, 20_000), wanted.name, "tool")
        reply = await self.judging.one(Question("tool_judge", VERDICT, values, (*self.spec.context, result)))
        if reply is None:
            return ["nobody could judge its result"]
        if reply["right"]:
            return []
        return [f"with {short(case.arguments)} it gave {short(value)}: {reply.get('problem') or 'that is not right'}"]

    # -- register and execute ----------------------------------------------------------------------------------------

    async def _register(self, wanted: Specification, code: str, trials: Trials) -> AgentResult | Specification:
        """Return the result of the new tool; of another's where the name was taken meanwhile; else a free name."""
        manifest: dict[str, JsonValue] = {
            "id": f"{wanted.name}-{sha256_text(code)[:12]}",
            "display_name": wanted.title,
            "purpose": wanted.description,
            "generated": True,
            "parameters": wanted.parameters,
            "returns": wanted.returns,
            "dependencies": [*imported(code)],
            "permissions": ["execute", *sorted(called_tools(parse_source(code)))],
            "fingerprint": sha256_text(code),
            "examples": [*calls_of(wanted.examples), *calls_of([Case(wanted.case.arguments, trials.value)])],
            "performance": performance(trials.seconds, self.attempt),
        }
        asked: dict[str, Any] = {
            "name": wanted.name,
            "source": code,
            "reason": self.spec.instruction,
            "manifest": manifest,
        }
        if not await self._keeps(wanted, code):
            asked["keep"] = False
        outcome = await self._own("register_tool", asked)
        if not outcome.ok or not isinstance(outcome.value, dict):
            self.reasons = [outcome.error or "it could not be registered"]
            await self._phase("discarded", "not registered", wanted.name, self.reasons)
            # Somebody else was faster, perhaps with the same need.
            reused = await self._retrieve(wanted)
            taken = isinstance(reused, AgentResult) or reused.name != wanted.name
            return reused if taken else self._without(wanted.name)
        version = str(outcome.value["version"])
        await self._phase("registered", f"version {version}", wanted.name)
        one = self.shop.tool(code, wanted.name, version)
        how = f"The tool {one.component} was made and tried."
        result = await self._execute(one, wanted.case.arguments, how, wanted)
        if result.status is RunStatus.COMPLETED:
            give(self.ctx, wanted.name, version, code)
        return result

    async def _keeps(self, wanted: Specification, code: str) -> bool:
        """Return True if the workspace keeps the tool for later runs, as the run was set or the user says."""
        keep = self.ctx.manifest.keep_tools
        if keep != "ask":
            return keep == "workspace"
        question = (
            f"Keep the generated tool {wanted.name!r} for later tasks of this workspace? "
            "Answer yes or no; with no, only this run can use it."
        )
        said = await self.ctx.ask(
            question, tool=wanted.name, description=wanted.description, source=code, otherwise="no"
        )
        return said.strip().strip(".!").casefold() in ("y", "yes")

    async def _execute(
        self, one: Tool[..., Any], arguments: Mapping[str, JsonValue], how: str, wanted: Specification
    ) -> AgentResult:
        outcome = await call_own(self.ctx, one, arguments, self.ctx.provenance)
        await self._phase("executed", "done" if outcome.ok else "failed", one.name, [outcome.error or ""][outcome.ok :])
        said = f"{how} {wanted.description} It was called with {short(dict(arguments))}."
        if not outcome.ok:
            return AgentResult(status=RunStatus.BLOCKED, report=f"{said} It failed: {outcome.error}")
        value = outcome.value
        schema = self.spec.output_schema
        return AgentResult(
            answer=value if isinstance(value, str) else short(value, 20_000),
            output=value if schema is not None and not schema_problems(value, schema) else None,
            report=f"{said} Agents that run Python and are asked from now on can call it as {one.name}.",
            steps=max(1, self.attempt),
        )

    def _without(self, name: str = "") -> AgentResult:
        what = f"The tool {name} was discarded" if name else "No tool was made"
        tries = f" after {self.attempt} attempts" if self.attempt > 1 else ""
        return AgentResult(
            status=RunStatus.BLOCKED, report=f"{what}{tries}: {'; '.join(self.reasons)}", steps=max(1, self.attempt)
        )

    # -- effects -----------------------------------------------------------------------------------------------------

    async def _own(self, name: str, arguments: dict[str, Any]) -> Outcome:
        return await call_own(self.ctx, self.tools[name], arguments, self.ctx.provenance)

    async def _phase(self, phase: str, outcome: str, tool: str, reasons: list[str] | None = None) -> None:
        told = [one[:600] for one in reasons or ()]
        said = {"phase": phase, "outcome": outcome, "reasons": told, "tool": tool, "attempt": self.attempt}
        await self._own("tool_phase", {name: value for name, value in said.items() if value})


def _listed(candidates: list[dict[str, Any]]) -> TextBlock:
    """Return the candidates as material: their words are anybody's."""
    lines = [f"{one['name']}: {one['description']}\n  {short(one['parameters'], 3000)}" for one in candidates]
    return material("\n".join(lines), "registry", "tool")


def _failures(problems: list[str]) -> tuple[TextBlock, ...]:
    """Return what was wrong with the last code, as material: results and errors in it may be anybody's words."""
    if not problems:
        return ()
    return (material("\n".join(f"- {one}" for one in problems), "trial", "tool"),)


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
            why = problem if shop is not None else "this workspace has no sandbox"
            return AgentResult(status=RunStatus.BLOCKED, report=f"No tool can be made here: {why}")
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
