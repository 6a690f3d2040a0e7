"""One file of every type with a random fact: found at its place by search and by reading, and quoted from there."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.files import makers
from tests.support.file_tools import used
from tests.support.files import FakeContext

from agentorchestra.core.content import TextBlock, without_numbers
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.tools.files import check_input, verify_quote
from agentorchestra.tools.files.documents import (
    PartsDocument,
    PdfDocument,
    TableDocument,
    TextDocument,
    document_from_json,
    document_to_json,
)
from agentorchestra.tools.files.read import length_of
from agentorchestra.tools.files.readers import read_document_sync
from agentorchestra.workspace import Workspace

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


OFFICE = "application/vnd.openxmlformats-officedocument."
Fact = tuple[str, str]
"""An animal's made-up name, and its made-up weight."""

FILL = "Nothing is said here about any animal."


def _pdf(fact: Fact, folder: Path) -> bytes:
    from fpdf import FPDF

    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    pdf.add_page()
    pdf.multi_cell(0, 6, FILL)
    pdf.add_page()
    with pdf.table() as table:
        for cells in (("Animal", "Grams"), (fact[0], fact[1])):
            row = table.row()
            for cell in cells:
                row.cell(cell)
    return bytes(pdf.output())


def _said(fact: Fact) -> str:
    return f"The {fact[0]} weighs {fact[1]} grams."


def _csv(fact: Fact) -> str:
    return f"animal,grams\nnone,0\n{fact[0]},{fact[1]}\n"


def _xml(fact: Fact) -> str:
    return f'<?xml version="1.0"?>\n<zoo>\n <animal grams="{fact[1]}">{fact[0]}</animal>\n</zoo>\n'


def _xlsx(fact: Fact) -> bytes:
    formula = "=Weights!B3/1"
    return makers.xlsx(
        {
            "Weights": [["Animal", "Kilos"], ["none", 1], ["all", 2]],
            "In grams": [["Animal", "Grams"], [fact[0], formula]],
        },
        saved={formula: int(fact[1])},
    )


