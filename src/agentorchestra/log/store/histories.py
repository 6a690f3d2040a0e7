"""The histories of components as rows and back, and which entries may be appended: the same for every store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import ComponentConflictError, StoreError
from agentorchestra.log.store.rows import encodable, stamp

Component = tuple[str, str]  # kind and name


def encode(changes: Sequence[ComponentChange]) -> list[tuple[Any, ...]]:
    """Return the rows in the order of `schema.components`' columns; StoreError if a body is not JSON, a time naive."""
    return [(change.kind, change.name, change.seq, stamp(change.ts), change.type, _body(change)) for change in changes]


def _body(change: ComponentChange) -> str:
    try:
        text = json.dumps(change.body, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as exc:
        raise StoreError(f"entry {change.seq} of {_label(change.kind, change.name)} is not JSON: {exc}") from exc
    # Half a pair of surrogates has no UTF-8; escaped it has.
    return text if encodable(text) else json.dumps(change.body, separators=(",", ":"))


def decode(row: Sequence[Any]) -> ComponentChange:
    kind, name, seq, ts, type_, body = row
    return ComponentChange.model_construct(
        kind=kind, name=name, seq=seq, ts=datetime.fromisoformat(ts), type=type_, body=json.loads(body)
    )


def components_of(rows: Iterable[Sequence[Any]]) -> list[Component]:
    """Return the components that rows belong to, sorted: who locks several does so in one order."""
    return sorted({(row[0], row[1]) for row in rows})


def check_places(rows: Iterable[Sequence[Any]], heads: Mapping[Component, int]) -> None:
    """Raise ComponentConflictError for the first row that is not the next one of its history.

    Rows of one component come in the order of their places; `heads` has the last place of each history there is.
    """
    last: dict[Component, int] = {}
    for kind, name, seq, *_ in rows:
        head = last.get((kind, name), heads.get((kind, name), 0))
        if seq <= head:
            raise ComponentConflictError(
                f"entry {seq} of {_label(kind, name)} was written by somebody else meanwhile (its history has {head} "
                "entries); nothing was written. Read it again, then try again"
            )
        if seq > head + 1:
            raise ComponentConflictError(
                f"the history of {_label(kind, name)} has {head} entries, so the next one is {head + 1} and not {seq}; "
                "nothing was written. Read it again, then try again"
            )
        last[kind, name] = seq


def _label(kind: str, name: str) -> str:
    return f"{kind} {name!r}"
