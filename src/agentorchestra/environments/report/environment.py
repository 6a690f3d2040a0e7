"""The environment `report`: what agents put together for a report, and the report made of it (000, app. D.7)."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, JsonValue

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import sha256_text
from agentorchestra.environments.folder import rules_text
from agentorchestra.environments.report.author import MOST_SHOWN, asked_for, confirm_reply, written_up
from agentorchestra.environments.report.items import Cited, ReportItem, from_citations
from agentorchestra.environments.report.marks import named_in_words, numbered_marks
from agentorchestra.environments.report.parser import MOST_REFERENCES, ParsedText, read_object, read_text
from agentorchestra.environments.report.references import CollectedReferences, assemble, finish
from agentorchestra.environments.report.storage import MOST_CONTENT, ReportStorage, count
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from agentorchestra.environments.registry import EnvironmentParts

LONG = 1_500  # characters from which on an item is read by a model before the report is written, where that is of use
FILE = "report.md"  # where the report lies in the run's folder, unless it is to lie elsewhere
_TURNS = 5  # how often a shared report is made again, since others added to it meanwhile

_MOST_NAMED = 30

Title = Annotated[str, Field(description="Its title.")]
Path = Annotated[str, Field(description="The file, in the folder; by default report.md.")]
Stands = Annotated[list[Cited] | None, Field(max_length=MOST_REFERENCES)]
Shared = Annotated[
    str, Field(description="Name of a report that runs of the workspace share; empty for the run's own.")
]


class Report(ReportStorage):
    """Items with their sources, and the report that is made of them."""

    name = "report"

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> Self:
        return cls(parts.reports)

    def rules(self) -> str:
        return rules_text(self.name)

    # -- adding ------------------------------------------------------------------------------------------------------

    @action
    async def add(
        self,
        ctx: Any,
        content: str | dict[str, JsonValue] = "",
        path: str = "",
        title: Title = "",
        citations: Annotated[list[Cited] | None, Field(max_length=500)] = None,
        report: Shared = "",
    ) -> str:
        """Add a piece to the report: a text, a JSON object, or a file.

        Args:
            content: Markdown with its sources as links or footnotes, or a JSON object.
            path: instead, a file of the folder; the task's files are below files/.
            title: of the piece.
            citations: the sources that it stands on; the mark [1] in the text is the first of them.
            report: the name of a shared report that gets it too.
        """
        if (bool(path) and bool(content)) or not (path or content or citations):
            raise ToolError("give either a content or the path of a file")
        shared = self.shared(report) if report else None
        source = await self.content_of(ctx, path) if path else content
        if isinstance(source, dict):
            title = title or str(source.get("title") or "")
        read = await asyncio.to_thread(self._read, ctx, source, tuple(citations or ()))
        item = ReportItem(
            id=sha256_text(f"{ctx.run_id} {ctx.key}"),
            title=" ".join((title or path.rpartition("/")[2]).split())[:200],
            content=read.content,
            summary=str(source.get("summary") or "")[:2_000] if isinstance(source, dict) else "",
            references=read.references,
            by=str(getattr(ctx, "actor", "")),
        )
        number = await self.keep(ctx, item, report)
        parts = [f"item {number} is in the report, with {count(len(item.references))}"]
        if read.struck:
            parts.append(f"marks that name nothing were struck out: {', '.join(read.struck[:_MOST_NAMED])}")
        if shared is not None:
            parts.append(await self.publish(ctx, shared))
        return "; ".join(parts)

    def _read(self, ctx: Any, source: str | dict[str, JsonValue], citations: tuple[Cited, ...]) -> ParsedText:
        size = len(source) if isinstance(source, str) else len(json.dumps(source, ensure_ascii=False))
        if size > MOST_CONTENT:
            raise ToolError(f"the content has {size:,} characters; add at most {MOST_CONTENT:,} at once")

        def address_of(name: str) -> str:
            return self.address_of(ctx, name)

        if isinstance(source, dict):
            return read_object(source, citations, find=address_of)
        return read_text(source, citations, find=address_of)

    # -- extracting --------------------------------------------------------------------------------------------------

    @action(effect="composite")
    async def extract(self, ctx: Any, item: int = 0, text: str = "") -> dict[str, JsonValue]:
        """Take out of an item, or of a text, what it says with its citations, a summary, and its references.

        Args:
            item: its number; what is found is noted with it.
            text: instead, a text.
        """
        if bool(item) == bool(text.strip()):
            raise ToolError("give either the number of an item or a text")
        if len(text) > MOST_CONTENT:
            raise ToolError(f"the text has {len(text):,} characters; extract from at most {MOST_CONTENT:,} at once")
        read = await self._item_of(item, ctx) if item else read_text(text)
        reply, note = await asked_for(read, ctx)
        summary, references = str(reply.get("summary") or ""), reply.get("references") or []
        if item:
            await self.call("describe", {"item": item, "summary": summary, "references": references}, ctx)
        result = confirm_reply(read, summary, references).to_json()
        return result | ({"notes": [note, *result["notes"]]} if note and isinstance(result["notes"], list) else {})

    async def _item_of(self, number: int, ctx: Any) -> ParsedText:
        answer = await self.call("read", {"item": number}, ctx)
        item = ReportItem.model_validate_json(await ctx.read_artifact(answer.artifacts[0]))
        return ParsedText(item.content, item.references)

    @action(effect="read")
    async def read(self, ctx: Any, item: int) -> ToolResult:
        """One item whole, with its references.

        Args:
            item: its number.
        """
        record = await self.item(ctx, item)
        lines = [f"{ref.id}. {ref.description or ref.source} {ref.url}".rstrip() for ref in record.references]
        text = "\n\n".join(part for part in (record.title, record.content, "\n".join(lines)) if part)
        sha256 = str(self.rows[item - 1]["sha256"])
        name, kind = f"item-{item}.json", "application/json"
        artifact = ArtifactRef(name=name, sha256=sha256, size=len(text), media_type=kind, made_for="run")
        return ToolResult(content=[self.block(text)], artifacts=(artifact,))

    @action
    async def describe(
        self, ctx: Any, item: int, summary: str, references: list[dict[str, JsonValue]] | None = None
    ) -> str:
        """Note a summary with an item, and references that stand in its text in words.

        Args:
            item: its number.
            summary: two or three sentences.
            references: each with `as_written`, the words of the text that cite it, `description` and `url`.
        """
        record = await self.item(ctx, item)
        result = confirm_reply(ParsedText(record.content, record.references), summary, references or ())
        changed = {"content": result.content, "summary": result.summary, "references": result.references}
        await self.keep(
            ctx, record.model_copy(update=changed), str(self.rows[item - 1].get("report") or ""), number=item
        )
        return " ".join([f"Item {item} has its summary and {count(len(result.references))}.", *result.notes])

    # -- completing --------------------------------------------------------------------------------------------------

    @action(effect="composite")
    async def complete(
        self,
        ctx: Any,
        title: Title = "",
        path: Path = "",
        text: str = "",
        report: Shared = "",
        only_cited: bool = False,
        citations: Stands = None,
    ) -> ToolResult:
        """Make the report of all items: one list of references, numbered from 1, and a text that cites them.

        Args:
            title: its title.
            path: the file, in the folder; by default report.md.
            text: the report, where it is written already, with its sources as links; else a model writes it.
            report: the name of a shared report, of which the items of all runs are taken.
            only_cited: leave out of the list what the text does not cite.
            citations: what a text that is given stands on; the mark [E1] in it is the first of them.
        """
        note = ""
        if not text.strip():
            if not report:
                await self._summarise(ctx)
            answer = await self.call("collect", {"report": report}, ctx)
            collection = CollectedReferences.model_validate_json(await ctx.read_artifact(answer.artifacts[0]))
            if not collection.pieces:
                raise ToolError("the report has no items; add what it is to say")
            text, note = await written_up(collection, title, ctx)
        arguments: dict[str, JsonValue] = {"text": text, "title": title, "path": path, "report": report}
        sources: list[JsonValue] = [citation.model_dump(mode="json") for citation in citations or ()]
        done = await self.call("write", {**arguments, "only_cited": only_cited, "citations": sources}, ctx)
        blocks = [*done.content] if isinstance(done.content, list) else [self.block(str(done.content))]
        return ToolResult(content=[*blocks, *([self.block(note)] if note else [])], artifacts=done.artifacts)

    def _item(self, ctx: Any, text: str, citations: list[Cited]) -> ReportItem:
        """Return a text as an item with the citations that its marks name. Blocks."""
        references = from_citations(citations, lambda name: self.address_of(ctx, name))
        return ReportItem(id="", content=numbered_marks(text, len(references)), references=references)

    async def _summarise(self, ctx: Any) -> None:
        """Long items are read by a model first where that changes the report.

        They are shown cut, and their summary says the rest; or they name sources in words, which code does not see.
        """
        answer = await self.call("items", {}, ctx)
        items = [item for item in answer.content if isinstance(item, dict)] if isinstance(answer.content, list) else []
        whole = MOST_SHOWN // max(1, len(items))
        for number, item in enumerate(items, start=1):
            size = int(item.get("size") or 0)
            if item.get("summarised") or size <= LONG:
                continue
            if size > whole or named_in_words((await self._item_of(number, ctx)).content):
                await self.call("extract", {"item": number}, ctx)

    @action(effect="read")
    def items(self) -> Any:
        """The items: number, title, summary, who added them."""
        names = ("title", "summary", "references", "by", "size", "summarised", "report")
        return [
            {"number": number, **{name: row.get(name) for name in names}}
            for number, row in enumerate(self.rows, start=1)
        ]

    @action(effect="read")
    async def collect(self, ctx: Any, report: Shared = "") -> ToolResult:
        """All references of all items, each source once, with the numbers that they have in the report.

        Args:
            report: the name of a shared report.
        """
        sources = await self.collection(ctx, report)
        data = sources.model_dump_json().encode("utf-8", "replace")
        artifact = await ctx.artifact("report-references.json", data, "application/json", made_for="run")
        lines = [f"{count(len(sources.references))} in {count(len(sources.pieces), 'item')}"]
        lines += [" ".join(filter(None, (f"[{ref.number}]", ref.description, ref.url))) for ref in sources.references]
        return ToolResult(content=[self.block("\n".join(lines))], artifacts=(artifact,))

    @action
    async def write(
        self,
        ctx: Any,
        text: str = "",
        title: Title = "",
        path: Path = "",
        report: Shared = "",
        only_cited: bool = False,
        citations: Stands = None,
    ) -> ToolResult:
        """Number the citations of a text, put the list of references under it, and write it to a file.

        Args:
            text: with its sources as links, or as marks [2] as `collect` lists them; empty for the items one by one.
            title: its title.
            path: the file, in the folder; by default report.md.
            report: the name of a shared report.
            only_cited: leave out of the list what the text does not cite.
            citations: what the text stands on besides; the mark [E1] in it is the first of them.
        """
        if report:
            self.refuse_candidates(ctx, "complete a shared report")
        for left in reversed(range(_TURNS)):
            more = [await asyncio.to_thread(self._item, ctx, text, citations)] if citations and text.strip() else []
            collection = await self.collection(ctx, report, more)
            body = collection.pieces[-1].content if more else text.strip() or assemble(collection)
            if title and not body.startswith("# "):
                body = f"# {title}\n\n{body}"
            done = await asyncio.to_thread(finish, body, collection.references, every=not only_cited)
            data = done.text.encode("utf-8", "replace")
            made_of = len(collection.pieces) - len(more) if left else None
            if not report or await asyncio.to_thread(self.shared(report).write, data, made_of=made_of):
                break
        sentences = [f"The report is complete, with {count(len(done.references))}."]
        name = path.strip() or FILE
        if report:
            sentences.append(f"It is {self.shared(report).report}.")
        if path or not report:
            place = await self.to_disk(name, data)
            name = place.path
            sentences.append(f"It is {name} in the run's folder: {self.folder / name}.")
        if done.struck:
            sentences.append(f"Struck out, since they name no source: {', '.join(done.struck[:_MOST_NAMED])}.")
        if done.left_out:
            names = [reference.description or reference.url for reference in done.left_out[:_MOST_NAMED]]
            sentences.append(f"Not cited in the text: {'; '.join(names)}.")
        ref = await ctx.artifact(name, data, "text/markdown")
        return ToolResult(content=[self.block(" ".join(sentences))], artifacts=(ref,))
