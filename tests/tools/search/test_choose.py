"""Which engines fit which question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agentorchestra.core.errors import ToolError
from agentorchestra.tools.web.search.selection import by_call, by_rules, language_of
from agentorchestra.tools.web.search.types import Query, SearchResult, Traits, query_of

NOW = datetime(2024, 6, 1, tzinfo=UTC)


@dataclass
class Named:
    name: str
    traits: Traits

    def missing(self) -> str:
        return ""

    async def search(self, query: Query, ctx: Any) -> list[SearchResult]:
        raise NotImplementedError


ALL = [
    Named("local", Traits(frozenset({"local"}))),
    Named("one", Traits()),
    Named("two", Traits()),
    Named("three", Traits()),
    Named("four", Traits()),
    Named("baidu", Traits(frozenset({"general", "chinese"}))),
    Named("crossref", Traits(frozenset({"scholarly"}))),
    Named("wikipedia", Traits(frozenset({"encyclopedia", "past"}))),
    Named("archive", Traits(frozenset({"past"}))),
]


def chosen(text: str, *, files: bool = False, most: int = 5, **options: Any) -> dict[str, str]:
    query = query_of(text, now=NOW, **options)
    return by_rules(replace(query, language=language_of(query)), ALL, files=files, most=most)


def test_an_ordinary_question_goes_to_the_web_and_an_encyclopedia() -> None:
    assert [*chosen("height of the tower")] == ["wikipedia", "one", "two", "three", "four"]
    assert chosen("height of the tower")["one"] == "the whole web"


def test_files_are_searched_where_there_are_any() -> None:
    assert chosen("tower", files=True)["local"] == "there are files to search"


def test_a_chinese_question_goes_to_the_engine_for_chinese() -> None:
    found = chosen("灯塔 自动化")
    assert found["baidu"] == "the question is in Chinese"
    assert "wikipedia" in found


def test_japanese_is_not_chinese() -> None:
    assert chosen("灯台の自動化").get("baidu") != "the question is in Chinese"


def test_the_past_goes_to_what_keeps_versions() -> None:
    assert chosen("who kept the tower", until="2015")["wikipedia"] == "until 2015-12-31 is the past"
    assert chosen("who kept the tower in 2015")["wikipedia"] == "the question is about 2015"
    assert chosen("2015年的守塔人")["wikipedia"] == "the question is about 2015"
    # This year is not the past.
    assert chosen("who keeps the tower in 2024")["wikipedia"] == "an encyclopedia may have an article on it"


def test_the_archive_is_asked_for_pages_only() -> None:
    assert "archive" not in chosen("who kept the tower", until="2015")
    assert "archive" in chosen("who kept the tower", until="2015", site="skerrow.example")
    assert "archive" in chosen("skerrow.example/tower", until="2015")
    assert "archive" not in chosen("skerrow.example/tower")


def test_scholarly_questions_go_to_the_register_of_works() -> None:
    assert chosen("papers on tide mills")["crossref"] == "the question names 'papers'"
    assert "crossref" not in chosen("newspaper of the island")


def test_a_site_leaves_the_encyclopedia_out() -> None:
    found = chosen("tower", site="docs.example.org")
    assert "wikipedia" not in found
    assert found["one"] == "the whole web, of docs.example.org"


def test_no_more_than_the_settings_allow_and_the_web_has_its_share() -> None:
    found = chosen("论文 在 2015年 灯塔", files=True, until="2015", site="wikipedia.org", most=3)
    assert len(found) == 3
    assert {"one", "two"} <= {*found}


def test_engines_that_are_named_are_asked() -> None:
    ready = {one.name: one for one in ALL}
    assert by_call(["two"], ready, {}) == {"two": "it was named in the call"}
    with pytest.raises(ToolError, match=r"serper needs a key: set SERPER_API_KEY; those that can be asked: archive, "):
        by_call(["serper"], ready, {"serper": "needs a key: set SERPER_API_KEY"})
    with pytest.raises(ToolError, match="there is no search engine 'altavista'"):
        by_call(["altavista"], ready, {})
