"""A line for what a run does, from its log: for terminals that are none, and for `tail`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentorchestra.cli.debate import Talk
from agentorchestra.cli.output import one_line
from agentorchestra.core.effects import OF_AGENTS, EffectKind, called_as
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import parent_key

_SILENT = frozenset({EffectKind.REQUEST_MODEL, EffectKind.RECEIVE, EffectKind.READ_MEMORY, EffectKind.JOIN})


class Progress:
    """Turns events into lines.

    Args:
        steps: decisions taken before, for a run that is resumed.
        talk: only what is said in a debate and what goes wrong, not the steps that lead to it.
    """

    def __init__(self, *, steps: int = 0, talk: bool = False) -> None:
        self.steps = steps  # decisions so far
        self._top = ""
        self._agents: dict[EffectKey, str] = {}  # what those below the top agent are called here
        self._named: Counter[str] = Counter()
        self._calls: dict[EffectKey, str] = {}  # what the models called the effects that they decided
        self._talk = Talk()
        self._only_talk = talk

    def line(self, event: Event) -> str | None:
        body = event.body
        talk = self._talk.line(event)
        if talk is not None or (self._only_talk and event.type in ("started", "completed")):
            return talk or None
        match event.type:
            case "started":
                if event.branch == "/":
                    self._top = str(body["effect"].get("arguments", {}).get("name", ""))
                    return None  # the top agent itself: its steps are shown
                return self._start_line(body["effect"], event)
            case "completed":
                return self._completed(body, event)
            case "attempt_failed":
                later = body.get("retry_in_s")
                again = "" if later is None else f"; trying again in {later:g} s"
                return f"  attempt failed: {one_line(str(body['error']))}{again}"
            case "noted":
                return f"  {body.get('level', 'info')}: {one_line(str(body['message']))}"
            case "budget_exhausted":
                return f"  {one_line(str(body['message']))}"
            case "told":
                return f"  told: {one_line(str(body['text']))}"
            case "answered":
                return f"  {one_line(reply_text(body['answer']))}"
            case "cancel_requested":
                reason = f": {one_line(str(body['reason']))}" if body.get("reason") else ""
                return f"  asked to stop{reason}"
            case "pause_requested":
                reason = f": {one_line(str(body['reason']))}" if body.get("reason") else ""
                return f"  asked to pause{reason}"
            case _:
                return None

    def _start_line(self, effect: dict[str, Any], event: Event) -> str | None:
        kind, actor = EffectKind(effect["kind"]), self._actor(event)
        if kind is EffectKind.REQUEST_MODEL:
            if effect.get("purpose") not in ("decision", "final"):
                return None
            self.steps += 1
            return f"step {self.steps} ({actor})"
        if kind in _SILENT or (kind is EffectKind.WRITE_MEMORY and not lasting(effect)):
            return None
        by = f"  ({actor})" if self._top and actor != self._top else ""
        if kind in OF_AGENTS:
            arguments = effect.get("arguments", {})
            effect = {**effect, "arguments": {**arguments, "name": self._label(event, str(arguments.get("name", "")))}}
        return f"  {describe(effect, call_name=self._calls.get(EffectKey(event.branch, event.n or 0), ''))}{by}"

    def _label(self, event: Event, name: str) -> str:
        """Return what an agent is called here: a second one of a name has a number, as both may work at once."""
        assert event.n is not None
        key = EffectKey(event.branch, event.n)
        if key not in self._agents:
            self._named[name] += 1
            self._agents[key] = name if self._named[name] == 1 else f"{name} {self._named[name]}"
        return self._agents[key]

    def _actor(self, event: Event) -> str:
        branch = event.branch
        while (above := parent_key(branch)) is not None:
            if above in self._agents:
                return self._agents[above]
            branch = above.branch
        return event.actor

    def _completed(self, body: dict[str, Any], event: Event) -> str | None:
        # Pure effects have no mark: their record brings the effect along.
        effect = body.get("effect")
        lines = []
        if effect is not None:
            line = self._start_line(effect, event)
            if line is not None:
                lines.append(line)
        outcome = body["outcome"]
        error, value = outcome.get("error"), outcome.get("value")
        calls = value.get("tool_calls") if isinstance(value, dict) and event.n else None
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            self._calls[EffectKey(event.branch, (event.n or 0) + 1 + index)] = str(call.get("name", ""))
        if error:
            lines.append(f"    {outcome.get('status', 'error')}: {one_line(str(error))}")
        agent = self._agents.get(EffectKey(event.branch, event.n or 0))
        status = value.get("status") if isinstance(value, dict) else None
        if agent and not error and status not in (None, RunStatus.COMPLETED):
            lines.append(f"  {agent} ends: {status}")
        return "\n".join(lines) or None


def describe(effect: dict[str, Any], width: int = 120, *, call_name: str = "") -> str:
    """Return an effect's stored form in a few words: what it does, and with what; `call_name` by its model."""
    kind = EffectKind(effect["kind"])
    name = str(effect.get("component", "")).rpartition("@")[0] or str(effect.get("component", ""))
    arguments = effect.get("arguments", {})
    match kind:
        case EffectKind.REQUEST_MODEL:
            purpose = effect.get("purpose")
            role = effect.get("role", purpose) if purpose == "tool" else purpose  # a component's question: whose
            return f"model {name}" + (f" ({role})" if role else "")
        case EffectKind.INVOKE_AGENT | EffectKind.SPAWN:
            return f"agent {arguments.get('name', name)}: {one_line(str(arguments.get('instruction', '')), width)}"
        case EffectKind.ASK_HUMAN:
            return f"question: {one_line(str(arguments.get('question', '')), 400)}"
        case EffectKind.INVOKE_ACTION if effect.get("purpose") == "code":  # inside a call that shows the code
            return f"runs in {name}"
        case EffectKind.INVOKE_ACTION:
            call_name = call_name or called_as(kind, name, arguments)
            return one_line(call_text(call_name, arguments.get("arguments") or {}), width)
        case EffectKind.RUN_CODE if name != "program":  # inside a call that shows the code
            return f"goes on in {name}" if arguments.get("part") else f"runs in {name}"
        case EffectKind.RUN_CODE if isinstance(arguments.get("code"), str):
            lines = [line.strip() for line in arguments["code"].splitlines() if line.strip()]
            count = f"{len(lines)} {'line' if len(lines) == 1 else 'lines'}"
            return one_line(f"{name} of {count}: {'; '.join(lines)}", width)
        case EffectKind.INVOKE_TOOL:
            return one_line(call_text(name, arguments), width)
        case EffectKind.WRITE_MEMORY if entries := lasting(effect):
            return one_line(f"remembers: {'; '.join(entries)}", width)
        case _:
            return one_line(f"{kind.value} {name}({_listing(arguments)})", width)


def reply_text(answer: Any) -> str:
    return "answered: " + (("yes" if answer else "no") if isinstance(answer, bool) else str(answer))


def lasting(effect: dict[str, Any]) -> list[str]:
    """Return what is written down for later tasks: summaries and insights, not each step."""
    entries = effect.get("arguments", {}).get("entries", ())
    return [str(entry.get("text", "")) for entry in entries if entry.get("kind") != "event"]


def call_text(name: str, arguments: Any) -> str:
    """Return a call as its model meant it: `name(argument="value")`."""
    return f"{name}({_listing(arguments)})"


def _listing(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return canonical_json(arguments)
    return ", ".join(f"{name}={canonical_json(value)}" for name, value in arguments.items())
