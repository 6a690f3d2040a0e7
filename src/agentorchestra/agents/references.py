"""References of a report: marks in the text become numbers, sources get one address. Code, not the model's word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentorchestra.core.spec import Citation, FileRef
from agentorchestra.environments.report.addresses import address_of_file, escaped, normalised_address, usable_address
from agentorchestra.environments.report.marks import closed_up

_MARK = re.compile(r"\[E(\d+)\]")
_ANY_MARK = re.compile(r"\[E[^\]\n]{0,20}\]")
_LINK = re.compile(r"!?\[(?P<text>[^\]\n]*)\]\((?P<address>[^()\s]+)[^()\n]*\)")


@dataclass(frozen=True)
class Report:
    """A report with its references.

    Attributes:
        text: Markdown with `[n](address)` behind the claims and the list of references at the end.
        sources: the citations that are used, in the order of their numbers and places.
        notes: what was struck out or left unused, a sentence each.
    """

    text: str
    sources: tuple[Citation, ...]
    notes: tuple[str, ...]


def address_of(source: str, files: Mapping[str, FileRef]) -> str:
    """Where a source is found: its address, or for a file of the task a file:// address of where it came from."""
    ref = files.get(source)
    return address_of_file(ref) if ref is not None else usable_address(source) or normalised_address(source)


def make_report(text: str, evidence: Sequence[Citation], files: Sequence[FileRef]) -> Report:
    """Number the marks `[E1]` of a text by first use, and add the references.

    Args:
        text: what the model wrote; E1 is the first piece of evidence.
        evidence: what the team found, in the order in which it was listed.
        files: of the task.
    """
    by_name = {ref.name: ref for ref in files}
    numbers: dict[str, int] = {}
    used: dict[str, list[Citation]] = {}
    unknown: list[str] = []

    def number(match: re.Match[str]) -> str:
        index = int(match[1]) - 1
        if not 0 <= index < len(evidence):
            unknown.append(match[0])
            return ""
        one = evidence[index]
        address = address_of(one.source, by_name)
        n = numbers.setdefault(address, len(numbers) + 1)
        places = used.setdefault(address, [])
        if one not in places:
            places.append(one)
        return f"[{n}]({escaped(address)})"

    body = _MARK.sub(number, _LINK.sub(lambda match: _unlinked(match, evidence, unknown), text))
    for odd in _ANY_MARK.findall(body):
        unknown.append(odd)
        body = body.replace(odd, "")
    body = closed_up(body) if unknown else body
    # Two pieces of evidence from one source behind a claim are one reference.
    body = re.sub(r"(\[\d+\]\([^()\s]*\))(?:\s*\1)+", r"\1", body)
    lines = []
    for address, n in numbers.items():
        quotes = "; ".join(_quoted(one) for one in used[address])
        name = used[address][0].source
        lines.append(f"{n}. [{_plain(name)}]({escaped(address)}){': ' + quotes if quotes else ''}")
    references = "\n\n## References\n\n" + "\n".join(lines) if lines else ""
    notes = []
    if unknown:
        notes.append(f"Struck out, no such evidence: {', '.join(dict.fromkeys(unknown))}.")
    cited = {id(one) for places in used.values() for one in places}
    spare = [_plain(one.source) + (f", {one.place}" if one.place else "") for one in evidence if id(one) not in cited]
    spare = list(dict.fromkeys(spare))
    if spare:
        notes.append(f"Not used: {'; '.join(spare)}.")
    sources = tuple(one for places in used.values() for one in places)
    return Report(re.sub(r"[ \t]+\n", "\n", body).strip() + references, sources, tuple(notes))


def _unlinked(match: re.Match[str], evidence: Sequence[Citation], unknown: list[str]) -> str:
    """A link of the model's own: its text alone, and the mark of the evidence where there is some from that address."""
    address = normalised_address(match["address"])
    for index, one in enumerate(evidence, start=1):
        if normalised_address(one.source) == address:
            return f"{match['text']} [E{index}]"
    unknown.append(match["address"])
    return match["text"]


def _quoted(one: Citation) -> str:
    words = " ".join(one.quote.split())
    words = f"“{_plain(words[:200])}{'…' if len(words) > 200 else ''}”" if words else ""
    return " ".join(part for part in (one.place, words) if part)


def _plain(text: str) -> str:
    """Text inside Markdown that makes no link of its own."""
    return re.sub(r"([\[\]<>`])", r"\\\1", text)


__all__ = ["Report", "address_of", "make_report", "normalised_address"]
