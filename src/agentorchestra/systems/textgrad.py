"""TextGrad: feedback in words flows back through recorded runs, to the texts that took part in them (arXiv:2406.07496).

    run: variable ─> effect ─> effect ─> outcome          as recorded: whose output stands in whose input
                        ^         ^         │
    backward:        feedback <─ feedback <─┘ loss        a critique of the outcome; nothing to criticise ends it here
                        │
    gradient:       what each variable did to cause it    of all runs of a batch
                        │
    step:           a new text, within constraints        placeholders, length, schema, rights (by code)

Each request goes through the door, those that do not need each other together. What is proposed is the run's `output`;
nothing is registered here (`evolution/`). The expected answers of tasks are no part of the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, ClassVar

from pydantic import JsonValue

from agentorchestra.agents.agent import is_top
from agentorchestra.agents.forms import TEXT, TEXTS, Inquiry, Questioner, form
from agentorchestra.agents.optimiser.evidence import (
    OUTCOME,
    Evidence,
    Node,
    Variable,
    check_optimiser,
    cut,
    read_options,
)
from agentorchestra.agents.optimiser.revision import Revision, Wanted, proposal_result, titled_material
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext

NAME = "textgrad"
LOSS, BACKWARD, GRADIENT = "textgrad_loss", "textgrad_backward", "textgrad_gradient"

_PROBLEMS = form(["problems"], problems=TEXTS)
_FEEDBACK = form(["feedback"], feedback=TEXT)


@dataclass(frozen=True)
class TextGrad:
    """The system: loss, backward, gradients, step."""

    description: ClassVar[str] = "Improves texts of components by feedback that flows back through recorded runs."

    def check_options(self, options: Mapping[str, JsonValue], agents: Any, model: str) -> None:
        """Refuse variables and evidence that it could not work with; see `evidence.read_options`."""
        check_optimiser(NAME, options, model)

    async def __call__(self, spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        """Return the proposed changes as the `output`; raise EvidenceError as `check_options` does."""
        options = read_options(ctx.manifest.options if is_top(ctx) else {}, NAME)
        batch = [_Backward(evidence, options.limits.nodes) for evidence in options.evidence]
        questioner = Questioner(ctx, kit, spec.role, spec.model)

        # loss
        replies = await questioner.all(
            [_loss_question(run.evidence, options.loss, options.limits.chars) for run in batch]
        )
        for run, reply in zip(batch, replies, strict=True):
            run.feedback[OUTCOME] = "\n".join(f"- {problem}" for problem in _texts(reply, "problems"))
        if all(reply is None for reply in replies):
            return proposal_result(
                questioner, "No critique of an outcome could be had, so nothing is proposed.", is_blocked=True
            )
        if not any(run.feedback[OUTCOME] for run in batch):
            return proposal_result(
                questioner, "The critique found nothing to better in the outcomes, so nothing is proposed."
            )

        # backward, step by step from the end, all runs at the same time
        for distance in range(1, 1 + max(run.depth for run in batch)):
            level = [(run, node) for run in batch for node in run.level(distance)]
            replies = await questioner.all([run.question(node, options.limits.chars) for run, node in level])
            for (run, node), reply in zip(level, replies, strict=True):
                run.feedback[node.key] = "".join(_texts(reply, "feedback"))

        # gradients, one for each variable and run
        pairs = [(variable, run) for variable in options.variables for run in batch if run.used(variable.key)]
        replies = await questioner.all([run.gradient_question(part, options.limits.chars) for part, run in pairs])
        gradients: dict[str, list[str]] = {}
        for (variable, _), reply in zip(pairs, replies, strict=True):
            gradients.setdefault(variable.key, []).extend(_texts(reply, "feedback"))

        # step
        ranking = sorted((key for key in gradients if gradients[key]), key=lambda key: -len(gradients[key]))
        keys = ranking[: options.limits.changes]
        revision = Revision(questioner, options.limits)
        changes = await revision.run([Wanted(options.of(key), tuple(gradients[key])) for key in keys])
        report = [f"Feedback on {key}:\n{feedback}" for key in ranking for feedback in gradients[key]]
        report += revision.left or ([] if ranking else ["No feedback reached a variable, so nothing is proposed."])
        return proposal_result(questioner, "\n\n".join(report), changes)


@dataclass
class _Backward:
    evidence: Evidence  # of the run
    most: int  # effects that feedback is asked for, the nearest to the end
    # what was said of each effect, by its key; "" where nothing is to be done otherwise
    feedback: dict[str, str] = field(default_factory=dict, init=False)
    _levels: dict[str, int] = field(default_factory=dict, init=False)
    _after: dict[str, list[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Find the effects on paths from a variable to the outcome, and how far each is from the outcome at most."""
        self._after = self.evidence.successors()
        order = [key for key in TopologicalSorter(self._after).static_order() if key != OUTCOME]  # from the end
        distance = {OUTCOME: 0}
        for key in order:
            distances = [distance[successor] for successor in self._after[key] if successor in distance]
            if distances:
                distance[key] = 1 + max(distances)
        fed = {node.key for node in self.evidence.nodes if node.uses}
        for key in reversed(order):
            if key in fed:
                fed.update(self._after[key])
        near = sorted((key for key in order if key in fed and key in distance), key=lambda key: distance[key])
        self._levels = {key: distance[key] for key in near[: self.most]}

    @property
    def depth(self) -> int:
        return max(self._levels.values(), default=0)

    def level(self, distance: int) -> list[Node]:
        """Return the effects so far from the outcome whose output was criticised."""
        return [
            node for node in self.evidence.nodes if self._levels.get(node.key) == distance and any(self._on(node.key))
        ]

    def used(self, variable: str) -> bool:
        """Return True if a variable took part in an effect that was criticised."""
        return any(variable in node.uses and self.feedback.get(node.key) for node in self.evidence.nodes)

    def question(self, node: Node, chars: int) -> Inquiry:
        """Return the question for the feedback on an effect, from the feedback on what its output was used for."""
        after = [(key, text) for key, text in zip(self._after[node.key], self._on(node.key), strict=True) if text]
        room = chars // (2 + len(after))
        content = _node_blocks(node, 2 * room)
        for key, text in after:
            origin = "the outcome of the run" if key == OUTCOME else "a later step, which used this output"
            content += titled_material(f"What is said of {origin}:", cut(text, room), "feedback")
        model = node.kind == "RequestModel"
        return Inquiry(BACKWARD, _FEEDBACK, {"task": self.evidence.task, "model": model}, tuple(content))

    def gradient_question(self, variable: Variable, chars: int) -> Inquiry:
        nodes = [node for node in self.evidence.nodes if variable.key in node.uses and self.feedback.get(node.key)]
        room = chars // (2 + 2 * len(nodes))
        content = titled_material("The text:", cut(variable.text, 2 * room), variable.key)
        for node in nodes:
            content += _node_blocks(node, room)
            content += titled_material("What is said of this step:", cut(self.feedback[node.key], room), "feedback")
        values = {
            "task": self.evidence.task,
            "role": variable.role or "text",
            "description": variable.description,
            "others": sorted({key for node in nodes for key in node.uses} - {variable.key}),
        }
        return Inquiry(GRADIENT, _FEEDBACK, values, tuple(content))

    def _on(self, key: str) -> list[str]:
        """Return what was said of the effects that an output went into, "" for those that were not criticised."""
        return [self.feedback.get(successor, "") for successor in self._after[key]]


