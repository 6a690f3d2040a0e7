"""A debate as it goes on: each argument when it comes, from the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentorchestra.core.events import Event

_TURN = re.compile(r"turn ([A-Z])")


class Talk:
    """Turns the events of debates into lines. One that is opened in the middle has to be shown all events before."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._said: dict[tuple[str, str], int] = {}
        self._turns: dict[tuple[str, str], int] = {}

    def line(self, event: Event) -> str | None:
        """Lines for an event of a debate; None for one that is none, "" where nothing is to be said."""
        if event.type == "started":
            effect = event.body["effect"]
            turn = _TURN.fullmatch(str(effect.get("purpose")))
            if turn is None and (effect.get("kind"), effect.get("role")) != ("RequestModel", "debate"):
                return None
            self._open[str(event.span)] = (event.branch, turn[1] if turn else "", effect)
            return f"{_name(effect)} ({turn[1]}) is thinking" if turn else ""
        if event.type != "completed" or str(event.span) not in self._open:
            return None
        branch, letter, effect = self._open.pop(str(event.span))
        outcome = event.body["outcome"]
        return self._statement(branch, letter, _name(effect), outcome) if letter else _summed_up(outcome)

    def _statement(self, branch: str, letter: str, name: str, outcome: Mapping[str, Any]) -> str:
        from agentorchestra.agents.debate.statements import turn_of, turn_text
        from agentorchestra.core.content import Trust
        from agentorchestra.core.spec import AgentResult, RunStatus

        key = (branch, letter)
        number = self._turns[key] = self._turns.get(key, -1) + 1
        value = outcome.get("value")
        result = AgentResult.model_validate(value) if isinstance(value, dict) and not outcome.get("error") else None
        turn = None
        if result is not None and result.status is not RunStatus.BLOCKED:
            turn = turn_of(result, letter, number, before=self._said.get(key, 0), known_marks=None, trust=Trust.AGENT)
        if turn is None:
            reason = outcome.get("error") or (result.report or result.answer if result is not None else "")
            return f"{name} ({letter}) says nothing" + (f": {' '.join(str(reason).split())[:300]}" if reason else "")
        self._said[key] = self._said.get(key, 0) + len(turn.arguments)
        return turn_text(turn, name)


def _name(effect: Mapping[str, Any]) -> str:
    return str(effect.get("arguments", {}).get("name", "expert"))


def _summed_up(outcome: Mapping[str, Any]) -> str:
    from agentorchestra.agents.debate.agent import JUDGEMENT
    from agentorchestra.core.errors import OutputError
    from agentorchestra.tea.calling.structured_output import read_output

    value = outcome.get("value")
    try:
        judgement = read_output(str(value.get("text", "")) if isinstance(value, dict) else "", JUDGEMENT.read)
    except OutputError:
        return ""
    return f"the manager: {' '.join(str(judgement['summary']).split())}" if isinstance(judgement, dict) else ""
