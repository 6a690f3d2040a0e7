"""Self-reflection: a diagnosis of runs, the texts that had most part in a failure, a targeted change (000, app. C.4).

    run ─> diagnosis: failures, missing facts, wrong assumptions, unsafe actions, and whose part it was
             │ of all runs
             v
    variables with the greatest part ─> a change of each ─> constraints by code ─> code: tried in the sandbox
                                           ^______________________________________________│ refused: again, with why

A patch of a tool is called with the arguments of the recorded calls, the failed ones first: it must not fail on any of
them. What is proposed is the run's `output`; nothing is registered here (`evolution/`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import JsonValue

from agentorchestra.agents.agent import is_top
from agentorchestra.agents.forms import NUMBER, TEXT, TEXTS, Form, Inquiry, Questioner, form, list_of
from agentorchestra.agents.generation.specification import Case
from agentorchestra.agents.generation.trials import try_cases
from agentorchestra.agents.optimiser.constraints import with_source
from agentorchestra.agents.optimiser.evidence import (
    Evidence,
    Optimisation,
    Variable,
    check_optimiser,
    cut,
    read_options,
)
from agentorchestra.agents.optimiser.revision import Revision, Wanted, proposal_result, titled_material
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block
from agentorchestra.core.errors import SourceError
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext

NAME = "reflection"
DIAGNOSIS = "reflection_diagnosis"

HIGHEST = 10  # the greatest part that a text can have in a failure
MOST_TRIALS = 8  # recorded calls that a patch is tried with

_TITLES = {
    "failures": "What failed",
    "missing": "What was missing",
    "assumptions": "What was assumed wrongly",
    "unsafe": "What was unsafe",
}


@dataclass(frozen=True)
class Reflection:
    """The system: diagnosis, choice of variables, targeted changes."""

    description: ClassVar[str] = "Improves texts of components by a diagnosis of recorded runs; patches are tried."

    def check_options(self, options: Mapping[str, JsonValue], agents: Any, model: str) -> None:
        """Refuse variables and evidence that it could not work with; see `evidence.read_options`."""
        check_optimiser(NAME, options, model)

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Return the proposed changes as the `output`; raise EvidenceError as `check_options` does."""
        options = read_options(ctx.manifest.options if is_top(ctx) else {}, NAME)
        return await _Reflecting(ctx, kit, options, Questioner(ctx, kit, spec.role, spec.model)).run()


