"""What a model does for a report: summaries, citations that code does not see, the text. Code checks each of its words.

A reference counts where it stands in the text that the model was shown; everything else it says is left out and said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.errors import OutputError
from agentorchestra.environments.report.addresses import key_of, normalised_address, usable_address
from agentorchestra.environments.report.items import MOST_DESCRIBED, Reference, reference
from agentorchestra.environments.report.marks import CITATION, closed_up, outside_code
from agentorchestra.environments.report.parser import ParsedText, summary_of
from agentorchestra.environments.report.references import CollectedReferences, finish
from agentorchestra.environments.report.storage import MOST_CONTENT
from agentorchestra.tea.calling.structured_output import read_output

EXTRACT, WRITE = "report_extract", "report_write"

# Characters of all items that are shown to the model that writes, and of one to the model that reads it.
MOST_SHOWN = 120_000
MOST_GROWN = 2 * MOST_CONTENT  # characters to which the marks of a model's references may bring a text
_MOST_SUMMARY = 800
_MOST_NAMED = 200  # characters of a model's words in a note
_MOST_STRUCK = 30  # marks that name no source of which the author is told
# Places of one text at which the same words may cite a source: more often, they are words like others.
_MOST_PLACES = 50
_TEXT: dict[str, JsonValue] = {"type": "string"}
# By which the reply is read: what of a reference does not apply may be missing.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": _TEXT,
        "references": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "as_written": _TEXT, "description": _TEXT, "url": _TEXT},
            },
        },
    },
    "required": ["summary"],
}


@dataclass(frozen=True)
class Extracted:
    """Citations of an item as its text has them (000, app. D.7)."""

    content: str  # Markdown with its citations as links
    summary: str
    references: tuple[Reference, ...]
    notes: tuple[str, ...] = ()  # what was left out, a sentence each

    def to_json(self) -> dict[str, JsonValue]:
        references: list[JsonValue] = [
            {"id": ref.id, "description": ref.description, "url": ref.url} for ref in self.references
        ]
        return {"content": self.content, "summary": self.summary, "references": references, "notes": [*self.notes]}


async def asked_for(read: ParsedText, ctx: Any) -> tuple[dict[str, Any], str]:
    """Return a model's reply about a text, and a sentence where there is none."""
    lines = "\n".join(f"{ref.id}. {ref.description} {ref.url}".strip() for ref in read.references)
    text = f"{read.content}\n\n{lines}"[:MOST_SHOWN].strip()
    block = TextBlock(text=text, source=Source(kind="environment", ref="report"), trust=Trust.UNTRUSTED)
    outcome = await ctx.ask_model(EXTRACT, [block], role="reporter")
    if not outcome.ok:
        return {}, f"The summary is the beginning of the text: no model could be asked ({outcome.error})."
    try:
        value = read_output(outcome.response.text, SCHEMA)
    except OutputError as exc:
        return {}, f"The summary is the beginning of the text: {exc}."
    return (value, "") if isinstance(value, dict) else ({}, "")


def confirm_reply(read: ParsedText, summary: str, claims: Sequence[Mapping[str, JsonValue]]) -> Extracted:
    """Return what a model found in a text, as far as its words stand there.

    A citation in words, such as `(Miller 2020)`, becomes a mark where the model copied it letter by letter.
    """
    references = [*read.references]
    content = read.content
    notes = []
    words = _words(content) | {word for ref in references for word in _words(f"{ref.description} {ref.url}")}
    for claim in claims[:500]:
        description = " ".join(str(claim.get("description") or "").split())[:MOST_DESCRIBED]
        is_described = bool(description) and _words(description) <= words
        number = claim.get("id")
        if isinstance(number, int) and 1 <= number <= len(read.references):
            if is_described and not references[number - 1].description:
                references[number - 1] = references[number - 1].model_copy(update={"description": description})
            continue
        quote = str(claim.get("as_written") or "").strip()
        url = str(claim.get("url") or "").strip()
        if url and normalised_address(url) not in content and url not in content:
            url = ""
        label = (description or quote or url or "a reference")[:_MOST_NAMED]
        if not 2 < len(quote) <= 200 or quote not in content or CITATION.search(quote) or not (url or is_described):
            notes.append(f"Left out, it does not stand in the text: {label}.")
            continue
        # What the model names grows the text at every place where it stands.
        places = content.count(quote)
        if places > _MOST_PLACES or len(content) + places * (len(url) + 20) > MOST_GROWN:
            notes.append(f"Left out, its words stand at {places:,} places of the text: {label}.")
            continue
        candidate = reference(len(references) + 1, url, description if is_described else quote.strip("()[] "))
        if (same := next((ref for ref in references if _same_source(candidate, ref)), None)) is None:
            references.append(candidate)
        content = outside_code(content, partial(_mark, quote=quote, ref=same or candidate))
    abstract = closed_up(" ".join(CITATION.sub("", summary).split()))[:_MOST_SUMMARY] or summary_of(content)
    return Extracted(content, abstract, tuple(references), tuple(notes))


