"""The history of a component, as the store keeps it: one life for tools, environments, agents, prompts and memories."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field, JsonValue


class ComponentChange(BaseModel, frozen=True):
    """One entry of a component's history; the component is the sum of its entries (`tea/registry/registry.py`).

    Entries are never changed or deleted. `seq` counts from 1 without gaps for each (kind, name), so that of two
    processes that want to add the next one only one can.
    """

    kind: str
    name: str
    seq: int = Field(ge=1)
    ts: datetime  # aware
    type: str  # what happened: `registered`, `activated`, `state`, `hidden`, ...
    body: dict[str, JsonValue] = {}  # the rest, by type; texts it refers to are blobs
