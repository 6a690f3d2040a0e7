"""The boundary: which hosts and addresses a run's browser may reach, and the flags that let nothing past its proxy.

A page decides what its browser asks for: by redirects, frames, scripts, workers, sockets and names that lead elsewhere
a second later. So nothing is judged inside the browser: everything it sends goes through a proxy of this process
(`proxy.py`), which asks the `Boundary` here about each connection, and the flags close the ways that lead around it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import WebSettings
from agentorchestra.tools.web.addresses import WebAddress, allowed_places, parse_address, plain_host, shown_address
from agentorchestra.tools.web.http import WebClient, refuse_private
from agentorchestra.tools.web.resolver import Resolver

# Chromium itself is sent here with what belongs to no run: nothing listens at the port of `discard`.
NOWHERE = "http://127.0.0.1:9"
_FEATURES_OFF = (
    # Chromium reads the last list of features only, so Playwright's own are named here again (a test compares them).
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    *("TcpPortRandomizationWin", "ThirdPartyStoragePartitioning", "msEdgeUpdateLaunchServicesPreferredVersion"),
    "msForceBrowserSignIn",
    # Processes of each context that no page uses, some 30 MiB for every run: for the address bar, and in reserve.
    *("SpareRendererForSitePerProcess", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxPopup"),
    # Each form that a page shows would be described to Google, from the run's own context.
    "AutofillServerCommunication",
)

# For `launch(args=...)` of the browser that all runs share.
FLAGS: tuple[str, ...] = (
    # What belongs to no context has a proxy that is not there; contexts have one each. Loopback is no exception.
    f"--proxy-server={NOWHERE}",
    "--proxy-bypass-list=<-loopback>",
    # Names are looked up by the proxy only: nothing tells a name server what a page prefetches.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--dns-prefetch-disable",
    # UDP knows no proxy: none for WebRTC, none for QUIC and WebTransport. (`--force-webrtc-...` does nothing any more.)
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    # What Chromium sends by itself; Playwright turns off more (background networking, components, sync).
    f"--disable-features={','.join(_FEATURES_OFF)}",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-speech-api",
    "--no-pings",
)
MOST_VISITS = 1_000  # of a log; older ones are forgotten
_SHOWN_SCHEMES = frozenset({"http", "https"})


def block_reason(url: str) -> str:
    """Return why a page at this address shows nothing to an agent; "" for one that may be looked at."""
    scheme, colon, rest = url.partition(":")
    scheme = scheme.strip().lower()
    if not colon or scheme in (*_SHOWN_SCHEMES, "chrome-error"):
        return ""
    if scheme == "about" and rest.partition("#")[0].partition("?")[0] in ("blank", "srcdoc"):
        return ""
    if scheme == "blob" and rest.partition(":")[0] in _SHOWN_SCHEMES:  # made by a page that is itself allowed
        return ""
    return f"{shown_address(url)[:80]!r} has the scheme {scheme[:20]!r}; only http and https are shown"


@dataclass(frozen=True)
class Visit:
    """One connection that was asked for."""

    number: int  # counts from 1 in each log
    host: str  # a name or an IP address, as it was asked for
    port: int  # of it
    # `refused` by the rules here; `failed`: allowed, but nothing answers there
    verdict: Literal["allowed", "refused", "failed"]
    reason: str = ""  # in one sentence, "" where it was allowed


class Hosts:
    """A list of hosts as users write it; `setting` is its name for messages. A SettingsError for what is no host.

    `example.org`, `*.example.org` for all below it (not itself), an IP address; each for all ports, or with `:PORT`.
    """

    def __init__(self, patterns: Iterable[str], *, setting: str) -> None:
        self._check_lists = frozenset(_pattern(pattern, setting) for pattern in patterns)

    def __bool__(self) -> bool:
        return bool(self._check_lists)

    def hold(self, host: str, port: int) -> bool:
        """Return True if a host, in the form of `parse_address`, is in the list."""
        labels = host.split(".")
        names = [host, *("*." + ".".join(labels[at:]) for at in range(1, len(labels)))]
        return any((name, number) in self._check_lists for name in names for number in (port, 0))


def _pattern(pattern: str, setting: str) -> tuple[str, int]:
    text = pattern.strip()
    below = text.startswith("*.")
    host, port = text.removeprefix("*."), 0
    if match := re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):(\d{1,5})", host):
        host, port = match[1], int(match[2])
    try:
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        plain = plain_host(host, shown_address(pattern))
    except WebError:
        plain = ""
    if (
        not plain
        or port > 65_535
        or (port == 0 and text.endswith(":0"))
        or (below and WebAddress("http", plain, 80, "/").ip is not None)
    ):
        raise SettingsError(
            f"{setting} holds {pattern!r}, which is no host; write 'example.org', '*.example.org' for all below it, or "
            "an IP address, each with or without ':PORT'"
        )
    return ("*." if below else "") + plain, port


class Boundary:
    """Judges where one run's browser may connect to, and remembers what it said.

    Raises:
        SettingsError: a list or a setting holds what is no host, service or name server.
        MissingExtraError: name servers without the extra `reading`.
    """

    def __init__(
        self,
        settings: WebSettings | None = None,
        *,
        private: Iterable[str] | None = None,  # private `HOST:PORT` that are allowed; None for the settings'
        allow: Iterable[str] = (),  # hosts (`Hosts`); if there are any, all others are refused
        deny: Iterable[str] = (),  # refused, whatever else allows them; an IP address also where a name leads to it
        resolver: Resolver | None = None,  # of names; None for the settings' name servers, else the system's
        lists: str = "browser.allow",  # the setting that `allow` came from, for messages
    ) -> None:
        self._client = WebClient(settings, resolver=resolver)
        self._setting = "web.private" if private is None else "browser.private"
        try:
            self._private = allowed_places(self._client.settings.private if private is None else private)
        except WebError as error:
            raise SettingsError(f"{self._setting}: {error}") from None
        self._lists = lists
        self._allow = Hosts(allow, setting=lists)
        self._deny = Hosts(deny, setting="browser.deny")
        self.log: deque[Visit] = deque(maxlen=MOST_VISITS)  # the oldest first
        self.count = 0  # the number of the last visit

    def failures(self, since: int = 0) -> list[Visit]:
        """Return the visits after that number which were refused or failed, each place and reason once."""
        visits: dict[tuple[str, int, str], Visit] = {}
        for visit in self.log:
            if visit.number > since and visit.verdict != "allowed":
                visits.setdefault((visit.host, visit.port, visit.reason), visit)
        return list(visits.values())

    def note(self, host: str, port: int, verdict: Literal["allowed", "refused", "failed"], reason: str = "") -> None:
        self.count += 1
        self.log.append(Visit(self.count, host[:255], port, verdict, reason))

    async def judge(self, authority: str) -> tuple[WebAddress, list[str]]:
        """Return `HOST:PORT` in its one form and its judged IP addresses; a refusal is noted, and a WebError."""
        try:
            address = parse_address(f"http://{authority}/")
        except WebError as error:
            self.note(shown_address(authority)[:80], 0, "refused", str(error))
            raise
        try:
            self._check_lists(address, address.host)  # before anybody is asked for the name's addresses
            ips = await self._client.addresses(address, self._private, setting=self._setting)
            for ip in ips:
                self._check_lists(address, ip)
        except WebError as error:
            raise self._note_refusal(address, error) from None
        return address, ips

    def check_peer(self, address: WebAddress, ip: str) -> None:
        """Judge the other end of a connection once more; a refusal is written down and raised as a WebError."""
        if (address.host, address.port) in self._private:
            return
        try:
            refuse_private(ip, address, setting=self._setting)
        except WebError as error:
            raise self._note_refusal(address, error) from None

    def _note_refusal(self, address: WebAddress, error: WebError) -> WebError:
        """Write down what is not reached; the message names the place, as the scheme is not known here."""
        message = str(error).replace(shown_address(address.url), address.place, 1)
        self.note(address.host, address.port, "refused" if error.kind == "refused" else "failed", message)
        return WebError(message, kind=error.kind, url=address.place)

    def _check_lists(self, address: WebAddress, host: str) -> None:
        """Judge by the lists: a name, and of its addresses those that are denied."""
        reason = ""
        if self._deny.hold(host, address.port):
            reason = "browser.deny names it"
        elif host == address.host and self._allow and not self._allow.hold(host, address.port):
            reason = f"{self._lists} does not name it"
        if reason:
            raise WebError(f"{address.place} is not visited: {reason}", kind="refused", url=address.place)
