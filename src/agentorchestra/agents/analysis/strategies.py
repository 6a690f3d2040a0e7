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
    Question,
    Questioner,
    form,
    list_of,
    material,
    piece_block,
)
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock
from agentorchestra.core.errors import OutputError, ToolError
from agentorchestra.core.settings import AnalysisSettings
from agentorchestra.tea.calling.structured_output import read_output
from agentorchestra.tools.files.places import pages_named
from agentorchestra.tools.files.quotes import alike
from agentorchestra.tools.media import MOST_BYTES, MOST_PAGES, look
from agentorchestra.tools.media_formats import media_as
from agentorchestra.tools.sources import Piece, SourceContent, read_source

KIND = form(("kind",), reason=TEXT, kind={"type": "string", "enum": ["table", "text"]})
_FINDING = form(("quote", "piece", "fact"), quote=TEXT, piece=INTEGER, fact=TEXT)
FINDINGS = form(("findings", "answers"), findings=list_of(_FINDING), reason=TEXT, answers=FLAG, answer=TEXT)
PROGRAM = form(("code",), plan=TEXT, code=TEXT)
_REGION: dict[str, Any] = {"type": "array", "items": NUMBER, "minItems": 4, "maxItems": 4}
LOOKED = form(("seen", "found"), seen=TEXT, found=FLAG, answer=TEXT, regions={"type": "array", "items": _REGION})
CONCLUSION = form(("complete", "answer"), reason=TEXT, complete=FLAG, answer=TEXT, missing=TEXT)

LOOK = "analysis_look"
LISTED = 100  # tables, and texts beside them, that whoever writes a program is told by name
HEAD_ROWS = 6  # rows of each table that whoever writes a program is shown

GIVEN_CHARS = 400_000
"""Characters of tables and texts that a program is given as values; of more it reads the file itself."""

SOUND_S = 1_200.0  # seconds of a recording that are heard at once (tools/files/formats/media.py)
CLIPS = 4  # parts in which a video is looked at more closely
FAILED = 2  # parts of a picture, a recording, a PDF that nobody could look at, after which the others are left

KNOWN_CHARS = 8_000
"""Characters of what is known already that go along with a question; the latest, where there are more."""

MOST_FOUND = 60_000  # characters of findings that one conclusion is drawn from

CLOSER: tuple[tuple[float, ...], ...] = ((0, 0, 0.55, 0.55), (0.45, 0, 1, 0.55), (0, 0.45, 0.55, 1), (0.45, 0.45, 1, 1))
"""Where a picture is enlarged when nobody says where to look: its quarters, which overlap a little."""


