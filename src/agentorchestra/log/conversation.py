"""Conversation: what agents that write to each other said, in the order of the log (003, sec. 3 and 4.4)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from agentorchestra.core.effects import FINISH, EffectKind, Outcome
from agentorchestra.core.events import Event, RunCreated
from agentorchestra.core.ids import EffectKey
from agentorchestra.log.ledger import Ledger

Kind = Literal["message", "create", "add", "remove", "close", "submit", "lost"]

FOUND = "found"
"""The change that founds a society, see `core.mail.Society`."""


class Exchange(BaseModel, frozen=True):
    """One thing that happened between agents that write to each other.

    Attributes:
        n: its number in the conversation, from 1.
        seconds: since the run was created, to the millisecond.
        kind: a message; a thread that is made (`create`), changed (`add`, `remove`) or closed; the answer (`submit`);
            an agent that works no more (`lost`).
        sender: who did it; of `lost` the agent that is gone.
        to: who is mentioned; of a change of threads who is let in or taken out.
        thread: its name, "" where there is none.
        content: the words; of `close` the summary, of `submit` the answer, of `lost` why.
        refused: why the mail room or a check did not accept it, "" for what was accepted.
    """

    n: int
    seconds: float
    kind: Kind
    sender: str
    to: tuple[str, ...] = ()
    thread: str = ""
    content: str = ""
    refused: str = ""


class Conversation(BaseModel, frozen=True):
    """All that was said in a society.

    Attributes:
        task: what the run was asked.
        leader: who submits the answer.
        members: the others, with what each is for.
        origin: where it comes from: the id of the run.
    """

    task: str
    leader: str
    members: dict[str, str]
    origin: str = ""
    exchanges: tuple[Exchange, ...] = Field(default=(), exclude=True)

    def lines(self) -> str:
        """Return it as lines of JSON: what it is about, then each exchange."""
        rows = [self.model_dump(mode="json"), *(one.model_dump(mode="json") for one in self.exchanges)]
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)

    @classmethod
    def of_lines(cls, text: str) -> Conversation:
        """Return the conversation of such lines; pydantic's ValidationError for what is none."""
        head, *rows = text.strip().split("\n")
        exchanges = tuple(Exchange.model_validate_json(row) for row in rows)
        return cls.model_validate_json(head).model_copy(update={"exchanges": exchanges})


def conversation(events: Sequence[Event]) -> Conversation | None:
    """Return what the agents of a run said so far, by its log; None for a run without a society."""
    ledger = Ledger.of(events)
    effects = [(event, key) for event in events if (key := _ended(event, ledger)) is not None]
    founded = next((one for event, key in effects if (one := _founded(ledger.records[key].effect))), None)
    if founded is None:
        return None
    created = events[0]
    assert isinstance(created.data, RunCreated)
    leader, members = str(founded["leader"]), dict(founded["members"])
    exchanges: list[Exchange] = []
    for event, key in effects:
        record = ledger.records[key]
        assert record.outcome is not None
        said = _said(record.effect, record.outcome, event.actor, leader, members)
        if said is not None:
            seconds = round(max(0.0, (event.ts - created.ts).total_seconds()), 3)
            exchanges.append(Exchange(n=len(exchanges) + 1, seconds=seconds, **said))
    task = created.data.manifest.task
    return Conversation(task=task, leader=leader, members=members, origin=created.run, exchanges=tuple(exchanges))


def _ended(event: Event, ledger: Ledger) -> EffectKey | None:
    """Return the key of the effect whose outcome an event is, None where it is none or was superseded."""
    if event.type != "completed" or event.n is None:
        return None
    key = EffectKey(event.branch, event.n)
    record = ledger.records.get(key)
    return key if record is not None and record.seq == event.seq and record.outcome is not None else None


def _founded(effect: Mapping[str, Any]) -> Mapping[str, Any] | None:
    arguments: Mapping[str, Any] = effect.get("arguments", {})
    founds = effect.get("kind") == EffectKind.SEND_MESSAGE and arguments.get("op") == FOUND
    return arguments if founds and "leader" in arguments and "members" in arguments else None


def _said(
    effect: Mapping[str, Any], outcome: Outcome, actor: str, leader: str, members: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the fields of the exchange that an effect is, None for effects that are none."""
    kind, arguments = effect.get("kind"), effect.get("arguments", {})
    refused = "" if outcome.ok else outcome.error or outcome.status
    said: dict[str, Any] = {"sender": actor, "refused": refused, "thread": str(arguments.get("thread", ""))}
    if kind == EffectKind.SEND_MESSAGE:
        op = arguments.get("op", "message")
        if op == FOUND:
            return None
        named = arguments.get("to") or arguments.get("participants") or arguments.get("participant")
        content = arguments.get("content") or arguments.get("summary") or ""
        return said | {"kind": op, "to": _names(named), "content": str(content)}
    if kind == EffectKind.SPAWN and arguments.get("name") in members:
        why = outcome.error or "its work has ended"
        return {"kind": "lost", "sender": str(arguments["name"]), "content": why}
    if effect.get("purpose") == FINISH and actor == leader:
        return said | {"kind": "submit", "content": _answer(arguments)}
    return None


def _names(named: Any) -> tuple[str, ...]:
    """Return the names in an argument; that of a call that was refused may be anything."""
    return tuple(str(one) for one in (named if isinstance(named, list) else [named]) if one)


def _answer(arguments: Mapping[str, Any]) -> str:
    """Return the answer that is submitted, in words."""
    answer, output = arguments.get("answer"), arguments.get("output")
    return str(answer) if answer else "" if output is None else json.dumps(output, ensure_ascii=False)
