"""What the agents of a run did, for people: each agent by its name, its work in a few lines, in the order of time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from agentorchestra.cli.output import one_line, plural
from agentorchestra.cli.progress import describe, lasting, reply_text
from agentorchestra.cli.view.model import RunView, Span
from agentorchestra.cli.view.tree import SpanNode, step_line, tree
from agentorchestra.core.effects import FINISH, EffectKind
from agentorchestra.core.errors import StoreError
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.spec import TESTLESS, RunStatus
from agentorchestra.log.conversation import Conversation

_WIDTH = 160  # characters of a line
_VALUE = 60  # characters of one of several arguments
_EXAMPLES = 3  # of calls in a row of one tool, those whose arguments are shown
_ASKS = "asks you"
_UNDER_WAY = ("started", "interrupted", "open")
_CALLS = (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION)


class Act(NamedTuple):
    """One thing that an agent did; such of one verb in a row become one line."""

    verb: str  # with the tool that was called
    what: str = ""  # its arguments, a question, a text
    error: str = ""  # why it failed, "" for what did not
    note: str = ""  # what the tool says it does
    allows: bool = False  # whether a person was asked to allow a call


class Work:
    """The work of a run as lines.

    Args:
        answer: the run's, which is printed elsewhere; an agent that gave the same has no second print of it.
        talk: what its agents wrote to each other, which is drawn elsewhere; None for a run without.
    """

    def __init__(self, view: RunView, answer: str, talk: Conversation | None) -> None:
        self._view = view
        self._answer = answer
        self._members = talk.members if talk is not None else {}
        self._talks = talk is not None
        over = view.status not in TESTLESS
        self._still = "at work" if view.is_driven else "stopped with the run" if over else "interrupted"
        self._names: dict[EffectKey, str] = {}
        self._notes: dict[str, str] = {}  # what each tool says it does, until it was printed
        counts: Counter[str] = Counter()
        for key, agent in view.agents.items():
            counts[agent.name] += 1
            self._names[key] = agent.name if counts[agent.name] == 1 else f"{agent.name} {counts[agent.name]}"

    def lines(self) -> list[str]:
        return self._format([entry for node in tree(self._view) for entry in self._items(node)]) or ["nothing yet"]

    def _items(self, node: SpanNode) -> Iterator[Act | list[str]]:
        """Yield what one effect was, with the agents that worked inside it as lines of their own."""
        span = node.span
        if span is None:  # a call that is not allowed yet, or rivals for a step
            inner = [entry for child in node.inner for below in child.inner for entry in self._items(below)]
            yield from _questions(inner) or [Act(f"weighs {plural(len(node.inner), 'candidate')} of its next step")]
            return
        if node.agent is not None:
            yield self._agent(node, span)
            return
        act, inner = self._act(node, span), [entry for child in node.inner for entry in self._items(child)]
        if span.kind is EffectKind.RUN_CODE:
            if act is not None:
                yield act
            yield from inner
            return
        # How a tool does its work is its own affair; that agents did it, or a person, is told in its place.
        agents, questions = [entry for entry in inner if isinstance(entry, list)], _questions(inner)
        yield from questions
        yield from agents
        if act is not None and (act.error or not (agents or any(not question.allows for question in questions))):
            yield act

    def _agent(self, node: SpanNode, span: Span) -> list[str]:
        agent = node.agent
        assert agent is not None
        top = agent.parent is self._view.root
        status = "" if node.status in ("ok", RunStatus.COMPLETED) else node.status
        if node.status in _UNDER_WAY:
            status = self._view.status.value if top and not self._view.is_driven else self._still
        task = "" if top else self._members.get(agent.name) or agent.task
        manifest = self._view.manifest
        other = agent.model if manifest is None or agent.model != manifest.model else ""
        parts = [self._names[span.key], other and f"with {other}", status, plural(agent.total_steps, "step")]
        lines = [one_line(", ".join(filter(None, parts)) + (f": {task}" if task else ""), _WIDTH)]
        if agent.plan is not None:
            lines.append(f"  its plan: {one_line(agent.plan.title, _WIDTH)}")
            lines += [f"    {step_line(step)}" for step in agent.plan.steps]
        self._read_tools(node)
        items = [entry for child in node.inner for entry in self._items(child)]
        lines += [f"  {line}" for line in self._format(items)]
        outcome = span.record.outcome
        if outcome is not None and not top:
            value: dict[str, Any] = outcome.value if isinstance(outcome.value, dict) else {}
            answer = str(value.get("answer") or value.get("report") or "")
            if outcome.error and outcome.status != "limited":  # what ended the run is said at its end
                lines.append(f"  fails: {one_line(outcome.error, _WIDTH)}")
            elif answer:
                lines.append(f"  answers: {'the answer below' if answer == self._answer else one_line(answer, _WIDTH)}")
        return lines

    def _read_tools(self, node: SpanNode) -> None:
        """Take what the tools of an agent's first request say of themselves."""
        for child in node.inner:
            if child.span is not None and child.span.decides and child.span.effect.get("request"):
                with contextlib.suppress(StoreError):  # of a log with gaps
                    request = self._view.ledger.codec.decode(child.span.effect).request
                    for tool in request.tools if request is not None else ():
                        self._notes.setdefault(tool.name, one_line(tool.description, _VALUE))
                return

    def _act(self, node: SpanNode, span: Span) -> Act | None:
        outcome, effect, under_way = span.record.outcome, span.effect, node.status in _UNDER_WAY
        if outcome is not None and outcome.status == "limited":
            return None  # the end of the run says it
        error = (outcome.error or "") if outcome is not None else ""
        arguments = effect.get("arguments", {})
        kind = span.kind
        if kind is EffectKind.ASK_HUMAN:
            reply = self._view.ledger.answers.get(str(span.key))
            words = "" if reply is None else f" - {reply_text(reply.answer)}"
            allows = effect.get("purpose") == "approval"
            return Act(_ASKS, f"{arguments.get('question', '')}{words}", error, allows=allows)
        if kind is EffectKind.REQUEST_MODEL:
            again = [failure.error for failure in span.failures]
            if not (error or again or (under_way and self._view.is_driven)):
                return None
            verb = "waits for" if under_way else "asks"
            return Act(f"{verb} {describe(effect)}", "", error or (again[-1] if again else ""))
        if effect.get("purpose") == FINISH and not error:
            return None
        if kind in _CALLS and effect.get("purpose") != "code":
            name = describe({**effect, "arguments": {**arguments, "arguments": {}}}, call_name=span.called)
            name = name.partition("(")[0]
            inputs = arguments if kind is EffectKind.INVOKE_TOOL else arguments.get("arguments") or {}
            still = f" ({self._still})" if under_way else ""
            return Act(f"calls {name}", _with(inputs) + still, error, self._notes.pop(name, ""))
        if kind is EffectKind.RUN_CODE:
            return Act("runs", describe(effect, _WIDTH), error)
        if kind is EffectKind.WAIT and under_way and self._view.is_driven:
            return Act("waits")
        is_shown = kind is EffectKind.WRITE_MEMORY and bool(lasting(effect))
        is_shown = is_shown or (kind is EffectKind.SEND_MESSAGE and not self._talks)
        return Act(describe(effect, _WIDTH), "", error) if is_shown or error else None

    @staticmethod
    def _format(items: Sequence[Act | list[str]]) -> list[str]:
        lines: list[str] = []
        for verb, group in groupby(items, lambda entry: entry.verb if isinstance(entry, Act) else None):
            if verb is None:
                lines += [line for block in group if isinstance(block, list) for line in block]
            else:
                lines.append(_line(verb, [entry for entry in group if isinstance(entry, Act)]))
        return lines


