"""Addresses in arguments: what may name a place in the network, and when two of them are the same place."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from pydantic import JsonValue

URL = re.compile(r"\b(?:https?|ftp|file)://[^\s<>\"'`\\]+", re.IGNORECASE)
_PLAIN = re.compile(
    r"(?<![\w@:/.\\-])(?:(?=www\.)(?:[a-z0-9-]{1,63}\.){2,8}[a-z]{2,63}(?::\d+)?(?:[/?#][^\s<>\"'`\\]*)?"
    r"|(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}(?::\d+)?/[^\s<>\"'`\\]*)",
    re.IGNORECASE,
)
"""An address as people write it without a scheme: `www.site.org`, `site.org/page`."""

_TRAILING = ".,;:!?)]}'\""
_DOTS = str.maketrans("。．｡", "...")
_BARE_WORD = re.compile(r"[\w-]+")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\.?")
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*\s*:\s*)?[/\\]\s*[/\\]|[a-z][a-z0-9+.-]*:\s*[/\\]", re.IGNORECASE)
_SPACES = re.compile("[ \u00a0\u3000]")
"""What parts the words of a text; other white space stands in none that people write."""

_MAY_ADDRESS = re.compile(r"[\w\])]\.[\w\[]|[/\\@%=\[\]]|\?\w|:\d|localhost|^0x[0-9a-f]+$|^\d{4,}$", re.IGNORECASE)


def links_in(text: str) -> set[str]:
    """Return the addresses that stand verbatim in a text, as written and without the punctuation of a sentence."""
    return _written(URL, text)


def plain_links_in(text: str) -> set[str]:
    """Return the addresses without a scheme in a text, as `links_in` does."""
    return _written(_PLAIN, text)


def _written(pattern: re.Pattern[str], text: str) -> set[str]:
    found = set()
    for match in pattern.finditer(text):
        written = match.group()
        for plain in (written, written.rstrip(_TRAILING), _up_to_bracket(written)):
            found |= {plain, html.unescape(plain)}
    return found


def pages_named(text: str) -> list[str]:
    """Return the addresses of pages in a text, in order and each once, without the punctuation of a sentence."""
    written = [one.group() for one in URL.finditer(text) if one.group().lower().startswith("http")]
    return list(dict.fromkeys(_up_to_bracket(one).rstrip(_TRAILING.replace(")", "")) for one in written))


def links_within(value: JsonValue) -> set[str]:
    """Return the addresses in every text of a value, those without a scheme too."""
    found: set[str] = set()
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            found |= links_in(one) | plain_links_in(one)
        elif isinstance(one, dict):
            pending += one.values()
        elif isinstance(one, list):
            pending += one
    return found


def _up_to_bracket(written: str) -> str:
    """Return an address up to the bracket that closes what it stands in: `[words](https://site/name_(thing))`."""
    depth = 0
    for at, char in enumerate(written):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return written[:at]
    return written.rstrip(_TRAILING.replace(")", "")) if written.endswith(")") or "(" in written else written


def may_address(text: str) -> bool:
    """Return True if a value may name a place in the network by itself: link, host in any script, path, number.

    Words with spaces between them are what is searched for, unless a link is among them.
    """
    # Clients take control characters out of an address, line ends and tabs too: they part no words here.
    bare = "".join(char for char in text if unicodedata.category(char) not in ("Cc", "Cf")).strip()
    plain = unicodedata.normalize("NFKC", bare).translate(_DOTS)
    if "//" in plain or _SCHEME.match(plain):
        return True
    if _SPACES.search(bare):
        return False
    return _MAY_ADDRESS.search(re.sub(r"\s", "", plain)) is not None


def is_word(text: str) -> bool:
    """Return True if a value is one word, of which an address may be put together."""
    return _BARE_WORD.fullmatch(text.strip()) is not None


@lru_cache(maxsize=4096)
def canonical(address: str) -> tuple[str, str, int | None, str] | None:
    """Return (scheme, host, port, the rest as it is) of an address that is written without tricks, else None.

    The scheme is "" where the address has none. White space, control characters, backslashes, user names and hosts
    that are no plain ASCII names are read differently by different clients: such an address is like no other.
    """
    text = address.strip(" \t\r\n")
    if not text or re.search(r"[\s\\\x00-\x1f\x7f]", text):
        return None
    bare = "://" not in text
    try:
        parts = urlsplit(f"https://{text.removeprefix('//')}" if bare else text)
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme.lower(), (parts.hostname or "").rstrip(".")
    if "@" in parts.netloc or _HOST.fullmatch(host) is None:
        return None
    port = None if port == _PORTS.get(scheme) else port
    rest = (parts.path or "/") + (f"?{parts.query}" if "?" in text.partition("#")[0] else "")
    rest += f"#{parts.fragment}" if "#" in text else ""
    return ("" if bare else scheme), host, port, rest


def same_place(address: str, named: Iterable[str]) -> bool:
    """Return True if an address is one of those named; one named without a scheme is meant over HTTPS and HTTP."""
    wanted = canonical(address)
    for one in named:
        if address == one:
            return True
        known = canonical(one)
        if wanted is None or known is None:
            continue
        alike = wanted[0] == known[0] or (known[0] == "" and wanted[0] in ("https", "http")) or wanted[0] == ""
        if alike and wanted[1:] == known[1:]:
            return True
    return False


def place_of(address: str) -> tuple[str, int | None, str] | None:
    """Return (host, port, the rest) of an address that is read over HTTP, whichever scheme; None for others."""
    found = canonical(address)
    return found[1:] if found is not None and found[0] in ("", "http", "https") else None


def host_of(address: str) -> str | None:
    """Return the host of an address that is read over HTTP; None for others, and for one written with tricks."""
    found = canonical(address)
    return found[1] if found is not None and found[0] in ("", "http", "https") else None


def site_of(address: str) -> str | None:
    """Return `HOST` of an address read over HTTP, `HOST:PORT` where that is not the scheme's; None for others."""
    found = canonical(address)
    if found is None or found[0] not in ("", "http", "https"):
        return None
    _, host, port, _ = found
    return host if port is None else f"{host}:{port}"


def is_site_of(site: str, named: Iterable[str]) -> bool:
    """Return True if a site (`HOST`, `HOST:PORT`) is a named one, or lies below one: `en.site.org` of `site.org`."""
    wanted = site_of(site)
    if wanted is None:
        return False
    for one in named:
        known = site_of(one)
        if known is None:
            continue
        below = known.count(".") > 0 and not known.replace(".", "").replace(":", "").isdigit()
        if wanted == known or (below and wanted.endswith(f".{known}")):
            return True
    return False


@lru_cache(maxsize=16)
def named_addresses(texts: tuple[str, ...]) -> frozenset[str]:
    """Return what in the user's words may be an address: links, and pieces between white space, without punctuation."""
    found: set[str] = set()
    for text in texts:
        found |= links_in(text)
        for piece in re.split(r"[\s<>\"'`()\[\]{}«»“”„，。；、！]+", text):
            plain = piece.strip(".,;:!?")
            if plain and may_address(plain):
                found |= {plain, piece}
    return frozenset(found)
