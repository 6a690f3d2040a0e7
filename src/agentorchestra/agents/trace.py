"""The trace of an agent, from the log: what it said and called, and what that gave; also of one that was cut off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agentorchestra.agents.forms import limit_status
from agentorchestra.core.content import Trust, lowest, text_of
from agentorchestra.core.effects import FINISH, ArtifactRef, EffectKind, Outcome
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.log.ledger import Ledger, Record, parent_key, within

LINE_CHARS = 1_500  # characters of a call and its result that one line of a trace holds
MOST_LINES = 120  # lines of a trace: the first third and the newest of a longer one

CALLED_BY_CODE = frozenset({"describe_files", "check_quotes", "files_in_view"})
"""Tools that the code of agents calls, before and after their steps; no agent decides to."""

_SILENT = frozenset({EffectKind.RECEIVE, EffectKind.READ_MEMORY, EffectKind.WRITE_MEMORY, EffectKind.SNAPSHOT})


@dataclass(frozen=True)
class Trace:
    """What the log has of one agent's work."""

    lines: tuple[str, ...]  # what it said, called and got, in order
    trust: Trust  # how far these may be trusted
    last_words: str  # the last that it said beside its calls
    errors: tuple[str, ...]  # sentences of what failed, in order
    artifacts: tuple[ArtifactRef, ...]  # the files that it and those below it made
    steps: int  # its decisions
    cost_usd: float | None  # of it and those below it; None where a price is unknown
    # of the effects that the lines are about, as text; "" for a line that says what is left out
    keys: tuple[str, ...] = ()


def trace_of(ledger: Ledger, branch: str) -> Trace:
    agent = parent_key(branch)  # its own record has what it cost and made besides its effects
    below = [(key, record) for key, record in ledger.records.items() if within(key.branch, branch) or key == agent]
    own = sorted(((key.n, key, row) for key, row in below if key.branch == branch), key=lambda row: row[0])
    lines, errors, words, steps = [], [], "", 0
    keys: list[str] = []
    trust = Trust.AGENT
    for _, key, record in own:
        outcome, kind = record.outcome, record.effect.get("kind")
        if kind in _SILENT or record.effect.get("purpose") == FINISH:  # the result stands beside a trace
            continue
        if _name(record) in CALLED_BY_CODE or record.effect.get("arguments", {}).get("action") == "state":
            continue
        if kind == EffectKind.REQUEST_MODEL:
            steps += record.effect.get("purpose") in ("decision", "final")
            text = outcome.response.text.strip() if outcome is not None and outcome.ok else ""
            words = text or words
            lines += [f"It said: {_cut(text)}"] if text else []
        else:
            lines.append(_call(record))
            trust = trust if outcome is None else lowest(trust, outcome.trust)
        keys += [str(key)] * (len(lines) - len(keys))
        if outcome is not None and outcome.error:
            errors.append(_cut(outcome.error))
    if len(lines) > MOST_LINES:
        first = MOST_LINES // 3
        left_out = len(lines) - MOST_LINES
        lines = [*lines[:first], f"[{left_out} lines are left out here]", *lines[first + left_out :]]
        keys = [*keys[:first], "", *keys[first + left_out :]]
    refs = [ref for _, row in sorted(below, key=lambda row: row[1].seq) if row.outcome for ref in row.outcome.artifacts]
    files, cost = tuple(dict.fromkeys(refs)), _cost([record for _, record in below])
    return Trace(tuple(lines), trust, words, tuple(errors), files, steps, cost, tuple(keys))


def result_of(outcome: Outcome) -> AgentResult:
    """Return what a sub-agent handed over; of one that was cut off how far it had come."""
    if outcome.ok:
        return AgentResult.model_validate(outcome.value)
    came = outcome.value if isinstance(outcome.value, dict) else {}
    ends = {"timeout": RunStatus.TIMED_OUT, "limited": limit_status(outcome.error or "")}
    status = ends.get(outcome.status, RunStatus.BLOCKED)
    return AgentResult(status=status, answer=str(came.get("memory") or ""), steps=int(str(came.get("steps") or 0)))


def handed_back(outcome: Outcome, trace: Trace) -> tuple[AgentResult, Trust]:
    """Return a sub-agent's result with what its log shows, also of one that was cut off; and how far it is trusted."""
    result = result_of(outcome)
    update = {
        "answer": result.answer or (trace.last_words if result.status is not RunStatus.COMPLETED else ""),
        "artifacts": trace.artifacts,
        "errors": tuple(dict.fromkeys((*((outcome.error,) if outcome.error else ()), *trace.errors))),
        "steps": result.steps or trace.steps,
        "cost_usd": trace.cost_usd,
    }
    trust = lowest(Trust.AGENT, outcome.trust if outcome.ok else Trust.AGENT, trace.trust)
    return result.model_copy(update=update), trust


def _call(record: Record) -> str:
    """Return a call and what it gave; one that was cut off gave nothing."""
    values = record.effect.get("arguments", {})
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    arguments = "\n".join(f"{name} = {text}" for name, text in texts.items())
    outcome = record.outcome
    if outcome is None:
        text = "it did not come back"
    else:
        text = text_of(outcome.blocks()) if outcome.ok else f"failed: {outcome.error or outcome.status}"
    return f"It called {_name(record)} with\n{_cut(arguments)}\nand got\n{_cut(text)}"


def _name(record: Record) -> str:
    return str(record.effect.get("component", "")).partition("@")[0]


def _cost(records: Sequence[Record]) -> float | None:
    """Return US dollars of what came back; the bill of the run counts failed attempts besides."""
    costs = [record.outcome.usage.cost_usd for record in records if record.outcome is not None]
    prices = [cost for cost in costs if cost is not None]
    return round(sum(prices), 12) if len(prices) == len(costs) else None


def _cut(text: str, most: int = LINE_CHARS) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