@dataclass
class _Reflecting:
    ctx: BranchContext[Any]
    kit: Kit
    options: Optimisation
    questioner: Questioner

    async def run(self) -> AgentResult:
        runs = self.options.evidence
        replies = await self.questioner.all([self._diagnosis_question(run) for run in runs])
        diagnoses = [(run, reply) for run, reply in zip(runs, replies, strict=True) if reply is not None]
        if not diagnoses:
            reason = "No diagnosis of a run could be had, so nothing is proposed."
            return proposal_result(self.questioner, reason, is_blocked=True)
        report = [f"Diagnosis of {run.run}:\n{text}" for run, reply in diagnoses if (text := _in_words(reply))]
        targets = self._targets([reply for _, reply in diagnoses])
        if not targets:
            report.append("No text had a part in what was diagnosed, so nothing is proposed.")
        revision = Revision(self.questioner, self.options.limits, self._trial)
        changes = await revision.run(targets)
        return proposal_result(self.questioner, "\n\n".join([*report, *revision.left]), changes)

    def _targets(self, replies: Sequence[Mapping[str, Any]]) -> list[Wanted]:
        """Return the variables with the greatest part in the failures, over all runs, with what is said of each."""
        parts: dict[str, float] = {}
        notes: dict[str, list[str]] = {}
        for reply in replies:
            for cause in reply.get("causes") or ():
                key, part = str(cause["variable"]), float(cause["part"])
                if part > 0:
                    parts[key] = parts.get(key, 0.0) + part
                    notes.setdefault(key, []).append(f"{_in_words(reply)}\nIts part: {cause.get('why') or 'not said'}")
        keys = sorted(parts, key=lambda key: -parts[key])[: self.options.limits.changes]
        return [Wanted(self.options.of(key), tuple(notes[key])) for key in keys]

    def _diagnosis_question(self, evidence: Evidence) -> Inquiry:
        chars = self.options.limits.chars
        variables = self.options.variables
        cause = form(
            ["variable", "part"],
            variable={**TEXT, "enum": [variable.key for variable in variables]},
            part=Form(NUMBER, {**NUMBER, "minimum": 0, "maximum": HIGHEST}),
            why=TEXT,
        )
        schema = form(["causes"], failures=TEXTS, missing=TEXTS, assumptions=TEXTS, unsafe=TEXTS, causes=list_of(cause))
        content: list[Block] = []
        steps = evidence.nodes[-self.options.limits.nodes :]
        room = chars // 2 // max(1, 2 * len(steps))
        for number, node in enumerate(steps, start=1):
            uses = f", with {', '.join(node.uses)}" if node.uses else ""
            content += titled_material(
                f"Step {number} ({node.component or node.kind}{uses}), in:", cut(node.given, room), node.key
            )
            direction = "failed" if node.error else "out"
            content += titled_material(f"Step {number}, {direction}:", cut(node.error or node.gave, room), node.key)
        content += titled_material("The answer:", cut(evidence.answer, chars // 8), "answer")
        wrong = [*([evidence.error] if evidence.error else []), *evidence.failed_checks]
        if wrong:
            content += titled_material(
                "How the run failed, and checks that failed:", cut("\n".join(wrong), chars // 8), "run"
            )
        for variable in variables:
            purpose = f"; {variable.description}" if variable.description else ""
            head = f"The text {variable.key} ({variable.role or 'text'}{purpose}):"
            content += titled_material(head, cut(variable.text, chars // 4 // len(variables)), variable.key)
        values = {
            "task": evidence.task,
            "loss": self.options.loss,
            "status": evidence.status,
            "score": "" if evidence.score is None else f"{evidence.score:g}",
            "highest": HIGHEST,
        }
        return Inquiry(DIAGNOSIS, schema, values, tuple(content))

    async def _trial(self, variable: Variable, text: str) -> str:
        """Call a patched tool as it was called in the runs; return what failed, "" for nothing."""
        if not variable.is_code:
            return ""
        if not variable.component.startswith("tool:"):
            return f"code of {variable.component} that a model wrote is not executed; say what a person should change"
        shop = self.kit.workshop
        if shop is None or self.ctx.manifest.sandbox == "none":
            return "there is no sandbox here in which the patch could be tried (agentorchestra doctor)"
        cases = self._calls(variable)
        if not cases:
            return ""
        try:
            patch = shop.trial(with_source(variable, text), _function(text))
        except SourceError as exc:
            return str(exc)
        trials = await try_cases(self.ctx, patch, cases, {}, twice=False)
        return "\n".join(trials.problems)

    def _calls(self, variable: Variable) -> list[Case]:
        nodes = [
            node
            for run in self.options.evidence
            for node in run.nodes
            if variable.key in node.uses and node.kind == "InvokeTool" and node.arguments is not None
        ]
        cases: list[Case] = []
        for node in sorted(nodes, key=lambda node: not node.error):
            case = Case(dict(node.arguments or {}), known=False)
            if case not in cases:
                cases.append(case)
        return cases[:MOST_TRIALS]


def _in_words(reply: Mapping[str, Any]) -> str:
    lines = []
    for name, title in _TITLES.items():
        points = [str(text).strip() for text in reply.get(name) or () if str(text).strip()]
        lines += [f"{title}:", *(f"- {point}" for point in points)] if points else []
    return "\n".join(lines)


def _function(text: str) -> str:
    return next(node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
