"""The client: what hostile and broken servers cost is bounded and ends in one sentence."""

from __future__ import annotations

import asyncio
import datetime
import gc
import gzip
import ssl
import tracemalloc
import zlib
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
import trustme
from aiohttp import web
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra.core.errors import AgentOrchestraError, SettingsError, ToolError, WebError
from agentorchestra.core.settings import WebSettings
from agentorchestra.tools.web import http
from agentorchestra.tools.web.addresses import parse_address
from agentorchestra.tools.web.bodies import ResponseBody
from agentorchestra.tools.web.http import Answer, WebClient, refresh_of
from tests.support.examples import examples
from tests.support.web import serving
from tests.tools.web.traps import listening


def client_of(*addresses: str, **settings: object) -> WebClient:
    return WebClient(
        WebSettings.model_validate({"private": [parse_address(one).place for one in addresses], **settings})
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("path", "kind", "said"),
    [
        ("/gzip-bomb", "too_large", "is larger than 1 MiB, the most that is read of one address"),
        ("/deflate-bomb", "too_large", "is larger than 1 MiB"),
        ("/raw-deflate-bomb", "too_large", "is larger than 1 MiB"),
        ("/brotli-bomb", "too_large", "is larger than 1 MiB"),
        ("/zstd-bomb", "too_large", "is larger than 1 MiB"),
        ("/nested-bomb", "too_large", "is larger than 1 MiB"),
        ("/giant", "too_large", "is larger than 1 MiB"),
        ("/nested-thrice", "bad_answer", "compressed 3 times, which is no ordinary page"),
        ("/unknown-coding", "bad_answer", "compressed as 'compress', which was not asked for"),
        ("/no-gzip", "bad_answer", "sent an answer that cannot be unpacked"),
        ("/cut-gzip", "bad_answer", "breaks off inside what is compressed"),
        ("/short", "bad_answer", "broke off in the middle of its answer"),
        ("/negative", "bad_answer", "is no proper HTTP"),
        ("/two-lengths", "bad_answer", "is no proper HTTP"),
        ("/chunked-nonsense", "bad_answer", ""),
        ("/chunked-huge", "bad_answer", ""),
        ("/no-http", "bad_answer", "is no proper HTTP"),
        ("/nothing", "unreachable", "cannot be reached (Server disconnected)"),
        ("/many-headers", "bad_answer", "is no proper HTTP"),
        ("/null-in-header", "bad_answer", "is no proper HTTP"),
        ("/redirect-nowhere", "refused", "redirects to an address that is not read"),
        ("/redirect-backslash", "refused", "holds a backslash"),
        ("/redirect-file", "refused", "only http and https are read"),
        ("/endless-headers", "bad_answer", "is no proper HTTP"),
        ("/endless-header", "bad_answer", "is no proper HTTP"),
        ("/endless-status", "bad_answer", "is no proper HTTP"),
        ("/endless-trailers", "bad_answer", ""),
        ("/endless", "too_large", "is larger than 1 MiB"),
        ("/silent", "timeout", "fell silent for 0.2 s"),
    ],
)
async def test_a_hostile_server_costs_little_and_ends_in_a_sentence(
    path: str, kind: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "IDLE_S", 0.2 if path == "/silent" else 30)
    async with listening() as traps:
        client = client_of(traps.address, max_mib=1)
        with pytest.raises(WebError) as caught:
            await client.get(f"{traps.address}{path}")
        assert caught.value.kind == kind, caught.value
        assert said in str(caught.value)
        assert str(caught.value).startswith(traps.address) and len(str(caught.value)) < 500
        assert (await client_of(traps.address).get(f"{traps.address}/")).text == "hello"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["/slow-headers", "/slow-body", "/endless-informed", "/endless-extension"])
async def test_what_comes_drop_by_drop_ends_with_the_time_for_all_of_it(path: str) -> None:
    async with listening() as traps:
        with pytest.raises(
            WebError, match=r"was not read within 0\.4 s; try it later, or read another page|proper HTTP"
        ):
            await client_of(traps.address).get(f"{traps.address}{path}", timeout_s=0.4)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/short", b"no more than this", "the site broke off"),
        ("/cut-gzip", b"words words ", "the site broke off"),
        ("/slow-body", b"s", "it came too slowly"),
    ],
)
async def test_a_part_of_a_text_is_given_where_that_is_enough(path: str, body: bytes, why: str) -> None:
    async with listening() as traps:
        client = client_of(traps.address)
        answer = await client.get(f"{traps.address}{path}", timeout_s=2, cut=True)
        assert answer.body.startswith(body) and answer.truncation == why and not answer.cut
        with pytest.raises(WebError):  # of other kinds a part is of no use
            await client.get(f"{traps.address}{path}", timeout_s=0.4)


def html(head: str, **more: str) -> Answer:
    return Answer("http://a.org/", 200, {"content-type": "text/html"} | more, f"<html><head>{head}</head>".encode())


