"""What can be read, and the sentence for everything that cannot."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.files import makers
from tests.files.conftest import MakePdf
from tests.support.patience import LONGEST_S

from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files import worker as worker_module
from agentorchestra.tools.files.documents import (
    PdfDocument,
    TableDocument,
    TextDocument,
    document_from_json,
    document_to_json,
    pictures_of,
)
from agentorchestra.tools.files.passages import passages
from agentorchestra.tools.files.readers import check_input, look_into, read_document, read_document_sync
from agentorchestra.tools.files.worker import ReadLimits

# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match=r"nowhere\.txt does not exist; check the name"):
        check_input(tmp_path / "nowhere.txt")


def test_a_folder_gets_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match=r"is a folder; give its files, e\.g\. --file .*/\*\.md"):
        check_input(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "shut.txt"
    path.write_text("words")
    path.chmod(0)
    with pytest.raises(FileInputError, match="permission denied; make it readable"):
        check_input(path)


def test_an_unreadable_file_whoever_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shut.txt"
    path.write_text("words")

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(FileInputError, match=r"shut\.txt cannot be read: permission denied; make it readable"):
        check_input(path)


@pytest.mark.parametrize("data", [b"", b"\n\n  \t\n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "empty.md"
    path.write_bytes(data)
    with pytest.raises(FileInputError, match=r"empty\.md is empty; give a file with content"):
        check_input(path)


def test_binary_garbage_named_text(tmp_path: Path) -> None:
    path = tmp_path / "garbage.txt"
    path.write_bytes(random.Random(5).randbytes(4000))
    with pytest.raises(FileInputError, match=r"garbage\.txt is corrupt or not a document: it holds binary data"):
        check_input(path)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"7z\xbc\xaf\x27\x1c" + b"\x00" * 50, "a 7z archive"),
        (b"Rar!\x1a\x07" + b"\x00" * 50, "a rar archive"),
        (b"\x7fELF" + b"\x00" * 50, "a program"),
        (b"SQLite format 3\x00" + b"\x00" * 50, "an SQLite database"),
    ],
)
def test_other_formats_are_named_whatever_the_ending(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(data)
    with pytest.raises(FileInputError, match=rf"data\.txt is {what}, which cannot be read; .* Readable are PDF, Word"):
        check_input(path)


@pytest.mark.parametrize(
    ("head", "media_type", "what"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png", "a picture"),
        (b"\xff\xd8\xff\xe0", "image/jpeg", "a picture"),
        (b"RIFF\x24\x00\x00\x00WEBP", "image/webp", "a picture"),
        (b"RIFF\x24\x00\x00\x00WAVE", "audio/wav", "a recording"),
        (b"ID3\x04", "audio/mpeg", "a recording"),
        (b"OggS", "audio/ogg", "a recording"),
        (b"RIFF\x24\x00\x00\x00AVI ", "video/x-msvideo", "a video"),
        (b"\x00\x00\x00\x20ftypisom", "video/mp4", "a video"),
    ],
)
def test_pictures_and_recordings_are_taken_and_hold_no_text(
    tmp_path: Path, head: bytes, media_type: str, what: str
) -> None:
    path = tmp_path / "it.bin"
    path.write_bytes(head + b"\x00" * 50)
    assert check_input(path) == (media_type, len(head) + 50)
    with pytest.raises(FileInputError, match=rf"it\.bin is {what} \({media_type}\): it holds no text"):
        read_document_sync(path)


def test_words_that_begin_like_a_recording_are_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("ID3 tags are metadata.")
    assert check_input(path)[0] == "text/plain"


def test_a_file_over_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_text("x" * 2000)
    with pytest.raises(FileInputError, match="has 2,000 bytes; at most 1,000 can be read"):
        check_input(path, ReadLimits(max_bytes=1000))


def test_a_truncated_pdf(make_pdf: MakePdf, tmp_path: Path) -> None:
    whole = make_pdf("First page.", "Second page.").read_bytes()
    for share in (0.3, 0.7, 0.98):
        path = tmp_path / "cut.pdf"
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(FileInputError, match=r"cut\.pdf is corrupt: this PDF is cut off"):
            check_input(path)


def test_a_pdf_of_garbage(tmp_path: Path) -> None:
    path = tmp_path / "garbage.pdf"
    path.write_bytes(b"%PDF-1.7\n" + random.Random(5).randbytes(3000) + b"\n%%EOF\n")
    with pytest.raises(FileInputError, match=r"garbage\.pdf is corrupt: this PDF cannot be read"):
        check_input(path)


def test_a_pdf_in_name_only(tmp_path: Path) -> None:
    path = tmp_path / "page.pdf"
    path.write_text("<html>not found</html>")
    with pytest.raises(FileInputError, match=r"named \.pdf but holds no PDF"):
        check_input(path)


def test_an_encrypted_pdf(encrypted_pdf: Path) -> None:
    with pytest.raises(FileInputError, match=r"locked\.pdf is an encrypted PDF; remove its password first"):
        check_input(encrypted_pdf)


def test_an_empty_pdf(make_pdf: MakePdf) -> None:
    for work in (check_input, read_document_sync):
        with pytest.raises(FileInputError, match=r"has 2 page\(s\), and nothing is written or drawn on them"):
            work(make_pdf("", ""))


def test_pages_that_are_pictures_are_told_from_empty_ones(tmp_path: Path) -> None:
    """A scanner's line over the picture of a page does not make it text; a picture beside text does no harm."""
    text, stamp = "Words that stand on a page of their own, more than a scanner adds. " * 2, "Scanned by nobody"
    drawn = makers.page_picture()
    pages = [("", drawn), ("", b""), (stamp, drawn), (text, drawn), (text, b""), ("", drawn), ("", drawn)]
    path = tmp_path / "mixed.pdf"
    path.write_bytes(makers.paged(pages))
    document = read_document_sync(path)
    assert isinstance(document, PdfDocument) and document.pictures == (1, 3, 6, 7)
    assert look_into(path) == ("application/pdf", path.stat().st_size, False)
    assert document_from_json(document_to_json(document)) == document
    path.write_bytes(makers.paged([("", b""), *[("", drawn)] * 4]))
    assert look_into(path).textless and pictures_of(read_document_sync(path)) == "pp. 2-5"
    path.write_bytes(makers.paged([*[("", drawn)] * 6, (text, b"")]))
    assert not look_into(path).textless, "the first text stands behind the first pages"