def _questions(items: Sequence[Act | list[str]]) -> list[Act]:
    return [entry for entry in items if isinstance(entry, Act) and entry.verb == _ASKS]


def _line(verb: str, acts: Sequence[Act]) -> str:
    note = acts[0].note
    failed = [act.error for act in acts if act.error]
    whats = [act.what for act in acts if act.what]
    line = verb + (f" ({note})" if note else "") + (f", {plural(len(acts), 'time')}" if len(acts) > 1 else "")
    if whats:
        line += f": {'; '.join(whats[:_EXAMPLES])}" + ("; ..." if len(whats) > _EXAMPLES else "")
    line = one_line(line, _WIDTH)
    if failed:
        count = f"{len(failed)} failed" if len(acts) > 1 else "failed"
        line += f" - {count}: {one_line(failed[-1], _WIDTH)}"
    return line


def _with(arguments: Any) -> str:
    """Return arguments in a few words: texts shortened, of lists and objects how much is in them."""
    if not isinstance(arguments, dict):
        return canonical_json(arguments)
    if len(arguments) == 1 and isinstance(text := next(iter(arguments.values())), str):
        return one_line(text, _WIDTH)
    return ", ".join(f"{name} {_value(value)}" for name, value in arguments.items())


def _value(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"({len(value)})"
    return one_line(value if isinstance(value, str) else canonical_json(value), _VALUE)