@pytest.mark.parametrize(
    ("head", "target"),
    [
        ('<meta http-equiv="refresh" content="0; url=/next">', "/next"),
        ("<META content='3;URL=\"http://b.org/x?a=1&amp;b=2\"' HTTP-EQUIV=Refresh >", "http://b.org/x?a=1&b=2"),
        ('<meta http-equiv="refresh" content="0;url=\'next.html\'">', "next.html"),
        ('<meta http-equiv="refresh" content="60; url=/later">', ""),  # it is there to be read
        ('<meta http-equiv="refresh" content="5">', ""),  # itself
        ('<!-- <meta http-equiv="refresh" content="0; url=/old"> -->', ""),
        ('<noscript><meta http-equiv="refresh" content="0; url=/plain"></noscript>', ""),
        ("<script>x = '<meta http-equiv=refresh content=\"0; url=/y\">'</script>", ""),
        ('<meta name="refresh" content="0; url=/next">', ""),
    ],
)
def test_where_a_page_leads_by_itself(head: str, target: str) -> None:
    assert refresh_of(html(head)) == target


async def test_a_page_that_leads_elsewhere_is_a_redirect_and_is_judged_like_one() -> None:
    async def leading(request: web.Request) -> web.Response:
        if request.path == "/end":
            return web.Response(text="<p>the end</p>", content_type="text/html")
        where = {"/a": "b", "/b": "/end", "/self": "/self", "/in": "http://127.0.0.1:1/", "/file": "file:///etc/passwd"}
        target = where.get(request.path) or f"/{int(request.path[1:]) + 1}"
        return web.Response(text=f'<meta http-equiv="refresh" content="0; url={target}">', content_type="text/html")

    async with serving(leading) as address:
        client = client_of(address)
        answer = await client.get(f"{address}/a", refresh=True)
        assert (answer.url, answer.redirects) == (f"{address}/end", (f"{address}/a", f"{address}/b"))
        assert (await client.get(f"{address}/self", refresh=True)).url == f"{address}/self"
        assert (await client.get(f"{address}/a")).url == f"{address}/a"  # only for who reads pages
        for path, said in (("/in", "is not on the public"), ("/file", "only http and https"), ("/1", "more than ")):
            with pytest.raises(WebError, match=said):
                await client.get(f"{address}{path}", refresh=True)


@pytest.mark.long
async def test_a_gigabyte_is_refused_before_it_is_read_and_a_bomb_takes_little_memory() -> None:
    async with listening() as traps:
        client = client_of(traps.address, max_mib=1)
        with pytest.raises(WebError, match="is larger than 1 MiB"):
            await client.get(f"{traps.address}/giant")
        gc.collect()
        tracemalloc.start()
        try:
            for coding in ("gzip", "deflate", "brotli", "zstd"):
                with pytest.raises(WebError, match="is larger than 1 MiB"):
                    await client.get(f"{traps.address}/{coding}-bomb", max_bytes=1 << 20)
            assert tracemalloc.get_traced_memory()[1] < 40 << 20
        finally:
            tracemalloc.stop()


async def test_the_beginning_of_what_is_too_large_where_that_is_enough() -> None:
    async with listening() as traps:
        answer = await client_of(traps.address).get(f"{traps.address}/endless", max_bytes=10_000, cut=True)
    assert answer.cut and answer.body == b"x" * 10_000


# -- certificates ------------------------------------------------------------------------------------------------------