def _loss_question(evidence: Evidence, loss: str, chars: int) -> Inquiry:
    room = chars // 3
    content = titled_material("The answer:", cut(evidence.answer, room), "answer")
    if evidence.error:
        content += titled_material("How the run failed:", cut(evidence.error, room), "run")
    if evidence.failed_checks:
        content += titled_material("Checks that failed:", cut("\n".join(evidence.failed_checks), room), "checks")
    failed = [f"{node.component}: {node.error}" for node in evidence.nodes if node.error]
    if failed:
        content += titled_material("Steps that failed on the way:", cut("\n".join(failed), room), "run")
    values = {"task": evidence.task, "loss": loss, "status": evidence.status, "score": _score(evidence)}
    return Inquiry(LOSS, _PROBLEMS, values, tuple(content))


def _score(evidence: Evidence) -> str:
    return "" if evidence.score is None else f"{evidence.score:g}"


def _node_blocks(node: Node, room: int) -> list[Block]:
    """Return what went into an effect and what came out, as material."""
    component = "a model" if node.kind == "RequestModel" else node.component or node.kind
    content = titled_material(f"What went into the step ({component}):", cut(node.given, room // 2), node.key)
    return content + titled_material("What came out:", cut(node.error or node.gave, room // 2), node.key)


def _texts(reply: Mapping[str, Any] | None, name: str) -> list[str]:
    value = (reply or {}).get(name)
    every = value if isinstance(value, list) else [value]
    return [text.strip() for text in every if isinstance(text, str) and text.strip()]
