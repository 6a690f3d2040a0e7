"""Conversation: what agents that write to each other said, in the order of the log (003, sec. 3 and 4.4)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel

from agentorchestra.core.effects import FINISH, EffectKind
from agentorchestra.core.events import Event, RunCreated
from agentorchestra.core.ids import EffectKey
from agentorchestra.log.ledger import Ledger, Record, within

Kind = Literal["message", "create", "add", "remove", "close", "submit", "lost"]

FOUNDING = "found"  # the change that founds a society, see `core.mail.Society`


class AgentExchange(BaseModel, frozen=True):
    """One thing that happened between agents that write to each other."""

    n: int  # its number in the conversation, from 1
    seconds: float  # since the run was created, to the millisecond
    # a message; a thread that is made (`create`), changed (`add`, `remove`) or closed; the answer (`submit`); an agent
    # that works no more (`lost`)
    kind: Kind
    sender: str  # who did it; of `lost` the agent that is gone
    to: tuple[str, ...] = ()  # who is mentioned; of a change of threads who is let in or taken out
    thread: str = ""  # its name, "" where there is none
    content: str = ""  # the words; of `close` the summary, of `submit` the answer, of `lost` why
    refused: str = ""  # why the mail room or a check did not accept it, "" for what was accepted


class Conversation(BaseModel, frozen=True):
    """All that was said in a society."""

    task: str  # what the run was asked
    leader: str  # who submits the answer
    members: dict[str, str]  # the others, with what each is for
    origin: str = ""  # where it comes from: the id of the run
    exchanges: tuple[AgentExchange, ...] = ()

    def lines(self) -> str:
        """Return it as lines of JSON: what it is about, then each exchange."""
        rows = [self.model_dump(mode="json", exclude={"exchanges"})]
        rows += [exchange.model_dump(mode="json") for exchange in self.exchanges]
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)

    @classmethod
    def of_lines(cls, text: str) -> Conversation:
        """Return the conversation of such lines; pydantic's ValidationError for what is none."""
        head, *rows = text.strip().split("\n")
        exchanges = tuple(AgentExchange.model_validate_json(row) for row in rows)
        return cls.model_validate_json(head).model_copy(update={"exchanges": exchanges})


def conversation(events: Sequence[Event]) -> Conversation | None:
    """Return what the agents of a run said so far, by its log; None for a run without a society."""
    ledger = Ledger.of(events)
    effects = [(event, ledger.records[key]) for event in events if (key := _end_key(event, ledger)) is not None]
    founding = next(((event, start) for event, record in effects if (start := _founding(record)) is not None), None)
    if founding is None:
        return None
    created = events[0]
    assert isinstance(created.data, RunCreated)
    home, team = founding
    talk = Conversation(
        task=created.data.manifest.task, leader=str(team["leader"]), members=dict(team["members"]), origin=created.run
    )
    exchanges: list[AgentExchange] = []
    for event, record in effects:
        fields = _fields(event, record, talk, home.branch)
        if fields is not None:
            seconds = round(max(0.0, (event.ts - created.ts).total_seconds()), 3)
            exchanges.append(AgentExchange(n=len(exchanges) + 1, seconds=seconds, **fields))
    return talk.model_copy(update={"exchanges": tuple(exchanges)})


def _end_key(event: Event, ledger: Ledger) -> EffectKey | None:
    """Return the key of the effect whose outcome an event is, None where it is none or was superseded."""
    if event.type != "completed" or event.n is None:
        return None
    key = EffectKey(event.branch, event.n)
    record = ledger.records.get(key)
    return key if record is not None and record.seq == event.seq and record.outcome is not None else None


def _founding(record: Record) -> Mapping[str, Any] | None:
    """Return the arguments of the change that founds the society, None for what is none."""
    arguments: Mapping[str, Any] = record.effect.get("arguments", {})
    founds = record.kind is EffectKind.SEND_MESSAGE and arguments.get("op") == FOUNDING
    return arguments if founds and record.outcome is not None and record.outcome.ok else None


def _fields(event: Event, record: Record, talk: Conversation, home: str) -> dict[str, Any] | None:
    """Return the fields of the exchange that an effect is, None for effects that are none.

    Args:
        event: recorded its outcome.
        home: the leader's branch, on which the members were spawned: others may have the same names.
    """
    outcome, arguments = record.outcome, record.effect.get("arguments", {})
    assert outcome is not None
    refusal = "" if outcome.ok else outcome.error or outcome.status
    fields: dict[str, Any] = {"sender": event.actor, "refused": refusal, "thread": str(arguments.get("thread", ""))}
    if record.kind is EffectKind.SEND_MESSAGE:
        op = arguments.get("op", "message")
        if op not in get_args(Kind):
            return None
        names = arguments.get("to") or arguments.get("participants") or arguments.get("participant")
        content = arguments.get("content") or arguments.get("summary") or ""
        return fields | {"kind": op, "to": _names(names), "content": str(content)}
    if record.kind is EffectKind.SPAWN and event.branch == home and arguments.get("name") in talk.members:
        reason = outcome.error or "its work has ended"
        return {"kind": "lost", "sender": str(arguments["name"]), "content": reason}
    if record.effect.get("purpose") == FINISH and event.actor == talk.leader and within(event.branch, home):
        return fields | {"kind": "submit", "content": _answer(arguments)}
    return None


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in (value if isinstance(value, list) else [value]) if name)


def _answer(arguments: Mapping[str, Any]) -> str:
    answer, output = arguments.get("answer"), arguments.get("output")
    return str(answer) if answer else "" if output is None else json.dumps(output, ensure_ascii=False)
