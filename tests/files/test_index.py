"""The index: documents are added one by one, any text is a query, a damaged file is built anew."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra.tools.files.index import PassageIndex
from agentorchestra.tools.files.readers import Stopped, TextDocument, parse_table


def test_documents_are_added_without_a_rebuild(tmp_path: Path) -> None:
    with PassageIndex(tmp_path) as index:
        assert index.add("one", TextDocument("The heron stands.\nThe otter swims.")) == 2
        assert [hit.text for hit in index.search("otters", ["one"])] == ["The otter swims."]
        assert index.add("two", TextDocument("An otter sleeps on line one.")) == 1
        assert index.add("two", TextDocument("other content under the same hash")) == 0
        assert {hit.sha256 for hit in index.search("otter", ["one", "two"])} == {"one", "two"}
        assert {hit.sha256 for hit in index.search("otter", ["two"])} == {"two"}
    with PassageIndex(tmp_path) as again:
        assert again.has("one")
        assert not again.has("three")
        assert again.search("heron", ["one"])[0].place == "line 1"


def test_passages_with_more_of_the_query_come_first() -> None:
    lines = [f"In {year} the mill at Arn made {year * 3} sacks." for year in range(1900, 1990)]
    with PassageIndex() as index:
        index.add("one", TextDocument("\n".join(lines)))
        best = index.search("How many sacks did the mill at Arn make in 1954?", ["one"], limit=3)
    assert best[0].text == "In 1954 the mill at Arn made 5862 sacks."
    assert len(best) == 3


def test_column_names_in_one_word_are_found_by_their_parts() -> None:
    table = parse_table("country,lifeExp,gross_product\nMali,54.5,9\n")
    assert table is not None
    with PassageIndex() as index:
        index.add("one", table)
        assert index.search("life", ["one"])
        assert index.search("product", ["one"])
        assert not index.search("A2", ["one"])


@pytest.fixture(scope="module")
def small() -> PassageIndex:
    index = PassageIndex()
    index.add("one", TextDocument("plain words here"))
    return index


@settings(max_examples=300, deadline=None)
@given(query=st.text(max_size=80))
def test_any_text_is_a_query(small: PassageIndex, query: str) -> None:
    small.search(query, ["one"])


@pytest.mark.parametrize(
    "query", ['"', "NEAR(", "a OR", "words:x", "-words", "wor*", "(", "AND", "x'; DROP TABLE passages"]
)
def test_operators_mean_nothing(small: PassageIndex, query: str) -> None:
    small.search(query, ["one"])
    assert small.search("plain", ["one"])


def test_a_damaged_index_is_built_anew(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_bytes(b"this is no database at all, only a file of that name" * 100)
    with PassageIndex(tmp_path) as index:
        index.add("one", TextDocument("The otter swims."))
        assert index.search("otter", ["one"])


def test_a_stopped_thread_adds_nothing(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with PassageIndex(tmp_path) as index:
        with pytest.raises(Stopped):
            index.add("one", TextDocument("The otter swims."), stop)
        assert not index.has("one")


def test_threads_and_objects_share_a_file(tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with PassageIndex(tmp_path) as index:
                for document in range(5):
                    index.add(f"{number}-{document}", TextDocument(f"Otter number {number} of {document}."))
                    index.search("otter", [f"{number}-{document}"])
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    with PassageIndex(tmp_path) as index:
        assert len(index.search("otter", [f"{n}-{d}" for n in range(6) for d in range(5)], limit=50)) == 30