# name, how it is made, its media type, the place of the fact, another way to name that place
Case = tuple[str, Callable[[Fact, Path], bytes], str, str, str]
CASES: list[Case] = [
    ("a.txt", lambda f, _: f"{FILL}\n\n{_said(f)}\n".encode(), "text/plain", "line 3", "lines 1-3"),
    ("a.md", lambda f, _: f"# Zoo\n\n{_said(f)}\n".encode(), "text/markdown", "line 3", "lines 3-3"),
    ("a.csv", lambda f, _: _csv(f).encode(), "text/csv", "row 3", "A3:B3"),
    (
        "a.json",
        lambda f, _: json.dumps({"x": 1, "zoo": {f[0]: f[1]}}, indent=1).encode(),
        "application/json",
        "lines 1-6",
        "line 4",
    ),
    (
        "a.jsonl",
        lambda f, _: f'{{"a": 1}}\n{{"{f[0]}": {f[1]}}}\n'.encode(),
        "application/jsonl",
        "lines 1-2",
        "line 2",
    ),
    ("a.xml", lambda f, _: _xml(f).encode(), "application/xml", "lines 1-4", "line 3"),
    (
        "a.html",
        lambda f, _: f"<!doctype html><html><body><h1>Zoo</h1><p>{FILL}</p><p>{_said(f)}</p></body></html>".encode(),
        "text/html",
        "line 5",
        "lines 4-5",
    ),
    (
        "a.ipynb",
        lambda f, _: makers.notebook("weigh()", _said(f)),
        "application/x-ipynb+json",
        "cell 2!lines 3-4",
        "cell 2",
    ),
    ("a.docx", lambda f, _: makers.docx([FILL, _said(f)]), OFFICE + "wordprocessingml.document", "line 3", "lines 1-3"),
    (
        "t.docx",
        lambda f, _: makers.docx([FILL], [["Animal", "Grams"], list(f)]),
        OFFICE + "wordprocessingml.document",
        "line 7",
        "table 1!B2",
    ),
    (
        "a.pptx",
        lambda f, _: makers.pptx([("One", FILL), ("Two", _said(f))]),
        OFFICE + "presentationml.presentation",
        "slide 2!line 2",
        "slide 2",
    ),
    ("a.xlsx", lambda f, _: _xlsx(f), OFFICE + "spreadsheetml.sheet", "In grams!row 2", "'In grams'!A2:B2"),
    (
        "a.xls",
        lambda f, _: makers.xls({"Other": [["a", 1]], "In grams": [["Animal", "Grams"], [f[0], int(f[1])]]}),
        "application/vnd.ms-excel",
        "In grams!row 2",
        "'In grams'!A2:B2",
    ),
    (
        "a.ods",
        lambda f, _: makers.ods({"Other": [["a", 1]], "In grams": [["Animal", "Grams"], [f[0], int(f[1])]]}),
        "application/vnd.oasis.opendocument.spreadsheet",
        "In grams!row 2",
        "'In grams'!A2:B2",
    ),
    (
        "a.odt",
        lambda f, _: makers.odt(["Zoo", FILL, _said(f)]),
        "application/vnd.oasis.opendocument.text",
        "line 5",
        "lines 3-5",
    ),
    ("a.epub", lambda f, _: makers.epub([FILL, _said(f)]), "application/epub+zip", "chapter 2!line 3", "chapter 2"),
    (
        "a.eml",
        lambda f, _: makers.eml("See below.\n", {"zoo.csv": _csv(f).encode()}),
        "message/rfc822",
        "zoo.csv!row 3",
        "zoo.csv!A3:B3",
    ),
    ("a.msg", lambda f, _: makers.msg("Animals", _said(f)), "application/vnd.ms-outlook", "message!line 5", "message"),
    (
        "a.zip",
        lambda f, _: makers.zipped({"data/zoo.csv": _csv(f), "b.txt": FILL}),
        "application/zip",
        "data/zoo.csv!row 3",
        "data/zoo.csv",
    ),
    (
        "nested.zip",
        lambda f, _: makers.zipped({"b.txt": FILL, "inner.zip": makers.zipped({"data/x.xml": _xml(f)})}),
        "application/zip",
        "inner.zip!data/x.xml!lines 1-4",
        "inner.zip!data/x.xml!line 3",
    ),
    (
        "a.tar",
        lambda f, _: makers.tarred({"b/zoo.txt": _said(f).encode()}, "w:"),
        "application/x-tar",
        "b/zoo.txt!line 1",
        "b/zoo.txt",
    ),
    (
        "a.tar.gz",
        lambda f, _: makers.tarred({"zoo.txt": _said(f).encode()}),
        "application/gzip",
        "zoo.txt!line 1",
        "zoo.txt",
    ),
    (
        "a.tar.bz2",
        lambda f, _: makers.tarred({"zoo.txt": _said(f).encode()}, "w:bz2"),
        "application/x-bzip2",
        "zoo.txt!line 1",
        "zoo.txt",
    ),
    (
        "a.tar.xz",
        lambda f, _: makers.tarred({"zoo.txt": _said(f).encode()}, "w:xz"),
        "application/x-xz",
        "zoo.txt!line 1",
        "zoo.txt",
    ),
    ("zoo.csv.gz", lambda f, _: makers.gzipped(_csv(f).encode()), "application/gzip", "row 3", "A3:B3"),
    ("a.pdf", _pdf, "application/pdf", "p. 2 table 1!row 2", "p. 2"),
    (
        "a.pdb",
        lambda f, _: f"HEADER    ZOO\nREMARK   1 {_said(f)}\nATOM      1  N   MET A   1\n".encode(),
        "text/plain",
        "lines 1-2",
        "line 2",
    ),
    (
        "a.py",
        lambda f, _: f"def weigh():\n    # {_said(f)}\n    return {f[1]}\n".encode(),
        "text/plain",
        "lines 1-3",
        "line 2",
    ),
]


@pytest.fixture
def fact() -> Fact:
    chance = random.Random()
    return "".join(chance.choices("bdfgklmnprst", k=8)).capitalize(), str(chance.randint(100_000, 999_999))


