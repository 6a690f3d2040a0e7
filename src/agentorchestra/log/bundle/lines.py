"""Events as lines of JSON, and back: nothing of an event is lost or changed on the way."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from agentorchestra.core.errors import AgentOrchestraError, BundleError
from agentorchestra.core.events import BODIES, Event, upcast
from agentorchestra.log.store import rows

TAIL = "nothing was imported"

_LARGEST = 2**63 - 1
_LARGEST_SMALL = 2**31 - 1


class _Line(BaseModel, extra="forbid", strict=True):
    """The fields of a line: the names and types of an event, nothing else."""

    run: str
    seq: int = Field(ge=1, le=_LARGEST)
    branch: str
    n: int = Field(ge=-_LARGEST, le=_LARGEST)
    attempt: int = Field(ge=1, le=_LARGEST_SMALL)
    type: str
    v: int = Field(ge=1, le=_LARGEST_SMALL)
    ts: str
    span: str | None = None
    parent_span: str | None = None
    actor: str
    body: dict[str, Any]


def to_line(event: Event) -> bytes:
    """Return an event as one line, with its end.

    In UTF-8; halves of surrogate pairs (providers do send them) are escaped, where reading would not join them.
    """
    value = {name: getattr(event, name) for name in _Line.model_fields} | {"ts": rows.stamp(event.ts)}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not rows.encodable(text):
        ascii_text = json.dumps(value, separators=(",", ":"))
        if json.loads(ascii_text)["body"] == event.body:
            text = ascii_text
    return text.encode("utf-8", "surrogatepass") + b"\n"


def from_line(line: bytes, place: str) -> Event:
    """Return the event of a line, checked as far as one event can be; BundleError beginning with `place` otherwise."""
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as exc:
        raise BundleError(f"{place} is not JSON ({first_problem(exc)}); {TAIL}") from None
    try:
        fields = _Line.model_validate(value)
        event = Event.model_validate(fields.model_dump())
    except (ValidationError, RecursionError) as exc:
        raise BundleError(f"{place} is no event ({first_problem(exc)}); {TAIL}") from None
    if fields.n < 0 and event.type != "answered":
        raise BundleError(f"{place} is no event (n is {fields.n}, and only answers have numbers below 0); {TAIL}")
    for text in (event.branch, event.span, event.parent_span, event.actor):
        if text is not None and ("\0" in text or not rows.encodable(text)):
            raise BundleError(f"{place} is no event (a name with characters no name has); {TAIL}")
    if event.ts.utcoffset() is None:
        raise BundleError(f"{place} is no event (its time {event.ts} has no zone); {TAIL}")
    try:
        event = event.model_copy(update={"ts": event.ts.astimezone(UTC)})
        body = upcast(event.type, event.v, event.body)
        BODIES[event.type].model_validate(body)
    except (AgentOrchestraError, KeyError, TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise BundleError(f"{place} cannot be read: {first_problem(exc)}; {TAIL}") from None
    return event


def first_problem(exc: BaseException) -> str:
    """Return what an exception says first, in one line."""
    if isinstance(exc, ValidationError):
        first = exc.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
    return (str(exc).splitlines() or [""])[0][:200] or type(exc).__name__
