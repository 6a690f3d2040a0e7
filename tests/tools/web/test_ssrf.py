"""Nothing leads the client into this machine or its network: not by a spelling, a redirect, or a name server."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import WebSettings
from agentorchestra.tools.web.addresses import parse_address, private_reason
from agentorchestra.tools.web.http import WebClient, refuse_private
from tests.support.names import names_from
from tests.tools.web.names import name_server
from tests.tools.web.traps import listening

SPELLINGS = [
    "http://127.0.0.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0x0.0x0.0x1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://0177.0000.0000.0001:{port}/",
    "http://017700000001:{port}/",
    "http://127.000.000.001:{port}/",
    "http://127.0.0.1%2f@example.org:{port}/",
    "http://%31%32%37.0.0.1:{port}/",
    "http://127.127.127.127:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST.:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b:1::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:{port}/",
    "http://[fe80::5efe:127.0.0.1]:{port}/",
    "http://[2620:0:2d0:200:0:5efe:7f00:1]:{port}/",
    "http://[fe80::1%25lo]:{port}/",
    "http://[fe80::1%lo]:{port}/",
    "http://１２７．０．０．１:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://127。0。0。1:{port}/",
    "http://١٢٧.٠.٠.١:{port}/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/",
    "http://127.0.0.1\t:{port}/",
    "http://127.0.0\u200b.1:{port}/",
    "http://example.org@127.0.0.1:{port}/",
    "http://example.org:80@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@example.org/",
    "http:\\\\127.0.0.1:{port}\\",
    "http:/127.0.0.1:{port}/",
    "http:127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/latest/meta-data/",
    "http://2852039166/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine",
    "http://192.0.0.192/opc/v1/",
    "http://10.0.0.1/",
    "http://172.31.255.254/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://[ff02::1]/",
    "http://[fc00::1]/",
    "http://[fec0::1]/",
    "http://[2001:db8::1]/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_GET%20/",
    "ftp://127.0.0.1:{port}/",
    "dict://127.0.0.1:{port}/",
    "javascript:alert(1)",
    "data:text/html,hello",
    "unix:/var/run/docker.sock",
]


async def _refusal(client: WebClient, url: str) -> WebError:
    with pytest.raises(WebError) as caught:
        await client.get(url)
    return caught.value


async def test_no_spelling_and_no_redirect_leads_into_this_machine() -> None:
    """Each spelling directly, and as the target of a redirect from the site that is allowed."""

    async def page(request: web.Request) -> web.Response:
        if target := request.query.get("to"):
            return web.Response(status=302, headers={"Location": target})
        return web.Response(text="the allowed page")

    async with listening() as victim:
        app = web.Application()
        app.router.add_get("/", page)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            port = runner.addresses[0][1]
            client = WebClient(WebSettings(private=(f"127.0.0.1:{port}",)))
            for spelling in SPELLINGS:
                url = spelling.format(port=victim.port)
                assert (await _refusal(client, url)).kind == "refused", url
                if (
                    not url.startswith(("//", "http:1", "http:/1")) and "\t" not in url
                ):  # in a redirect: relative, or none
                    from urllib.parse import quote

                    redirecting = f"http://127.0.0.1:{port}/?to={quote(url, safe='')}"
                    error = await _refusal(client, redirecting)
                    assert error.kind == "refused" and f"127.0.0.1:{port}" in error.url, url
            assert victim.requests == []
            answer = await client.get(f"http://127.0.0.1:{port}/")
            assert answer.text == "the allowed page"
        finally:
            await runner.cleanup()


async def test_a_name_server_that_changes_its_mind_gains_nothing() -> None:
    zone = {
        "inside.test": [["127.0.0.1"]],
        "rebind.test": [["3ffe::1"], ["127.0.0.1", "::1"]],
        "both.test": [["3ffe::1", "127.0.0.1"]],
        "mapped.test": [["::ffff:127.0.0.1"]],
        "translated.test": [["64:ff9b::7f00:1"]],
        "alias.test": [["->inside.test"]],
        "metadata.test": [["169.254.169.254"]],
        "mine.test": [["127.0.0.1"], ["127.0.0.2"]],
    }
    async with name_server(zone) as names, listening() as mine, listening("127.0.0.2", mine.port) as victim:
        settings = WebSettings(private=(f"mine.test:{mine.port}",), timeout_s=30)
        client = WebClient(settings, resolver=names_from(names.port))
        for name in ("inside", "both", "mapped", "translated", "alias", "metadata"):
            error = await _refusal(client, f"http://{name}.test:{mine.port}/")
            assert error.kind == "refused", name
            assert "is not on the public network" in str(error)
        # The first answer passes, and what is connected to is that answer, not a second one.
        assert (await _refusal(client, f"http://rebind.test:{mine.port}/")).kind in ("unreachable", "timeout")
        assert names.asked["rebind.test", "A"] == 1
        # It is asked again for the next request, and what it says then is judged then.
        assert (await _refusal(client, f"http://rebind.test:{mine.port}/")).kind == "refused"
        assert mine.requests == []
        answer = await client.get(f"http://mine.test:{mine.port}/")
        assert answer.text == "hello"
        assert names.asked["mine.test", "A"] == 1
        assert len(mine.requests) == 1 and victim.requests == []
        assert (await _refusal(client, "http://nothing.test/")).kind == "unreachable"


async def test_a_public_site_does_not_lead_to_a_service_that_only_its_owner_may_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service of one's own is allowed to oneself, not to every site that redirects to it."""
    # There is no public network in the tests: one address of this machine stands for it.
    monkeypatch.setattr(
        "agentorchestra.tools.web.http.private_reason", lambda ip: "" if str(ip) == "127.0.0.3" else private_reason(ip)
    )
    async with listening() as mine, listening("127.0.0.3") as public:
        public.redirect = f"{mine.address}/delete"
        client = WebClient(WebSettings(private=(f"127.0.0.1:{mine.port}",)))
        error = await _refusal(client, f"{public.address}/redirect")
        assert "leads from a public site to a private service; name that one yourself" in str(error)
        assert len(public.requests) == 1 and mine.requests == []
        public.redirect = "/elsewhere"
        assert (await client.get(f"{public.address}/redirect")).text == "hello"


