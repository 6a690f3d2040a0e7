"""Addresses of sources: the one form by which they are compared, and the one by which they are opened.

A source is written in many ways: with or without its scheme's port, with the parameters of whoever counts readers, as a
path or as a file:// address, as a DOI. What is one source comes to one key here.
"""

from __future__ import annotations

import os
import re
import unicodedata
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from agentorchestra.core.spec import FileRef

_TRACKING = re.compile(
    r"^(utm_\w+|gclid|dclid|gbraid|wbraid|yclid|fbclid|msclkid|mc_[ce]id|igshid|_hsenc|_hsmi|ref_src)$", re.IGNORECASE
)
_WEB = re.compile(r"https?://", re.IGNORECASE)
_DOI = re.compile(
    r"\b(?:doi:\s{0,3}|(?:https?://)?(?:dx\.|www\.)?doi\.org/)(10\.\d{4,9}/[^\s\"<>]{1,300})", re.IGNORECASE
)
_DOI_SITES = frozenset({"doi.org", "dx.doi.org", "www.doi.org"})
_ARXIV = re.compile(r"\barxiv:\s{0,3}(\d{4}\.\d{4,5}(?:v\d{1,3})?)", re.IGNORECASE)
_BARE = re.compile(r"\b(?:https?|file)://[^\s<>\"`\[\]{}|\\^]{1,2000}", re.IGNORECASE)
_ENDS = ".,;:!?'*_…”’»"


@lru_cache(maxsize=4096)
def normalised_address(address: str) -> str:
    """Return an address in the one form by which sources are compared: two spellings of a page are one source.

    Host and scheme in lower case, no default port, fragment, tracking parameters or slash at the end; `.` and `..` and
    escapes resolved. A DOI is one whichever resolver is named.
    """
    from url_normalize import url_normalize

    text = address.strip()
    if not _WEB.match(text):
        return text
    try:
        parts = urlsplit(url_normalize(text) or text)
        host = parts.hostname or ""
    except ValueError:  # no address at all, such as one with a broken bracket
        return text
    if host in _DOI_SITES and parts.path.startswith("/10."):
        return _doi(unquote(parts.path[1:]))
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.match(pair[0])]
    # Parentheses are escaped inside of links and nowhere else: both spellings are one.
    path = parts.path.rstrip("/").replace("%28", "(").replace("%29", ")")
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(sorted(query)), ""))


def file_address(path: str) -> str:
    return f"file://{quote(os.path.normpath(path))}"


def address_of_file(ref: FileRef) -> str:
    path = PurePosixPath(ref.origin or f"/{ref.name}")
    return f"file://{quote(str(path))}" if path.is_absolute() else f"file:{quote(str(path))}"


def usable_address(source: str) -> str:
    """Return the normalised address of a source (address, path, DOI, preprint); "" for words that are none."""
    text = source.strip().strip("<>").strip()
    if _WEB.match(text):
        return "" if re.search(r"\s", text) else normalised_address(text)
    if text.lower().startswith("file:"):
        try:
            parts = urlsplit(text)
        except ValueError:
            return ""
        path = unquote(parts.path)
        return file_address(path) if parts.netloc.lower() in ("", "localhost") and path.startswith("/") else ""
    if text.startswith("/") and not text.startswith("//") and "\n" not in text:
        return file_address(text)
    for pattern, make in ((_DOI, _doi), (_ARXIV, _arxiv)):
        match = pattern.match(text)
        if match is not None and not text[match.end() :].strip(_ENDS):
            return make(match[1])
    return ""


def address_in(text: str) -> str:
    """Return the first address that stands in a description: of the web, a file, a DOI, a preprint; "" for none."""
    if (match := _BARE.search(text)) is not None:
        return usable_address(trim(match[0]))
    for pattern, make in ((_DOI, _doi), (_ARXIV, _arxiv)):
        if (match := pattern.search(text)) is not None:
            return make(trim(match[1]))
    return ""


def without_address(text: str) -> str:
    rest = text
    for pattern in (_BARE, _DOI, _ARXIV):
        rest = pattern.sub(" ", rest)
    return " ".join(rest.split()).strip(" .,;:-–—()[]<>")


def trim(address: str) -> str:
    """Return an address without the marks that end its sentence; a `)` belongs to it only where it was opened in it."""
    end = len(address)
    opens, closed = address.count("("), address.count(")")
    while end:
        last = address[end - 1]
        if last == ")" and closed > opens:
            closed -= 1
        elif last not in _ENDS:
            break
        end -= 1
    return address[:end]


def key_of(url: str, description: str) -> str:
    """Return what makes two references one: the address or, without one, the words in any spelling of letters."""
    if url:
        return usable_address(url) or url
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", description).casefold())
    return f"words:{' '.join(words)}"


def escape(address: str) -> str:
    return address.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace(">", "%3E")


def _doi(name: str) -> str:
    # Names are compared without regard to case (DOI Handbook, 2.4).
    return f"https://doi.org/{quote(trim(unquote(name)).lower(), safe='/:;()._-')}"


def _arxiv(number: str) -> str:
    return f"https://arxiv.org/abs/{number.lower()}"
