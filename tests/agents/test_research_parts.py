"""The parts of a research by themselves: queries that follow from each other, findings and their quotes."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.agents.research.findings import LONGEST, Insight, Piece, evidence, insights_in, top_insights
from agentorchestra.agents.research.sourced import join_parts, parts_of
from agentorchestra.agents.research.workflow import round_text
from agentorchestra.agents.search.queries import Hits, Queries, ResearchQuery, query_from
from agentorchestra.core.content import text_of


def asked(*texts: str, depth: int = 3) -> Queries:
    queries = Queries(depth)
    queries.take([ResearchQuery(text) for text in texts], 1)
    return queries


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ({"query": " a  b "}, {"query": "a b"}),
        ({"query": "a", "since": "2015", "until": "2016-03"}, {"query": "a", "since": "2015", "until": "2016-03"}),
        ({"query": "a", "since": "2017", "until": "2016"}, {"query": "a"}),
        ({"query": "a", "since": "spring", "language": "Norse"}, {"query": "a"}),
        ({"query": "a", "language": "DE", "since": None}, {"query": "a", "language": "de"}),
    ],
)
def test_what_is_no_day_and_no_language_is_left_out(written: Any, arguments: Any) -> None:
    assert query_from(written).arguments == arguments


def test_follow_ups_take_turns_by_branch() -> None:
    queries = asked("a", "b")
    written = [{"query": f"a{n}", "follows": 1} for n in range(3)] + [{"query": "b0", "follows": 2}]
    found = queries.follow_ups(written, 2, queries.asked)
    assert [(one.query, one.branch, one.depth) for one in found] == [("a0", 1, 1), ("b0", 2, 1)]


def test_each_query_has_its_variants_once_behind_all_queries() -> None:
    queries = Queries(3)
    written = [query_from({"query": "b", "variants": ["c", " d "]}), query_from({"query": "e", "variants": ["c", "f"]})]
    assert [one.query for one in queries.spread(written, 1)] == ["b", "e", "c"]
    assert [one.query for one in queries.spread(written, 2)] == ["b", "e", "c", "d", "f"]
    assert [one.query for one in queries.spread(written, 0)] == ["b", "e"]


def test_a_page_cannot_speak_at_length_by_its_reader() -> None:
    words = "and so on " * 500
    piece = Piece(f"It begins {words}", "https://a.example", "line 1")
    said = {"fact": words, "quote": f"It begins {words}", "piece": 1, "relevance": 1}
    (one,), dropped = insights_in({"insights": [said]}, [piece], 1, 3)
    assert not dropped and one.quote.startswith("It begins and so") and one.quote in piece.text
    assert len(one.fact) <= LONGEST and len(one.quote) <= LONGEST


def test_depth_is_counted_in_each_branch_by_itself() -> None:
    queries = asked("a", "b")
    deep = queries.follow_ups([{"query": "a1", "follows": 1}], 5, queries.asked)
    queries.take(deep, 2)
    deeper = queries.follow_ups([{"query": "a2", "follows": 3}, {"query": "b1", "follows": 2}], 5, deep)
    assert [(one.query, one.depth) for one in deeper] == [("a2", 2), ("b1", 1)]
    queries.take(deeper, 3)
    last = queries.follow_ups([{"query": "a3", "follows": 4}, {"query": "b2", "follows": 5}], 5, deeper)
    assert [one.query for one in last] == ["b2"]


def test_a_follow_up_that_names_nothing_counts_as_deep_as_its_round() -> None:
    queries = asked("a", depth=2)
    queries.take(queries.follow_ups([{"query": "a1", "follows": 1}], 5, queries.asked), 2)
    assert queries.follow_ups([{"query": "a2"}, {"query": "a3", "follows": 99}], 5, queries.asked[1:]) == []


def test_what_was_asked_is_not_asked_again_but_for_other_days() -> None:
    queries = asked("Tide mills")
    again = [{"query": "tide  MILLS"}, {"query": "tide mills", "since": "2019"}]
    assert [one.arguments for one in queries.new([query_from(one) for one in again])] == [again[1]]


def test_a_second_look_keeps_what_it_leaves_out_and_puts_variants_last() -> None:
    drafts = [ResearchQuery("a", until="2017", branch=7, depth=1), ResearchQuery("b")]
    written: list[dict[str, Any]] = [
        {"draft": 1, "query": "aa", "problems": ["too short"], "variants": ["x", "y"]},
        {"draft": 9, "query": "nothing"},
    ]
    queries = Queries(3)
    written.append({"draft": 1, "query": "twice"})
    found = queries.spread(queries.revise(drafts, written), 1)
    assert [(one.query, one.branch, one.depth) for one in found] == [("aa", 7, 1), ("b", 0, 0), ("x", 7, 1)]
    assert [one.until for one in found] == ["2017", "", "2017"]
    assert (found[0].draft, found[0].problems) == ("a", ("too short",)) and found[1].draft == ""


def test_the_best_page_of_each_query_comes_first_and_none_twice() -> None:
    hits = Hits()
    hits.take(1, [{"address": "https://a.example/1"}, {"address": "https://a.example/2"}])
    hits.take(2, [{"address": "http://a.example/1/"}, {"address": "https://b.example/"}, {"address": "notes.txt"}])
    best = hits.best(2, [1, 2], lambda one: "://" in one)
    assert [one.address for one in best] == ["https://a.example/1", "https://b.example/"]
    assert [one.address for one in hits.best(9, [1, 2], lambda one: "://" in one)] == ["https://a.example/2"]


def insight(fact: str, relevance: float, **more: Any) -> Insight:
    return Insight(fact, more.pop("quote", fact), more.pop("source", "https://a.example"), "line 1", relevance, **more)


def test_quotes_have_to_stand_in_the_page_and_relevance_is_a_share() -> None:
    pieces = [Piece("The mill [ground](https://x.example/y) barley.", "https://a.example", "line 1")]
    written = [
        {"fact": "It ground barley.", "quote": "mill ground  barley", "piece": 9, "relevance": 7},
        {"fact": "It ground rye.", "quote": "ground rye", "piece": 1, "relevance": 1},
        {"fact": "Empty.", "quote": "", "piece": 1, "relevance": 1},
        {"fact": "One too many.", "quote": "barley", "piece": 1, "relevance": 1},
    ]
    found, dropped = insights_in({"insights": written}, pieces, 1, 3)
    assert [(one.fact, one.relevance, one.place) for one in found] == [("It ground barley.", 1.0, "line 1")]
    assert [(one.fact, one.pieces) for one in dropped] == [("It ground rye.", (*pieces,)), ("Empty.", (*pieces,))]


def test_words_left_out_and_emphasis_lose_no_finding() -> None:
    piece = Piece("The **tide mill** of Bray ground only barley until 1931, then rye.", "https://a.example", "line 1")
    quotes = ("The tide mill of Bray … until 1931, then rye", "_ground only barley_ until 1931")
    written = [{"fact": one, "quote": one, "piece": 1, "relevance": 1} for one in quotes]
    found, dropped = insights_in({"insights": written}, [piece], 1, 3)
    assert [one.quote for one in found] == [*quotes] and not dropped


def test_findings_are_ordered_by_relevance_each_quote_once_in_three_groups() -> None:
    found = [insight("c", 0.49), insight("a", 0.8), insight("b", 0.5), insight("a", 0.3)]
    found += [insight("2", 1.0, quote="4", source="python", kind="calculation")]
    kept = top_insights(found, 4)
    assert [(one.fact, one.group) for one in kept] == [
        ("2", "key"),
        ("a", "key"),
        ("b", "additional"),
        ("c", "supplementary"),
    ]
    assert text_of([evidence(kept)]).startswith("[E1] (key, 1.0; python, line 1) 2: “4”")
    assert len(top_insights(found, 2)) == 2


def test_what_no_finding_is_named_for_is_left_out() -> None:
    text = """# Keepers