def _mark(text: str, quote: str, ref: Reference) -> str:
    mark = f"[{ref.id}]({ref.url})" if ref.url else f"[{ref.id}]"
    return text.replace(quote, f"{quote} {mark}")


def _same_source(ref: Reference, other: Reference) -> bool:
    """Return True if a reference means the other one: by its address, or by words that the other one has too."""
    if ref.url:
        return key_of(ref.url, "") == key_of(other.url, "")
    words = _words(ref.description)
    return bool(words) and words <= _words(other.description)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


async def written_up(collection: CollectedReferences, title: str, ctx: Any) -> tuple[str, str]:
    """Return a model's text of a report; "" and a sentence if it is no use. Of wrong marks the model is told once."""
    material = _blocks(collection)
    text, reason = await _ask_writer(title, ctx, material)
    wrong = _wrong(text, collection) if text else ""
    if wrong:
        draft = TextBlock(text=text, source=Source(kind="agent", ref="draft"), trust=Trust.UNTRUSTED)
        note = TextBlock(text=f"Your last text is the draft above. {wrong} Write it anew.", trust=Trust.SYSTEM)
        again, _ = await _ask_writer(title, ctx, [*material, draft, note])
        text = again or text
    if text and _cites_nothing(text, collection):
        reason = "the model cited none of the sources"
    return ("", f"The items stand one after the other: {reason}.") if reason else (text, "")


async def _ask_writer(title: str, ctx: Any, content: Sequence[Block]) -> tuple[str, str]:
    """Return a text of a model, "" and why where there is none."""
    outcome = await ctx.ask_model(WRITE, [*content], role="reporter", title=title)
    if not outcome.ok:
        return "", f"no model could be asked ({outcome.error})"
    text = str(outcome.response.text).strip()
    return text, "" if text else "the model wrote nothing"


def _wrong(text: str, collection: CollectedReferences) -> str:
    if _cites_nothing(text, collection):
        return "It cites none of the sources."
    struck = finish(text, collection.references).struck
    return f"No source in the list has {', '.join(struck[:_MOST_STRUCK])}." if struck else ""


def _cites_nothing(text: str, collection: CollectedReferences) -> bool:
    references = collection.references
    return bool(references) and len(finish(text, references).left_out) == len(references)


def _blocks(collection: CollectedReferences) -> Sequence[Block]:
    """Return the items, then the sources with their numbers. Long items are cut where all have no room."""
    source = Source(kind="environment", ref="report")
    room = MOST_SHOWN // max(1, len(collection.pieces))
    spare = sum(max(0, room - len(piece.content)) for piece in collection.pieces)
    longer = sum(1 for piece in collection.pieces if len(piece.content) > room)
    share = room + spare // max(1, longer)
    blocks = []
    for number, piece in enumerate(collection.pieces, start=1):
        cut = "" if len(piece.content) <= share else f"\n(cut: {len(piece.content):,} characters)"
        head = f"Item {number}: {piece.title}" if piece.title else f"Item {number}"
        summary = f"Summary: {piece.summary}" if piece.summary else ""
        text = "\n".join(part for part in (head, summary, piece.content[:share] + cut) if part)
        blocks.append(TextBlock(text=text, source=source, trust=Trust.UNTRUSTED))
    lines = [f"[{ref.number}] {ref.description or usable_address(ref.url)}" for ref in collection.references]
    text = "\n".join(["Sources:", *lines])[:MOST_SHOWN]
    return [*blocks, TextBlock(text=text, source=source, trust=Trust.UNTRUSTED)]