LONG = {"a.html", "a.epub", "a.pptx", "t.docx"}
"""Whose readers take seconds to load; others of their kind are read in every test run."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case", [pytest.param(one, id=one[0], marks=[pytest.mark.long] if one[0] in LONG else []) for one in CASES]
)
async def test_a_fact_is_found_at_its_place(case: Case, fact: Fact, tmp_path: Path) -> None:
    name, make, media_type, place, other_place = case
    path = tmp_path / name
    path.write_bytes(make(fact, tmp_path))
    assert check_input(path) == (media_type, path.stat().st_size)
    ctx = FakeContext([path], tmp_path / "run")

    hits = await used(ctx, "search_files", query=fact[0])
    assert any(hit.source and hit.source.place == place and fact[1] in hit.text for hit in hits), hits

    for part in (None, place, other_place):
        shown = await used(ctx, "read_file", name=name, part=part)
        assert any(fact[1] in block.text for block in shown), (part, shown)

    quote = next(hit.text for hit in hits if hit.source and hit.source.place == place)
    assert verify_quote(path, place, quote)
    assert verify_quote(path, other_place, fact[1])
    assert not verify_quote(path, place, fact[1] + "1")
    assert not verify_quote(path, "slide 9!line 1", fact[1])
    document = read_document_sync(path)
    assert document_from_json(json.loads(json.dumps(document_to_json(document)))) == document


def _shown(request: ModelRequest) -> list[TextBlock]:
    """What the last tool gave."""
    message = [one for one in request.messages if one.role == "tool"][-1]
    return [block for block in message.content if isinstance(block, TextBlock)]


ASKED = LONG | {"a.txt", "a.xlsx", "a.pdf", "a.docx", "a.zip", "a.eml"}
"""Asked about in every test run; in the other files the same readers find the fact above."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "case", [pytest.param(one, id=one[0], marks=[] if one[0] in ASKED else [pytest.mark.long]) for one in CASES]
)
async def test_a_question_is_answered_from_the_right_place(case: Case, fact: Fact, tmp_path: Path) -> None:
    """The script looks for the name it was asked about, and may answer only with what it was then shown."""
    name, make, _, place, _ = case
    path = tmp_path / name
    path.write_bytes(make(fact, tmp_path))

    def look(request: ModelRequest) -> Any:
        asked = re.search(r"How heavy is (\w+)\?", "\n".join(one.text for one in request.messages))
        assert asked is not None
        return decide(calls=[call("search_files", query=asked[1], limit=3)])

    def say(request: ModelRequest) -> Any:
        found = [
            (block.source.place, number[0])
            for block in _shown(request)
            if block.source and fact[0] in block.text
            for number in re.finditer(r"\b\d{6}\b", block.text)
        ]
        return decide(calls=[call("done", answer="; ".join(f"{weight} at {where}" for where, weight in found) or "?")])

    async with Workspace(tmp_path / "ws", settings=Settings(system="react")) as ws:
        result = await ws.run(f"How heavy is {fact[0]}?", files=[path], model=ScriptedModel([look, say]))
    assert result.status == RunStatus.COMPLETED, result.error
    assert f"{fact[1]} at {place}" in result.answer


async def test_a_spreadsheet_and_an_xml_of_one_archive_are_joined(fact: Fact, tmp_path: Path) -> None:
    """The weight is filed under a number; whose number that is stands in the other member."""
    number = str(CHANCE.randint(10_000, 99_999))
    path = tmp_path / "both.zip"
    path.write_bytes(
        makers.zipped(
            {
                "names.xml": f'<zoo>\n<animal id="7">Nobody</animal>\n<animal id="{number}">{fact[0]}</animal>\n</zoo>',
                "weights.xlsx": makers.xlsx({"W": [["Id", "Grams"], [7, 1], [int(number), int(fact[1])]]}),
            }
        )
    )

    def find_number(request: ModelRequest) -> Any:
        return decide(calls=[call("search_files", query=fact[0])])

    def find_weight(request: ModelRequest) -> Any:
        found = re.search(rf'id="(\d+)">{fact[0]}', "".join(block.text for block in _shown(request)))
        assert found is not None
        return decide(calls=[call("search_files", query=found[1], limit=10)])

    def say(request: ModelRequest) -> Any:
        found = [
            block.text for block in _shown(request) if block.source and block.source.place == "weights.xlsx!W!row 3"
        ]
        return decide(calls=[call("done", answer=found[0] if found else "?")])

    async with Workspace(tmp_path / "ws", settings=Settings(system="react")) as ws:
        script = ScriptedModel([find_number, find_weight, say])
        result = await ws.run(f"How heavy is {fact[0]}?", files=[path], model=script)
    assert result.answer == f"A3 Id: {number}; B3 Grams: {fact[1]}"


