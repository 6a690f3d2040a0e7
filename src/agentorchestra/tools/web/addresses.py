"""Addresses on the web: one spelling of each, and which of them may be connected to.

Whoever reads an address that a page or a model wrote must not be led into this machine, its network, or the service
that gives a cloud machine its credentials. An address is therefore brought into one form first (what is written with
tricks is refused), and every resolved IP address is judged as the address it ends up at.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urlsplit

from agentorchestra.core.errors import WebError

MOST_CHARS = 8_000  # of one address
_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_SAFE = "!#$%&'()*+,/:;=?@[]~-._"

WebErrorKind = Literal["refused", "unreachable", "timeout", "too_large", "bad_answer"]
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_PRIVATE_NETS = [
    (ipaddress.ip_network(net), kind)
    for kind, nets in {
        "unspecified": "0.0.0.0/8 ::/128",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
        "shared by a provider's customers": "100.64.0.0/10",
        "loopback": "127.0.0.0/8 ::1/128",
        "a cloud's own service": "168.63.129.16/32",
        "link-local, where clouds give out credentials": "169.254.0.0/16",
        "link-local": "fe80::/10",
        "reserved": "192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.175.48.0/24 "
        "198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 2001::/23 2001:db8::/32 2620:4f:8000::/48 3fff::/20",
        "multicast": "224.0.0.0/4 ff00::/8",
    }.items()
    for net in nets.split()
]
_V6_GLOBAL = ipaddress.IPv6Network("2000::/3")
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")


@dataclass(frozen=True)
class WebAddress:
    """An address in the one form in which it is asked for."""

    scheme: str  # `http` or `https`
    host: str  # a name in lower case and in ASCII (IDNA), or an IP address in its usual form, without brackets
    port: int  # the port, always given
    path: str  # path and query, percent-encoded; at least `/`
    fragment: str = ""  # what stood behind `#`, which no server sees

    @property
    def url(self) -> str:
        """The address without its fragment."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{_url_host(self.host)}{port}{self.path}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def place(self) -> str:
        """`HOST:PORT`, the form in which private services are allowed."""
        return f"{_url_host(self.host)}:{self.port}"

    @property
    def ip(self) -> IPAddress | None:
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None


def parse_address(url: str) -> WebAddress:
    """Return an absolute `http` or `https` address in its one form; WebError (`refused`) for tricks, or for none."""
    text = url.strip(" \t\r\n")
    label = shown_address(text)
    if not text:
        raise WebError("the address is empty; give one such as https://example.org/page", kind="refused", url="")
    if len(text) > MOST_CHARS:
        raise _refusal(label, f"is longer than {MOST_CHARS:,} characters")
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text):
        raise _refusal(label, "holds control or invisible characters")
    if "\\" in text:
        raise _refusal(label, "holds a backslash, which clients read differently")
    scheme, colon, _ = text.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) or not text[len(scheme) :].startswith("://"):
        raise _refusal(label, "is no absolute address; give one such as https://example.org/page", way_out="")
    if scheme.lower() not in _PORTS:
        raise _refusal(label, f"has the scheme {scheme.lower()!r}; only http and https are read", way_out="")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refusal(label, f"is malformed ({error})") from None
    if "@" in parts.netloc:
        raise _refusal(label, "holds a user name before the host")
    if port == 0:
        raise _refusal(label, "has the port 0")
    host = plain_host(parts.netloc, label)
    scheme = scheme.lower()
    path = _quote(parts.path or "/") + (f"?{_quote(parts.query)}" if parts.query else "")
    return WebAddress(scheme, host, port or _PORTS[scheme], path, parts.fragment)


def plain_host(netloc: str, label: str) -> str:
    """Return the host of an authority (`host:port`) in its one form; WebError where it is written with tricks."""
    if netloc.startswith("["):
        raw_host, _, rest = netloc[1:].partition("]")
        if rest and not re.fullmatch(r":[0-9]*", rest):
            raise _refusal(label, "has a host that is none")
        if "%" in raw_host:
            raise _refusal(label, "names a network interface of this machine in its host")
        try:
            return str(ipaddress.IPv6Address(raw_host))
        except ValueError:
            raise _refusal(label, "has a host in brackets that is no IPv6 address") from None
    raw_host = netloc.partition(":")[0]
    if "%" in raw_host:
        raise _refusal(label, "has a percent sign in its host")
    host = _ascii(raw_host, label)
    if not host:
        raise _refusal(label, "has no host")
    last = host.rpartition(".")[2]
    if _NUMBER.fullmatch(last):  # what every client reads as an IPv4 address, whatever else stands there
        try:
            plain = str(ipaddress.IPv4Address(host))
        except ValueError:
            plain = ""
        if plain != raw_host.rstrip("."):
            raise _refusal(label, "writes an IP address in an unusual way")
        return plain
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise _refusal(label, f"has the host {host[:80]!r}, which no site can have")
    return host


def _ascii(raw_host: str, label: str) -> str:
    """Return a host in lower case and ASCII, without the dot at its end."""
    host = raw_host
    if not host.isascii():
        import idna

        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            raise _refusal(label, "has a host with characters that no site's name can have") from None
    return host.lower().removesuffix(".")


def _quote(text: str) -> str:
    return quote(text, safe=_SAFE)


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def shown_address(url: str) -> str:
    """Return an address for a message: short, without what changes a terminal and without a password."""
    plain = "".join(char if char.isprintable() else "?" for char in url)
    plain = re.sub(r"(?<=://)[^/@\s]*@", "...@", plain)
    return plain if len(plain) <= 200 else f"{plain[:200]}..."


def web_error(url: str, reason: str, kind: WebErrorKind, status: int = 0) -> WebError:
    """Return an error whose sentence begins with the address."""
    label = shown_address(url)
    return WebError(f"{label} {reason}", kind=kind, url=label, status=status)


def _refusal(label: str, reason: str, *, way_out: str = "; give the address as a browser shows it") -> WebError:
    return WebError(f"{label!r} {reason}{way_out}", kind="refused", url=label)


def ends_at(ip: IPAddress) -> IPAddress:
    """Return the address at which packets to this one end: what IPv6 wraps an IPv4 address in is taken off."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if (inside := ip.ipv4_mapped or ip.sixtofour) is not None:
        return inside
    # ISATAP, and translated (RFC 2765)
    has_mark = ip.packed[8:12] in (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe", b"\x00\x00\xff\xff")
    if has_mark or any(ip in net for net in _NAT64) or (ip in _COMPATIBLE and int(ip) > 1):
        return ipaddress.IPv4Address(ip.packed[12:])
    return ip


def private_reason(ip: IPAddress) -> str:
    """Return why an address is not on the public network, "" where it is.

    By networks that are listed here: the standard library's opinion has changed between the Python versions supported.
    """
    if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id:
        return "link-local"
    ending = ends_at(ip)
    is_public = ending.version == 4 or ending in _V6_GLOBAL
    return next((kind for net, kind in _PRIVATE_NETS if ending in net), "" if is_public else "reserved")


def allowed_places(places: Iterable[str]) -> frozenset[tuple[str, int]]:
    """Return (host, port) of private services, written as `HOST:PORT` or an address; WebError for one that is none."""
    services = set()
    for place in places:
        if "://" in place:
            address = parse_address(place)
        elif re.search(r":\d+$", place):
            address = parse_address(f"http://{place}")
        else:
            raise WebError(
                f"{place!r} names no private service; write HOST:PORT, e.g. '127.0.0.1:8080'", kind="refused", url=place
            )
        services.add((address.host, address.port))
    return frozenset(services)
