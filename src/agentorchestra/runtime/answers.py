"""Answers: one for each question. Of several that are given at once the first in the log holds, whoever gave it."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import NamedTuple

from pydantic import JsonValue

from agentorchestra.core.errors import DuplicateEventError
from agentorchestra.core.events import Answered, Event, new_event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import Store
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.run import wait_for


class Holding(NamedTuple):
    event: Event | None  # in the log; None where the question is asked no more
    is_new: bool = False  # whether it is the one that was just given


async def settle(
    store: Store, run: str, question: str, answer: JsonValue, *, by: str, now: datetime, began: int | None = None
) -> Holding:
    """Answer a question (by its key, redacted), unless it has its answer; return the one that holds.

    `began` is the event with which it was asked, as whoever answers saw it; None for as it is asked now.
    """
    key = EffectKey.parse(question)
    own_seq: int | None = None
    while True:
        events = await store.load(run)
        ledger = Ledger.of(events)
        first = ledger.answered.get(question)
        if first is not None:
            return Holding(first, first.seq == own_seq)
        record = ledger.records.get(key)
        anew = record is not None and began not in (None, record.began)
        if record is None or anew or record.outcome is not None or own_seq is not None:
            return Holding(None)  # superseded, and perhaps asked anew: an answer to the old question is none
        earlier = sum(1 for row in events if row.type == "answered" and row.body.get("question") == question)
        event = new_event(
            Answered(question=question, answer=answer, by=by, asked=record.began),
            ts=now,
            n=_number(question),
            attempt=earlier + 1,
            actor=by,
        )
        try:
            (own_seq,) = await wait_for(store.append(run, None, [event]))
        except DuplicateEventError:
            continue  # somebody was faster


def _number(question: str) -> int:
    """Return a number of its own for a question, below zero: the log takes one event of number, type and attempt."""
    return -1 - int.from_bytes(hashlib.sha256(question.encode()).digest()[:7])


def earlier_answer(run: str, event: Event) -> str:
    by = f" by {event.body['by']}" if event.body.get("by") else ""
    return (
        f"question {event.body['question']} of run {run} was answered already{by}, at "
        f"{event.ts:%Y-%m-%d %H:%M:%S} UTC; that answer holds: `agentorchestra show {run}`"
    )
