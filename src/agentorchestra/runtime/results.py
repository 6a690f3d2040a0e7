"""What a tool or an action returned, as the value that is recorded: JSON or blocks, capped in trust, cut to size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json, to_jsonable_python

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.effects import BLOCKS, ArtifactRef, Outcome, blocks_value
from agentorchestra.core.ids import canonical_json, is_plain
from agentorchestra.core.protocols import AgentSlot

MAX_RESULT_CHARS = 20_000
SHORTEST_CHARS = 200
END_SHARE = 4  # of a long result the last quarter of what is kept is its end
BETWEEN = "\n\n"  # stands between the blocks of a result that is kept as one text

_SHORT = frozenset({bool, float, type(None)})
_SHORT_INT = 10**SHORTEST_CHARS


@dataclass(frozen=True)
class ToolResult:
    """What a tool or an action may return when its value alone does not say enough.

    Attributes:
        content: a JSON value, a pydantic model, a dataclass, a block or a list of blocks.
        artifacts: files that it made (`await ctx.artifact(...)`).
        trust: how far the content may be trusted, where the tool knows better than the rule: what is computed is as
            trusted as what was in view, at most `agent`; what reads, performs effects or does not say is untrusted.
        sources: where the content came from.
        cost_usd: what the call did cost; without it, a tool with `max_cost_usd` is taken to have cost that.
        links: paths of the addresses in the content that count as received links (docs/security.md) though the tool
            reads nothing from the network: those of pages of which it searched a copy. Of one that is tagged as the
            network all addresses count.
    """

    content: Any = None
    artifacts: tuple[ArtifactRef, ...] = ()
    trust: Trust | None = None
    sources: tuple[Source, ...] = ()
    cost_usd: float | None = None
    links: tuple[tuple[str, ...], ...] = ()


def result_value(content: Any, trust: Trust, sources: Sequence[Source] = (), *, origin: Source) -> JsonValue:
    """Return the content as the JSON value of an outcome, trusted no further than `trust`.

    `sources` are where the component says it comes from; `origin`, the component, is the source of its blocks that name
    none and are not its own notes (`Trust.SYSTEM`). What is not JSON raises pydantic's or Python's own error.
    """
    if not sources and is_plain(content):
        return _as_data(content)
    if isinstance(content, TextBlock | MediaBlock):
        content = [content]
    is_blocks = isinstance(content, list | tuple) and bool(content)
    if is_blocks and all(isinstance(block, TextBlock | MediaBlock) for block in content):
        blocks: list[Block] = [_cap(_with_source(block, origin), trust) for block in content]
    else:
        value = _as_data(_json(content))
        if not sources:
            return value
        text = value if isinstance(value, str) else canonical_json(value)
        blocks = [TextBlock(text=text, source=sources[0], trust=trust)]
        return blocks_value([*blocks, *(_source_line(source, trust) for source in sources[1:])])
    return blocks_value([*blocks, *(_source_line(source, trust) for source in sources)])


def _as_data(value: JsonValue) -> JsonValue:
    """Return JSON that is written like our blocks as a text: whoever returned it could give it any source and trust."""
    return canonical_json(value) if isinstance(value, dict) and BLOCKS in value else value


def _json(content: Any) -> JsonValue:
    value: JsonValue = to_jsonable_python(content, by_alias=True)
    try:
        canonical_json(value)
    except ValueError:
        # Not a number, or infinite: JSON has no such numbers, a reader understands their names.
        value = from_json(to_json(content, inf_nan_mode="strings", by_alias=True))
    return value


def _cap(block: Block, trust: Trust) -> Block:
    return block if block.trust.rank <= trust.rank else block.model_copy(update={"trust": trust})


def _with_source(block: Block, origin: Source) -> Block:
    """Return a block with a source where its text is from outside: by that it is marked (models/render.py)."""
    if isinstance(block, TextBlock) and block.source is None and block.trust is Trust.UNTRUSTED:
        return block.model_copy(update={"source": origin})
    return block


def _source_line(source: Source, trust: Trust) -> TextBlock:
    place = f", {source.place}" if source.place else ""
    return TextBlock(text=f"Source: {source.ref or source.kind}{place}", source=source, trust=trust)


def is_short(value: JsonValue) -> bool:
    """Return True if there is nothing to cut for certain."""
    if type(value) is int:
        return bool(-_SHORT_INT < value < _SHORT_INT)
    return type(value) in _SHORT or (type(value) is str and len(value) <= SHORTEST_CHARS)


def room_of_caller(ctx: Any) -> int | None:
    """Return the longest result that the window of the agent behind a call has room for; None for no limit."""
    agent: AgentSlot | None = getattr(getattr(ctx, "parent", None), "agent", None)
    return agent.result_chars if agent is not None else None


async def cut_result(
    value: JsonValue, name: str, ctx: Any, *, max_chars: int = MAX_RESULT_CHARS
) -> tuple[JsonValue, tuple[ArtifactRef, ...]]:
    """Return the value as it is recorded, and the artifact that holds the whole where something was left out.

    What is kept are the beginning and the end: programs say at last what came of it, tables have their sums there. Of
    `max_chars` fewer are kept where the calling agent's window has no room for as many.
    """
    room = room_of_caller(ctx)
    if room is not None:
        max_chars = min(max_chars, max(room, SHORTEST_CHARS))
    if _chars(value) <= max_chars:
        return value, ()
    blocks, text = _read(value)
    redactor = getattr(getattr(ctx, "run", None), "redactor", None)
    if redactor is not None:
        # Before anything is cut or kept: half a secret is not recognised any more.
        blocks, text = _read(redactor.json(value))
    is_text = blocks is not None or isinstance(value, str)
    suffix, media_type = ("txt", "text/plain; charset=utf-8") if is_text else ("json", "application/json")
    place = ctx.key.path.strip("/").replace("/", "_")
    data = text.encode("utf-8", "replace")
    ref = await ctx.artifact(f"{place}-{name}.{suffix}", data, media_type, made_for="run")
    last = max_chars // END_SHARE
    first, on = max_chars - last, len(text) - last
    note = (
        f"[cut: {on - first:,} of {len(text):,} characters left out here, from start={first} on; "
        f"the whole result is kept as the artifact {ref.name}, which read_artifact reads in parts]"
    )
    if blocks is None:
        return f"{text[:first]}\n{note}\n{text[on:]}", (ref,)
    return blocks_value(_ends(blocks, first, on, TextBlock(text=note, trust=Trust.SYSTEM))), (ref,)


def _chars(value: JsonValue) -> int:
    """Return the length of the text that `_read` gives."""
    if isinstance(value, dict) and value.keys() == {BLOCKS} and isinstance(blocks := value[BLOCKS], list):
        texts = [len(str(block["text"])) for block in blocks if isinstance(block, dict) and "text" in block]
        return sum(texts) + len(BETWEEN) * max(len(texts) - 1, 0)
    return len(value) if isinstance(value, str) else len(canonical_json(value))


def _read(value: JsonValue) -> tuple[tuple[Block, ...] | None, str]:
    """Return the blocks of a value, where it has some, and its text."""
    if isinstance(value, dict) and value.keys() == {BLOCKS}:
        blocks = Outcome(value=value).blocks()
        return blocks, BETWEEN.join(block.text for block in blocks if isinstance(block, TextBlock))
    return None, value if isinstance(value, str) else canonical_json(value)


def _ends(blocks: tuple[Block, ...], first: int, on: int, note: TextBlock) -> list[Block]:
    """Return the blocks without the characters `first` to `on` of the text `_read` gives, the note in their place."""
    rest: list[Block] = []
    at, is_noted = 0, False
    for block in blocks:
        if not isinstance(block, TextBlock):
            rest.append(block)
            continue
        end = at + len(block.text)
        begins, ends = block.text[: max(0, first - at)], block.text[max(0, on - at) :]
        if begins:
            rest.append(block.model_copy(update={"text": begins}))
        if end > first and not is_noted:
            rest.append(note)
            is_noted = True
        if ends:
            rest.append(block.model_copy(update={"text": ends}))
        at = end + len(BETWEEN)
    return rest
