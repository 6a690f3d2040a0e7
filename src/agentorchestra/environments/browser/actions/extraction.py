"""Actions that read: the text of the page, what of it serves a goal, pictures of it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError, WebError
from agentorchestra.environments.browser.actions.arguments import Inside, Ref
from agentorchestra.environments.browser.actions.targets import TargetActions, address_of
from agentorchestra.environments.browser.scripts import script
from agentorchestra.environments.browser.view.screenshots import clear_screenshot, picture_options
from agentorchestra.environments.browser.view.script_results import Rendered, Size, as_told
from agentorchestra.environments.browser.view.text import without_password
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import Page

MOST_SOURCE = 8_000_000  # characters of a page's source that are read
MOST_FRAMES = 8
_FRAME_CHARS = 200_000
PIECE_CHARS = 40_000  # of a page that are shown to a model with one question about it
MOST_PIECES = 5
_WIDEST, _TALLEST = 4_000, 8_000  # pixels of the picture of a whole page
PROMPT = "browser_extract"


class ExtractionActions(TargetActions):
    @action(effect="read")
    async def read_page(self, ctx: Any, part: Inside = "") -> ToolResult:
        """The text of the page as it is now, from its beginning or a part of it, with the place of each piece.

        Args:
            part: "lines 40-80"; empty for the beginning.
        """
        from agentorchestra.tools.files.documents import TextDocument
        from agentorchestra.tools.files.read import document_blocks
        from agentorchestra.tools.web.pages import artifact_name

        page = await self.tab(ctx)
        assert self._tab is not None
        if await self.is_pdf(self._tab):
            raise ToolError("the page is a PDF; read it with pdf_viewer")
        url = without_password(page.url)
        text, notes = await self._text(page)
        if not text.strip():
            raise ToolError("there is no text on the page now; look at a screenshot, or wait for what still loads")
        data = text.encode("utf-8", "replace")
        artifact = await ctx.artifact(artifact_name(url, ".md"), data, "text/markdown", made_for="run")
        blocks = await asyncio.to_thread(document_blocks, TextDocument(text), url, part.strip(), "web")
        blocks += [TextBlock(text=f"Note: {note}.", trust=Trust.SYSTEM) for note in notes]
        return ToolResult(content=blocks, artifacts=(artifact,), sources=(Source(kind="web", ref=url),))

    async def _text(self, page: Page) -> tuple[str, list[str]]:
        """Return the page as Markdown with its frames, and what was left out."""
        from agentorchestra.tools.web.http import Answer
        from agentorchestra.tools.web.pages import page_of

        result = await self.within("reading the page", lambda: page.evaluate(script("rendered.js"), MOST_SOURCE))
        source = as_told(Rendered, result)
        url = without_password(page.url) if page.url.startswith(("http://", "https://")) else "about:blank"
        headers = {"content-type": "text/html; charset=utf-8"}
        answer = Answer(url=url, status=200, headers=headers, body=source.html[:MOST_SOURCE].encode("utf-8", "replace"))
        try:
            read = await page_of(replace(answer, cut=source.cut), url, "text")
        except WebError as error:
            raise ToolError(str(error)) from None
        parts, notes = [str(read.document.get("text", ""))], [*read.notes]
        frames = [frame for frame in page.frames if frame is not page.main_frame and not frame.is_detached()]
        for frame in frames[:MOST_FRAMES]:
            words = as_told(str, await self.ask("reading a frame", frame, "wordsOfFrame", _FRAME_CHARS))
            if words.strip():
                parts.append(f"## In the frame {address_of(frame)}\n\n{words[:_FRAME_CHARS]}")
        if len(frames) > MOST_FRAMES:
            notes.append(f"{len(frames) - MOST_FRAMES} of its frames were not read")
        return "\n\n".join(part for part in parts if part.strip()), notes

    @action(effect="composite")
    async def extract_content(self, ctx: Any, goal: str) -> ToolResult:
        """Read all of the page for a goal: a model gives back what serves it, with places.

        Args:
            goal: what is wanted, with all that has to be known for it.
        """
        read = await self.call("read_page", {}, ctx)
        if not read.artifacts:
            raise ToolError("the page could not be read; look at the state")
        text = (await ctx.read_artifact(read.artifacts[0])).decode("utf-8", "replace")
        source = _source_of(read) or read.artifacts[0].name
        pieces = list(_pieces(text))
        findings: list[Block] = []
        for first, last, piece in pieces[:MOST_PIECES]:
            place = f"lines {first}-{last}"
            block = TextBlock(text=piece, source=Source(kind="web", ref=source, place=place), trust=Trust.UNTRUSTED)
            outcome = await ctx.ask_model(PROMPT, [block], role="browser", goal=goal, address=source, place=place)
            if not outcome.ok:
                raise ToolError(outcome.error or "the model that reads the page could not answer; use read_page")
            reply = outcome.response.text.strip()
            if reply and reply.strip(". ").upper() != "NOTHING":
                findings.append(TextBlock(text=reply, source=Source(kind="web", ref=source), trust=Trust.UNTRUSTED))
        notes = []
        if not findings:
            notes.append("nothing on the page serves this goal")
        if len(pieces) > MOST_PIECES:
            notes.append(f"only the first {pieces[MOST_PIECES - 1][1]:,} lines were looked at; read on with read_page")
        findings += [TextBlock(text=f"Note: {note}.", trust=Trust.SYSTEM) for note in notes]
        return ToolResult(content=findings, artifacts=read.artifacts)

    @action(effect="read")
    async def screenshot(self, ctx: Any, ref: Ref = "", whole: bool = False) -> ToolResult:
        """A picture of the view, of one element, or of the whole page; it is kept as an artifact.

        Args:
            ref: an element; empty for the page.
            whole: all of the page, not only what is in view.
        """
        page = await self.tab(ctx)
        options = picture_options(page)
        async with self.session.shared.look():
            if ref:
                element = await self.element(ctx, ref)
                data = await self.on(ref, lambda ms: element.screenshot(timeout=ms, **options))
            elif whole:
                size = as_told(Size, await self.ask("measuring the page", page, "size"))
                width, height = max(1, min(size.width, _WIDEST)), max(1, min(size.height, _TALLEST))
                options |= {"full_page": True, "clip": {"x": 0, "y": 0, "width": width, "height": height}}
                data = await self.within("taking a picture of the page", lambda: page.screenshot(**options))
            else:
                data = await self.within("taking a picture of the page", lambda: clear_screenshot(page))
        return await self.picture(ctx, data, f"screenshot of {ref or without_password(page.url)}")

    async def picture(self, ctx: Any, data: bytes, about: str, more: str = "") -> ToolResult:
        """Return a PNG as an artifact, which is shown to models that see."""
        name = f"browser/{hashlib.sha256(data).hexdigest()[:12]}.png"
        artifact = await ctx.artifact(name, data, "image/png", made_for="run")
        source = self.here()
        block = MediaBlock(media_type="image/png", sha256=artifact.sha256, size=len(data), name=name, source=source)
        caption = TextBlock(text=f"{about}: artifact {name}{more}", source=source, trust=Trust.UNTRUSTED)
        return ToolResult(content=[caption, block], artifacts=(artifact,))

    @action(effect="composite")
    async def ask_human(self, ctx: Any, question: str) -> str:
        """Ask a person for what only a person can do or allow: a captcha, a login, a payment.

        Args:
            question: what you need and why; the address and a picture of the page go along.
        """
        picture = address = ""
        try:
            seen = await self.call("screenshot", {}, ctx)
        except ToolError:  # the page hangs: a person may know more
            seen = ToolResult()
        if seen.artifacts:
            picture, address = seen.artifacts[0].name, _source_of(seen)
        reply: str = await ctx.ask(question, page=address, picture=picture)
        return reply


def _source_of(result: ToolResult) -> str:
    blocks = result.content if isinstance(result.content, list) else [result.content]
    return next((block.source.ref for block in blocks if getattr(block, "source", None) is not None), "")


def _pieces(text: str) -> list[tuple[int, int, str]]:
    """Cut a text into pieces for one question each: first and last line, and what stands there."""
    pieces: list[tuple[int, int, str]] = []
    lines: list[str] = []
    size, first = 0, 1
    for number, line in enumerate(text.split("\n"), start=1):
        while len(line) > PIECE_CHARS:
            if lines:
                pieces.append((first, number - 1, "\n".join(lines)))
                lines, size = [], 0
            pieces.append((number, number, line[:PIECE_CHARS]))
            line, first = line[PIECE_CHARS:], number
        if lines and size + len(line) > PIECE_CHARS:
            pieces.append((first, number - 1, "\n".join(lines)))
            lines, size, first = [], 0, number
        lines.append(line)
        size += len(line) + 1
    if lines:
        pieces.append((first, first + len(lines) - 1, "\n".join(lines)))
    return pieces
