"""`fetch`: a page of the web, from its beginning or a part of it, every piece with its place."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from pydantic import Field

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import ToolError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tools.files.common import how_to_look, note
from agentorchestra.tools.files.documents import Document, is_media
from agentorchestra.tools.files.read import document_blocks, extent_of
from agentorchestra.tools.web.pages import Page, artifact_name, file_name, is_text, outline
from agentorchestra.tools.web.reader import WebPageReader
from agentorchestra.trust.arguments import INSIDE

_Inside = Annotated[str, Field(json_schema_extra={"format": INSIDE})]
LINKS = "links"  # the part that lists the links of a page
PICTURES = "pictures"  # the part that lists its pictures
_LINKS_SHOWN = 200
_BEGINNING = 1_200  # characters of a page that a crawler followed a link to
PAGE_CHARS = 8_000  # about how much of a page is given at once: most of what stands on pages serves no question


def fetch_tool(reader: WebPageReader) -> Tool[..., Any]:
    @tool(effect=("read", "network"))
    async def fetch(
        ctx: RunContext[Any], url: str, part: _Inside = "", fresh: bool = False, encoding: _Inside = ""
    ) -> ToolResult:
        """Read a page, PDF or office file at an address, with the places of what it holds.

        Args:
            url: The whole address, as you found it.
            part: Of a long page: "lines 200-400", "p. 3", "rows 7-20", a sheet's name, "links" or "pictures".
            fresh: Read it again, not what was kept of it.
            encoding: Of its text, e.g. "cp1251", where the result says that it is a guess.
        """
        page, body, cached = await reader.page(url, fresh=fresh, secret=ctx.secret, encoding=encoding)
        document = await asyncio.to_thread(page.read)
        artifacts = await _artifacts(ctx, page, body)
        if part.strip().lower() in (LINKS, PICTURES):
            content = _listing(page, part.strip().lower())
        else:
            content = await asyncio.to_thread(_blocks, page, document, part.strip(), how_to_look(ctx))
        head = _head(page, document, artifacts[0].name, cached=cached, whole=not part.strip())
        # Titles and headings are the page's words: they stand in a quotation as its content does.
        content = [_quote(page, head), *content]
        if not part.strip():
            async for linked_page in reader.linked_pages(page, fresh=fresh):
                if isinstance(linked_page, WebError):
                    content.append(note(f"A page that it links to: {linked_page}"))
                    continue
                artifacts += await _artifacts(ctx, linked_page, b"")
                content += await asyncio.to_thread(_beginning, linked_page)
        return ToolResult(content=content, artifacts=artifacts, trust=Trust.UNTRUSTED)

    return fetch


def _quote(page: Page, text: str, place: str | None = None) -> TextBlock:
    return TextBlock(text=text, source=Source(kind="web", ref=page.final_url, place=place), trust=Trust.UNTRUSTED)


def _beginning(page: Page) -> list[Block]:
    """Return the first paragraphs of a page that a crawler followed a link to."""
    if page.document["kind"] != "text" or not is_text(page):
        return [_quote(page, f"{page.final_url}; {page.media_type}; fetch it by itself")]
    head = f"{page.final_url}; linked from there; title: {page.about.get('title', 'none')}"
    blocks = _blocks(page, page.read(), "", limit=_BEGINNING)[:1]
    longer = len(str(page.document["text"])) > _BEGINNING
    return [_quote(page, head), *blocks, *([note(f"{page.final_url} goes on; fetch it by itself.")] if longer else [])]


def _blocks(page: Page, document: Document, part: str, way: str = "", limit: int = PAGE_CHARS) -> list[Block]:
    if is_media(page.media_type):
        if part:
            raise ToolError(f"{page.final_url} is {page.media_type} and has no part {part!r}; leave `part` out.")
        return [_quote(page, str(page.document.get("text", "")))]
    return document_blocks(document, page.final_url, part, "web", way=way, limit=limit)


def _listing(page: Page, part: str) -> list[Block]:
    entries, most = (page.links, _LINKS_SHOWN) if part == LINKS else (page.pictures, None)
    if not entries:
        return [note(f"It has no {part}.")]
    lines = [f"- {words or '(no words)'}: {target}" for words, target in entries[:most]]
    if len(entries) > len(lines):
        lines.append(f"and {len(entries) - len(lines)} more")
    return [_quote(page, "\n".join(lines), part)]


def _head(page: Page, document: Document, artifact: str, *, cached: bool, whole: bool) -> str:
    about = page.about
    facts = [f"{page.final_url}"]
    if page.url != page.final_url:
        facts.append(f"reached from {page.url} by {len(page.redirects)} redirect(s)")
    # What the address says already is not said again.
    names = {name: about.get(name) or "" for name in ("title", "author", "sitename")}
    facts += [f"{name}: {value}" for name, value in names.items() if value and value.lower() not in facts[0].lower()]
    if about.get("date"):
        facts.append(f"dated {about['date']}")
    facts.append(f"{page.media_type}, {page.size:,} bytes")
    facts.append(f"kept since {page.read_at} (fresh=true reads it again)" if cached else f"read at {page.read_at}")
    if not is_media(page.media_type):
        facts.append(extent_of(document))
    if page.links:
        facts.append(f"{len(page.links)} links (part='{LINKS}')")
    if page.pictures:
        facts.append(f"{len(page.pictures)} pictures (part='{PICTURES}')")
    facts.append(f"the whole is the artifact {artifact}")
    lines = ["; ".join(facts), *(f"Note: {note}." for note in page.notes)]
    if whole and is_text(page) and len(str(page.document["text"])) > PAGE_CHARS:
        lines += ["Headings:", *outline(document)] if outline(document) else []
    return "\n".join(lines)


async def _artifacts(ctx: RunContext[Any], page: Page, body: bytes) -> tuple[ArtifactRef, ...]:
    """Keep a page, which quotes are checked against, and a file as it is, by the address that answered or was asked."""
    if is_text(page):
        text = str(page.document["text"]).encode("utf-8", "replace")
        artifacts = [await ctx.artifact(artifact_name(page.final_url, ".md"), text, "text/markdown", made_for="run")]
    elif not body:
        return ()  # what is only named here has no artifact yet
    else:
        file = f"-{file_name(page.final_url)}"
        data = json.dumps(page.document, ensure_ascii=False).encode("utf-8", "replace")
        artifacts = [
            await ctx.artifact(artifact_name(page.final_url, file), body, page.media_type, made_for="run"),
            await ctx.artifact(artifact_name(page.final_url, ".json"), data, "application/json", made_for="run"),
        ]
    if page.url != page.final_url:
        ending = ".md" if is_text(page) else ".json"
        artifacts.append(artifacts[-1].model_copy(update={"name": artifact_name(page.url, ending)}))
    return tuple(artifacts)
