"""Results of calls on servers as blocks: text, pictures, sound, resources; untrusted, bounded, with its source."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Sequence
from typing import Any

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from mcp import types

MAX_MEDIA_BYTES = 20_000_000
MAX_BLOCKS = 200
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}")
_VISIBLE_TYPES = ("image/", "audio/", "application/pdf")
_LONGEST_WORD = 500


async def tool_result(result: types.CallToolResult, ctx: RunContext[Any], server: str, tool: str) -> ToolResult:
    """Return the result of a call; a ToolError with the server's words where it ended in an error."""
    source = Source(kind="tool", ref=f"mcp:{server}/{tool}")
    if result.is_error:
        words = "\n".join(part.text for part in result.content if isinstance(part, types.TextContent)).strip()
        raise ToolError(f"{tool} on the MCP server {server!r} failed: {words or 'it does not say why'}")
    writer = _Blocks(ctx, source, tool)
    for part in result.content[:MAX_BLOCKS]:
        await writer.add(part)
    if len(result.content) > MAX_BLOCKS:
        writer.say(f"[{len(result.content) - MAX_BLOCKS:,} further parts of the result are left out]")
    if result.structured_content is not None and not _is_in_text(result.structured_content, writer.blocks):
        if not writer.blocks:
            return ToolResult(content=result.structured_content, trust=Trust.UNTRUSTED, sources=(source,))
        writer.say(json.dumps(result.structured_content, ensure_ascii=False))
    return ToolResult(content=writer.blocks or None, artifacts=tuple(writer.artifacts), trust=Trust.UNTRUSTED)


def _is_in_text(content: Any, blocks: Sequence[Block]) -> bool:
    """Return True if the text says the same as the structured content: servers send both, for older clients."""
    forms = [content]
    if isinstance(content, dict) and len(content) == 1:
        forms += content.values()  # a plain value that was wrapped
    parts = [block.text for block in blocks if isinstance(block, TextBlock)]
    texts = [*parts, "\n".join(parts)]
    read = [_json(text) for text in texts]
    if isinstance(forms[-1], list) and [_json(text) for text in parts] == forms[-1]:
        return True  # one part of text for each
    return any(form in read or form in texts or form == parts for form in forms)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class _Blocks:
    def __init__(self, ctx: RunContext[Any], source: Source, tool: str) -> None:
        self.blocks: list[Block] = []
        self.artifacts: list[ArtifactRef] = []
        self._ctx = ctx
        self._source = source
        self._tool = tool

    async def add(self, part: types.ContentBlock) -> None:
        if isinstance(part, types.TextContent):
            self.say(part.text)
        elif isinstance(part, types.ImageContent | types.AudioContent):
            await self._bytes(part.data, part.mime_type, part.type)
        elif isinstance(part, types.ResourceLink):
            about = f": {_word(part.description)}" if part.description else ""
            self.say(f"[a resource, not read: {_word(part.name)}, {_word(part.uri)}{about}]")
        elif isinstance(part.resource, types.TextResourceContents):
            self.say(part.resource.text, place=_word(part.resource.uri))
        else:
            await self._bytes(part.resource.blob, part.resource.mime_type or "", _word(part.resource.uri))

    def say(self, text: str, place: str | None = None) -> None:
        source = self._source if place is None else self._source.model_copy(update={"place": place})
        self.blocks.append(TextBlock(text=text, source=source, trust=Trust.UNTRUSTED))

    async def _bytes(self, data: str, media_type: str, subject: str) -> None:
        """Keep bytes as an artifact; show them where a model may take them."""
        size = len(data) * 3 // 4
        if size > MAX_MEDIA_BYTES:
            self.say(f"[{subject} left out: it has about {size:,} bytes, at most {MAX_MEDIA_BYTES:,} are kept]")
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.say(f"[{subject} left out: its bytes are not base64]")
            return
        kind = media_type.partition(";")[0].strip().lower()
        kind = kind if _MEDIA_TYPE.fullmatch(kind) else "application/octet-stream"
        place = self._ctx.key.path.strip("/").replace("/", "_")
        name = f"{place}-{self._tool}-{len(self.blocks) + 1}{mimetypes.guess_extension(kind) or '.bin'}"
        ref = await self._ctx.artifact(name, content, kind)
        self.artifacts.append(ref)
        if kind.startswith(_VISIBLE_TYPES):
            self.blocks.append(
                MediaBlock(media_type=kind, sha256=ref.sha256, size=ref.size, name=ref.name, source=self._source)
            )
        else:
            self.say(f"[{subject}: {len(content):,} bytes of {kind}, kept as the artifact {ref.name}]")


def _word(text: str) -> str:
    """Return a name or address from a stranger in one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_WORD else f"{line[: _LONGEST_WORD - 1]}…"