def test_a_pdf_with_too_many_pages(make_pdf: MakePdf) -> None:
    with pytest.raises(FileInputError, match="has 3 pages; at most 2 can be read"):
        read_document_sync(make_pdf("a", "b", "c"), ReadLimits(pages=2))


def test_a_pdf_out_of_memory(slow_pdf: Path) -> None:
    with pytest.raises(FileInputError, match="needs more than 100 MiB to be read"):
        read_document_sync(slow_pdf, ReadLimits(memory_bytes=100 << 20))


# --- what is read ---------------------------------------------------------------------------------------------------


def test_media_types_and_sizes(make_pdf: MakePdf, tmp_path: Path) -> None:
    for name, expected in (
        ("a.txt", "text/plain"),
        ("a.md", "text/markdown"),
        ("a.csv", "text/csv"),
        ("a.tsv", "text/tab-separated-values"),
        ("a.log", "text/plain"),
    ):
        path = tmp_path / name
        path.write_text("a,b\n1,2\n")
        assert check_input(path) == (expected, 8)
    pdf = make_pdf("Words.")
    assert check_input(pdf) == ("application/pdf", pdf.stat().st_size)


def test_content_comes_before_the_ending(make_pdf: MakePdf) -> None:
    path = make_pdf("Words.", name="really-a-pdf.txt")
    assert check_input(path)[0] == "application/pdf"
    assert isinstance(read_document_sync(path), PdfDocument)


@pytest.mark.parametrize(
    "data",
    [
        "Größe: fünf\r\nnächste Zeile\r\n".encode(),
        codecs.BOM_UTF8 + "Größe: fünf\nnächste Zeile\n".encode(),
        "Größe: fünf\nnächste Zeile\n".encode("utf-16"),
        "Größe: fünf\nnächste Zeile\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Größe: fünf\nnächste Zeile\n".encode("utf-16-be"),
        "Größe: fünf\rnächste Zeile\r".encode("latin-1"),
    ],
)
def test_encodings_and_line_ends(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    document = read_document_sync(path)
    assert isinstance(document, TextDocument)
    assert document.line_count == 2
    assert document.lines(1, 1) == "Größe: fünf"
    assert document.lines(1, 2) == "Größe: fünf\nnächste Zeile"


def test_a_text_cut_inside_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Wörter über Wörter ö".encode()[:-1])
    document = read_document_sync(path)
    assert isinstance(document, TextDocument)
    assert document.text.startswith("Wörter über Wörter")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        delimiter.join(["city", "people"]) + "\n" + delimiter.join(["Ulm", "1,5" if delimiter != "," else "2"])
    )
    table = read_document_sync(path)
    assert isinstance(table, TableDocument)
    assert table.header == ("city", "people")
    assert table.cell(2, 1) == "Ulm"


