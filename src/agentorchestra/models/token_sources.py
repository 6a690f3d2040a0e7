"""Where the tokens of a run went: input tokens by the source of what stood in the prompts, from the log alone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from agentorchestra.core.content import Block
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import Message, ModelRequest
from agentorchestra.log.ledger import Ledger
from agentorchestra.models.prices import estimate_input_tokens, estimate_messages_tokens


class SourceTokens(BaseModel, frozen=True):
    """What one source took in the prompts of a run."""

    source: str  # `prompt`, `tool schemas`, `task`, `file lease.pdf`, `tool search_files`, `agent planner`, ...
    requests: int  # model requests in which it stood
    # input tokens it took in all of them. The provider counts a request as a whole; it is split in proportion to the
    # estimated size of its parts.
    tokens: int
    largest: int  # the most it took in one request


def tokens_by_source(ledger: Ledger) -> tuple[SourceTokens, ...]:
    """Input tokens by source over all answered requests of a run, the largest first."""
    sums: dict[str, list[float]] = {}
    for record in ledger.records.values():
        if record.effect.get("kind") != EffectKind.REQUEST_MODEL or record.outcome is None or not record.outcome.ok:
            continue
        if ledger.is_inherited(record):
            continue  # the run it was forked from paid for it
        request = ledger.codec.decode(record.effect).request
        if request is None:
            continue
        parts: dict[str, int] = {}
        for source, tokens in _parts(request):
            parts[source] = parts.get(source, 0) + tokens
        whole = sum(parts.values())
        input_tokens = record.outcome.usage.input_tokens or whole
        for source, tokens in parts.items():
            share = input_tokens * tokens / whole if whole else 0.0
            sums.setdefault(source, []).append(share)
    rows = [
        SourceTokens(source=source, requests=len(shares), tokens=round(sum(shares)), largest=round(max(shares)))
        for source, shares in sums.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.tokens, row.source)))


def _parts(request: ModelRequest) -> Iterator[tuple[str, int]]:
    if request.tools:
        yield "tool schemas", estimate_input_tokens(request.model_copy(update={"messages": ()}))
    for message in request.messages:
        bare = message.model_copy(update={"content": ()})
        around = estimate_messages_tokens((bare,))
        if message.tool_calls or not message.content:
            yield "calls" if message.tool_calls else message.role, around
        for block in message.content:
            part = Message(role=message.role, content=(block,))
            yield _name(block), estimate_messages_tokens((part,))


def _name(block: Block) -> str:
    source = block.source
    if source is None:
        return "task"
    return f"{source.kind} {source.ref}".strip()
