"""Text is read as it stands in the file: every character, in one piece, and `edit` takes what was shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files import makers
from tests.support.examples import examples
from tests.support.files import FakeContext

from agentorchestra.core.content import Source, TextBlock, Trust, without_numbers
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.files import disk
from agentorchestra.tools.files import file_tools
from agentorchestra.tools.files.description import Quote
from agentorchestra.tools.files.documents import PdfDocument, TextDocument
from agentorchestra.tools.files.places import Place, parse_place
from agentorchestra.tools.files.quotes import verify_quote
from agentorchestra.tools.files.read import Asked, document_blocks, read_blocks
from agentorchestra.tools.files.readers import source_sync
from agentorchestra.tools.files.views import LINE_CHARS, View, stretches, text_view

READ_ON = re.compile(r"Read on with (?:part='([^']+)'|view_range=\[(\d+), (\d+)\])")


async def read(path: Path, **arguments: Any) -> list[TextBlock]:
    """What `read_file` gives of a file."""
    (tool,) = (tool for tool in file_tools() if tool.name == "read_file")
    result = await tool.call({"name": path.name, **arguments}, FakeContext([path], path.parent / "run"))
    return [block for block in result.content if isinstance(block, TextBlock)]


def shown(blocks: list[TextBlock]) -> str:
    """The content without the numbers of its lines."""
    (content,) = (block for block in blocks if block.source is not None)
    return without_numbers(content)


def said(blocks: list[TextBlock]) -> str:
    """Our own words around the content, which are told apart from it."""
    assert all(block.trust is Trust.SYSTEM for block in blocks if block.source is None)
    return " ".join(block.text for block in blocks if block.source is None)


# -- what was lost -----------------------------------------------------------------------------------------------------

CONFLICT = "<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n"
YAML = "---\ntitle: One\n\n---\ntitle: Two\n...\n"
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n\n\n| 3 | 4 |\n"
ART = "   /\\_/\\\n  ( o.o )\n   > ^ <\n~~~~~~~~~~\n##########\n**********\n"
CODE = "import os\n\n\ndef first():\n    '''Say. More.'''\n    return 1\n\n\n# ---------\ndef second():\n    return 2\n"
XML = '<?xml version="1.0"?>\n<a:root xmlns:a="urn:x" xmlns:b="urn:y">\n  <b:item  kind = "k"/>\n</a:root>\n'
MARKDOWN = "Title\n=====\n\nText.\n\n* * *\n\n```\n\ncode\n```\n"
HTML = "<!doctype html>\n<html><body>\n\n<p>One.\n</body></html>\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("conflict.py", CONFLICT),
        ("two.yaml", YAML),
        ("table.txt", TABLE),
        ("art.txt", ART),
        ("code.py", CODE),
        ("a.xml", XML),
        ("a.md", MARKDOWN),
        ("a.json", '{\n\n  "a": 1,\n  "line": "-----"\n}\n'),
    ],
)
async def test_nothing_is_dropped_and_it_is_one_piece(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    (block,) = await read(path)  # and nothing is said where all is as usual
    assert [line.partition("\t")[2] for line in block.text.split("\n")] == text.split("\n")[:-1]
    assert [line.partition("\t")[0] for line in block.text.split("\n")] == [
        str(number) for number in range(1, text.count("\n") + 1)
    ]
    assert block.source is not None and block.source.place == f"lines 1-{text.count(chr(10))}"


@pytest.mark.long
async def test_the_source_of_a_page_and_of_a_table_is_read_too(tmp_path: Path) -> None:
    page, table = tmp_path / "a.html", tmp_path / "a.csv"
    page.write_text(HTML)
    table.write_text('a;b\n\n"1";2\n')
    assert shown(await read(page, part="source")) + "\n" == HTML
    blocks = await read(table, part="source", view_range=[2, 3])
    assert (shown(blocks), blocks[0].source and blocks[0].source.place) == ('\n"1";2', "source!lines 2-3")
    (tool,) = (tool for tool in file_tools() if tool.name == "check_quotes")
    quotes = [Quote(source="a.csv", place=f"source!line {line}", quote='"1";2') for line in (3, 1)]
    checked = await tool.call({"quotes": quotes}, FakeContext([table], tmp_path / "run"))
    assert checked.content == [True, False]
    plain = tmp_path / "a.txt"
    plain.write_text("words\n")
    with pytest.raises(ToolError, match="has no part 'source'; it has line 1"):
        await read(plain, part="source")


def test_pages_keep_their_blank_lines() -> None:
    pages = PdfDocument(("Head\n\n\nBelow.\n-----\n", "Two"))
    blocks = document_blocks(pages, "a.pdf", "")
    assert [(block.source.place, block.text) for block in blocks if isinstance(block, TextBlock) and block.source] == [
        ("p. 1", "Head\n\n\nBelow.\n-----\n"),
        ("p. 2", "Two"),
    ]


async def test_a_converted_document_keeps_its_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(makers.eml("Dear Ann,\n\n\n---\nBest", {}))
    blocks = await read(path, part="message")
    assert shown(blocks).endswith("Dear Ann,\n\n\n---\nBest")


# -- for any text ------------------------------------------------------------------------------------------------------

_LINES = st.text(alphabet=st.sampled_from("ab \t=-~#|1\x0b\x0c\x1b\x85\u2028é字ا😀�"), max_size=12)
_LONG = st.integers(min_value=LINE_CHARS - 2, max_value=3 * LINE_CHARS).map(lambda size: ("x y" * size)[:size])
_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
_TEXTS = st.lists(st.tuples(st.one_of(_LINES, _LINES, _LINES, _LONG), _ENDS), min_size=1, max_size=40).map(
    lambda lines: "".join(line + end for line, end in lines)
)


def universal(text: str) -> str:
    return re.sub("\r\n|\r", "\n", text)


def exact(view: View) -> list[str]:
    return [
        without_numbers(TextBlock(text=text, source=Source(kind="file", place=str(at)))) for at, text in view.pieces
    ]


def read_whole(document: TextDocument, asked: Asked) -> str:
    """The text, read as it is said how to read on: lines that are cut too, to their ends."""
    lines: dict[int, str] = {}
    left = [asked]
    ended = True
    while left:
        now = left.pop()
        for block in read_blocks(document, "a.txt", now):
            assert isinstance(block, TextBlock)
            if block.source is not None:
                place = parse_place(block.source.place or "")
                assert place is not None
                pieces = without_numbers(block).split("\n")
                assert len(pieces) == place.last - place.first + 1
                for number, piece in enumerate(pieces, place.first):
                    lines[number] = lines.get(number, "") + piece
                continue
            ended = ended and block.text != "The last line does not end with a newline."
            for part, first, last in READ_ON.findall(block.text):
                span = (int(first), int(last)) if first else None
                left.append(Asked(part, span, ranged=asked.ranged, limit=asked.limit))
    assert [*sorted(lines)] == [*range(1, len(lines) + 1)]
    return "\n".join(lines[number] for number in sorted(lines)) + ("\n" if ended else "")


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_TEXTS, st.sampled_from(["", "no end"]), st.integers(min_value=1, max_value=3), st.booleans())
def test_what_is_shown_is_the_file(text: str, last: str, size: int, ranged: bool) -> None:
    """Whatever is cut is named with its place; read there, all of it is the file."""
    text += last
    if not text.strip("\r\n \t\x0b\x0c"):
        text += "."
    document = TextDocument(universal(text), form="")
    limit = size * 2 * LINE_CHARS
    cut = sum(len(line) > LINE_CHARS for line in document.text.split("\n"))
    if cut <= 3 or len(document.text) < limit:  # of more lines that are cut, the first three are named
        assert read_whole(document, Asked(ranged=ranged, limit=limit)) == universal(text)


@settings(max_examples=examples(100), deadline=None)
@given(_TEXTS, st.data())
def test_ranges_one_after_the_other_are_the_file(text: str, data: st.DataObject) -> None:
    document = TextDocument(universal(text), form="")
    seen, first = [], 1
    while first <= document.line_count:
        last = data.draw(st.integers(min_value=first, max_value=document.line_count))
        view = text_view(document, Place("line", first, last), 1_000_000)
        seen += exact(view)
        first = view.last + 1
    assert "\n".join(seen) + ("\n" if document.text.endswith("\n") else "") == universal(text)


@settings(max_examples=examples(100), deadline=None)
@given(_TEXTS)
def test_stretches_leave_nothing_out(text: str) -> None:
    document = TextDocument(universal(text))
    lines: dict[int, str] = {}
    for place, piece in stretches(document):
        for number, line in enumerate(piece.split("\n"), place.first):
            lines[number] = lines.get(number, "") + line
        assert len(piece) <= LINE_CHARS + 1_200
    assert "\n".join(lines[number] for number in sorted(lines)) == document.text.removesuffix("\n")


@settings(max_examples=examples(150), deadline=None)
@given(_TEXTS, st.data())
def test_edit_takes_what_was_shown(text: str, data: st.DataObject) -> None:
    """Lines as they are shown, without their numbers, stand in the file whatever its line ends are."""
    (document,) = [TextDocument(universal(text))]
    first = data.draw(st.integers(min_value=1, max_value=document.line_count))
    last = data.draw(st.integers(min_value=first, max_value=document.line_count))
    view = text_view(document, Place("line", first, last), 1_000_000)
    old = "\n".join(exact(view))
    if not old:
        return
    changed, count = disk.replace_text(text, old, f"{old}#\n#", every=True, name="a.txt")
    assert count >= 1
    assert universal(changed) == universal(text).replace(old, f"{old}#\n#")
    assert set(re.findall("\r\n|\r|\n", changed)) <= set(re.findall("\r\n|\r|\n", text))


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        (b"one\r\n\r\ntwo\r\n", "one\n\ntwo", "Line ends: CRLF."),
        (b"one\r\rtwo\r", "one\n\ntwo", "Line ends: CR."),
        (b"one\r\ntwo\nthree\n\rfour\n", "one\ntwo\nthree\n\nfour", "Line ends: mixed (1 CRLF, 3 LF, 1 CR)."),
        ("ÿgrüße\n".encode("utf-16"), "ÿgrüße", "Read as UTF-16 LE with a byte order mark."),
        (b"\xef\xbb\xbfone\n", "one", "It begins with a byte order mark."),
        (
            "größe süß öde\n".encode("cp1252"),
            "größe süß öde",
            "Read as Windows-1252, a guess by its letters; if words look wrong, read it again with another `encoding`.",
        ),
        (
            "größe ".encode() * 400 + b"\xff\nlast\n",
            "größe " * 400 + "�\nlast",
            "Bytes that are not UTF-8 show as � (in 1 place in line 1).",
        ),
        (
            "ok �\n".encode() + "größe\n".encode() * 700 + b"a\xffb\nc\xfe\n",
            "ok �\n" + "größe\n" * 700 + "a�b\nc�",
            "Bytes that are not UTF-8 show as � (in 2 places, the first in line 702).",
        ),
        (
            b"log line\n" * 60 + b"\x00\x00\n",
            "log line\n" * 60 + "␀␀",
            "2 NUL characters show as ␀ (the first in line 61).",
        ),
        (b"one\n\ntwo", "one\n\ntwo", "The last line does not end with a newline."),
        ("第一行。\nالسطر الثاني\n".encode(), "第一行。\nالسطر الثاني", ""),
    ],
    ids=["crlf", "cr", "mixed", "utf-16", "mark", "1252", "stray", "strays", "nul", "open end", "scripts"],
)
async def test_what_is_unusual_is_said(data: bytes, text: str, note: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    blocks = await read(path)
    assert (shown(blocks), said(blocks)) == (text, note)


def test_a_quote_in_another_script_is_found_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("第一行。价格是一百元。\n\nالسعر مئة درهم.\n")
    assert verify_quote(path, "line 1", "价格是一百元")
    assert verify_quote(path, "line 3", "السعر مئة درهم")
    assert not verify_quote(path, "line 3", "价格是一百元")


@pytest.mark.long
async def test_fifty_megabytes_on_one_line_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    unit = "0123456789" * 10
    path.write_text(unit * 500_000)
    blocks = await read(path)
    assert sum(len(block.text) for block in blocks) < 20_000
    assert "Line 1 has 50,000,000 characters; 1-16,000 are shown." in said(blocks)
    blocks = await read(path, part="line 1, characters 49999901-50000000")
    assert (shown(blocks), said(blocks)) == (unit, "The last line does not end with a newline.")


async def test_places_count_the_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\x0cstill one\u2028and one\x85\ntwo\x1e\n" + "more words\n" * 20, newline="")
    assert shown(await read(path, part="line 1")) == "one\x0cstill one\u2028and one\x85"
    assert shown(await read(path, part="line 2")) == "two\x1e"


async def test_many_long_lines_are_cut_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"record {number} {'x' * 9_000}\n" for number in range(1, 6)))
    block, *notes = await read(path)
    assert block.text.startswith("1, characters 1-4000\trecord 1 x")
    assert block.text.split("\n")[2].startswith("3, characters 1-4000\trecord 3 x")
    assert "Lines 4-5 are not shown. Read on with view_range=[4, 5]." in " ".join(one.text for one in notes)
    assert "Line 2 has 9,009 characters; 1-4,000 are shown. Read on with part='line 2, characters 4001-9009'." in [
        one.text for one in notes
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"view_range": [5]}, r"view_range is \[5\]; give the first and the last line, e\.g\. \[1, 400\]"),
        ({"view_range": [9, 2]}, r"view_range is \[9, 2\]; give the first and the last line"),
        ({"view_range": [9, 12]}, r"has nothing in view_range \[9, 12\]; it has lines 1-3"),
        ({"view_range": [1, 2], "part": "line 3"}, "part 'line 3' names a place already; leave view_range out"),
    ],
)
async def test_mistakes_in_a_range_are_sentences(arguments: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    with pytest.raises(ToolError, match=sentence):
        await read(path, **arguments)


# -- edit --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_edit_writes_in_the_encoding_that_the_file_has(coding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    data = "größe: süß\r\nöde\r\n".encode(coding)
    path.write_bytes(data)
    text, encoded = disk.decoded(data, "a.txt")
    old = source_sync(path).text
    changed, _ = disk.replace_text(text, old, old.replace("öde", "schön"), every=False, name="a.txt")
    assert encoded(changed) == "größe: süß\r\nschön\r\n".encode(coding)


def refusal(work: Callable[[], Any]) -> str:
    with pytest.raises(ToolError) as caught:
        work()
    return str(caught.value)


def test_edit_refuses_what_it_cannot_keep() -> None:
    lossy = "größe ".encode() * 400 + b"\xff\n"
    assert "holds bytes that are not UTF-8, which edit cannot keep" in refusal(lambda: disk.decoded(lossy, "a.txt"))
    zeros = b"log line\n" * 60 + b"\x00\n"
    assert "holds NUL characters, which edit cannot keep" in refusal(lambda: disk.decoded(zeros, "a.txt"))
    _, encoded = disk.decoded("größe süß öde\n".encode("cp1252"), "a.txt")
    assert "'→' cannot be written in Windows-1252, in which a.txt stands" in refusal(lambda: encoded("→"))
    numbered = refusal(lambda: disk.replace_text("one\ntwo\n", "1\tone", "1\tthree", every=False, name="a.txt"))
    assert numbered.endswith("give the text exactly as it stands there without the numbers of the lines")
