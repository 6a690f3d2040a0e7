"""One list out of many: spellings of addresses, ranks, days."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra.core.errors import ToolError
from agentorchestra.tools.web.search.merge import between, first, merge, page_key
from agentorchestra.tools.web.search.service import clean_address, day_of, of_site, plain
from agentorchestra.tools.web.search.types import SearchResult, query_of
from tests.support.examples import examples

SAME = [
    "https://www.example.org/news/tide-mill",
    "http://example.org/news/tide-mill/",
    "HTTPS://Example.ORG:443/news/./tide-mill#wheel",
    "https://example.org/news/tide-mill?utm_source=letter&utm_medium=mail",
    "https://example.org/news/tide-mill?fbclid=abc&gclid=9",
    "https://m.example.org/news/tide-mill",
    "https://example.org/m/news/tide-mill",
    "https://example.org/amp/news/tide-mill",
    "https://example.org/news/tide-mill/amp/",
    "https://example.org/news/tide-mill?amp=1",
    "https://example.org/news/x/../tide%2Dmill/index.html",
    "https://example-org.cdn.ampproject.org/c/s/example.org/news/tide-mill",
    "https://www.google.com/amp/s/www.example.org/news/tide-mill",
]

OTHERS = [
    "https://example.org/news/tide-mills",
    "https://example.org/news/tide-mill?page=2",
    "https://example.org:8443/news/tide-mill",
    "https://archive.example.org/news/tide-mill",
    "https://example.org/#!/news/tide-mill",
    "https://example.org/News/tide-mill",
    "https://m.org/news/tide-mill",
]


def result(address: str, date: str | None = None, snippet: str = "") -> SearchResult:
    return SearchResult(title=address, address=address, date=date, snippet=snippet)


@pytest.mark.parametrize("address", SAME)
def test_spellings_of_one_page_are_one(address: str) -> None:
    assert page_key(address) == "example.org/news/tide-mill"


def test_other_pages_stay_others() -> None:
    keys = {page_key(one) for one in [*OTHERS, SAME[0]]}
    assert len(keys) == len(OTHERS) + 1


def test_the_mobile_pages_of_wikipedia_are_the_same() -> None:
    assert page_key("https://en.m.wikipedia.org/wiki/Tide") == page_key("http://en.wikipedia.org/wiki/Tide")


@settings(max_examples=examples(40))
@given(st.text(max_size=60))
def test_no_text_breaks_a_key(text: str) -> None:
    page_key(f"http://{text}")
    page_key(text)


def test_what_several_engines_list_comes_first_and_keeps_the_ranks() -> None:
    lists = {
        "one": [result("https://a.example/"), result("https://b.example/x?utm_source=one")],
        "two": [result("http://www.b.example/x/", "2020-01-02", "words")],
        "three": [],
    }
    found = merge(lists)
    assert [one.address for one in found] == ["http://www.b.example/x/", "https://a.example/"]
    assert [(one.engine, one.rank) for one in found[0].sources] == [("one", 2), ("two", 1)]
    assert (found[0].date, found[0].snippet) == ("2020-01-02", "words")


def test_a_page_twice_in_one_list_counts_once() -> None:
    lists = {"one": [result("https://a.example/"), result("https://a.example/#top"), result("https://b.example/")]}
    assert [one.sources[0].rank for one in merge(lists)] == [1, 2]


def test_engines_that_list_the_same_do_not_drown_another() -> None:
    common = [result(f"https://a.example/{number}") for number in range(9)]
    found = merge({"one": common, "two": common, "three": [result("https://c.example/")]})
    assert found[-1].address == "https://c.example/"
    shown = first(found, 4)
    assert [one.address for one in shown] == [*(f"https://a.example/{n}" for n in range(3)), "https://c.example/"]


def test_known_days_are_looked_through_and_unknown_ones_counted() -> None:
    found = [result("a", "2019-12-31"), result("b", "2020-01-01"), result("c"), result("d", "2021-05-05")]
    kept, outside, undated = between(found, date(2020, 1, 1), date(2020, 12, 31))
    assert [one.address for one in kept] == ["b", "c"]
    assert (outside, undated) == (2, 1)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Oct 18, 2019", "2019-10-18"),
        ("2019-10-18T08:00:00.0000000", "2019-10-18"),
        ("18 October 2019", "2019-10-18"),
        ("Fri, 18 Oct 2019 08:00:00 GMT", "2019-10-18"),
        ("2019年10月18日", "2019-10-18"),
        ("3 days ago", "2024-02-27"),
        ("2 weeks ago", "2024-02-16"),
        ("2019-13-40", None),
        ("yesterday", None),
        ("99999999 years ago", None),
        (7, None),
        (None, None),
    ],
)
def test_days_in_the_forms_of_engines(text: object, day: str | None) -> None:
    assert day_of(text, datetime(2024, 3, 1, tzinfo=UTC)) == day


def test_addresses_of_results_are_of_the_web_and_hold_nothing_that_ends_a_link() -> None:
    assert clean_address("https://e.example/King's_Cross") == "https://e.example/King%27s_Cross"
    for bad in ("javascript:alert(1)", "file:///etc/passwd", "/x", "", None, 7, "https://", "http://a b/", "ftp://a/"):
        assert clean_address(bad) == ""


def test_snippets_are_words() -> None:
    assert plain("<b>Tide</b> &amp; mill\x07 \n x") == "Tide & mill x"
    assert len(plain("word " * 1000, 100)) <= 100


def test_a_host_and_those_below_it_are_of_a_site() -> None:
    assert of_site("https://docs.example.org/x", "example.org")
    assert of_site("http://127.0.0.1:81/x", "127.0.0.1:81")
    assert not of_site("https://example.org.evil.example/", "example.org")
    assert not of_site("https://evil.example/?example.org", "example.org")


def test_days_months_and_years_of_a_query() -> None:
    query = query_of("tide", since="2019", until="2019-02")
    assert (query.since, query.until) == (date(2019, 1, 1), date(2019, 2, 28))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"text": " "}, "The query is empty; give the words to search for."),
        ({"text": "x" * 2000}, "The query has 2,000 characters; give at most 1,000."),
        ({"text": "x", "limit": 0}, "limit is 0; give a number from 1 to 50."),
        (
            {"text": "x", "since": "soon"},
            "since is 'soon'; give a day like 2024-01-31, a month like 2024-01, or a year.",
        ),
        ({"text": "x", "until": "2023-02-30"}, "until is '2023-02-30'; give a day like"),
        ({"text": "x", "since": "2024", "until": "2023"}, "since is 2024-01-01 and until is 2023-12-31: no day lies"),
        ({"text": "x", "language": "klingon!"}, "language is 'klingon!'; give two letters"),
        ({"text": "x", "region": "Germany"}, "region is 'Germany'; give the two letters of a country"),
        ({"text": "x", "site": "a b"}, "site is no host; give one, e.g. 'docs.python.org'."),
    ],
)
def test_what_does_not_fit_is_said(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(ToolError) as caught:
        query_of(**arguments)  # type: ignore[arg-type]
    assert sentence in str(caught.value)
