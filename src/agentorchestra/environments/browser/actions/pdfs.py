"""The action on PDFs: their text page by page (001, sec. 3.3.2). Chromium shows them as a picture without any text."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import Any

from agentorchestra.core.content import Block, Source, SourceKind, TextBlock, Trust
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.environments.browser.actions.arguments import Inside
from agentorchestra.environments.browser.actions.files import FileActions
from agentorchestra.environments.browser.view.text import without_password
from agentorchestra.environments.files import disk
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action

MOST_HITS = 20
_AROUND = 120  # characters on both sides of what was searched for
_PDFS = "pdfs"  # under which the files that addresses were downloaded to are kept
_PAGES = re.compile(r"\s*(?:pp?\.\s*)?(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*")


class PdfActions(FileActions):
    @action(effect=("write", "read", "network"))
    async def pdf_viewer(
        self, ctx: Any, url: str = "", path: Inside = "", pages: Inside = "", search: Inside = ""
    ) -> ToolResult:
        """Read a PDF: that of the current tab, at an address, or in the run's folder; it is kept in downloads/.

        Args:
            url: its address; empty for the page of the current tab.
            path: a file, in place of an address.
            pages: "3" or "2-4"; empty for the beginning.
            search: words to find; gives the pages on which they stand.
        """
        from agentorchestra.tools.files.common import how_to_look
        from agentorchestra.tools.files.documents import PdfDocument, document_to_json
        from agentorchestra.tools.files.read import document_blocks
        from agentorchestra.tools.web.pages import artifact_name

        file, address = await self._pdf(ctx, url.strip(), path.strip())
        document = await self._document(file)
        if not isinstance(document, PdfDocument):
            raise ToolError(f"{file} is no PDF but {document.media_type}; read it with the environment files")
        artifacts = []
        name = address or file
        if address:
            data = json.dumps(document_to_json(document), ensure_ascii=False).encode("utf-8", "replace")
            artifact = await ctx.artifact(artifact_name(address, ".json"), data, "application/json", made_for="run")
            artifacts.append(artifact)
        head = f"{file}: {len(document.pages)} pages" + (f"; from {address}" if address else "")
        source = Source(kind="web" if address else "file", ref=name)
        blocks: list[Block] = [TextBlock(text=head, source=source, trust=Trust.UNTRUSTED)]
        if search.strip():
            blocks += _passages(document.pages, search.strip(), source)
        else:
            kind: SourceKind = "web" if address else "file"
            part = _part(pages, len(document.pages))
            make_blocks = partial(document_blocks, document, name, part, kind, way=how_to_look(ctx))
            blocks += await asyncio.to_thread(make_blocks)
        return ToolResult(content=blocks, artifacts=tuple(artifacts), sources=(source,))

    async def _pdf(self, ctx: Any, url: str, path: str) -> tuple[str, str]:
        """Return the file in the run's folder, and the address it came from."""
        if path:
            if url:
                raise ToolError("give an address or a path, not both")
            return path, ""
        page = await self.tab(ctx)
        address = self.check_address(url or without_password(page.url))
        record = self.kept.get(_PDFS)
        pdfs = record if isinstance(record, dict) else {}
        file = str(pdfs.get(address, ""))
        if file and await disk.in_thread(lambda: disk.content_of(self.place(file))) is not None:
            return file, address
        download = await self.fetch(ctx, address)
        download.is_told = True
        self.kept[_PDFS] = {**dict([*pdfs.items()][-20:]), address: download.path}
        return download.path, address

    async def _document(self, file: str) -> Any:
        from agentorchestra.tools.files.readers import read_document

        place = self.place(file)
        if not place.parts:
            raise ToolError("name a file")
        copy = await disk.in_thread(lambda: disk.copy_of(place, self._stands_on.temporary))
        try:
            return await read_document(copy.path)
        except FileInputError as error:
            raise ToolError(str(error).replace(str(copy.path), place.path)) from None
        finally:
            await asyncio.to_thread(disk.forget, copy.path)


def _part(pages: str, count: int) -> str:
    if not pages.strip():
        return ""
    if (match := _PAGES.fullmatch(pages)) is None:
        raise ToolError(f'pages is {pages!r}; write "3" or "2-4"')
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last or first > count:
        raise ToolError(f"there is no page {pages}; the PDF has {count} pages")
    return f"p. {first}" if first == last else f"pp. {first}-{min(last, count)}"


def _passages(pages: tuple[str, ...], words: str, source: Source) -> list[Block]:
    """Return where words stand, each with what is around them."""
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)
    blocks: list[Block] = []
    count = 0
    for number, text in enumerate(pages, start=1):
        for match in pattern.finditer(text):
            count += 1
            if len(blocks) < MOST_HITS:
                around = " ".join(text[max(0, match.start() - _AROUND) : match.end() + _AROUND].split())
                at = source.model_copy(update={"place": f"p. {number}"})
                blocks.append(TextBlock(text=around, source=at, trust=Trust.UNTRUSTED))
    if not blocks:
        raise ToolError(f"{words!r} does not stand in the {len(pages)} pages; try fewer or other words")
    if count > len(blocks):
        blocks.append(TextBlock(text=f"and {count - len(blocks)} more places", trust=Trust.SYSTEM))
    return blocks