async def test_certificates_are_checked_against_the_name_that_was_asked_for(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    good, expired = (
        authority.issue_cert("site.test"),
        authority.issue_cert("site.test", not_before=yesterday - datetime.timedelta(days=9), not_after=yesterday),
    )

    async def resolve(host: str) -> list[str]:
        return ["127.0.0.1"]

    async def ask(certificate: trustme.LeafCert, host: str, ca_file: str) -> Answer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        async with listening(context=context) as server:
            settings = WebSettings(private=(f"{host}:{server.port}",), ca_file=ca_file)
            return await WebClient(settings, resolver=resolve).get(f"https://{host}:{server.port}/")

    ca = str(tmp_path / "ca.pem")
    assert (await ask(good, "site.test", ca)).text == "hello"
    for certificate, host, file, why in (
        (expired, "site.test", ca, "certificate has expired"),
        (good, "other.test", ca, "Hostname mismatch"),
        (good, "site.test", "", "unable to get local issuer certificate"),
    ):
        with pytest.raises(WebError, match=rf"is not read: its certificate is not valid \({why}") as caught:
            await ask(certificate, host, file)
        assert caught.value.kind == "unreachable"
    with pytest.raises(SettingsError, match=r"web\.ca_file: nowhere\.pem cannot be read"):
        await ask(good, "site.test", "nowhere.pem")


# -- what goes out -----------------------------------------------------------------------------------------------------


async def test_keys_and_what_was_posted_stay_with_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str, dict[str, str], str]] = []
    targets: dict[str, tuple[int, str]] = {}

    async def note(request: web.Request) -> web.Response:
        seen.append(
            (
                request.host,
                request.method,
                {name.lower(): one for name, one in request.headers.items()},
                await request.text(),
            )
        )
        if request.path in targets:
            status, where = targets[request.path]
            return web.Response(status=status, headers={"Location": where, "Set-Cookie": "id=1"})
        return web.Response(text="end", headers={"Set-Cookie": "id=2"})

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with serving(note) as one, serving(note) as other:
        client = client_of(one, other, user_agent="tester/1")
        targets.update({"/same": (302, "/end"), "/away": (302, f"{other}/end"), "/see": (303, "/end")})
        targets["/keep"] = (307, f"{other}/end")
        key = {"Authorization": "Bearer KEY", "Accept": "text/plain"}
        answer = await client.get(f"{one}/same", headers=key)
        assert answer.redirects == (f"{one}/same",) and answer.url == f"{one}/end"
        assert seen[-1][2]["authorization"] == "Bearer KEY" and "cookie" not in seen[-1][2]
        await client.get(f"{one}/away", headers=key)
        assert "authorization" not in seen[-1][2]
        assert seen[-1][2]["accept"] == "text/plain" and seen[-1][2]["user-agent"] == "tester/1"
        await client.request("POST", f"{one}/see", json={"a": 1})
        assert seen[-2][1::2] == ("POST", '{"a": 1}') and seen[-1][1::2] == ("GET", "")
        before = len(seen)
        with pytest.raises(WebError, match=r"/keep would send what was posted on to http://127"):
            await client.request("POST", f"{one}/keep", data=b"secret")
        assert len(seen) == before + 1
        targets["/round"] = (302, "/round/2")
        targets["/round/2"] = (302, "/round")
        with pytest.raises(WebError, match=r"/round redirects in a circle, by http://"):
            await client.get(f"{one}/round")
        targets.update({f"/{n}": (302, f"/{n + 1}") for n in range(20)})
        with pytest.raises(WebError, match=r"/0 redirects more than 10 times"):
            await client.get(f"{one}/0")


async def test_a_site_is_asked_by_few_at_once_and_waited_for_when_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    now, most = 0, 0
    answers = ["1", "0"]

    async def busy(request: web.Request) -> web.Response:
        nonlocal now, most
        if request.path == "/wait":
            return web.Response(status=429, headers={"Retry-After": answers.pop(0)}) if answers else web.Response()
        if request.path == "/long":
            return web.Response(status=503, headers={"Retry-After": "3600"})
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return web.Response(text="ok")

    async with serving(busy) as address:
        monkeypatch.setattr(http, "PER_HOST", 2)
        client = client_of(address)
        await asyncio.gather(*(client.get(f"{address}/{n}") for n in range(8)))
        assert most == 2
        answers[:] = ["0"]
        assert (await client.get(f"{address}/wait")).status == 200
        answers[:] = ["0", "0"]
        assert (await client.get(f"{address}/wait")).status == 429  # once, not for ever
        answers[:] = ["0"]
        assert (await client.request("POST", f"{address}/wait")).status == 429  # not what may have been done
        assert (await client.get(f"{address}/long")).status == 503


@settings(max_examples=examples(40))
@given(st.binary(max_size=3000), st.integers(1, 700))
def test_what_is_packed_comes_out_whatever_the_pieces(data: bytes, step: int) -> None:
    data *= 40
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = {
        "gzip": gzip.compress(data[:50]) + gzip.compress(data[50:]),
        "x-gzip, identity": gzip.compress(data) + b"\0\0",
        "deflate": zlib.compress(data),
        "Deflate": raw.compress(data) + raw.flush(),
        "br": brotli.compress(data, quality=1),
        "zstd": zstd.compress(data[:50]) + zstd.compress(data[50:]),
        "br, gzip": gzip.compress(brotli.compress(data, quality=1)),
        "": data,
    }
    for coding, wire in packed.items():
        body = ResponseBody(coding, 1 << 20, "http://a.org/")
        assert all(body.take(wire[at : at + step]) for at in range(0, len(wire), step)), coding
        assert body.data == data and body.complete, coding
        if data:
            cut = ResponseBody(coding, len(data) - 1, "http://a.org/")
            assert not all(cut.take(wire[at : at + step]) for at in range(0, len(wire), step)), coding
            assert cut.data == data[:-1]


def test_what_an_answer_says() -> None:
    answer = Answer("http://a.org/", 200, {"content-type": 'Text/HTML; Charset="ISO-8859-1"'}, "é".encode("latin-1"))
    assert (answer.media_type, answer.charset, answer.text) == ("text/html", "iso8859-1", "é")
    assert Answer("http://a.org/", 200, {"content-type": "text/html; charset=nonsense"}, b"").charset == ""
    assert Answer("http://a.org/", 200, {}, b"", ("https://a.org/",)).is_downgraded
    assert not Answer("https://a.org/", 200, {}, b"", ("http://a.org/",)).is_downgraded
    assert issubclass(WebError, ToolError) and issubclass(WebError, AgentOrchestraError)
