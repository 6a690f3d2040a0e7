"""Finding components: words, pieces of words, vectors; one more or one less changes nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra.tea.retrieval.index import Described, Index, Match, split, words_of
from tests.support.examples import examples

TOOLS = {
    "get_weather": Described("get_weather", "The weather at a place.", "city the name of the city days how many"),
    "sendMail": Described("sendMail", "Send a message to somebody.", "to address body text"),
    "math.factorial": Described("math.factorial", "The factorial of a number.", "number"),
    "convert_currency": Described("convert_currency", "Convert an amount between currencies.", "amount from to"),
    "list_files": Described("list_files", "The files of a folder.", "folder"),
}


@pytest.fixture
def index() -> Index:
    made = Index()
    for key, one in TOOLS.items():
        made.add(key, one)
    return made


def _keys(found: list[Match]) -> list[str]:
    return [one.key for one in found]


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("What will the weather be in Paris?", "get_weather"),
        ("mail a text to Anna", "sendMail"),
        ("SEND mail", "sendMail"),
        ("compute 5! (factorials)", "math.factorial"),
        ("exchange euros: currency conversion", "convert_currency"),
        ("folders", "list_files"),
        ("wether", "get_weather"),  # misspelt: only its pieces are known
        ("which city", "get_weather"),  # stands in a parameter alone
    ],
)
def test_the_fitting_one_comes_first(index: Index, query: str, key: str) -> None:
    found = index.search(query)
    assert found[0].key == key
    assert 0 < found[0].score <= 1
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_what_shares_nothing_is_not_found(index: Index) -> None:
    assert index.search("zzz qqq") == []
    assert index.search("") == []
    assert Index().search("weather") == []
    assert index.search("weather", limit=0) == []


def test_a_query_of_stop_words_alone_is_searched_as_it_stands(index: Index) -> None:
    index.add("what_is", Described("what_is", "what is this"))
    assert index.search("what is")[0].key == "what_is"


def test_words() -> None:
    assert split("getSocialMediaURL.v2_now") == ["get", "social", "media", "url", "v2", "now"]
    assert words_of("The queries of running boxes") == ["query", "runn", "box"]
    assert split("Zürich 东京") == ["zürich", "东京"]


def test_one_that_is_added_again_replaces_what_was_there(index: Index) -> None:
    index.add("list_files", Described("list_files", "Play a xylophone.", "title"))
    assert index.search("xylophone")[0].key == "list_files"
    assert len(index) == len(TOOLS)
    index.remove("list_files")
    index.remove("list_files")
    assert "list_files" not in index
    assert index.search("xylophone") == []


def test_hostile_descriptions_are_read_in_part() -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"properties": {"inner": {"description": "x", **deep}}}
    one = Described.of_schema("a", "send " + "word " * 1_000_000, deep)
    assert len(one.description) == 20_000
    assert one.parameters.count("inner") < 40
    made = Index()
    made.add("a", one)
    assert _keys(made.search("send")) == ["a"]


def test_only_among_some(index: Index) -> None:
    assert _keys(index.search("to", among=frozenset({"sendMail", "unknown"}))) == ["sendMail"]
    assert index.search("weather", among=frozenset()) == []


def test_vectors_find_what_words_do_not() -> None:
    made = Index()
    made.add("umbrella", Described("umbrella", "Opens."), vector=[1.0, 0.0])
    made.add("boat", Described("boat", "Sails."), vector=[0.0, 1.0])
    assert made.search("rain") == []
    assert made.search("rain", vector=[0.9, 0.1])[0].key == "umbrella"


_WORDS = st.sampled_from(
    ["mail", "file", "weather", "city", "send", "list", "convert", "number", "paper", "river", "stone"]
)
_TEXTS = st.lists(_WORDS, min_size=1, max_size=6).map(" ".join)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), _TEXTS), max_size=40), _TEXTS, st.data())
def test_the_order_of_adding_and_removing_does_not_matter(
    operations: list[tuple[int, str]], query: str, data: st.DataObject
) -> None:
    """An index that took a long way gives what a fresh one with the same components gives."""
    long_way, there = Index(), dict[str, Described]()
    for number, text in operations:
        key = f"k{number}"
        if key in there and data.draw(st.booleans()):
            long_way.remove(key)
            del there[key]
        else:
            there[key] = Described(key, text)
            long_way.add(key, there[key])
    fresh = Index()
    for key, one in there.items():
        fresh.add(key, one)
    found, expected = long_way.search(query, limit=50), fresh.search(query, limit=50)
    assert set(_keys(found)) == set(_keys(expected))


def test_many_removals_are_forgotten() -> None:
    made = Index()
    chance = random.Random(1)
    for number in range(400):
        made.add(f"k{number}", Described(f"k{number}", " ".join(chance.choices(["red", "green", "blue"], k=4))))
        if number >= 10:
            made.remove(f"k{number - 10}")
    assert len(made) == 10
    assert set(_keys(made.search("red green blue k399", limit=100))) == {f"k{n}" for n in range(390, 400)}
    assert len(made._keys) < 100
