"""The index: documents are added one by one, any text is a query, a damaged file is built anew."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from agentorchestra.tools.files.documents import DocumentPart, PartsDocument, PdfDocument, TextDocument
from agentorchestra.tools.files.index import PassageIndex, Prepared, SlowQueryError, prepare
from agentorchestra.tools.files.readers import Stopped, parse_table


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


@settings(max_examples=examples(300), deadline=None)
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


# -- many documents ----------------------------------------------------------------------------------------------------


def test_a_search_means_as_many_documents_as_it_names() -> None:
    names = [f"{number:064x}" for number in range(40_000)]  # more than a statement takes values
    with PassageIndex() as index:
        for number in (0, 7, 39_999, 50_000):
            index.add(f"{number:064x}", TextDocument(f"The otter of river {number} swims."))
        assert {hit.sha256 for hit in index.search("otter", names, limit=50)} == {names[0], names[7], names[39_999]}
        assert sorted(index.problems(names)) == [names[0], names[7], names[39_999]]
        assert index.search("otter", names[1:7]) == []


def test_equally_good_passages_come_in_the_order_of_the_files() -> None:
    with PassageIndex() as index:
        for name in ("b", "c", "a"):
            index.add(name, TextDocument(f"The otter swims in {name}."))
        assert [hit.sha256 for hit in index.search("otter", ["a", "b", "c"])] == ["a", "b", "c"]
        assert [hit.sha256 for hit in index.search("otter", ["c", "a", "b"], limit=2)] == ["c", "a"]


def test_costly_documents_are_kept(tmp_path: Path) -> None:
    pdf = PdfDocument(("The first page.", "The second page, with ünïcode.\n"))
    with PassageIndex(tmp_path) as index:
        index.add("pdf", pdf)
        index.add("text", TextDocument("The otter swims."))
    with PassageIndex(tmp_path) as again:
        assert again.document("pdf") == pdf
        assert again.document("text") is None
        assert again.document("other") is None


def test_problems_are_remembered_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with PassageIndex(tmp_path) as index:
        index.put([("bad", Prepared(problem="{name} is corrupt.")), ("good", prepare(TextDocument("An otter.")))])
        assert index.problems(["bad", "good", "none"]) == {"bad": "{name} is corrupt.", "good": ""}
        assert not index.has("bad") and index.has("good")
        monkeypatch.setattr("agentorchestra.tools.files.index.PROBLEM_S", -1.0)
        assert index.problems(["bad", "good"]) == {"good": ""}
        assert index.add("bad", TextDocument("An otter after all.")) == 1
        assert index.problems(["bad", "good"]) == {"bad": "", "good": ""}
        index.put([("good", Prepared(problem="{name} is gone."))])
        assert {hit.sha256 for hit in index.search("otter", ["bad", "good"])} == {"bad", "good"}


def test_documents_are_added_together_or_not_at_all(tmp_path: Path) -> None:
    broken = Prepared(rows=[("otter", "", "line 1", "otter"), ("otter", "", object(), "otter")])  # type: ignore[list-item]
    with PassageIndex(tmp_path) as index:
        with pytest.raises(sqlite3.Error):
            index.put([("one", prepare(TextDocument("An otter."))), ("two", broken)])
        assert index.problems(["one", "two"]) == {}
        assert index.search("otter", ["one", "two"]) == []
        assert index.add("one", TextDocument("An otter.")) == 1


def test_an_index_of_another_version_is_built_anew(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "index.db") as old:
        old.execute("CREATE TABLE documents (sha256 TEXT PRIMARY KEY, pages TEXT)")
        old.execute("CREATE VIRTUAL TABLE passages USING fts5 (words, sha256 UNINDEXED)")
        old.execute("INSERT INTO documents VALUES ('one', NULL)")
        old.execute("PRAGMA user_version = 1")
    old.close()
    with PassageIndex(tmp_path) as index:
        assert not index.has("one")
        index.add("one", TextDocument("An otter."))
        assert index.search("otter", ["one"])


def test_a_query_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with PassageIndex() as index:
        index.add("one", TextDocument("\n\n".join(f"Otter number {number}." for number in range(5_000))))
        monkeypatch.setattr("agentorchestra.tools.files.index.QUERY_S", -1.0)
        with pytest.raises(SlowQueryError):
            index.search("otter number", ["one"])
        monkeypatch.undo()
        stop = threading.Event()
        stop.set()
        with pytest.raises(Stopped):
            index.search("otter number", ["one"], 5, stop)
        assert index.search("otter number", ["one"])


def test_documents_with_parts_are_found_and_kept_with_them(tmp_path: Path) -> None:
    sheet = parse_table("city,people\nBonn,336000\n")
    assert sheet is not None
    book = PartsDocument(
        (DocumentPart("Cities", sheet), DocumentPart("notes.txt", TextDocument("The otter swims.\n"), 17)),
        "application/zip",
        ("cut",),
    )
    with PassageIndex(tmp_path) as index:
        index.add("book", book)
        assert [hit.place for hit in index.search("Bonn", ["book"])] == ["Cities!row 2"]
        assert [hit.place for hit in index.search("otter", ["book"])] == ["notes.txt!line 1"]
        assert not index.search("A2", ["book"])  # an address is no word of the row
        assert index.document("book") == book
