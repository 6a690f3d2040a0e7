"""Places, passages and quotes: every passage stands verbatim where it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files.conftest import MakePdf
from tests.support.examples import examples

from agentorchestra.tools.files.documents import TableDocument, TextDocument
from agentorchestra.tools.files.passages import passages
from agentorchestra.tools.files.places import Place, column_name, column_number, parse_place
from agentorchestra.tools.files.quotes import place_text, quote_stands, verify_quote
from agentorchestra.tools.files.readers import parse_table


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("line 12", "line 12"),
        ("Lines 12-14", "lines 12-14"),
        ("lines 14 to 12", "lines 12-14"),
        ("p. 3", "p. 3"),
        ("page 3", "p. 3"),
        ("pp. 3–4", "pp. 3-4"),
        ("row 7", "row 7"),
        ("b7", "B7"),
        ("B2:D9", "B2:D9"),
        ("D9:B2", "B2:D9"),
        ("AA10", "AA10"),
    ],
)
def test_places_are_read_and_written(text: str, canonical: str) -> None:
    assert str(parse_place(text)) == canonical


@pytest.mark.parametrize("text", ["", "somewhere", "line", "line x", "12", "B", "p. 3.5", "lines 1-2-3"])
def test_other_words_are_no_places(text: str) -> None:
    assert parse_place(text) is None


@given(st.integers(min_value=1, max_value=20_000))
def test_column_names(number: int) -> None:
    assert column_number(column_name(number)) == number


def _texts(text: str) -> list[tuple[str, str]]:
    return [(passage.place, passage.text) for passage in passages(TextDocument(text))]


def test_sentences_with_their_lines() -> None:
    text = "First one. Second\nruns on. Mr. J. Smith paid 3.5 percent.\n\nAnother paragraph\n"
    assert _texts(text) == [
        ("line 1", "First one."),
        ("lines 1-2", "Second\nruns on."),
        ("line 2", "Mr. J. Smith paid 3.5 percent."),
        ("line 4", "Another paragraph"),
    ]


def test_list_items_headings_and_labels_are_apart() -> None:
    text = "# Title\n- one thing\n- another\n  that goes on\nName: Ann\nAge: 31\n"
    assert [place for place, _ in _texts(text)] == ["line 1", "line 2", "lines 3-4", "line 5", "line 6"]


def test_a_sentence_that_speaks_of_the_one_before_stays_with_it() -> None:
    text = "Velt Works was founded in 1954. It employs 300 people. Other firms left."
    assert [one for _, one in _texts(text)] == [
        "Velt Works was founded in 1954. It employs 300 people.",
        "Other firms left.",
    ]


def test_headings_are_searched_along() -> None:
    found = list(passages(TextDocument("## Opening hours\n\nFrom nine to five.\n")))
    assert [(passage.heading, passage.text) for passage in found][-1] == ("Opening hours", "From nine to five.")


_TEXT = st.text(alphabet=st.sampled_from("ab. \n\t?!X1-#:;,é"), max_size=300)


@settings(max_examples=examples(300), deadline=None)
@given(_TEXT)
def test_every_passage_of_a_text_stands_at_its_place(text: str) -> None:
    document = TextDocument(text)
    for passage in passages(document):
        place = parse_place(passage.place)
        assert place is not None
        assert passage.text in next(place_text(document, place))
        assert quote_stands(document, passage.place, passage.text)


@settings(max_examples=examples(200), deadline=None)
@given(_TEXT)
def test_no_word_of_a_text_is_lost(text: str) -> None:
    document = TextDocument(text)
    kept = "".join(passage.text for passage in passages(document))
    assert set("abX1é") & set(text) <= set(kept) | (set("1") if "1" not in kept else set())


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.text(alphabet="ab1;: \n", max_size=6), min_size=2, max_size=4), min_size=1, max_size=6))
def test_every_row_stands_at_its_place(rows: list[list[str]]) -> None:
    table = TableDocument(("x", "y"), tuple(tuple(row) for row in rows), 2)
    for passage in passages(table):
        assert quote_stands(table, passage.place, passage.text)
    for number, row in enumerate(rows, 2):
        for column, cell in enumerate(row, 1):
            if cell.strip():
                assert quote_stands(table, str(Place("cell", number, number, column, column)), cell)


def test_quotes_are_checked_word_for_word_but_for_white_space(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One line.\nA sentence\n   over two lines.\n")
    assert verify_quote(path, "lines 2-3", "A sentence\n   over two lines.")
    assert verify_quote(path, "lines 2-3", "A sentence over two lines.")
    assert not verify_quote(path, "line 2", "A sentence over two lines.")
    assert not verify_quote(path, "lines 2-3", "A sentence over three lines.")
    assert not verify_quote(path, "lines 2-3", "  ")
    assert not verify_quote(path, "line 9", "One line.")
    assert not verify_quote(path, "p. 1", "One line.")


def test_quotes_in_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("city,people\nUlm,126\nBonn,336\n")
    assert verify_quote(path, "B3", "336")
    assert not verify_quote(path, "B2", "336")
    assert verify_quote(path, "row 3", "Bonn,336")
    assert verify_quote(path, "row 3", "A3 city: Bonn; B3 people: 336")
    assert verify_quote(path, "row 3", "city: Bonn; people: 336")
    assert verify_quote(path, "A2:B3", "Ulm,126")
    assert verify_quote(path, "B1", "people")
    assert not verify_quote(path, "C3", "336")


def test_quotes_in_pdfs(make_pdf: MakePdf) -> None:
    path = make_pdf("The first page.", "The second page.")
    assert verify_quote(path, "p. 2", "The second page.")
    assert not verify_quote(path, "p. 1", "The second page.")
    assert not verify_quote(path, "p. 3", "The second page.")


def test_a_table_that_is_none() -> None:
    assert parse_table("\n\n") is None
