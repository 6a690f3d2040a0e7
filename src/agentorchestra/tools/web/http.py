"""The one client for everything that this process reads from the web.

`aiohttp` is underneath: it is in the base install, its sockets can be made by us, and its resolver is ours, so that the
address which was judged is the address that is connected to. Each request has a connection of its own: what was allowed
to one is not left open for the next, and nothing has to be closed.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import itertools
import re
import socket
import ssl
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from html import unescape
from json import dumps
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import WebSettings
from agentorchestra.tools.files.formats.charsets import codec_name
from agentorchestra.tools.web.addresses import (
    WebAddress,
    WebErrorKind,
    allowed_places,
    parse_address,
    private_reason,
    shown_address,
    web_error,
)
from agentorchestra.tools.web.bodies import ResponseBody, accepted_codings
from agentorchestra.tools.web.denied import DeniedPages
from agentorchestra.tools.web.resolver import Resolver, system_names

if TYPE_CHECKING:
    import aiohttp

_Lines = weakref.WeakValueDictionary[str, asyncio.Semaphore]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that go along when a redirect leads to another origin; keys do not
_KEPT_ELSEWHERE = frozenset({"accept", "accept-language", "user-agent"})
IDLE_S = 15.0  # without a byte, after which an answer is given up
MOST_REDIRECTS = 10  # that are followed
PER_HOST = 3  # requests that are under way at one host at the same time
RETRY_AFTER_S = 5.0  # that a host which asks to wait is waited for, once
_MAX_HEADER_CHARS = 16_384
# Comments, and what stands for browsers without JavaScript; a page that leads elsewhere within ten seconds
_INVISIBLE = re.compile(r"<!--.*?-->|<(script|noscript|template)\b.*?</\1", re.IGNORECASE | re.DOTALL)
_REFRESH = re.compile(
    r"<meta\s(?=[^>]*http-equiv\s*=\s*[\"']?refresh\b)[^>]*?content\s*=\s*[\"']?\s*\d(?:\.\d*)?\s*[;,]\s*"
    r"url\s*=\s*[\"']?([^\"'>\s]+)",
    re.IGNORECASE,
)
# Bytes that are read of one answer as they come over the wire, whatever they unpack to
_MOST_PACKED = 256 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """A site's answer, whatever its status."""

    url: str  # the address that answered, after redirects
    status: int  # of HTTP
    headers: Mapping[str, str]  # by name in lower case; several of one name are joined by ", "
    body: bytes  # the bytes, unpacked
    redirects: tuple[str, ...] = ()  # the addresses that led here, the first one asked for first; empty without any
    read_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    cut: bool = False  # whether there was more than was to be read (`cut=True`)
    truncation: str = ""  # why the body ends before its end, "" where it does not

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_downgraded(self) -> bool:
        """True if a redirect led from https to http: what came could have been written by anybody on the way."""
        hops = (*self.redirects, self.url)
        return any(a.startswith("https:") and b.startswith("http:") for a, b in itertools.pairwise(hops))

    @property
    def media_type(self) -> str:
        """The type that the server names, without parameters, in lower case; "" for none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str:
        """The charset the server declares, "" for none or one that is unknown here."""
        match = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", self.headers.get("content-type", ""), re.IGNORECASE)
        return codec_name(match[1]) if match else ""

    @property
    def retry_after_s(self) -> float | None:
        """The seconds after which the site wants to be asked again, None where it does not say."""
        after = self.headers.get("retry-after", "").strip()
        try:
            if re.fullmatch(r"\d{1,9}", after):
                return float(after)
            return (parsedate_to_datetime(after) - datetime.datetime.now(datetime.UTC)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None

    @property
    def text(self) -> str:
        """The body as text, in the charset that it is in; of what is no text, all that is UTF-8."""
        from agentorchestra.tools.files.formats.base import Refused
        from agentorchestra.tools.files.formats.text import decoded

        try:
            return decoded(self.body, self.charset).text
        except Refused:
            return self.body.decode("utf-8", "replace")


class WebClient:
    """Asks sites for something; refuses what is not on the public network, on every hop.

    It reads no page of `web.deny`, keeps no cookies, no connection and no credentials, takes no proxy from the
    environment, and can be used from several event loops. SettingsError for settings that name no service, page or
    file.
    """

    def __init__(self, settings: WebSettings | None = None, *, resolver: Resolver | None = None) -> None:
        self.settings = settings or WebSettings()
        try:
            self._private = allowed_places(self.settings.private)
        except WebError as error:
            raise SettingsError(f"web.private: {error}") from None
        self.denied = DeniedPages(self.settings.deny)
        self._resolver = resolver or system_names
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Lines] = weakref.WeakKeyDictionary()

    async def get(self, url: str, **options: Any) -> Answer:
        """Do `request("GET", url, ...)`."""
        return await self.request("GET", url, **options)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | None = None,
        allowed: Iterable[str] = (),
        max_bytes: int | None = None,
        timeout_s: float | None = None,
        cut: bool | Literal["text"] = False,
        retry: bool = True,
        before: Callable[[WebAddress], Awaitable[None]] | None = None,
        refresh: bool = False,
    ) -> Answer:
        """Ask for an address. Any status is an answer; WebError if the address is refused or nobody answers.

        `headers` go along to another origin only where they say how the answer is to look. `allowed` are private
        services that may be reached besides the settings', `HOST:PORT` or an address each: the user's. `max_bytes`
        (unpacked) and `timeout_s` (for all of it) are the settings' by default; with `cut` the beginning of a larger
        answer is kept, with `"text"` only of one whose type is text: a part of anything else is of no use; so is what
        came of one that breaks off or is too slow. `retry` waits once where the site asks a read for it (429, 503 with
        Retry-After). `before` is asked before each hop, and raises to stop. `refresh` follows pages that lead on.
        """
        body = data
        fields = {name.lower(): value for name, value in (headers or {}).items()}
        if json is not None:
            body = dumps(json).encode()
            fields.setdefault("content-type", "application/json")
        limit = timeout_s if timeout_s is not None else self.settings.timeout_s
        loop = asyncio.get_running_loop()
        started = loop.time()
        job = _Job(
            client=self,
            method=method.upper(),
            headers=fields,
            body=body,
            private=self._private | allowed_places(allowed),
            max_bytes=max_bytes if max_bytes is not None else int(self.settings.max_mib * 1024 * 1024),
            cut=cut,
            before=before,
            refresh=refresh,
            until=started + 0.9 * limit,
        )
        address = parse_address(url)
        try:
            async with asyncio.timeout(limit):
                answer = await job.follow(address)
                wait = answer.retry_after_s if answer.status in (429, 503) and job.method in ("GET", "HEAD") else None
                most = min(RETRY_AFTER_S, limit - (loop.time() - started))
                if retry and wait is not None and 0 <= wait <= most:
                    await asyncio.sleep(wait)
                    answer = await job.follow(address)
        except TimeoutError:
            reason = f"was not read within {limit:g} s; try it later, or read another page"
            raise web_error(address.url, reason, "timeout") from None
        return answer

    def line(self, host: str) -> asyncio.Semaphore:
        """Return the line at a host's door, in this event loop; it lasts as long as somebody stands in it."""
        lines = self._lines.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
        semaphore = lines.get(host)
        if semaphore is None:
            semaphore = lines[host] = asyncio.Semaphore(PER_HOST)
        return semaphore

    async def addresses(
        self, address: WebAddress, private: frozenset[tuple[str, int]], *, setting: str = "web.private"
    ) -> list[str]:
        """Return the IP addresses of a host; WebError for none, or one that is neither public nor in `private`."""
        reason = ""
        try:
            ips = [address.host] if address.ip is not None else list(await self._resolver(address.host))
        except (OSError, UnicodeError) as error:
            ips, reason = [], f" ({getattr(error, 'strerror', None) or error})"
        if not ips:
            reason = f"cannot be read: the host {address.host} has no address{reason}; check its name"
            raise web_error(address.url, reason, "unreachable")
        if (address.host, address.port) not in private:
            for ip in ips:
                refuse_private(ip, address, setting=setting)
        return ips

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The context that certificates are checked with; SettingsError where `ca_file` cannot be read."""
        context = ssl.create_default_context()
        if self.settings.ca_file:
            try:
                context.load_verify_locations(self.settings.ca_file)
            except OSError as error:
                raise SettingsError(f"web.ca_file: {self.settings.ca_file} cannot be read ({error})") from None
        return context

    @cached_property
    def codings(self) -> str:
        return accepted_codings()


def refuse_private(ip: str, address: WebAddress, *, setting: str = "web.private") -> None:
    try:
        reason = private_reason(ipaddress.ip_address(ip))
    except ValueError:
        reason = "no IP address"
    if reason:
        location = "" if ip == address.host else f", the host {address.host} is at {ip}"
        reason = (
            f"is not read: it leads to an address that is not on the public network ({reason}{location}); a service of "
            f"your own is allowed by the setting {setting} = [{address.place!r}]"
        )
        raise web_error(address.url, reason, "refused")


@dataclass
class _Job:
    client: WebClient
    method: str
    headers: dict[str, str]
    body: bytes | None
    private: frozenset[tuple[str, int]]
    max_bytes: int
    cut: bool | Literal["text"]
    before: Callable[[WebAddress], Awaitable[None]] | None
    refresh: bool = False
    until: float | None = None  # (the loop's clock) when a body has to be here; what came is then given

    async def follow(self, address: WebAddress) -> Answer:
        """Return the answer at the end of the redirects."""
        hops: list[WebAddress] = []
        method, headers, body = self.method, dict(self.headers), self.body
        public = False
        while True:
            hops.append(address)
            private = (address.host, address.port) in self.private
            if public and private:
                raise _hop_error(hops, "leads from a public site to a private service; name that one yourself")
            public = public or not private
            try:
                self.client.denied.refuse(address.url)
                if self.before is not None:
                    await self.before(address)
                answer, target = await self._ask(address, method, headers, body, hops)
            except WebError as error:
                if len(hops) == 1:
                    raise
                raise _hop_error(hops, f"redirects: {error}", error.kind) from None
            if target is None and self.refresh and answer.ok and (location := refresh_of(answer)):
                target = self._target(address, location, hops)
                target = None if target in hops else target  # it is read again and again, or asks for a cookie
            if target is None:
                return answer
            if len(hops) > MOST_REDIRECTS:
                raise _hop_error(hops, f"redirects more than {MOST_REDIRECTS} times", "bad_answer")
            if any(target == hop for hop in hops) and method in ("GET", "HEAD"):
                raise _hop_error(hops, f"redirects in a circle, by {shown_address(target.url)}", "bad_answer")
            if (answer.status == 303 and method != "HEAD") or (answer.status in (301, 302) and method == "POST"):
                method, body = "GET", None
                headers = {name: value for name, value in headers.items() if not name.startswith("content-")}
            if target.origin != address.origin:
                if body is not None:
                    raise _hop_error(hops, f"would send what was posted on to {shown_address(target.url)}")
                headers = {name: value for name, value in headers.items() if name in _KEPT_ELSEWHERE}
            address = target

    async def _ask(
        self, address: WebAddress, method: str, headers: Mapping[str, str], body: bytes | None, hops: list[WebAddress]
    ) -> tuple[Answer, WebAddress | None]:
        import aiohttp
        from yarl import URL

        ips = await self.client.addresses(address, self.private)
        settings = self.client.settings
        fields = {"accept": "*/*", "user-agent": settings.user_agent, "accept-encoding": self.client.codings, **headers}
        tls = self.client.tls if address.scheme == "https" else True
        async with self.client.line(address.host):
            connector = aiohttp.TCPConnector(
                resolver=_resolver_of(ips),
                use_dns_cache=False,
                force_close=True,
                ssl=tls,
                socket_factory=self._socket_for(address),
            )
            try:
                async with (
                    aiohttp.ClientSession(
                        connector=connector,
                        cookie_jar=aiohttp.DummyCookieJar(),
                        trust_env=False,
                        auto_decompress=False,
                        timeout=aiohttp.ClientTimeout(total=None, sock_connect=IDLE_S, sock_read=IDLE_S, connect=None),
                        max_line_size=_MAX_HEADER_CHARS,
                        max_field_size=_MAX_HEADER_CHARS,
                        max_headers=128,
                    ) as session,
                    session.request(
                        method, URL(address.url, encoded=True), headers=fields, data=body, allow_redirects=False
                    ) as response,
                ):
                    return await self._answer(address, method, response, hops)
            except aiohttp.ClientConnectorCertificateError as error:
                inner = error.certificate_error
                detail = str(getattr(inner, "verify_message", "") or inner)[:200]
                reason = f"is not read: its certificate is not valid ({detail}); read another source"
                raise web_error(address.url, reason, "unreachable") from None
            except aiohttp.ServerTimeoutError:
                reason = f"fell silent for {IDLE_S:g} s; try it later, or read another page"
                raise web_error(address.url, reason, "timeout") from None
            except aiohttp.ClientConnectionError as error:
                reason = f"cannot be reached ({_words(error)}); try it later, or read another page"
                raise web_error(address.url, reason, "unreachable") from None
            except aiohttp.ClientPayloadError:
                reason = "broke off in the middle of its answer; try it later, or read another page"
                raise web_error(address.url, reason, "bad_answer") from None
            except (aiohttp.ClientError, ValueError) as error:
                reason = f"answered with something that is no proper HTTP ({_words(error)}); read another page"
                raise web_error(address.url, reason, "bad_answer") from None

    async def _answer(
        self, address: WebAddress, method: str, response: aiohttp.ClientResponse, hops: list[WebAddress]
    ) -> tuple[Answer, WebAddress | None]:
        """Return the answer with its body; of a redirect, where it leads."""
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        redirects = tuple(hop.url for hop in hops[:-1])
        if response.status in _REDIRECTS and headers.get("location", "").strip():
            target = self._target(address, headers["location"], hops)
            return Answer(address.url, response.status, headers, b"", redirects), target
        body, cut, truncation = b"", False, ""
        if method != "HEAD" and response.status not in (204, 304):
            body, cut, truncation = await self._body(address, response)
        return Answer(address.url, response.status, headers, body, redirects, cut=cut, truncation=truncation), None

    async def _body(self, address: WebAddress, response: aiohttp.ClientResponse) -> tuple[bytes, bool, str]:
        """Return the bytes, whether there are more than were to be read, and why they end before their end."""
        import aiohttp

        most = f"{self.max_bytes / 2**20:.0f} MiB" if self.max_bytes >= 2**20 else f"{self.max_bytes:,} bytes"
        reason = (
            f"is larger than {most}, the most that is read of one address; look for a smaller page, or for a part of it"
        )
        too_large = web_error(address.url, reason, "too_large", response.status)
        body = ResponseBody(response.headers.get("content-encoding", ""), self.max_bytes, address.url)
        cut = self.cut is True or (self.cut == "text" and _is_text(response.content_type))
        limit = _MOST_PACKED if response.headers.get("content-encoding") else self.max_bytes
        if (response.content_length or 0) > limit and not cut:
            raise too_large
        size, truncation = 0, ""
        try:
            async with asyncio.timeout_at(self.until if cut else None):
                async for chunk in response.content.iter_chunked(64 * 1024):
                    size += len(chunk)
                    if not body.take(chunk) or size > _MOST_PACKED:
                        if not cut:
                            raise too_large
                        return body.data, True, ""
        except (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, TimeoutError) as error:
            response.content.set_exception(None)  # type: ignore[arg-type]  # it holds back what came before the break
            if not (cut and body.take(response.content.read_nowait()) and body.data):
                raise
            truncation = "it came too slowly" if isinstance(error, TimeoutError) else "the site broke off"
        if not (body.complete or truncation or (cut and body.data)):
            reason = "sent an answer that breaks off inside what is compressed; try it later"
            raise web_error(address.url, reason, "bad_answer", response.status)
        return body.data, False, truncation if body.complete else truncation or "the site broke off"

    def _target(self, address: WebAddress, location: str, hops: list[WebAddress]) -> WebAddress:
        # A header is bytes; sites write other characters into it in UTF-8.
        text = location.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip(" \t")
        try:
            return parse_address(urljoin(address.url, text))
        except (WebError, ValueError) as error:
            raise _hop_error(hops, f"redirects to an address that is not read: {error}") from None

    def _socket_for(self, address: WebAddress) -> Any:
        """Return the maker of a connection's sockets: the last look at where it leads, whoever resolved the name."""
        allowed = (address.host, address.port) in self.private

        def make(info: Any) -> socket.socket:
            family, kind, protocol, _, sockaddr = info
            if not allowed:
                refuse_private(str(sockaddr[0]), address)
            return socket.socket(family=family, type=kind, proto=protocol)

        return make


def refresh_of(answer: Answer) -> str:
    """Return where a page leads by its own `<meta http-equiv="refresh">` in a few seconds, "" for none."""
    if answer.media_type not in ("text/html", "application/xhtml+xml"):
        return ""
    match = _REFRESH.search(_INVISIBLE.sub(" ", answer.body[:65_536].decode("utf-8", "replace")))
    return unescape(match[1]) if match else ""


def _is_text(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type.endswith(("json", "xml"))


def _hop_error(hops: list[WebAddress], reason: str, kind: WebErrorKind = "refused") -> WebError:
    return web_error(hops[0].url, reason, kind)


def _resolver_of(ips: list[str]) -> Any:
    """Return a resolver that knows these addresses only: those that were judged."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Known(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=ip,
                    port=port,
                    family=socket.AF_INET6 if ":" in ip else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for ip in ips
            ]

        async def close(self) -> None:
            """Do nothing."""

    return Known()


def _words(error: Exception) -> str:
    cause = getattr(error, "os_error", None)
    text = " ".join(str(getattr(cause, "strerror", None) or cause or error).split())
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain[:200] or type(error).__name__
