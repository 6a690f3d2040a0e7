"""The proxy by itself: what browsers never say to it, sites that answer with something else, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.support.patience import LONGEST_S, growing

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import WebSettings
from agentorchestra.environments.browser.session import proxy as module
from agentorchestra.environments.browser.session.boundary import MOST_VISITS, Boundary, Hosts
from agentorchestra.environments.browser.session.proxy import BoundaryProxy
from agentorchestra.environments.browser.session.tabs import Tab
from agentorchestra.tools.web.addresses import parse_address

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def behind(serve: Serve) -> AsyncIterator[tuple[BoundaryProxy, int]]:
    """A proxy, and the port of a site that is allowed."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        boundary = Boundary(WebSettings(private=(f"127.0.0.1:{port}",)))
        async with BoundaryProxy(boundary) as proxy:
            yield proxy, port
    finally:
        server.close()
        await server.wait_closed()


async def said(proxy: BoundaryProxy, *pieces: bytes) -> bytes:
    """What the proxy answers, to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(LONGEST_S):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


class Site:
    """Answers always the same, and keeps what it was asked."""

    def __init__(self, answer: bytes = OK) -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        if "chunked" in head:
            self.bodies.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(self.answer)
        await writer.drain()


async def test_a_request_is_said_again_in_words_of_its_own() -> None:
    """One host, one length, one request, nothing that was meant for the proxy."""
    site = Site()
    async with behind(site) as (proxy, port):
        answer = await said(
            proxy,
            f"GET http://127.0.0.1:{port}/a?b#c HTTP/1.1\r\nHost: internal.corp\r\nX-Drop: 1\r\nX-Kept: 2\r\n".encode()
            + b"Proxy-Authorization: Basic eDp5\r\nConnection: X-Drop\r\nUpgrade: h2c\r\n\r\n"
            + f"GET http://127.0.0.1:{port}/second HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
        )
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"ok")
        assert answer.lower().count(b"connection: close") == 1
        assert len(site.heads) == 1, "a second request came through the same connection"
        lines = site.heads[0].split("\r\n")
        assert lines[0] == "GET /a?b HTTP/1.1"
        assert sorted(lines[1:-2]) == ["Connection: close", f"Host: 127.0.0.1:{port}", "X-Kept: 2"]


async def test_a_body_in_chunks_is_passed_on_as_it_was_understood() -> None:
    site = Site()
    async with behind(site) as (proxy, port):
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        assert (await said(proxy, head, b"3;x=y\r\nabc\r\n", b"0\r\n\r\n")).endswith(b"ok")
        assert site.bodies == [b"3\r\nabc\r\n0\r\n\r\n"]


async def test_what_two_readers_could_understand_differently_is_refused() -> None:
    site = Site()
    async with behind(site) as (proxy, port):
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n"
        for bad in (
            head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            head + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            head + "Content-Length : 3\r\n\r\nabc",
            head + "Content-Length: +3\r\n\r\nabc",
            head + "X: a\nb: c\r\nno colon\r\n\r\n",
            f"GET http://127.0.0.1:{port}/ HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET ws://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            "CONNECT 127.0.0.1 HTTP/1.1\r\nHost: x\r\n\r\n",
            "\x16\x03\x01\x02\x00\x01",
        ):
            answer = await said(proxy, bad.encode("latin-1"))
            assert b" 400 " in answer.partition(b"\r\n")[0] or b" 501 " in answer.partition(b"\r\n")[0], (bad, answer)
        assert site.heads == []


@pytest.mark.parametrize(
    "authority",
    [
        "localhost:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "0x7f000001:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "0.0.0.0:{port}",
        "user@127.0.0.1:{port}",
        "127.0.0.1:{port}@example.org:80",
        "%31%32%37.0.0.1:{port}",
        "127.0.0.1:0",
        "127.0.0.1:99999",
    ],
)
async def test_no_spelling_of_a_host_leads_around_the_judgement(authority: str) -> None:
    site = Site()
    async with behind(site) as (proxy, port):
        where = authority.format(port=port)
        for request in (f"CONNECT {where}", f"GET http://{where}/"):
            answer = await said(proxy, f"{request} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b" 403 Refused" in answer.partition(b"\r\n")[0]
        assert site.heads == []
        assert {one.verdict for one in proxy.boundary.log} == {"refused"}


async def test_the_proxy_does_not_lead_to_itself() -> None:
    async with behind(Site()) as (proxy, _), BoundaryProxy(Boundary()) as other:
        allowed = Boundary(WebSettings(private=(f"127.0.0.1:{proxy.port}",)))
        proxy.boundary = allowed
        answer = await said(proxy, f"CONNECT 127.0.0.1:{proxy.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"it is the browser's own proxy" in answer
        answer = await said(other, f"CONNECT 127.0.0.1:{proxy.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"not on the public network" in answer


async def test_sites_that_answer_with_something_else_end_in_a_sentence() -> None:
    for answer, expected in (
        (b"SSH-2.0-OpenSSH_9.2\r\n", b"the site gave no proper answer"),
        (b"", b"the site gave no proper answer"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", b"the site gave no proper answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"the site gave no proper answer"),
    ):
        async with behind(Site(answer)) as (proxy, port):
            got = await said(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert got.startswith(b"HTTP/1.1 502 Not reached\r\n"), got[:100]
            assert expected in got


async def test_a_site_cannot_speak_as_a_proxy() -> None:
    """407 would have the browser send what it knows of its proxy."""
    bad = b"HTTP/1.1 407 Proxy\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
    async with behind(Site(bad)) as (proxy, port):
        got = await said(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 502 ") and b"roxy-" not in got.partition(b"\r\n\r\n")[0]


async def test_an_answer_may_come_before_the_body_was_taken() -> None:
    async with behind(Site(b"HTTP/1.1 413 Large\r\nContent-Length: 4\r\n\r\nmuch")) as (proxy, port):
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n".encode()
        got = await said(proxy, head, b"x" * 100_000)
        assert got.startswith(b"HTTP/1.1 413 ") and got.endswith(b"much")


async def test_clients_that_are_slow_or_many_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CONNECTIONS", 20)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with behind(silent) as (proxy, port):
        for seconds in growing(0.2):
            monkeypatch.setattr(module, "_HEAD_S", seconds)
            monkeypatch.setattr(module, "_IDLE_S", seconds)
            assert await said(proxy, b"GET http://127.0.0.1") == b""
            assert await said(proxy, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()) == b""
            tunnel = await said(proxy, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), b"hello")
            if tunnel:
                break
        assert tunnel == b"HTTP/1.1 200 Connection established\r\n\r\n"
        monkeypatch.setattr(module, "_HEAD_S", 60)
        many = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(30)]
        ended = [asyncio.ensure_future(reader.read()) for reader, _ in many]
        while sum(one.done() for one in ended) < 10:
            await asyncio.wait([one for one in ended if not one.done()], return_when=asyncio.FIRST_COMPLETED)
        assert "more than 20 connections" in proxy.boundary.log[-1].reason
        for _, writer in many:
            writer.close()
        await asyncio.gather(*ended, return_exceptions=True)


async def test_a_head_without_an_end_is_not_kept() -> None:
    async with behind(Site()) as (proxy, _):
        got = await said(proxy, b"GET http://127.0.0.1/ HTTP/1.1\r\n", *([b"X: " + b"a" * 1000 + b"\r\n"] * 400))
        assert b" 400 " in got.partition(b"\r\n")[0] or got == b""


async def test_nothing_is_open_after_close() -> None:
    before = asyncio.all_tasks()
    held = asyncio.Event()

    async def holds(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await reader.read()
        held.set()

    async with behind(holds) as (proxy, port):
        tunnel = await asyncio.open_connection("127.0.0.1", proxy.port)
        tunnel[1].write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await tunnel[0].readuntil(b"some")
        idle = await asyncio.open_connection("127.0.0.1", proxy.port)
        await proxy.close()
        await proxy.close()
        assert await tunnel[0].read() == b""
        assert await idle[0].read() == b""
        async with asyncio.timeout(LONGEST_S):
            await held.wait()  # the site's side is closed too
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        for _, writer in (tunnel, idle):
            writer.close()
    assert {one for one in asyncio.all_tasks() - before if "proxy.py" in repr(one)} == set()


async def test_the_log_is_bounded_and_says_each_refusal_once() -> None:
    boundary = Boundary()
    for number in range(MOST_VISITS + 5):
        boundary.note("a.test", number % 3, "refused", "why")
    assert len(boundary.log) == MOST_VISITS
    assert boundary.count == MOST_VISITS + 5
    assert len(boundary.failures()) == 3
    assert [one.number for one in boundary.failures(MOST_VISITS + 4)] == [MOST_VISITS + 5]


async def test_lists_are_judged_before_names_are_looked_up() -> None:
    asked: list[str] = []

    async def names(host: str) -> list[str]:
        asked.append(host)
        return ["93.184.216.34"]

    closed = Boundary(allow=("example.org", "*.example.org"), deny=("bad.example.org", "93.184.216.35"), resolver=names)
    for authority, why in (
        ("secret-data.evil.example:80", "browser.allow does not name it"),
        ("example.org.evil.example:80", "browser.allow does not name it"),
        ("notexample.org:80", "browser.allow does not name it"),
        ("bad.example.org:443", "browser.deny names it"),
    ):
        with pytest.raises(Exception, match=why):
            await closed.judge(authority)
    assert asked == []
    for authority in ("example.org:443", "EXAMPLE.org.:80", "www.example.org:8443"):
        _, found = await closed.judge(authority)
        assert found == ["93.184.216.34"]
    by_address = Boundary(deny=("93.184.216.34",), resolver=names)
    with pytest.raises(Exception, match=r"browser\.deny names it"):
        await by_address.judge("any.name.example:80")


def test_lists_of_hosts() -> None:
    listed = Hosts(
        ["example.org", "*.corp.test:8443", "10.0.0.1", "[::1]:80", "Bücher.example"], setting="browser.deny"
    )
    assert listed.hold("example.org", 1) and not listed.hold("www.example.org", 1)
    assert listed.hold("a.b.corp.test", 8443) and not listed.hold("a.corp.test", 443)
    assert not listed.hold("corp.test", 8443)
    assert listed.hold("10.0.0.1", 80) and listed.hold("::1", 80) and not listed.hold("::1", 81)
    assert listed.hold("xn--bcher-kva.example", 443)
    for bad in ("", "*", "*.", "http://example.org", "a b", "*.10.0.0.1", "example.org:0", "example.org:70000", "a/*"):
        with pytest.raises(SettingsError, match=r"browser\.deny holds .* which is no host; write 'example\.org'"):
            Hosts([bad], setting="browser.deny")


async def test_refusals_name_the_setting_that_counts() -> None:
    for boundary, setting in ((Boundary(), "web.private"), (Boundary(private=()), "browser.private")):
        with pytest.raises(WebError) as refused:
            await boundary.judge("127.0.0.1:8080")
        assert str(refused.value) == boundary.log[0].reason
        assert str(refused.value) == (
            "127.0.0.1:8080 is not read: it leads to an address that is not on the public network (loopback); a "
            f"service of your own is allowed by the setting {setting} = ['127.0.0.1:8080']"
        )
        address = parse_address("http://example.org/")
        boundary.check_peer(address, "93.184.216.34")
        with pytest.raises(WebError, match=r"the host example\.org is at 10\.0\.0\.1"):
            boundary.check_peer(address, "10.0.0.1")
    with pytest.raises(SettingsError, match=r"browser\.private: 'localhost' names no private service"):
        Boundary(private=("localhost",))


class _Frame:
    def __init__(self, url: str) -> None:
        self.url = url


class _Page(_Frame):
    frames: tuple[_Frame, ...] = ()
    main_frame = None


def test_what_was_in_a_tab_a_moment_ago_is_a_source_once_more() -> None:
    """A page may go to another site and back while somebody looks."""
    page = _Page("http://news.test/page")
    page.frames = (page, _Frame("about:srcdoc"), _Frame("https://frame.test:8443/x"))
    tab = Tab(1, page=page)  # type: ignore[arg-type]
    for url in ("http://bank.test/account", "http://news.test/page", "about:blank", "data:text/html,x"):
        tab._on_navigation(_Frame(url))
    assert tab.sources() == ["http://news.test/page", "bank.test", "frame.test:8443"]
    assert tab.sources() == ["http://news.test/page", "frame.test:8443"]
    for number in range(1_000):
        tab._on_navigation(_Frame(f"http://{number}.test/"))
    assert len(tab.sources()) < 110
    tab._on_navigation(_Frame("http://bank.test/account"))
    assert "bank.test" in tab.sources()
