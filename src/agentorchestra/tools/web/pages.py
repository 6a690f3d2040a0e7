"""Pages as they were read: a document with places, and what is known of where it came from."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agentorchestra.core.errors import FileInputError, UnknownComponentError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tools.files.documents import Document, TextDocument, document_from_json, is_media
from agentorchestra.tools.files.worker import ReadLimits, Request, run_async
from agentorchestra.tools.web.addresses import parse_address, shown_address
from agentorchestra.tools.web.http import Answer

FORMAT = 2  # of a kept page. 1: the first. 2: with the addresses of its pictures.
# On one page. What a page is made of is read in a process of its own.
LIMITS = ReadLimits(max_bytes=100_000_000, seconds=30.0)


@dataclass(frozen=True)
class Page:
    url: str  # as it was asked for
    final_url: str  # the address that answered
    redirects: tuple[str, ...]  # the addresses that led there
    read_at: str  # when, in UTC, ISO 8601
    media_type: str  # of what came
    size: int  # its bytes
    document: dict[str, Any]  # as JSON (`document_to_json`)
    about: dict[str, str] = field(default_factory=dict)  # what the page says of itself: title, author, date, sitename
    charset: str = ""  # in which its text was read
    links: tuple[tuple[str, str], ...] = ()  # [words, address] of each link
    pictures: tuple[tuple[str, str], ...] = ()  # [words, address] of each picture
    reader: str = "text"  # which one read it
    notes: tuple[str, ...] = ()  # what the reader of the page should know of how it came

    def read(self) -> Document:
        return document_from_json(self.document)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Page:
        """Do the inverse; ValueError, KeyError or TypeError for another format."""
        if data.pop("format") != FORMAT:
            raise ValueError("it was kept by another version")
        links, pictures = (_pairs(data.pop(name)) for name in ("links", "pictures"))
        redirects, notes = (tuple(data.pop(name)) for name in ("redirects", "notes"))
        return cls(links=links, pictures=pictures, redirects=redirects, notes=notes, **data)


def _pairs(rows: Iterable[Sequence[object]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(words), str(target)) for words, target in rows)


async def page_of(answer: Answer, url: str, reader: str, encoding: str = "") -> Page:
    """Read what a site answered, in a bounded process; WebError (`bad_answer`) for what cannot be read."""
    label = shown_address(answer.url)
    with tempfile.TemporaryDirectory(prefix="agentorchestra-page-") as folder:
        path = Path(folder) / file_name(answer.url)
        path.write_bytes(answer.body)
        media_type = answer.media_type
        options = {
            "url": answer.url,
            "media_type": "text/markdown" if reader == "service" and not media_type else media_type,
            "charset": answer.charset,
            "raw": reader == "raw",
        }
        try:
            result, _ = await run_async(Request(path, "page", asked=options, encoding=encoding), LIMITS)
        except FileInputError as error:
            raise WebError(
                str(error).replace(str(path.absolute()), label), kind="bad_answer", url=label, status=answer.status
            ) from None
    about = dict(result["page"])
    notes = []
    if answer.is_downgraded:
        notes.append("a redirect led from https to http: what came could have been changed on the way")
    if answer.cut:
        notes.append("it is longer; only its beginning was read")
    if answer.truncation:
        notes.append(f"{answer.truncation}: this is what came of it; fresh=true tries again")
    notes += about.pop("notes", ())
    return Page(
        url=url,
        final_url=answer.url,
        redirects=answer.redirects,
        read_at=answer.read_at.isoformat(timespec="seconds"),
        media_type=str(result["document"]["media_type"]),
        size=len(answer.body),
        document=result["document"],
        charset=str(about.pop("charset", "")),
        links=_pairs(about.pop("links", ())),
        pictures=_pairs(about.pop("pictures", ())),
        about={name: str(value) for name, value in about.items()},
        reader=reader,
        notes=tuple(notes),
    )


def file_name(url: str) -> str:
    """Return a plain file's name for what lies at an address."""
    last = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    plain = re.sub(r"[^\w.-]+", "-", last).strip("-.")[-80:]
    return plain or "page"


def artifact_name(url: str, ending: str) -> str:
    """Return the artifact in which a page is kept: the same for the same address in every step of a run."""
    parts = urlsplit(url)
    plain = re.sub(r"[^\w.-]+", "-", f"{parts.hostname}{unquote(parts.path)}").strip("-.")[:60].rstrip("-.")
    return f"web/{plain}-{hashlib.sha256(url.encode()).hexdigest()[:8]}{ending}"


def is_address(source: str) -> bool:
    """Return True if a source is a page of the web, and no file."""
    return source.startswith(("http://", "https://"))


async def read_in_run(ctx: RunContext[Any], url: str) -> Document | None:
    """Return a page as this run read it last, None where it read none at that address."""
    try:
        plain = parse_address(url).url
    except WebError:
        return None
    for ending in (".md", ".json"):
        try:
            data = await ctx.read_artifact(artifact_name(plain, ending))
            return TextDocument(data.decode()) if ending == ".md" else document_from_json(json.loads(data))
        except (UnknownComponentError, ValueError, KeyError):
            continue
    return None


def is_text(page: Page) -> bool:
    """Return True if a page is one text, and no medium that is only described."""
    return page.document["kind"] == "text" and not is_media(page.media_type)


def outline(document: Document, most: int = 30) -> Sequence[str]:
    if not isinstance(document, TextDocument):
        return ()
    headings = [
        f"line {number}: {line.strip('# ')[:100]}"
        for number, line in enumerate(document.text.split("\n"), start=1)
        if re.match(r"#{1,4} \S", line)
    ]
    return [*headings[:most], f"and {len(headings) - most} more headings"] if len(headings) > most else headings
