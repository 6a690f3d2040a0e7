"""What people say to runs from outside: answers, more of the task, an end."""

from __future__ import annotations

from pydantic import JsonValue

from agentorchestra.core.errors import AnswerError, EmptyTaskError, UnknownComponentError
from agentorchestra.core.events import PauseRequested, Told
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import FINAL, Question, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.answers import answered_already, settle
from agentorchestra.runtime.run import open_questions
from agentorchestra.runtime.waits import GOES_ON, actors, end_undriven
from agentorchestra.workspace.place import Place


class Steering:
    """Answers, tells, cancels and pauses runs, wherever they are driven.

    Args:
        place: of the runs.
    """

    def __init__(self, place: Place) -> None:
        self._place = place

    async def questions(self, run_id: str) -> tuple[Question, ...]:
        """See Workspace.questions."""
        await self._place.record(run_id)
        return open_questions(Ledger.of(await self._place.store.load(run_id)))

    async def answer(
        self, run_id: str, answer: JsonValue, *, question: str | None, by: str, kind: str, code: str | None = None
    ) -> Question:
        """Answer the oldest (or the named) open question of a kind; of several approvals, none is allowed unnamed.

        Args:
            run_id: the run.
            answer: for an approval only True approves; a text says why not.
            question: its key.
            by: who answers.
            kind: `question` or `approval`.
            code: of the call that is approved, as it was shown.

        Raises:
            AnswerError: if there is no such open question, or somebody answered it first.
        """
        place = self._place
        record = await place.record(run_id)
        ledger = Ledger.of(await place.store.load(run_id))
        held = ledger.answered.get(question or "")
        if held is not None:
            raise AnswerError(answered_already(run_id, held))
        if record.status in FINAL:
            raise AnswerError(
                f"run {run_id} has no open {kind} any more: it is over ({record.status.value}); start a new run"
            )
        open_ = open_questions(ledger)
        fitting = [
            one for one in open_ if one.kind == kind and question in (None, one.key) and code in (None, one.code)
        ]
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
        said = place.redact_json(answer)
        began = ledger.records[EffectKey.parse(chosen.key)].began
        held, given = await settle(place.store, run_id, chosen.key, said, by=by, now=place.clock.now(), asked=began)
        if held is None:
            raise AnswerError(
                f"question {chosen.key} of run {run_id} is asked no more: what led to it is done anew; "
                f"`agentorchestra show {run_id}` lists what is open"
            )
        if not given:
            raise AnswerError(answered_already(run_id, held))
        await place.engine.poke(run_id)
        return chosen

    async def tell(self, run_id: str, text: str, *, to: str, by: str) -> None:
        """See Workspace.tell."""
        place = self._place
        if not text.strip():
            raise EmptyTaskError("there is nothing to tell; give a text")
        await place.record(run_id)
        if to and to not in (known := actors(await place.store.load(run_id))):
            raise UnknownComponentError(
                f"run {run_id} has no agent {to!r} yet; its agents: {', '.join(known) or 'none'}"
            )
        await place.say(run_id, Told(text=place.redact(text), by=by, to=to), by=by)

    async def cancel(self, run_id: str, *, reason: str, by: str) -> None:
        """See Workspace.cancel."""
        place = self._place
        if (await place.record(run_id)).status in FINAL:
            return
        await place.engine.cancel(run_id, reason=place.redact(reason), by=by)
        if run_id not in place.engine.driving:
            await end_undriven(place.store, place.engine, place.clock, run_id, RunStatus.CANCELLED)

    async def pause(self, run_id: str, *, reason: str, by: str) -> RunStatus:
        """See Workspace.pause."""
        place = self._place
        if (await place.record(run_id)).status in GOES_ON:
            await place.say(run_id, PauseRequested(reason=place.redact(reason), by=by), by=by)
            if run_id not in place.engine.driving:
                await end_undriven(place.store, place.engine, place.clock, run_id, RunStatus.PAUSED)
        return (await place.record(run_id)).status


def _kind(question: Question) -> str:
    return f"{question.kind}, code {question.code}" if question.code else question.kind


__all__ = ["Steering"]
