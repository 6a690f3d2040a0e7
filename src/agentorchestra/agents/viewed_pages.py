"""The pages that a browser showed an agent, from the log of its branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.core.content import TextBlock
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.ids import EffectKey
from agentorchestra.log.ledger import Record, within
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tools.web.pages import is_address


@dataclass(frozen=True)
class Look:
    """A text of a page, as the agent was shown it."""

    address: str
    text: str


def records_of(ctx: BranchContext[Any]) -> list[tuple[EffectKey, Record]]:
    """Return what a branch and its programs did so far, in order; a replay's log holds later things too."""
    records = [
        (key, record)
        for key, record in ctx.run.ledger.records.items()
        if within(key.branch, ctx.branch) and _number(key, ctx.branch) <= ctx.last_n
    ]
    return sorted(records, key=lambda entry: entry[1].seq)


def _number(key: EffectKey, branch: str) -> int:
    """Return the number, on a branch, of the effect that something belongs to."""
    if key.branch == branch:
        return key.n
    head = key.branch.removeprefix(branch).lstrip("/").partition("/")[0].partition(".")[0]
    return int(head) if head.isdigit() else 0


def looks(ctx: BranchContext[Any]) -> list[Look]:
    """Return every page that the agent was shown, in order: in the state before a step, or by an action."""
    pages = []
    for _, record in records_of(ctx):
        outcome = record.outcome
        if outcome is None or record.effect.get("kind") != EffectKind.INVOKE_ACTION:
            continue
        for block in outcome.blocks():
            source = block.source
            if isinstance(block, TextBlock) and source is not None and source.kind == "web" and is_address(source.ref):
                pages.append(Look(source.ref, block.text))
    return pages


def addresses_of(pages: Sequence[Look]) -> list[str]:
    """Return the addresses of pages, each once, in the order in which they were seen."""
    return list(dict.fromkeys(page.address for page in pages))
