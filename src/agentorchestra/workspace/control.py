"""Answers to the questions of runs, from outside."""

from __future__ import annotations

from pydantic import JsonValue

from agentorchestra.core.errors import AnswerError
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import FINAL, Question
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.answers import answered_already, settle
from agentorchestra.runtime.run import open_questions
from agentorchestra.workspace.composition import Composition


async def answer_question(
    parts: Composition,
    run_id: str,
    answer: JsonValue,
    *,
    question: str | None,
    by: str,
    kind: str,
    code: str | None = None,
) -> Question:
    """Answer the oldest (or the named) open question of a kind; of several approvals, none is allowed unnamed.

    Args:
        parts: of the workspace.
        run_id: the run.
        answer: for an approval only True approves; a text says why not.
        question: its key.
        by: who answers.
        kind: `question` or `approval`.
        code: of the call that is approved, as it was shown.

    Raises:
        AnswerError: if there is no such open question, or somebody answered it first.
    """
    record = await parts.record(run_id)
    ledger = Ledger.of(await parts.store.load(run_id))
    held = ledger.answered.get(question or "")
    if held is not None:
        raise AnswerError(answered_already(run_id, held))
    if record.status in FINAL:
        raise AnswerError(
            f"run {run_id} has no open {kind} any more: it is over ({record.status.value}); start a new run"
        )
    open_ = open_questions(ledger)
    fitting = [one for one in open_ if one.kind == kind and question in (None, one.key) and code in (None, one.code)]
    listed = "; ".join(f"{one.key} ({_kind(one)}): {one.question}" for one in open_) or "none"
    if not fitting:
        named = (f" {question}" if question else "") + (f" with the code {code!r}" if code is not None else "")
        verb = "answer" if kind == "question" else "approve or deny"
        last = max(ledger.answered.values(), key=lambda one: one.seq, default=None)
        so = f". The last: {answered_already(run_id, last)}" if last is not None else ""
        raise AnswerError(f"run {run_id} has no open {kind}{named} to {verb}; open: {listed}{so}")
    if answer is True and question is None and code is None and len(fitting) > 1:
        raise AnswerError(
            f"run {run_id} asks permission for {len(fitting)} calls; name the one that was shown by its code; "
            f"open: {listed}"
        )
    chosen = fitting[0]
    said = parts.redact_json(answer)
    began = ledger.records[EffectKey.parse(chosen.key)].began
    held, given = await settle(parts.store, run_id, chosen.key, said, by=by, now=parts.clock.now(), asked=began)
    if held is None:
        raise AnswerError(
            f"question {chosen.key} of run {run_id} is asked no more: what led to it is done anew; "
            f"`agentorchestra show {run_id}` lists what is open"
        )
    if not given:
        raise AnswerError(answered_already(run_id, held))
    await parts.engine.poke(run_id)
    return chosen


def _kind(question: Question) -> str:
    return f"{question.kind}, code {question.code}" if question.code else question.kind


__all__ = ["answer_question"]
