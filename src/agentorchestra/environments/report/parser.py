"""A text becomes an item: its citations are found, each gets the number of its reference. Code, no model's word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.ids import canonical_json
from agentorchestra.core.spec import Citation
from agentorchestra.environments.report.addresses import escape, key_of, trim, usable_address
from agentorchestra.environments.report.items import Lookup, Reference, from_citations, nowhere, reference
from agentorchestra.environments.report.marks import (
    CITATION,
    closed_up,
    mark_name,
    marks_in,
    outside_code,
    without_list,
)

MOST_REFERENCES = 2_000  # of one item; further addresses stay words of the text
_TEXTS = ("content", "text", "report", "answer", "body", "result")
_LISTS = ("references", "sources", "citations")
_ADDRESSES = ("url", "address", "source", "link", "href", "path")
_WORDS = ("description", "title", "name", "text")


@dataclass(frozen=True)
class ParsedText:
    """A text as Markdown with `[1](address)` behind what reference 1 says, without its own list of references."""

    content: str
    references: tuple[Reference, ...]
    struck: tuple[str, ...] = ()  # marks that name nothing and were taken out


@dataclass
class _Parser:
    find: Lookup
    references: list[Reference]
    marks: dict[str, int] = field(default_factory=dict)
    struck: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, source: str, description: str = "") -> int:
        """Return the number of a source, a new one for a new source; 0 where there are too many."""
        candidate = reference(len(self.references) + 1, source, description, find=self.find)
        key = key_of(candidate.url, candidate.description)
        if key not in self.numbers:
            if len(self.references) >= MOST_REFERENCES:
                return 0
            self.references.append(candidate)
            self.numbers[key] = candidate.id
        at = self.numbers[key] - 1
        if not self.references[at].description and candidate.description:
            self.references[at] = self.references[at].model_copy(update={"description": candidate.description})
        return at + 1

    def link(self, number: int) -> str:
        address = self.references[number - 1].url
        return f"[{number}]({escape(address)})" if address else f"[{number}]"

    def replace(self, match: re.Match[str]) -> str:
        if match["mark"] is not None:
            return self._of_marks(match["mark"], match[0])
        if match["address"] is not None:
            return self._of_link(match["text"], match["address"], match["title"] or "", match[0])
        text = match["auto"] or match["bare"] or match["doi"]
        address = text if match["auto"] else trim(text)
        number = self.number(address) if usable_address(address) else 0
        return self.link(number) + text[len(address) :] if number else match[0]

    def _of_link(self, text: str, address: str, title: str, whole: str) -> str:
        if address.startswith("#"):  # a place in the text itself, which the report does not have
            name = mark_name(text)
            return self.link(self.marks[name]) if name in self.marks else text
        if not usable_address(address) and not self.find(address):
            return text if re.match(r"[a-z][\w+.-]*:", address, re.IGNORECASE) else whole
        is_mark = re.fullmatch(r"\^?E?\d{1,3}", text.strip()) is not None
        if not (number := self.number(address, title or ("" if is_mark else text))):
            return text
        if is_mark:
            self.marks.setdefault(mark_name(text), number)
            return self.link(number)
        words = text.strip()
        bare = not words or usable_address(words) == self.references[number - 1].url
        return self.link(number) if bare else f"{words} {self.link(number)}"

    def _of_marks(self, text: str, whole: str) -> str:
        names = marks_in(text)
        numbers = [self.marks[mark_name(name)] for name in names if mark_name(name) in self.marks]
        if len(numbers) < len(names):
            if not numbers and not re.fullmatch(r"\^?E?\d+(?:\D+\d+)*|\^[\w-]+", text):
                return whole
            self.struck += [f"[{name}]" for name in names if mark_name(name) not in self.marks]
        return "".join(self.link(number) for number in dict.fromkeys(numbers))


def read_text(
    text: str, citations: Sequence[Citation] = (), *, find: Lookup = nowhere, marks: Sequence[tuple[str, str, str]] = ()
) -> ParsedText:
    """Find the citations of a text: links, addresses, DOIs, footnotes, and marks.

    What a mark means says a list at its end, `marks` (mark, source, description), or the `citations`, `[1]` the first.
    """
    references = [*from_citations(citations, find)]
    reading = _Parser(find, references)
    for ref in references:
        reading.numbers.setdefault(key_of(ref.url, ref.description), ref.id)
        reading.marks[str(ref.id)] = ref.id
    body, entries = without_list(text)
    for mark, source, description in marks:
        number = reading.number(source, description)
        if mark and number:
            reading.marks[mark_name(mark)] = number
    for entry in entries:
        number = reading.number(entry.address, entry.description) if entry.address or entry.description else 0
        if entry.mark and number:
            reading.marks[entry.mark] = number
    # Marks that are links say what the bare ones mean, wherever they stand: they are read first.
    for match in CITATION.finditer(body):
        if match["address"] and re.fullmatch(r"\^?E?\d{1,3}", match["text"].strip()):
            reading.replace(match)
    content = outside_code(body, lambda part: CITATION.sub(reading.replace, part))
    if reading.struck:
        content = outside_code(content, closed_up)
    return ParsedText(content.strip(), tuple(reading.references), tuple(dict.fromkeys(reading.struck)))


def read_object(value: Mapping[str, JsonValue], citations: Sequence[Citation], *, find: Lookup = nowhere) -> ParsedText:
    """Find the text, the title and the references of a JSON object; what else it holds is written as a list."""
    name = next((label for label in _TEXTS if isinstance(value.get(label), str)), "")
    marks = []
    keys = {name, "title", "summary"}
    for key in _LISTS:
        entries = value.get(key)
        if isinstance(entries, list):
            keys.add(key)
            marks += [mark for entry in entries if (mark := _mark_of(entry)) is not None]
    rest = {key: entry for key, entry in value.items() if key not in keys}
    parts = [str(value[name]) if name else "", *_as_list(rest)]
    return read_text("\n".join(part for part in parts if part), citations, find=find, marks=marks)


def _mark_of(entry: JsonValue) -> tuple[str, str, str] | None:
    if isinstance(entry, str):
        return ("", entry, "") if usable_address(entry) else ("", "", entry)
    if not isinstance(entry, dict):
        return None
    source = next((str(entry[key]) for key in _ADDRESSES if entry.get(key)), "")
    words = next((str(entry[key]) for key in _WORDS if entry.get(key)), "")
    return (str(entry.get("id") or entry.get("number") or ""), source, words) if source or words else None


def _as_list(value: Mapping[str, JsonValue], depth: int = 0) -> list[str]:
    lines: list[str] = []
    for key, entry in value.items():
        head = f"{'  ' * depth}- {key}:"
        if isinstance(entry, dict) and entry and depth < 6:
            lines += [head, *_as_list(entry, depth + 1)]
        elif isinstance(entry, list) and entry and depth < 6:
            lines.append(head)
            lines += [f"{'  ' * (depth + 1)}- {_text(row)}" for row in entry]
        else:
            lines.append(f"{head} {_text(entry)}")
    return lines


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def summary_of(content: str, most: int = 320) -> str:
    """Return the first sentences of a text, at most three, without marks: where no model made a summary."""
    lines = [line for line in content[:8_000].split("\n") if not line.lstrip().startswith(("#", "```", "|", ">"))]
    plain = CITATION.sub(lambda match: "" if (match["text"] or "0").isdigit() else match["text"], "\n".join(lines))
    plain = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(plain.split()))
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ0-9“\"])", plain)
    summary = ""
    for sentence in sentences[:3]:
        if summary and len(summary) + len(sentence) > most:
            break
        summary = f"{summary} {sentence}".strip()
    return summary if len(summary) <= most else f"{summary[:most].rsplit(' ', 1)[0]}…"
