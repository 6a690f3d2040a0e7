"""What the agents that a caller asked have found: from the log of its own branch."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.spec import AgentResult, Citation
from agentorchestra.runtime.session import Session


def results_before(session: Session[Any], *, upto: int | None = None) -> list[tuple[str, AgentResult, Trust]]:
    """The results of the agents a session asked, in order: name, result, trust.

    Args:
        session: the caller's.
        upto: only those that were asked before this number; None for all.
    """
    found = []
    for key, record in sorted(session.run.ledger.records.items(), key=lambda one: one[0].n):
        if key.branch != session.branch or record.effect.get("kind") != EffectKind.INVOKE_AGENT:
            continue
        if (upto is not None and key.n >= upto) or record.outcome is None or not record.outcome.ok:
            continue
        name = str(record.effect.get("arguments", {}).get("name", "agent"))
        found.append((name, AgentResult.model_validate(record.outcome.value), record.outcome.trust))
    return found


def citations(results: list[tuple[str, AgentResult, Trust]]) -> tuple[Citation, ...]:
    """Everything they cite, each once."""
    return tuple(dict.fromkeys(one for _, result, _ in results for one in result.sources))


def evidence_block(results: list[tuple[str, AgentResult, Trust]]) -> Block:
    """What was found, as material: the answers, then each quote under its mark."""
    lines = [f"{name} ({result.status.value}): {result.answer or result.report}" for name, result, _ in results]
    for number, one in enumerate(citations(results), start=1):
        lines.append(f"[E{number}] {one.source}, {one.place}: “{one.quote}”")
    trust = lowest(Trust.AGENT, *(trust for _, _, trust in results))
    text = "\n".join(lines) or "nothing was found"
    return TextBlock(text=text, source=Source(kind="agent", ref="team"), trust=trust)


__all__ = ["citations", "evidence_block", "results_before"]