# --- what is special to a type --------------------------------------------------------------------------------------


def test_sheets_have_the_addresses_of_the_workbook(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    rows: list[list[Any]] = [
        [None, None],
        [None, "Item", "Price"],
        [],
        [None, "Tea", 2.5],
        [None, "All", "=SUM(C4:C4)"],
    ]
    path.write_bytes(makers.xlsx({"S": rows}, saved={"=SUM(C4:C4)": 2.5}))
    document = read_document_sync(path)
    assert isinstance(document, PartsDocument)
    sheet = document.parts[0].document
    assert isinstance(sheet, TableDocument)
    assert [sheet.cell(4, 2), sheet.cell(4, 3), sheet.cell(5, 3)] == ["Tea", "2.5", "2.5"]
    assert verify_quote(path, "S!C4", "2.5")
    assert verify_quote(path, "C4", "2.5"), "the only sheet need not be named"


async def test_a_formula_without_a_value_is_given_as_it_is_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(makers.unsaved_xlsx({"S": [["Item", "Price"], ["Tea", 2], ["All", "=SUM(B2:B2)"]]}))
    ctx = FakeContext([path], tmp_path / "run")
    (cell,) = await used(ctx, "read_file", name="a.xlsx", part="S!B3")
    assert cell.text == "=SUM(B2:B2)"
    (about,) = await used(ctx, "describe_files")
    assert "S: rows 1-3 and the cells A1:B3; columns: Item, Price" in about.text
    assert "Note: S: 1 formula(s) without a saved value are given as formulas." in about.text


async def test_parts_that_are_not_there_are_answered_with_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(makers.xlsx({"One": [["a", "b"], [1, 2]], "Two": [["c", "d"], [3, 4]]}))
    ctx = FakeContext([path], tmp_path / "run")
    with pytest.raises(ToolError, match=r"a\.xlsx has no part 'Three!B2'; it has 2 sheets: One, Two"):
        await used(ctx, "read_file", name="a.xlsx", part="Three!B2")
    with pytest.raises(ToolError, match=r"a\.xlsx has no part 'One!Z99'; it has rows 1-2 and the cells A1:B2"):
        await used(ctx, "read_file", name="a.xlsx", part="One!Z99")
    assert [block.text for block in await used(ctx, "read_file", name="a.xlsx", part="two!B2")] == ["4"]


async def test_a_long_member_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    text = "\n\n".join(f"Paragraph {number} tells of otters at length. " * 4 for number in range(1, 301))
    path.write_bytes(makers.zipped({"first.txt": text, "last.txt": "The end."}))
    ctx = FakeContext([path], tmp_path / "run")
    seen: list[str] = []
    part = ""
    for _ in range(40):
        blocks = await used(ctx, "read_file", name="a.zip", part=part)
        places = [block.source.place or "" for block in blocks if block.source is not None]
        assert all(place.startswith("first.txt!lines ") for place in places if place)
        seen += [without_numbers(block) for block in blocks if block.source is not None and block.source.place]
        on = next((found for one in blocks if (found := re.search(r"Read on with part='([^']+)'", one.text))), None)
        if on is None:
            break
        part = on[1]
    assert "\n".join(seen) == text


def test_tables_of_a_pdf_are_read_by_cell(fact: Fact, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(_pdf(fact, tmp_path))
    document = read_document_sync(path)
    assert isinstance(document, PdfDocument)
    assert [(part.name, part.document.kind) for part in document.parts] == [("p. 2 table 1", "table")]
    assert verify_quote(path, "p. 2 table 1!B2", fact[1])
    assert verify_quote(path, "p. 2", fact[1]), "the text of the page is still there"


def test_the_tables_of_a_pdf_are_counted_with_its_pages(fact: Fact, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(_pdf(fact, tmp_path))
    document = read_document_sync(path)
    assert isinstance(document, PdfDocument) and document.parts
    assert length_of(document) == sum(map(len, document.pages))


def test_a_notebook_keeps_its_outputs(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(makers.notebook("6 * 7", "forty-two\n"))
    assert verify_quote(path, "cell 2", "6 * 7 Output: forty-two")
    assert verify_quote(path, "cell 2", "[image/png]")


def test_notes_headers_and_footers_are_read(tmp_path: Path) -> None:
    deck, letter = tmp_path / "a.pptx", tmp_path / "a.docx"
    deck.write_bytes(makers.pptx([("One", "text")], notes="said aloud"))
    letter.write_bytes(makers.docx(["Dear Ann"], header="Form 27b"))
    assert verify_quote(deck, "slide 1", "said aloud")
    assert verify_quote(letter, "lines 1-3", "Header: Form 27b")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (makers.docx(["Words."]), OFFICE + "wordprocessingml.document"),
        (makers.xls({"S": [["Words", "b"]]}), "application/vnd.ms-excel"),
        (makers.ods({"S": [["Words", "b"]]}), "application/vnd.oasis.opendocument.spreadsheet"),
        (makers.odt(["Words."]), "application/vnd.oasis.opendocument.text"),
        (makers.zipped({"a.txt": "Words."}), "application/zip"),
        (b"<!DOCTYPE html><html><body>Words.</body></html>", "text/html"),
        (b'{"words": 1}', "application/json"),
        (makers.eml("Words.", {}), "message/rfc822"),
        (b"Words, and nothing but words.", "text/plain"),
    ],
    ids=["docx", "xls", "ods", "odt", "zip", "html", "json", "eml", "text"],
)
@pytest.mark.parametrize(
    "name", ["a.doc", *(pytest.param(one, marks=pytest.mark.long) for one in ("a.bin", "a.png", "a"))]
)
def test_the_content_decides_not_the_name(data: bytes, media_type: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert check_input(path)[0] == media_type
    assert "words" in json.dumps(document_to_json(read_document_sync(path))).lower()


@pytest.mark.parametrize(
    "text",
    ["From: here to there is far.\nTo: me.\n", "[INFO] started\n[INFO] done\n", "{ this is no JSON", "<3 is a heart\n"],
)
def test_text_that_looks_like_something_else_stays_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert check_input(path)[0] == "text/plain"
    document = read_document_sync(path)
    assert isinstance(document, TextDocument)
    assert document.text == text


async def test_json_and_xml_are_given_as_they_stand(tmp_path: Path) -> None:
    minified = json.dumps([{"number": number} for number in range(1000)])
    xml = f'<?xml version="1.0"?><a:r xmlns:a="urn:x"><a:i  n = "1"/>{"<a:i>word</a:i>" * 300}</a:r>'
    for name, text in (("a.json", minified), ("a.xml", xml)):
        path = tmp_path / name
        path.write_text(text)
        ctx = FakeContext([path], tmp_path / "run")
        seen, part = "", ""
        while True:
            blocks = await used(ctx, "read_file", name=name, part=part)
            seen += "".join(without_numbers(block) for block in blocks if block.source is not None)
            on = re.search(r"Read on with part='([^']+)'", blocks[-1].text)
            if on is None:
                break
            part = on[1]
        assert seen == text
    assert verify_quote(tmp_path / "a.json", "line 1, characters 1-60", '{"number": 0}')
    assert verify_quote(tmp_path / "a.xml", "line 1", 'xmlns:a="urn:x"><a:i  n = "1"/>')


def test_without_the_extra_the_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker gets a place from which markitdown cannot be imported: a package of that name that fails."""
    missing = tmp_path / "missing" / "markitdown"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ModuleNotFoundError('No module', name='markitdown')")
    monkeypatch.setenv("PYTHONPATH", str(missing.parent))
    path = tmp_path / "a.docx"
    path.write_bytes(makers.docx(["Words."]))
    with pytest.raises(FileInputError, match=r"needs markitdown .*: pip install 'agentorchestra\[files\]'"):
        read_document_sync(path)