def test_the_last_look_is_at_the_socket() -> None:
    """Whoever resolved the name: what a socket is made for is judged once more."""
    from agentorchestra.tools.web.http import _Job

    address = parse_address("http://example.org/")
    job = _Job(WebClient(), "GET", {}, None, frozenset(), 1000, False, None)
    with pytest.raises(WebError, match=r"loopback, the host example\.org is at 127\.0\.0\.1"):
        job._socket_for(address)((2, 1, 6, "", ("127.0.0.1", 80)))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "the address is empty; give one such as https://example.org/page"),
        ("example.org/page", "is no absolute address; give one such as https://example.org/page"),
        ("ftp://example.org/", "has the scheme 'ftp'; only http and https are read"),
        ("http://me:secret@example.org/", "'http://...@example.org/' holds a user name before the host"),
        ("http://2130706433/", "writes an IP address in an unusual way; give the address as a browser shows it"),
        ("http://exa mple.org/", "which no site can have"),
        ("http:///path", "has no host"),
        ("http://example.org:0/", "has the port 0"),
        ("http://example.org:99999/", "is malformed"),
        ("http://" + "a" * 9000 + ".org/", "is longer than 8,000 characters"),
    ],
)
def test_what_is_no_plain_address_is_refused_with_the_reason(url: str, said: str) -> None:
    with pytest.raises(WebError) as caught:
        parse_address(url)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTPS://Example.ORG", "https://example.org/"),
        ("http://example.org.:80/a b?q=ü#part", "http://example.org/a%20b?q=%C3%BC"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://例え.テスト/", "http://xn--r8jz45g.xn--zckzah/"),
        ("https://93.184.216.34:443/", "https://93.184.216.34/"),
        ("http://[2606:2800:220:1:248:1893:25C8:1946]:8080/x", "http://[2606:2800:220:1:248:1893:25c8:1946]:8080/x"),
        ("http://a_b.example.org/%7Ex", "http://a_b.example.org/%7Ex"),
    ],
)
def test_one_spelling_of_each_address(url: str, plain: str) -> None:
    address = parse_address(url)
    assert address.url == plain
    assert parse_address(plain).url == plain


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_the_same_in_whatever_ipv6_wraps_it_in(ip: ipaddress.IPv4Address) -> None:
    number = int(ip)
    wrapped: Sequence[int] = (
        0xFFFF << 32 | number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80,
        0x20010000 << 96 | 0x5EFE << 32 | number,
    )
    for one in wrapped[:3]:
        assert (private_reason(ipaddress.IPv6Address(one)) == "") == (private_reason(ip) == "")
    if not ip.is_global or ip.is_multicast:
        assert private_reason(ip), ip
        assert private_reason(ipaddress.IPv6Address(wrapped[3]))


@given(st.ip_addresses(v=6))
def test_what_the_standard_library_calls_private_is_private_here(ip: ipaddress.IPv6Address) -> None:
    if not ip.is_global or ip.is_multicast:
        assert private_reason(ip), ip


async def test_a_service_of_ones_own_may_be_at_an_ipv6_address() -> None:
    try:
        async with listening("::1") as mine:
            client = WebClient(WebSettings(private=(f"[::1]:{mine.port}",)))
            assert (await client.get(f"http://[0:0::1]:{mine.port}/")).text == "hello"
            assert (await _refusal(client, f"http://127.0.0.1:{mine.port}/")).kind == "refused"
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")


def test_settings_name_services_by_host_and_port() -> None:
    with pytest.raises(SettingsError, match=r"web.private: 'intranet' names no private service; write HOST:PORT"):
        WebClient(WebSettings(private=("intranet",)))
    with pytest.raises(WebError, match=r"setting web.private = \['192.168.1.1:8080'\]"):
        refuse_private("192.168.1.1", parse_address("http://192.168.1.1:8080/"))
