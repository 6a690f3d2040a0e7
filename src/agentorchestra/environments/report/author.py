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
from agentorchestra.environments.report.parser import Read, summary_of
from agentorchestra.environments.report.references import Collected, finish
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

    def told(self) -> dict[str, JsonValue]:
        listed: list[JsonValue] = [
            {"id": one.id, "description": one.description, "url": one.url} for one in self.references
        ]
        return {"content": self.content, "summary": self.summary, "references": listed, "notes": [*self.notes]}


async def asked_for(read: Read, ctx: Any) -> tuple[dict[str, Any], str]:
    """Return a model's reply about a text, and a sentence where there is none."""
    listed = "\n".join(f"{one.id}. {one.description} {one.url}".strip() for one in read.references)
    text = f"{read.content}\n\n{listed}"[:MOST_SHOWN].strip()
    shown = TextBlock(text=text, source=Source(kind="environment", ref="report"), trust=Trust.UNTRUSTED)
    outcome = await ctx.ask_model(EXTRACT, [shown], role="reporter")
    if not outcome.ok:
        return {}, f"The summary is the beginning of the text: no model could be asked ({outcome.error})."
    try:
        value = read_output(outcome.response.text, SCHEMA)
    except OutputError as exc:
        return {}, f"The summary is the beginning of the text: {exc}."
    return (value, "") if isinstance(value, dict) else ({}, "")


def checked(read: Read, summary: str, found: Sequence[Mapping[str, JsonValue]]) -> Extracted:
    """Return what a model found in a text, as far as its words stand there.

    A citation in words, such as `(Miller 2020)`, becomes a mark where the model copied it letter by letter.
    """
    references = [*read.references]
    content = read.content
    notes = []
    words = _words(content) | {word for one in references for word in _words(f"{one.description} {one.url}")}
    for one in found[:500]:
        description = " ".join(str(one.get("description") or "").split())[:MOST_DESCRIBED]
        described = bool(description) and _words(description) <= words
        number = one.get("id")
        if isinstance(number, int) and 1 <= number <= len(read.references):
            if described and not references[number - 1].description:
                references[number - 1] = references[number - 1].model_copy(update={"description": description})
            continue
        written = str(one.get("as_written") or "").strip()
        url = str(one.get("url") or "").strip()
        if url and normalised_address(url) not in content and url not in content:
            url = ""
        named = (description or written or url or "a reference")[:_MOST_NAMED]
        if not 2 < len(written) <= 200 or written not in content or CITATION.search(written) or not (url or described):
            notes.append(f"Left out, it does not stand in the text: {named}.")
            continue
        # What the model names grows the text at every place where it stands.
        places = content.count(written)
        if places > _MOST_PLACES or len(content) + places * (len(url) + 20) > MOST_GROWN:
            notes.append(f"Left out, its words stand at {places:,} places of the text: {named}.")
            continue
        made = reference(len(references) + 1, url, description if described else written.strip("()[] "))
        if (same := next((each for each in references if _same_source(made, each)), None)) is None:
            references.append(made)
        content = outside_code(content, partial(_marked, written=written, one=same or made))
    said = closed_up(" ".join(CITATION.sub("", summary).split()))[:_MOST_SUMMARY] or summary_of(content)
    return Extracted(content, said, tuple(references), tuple(notes))


def _marked(text: str, written: str, one: Reference) -> str:
    mark = f"[{one.id}]({one.url})" if one.url else f"[{one.id}]"
    return text.replace(written, f"{written} {mark}")


def _same_source(one: Reference, other: Reference) -> bool:
    """Return True if a reference means the other one: by its address, or by words that the other one has too."""
    if one.url:
        return key_of(one.url, "") == key_of(other.url, "")
    said = _words(one.description)
    return bool(said) and said <= _words(other.description)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


async def written_up(collected: Collected, title: str, ctx: Any) -> tuple[str, str]:
    """Return a model's text of a report; "" and a sentence if it is no use. Of wrong marks the model is told once."""
    material = _shown(collected)
    text, why = await _asked(title, ctx, material)
    wrong = _wrong(text, collected) if text else ""
    if wrong:
        draft = TextBlock(text=text, source=Source(kind="agent", ref="draft"), trust=Trust.UNTRUSTED)
        note = TextBlock(text=f"Your last text is the draft above. {wrong} Write it anew.", trust=Trust.SYSTEM)
        again, _ = await _asked(title, ctx, [*material, draft, note])
        text = again or text
    if text and _uncited(text, collected):
        why = "the model cited none of the sources"
    return ("", f"The items stand one after the other: {why}.") if why else (text, "")


async def _asked(title: str, ctx: Any, content: Sequence[Block]) -> tuple[str, str]:
    """Return a text of a model, "" and why where there is none."""
    outcome = await ctx.ask_model(WRITE, [*content], role="reporter", title=title)
    if not outcome.ok:
        return "", f"no model could be asked ({outcome.error})"
    text = str(outcome.response.text).strip()
    return text, "" if text else "the model wrote nothing"


def _wrong(text: str, collected: Collected) -> str:
    if _uncited(text, collected):
        return "It cites none of the sources."
    struck = finish(text, collected.references).struck
    return f"No source in the list has {', '.join(struck[:_MOST_STRUCK])}." if struck else ""


def _uncited(text: str, collected: Collected) -> bool:
    listed = collected.references
    return bool(listed) and len(finish(text, listed).uncited) == len(listed)


def _shown(collected: Collected) -> Sequence[Block]:
    """Return the items, then the sources with their numbers. Long items are cut where all have no room."""
    source = Source(kind="environment", ref="report")
    room = MOST_SHOWN // max(1, len(collected.pieces))
    spare = sum(max(0, room - len(one.content)) for one in collected.pieces)
    longer = sum(1 for one in collected.pieces if len(one.content) > room)
    share = room + spare // max(1, longer)
    blocks = []
    for number, one in enumerate(collected.pieces, start=1):
        cut = "" if len(one.content) <= share else f"\n(cut: {len(one.content):,} characters)"
        head = f"Item {number}: {one.title}" if one.title else f"Item {number}"
        summary = f"Summary: {one.summary}" if one.summary else ""
        text = "\n".join(part for part in (head, summary, one.content[:share] + cut) if part)
        blocks.append(TextBlock(text=text, source=source, trust=Trust.UNTRUSTED))
    lines = [f"[{one.number}] {one.description or usable_address(one.url)}" for one in collected.references]
    text = "\n".join(["Sources:", *lines])[:MOST_SHOWN]
    return [*blocks, TextBlock(text=text, source=source, trust=Trust.UNTRUSTED)]