def test_tables_keep_quoted_lines_and_blank_rows_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('name,note\n"Ann","two\nlines, one cell"\n\nBen,short\n')
    table = read_document_sync(path)
    assert isinstance(table, TableDocument)
    assert table.cell(2, 2) == "two\nlines, one cell"
    assert table.cell(4, 1) == "Ben"
    assert [passage.place for passage in passages(table)] == ["row 1", "row 2", "row 4"]


def test_tables_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Ann,31.5\nBen,29\n")
    table = read_document_sync(path)
    assert isinstance(table, TableDocument)
    assert table.first_row == 1
    assert [passage.text for passage in passages(table)] == ["A1 A: Ann; B1 B: 31.5", "A2 A: Ben; B2 B: 29"]


def test_years_may_name_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("country,1990,2000\nMali,8.4,10.9\n")
    table = read_document_sync(path)
    assert isinstance(table, TableDocument)
    assert [passage.text for passage in passages(table)] == [
        "A1: country; B1: 1990; C1: 2000",
        "A2 country: Mali; B2 1990: 8.4; C2 2000: 10.9",
    ]


def test_a_table_with_an_open_quote_and_a_huge_cell_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('name,note\nAnn,"never closed\n' + "word " * 60_000)
    assert isinstance(read_document_sync(path), TextDocument)


@pytest.mark.long
def test_one_line_of_fifty_megabytes_is_cut_into_passages(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"abcdefghi " * 5_000_000)
    start = time.process_time()
    document = read_document_sync(path)
    sizes = [len(passage.text) for passage in passages(document)]
    assert max(sizes) <= 1200
    assert sum(sizes) > 49_000_000
    assert time.process_time() - start < 60


async def test_pages(make_pdf: MakePdf) -> None:
    document = await read_document(make_pdf("First words.", "Second words."))
    assert isinstance(document, PdfDocument)
    assert ["First words." in document.pages[0], "Second words." in document.pages[1]] == [True, True]


# --- the process that reads a PDF -----------------------------------------------------------------------------------


def _workers(pid: int) -> list[psutil.Process]:
    """The workers of a process: children of the one that forks them, which lives on."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie
            if "_worker.py" in " ".join(child.cmdline()):
                found += [one for one in child.children() if one.status() != psutil.STATUS_ZOMBIE]
    return found


async def _worker_of(pid: int) -> psutil.Process:
    while not (found := _workers(pid)):  # noqa: ASYNC110 - other processes set no event
        await asyncio.sleep(0.025)
    return found[0]


async def test_cancelling_the_reader_ends_the_process(slow_pdf: Path) -> None:
    task = asyncio.create_task(read_document(slow_pdf))
    worker = await _worker_of(os.getpid())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not worker.is_running()


async def test_cancelling_while_the_process_starts_ends_it(slow_pdf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that starts it goes on when its caller is cancelled."""
    start, cancelled = worker_module._start, threading.Event()

    def start_slowly(*asked: Any) -> Any:
        started = start(*asked)
        cancelled.wait(LONGEST_S)
        return started

    monkeypatch.setattr(worker_module, "_start", start_slowly)
    task = asyncio.create_task(read_document(slow_pdf))
    worker = await _worker_of(os.getpid())
    task.cancel()
    asyncio.get_running_loop().call_soon(cancelled.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not worker.is_running()


async def test_a_time_limit_ends_the_process(slow_pdf: Path) -> None:
    with pytest.raises(FileInputError, match="could not be read within 1 s"):
        await read_document(slow_pdf, ReadLimits(seconds=1))
    with pytest.raises(FileInputError, match="could not be read within 1 s"):
        await asyncio.to_thread(read_document_sync, slow_pdf, ReadLimits(seconds=1))
    assert not _workers(os.getpid())


@pytest.mark.long
async def test_a_killed_parent_leaves_no_process(slow_pdf: Path) -> None:
    code = (
        "import asyncio, pathlib, sys\n"
        "from agentorchestra.tools.files.readers import read_document\n"
        "asyncio.run(read_document(pathlib.Path(sys.argv[1])))\n"
    )
    command = [sys.executable, "-c", code, str(slow_pdf)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:  # noqa: ASYNC220
        worker = await _worker_of(parent.pid)
        parent.kill()
    with contextlib.suppress(psutil.NoSuchProcess):  # the test's own limit ends it where the worker lives on
        while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.025)


async def test_many_readers_at_once(make_pdf: MakePdf) -> None:
    path = make_pdf("Same words.")
    documents = await asyncio.gather(*(read_document(path) for _ in range(6)))
    assert len({document.pages for document in documents if isinstance(document, PdfDocument)}) == 1
    assert not _workers(os.getpid())
