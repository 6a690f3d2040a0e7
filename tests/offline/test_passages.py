"""What the offline model takes from readings and searches: the words as they stand, at the place they are cited by."""

from __future__ import annotations

import pytest

from agentorchestra.models.offline.passages import Cell, passages_in, passages_of
from agentorchestra.models.render import RenderedContent

TABLE = "row,A,B\n1,city,people\n2,Ulm,126\n3,,336"
LINES = "4\tThe mill was closed in 1931. It had two\n5\twheels. A baker bought it.\n6\t\n7\t- one item\n8\t- another"


def read(place: str, text: str) -> list[tuple[str, str]]:
    content = RenderedContent(kind="file", ref="notes.txt", place=place, text=text)
    return [(passage.place, passage.text) for passage in passages_of(content)]


@pytest.mark.parametrize(
    ("place", "text", "passages"),
    [
        ("rows 1-3", TABLE, [("row 2", "A2 city: Ulm; B2 people: 126"), ("row 3", "B3 people: 336")]),
        ("Towns!A1:B3", TABLE, [("Towns!A2:B2", "A2 city: Ulm; B2 people: 126"), ("Towns!A3:B3", "B3 people: 336")]),
        ("rows 2-3", "row,A,B\n2,Ulm,126", [("row 2", "A2 A: Ulm; B2 B: 126")]),
        (
            "lines 4-8",
            LINES,
            [
                ("lines 4-5", "The mill was closed in 1931. It had two\nwheels."),
                ("line 5", "A baker bought it."),
                ("line 7", "- one item"),
                ("line 8", "- another"),
            ],
        ),
        ("p. 3", "Short. As it was found.", [("p. 3", "Short. As it was found.")]),
        ("p. 3", "Many words. " * 80, [("p. 3", "Many words.")] * 80),
    ],
)
def test_passages_have_the_place_they_are_cited_by(place: str, text: str, passages: list[tuple[str, str]]) -> None:
    assert read(place, text) == passages


def test_the_row_of_a_search_has_its_cells() -> None:
    head = '<content id="0123abcd" source="file:t.csv" place="row 2" trust="untrusted">'
    (row,) = passages_in(f'{head}\nA2 city: Ulm; B2 of: a: b\n</content id="0123abcd">')
    assert row.cells == (Cell("A2", "city", "Ulm"), Cell("B2", "of", "a: b"))


def test_the_notes_of_a_summary_are_passages() -> None:
    (note,) = passages_in("- t.csv (A2): Ulm\n- no place: here")
    assert (note.ref, note.place, note.text) == ("t.csv", "A2", "Ulm")
