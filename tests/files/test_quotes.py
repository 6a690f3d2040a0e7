"""Quotes are compared as a person would: past marks and kinds of dashes, never past a figure, a sign or a "not"."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.files.makers import png
from tests.support.examples import examples
from tests.support.files import FakeContext

from agentorchestra.core.content import TextBlock
from agentorchestra.tools.files import file_tools, verify_quote
from agentorchestra.tools.files.description import Quote
from agentorchestra.tools.files.documents import DocumentPart, PartsDocument, PdfDocument, TableDocument, TextDocument
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import alike, place_of, quote_stands, stands_in_blocks
from agentorchestra.tools.files.readers import read_document_sync
from agentorchestra.tools.files.tables import labelled_views, row_text, table_view

FAR = "far " * 500


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("Total of 5", "The **Total** of `5` was"),
        ("**Total** of 5", "The Total of 5 was"),
        ("see the docs page", "see the [docs](http://x.y/z) page"),
        ("http://x.y/z", "see the [docs](http://x.y/z) page"),
        ("Title one two", "# Title\n- one\n* two"),
        ("population | 336", "city,Bonn;population,336"),
        ("Kenya\t1952", "Kenya, 1952"),
        ("country: Kenya; year: 1952", "A7 country: Kenya; B7 year: 1952"),
        ("A7 Kenya; B7 1952", "Kenya,1952"),
        ("12\tfoo bar\n13\tbaz", "foo bar\nbaz"),
        ("foo bar baz", "12\tfoo bar\n13\tbaz"),
        ("a b", "a\u00a0\n b"),
        ('"Don\u2019t" \u2013 he said', "\u201cDon't\u201d \u2014 he said"),
        ("from 2010\u20132015", "from 2010-2015."),
        ("it was -5", "It was \u22125 \u00b0C"),
        ("fine paper", "\ufb01ne pa\u00adper"),
        ("international trade", "inter-\nnational trade"),
        ("well-known fact", "a well-\nknown fact"),
        ("10^2", "about 10\u00b2"),
        ("1,000 people", "some 1,000 people"),
        ("it cost 3,14", "it cost 3,14."),
        ("\u65e5\u672c\u8a9e", "\u3053\u308c\u306f\u65e5\u672c\u8a9e\u3067\u3059"),
        ("the harv\u2026", "the harvest of 1990"),
        ("...the harvest of 1990...", "of the harvest of 1990 in all"),
        ("The first part of it \u2026 and the last part", "The first part of it, then more, and the last part."),
        ("The first part of it [...] and the last part", "The first part of it, then more, and the last part."),
        ("=======", "a\n=======\nb"),
    ],
)
def test_what_a_person_reads_past_makes_no_difference(quote: str, text: str) -> None:
    assert alike(quote, text)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("336 people", "1336 people"),
        ("33", "336"),
        ("33\u2026", "336"),
        ("314", "3.14"),
        ("3", "3.14"),
        ("1.5", "1,5"),
        ("1", "1,000 people"),
        ("1000", "1 000"),
        ("12", "1 2"),
        ("102", "10\u00b2"),
        ("11/2", "1\u00bd"),
        ("12:30", "12.30"),
        ("it was 5", "it was -5"),
        ("it was \u22125", "it was 5"),
        ("x > 5", "x < 5"),
        ("x + y", "x - y"),
        ("it was effective", "it was not effective"),
        ("possible", "impossible"),
        ("toxic", "non-toxic"),
        ("were", "we're"),
        ("A3 paper", "A4 paper"),
        ("Q3 revenue rose", "revenue rose"),
        ("99\tfoo", "12\tfoo"),
        ("The drug was ... effective in all patients", "The drug was not effective in all patients"),
        ("The first ... the last", "The first part, then more, and the last part."),
        ("and the last part \u2026 The first part of", "The first part of it, and the last part"),
        (
            "the words at its beginning ... the words at its end",
            f"the words at its beginning {'far ' * 500}the words at its end",
        ),
        ("", "a"),
        ("  ", "a  b"),
        ("***", "a"),
    ],
)
def test_what_a_quote_says_must_stand_there(quote: str, text: str) -> None:
    assert not alike(quote, text)


_WORDS = st.lists(
    st.sampled_from(
        ["one", "Two,", "3.5", "-4", "1,000", "not", "x-y", "`code`", "(see)", "#5", "\u65e5\u672c", "a_b", "**c**"]
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(300), deadline=None)
@given(_WORDS, st.sampled_from([" ", "\n", "  ", " | ", "\t"]), st.data())
def test_any_words_of_a_text_stand_in_it_however_they_are_set(
    words: list[str], between: str, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    quote = words[first : last + 1]
    assert alike(" ".join(quote), between.join(words))


@settings(max_examples=examples(200), deadline=None)
@given(_WORDS, st.data())
def test_a_changed_number_never_stands(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words)))
    quote = [*words[:at], "7316", *words[at:]]
    assume("not" not in words)  # else the quote may be there as it is
    assert not alike(" ".join(quote), " ".join([*words[:at], "7361", *words[at:]]))
    assert not alike(" ".join(quote), " ".join([*words[:at], "not", "7316", *words[at:]])) or at in (0, len(words))


def test_rows_stand_in_every_form_in_which_they_are_shown() -> None:
    table = TableDocument(("country", "cost, EUR"), (("Kenya", "1,952"), ("Chad", "-7")), 2, delimiter=";")
    for quote in (
        "A2 country: Kenya; B2 cost, EUR: 1,952",
        "country: Kenya; cost, EUR: 1,952",
        "Kenya;1,952",
        '2,Kenya,"1,952"',
        "| Kenya | 1,952 |",
        "A2 Kenya",
        "Kenya",
    ):
        assert quote_stands(table, "row 2", quote), quote
    assert quote_stands(table, "rows 2-3", '2,Kenya,"1,952"\n3,Chad,-7')
    assert quote_stands(table, "B2", "B2: 1,952")
    assert not quote_stands(table, "row 2", "B3 1,952")
    assert not quote_stands(table, "row 2", "3,Kenya,1,952")
    assert not quote_stands(table, "row 3", "7")


@pytest.mark.parametrize(
    ("place", "quote", "stands"),
    [
        ("row 3", "A3 country: Chad; B3 cost, EUR: -7", True),
        ("row 3", "B3 cost, EUR: -7", True),
        ("row 3", "Chad,-7", True),
        ("rows 2-3", "A2 country: Kenya; B2 cost, EUR: 1,952", True),
        ("row 1", "A1: country; B1: cost, EUR", True),
        ("A2:B3", "B2 cost, EUR: 1,952", True),
        ("B2:B3", "B3 cost, EUR: -7", True),
        ("row 3", "B3 cost, EUR: 7", False),
        ("row 3", "B2 cost, EUR: -7", False),
        ("row 3", "A3 cost, EUR: -7", False),
    ],
)
def test_rows_that_were_read_stand_as_they_are_found_too(place: str, quote: str, stands: bool) -> None:
    table = TableDocument(("country", "cost, EUR"), (("Kenya", "1,952"), ("Chad", "-7")), 2, delimiter=";")
    where = parse_place(place)
    assert where is not None
    view = table_view(table, where, 1_000)
    assert stands_in_blocks(quote, [TextBlock(text=view.text)]) is stands


def test_rows_of_a_table_without_names_of_columns_stand_as_they_are_found_too() -> None:
    table = TableDocument(("A", "B"), (("Kenya", "1,952"), ("Chad", "-7")), 1)
    for place in ("rows 1-2", "row 2"):
        where = parse_place(place)
        assert where is not None
        blocks = [TextBlock(text=table_view(table, where, 1_000).text), TextBlock(text="row,A: no such view")]
        assert stands_in_blocks(row_text(table, 2), blocks) and not stands_in_blocks("A2 A: Kenya", blocks)
    assert labelled_views("row,A") == labelled_views("row,A\n1,x\ny") == labelled_views("") == []


@pytest.mark.parametrize(
    ("quote", "stands"),
    [
        ("Kenya; 1,952", True),
        ("Kenya,1952", True),
        ("country: Kenya; year: 1952", True),
        ("A2 Kenya … C2 1952", True),
        ("| Nairobi | 1952 |", True),
        ("Kenya; 1951", False),
        ("Kenya; year: 1,952", False),
        ("1952; Kenya", False),
        ("Kenya; 52", False),
        ("Chad; 1952", False),
    ],
)
def test_some_cells_of_a_row_stand_in_it(quote: str, stands: bool) -> None:
    head = ("country", "capital", "year", "cost")
    table = TableDocument(head, (("Kenya", "Nairobi", "1952", "1,952"), ("Chad", "Ndjamena", "1960", "-7")), 2)
    assert quote_stands(table, "row 2", quote) is stands


def test_lines_stand_with_the_numbers_that_are_shown_beside_them() -> None:
    document = TextDocument("alpha\n  beta: 2\ngamma\n")
    assert quote_stands(document, "lines 2-3", "2\t  beta: 2\n3\tgamma")
    assert not quote_stands(document, "lines 2-3", "2\t  beta: 3\n3\tgamma")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["](" + "x" * 200_000, "[" * 200_000, "\t" * 200_000, "1," * 100_000, ">" * 200_000])
def test_no_text_makes_the_comparison_slow(text: str) -> None:
    began = time.process_time()
    assert not alike("words that stand \u2026 nowhere in it at all", text)
    assert time.process_time() - began < 5


PAPER = """# Results

