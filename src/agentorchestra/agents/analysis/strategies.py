"""Strategies by the kind of a source: text in chunks, tables by programs, pictures and recordings by looking closer.

Each strategy stops as soon as the question is answered. What is asked, read and computed are effects of the composite
`analyze_file`, so a resume goes on where it was (000, app. D.4).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.forms import (
    FLAG,
    INTEGER,
    NUMBER,
    TEXT,
    Inquiry,
    Questioner,
    form,
    list_of,
    material,
    piece_block,
)
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock
from agentorchestra.core.errors import OutputError, ToolError
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tools.files.places import pages_named
from agentorchestra.tools.files.quotes import alike
from agentorchestra.tools.media import MOST_BYTES, MOST_PAGES, look
from agentorchestra.tools.media_formats import media_as
from agentorchestra.tools.source_reader import Excerpt, SourceContent, read_source

KIND = form(("kind",), reason=TEXT, kind={"type": "string", "enum": ["table", "text"]})
_FINDING = form(("quote", "piece", "fact"), quote=TEXT, piece=INTEGER, fact=TEXT)
FINDINGS = form(("findings", "answers"), findings=list_of(_FINDING), reason=TEXT, answers=FLAG, answer=TEXT)
PROGRAM = form(("code",), plan=TEXT, code=TEXT)
_REGION: dict[str, Any] = {"type": "array", "items": NUMBER, "minItems": 4, "maxItems": 4}
LOOK_FORM = form(("seen", "found"), seen=TEXT, found=FLAG, answer=TEXT, regions={"type": "array", "items": _REGION})
CONCLUSION = form(("complete", "answer"), reason=TEXT, complete=FLAG, answer=TEXT, missing=TEXT)

LOOK = "analysis_look"
MOST_NAMES = 100  # tables, and texts beside them, that whoever writes a program is told by name
HEAD_ROWS = 6  # rows of each table that whoever writes a program is shown

GIVEN_CHARS = 400_000
"""Characters of tables and texts that a program is given as values; of more it reads the file itself."""

SOUND_S = 1_200.0  # seconds of a recording that are heard at once (tools/files/formats/media.py)
CHUNK_CHARS = 12_000  # characters of a text that are asked about at once
MOST_CHUNKS = 24  # of one source that are asked about; of more, those with the words of the question
BATCH = 4  # chunks that are asked at the same time; the next ones only if none of these answers
MOST_FINDINGS = 5  # that are taken out of a chunk
MOST_MEMBERS = 10  # pictures and recordings of one archive that are looked at, tables and texts of it that are shown
CLIPS = 4  # parts in which a video is looked at more closely
FAILED = 2  # parts of a picture, a recording, a PDF that nobody could look at, after which the others are left

KNOWN_CHARS = 8_000
"""Characters of what is known already that go along with a question; the latest, where there are more."""

MOST_FOUND = 60_000  # characters of findings that one conclusion is drawn from

CLOSER: tuple[tuple[float, ...], ...] = ((0, 0, 0.55, 0.55), (0.45, 0, 1, 0.55), (0, 0.45, 0.55, 1), (0.45, 0.45, 1, 1))
"""Where a picture is enlarged when nobody says where to look: its quarters, which overlap a little."""


_NO_SANDBOX = re.compile(r"\A\[run without a sandbox\]\s*")
_FAILED = re.compile(
    r"^(?:Traceback |\[exit code |\[ended by signal |\[it was stopped|\[the sandbox ended it)", re.MULTILINE
)
"""How `python` says that a program came to no good end."""


@dataclass(frozen=True)
class SourceFinding:
    """A fact of a part of a source; without a quote for what was seen, heard or computed."""

    fact: str
    quote: str = ""
    place: str = ""
    answers: bool = False


@dataclass
class Analysis:
    """One question to one source."""

    ctx: Any  # of the composite that asks
    question: str
    hints: str  # what is known already and helps
    inside: bool = False  # it lies in a source whose words were read already, its own with them
    findings: list[SourceFinding] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)  # what was done, for whoever asks what else could be
    notes: list[str] = field(default_factory=list)  # what was left out
    answer: str = ""
    missing: str = ""  # what the last conclusion lacked
    regions: list[list[float]] = field(default_factory=list, init=False)  # where the last looker wants to look closer
    conclusion_size: int = field(default=0, init=False)  # findings that the last conclusion was drawn from
    replies: int = field(default=0, init=False)  # replies that findings came from; one alone has judged its own already

    def __post_init__(self) -> None:
        self.questioner = Questioner(self.ctx, None, self.ctx.role)

    async def run(self, name: str) -> SourceContent:
        """Analyse a source by its kind, and conclude; raise a ToolError that names it where it cannot be read."""
        content = await self.gather(name)
        await self.conclude()
        return content

    async def gather(self, name: str) -> SourceContent:
        """Take out of a source what bears on the question, until a part of it answers."""
        content = await self.read(name)
        if not content.known_by:
            content = await self._classify(content)
        if content.kind == "image":
            await self._picture(content.name)
        elif content.kind in ("audio", "video"):
            await self._recording(content.name, content.kind)
        elif content.kind == "pdf":
            # A model that takes documents; then its text; then the pages without text as pictures.
            if not (await self._as_document(content) or (not self.inside and await self._texts(content))):
                await self._pages(content)
        else:
            await self._parts(content)
        self.notes += content.notes
        return content

    async def read(self, name: str, read_as: str = "") -> SourceContent:
        """Return what a source holds; raise a ToolError that names it where it cannot be read."""
        outcome = await self.ctx.call_tool(read_source.name, name=name, chars=CHUNK_CHARS, read_as=read_as)
        if not outcome.ok or not outcome.artifacts:
            raise ToolError(outcome.error or f"{name} cannot be read")
        return SourceContent.from_json(await self.ctx.read_artifact(outcome.artifacts[0]))

    async def _classify(self, content: SourceContent) -> SourceContent:
        """Ask the model whether text whose name says nothing is a table."""
        head = [Excerpt(piece.place, piece.text[:1_500]) for piece in content.chunks[0][:3]] if content.chunks else []
        reply = await self.questioner.one(Inquiry("analysis_kind", KIND, {"name": content.name}, self._blocks(head)))
        if (reply or {}).get("kind") != "table":
            return content
        return await self.read(content.name, "table")

    # -- text --------------------------------------------------------------------------------------------------------

    async def _chunks(self, chunks: Sequence[Sequence[Excerpt]], source: str, *, all_: bool = False) -> bool:
        """Ask the chunks, some at the same time, until one answers; `all_` says that they are all of the source."""
        selection = self._selection(chunks)
        if len(selection) < len(chunks):
            self.notes.append(
                f"of {source} {len(selection)} of {len(chunks)} parts were read, those with the words of the question: "
                "ask with other words, or about one of its parts"
            )
        for start in range(0, len(selection), BATCH):
            batch = selection[start : start + BATCH]
            hints = self._hints()
            values = {"question": self.question, "whole": all_ and len(chunks) == 1}
            questions = [
                Inquiry("analysis_chunk", FINDINGS, values, (*hints, *self._blocks(chunk, source))) for chunk in batch
            ]
            for chunk, reply in zip(batch, await self.questioner.all(questions), strict=True):
                location = f"{source}, {chunk[0].place}" + (f" to {chunk[-1].place}" if len(chunk) > 1 else "")
                self.steps.append(f"read {location}")
                if reply is None:
                    self.notes.append(f"nobody could answer from {location}")
                    continue
                self._take(reply, chunk)
            if self.answer:
                return True
        return False

    def _selection(self, chunks: Sequence[Sequence[Excerpt]]) -> list[Sequence[Excerpt]]:
        if len(chunks) <= MOST_CHUNKS:
            return [*chunks]
        words = set(re.findall(r"\w{3,}", f"{self.question} {self.hints}".casefold()))
        counts = [sum(word in text for word in words) for text in (_text(chunk).casefold() for chunk in chunks)]
        best = sorted(range(len(chunks)), key=lambda index: (-counts[index], index))[:MOST_CHUNKS]
        return [chunks[index] for index in sorted(best)]

    def _take(self, reply: dict[str, Any], chunk: Sequence[Excerpt]) -> None:
        """Take the findings whose words stand where they are said to."""
        findings: list[SourceFinding] = []
        for finding in reply["findings"][:MOST_FINDINGS]:
            quote, number = str(finding["quote"]), int(finding["piece"])
            by_number = [chunk[number - 1]] if 0 < number <= len(chunk) else []
            piece = next((candidate for candidate in (*by_number, *chunk) if alike(quote, candidate.text)), None)
            if piece is None:
                self.notes.append(f"left out, since its words do not stand there: {finding['fact']}")
                continue
            findings.append(SourceFinding(str(finding["fact"]), quote, piece.place, bool(reply["answers"])))
        self.findings += findings
        self.replies += bool(findings)
        if not reply["answers"]:
            self.missing = str(reply.get("reason") or "")
        if reply["answers"] and findings and not self.answer:  # an answer without words behind it is none
            self.answer = str(reply.get("answer") or findings[0].fact)

    # -- tables, archives, documents of several parts ----------------------------------------------------------------

    async def _parts(self, content: SourceContent) -> None:
        if await self._texts(content):
            return
        for name in content.media[:MOST_MEMBERS]:
            inner = Analysis(self.ctx, self.question, self._known_text(), inside=True)
            try:
                await inner.gather(name)
            except ToolError as error:
                self.notes.append(str(error))
                continue
            place = name.removeprefix(f"{content.name}!")
            self.findings += [
                SourceFinding(finding.fact, finding.quote, finding.place or place, finding.answers)
                for finding in inner.findings
            ]
            self.replies += inner.replies
            self.steps += inner.steps
            self.notes += inner.notes
            if inner.answer:
                self.answer = inner.answer
                return
        if len(content.media) > MOST_MEMBERS:
            self.notes.append(f"{len(content.media) - MOST_MEMBERS} pictures and recordings were not looked at")

    async def _texts(self, content: SourceContent) -> bool:
        """Ask its words, then a program over its tables, then their rows."""
        alone = not content.tables and not content.media
        if content.chunks and await self._chunks(content.chunks, content.name, all_=alone):
            return True
        if content.tables and await self._compute(content):
            return True
        return bool(content.table_chunks) and await self._chunks(content.table_chunks, content.name)

    async def _compute(self, content: SourceContent) -> bool:
        """Run a program over the tables and the texts beside them; have it written again once where it failed."""
        texts = _texts(content)
        size = sum(len(cell) for rows in content.tables.values() for row in rows for cell in row)
        fits = size + sum(map(len, texts.values())) <= GIVEN_CHARS
        prefix = f"tables = {content.tables!r}\ntexts = {texts!r}\n" if fits else ""
        file, _, member = content.name.partition("!")
        if not fits and file not in {ref.name for ref in self.ctx.manifest.files}:
            self.notes.append(
                f"no program over {content.name} was written: it is too large to be given as values, and programs find "
                "the task's files only"
            )
            return False
        problem = ""
        for _ in range(2):
            values = {
                "question": self.question,
                "tables": [
                    {"name": name, "rows": len(content.tables[name])} for name in [*content.tables][:MOST_NAMES]
                ],
                "texts": [*texts][:MOST_NAMES],
                "more": max(0, len(content.tables) - MOST_NAMES) + max(0, len(texts) - MOST_NAMES),
                "given": fits,
                "file": file,
                "member": member,
                "again": bool(problem),
            }
            blocks = (*self._hints(), *self._heads(content, texts))
            if problem:
                blocks += (material(f"Your last program gave no result:\n{problem}", "program"),)
            reply = await self.questioner.one(Inquiry("analysis_program", PROGRAM, values, blocks))
            code = str((reply or {}).get("code") or "")
            if not code.strip():
                return False
            outcome = await self.ctx.call_tool("python", code=prefix + code)
            self.steps.append(f"computed with {', '.join(name or content.name for name in content.tables)}")
            output = "\n".join(block.text for block in outcome.blocks() if isinstance(block, TextBlock)).strip()
            printout = _NO_SANDBOX.sub("", output).removeprefix("(no output)").strip()
            if outcome.ok and printout and not _FAILED.search(printout):
                self.findings.append(SourceFinding(f"A program over {content.name} printed: {printout[:4_000]}"))
                self.replies = max(2, self.replies + 1)  # whoever wrote the program has not seen what it prints
                return await self.conclude()
            problem = (printout or outcome.error or "it printed nothing")[-2_000:]
            if outcome.status == "denied":
                break
        self.notes.append(f"no program over {content.name} ran: {problem[-300:]}")
        return False

    def _heads(self, content: SourceContent, texts: dict[str, str]) -> tuple[Block, ...]:
        heads = [
            Excerpt(
                f"table {name!r}", "\n".join(json.dumps(row, ensure_ascii=False)[:1_000] for row in rows[:HEAD_ROWS])
            )
            for name, rows in content.tables.items()
        ]
        heads += [Excerpt(f"text {name!r}", text[:2_000]) for name, text in texts.items()]
        return self._blocks(heads[:MOST_MEMBERS], content.name)

    # -- PDF ---------------------------------------------------------------------------------------------------------

    async def _as_document(self, content: SourceContent) -> bool:
        models = self.ctx.manifest.media_models.get("document", ())
        if models and content.sha256 and content.size <= MOST_BYTES:
            source = Source(kind="file", ref=content.name)
            whole = MediaBlock(
                media_type="application/pdf", sha256=content.sha256, size=content.size, name=content.name, source=source
            )
            outcome = await self.ctx.ask_model(
                LOOK,
                [whole, *self._hints()],
                role=self.ctx.role,
                model=models[0],
                media="required",
                question=self.question,
                given=[f"{content.name}: the whole document"],
            )
            if not outcome.ok:
                self.notes.append(f"{models[0]} did not take {content.name}: {outcome.error}")
                return False
            self.steps.append(f"gave {content.name} to {models[0]} as it is")
            return self._saw(outcome.response.text, "")
        if models and content.sha256:
            self.notes.append(f"{content.name} is too large to be given to {models[0]} as it is")
        return False

    async def _pages(self, content: SourceContent) -> None:
        """Look at the pages of a PDF that have no text, some at the same time."""
        pages = content.pictured
        if not pages and content.media:  # it could not be read at all
            pages = [*range(1, int((await self._facts(content.name)).get("pages") or 0) + 1)]
            if not pages:
                raise ToolError("; ".join([f"{content.name} cannot be read", *content.notes]))
        step = MOST_PAGES // 2
        most = step * MOST_CHUNKS
        if len(pages) > most:
            self.notes.append(
                f"of {len(pages)} pages of {content.name} that are pictures the first {most} were looked at: ask about "
                "the others by ask_media with their numbers"
            )
        parts = [pages[start : start + step] for start in range(0, min(len(pages), most), step)]
        await self._looks(content.name, [(pages_named(part), {"pages": part}) for part in parts])

    # -- pictures, recordings, videos --------------------------------------------------------------------------------

    async def _picture(self, name: str) -> None:
        """Look at it at once; then at what is in it, part by part and enlarged."""
        if await self._looks(name, [("", {})]):
            return
        regions = (self.regions or [[*quarter] for quarter in CLOSER])[: len(CLOSER)]
        parts = [("region " + ",".join(f"{edge:g}" for edge in region), {"region": region}) for region in regions]
        await self._looks(name, parts)

    async def _recording(self, name: str, kind: str) -> None:
        """Ask a recording part by part; a video at once, then its parts, of which more pictures are seen."""
        seconds = float((await self._facts(name)).get("seconds") or 0)
        if kind == "video" and await self._looks(name, [("", {})]):
            return
        step = SOUND_S if kind == "audio" else max(seconds / CLIPS, 1.0)
        if kind == "audio" and seconds <= step:
            await self._looks(name, [("", {})])
            return
        starts = [step * number for number in range(max(1, math.ceil(seconds / step - 1e-6)))]
        selection = starts[:MOST_CHUNKS]
        if len(selection) < len(starts):
            self.notes.append(
                f"{name} was gone through up to second {selection[-1] + step:g} of {seconds:g}: ask for the rest"
            )
        ends = [min(at + step, seconds or at + step) for at in selection]
        parts = zip(selection, ends, strict=True)
        await self._looks(name, [(f"seconds {at:g}-{end:g}", {"from_s": at, "to_s": end}) for at, end in parts])

    async def _facts(self, name: str) -> dict[str, Any]:
        outcome = await self.ctx.call_tool(media_as.name, name=name, form="facts")
        if not outcome.ok:
            raise ToolError(outcome.error or f"{name} cannot be read")
        return outcome.value if isinstance(outcome.value, dict) else {}

    async def _looks(self, name: str, parts: Sequence[tuple[str, dict[str, Any]]]) -> bool:
        """Look at part after part until one answers; raise a ToolError where all fail and nothing else was tried."""
        failed: list[str] = []
        for place, part in parts:
            location = f"{name}, {place}" if place else name
            try:
                if await self._look(name, location, place, part):
                    return True
            except ToolError as error:
                failed.append(f"{location} was not looked at: {error}")
                if len(failed) == FAILED:  # it will not be better with the rest
                    break
        if failed and not self.steps:
            raise ToolError(failed[0].partition(" was not looked at: ")[2])
        self.notes += failed
        return False

    async def _look(self, name: str, location: str, place: str, part: dict[str, Any]) -> bool:
        view = await look(self.ctx, self.question, [name], prompt=LOOK, known=self._hints(), **part)
        self.steps.append(f"looked at {location}")
        self.notes += view.notes
        inside = name.partition("!")[2]
        return self._saw(view.text, "!".join(segment for segment in (inside, place) if segment))

    def _saw(self, text: str, place: str) -> bool:
        """Take what a model says of what it was shown; words of any other form are what it saw."""
        try:
            reply: Any = read_output(text, LOOK_FORM.read)
        except OutputError:
            reply = {"found": False, "seen": text.strip()}
        answer = str(reply.get("answer") or "").strip()
        answers = bool(reply["found"]) and bool(answer)
        fact = "; ".join(sentence for sentence in (answer if answers else "", str(reply["seen"]).strip()) if sentence)
        if fact:
            self.findings.append(SourceFinding(fact, place=place, answers=answers))
            self.replies += 1
        self.regions = [
            region
            for region in reply.get("regions") or ()
            if 0 <= region[0] < region[2] <= 1 and 0 <= region[1] < region[3] <= 1
        ]
        if answers:
            self.answer = answer
        return answers

    # -- together ----------------------------------------------------------------------------------------------------

    async def conclude(self) -> bool:
        """Conclude from everything that was found; return whether it answers the question.

        Of what one reader found that reader has said so: the same evidence is not judged twice.
        """
        if self.answer or self.replies < 2 or len(self.findings) == self.conclusion_size:
            return bool(self.answer)
        self.conclusion_size = len(self.findings)
        content = (*_known_block(self.hints[-KNOWN_CHARS:]), material(latest(self._lines(), MOST_FOUND), "findings"))
        reply = await self.questioner.one(
            Inquiry("analysis_conclusion", CONCLUSION, {"question": self.question}, content)
        )
        if reply is None:
            return False
        self.missing = str(reply.get("missing") or "")
        if reply["complete"] and str(reply["answer"]).strip():
            self.answer = str(reply["answer"]).strip()
        return bool(self.answer)

    def _lines(self) -> list[str]:
        lines = []
        for number, finding in enumerate(self.findings, start=1):
            place = f" ({finding.place})" if finding.place else ""
            quote = f": “{finding.quote[:1_000]}”" if finding.quote else ""
            lines.append(f"[E{number}]{place} {finding.fact[:4_000]}{quote}")
        return lines

    def _known_text(self) -> str:
        """Return what is known so far, with what was found in the parts before."""
        return latest([*([self.hints[-KNOWN_CHARS:]] if self.hints else []), *self._lines()], KNOWN_CHARS)

    def _hints(self) -> tuple[Block, ...]:
        return _known_block(self._known_text())

    def _blocks(self, pieces: Sequence[Excerpt], source: str = "") -> tuple[Block, ...]:
        return tuple(piece_block(rank, piece.text, source, piece.place) for rank, piece in enumerate(pieces, start=1))


def _known_block(hints: str) -> tuple[Block, ...]:
    """Return what is known as material: it may come from files, as findings do."""
    return (material(f"Known already:\n{hints}", "known"),) if hints else ()


def latest(lines: Sequence[str], most: int) -> str:
    """Return the last lines that have room, in order, the first of them cut where not even one has."""
    tail: list[str] = []
    left = most
    for line in reversed(lines):
        if tail and len(line) > left:
            break
        tail.append(line[-most:])
        left -= len(line) + 1
    return "\n".join(reversed(tail))


def _text(chunk: Sequence[Excerpt]) -> str:
    return "\n".join(piece.text for piece in chunk)


def _texts(content: SourceContent) -> dict[str, str]:
    """Return the texts beside tables, by the parts they stand in."""
    by_part: dict[str, list[str]] = {}
    for chunk in content.chunks:
        for piece in chunk:
            by_part.setdefault(piece.place.rpartition("!")[0], []).append(piece.text)
    return {name: "\n".join(parts) for name, parts in by_part.items()}
