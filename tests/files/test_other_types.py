"""Types that are like others: shows, open slides, binary workbooks, what Word wrote before 2007; text boxes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.files import makers
from tests.files.test_merged import document, only_table
from tests.support.file_tools import used
from tests.support.files import FakeContext

from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files import check_input, verify_quote
from agentorchestra.tools.files.documents import PartsDocument, TextDocument, leaves
from agentorchestra.tools.files.formats.base import Refused
from agentorchestra.tools.files.quotes import place_of
from agentorchestra.tools.files.readers import read_document_sync


def texts(data: bytes, name: str) -> dict[str, str]:
    return {path: leaf.text for path, leaf in leaves(document(data, name)) if isinstance(leaf, TextDocument)}


async def test_a_cell_of_a_table_in_word_is_read_and_quoted_by_its_address(tmp_path: Path) -> None:
    gap = "<w:tr><w:trPr><w:gridBefore w:val='1'/></w:trPr>"
    cells = "".join(f"<w:tc><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>" for text in ("Port", "Depth"))
    inner = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>in</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl>"
    below = f"<w:tc><w:p><w:r><w:t>3.1 m</w:t></w:r></w:p>{inner}<w:p/></w:tc></w:tr>"
    body = f"<w:tbl><w:tr>{cells}</w:tr>{gap}{below}</w:tbl>"
    path = tmp_path / "a.docx"
    path.write_bytes(makers.docx_of(body))
    ctx = FakeContext([path], tmp_path / "run")
    shown = [one.text for one in await used(ctx, "read_file", name="a.docx")]
    assert shown == ["1\tTable 1 (A1:B2)\n2\t\n3\t| Port | Depth |\n4\t|---|---|\n5\t|  | 3.1 m in |"]
    (cell,) = [one.text for one in await used(ctx, "read_file", name="a.docx", part="table 1!B2")]
    assert cell == "3.1 m in"
    assert verify_quote(path, "table 1!B2", "3.1 m in") and verify_quote(path, "table 1!row 2", "B2 Depth: 3.1 m in")
    assert not verify_quote(path, "table 1!A2", "3.1 m in")
    assert place_of(document(path.read_bytes(), "a.docx"), "", "3.1 m in") == "line 5"


def test_the_table_of_a_mail_has_no_address() -> None:
    page = "<html><body><table><tr><td rowspan=2>one</td><td>two</td></tr><tr><td>three</td></tr></table></body></html>"
    mail = f"From: a@b.c\nTo: d@e.f\nSubject: x\nContent-Type: text/html\n\n{page}".encode()
    (text,) = texts(mail, "a.eml").values()
    assert text.endswith("| one | two |\n|---|---|\n| one | three |\n")


@pytest.mark.parametrize("kind", ["slideshow", "template"])
def test_a_show_and_a_template_are_read_as_slides(kind: str) -> None:
    deck = makers.replaced(
        makers.pptx([("One", "The heron stands.")]),
        "[Content_Types].xml",
        b"presentation.main",
        f"{kind}.main".encode(),
    )
    assert texts(deck, "a.ppsx") == {"slide 1": "# One\nThe heron stands.\n"}


def test_a_refusal_says_nothing_of_where_an_object_lies(tmp_path: Path) -> None:
    path = tmp_path / "a.pptx"
    deck = makers.pptx([("One", "Two")])
    path.write_bytes(makers.replaced(deck, "[Content_Types].xml", b"presentation.main", b"picture.main"))
    with pytest.raises(FileInputError, match="is corrupt: this document cannot be read") as refusal:
        read_document_sync(path)
    assert "0x" not in str(refusal.value)


def test_slides_of_opendocument() -> None:
    deck = makers.odp([["Zoo", "The heron stands."], [], ["It weighs 417 grams."]])
    assert texts(deck, "a.odp") == {"slide 1": "Zoo\n\nThe heron stands.\n", "slide 3": "It weighs 417 grams.\n"}


def test_a_binary_workbook(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsb"
    path.write_bytes(makers.xlsb("Zoo", [["Animal", "Grams"], ["", ""], ["Quoll", 417.0], ["", 2.5]]))
    assert check_input(path)[0] == "application/vnd.ms-excel.sheet.binary.macroEnabled.12"
    found = read_document_sync(path)
    table = only_table(found)
    assert table.header == ("Animal", "Grams")
    assert [table.cell(3, 1), table.cell(3, 2), table.cell(4, 2)] == ["Quoll", "417", "2.5"]
    assert found.notes == (
        "only values and merged cells are told, errors (#N/A) as empty cells; save it as .xlsx to have all of it",
    )
    assert verify_quote(path, "Zoo!B3", "417")


def test_what_a_book_says_of_itself() -> None:
    about = "<dc:title>Herons</dc:title><dc:creator>Ann Lee</dc:creator><dc:creator>Ben</dc:creator>"
    about += "<dc:description>&lt;p>On &lt;i>water&lt;/i> birds.&lt;/p></dc:description>"
    book = makers.replaced(makers.epub(["Words."]), "OEBPS/book.opf", b"<dc:title>A book</dc:title>", about.encode())
    found = document(book, "a.epub")
    assert isinstance(found, PartsDocument)
    assert found.notes == ("title: Herons", "author: Ann Lee", "author: Ben", "description: On *water* birds.")


@pytest.mark.parametrize("suffix", [".xlsx", ".docx", ".pptx", ".odt", ".epub"])
def test_text_that_is_named_as_a_document_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text("<!doctype html><html><body>Sign in</body></html>")
    kind = suffix[1:].upper()
    for work in (check_input, read_document_sync):
        with pytest.raises(FileInputError) as refusal:
            work(path)
        assert str(refusal.value) == (
            f"{path} is corrupt: it is named {suffix} but holds no {kind}; "
            "give the original, or rename it if it is text."
        )


def test_a_page_that_is_named_for_excel_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.xls"
    path.write_text(
        "<html><body><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>"
    )
    assert only_table(read_document_sync(path)).cell(2, 2) == "2"


def test_the_text_boxes_of_a_workbook() -> None:
    import io

    import xlsxwriter  # type: ignore[import-untyped]

    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer) as book:
        sheet = book.add_worksheet("S")
        sheet.write(0, 0, "a")
        sheet.insert_textbox("B3", "sold in May\nor June", {"width": 10, "height": 10})
    (trait,) = only_table(document(buffer.getvalue(), "a.xlsx")).traits
    assert (trait.kind, trait.value, trait.areas) == ("text box", "sold in May\nor June", ((3, 2, 3, 2),))


def test_the_text_boxes_of_an_open_workbook() -> None:
    from odf.draw import Frame, TextBox  # type: ignore[import-untyped]
    from odf.table import TableCell  # type: ignore[import-untyped]
    from odf.text import P  # type: ignore[import-untyped]

    frame, box, cell = Frame(), TextBox(), TableCell(valuetype="string")
    box.addElement(P(text="sold in May"))
    frame.addElement(box)
    cell.addElement(frame)
    (trait,) = only_table(document(makers.ods({"S": [["a"], [None, cell]]}), "a.ods")).traits
    assert (trait.kind, trait.value, trait.areas) == ("text box", "sold in May", ((2, 2, 2, 2),))


def test_a_text_of_word_before_2007_names_the_package_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.doc"
    path.write_bytes(makers.doc("The heron stands.\n"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for work in (check_input, read_document_sync):
        with pytest.raises(
            FileInputError, match=r"needs antiword to be read \(Debian: apt install antiword\); install"
        ):
            work(path)


@pytest.mark.skipif(not shutil.which("catdoc"), reason="catdoc is not installed (scripts/setup-system.sh)")
def test_a_text_of_word_before_2007() -> None:
    text = "The heron stands.\nIt weighs 417 grams.\n"
    assert texts(makers.doc(text), "a.doc") == {"": text}
    with pytest.raises(Refused, match="no_text"):
        texts(makers.doc(""), "a.doc")