| city | people | change |
|---|---:|---|
| Ulm | 126,329 | **-1.5 %** |
| Bonn | 336,465 | +0.2 % |

- The *first* point, see [the annex](annex.md).
- `x = -3.5` is "the second" – of two.

> It is not the end.
"""
SHEET = 'city;people;note\nUlm;126,329;"a; b"\nBonn;336;-5\nKiel;;"two\nlines"\n'


async def shown(path: Path, **arguments: str) -> list[tuple[str, str]]:
    """The places that `read_file` prints, with the text that stands there."""
    (read_file,) = (tool for tool in file_tools() if tool.name == "read_file")
    result = await read_file.call({"name": path.name, **arguments}, FakeContext([path], path.parent / "run"))
    blocks = [one for one in result.content if isinstance(one, TextBlock) and one.source is not None]
    return [(one.source.place, one.text) for one in blocks if one.source is not None and one.source.place]


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("paper.md", PAPER, ""),
        ("paper.md", PAPER, "lines 5-9"),
        ("code.py", "def f(x):\n\treturn x - 5  # not +5\n\n\n# end\n", ""),
        ("crlf.txt", "one\r\n\r\n=======\r\ntwo -5\r\n", ""),
        ("sheet.csv", SHEET, ""),
        ("sheet.csv", SHEET, "row 2"),
        ("sheet.csv", SHEET, "B2:C3"),
        ("sheet.csv", SHEET, "B2"),
        ("table.tsv", "a\tb\n1\t2.5\n3\t-4\n", ""),
    ],
)
async def test_what_is_shown_stands_where_it_is_said_to(tmp_path: Path, name: str, text: str, part: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    found = await shown(path, **({"part": part} if part else {}))
    assert found
    for place, told in found:
        assert verify_quote(path, place, told), (place, told)
        for line in told.splitlines():
            if line.rpartition("\t")[2].strip() and not (name.endswith("sv") and line.startswith((",A", "row,A"))):
                assert verify_quote(path, place, line), (place, line)


@pytest.mark.parametrize(
    ("place", "quote", "found"),
    [
        ("lines 2-3", "beta is two, gamma", "lines 2-3"),
        ("line 1", "beta is two, gamma", "lines 2-3"),
        ("line 4", "beta is two", "line 2"),
        ("line 5", "beta is two", None),
        ("line 3", "alpha alpha alpha", None),
        ("", "beta is two", "line 2"),
        ("", "beta", "line 2"),
        ("", "alpha", None),
        ("somewhere", "beta is two", None),
        ("line 3", "beta", None),
        ("line 1", "beta is not two", None),
        ("line 1", "beta is … now delta", None),
    ],
)
def test_a_place_that_is_a_little_off_is_put_right(place: str, quote: str, found: str | None) -> None:
    document = TextDocument("alpha alpha alpha\nbeta is two,\r\ngamma is three\ndelta\nalpha alpha alpha\n\n")
    assert place_of(document, place, quote) == found


def test_a_row_or_page_that_is_off_is_put_right_and_a_cell_is_not() -> None:
    table = TableDocument(("city", "people", "land"), (("Ulm", "126", "D"), ("Bonn", "336", "D")), 2)
    assert place_of(table, "row 2", "Bonn, 336, D") == "row 3"
    assert place_of(table, "line 3", "Bonn,336,D") == "row 3", "it was read as a text"
    assert place_of(table, "line 3", "Bonn,337,D") is None
    assert place_of(table, "", "Bonn,336") == "row 3"
    assert place_of(table, "B2", "336") is None
    assert place_of(table, "row 2", "336") is None
    book = PartsDocument((DocumentPart("Sales", table), DocumentPart("Notes", TextDocument("Bonn grew by 336.\n"))))
    assert place_of(book, "Sales", "Bonn,336,D") == "Sales"
    assert place_of(book, "", "Bonn grew by") == "Notes!line 1"
    pages = PdfDocument(("One is here.", "Two is there.", "Nothing more."))
    assert place_of(pages, "p. 1", "Two is there.") == "p. 2"
    assert place_of(pages, "p. 3", "One is here.") is None


async def test_words_in_a_picture_are_nothing_that_code_looks_up(tmp_path: Path) -> None:
    (tmp_path / "sign.png").write_bytes(png(40, 30))
    (tmp_path / "a.txt").write_text("A line of words.\n")
    (check_quotes,) = (tool for tool in file_tools() if tool.name == "check_quotes")
    ctx: Any = FakeContext([tmp_path / "sign.png", tmp_path / "a.txt"], tmp_path / "run")
    quotes = [
        Quote(source="sign.png", place="", quote="OPEN"),
        Quote(source="a.txt", place="line 1", quote="A **line** of words"),
        Quote(source="a.txt", place="line 2", quote="A line of words"),
        Quote(source="a.txt", place="line 1", quote="A line of no words"),
        Quote(source="b.txt", place="line 1", quote="A line of words"),
    ]
    result: Any = await check_quotes.call({"quotes": quotes}, ctx)
    assert getattr(result, "content", result) == [None, True, "line 1", False, False]


def test_what_is_told_of_a_file_may_be_quoted_and_a_place_may_be_named_in_what_was_shown(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["name", "area"])
    book.active.append(["P20", 18.5])
    hidden = book.create_sheet("Draft")
    hidden.append(["Do not publish"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "plots.xlsx")
    document = read_document_sync(tmp_path / "plots.xlsx")
    assert place_of(document, "", "Draft: this sheet is hidden.") == ""
    assert place_of(document, "", "Draft: this sheet is locked.") is None
    assert place_of(document, "Sheet!B2", "this sheet is hidden") is None
    assert place_of(document, "", "hidden") is None
    assert place_of(document, "Sheet!rows 1-2, row 2", "2,P20,18.5") == "Sheet!rows 1-2, row 2"
    assert place_of(document, "Sheet!rows 1-2, row 2", "2,P20,18.6") is None
