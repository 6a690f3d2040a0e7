"""Memory in the log of a run, and as a request tells of it."""

from __future__ import annotations

from agentorchestra import Workspace
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ModelRequest
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.tea.memory.base import Entry


async def records(ws: Workspace, run_id: str) -> list[Record]:
    return list(Ledger.of(await ws.store.load(run_id)).records.values())


def of_kind(found: list[Record], kind: EffectKind) -> list[Record]:
    return [one for one in found if one.effect.get("kind") == kind]


def written(found: list[Record]) -> list[Entry]:
    return [
        Entry.model_validate(e)
        for r in of_kind(found, EffectKind.WRITE_MEMORY)
        for e in r.effect["arguments"]["entries"]
    ]


def told(request: ModelRequest) -> str:
    """What a request says of earlier tasks."""
    return "\n".join(
        getattr(block, "text", "")
        for message in request.messages
        for block in message.content
        if block.source is not None and block.source.kind == "memory"
    )