She was born there [E1].
So says the page.

She was a duke.

## Years

- In 1961 [E2].
- In 1962.
- In 1963 [E3].

## Dukes

They were:

- all of them dukes

| year | kept |
|---|---|
| 1961 | yes [E1] |"""
    parts = parts_of(text, 3)
    assert join_parts(parts) == (
        "# Keepers\n\nShe was born there [E1].\nSo says the page.\n\n## Years\n\n- In 1961 [E2].\n- In 1963 [E3]."
        "\n\n## Dukes\n\nThey were:\n\n| year | kept |\n|---|---|\n| 1961 | yes [E1] |"
    )
    assert [one.brief for one in parts if one.lacks_source] == ["She was a duke.", "- In 1962.", "- all of them dukes"]
    assert join_parts(parts_of("# Nothing\n\nNothing.", 3)) == ""


def test_headings_of_a_report_stay_above_what_is_left_and_a_mark_without_a_finding_is_none() -> None:
    parts = parts_of("# Keepers\n\n## Birth\n\n**Town**\n\nThere [E1].\n\n---\n\nShe was a duke [E7].", 3)
    assert join_parts(parts) == "# Keepers\n\n## Birth\n\n**Town**\n\nThere [E1]."
    assert [one.text for one in parts if one.lacks_source] == ["She was a duke [E7]."]


def test_a_round_makes_no_marks_of_its_own() -> None:
    query = ResearchQuery("tide [1] mill", since="2019", failed="nothing was found")
    text = round_text([query], [insight("It stands [7] still.", 0.9)], missing=["the [2] year"], complete=False)
    assert "- tide (1) mill, since 2019: nothing was found" in text
    assert "- It stands (7) still. [1]" in text and "missing: the (2) year" in text


def test_a_finding_names_the_lines_in_which_its_quote_stands() -> None:
    lines = ["# Mills", "", "It ground barley.", "", "Then it", "ground rye.", *("More." for _ in range(30))]
    piece = Piece("\n".join(lines), "https://a.example", "lines 11-46")
    quotes = ("ground barley", "Then it ground rye", "barley. Then it")
    written = [{"fact": one, "quote": one, "piece": 1, "relevance": 1} for one in quotes]
    found, _ = insights_in({"insights": written}, [piece], 1, 3)
    assert [one.place for one in found] == ["line 13", "lines 15-16", "lines 13-15"]