_WHERE = re.compile(r"\A\[run without a sandbox\]\s*")
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
    known: str  # what is known already and helps
    limits: AnalysisSettings
    inside: bool = False  # it lies in a source whose words were read already, its own with them
    findings: list[SourceFinding] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)  # what was done, for whoever asks what else could be
    notes: list[str] = field(default_factory=list)  # what was left out
    answer: str = ""
    missing: str = ""  # what the last conclusion lacked
    regions: list[list[float]] = field(default_factory=list, init=False)  # where the last looker wants to look closer
    concluded: int = field(default=0, init=False)  # findings that the last conclusion was drawn from
    told: int = field(default=0, init=False)  # replies that findings came from; one alone has judged its own already

    def __post_init__(self) -> None:
        self.questioner = Questioner(self.ctx, None, self.ctx.role)

    async def run(self, name: str) -> SourceContent:
        """Analyse a source by its kind, and conclude; raise a ToolError that names it where it cannot be read."""
        content = await self.gathered(name)
        await self.conclude()
        return content

    async def gathered(self, name: str) -> SourceContent:
        """Take out of a source what bears on the question, until a part of it answers."""
        content = await self.read(name)
        if not content.known_by:
            content = await self._classified(content)
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
        outcome = await self.ctx.call_tool(read_source.name, name=name, chars=self.limits.chunk_chars, read_as=read_as)
        if not outcome.ok or not outcome.artifacts:
            raise ToolError(outcome.error or f"{name} cannot be read")
        return SourceContent.from_json(await self.ctx.read_artifact(outcome.artifacts[0]))

    async def _classified(self, content: SourceContent) -> SourceContent:
        """Ask the model whether text whose name says nothing is a table."""
        head = [Piece(one.place, one.text[:1_500]) for one in content.chunks[0][:3]] if content.chunks else []
        reply = await self.questioner.one(Question("analysis_kind", KIND, {"name": content.name}, self._shown(head)))
        if (reply or {}).get("kind") != "table":
            return content
        return await self.read(content.name, "table")

    # -- text --------------------------------------------------------------------------------------------------------

    async def _chunks(self, chunks: Sequence[Sequence[Piece]], source: str, *, all_: bool = False) -> bool:
        """Ask the chunks, some at the same time, until one answers; `all_` says that they are all of the source."""
        chosen = self._chosen(chunks)
        if len(chosen) < len(chunks):
            self.notes.append(
                f"of {source} {len(chosen)} of {len(chunks)} parts were read, those with the words of the question: "
                "ask with other words, or about one of its parts"
            )
        for start in range(0, len(chosen), self.limits.at_once):
            batch = chosen[start : start + self.limits.at_once]
            known = self._known()
            values = {"question": self.question, "whole": all_ and len(chunks) == 1}
            questions = [
                Question("analysis_chunk", FINDINGS, values, (*known, *self._shown(chunk, source))) for chunk in batch
            ]
            for chunk, reply in zip(batch, await self.questioner.all(questions), strict=True):
                where = f"{source}, {chunk[0].place}" + (f" to {chunk[-1].place}" if len(chunk) > 1 else "")
                self.tried.append(f"read {where}")
                if reply is None:
                    self.notes.append(f"nobody could answer from {where}")
                    continue
                self._take(reply, chunk)
            if self.answer:
                return True
        return False

    def _chosen(self, chunks: Sequence[Sequence[Piece]]) -> list[Sequence[Piece]]:
        if len(chunks) <= self.limits.chunks:
            return [*chunks]
        words = set(re.findall(r"\w{3,}", f"{self.question} {self.known}".casefold()))
        counts = [sum(word in text for word in words) for text in (_text(chunk).casefold() for chunk in chunks)]
        best = sorted(range(len(chunks)), key=lambda index: (-counts[index], index))[: self.limits.chunks]
        return [chunks[index] for index in sorted(best)]

    def _take(self, reply: dict[str, Any], chunk: Sequence[Piece]) -> None:
        """Take the findings whose words stand where they are said to."""
        found: list[SourceFinding] = []
        for one in reply["findings"][: self.limits.findings]:
            quote, number = str(one["quote"]), int(one["piece"])
            named = [chunk[number - 1]] if 0 < number <= len(chunk) else []
            piece = next((each for each in (*named, *chunk) if alike(quote, each.text)), None)
            if piece is None:
                self.notes.append(f"left out, since its words do not stand there: {one['fact']}")
                continue
            found.append(SourceFinding(str(one["fact"]), quote, piece.place, bool(reply["answers"])))
        self.findings += found
        self.told += bool(found)
        if not reply["answers"]:
            self.missing = str(reply.get("reason") or "")
        if reply["answers"] and found and not self.answer:  # an answer without words behind it is none
            self.answer = str(reply.get("answer") or found[0].fact)

    # -- tables, archives, documents of several parts ----------------------------------------------------------------

    async def _parts(self, content: SourceContent) -> None:
        if await self._texts(content):
            return
        for name in content.media[: self.limits.members]:
            inner = Analysis(self.ctx, self.question, self._known_text(), self.limits, inside=True)
            try:
                await inner.gathered(name)
            except ToolError as error:
                self.notes.append(str(error))
                continue
            place = name.removeprefix(f"{content.name}!")
            self.findings += [
                SourceFinding(one.fact, one.quote, one.place or place, one.answers) for one in inner.findings
            ]
            self.told += inner.told
            self.tried += inner.tried
            self.notes += inner.notes
            if inner.answer:
                self.answer = inner.answer
                return
        if len(content.media) > self.limits.members:
            self.notes.append(f"{len(content.media) - self.limits.members} pictures and recordings were not looked at")

    async def _texts(self, content: SourceContent) -> bool:
        """Ask its words, then a program over its tables, then their rows."""
        alone = not content.tables and not content.media
        if content.chunks and await self._chunks(content.chunks, content.name, all_=alone):
            return True
        if content.tables and await self._computed(content):
            return True
        return bool(content.table_chunks) and await self._chunks(content.table_chunks, content.name)

    async def _computed(self, content: SourceContent) -> bool:
        """Run a program over the tables and the texts beside them; have it written again once where it failed."""
        texts = _texts(content)
        size = sum(len(cell) for rows in content.tables.values() for row in rows for cell in row)
        given = size + sum(map(len, texts.values())) <= GIVEN_CHARS
        prefix = f"tables = {content.tables!r}\ntexts = {texts!r}\n" if given else ""
        file, _, member = content.name.partition("!")
        if not given and file not in {ref.name for ref in self.ctx.manifest.files}:
            self.notes.append(
                f"no program over {content.name} was written: it is too large to be given as values, and programs find "
                "the task's files only"
            )
            return False
        problem = ""
        for _ in range(2):
            values = {
                "question": self.question,
                "tables": [{"name": one, "rows": len(content.tables[one])} for one in [*content.tables][:LISTED]],
                "texts": [*texts][:LISTED],
                "more": max(0, len(content.tables) - LISTED) + max(0, len(texts) - LISTED),
                "given": given,
                "file": file,
                "member": member,
                "again": bool(problem),
            }
            told = (*self._known(), *self._heads(content, texts))
            if problem:
                told += (material(f"Your last program gave no result:\n{problem}", "program"),)
            reply = await self.questioner.one(Question("analysis_program", PROGRAM, values, told))
            code = str((reply or {}).get("code") or "")
            if not code.strip():
                return False
            outcome = await self.ctx.call_tool("python", code=prefix + code)
            self.tried.append(f"computed with {', '.join(one or content.name for one in content.tables)}")
            said = "\n".join(one.text for one in outcome.blocks() if isinstance(one, TextBlock)).strip()
            printed = _WHERE.sub("", said).removeprefix("(no output)").strip()
            if outcome.ok and printed and not _FAILED.search(printed):
                self.findings.append(SourceFinding(f"A program over {content.name} printed: {printed[:4_000]}"))
                self.told = max(2, self.told + 1)  # whoever wrote the program has not seen what it prints
                return await self.conclude()
            problem = (printed or outcome.error or "it printed nothing")[-2_000:]
            if outcome.status == "denied":
                break
        self.notes.append(f"no program over {content.name} ran: {problem[-300:]}")
        return False

    def _heads(self, content: SourceContent, texts: dict[str, str]) -> tuple[Block, ...]:
        heads = [
            Piece(f"table {name!r}", "\n".join(json.dumps(row, ensure_ascii=False)[:1_000] for row in rows[:HEAD_ROWS]))
            for name, rows in content.tables.items()
        ]
        heads += [Piece(f"text {name!r}", text[:2_000]) for name, text in texts.items()]
        return self._shown(heads[: self.limits.members], content.name)

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
                [whole, *self._known()],
                role=self.ctx.role,
                model=models[0],
                media="required",
                question=self.question,
                given=[f"{content.name}: the whole document"],
            )
            if not outcome.ok:
                self.notes.append(f"{models[0]} did not take {content.name}: {outcome.error}")
                return False
            self.tried.append(f"gave {content.name} to {models[0]} as it is")
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
        most = step * self.limits.chunks
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
        regions = (self.regions or [[*one] for one in CLOSER])[: len(CLOSER)]
        parts = [("region " + ",".join(f"{one:g}" for one in region), {"region": region}) for region in regions]
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
        chosen = starts[: self.limits.chunks]
        if len(chosen) < len(starts):
            self.notes.append(
                f"{name} was gone through up to second {chosen[-1] + step:g} of {seconds:g}: ask for the rest"
            )
        ends = [min(at + step, seconds or at + step) for at in chosen]
        parts = zip(chosen, ends, strict=True)
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
            where = f"{name}, {place}" if place else name
            try:
                if await self._looked(name, where, place, part):
                    return True
            except ToolError as error:
                failed.append(f"{where} was not looked at: {error}")
                if len(failed) == FAILED:  # it will not be better with the rest
                    break
        if failed and not self.tried:
            raise ToolError(failed[0].partition(" was not looked at: ")[2])
        self.notes += failed
        return False

    async def _looked(self, name: str, where: str, place: str, part: dict[str, Any]) -> bool:
        looked = await look(self.ctx, self.question, [name], prompt=LOOK, known=self._known(), **part)
        self.tried.append(f"looked at {where}")
        self.notes += looked.notes
        inside = name.partition("!")[2]
        return self._saw(looked.text, "!".join(one for one in (inside, place) if one))

    def _saw(self, text: str, place: str) -> bool:
        """Take what a model says of what it was shown; words of any other form are what it saw."""
        try:
            reply: Any = read_output(text, LOOKED.read)
        except OutputError:
            reply = {"found": False, "seen": text.strip()}
        answer = str(reply.get("answer") or "").strip()
        found = bool(reply["found"]) and bool(answer)
        said = "; ".join(one for one in (answer if found else "", str(reply["seen"]).strip()) if one)
        if said:
            self.findings.append(SourceFinding(said, place=place, answers=found))
            self.told += 1
        self.regions = [
            one for one in reply.get("regions") or () if 0 <= one[0] < one[2] <= 1 and 0 <= one[1] < one[3] <= 1
        ]
        if found:
            self.answer = answer
        return found

    # -- together ----------------------------------------------------------------------------------------------------

    async def conclude(self) -> bool:
        """Conclude from everything that was found; return whether it answers the question.

        Of what one reader found that reader has said so: the same evidence is not judged twice.
        """
        if self.answer or self.told < 2 or len(self.findings) == self.concluded:
            return bool(self.answer)
        self.concluded = len(self.findings)
        content = (*_known_block(self.known[-KNOWN_CHARS:]), material(latest(self._lines(), MOST_FOUND), "findings"))
        reply = await self.questioner.one(
            Question("analysis_conclusion", CONCLUSION, {"question": self.question}, content)
        )
        if reply is None:
            return False
        self.missing = str(reply.get("missing") or "")
        if reply["complete"] and str(reply["answer"]).strip():
            self.answer = str(reply["answer"]).strip()
        return bool(self.answer)

    def _lines(self) -> list[str]:
        lines = []
        for number, one in enumerate(self.findings, start=1):
            where = f" ({one.place})" if one.place else ""
            quoted = f": “{one.quote[:1_000]}”" if one.quote else ""
            lines.append(f"[E{number}]{where} {one.fact[:4_000]}{quoted}")
        return lines

    def _known_text(self) -> str:
        """Return what is known so far, with what was found in the parts before."""
        return latest([*([self.known[-KNOWN_CHARS:]] if self.known else []), *self._lines()], KNOWN_CHARS)

    def _known(self) -> tuple[Block, ...]:
        return _known_block(self._known_text())

    def _shown(self, pieces: Sequence[Piece], source: str = "") -> tuple[Block, ...]:
        return tuple(piece_block(number, one.text, source, one.place) for number, one in enumerate(pieces, start=1))


def _known_block(known: str) -> tuple[Block, ...]:
    """Return what is known as material: it may come from files, as findings do."""
    return (material(f"Known already:\n{known}", "known"),) if known else ()


def latest(lines: Sequence[str], most: int) -> str:
    """Return the last lines that have room, in order, the first of them cut where not even one has."""
    kept: list[str] = []
    left = most
    for line in reversed(lines):
        if kept and len(line) > left:
            break
        kept.append(line[-most:])
        left -= len(line) + 1
    return "\n".join(reversed(kept))


def _text(chunk: Sequence[Piece]) -> str:
    return "\n".join(one.text for one in chunk)


def _texts(content: SourceContent) -> dict[str, str]:
    """Return the texts beside tables, by the parts they stand in."""
    found: dict[str, list[str]] = {}
    for chunk in content.chunks:
        for one in chunk:
            found.setdefault(one.place.rpartition("!")[0], []).append(one.text)
    return {name: "\n".join(parts) for name, parts in found.items()}
