"""How a source is analysed, by its kind: text in chunks, tables by programs, pictures and recordings by looking closer.

Each strategy stops as soon as the question is answered. What is asked, read and computed are effects of the composite
`analyze_file`, so a resume goes on where it was (000, app. D.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.analysis.replies import CONCLUSION, FINDINGS, KIND, LOOKED, PROGRAM
from agentorchestra.agents.asking import Asking, Question
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import OutputError, ToolError
from agentorchestra.core.settings import AnalysisSettings
from agentorchestra.tea.structured import read_output
from agentorchestra.tools.files.passages import normalised
from agentorchestra.tools.media import MOST_BYTES, MOST_PAGES, look
from agentorchestra.tools.media_forms import media_as
from agentorchestra.tools.sources import Piece, SourceContent, read_source

LOOK = "analysis_look"
HEAD_ROWS = 6
"""Rows of each table that whoever writes a program is shown."""

GIVEN_CHARS = 400_000
"""Characters of tables and texts that a program is given as values; of more it reads the file itself."""

SOUND_S = 1_200.0
"""Seconds of a recording that are heard at once (tools/files/formats/shapes.py)."""

CLIPS = 4
"""Parts in which a video is looked at more closely."""

CLOSER: tuple[tuple[float, ...], ...] = ((0, 0, 0.55, 0.55), (0.45, 0, 1, 0.55), (0, 0.45, 0.55, 1), (0.45, 0.45, 1, 1))
"""Where a picture is enlarged when nobody says where to look: its quarters, which overlap a little."""


@dataclass(frozen=True)
class Finding:
    """What a part of a source says.

    Attributes:
        fact: in words.
        quote: the source's words, "" for what was seen, heard or computed.
        place: where.
        answers: whether it answers the question by itself.
    """

    fact: str
    quote: str = ""
    place: str = ""
    answers: bool = False


@dataclass
class Analysis:
    """One question to one source.

    Attributes:
        ctx: of the composite that asks.
        question: what is asked.
        known: what is known already and helps.
        limits: of the settings.
        findings: so far.
        tried: what was done, for whoever asks what else could be.
        notes: what was left out.
        answer: once there is one.
        missing: what the last conclusion lacked.
        regions: where whoever looked last wants to look closer.
    """

    ctx: Any
    question: str
    known: str
    limits: AnalysisSettings
    findings: list[Finding] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answer: str = ""
    missing: str = ""
    regions: list[list[float]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.asking = Asking(self.ctx, None, self.ctx.role)

    async def run(self, name: str) -> SourceContent:
        """Analyse a source by its kind."""
        content = await self.read(name)
        if not content.known_by:
            content = await self._classified(content)
        if content.kind == "image":
            await self._picture(content.name)
        elif content.kind in ("audio", "video"):
            await self._recording(content.name, content.kind)
        elif content.kind == "pdf":
            await self._pdf(content)
        else:
            await self._parts(content)
        self.notes += content.notes
        return content

    async def read(self, name: str, read_as: str = "") -> SourceContent:
        """What a source holds.

        Raises:
            ToolError: it cannot be read; a sentence that names it.
        """
        outcome = await self.ctx.call_tool(read_source.name, name=name, chars=self.limits.chunk_chars, read_as=read_as)
        if not outcome.ok or not outcome.artifacts:
            raise ToolError(outcome.error or f"{name} cannot be read")
        return SourceContent.from_json(await self.ctx.read_artifact(outcome.artifacts[0]))

    async def _classified(self, content: SourceContent) -> SourceContent:
        """Text whose name says nothing of what it is: the model says whether it is a table."""
        head = [Piece(one.place, one.text[:1_500]) for one in content.chunks[0][:3]] if content.chunks else []
        (reply,) = await self.asking.all([Question("analysis_kind", KIND, {"name": content.name}, self._shown(head))])
        if (reply or {}).get("kind") != "table":
            return content
        return await self.read(content.name, "table")

    # -- text --------------------------------------------------------------------------------------------------------

    async def _chunks(self, chunks: Sequence[Sequence[Piece]], source: str) -> bool:
        """Ask the chunks, some at the same time, until one answers."""
        chosen = self._chosen(chunks)
        if len(chosen) < len(chunks):
            self.notes.append(
                f"of {source} {len(chosen)} of {len(chunks)} parts were read, those with the words of the question: "
                "ask with other words, or about one of its parts"
            )
        for start in range(0, len(chosen), self.limits.at_once):
            batch = chosen[start : start + self.limits.at_once]
            values = {"question": self.question, "known": self._known()}
            questions = [Question("analysis_chunk", FINDINGS, values, self._shown(chunk, source)) for chunk in batch]
            for chunk, reply in zip(batch, await self.asking.all(questions), strict=True):
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
        """The findings whose words stand where they are said to."""
        found: list[Finding] = []
        for one in reply["findings"][: self.limits.findings]:
            quote, number = str(one["quote"]), int(one["piece"])
            wanted = normalised(quote)
            named = [chunk[number - 1]] if 0 < number <= len(chunk) else []
            piece = next((each for each in (*named, *chunk) if wanted and wanted in normalised(each.text)), None)
            if piece is None:
                self.notes.append(f"left out, since its words do not stand there: {one['fact']}")
                continue
            found.append(Finding(str(one["fact"]), quote, piece.place, bool(reply["answers"])))
        self.findings += found
        if reply["answers"] and found and not self.answer:  # an answer without words behind it is none
            self.answer = str(reply.get("answer") or found[0].fact)

    # -- tables, archives, documents of several parts ----------------------------------------------------------------

    async def _parts(self, content: SourceContent) -> None:
        if content.chunks and await self._chunks(content.chunks, content.name):
            return
        if content.tables and await self._computed(content):
            return
        if content.table_chunks and await self._chunks(content.table_chunks, content.name):
            return
        for name in content.media[: self.limits.members]:
            try:
                inner = Analysis(self.ctx, self.question, self._known(), self.limits)
                await inner.run(name)
            except ToolError as error:
                self.notes.append(str(error))
                continue
            place = name.removeprefix(f"{content.name}!")
            self.findings += [Finding(one.fact, one.quote, one.place or place, one.answers) for one in inner.findings]
            self.tried += inner.tried
            self.notes += inner.notes
            if inner.answer:
                self.answer = inner.answer
                return
        if len(content.media) > self.limits.members:
            self.notes.append(f"{len(content.media) - self.limits.members} pictures and recordings were not looked at")
        await self.conclude()

    async def _computed(self, content: SourceContent) -> bool:
        """A program over the tables, and the texts beside them; written again once where it failed."""
        texts = _texts(content)
        size = sum(len(cell) for rows in content.tables.values() for row in rows for cell in row)
        given = size + sum(map(len, texts.values())) <= GIVEN_CHARS
        prefix = f"tables = {content.tables!r}\ntexts = {texts!r}\n" if given else ""
        problem = ""
        for _ in range(2):
            values = {
                "question": self.question,
                "known": self._known(),
                "tables": [{"name": name, "rows": len(rows)} for name, rows in content.tables.items()],
                "texts": [*texts],
                "given": given,
                "file": content.name,
                "problem": problem,
            }
            (reply,) = await self.asking.all(
                [Question("analysis_program", PROGRAM, values, self._heads(content, texts))]
            )
            code = str((reply or {}).get("code") or "")
            if not code.strip():
                return False
            outcome = await self.ctx.call_tool("python", code=prefix + code)
            self.tried.append(f"computed with {', '.join(one or content.name for one in content.tables)}")
            said = "\n".join(one.text for one in outcome.blocks() if isinstance(one, TextBlock)).strip()
            if outcome.ok and said not in ("", "(no output)") and "Traceback" not in said:
                self.findings.append(Finding(f"A program over {content.name} printed: {said[:4_000]}"))
                return await self.conclude()
            problem = said[-2_000:] or "it printed nothing"
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

    async def _pdf(self, content: SourceContent) -> None:
        """First as it is, to a model that takes documents; then its text; pages without text as pictures."""
        models = self.ctx.manifest.media_models.get("document", ())
        if models and content.sha256 and content.size <= MOST_BYTES:
            source = Source(kind="file", ref=content.name)
            whole = MediaBlock(
                media_type="application/pdf",
                sha256=content.sha256,
                size=content.size,
                name=content.name,
                source=source,
            )
            outcome = await self.ctx.ask_model(
                LOOK,
                [whole],
                role=self.ctx.role,
                model=models[0],
                media="required",
                question=self._asked(),
                given=[f"{content.name}: the whole document"],
            )
            self.tried.append(f"gave {content.name} to {models[0]} as it is")
            if outcome.ok and self._saw(outcome.response.text, ""):
                return
            if not outcome.ok:
                self.notes.append(f"{models[0]} did not take {content.name}: {outcome.error}")
        if content.chunks:
            await self._parts(content)
            return
        pages = int((await self._facts(content.name)).get("pages") or 0)
        step = MOST_PAGES // 2
        for first in range(1, min(pages, step * self.limits.chunks) + 1, step):
            shown = [*range(first, min(first + step, pages + 1))]
            if await self._looked(content.name, f"pp. {shown[0]}-{shown[-1]}", pages=shown):
                return
        await self.conclude()

    # -- pictures, recordings, videos --------------------------------------------------------------------------------

    async def _picture(self, name: str) -> None:
        """At once; then what is in it, part by part and enlarged; then what follows from all of that."""
        if await self._looked(name, ""):
            return
        regions = self.regions or [[*one] for one in CLOSER]
        for region in regions[: len(CLOSER)]:
            place = "region " + ",".join(f"{one:g}" for one in region)
            if await self._looked(name, place, region=region):
                return
        await self.conclude()

    async def _recording(self, name: str, kind: str) -> None:
        """A recording part by part; a video at once, then its parts, of which more pictures are seen."""
        seconds = float((await self._facts(name)).get("seconds") or 0)
        if kind == "audio":
            step = SOUND_S
        else:
            if await self._looked(name, ""):
                return
            step = max(seconds / CLIPS, 1.0)
        at = 0.0
        for _ in range(self.limits.chunks):
            whole = kind == "audio" and seconds <= step
            part = {} if whole else {"from_s": at, "to_s": min(at + step, seconds or at + step)}
            place = "" if whole else f"seconds {at:g}-{part['to_s']:g}"
            if await self._looked(name, place, **part):
                return
            at += step
            if at >= seconds:
                break
        await self.conclude()

    async def _facts(self, name: str) -> dict[str, Any]:
        outcome = await self.ctx.call_tool(media_as.name, name=name, form="facts")
        if not outcome.ok:
            raise ToolError(outcome.error or f"{name} cannot be read")
        return outcome.value if isinstance(outcome.value, dict) else {}

    async def _looked(self, name: str, place: str, **part: Any) -> bool:
        looked = await look(self.ctx, self._asked(), [name], prompt=LOOK, **part)
        self.tried.append(f"looked at {name}, {place}" if place else f"looked at {name}")
        self.notes += looked.notes
        inside = name.partition("!")[2]
        return self._saw(looked.text, "!".join(one for one in (inside, place) if one))

    def _saw(self, text: str, place: str) -> bool:
        """What a model says of what it was shown; words of any other form are what it saw."""
        try:
            reply: Any = read_output(text, LOOKED)
        except OutputError:
            reply = {"found": False, "seen": text.strip()}
        answer = str(reply.get("answer") or "").strip()
        found = bool(reply["found"]) and bool(answer)
        said = "; ".join(one for one in (answer if found else "", str(reply["seen"]).strip()) if one)
        if said:
            self.findings.append(Finding(said, place=place, answers=found))
        self.regions = [
            one for one in reply.get("regions") or () if 0 <= one[0] < one[2] <= 1 and 0 <= one[1] < one[3] <= 1
        ]
        if found:
            self.answer = answer
        return found

    # -- together ----------------------------------------------------------------------------------------------------

    async def conclude(self) -> bool:
        """What follows from everything that was found; whether it answers the question."""
        if self.answer or not self.findings:
            return bool(self.answer)
        lines = [self._line(number, one) for number, one in enumerate(self.findings, start=1)]
        material = TextBlock(text="\n".join(lines), source=Source(kind="agent", ref="findings"), trust=Trust.UNTRUSTED)
        values = {"question": self.question, "known": self.known}
        (reply,) = await self.asking.all([Question("analysis_conclusion", CONCLUSION, values, (material,))])
        if reply is None:
            return False
        self.missing = str(reply.get("missing") or "")
        if reply["complete"] and str(reply["answer"]).strip():
            self.answer = str(reply["answer"]).strip()
        return bool(self.answer)

    @staticmethod
    def _line(number: int, one: Finding) -> str:
        where = f" ({one.place})" if one.place else ""
        return f"[E{number}]{where} {one.fact}" + (f": “{one.quote}”" if one.quote else "")

    def _known(self) -> str:
        """What is known so far, with what was found in the parts before."""
        lines = [self._line(number, one) for number, one in enumerate(self.findings, start=1)]
        return "\n".join(one for one in (self.known, *lines) if one)[-8_000:]

    def _asked(self) -> str:
        known = self._known()
        return f"{self.question}\nKnown so far:\n{known}" if known else self.question

    def _shown(self, pieces: Sequence[Piece], source: str = "") -> tuple[Block, ...]:
        return tuple(
            TextBlock(
                text=f"[{number}] {one.text}",
                source=Source(kind="web" if "://" in source else "file", ref=source, place=one.place),
                trust=Trust.UNTRUSTED,
            )
            for number, one in enumerate(pieces, start=1)
        )


def _text(chunk: Sequence[Piece]) -> str:
    return "\n".join(one.text for one in chunk)


def _texts(content: SourceContent) -> dict[str, str]:
    """The texts beside tables, by the parts they stand in."""
    found: dict[str, list[str]] = {}
    for chunk in content.chunks:
        for one in chunk:
            found.setdefault(one.place.rpartition("!")[0], []).append(one.text)
    return {name: "\n".join(parts) for name, parts in found.items()}


__all__ = ["Analysis", "Finding"]
