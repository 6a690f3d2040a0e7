"""What a report is made of: items, each with the references of its own text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel

from agentorchestra.core.spec import Citation
from agentorchestra.environments.report.addresses import address_in, usable_address, without_address

MOST_DESCRIBED = 500  # characters of a description
Lookup = Callable[[str], str]  # the address of a name that only the run knows, as a file of the task; "" for others


class Reference(BaseModel, frozen=True):
    """A source as one item names it."""

    id: int  # its number in the item's text, from 1
    description: str = ""  # what it is, in words
    url: str = ""  # the address by which it is opened; "" for a source that has none
    source: str = ""  # as it was named: a file, an address
    place: str = ""  # `line 12`, `p. 3`
    quote: str = ""  # its words, verbatim


class Cited(Citation):
    """A source that an item stands on.

    Attributes:
        title: of the source, "" where none is known.
    """

    title: str = ""


class ReportItem(BaseModel, frozen=True):
    """A piece of a report."""

    id: str  # made of the effect that added it: the same effect adds nothing twice
    title: str = ""  # of it, "" for none
    content: str = ""  # Markdown; `[1](address)` behind what reference 1 says, `[1]` where that has no address
    summary: str = ""  # two or three sentences, "" until they are made
    references: tuple[Reference, ...] = ()  # in the order of their numbers
    by: str = ""  # the agent that added it


def nowhere(name: str) -> str:
    """For texts without a run: no name has an address."""
    return ""


def reference(
    number: int, source: str, description: str = "", *, place: str = "", quote: str = "", find: Lookup = nowhere
) -> Reference:
    """Return a reference with its address: of a file of the run (`find`), of the source, or in the description."""
    name = " ".join(source.split())
    address = usable_address(description) or address_in(description)
    url = find(name) or usable_address(name) or address_in(name) or address
    words = without_address(description) if address else " ".join(description.split())
    if usable_address(words):  # an address is no description
        words = ""
    if not words and name and not usable_address(name):
        words = without_address(name) or name
    return Reference(
        id=number, description=words[:MOST_DESCRIBED], url=url, source=name or url, place=place, quote=quote
    )


def from_citations(citations: Sequence[Citation], find: Lookup = nowhere) -> tuple[Reference, ...]:
    return tuple(
        reference(number, cite.source, getattr(cite, "title", ""), place=cite.place, quote=cite.quote, find=find)
        for number, cite in enumerate(citations, start=1)
    )
