"""The effects of a run as a tree: each effect with those performed inside it, in the order of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from agentorchestra.cli.output import bill, one_line, plural
from agentorchestra.cli.progress import describe
from agentorchestra.cli.view.model import AgentView, RunView, Span
from agentorchestra.core.budget import Usage
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import parent_key
from agentorchestra.tools.todo import PlanStep
from agentorchestra.trust.plan import is_of_plan

SIGNS = {"not_started": "[ ]", "in_progress": "[>]", "completed": "[x]", "blocked": "[!]"}
"""The states of a plan's step, as a terminal shows them."""


@dataclass
class SpanNode:
    """An effect and what was performed inside it."""

    name: str  # its key; a branch, for the rival candidates of a step, which are no effect
    span: Span | None = None  # the effect; None for candidates
    agent: AgentView | None = None  # where it invoked one
    status: str = ""  # its outcome's, an agent's own, `answered`, `open`, `started` or `interrupted`; "" for candidates
    usage: Usage = field(default_factory=Usage)  # with everything inside it
    inner: list[SpanNode] = field(default_factory=list)  # what was performed inside it

    @property
    def label(self) -> str:
        return describe(self.span.effect, call_name=self.span.called) if self.span is not None else "candidates"


def tree(view: RunView) -> list[SpanNode]:
    """Return the effects on the run's root branch, with all others below them; superseded ones are left out."""
    spans: dict[str, dict[int, Span]] = {"/": {}}
    branches: dict[EffectKey, set[str]] = {}
    owners: dict[str, set[int]] = {}
    plans: list[EffectKey] = []  # requests of the door for the whole run
    for key, span in view.spans.items():
        if span.superseded:
            continue
        branch = key.branch
        spans.setdefault(branch, {})[key.n] = span
        if is_of_plan(key):
            plans.append(key)
            continue
        while (owner := parent_key(branch)) is not None and branch not in branches.setdefault(owner, set()):
            branches[owner].add(branch)
            owners.setdefault(owner.branch, set()).add(owner.n)
            spans.setdefault(owner.branch, {})
            branch = owner.branch
    usages: dict[EffectKey, Usage] = {}
    for charge in view.charges:
        usages[charge.key] = usages.get(charge.key, Usage()) + charge.usage

    def below(branch: str) -> list[SpanNode]:
        return [node(EffectKey(branch, n)) for n in sorted({*spans[branch], *owners.get(branch, ())})]

    def node(key: EffectKey) -> SpanNode:
        span = spans[key.branch].get(key.n)
        node = SpanNode(str(key), span, view.agents.get(key), _status(view, span), usages.get(key, Usage()))
        for branch in sorted(branches.get(key, ()), key=_natural):
            inside = below(branch)
            if span is None:
                node.inner.append(SpanNode(branch, inner=inside, usage=sum((child.usage for child in inside), Usage())))
            else:
                node.inner += inside
        node.usage = sum((child.usage for child in node.inner), node.usage)
        return node

    return [*map(node, plans), *below("/")]


def _natural(branch: str) -> tuple[str, int]:
    head, _, last = branch.rpartition(".")
    return (head, int(last)) if last.isdigit() else (branch, 0)


def _status(view: RunView, span: Span | None) -> str:
    if span is None:
        return ""
    if span.record.outcome is not None:
        status, agent = span.record.outcome.status, view.agents.get(span.key)
        return status if agent is None or agent.status in (status, RunStatus.COMPLETED) else agent.status
    if span.kind is EffectKind.ASK_HUMAN:
        return "answered" if str(span.key) in view.ledger.answers else "open"
    return "interrupted" if span.record.interrupted else "started"


def step_line(step: PlanStep) -> str:
    """Return a step of a plan: its state, what is done, who does it, what is worth knowing."""
    agent = f" -> {one_line(step.agent, 60)}" if step.agent else ""
    notes = f" ({one_line(step.notes, 200)})" if step.notes else ""
    return f"{SIGNS[step.status]} {one_line(step.text, 300)}{agent}{notes}"


def tree_lines(view: RunView) -> list[str]:
    """Return the tree as indented lines: key, what it did, status, figures; the plans of agents below them."""
    return [line for node in tree(view) for line in _lines(node, "")] or ["(nothing recorded yet)"]


def _lines(node: SpanNode, indent: str) -> Iterator[str]:
    yield f"{indent}{node.name}  {'  '.join(_parts(node))}".rstrip()
    inner = f"{indent}  "
    for failure in node.span.failures if node.span is not None else ():
        by = f" ({failure.target})" if failure.target else ""
        yield f"{inner}  attempt {failure.number} failed{by}: {one_line(failure.error, 200)}"
    plan = node.agent.plan if node.agent is not None else None
    if plan is not None:
        yield f"{inner}plan: {one_line(plan.title, 200)}"
        for step in plan.steps:
            yield f"{inner}  {step_line(step)}"
    for child in node.inner:
        yield from _lines(child, inner)


def _parts(node: SpanNode) -> Iterator[str]:
    span = node.span
    if span is None:
        if "#" in node.name:
            yield node.label
        return
    yield node.label
    yield node.status
    if node.agent is not None:
        yield plural(node.agent.total_steps, "step")
    if node.usage != Usage():
        yield f"{plural(node.usage.tokens, 'token')}  {bill(node.usage)}"
    if span.seconds is not None:
        yield f"{span.seconds:.1f} s"
    if span.answered_by:
        yield f"answered by {span.answered_by}"
    if span.record.attempt > 1:
        yield f"attempt {span.record.attempt}"
    error = span.record.outcome.error if span.record.outcome is not None else None
    if error:
        yield one_line(error, 200)
