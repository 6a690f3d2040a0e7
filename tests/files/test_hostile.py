"""Files made to do harm: one sentence each, in bounded time and memory, and nothing left behind.

Every reading is done in a process that is watched from outside, so that the memory of this side is measured too.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil
import pytest
from tests import warm
from tests.files import makers
from tests.files.conftest import MakePdf
from tests.support.patience import LONGEST_S

from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files.documents import PartsDocument, TextDocument
from agentorchestra.tools.files.readers import read_document_sync
from agentorchestra.tools.files.worker import ReadLimits

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


MOST_SECONDS = 45
"""Of the processor for one file; the bound of the reader itself is 60."""

MOST_PARENT_MIB = 250
"""Memory of the process that asks, whatever the file."""

_ASK = """
import json, os, pathlib, resource, sys
from agentorchestra.core.errors import FileInputError
from agentorchestra.tools.files import worker
from agentorchestra.tools.files.readers import check_input, read_document_sync
said = []
for work in (check_input, read_document_sync):
    try:
        found = work(pathlib.Path(sys.argv[1]))
        notes = list(getattr(found, "notes", ()))
        said.append({"ok": True, "notes": notes})
    except FileInputError as error:
        said.append({"ok": False, "sentence": str(error)})
worker._end()  # what ended below the process that forks the readers counts when that has ended too
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
# Not ru_maxrss, which begins with the memory of the process that started this one.
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
own = int(status["VmHWM"].split()[0]) >> 10
print(json.dumps({"said": said, "own": own, "children": children, "seconds": sum(os.times()[:4])}))
"""


@dataclass(frozen=True)
class Answer:
    """What came of a file.

    Attributes:
        checked, read: the sentence, or None where it was taken.
        notes: what the document says was left out.
    """

    checked: str | None
    read: str | None
    notes: list[str]


def ask(path: Path) -> Answer:
    """Check and read a file elsewhere; raises what a hostile file may not bring about."""
    done = warm.run(["-c", _ASK, path], environ=os.environ, timeout=LONGEST_S)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    answer = json.loads(done.stdout)
    print(f"{path.name}: {answer['seconds']:.1f} s, {answer['own']} MiB here, {answer['children']} MiB in the worker")
    assert answer["seconds"] < MOST_SECONDS
    assert answer["own"] < MOST_PARENT_MIB
    assert answer["children"] < 1100, "the limit is the address space, which is larger than what is used of it"
    checked, read = answer["said"]
    for one in (checked, read):
        if not one["ok"]:
            assert one["sentence"].startswith(str(path)) and "\n" not in one["sentence"] and len(one["sentence"]) < 600
    return Answer(checked.get("sentence"), read.get("sentence"), read.get("notes", []))


def zeros(size: int) -> bytes:
    """A zip archive of one member of zeros, made without having them all at once."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        archive.open("zeros.txt", "w", force_zip64=True) as member,
    ):
        block = b"0" * (1 << 20)
        for _ in range(size >> 20):
            member.write(block)
    return buffer.getvalue()


# --- archives -------------------------------------------------------------------------------------------------------


def test_a_bomb_of_overlapping_members(tmp_path: Path) -> None:
    """42 KB to 4 GB: hundreds of entries of the list of members point at the same packed bytes."""
    kernel = zeros(16 << 20)
    path = tmp_path / "bomb.zip"
    path.write_bytes(_overlapping(kernel, 256))
    assert path.stat().st_size < 60_000
    with zipfile.ZipFile(path) as archive:
        assert sum(info.file_size for info in archive.infolist()) == 4 << 30
    answer = ask(path)
    assert answer.checked is not None and "holds more than 400 MB when it is unpacked" in answer.checked
    assert answer.read is not None


def _overlapping(kernel: bytes, count: int) -> bytes:
    """The archive with its only entry listed so many times."""
    with zipfile.ZipFile(io.BytesIO(kernel)) as archive:
        start = archive.start_dir
    end = kernel.rindex(b"PK\x05\x06")
    entry = kernel[start:end]
    body = kernel[:start] + entry * count
    tail = b"PK\x05\x06" + bytes(4) + count.to_bytes(2, "little") * 2
    return body + tail + (len(entry) * count).to_bytes(4, "little") + start.to_bytes(4, "little") + bytes(2)


@pytest.mark.long
def test_a_bomb_of_one_member(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    path.write_bytes(zeros(24 << 20))
    assert "packed like a bomb (zeros.txt grows more than 500 times)" in (ask(path).read or "")


@pytest.mark.long
def test_a_bomb_that_lies_about_its_size(tmp_path: Path) -> None:
    data = zeros(40 << 20)
    size = (40 << 20).to_bytes(4, "little")
    assert size in data
    path = tmp_path / "liar.zip"
    path.write_bytes(data.replace(size, (10).to_bytes(4, "little")))
    assert "holds no member that can be read" in (ask(path).read or "")


@pytest.mark.long
def test_a_bomb_inside_archives(tmp_path: Path) -> None:
    inner = zeros(60 << 20)
    for _ in range(2):
        inner = makers.zipped({f"{number}.zip": inner for number in range(16)})
    path = tmp_path / "nested.zip"
    path.write_bytes(inner)
    assert (ask(path).read or "").startswith(str(path))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_a_bomb_without_a_list_of_members(tmp_path: Path, suffix: str) -> None:
    zeros = b"0" * (1 << 20)
    packed = {"gz": gzip.compress(zeros), "bz2": bz2.compress(zeros), "xz": lzma.compress(zeros)}[suffix]
    path = tmp_path / f"bomb.txt.{suffix}"
    path.write_bytes(packed * 110)  # packed files one behind the other are one file
    assert path.stat().st_size < 3_000_000
    assert "when it is unpacked; give the part you need" in (ask(path).read or "")


@pytest.mark.long
def test_archives_fifty_deep(tmp_path: Path) -> None:
    data = makers.zipped({"a.txt": "the bottom"})
    for _ in range(50):
        data = makers.zipped({"inner.zip": data, "b.txt": "words"})
    path = tmp_path / "deep.zip"
    path.write_bytes(data)
    assert ask(path).read is None
    document = read_document_sync(path)
    for _ in range(4):
        assert isinstance(document, PartsDocument)
        (document,) = (part.document for part in document.parts if part.name == "inner.zip")
    assert isinstance(document, PartsDocument)
    assert document.notes == ("inner.zip is not read: it lies inside more than 5 others",)
    assert [part.name for part in document.parts] == ["b.txt"]


def test_members_that_lead_out_of_the_archive(tmp_path: Path) -> None:
    path = tmp_path / "slip.zip"
    names = ["../../out.txt", "/etc/out.txt", "..\\out.txt", "C:\\out.txt", "a/../../out.txt"]
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "hostile")
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("good.txt", "harmless")
    before = set(tmp_path.parent.rglob("*"))
    answer = ask(path)
    assert answer.read is None
    assert answer.notes == [
        *(f"{name} is a path out of the archive: skipped" for name in names),
        "link.txt is a link: skipped",
    ]
    document = read_document_sync(path)
    assert isinstance(document, PartsDocument)
    assert [part.name for part in document.parts] == ["good.txt"]
    assert set(tmp_path.parent.rglob("*")) == before
    assert not Path("/etc/out.txt").exists()


@pytest.mark.long
def test_links_and_devices_of_a_tar_are_named_and_left(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind in (("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("null", tarfile.CHRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("good.txt")
        info.size = 8
        archive.addfile(info, io.BytesIO(b"harmless"))
    answer = ask(path)
    assert answer.notes == ["soft is a link: skipped", "hard is a link: skipped", "null is a device: skipped"]


@pytest.mark.long
def test_an_archive_of_too_many_members(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(6000):
            archive.writestr(f"{number}.txt", "x")
    answer = ask(path)
    assert "holds more than 5,000 parts" in (answer.checked or "") and "5,000 parts" in (answer.read or "")


def test_names_that_would_write_on_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(makers.zipped({"a\x1b[2Jb\nc\x07.txt": "words"}))
    document = read_document_sync(path)
    assert isinstance(document, PartsDocument)
    assert [part.name for part in document.parts] == ["a?[2Jb?c?.txt"]


@pytest.mark.long
def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    data = bytearray(makers.zipped({"secret.txt": "words"}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    path = tmp_path / "locked.zip"
    path.write_bytes(data)
    assert "is an encrypted archive; unpack it with its password" in (ask(path).checked or "")


# --- XML ------------------------------------------------------------------------------------------------------------

_LAUGHS = '<?xml version="1.0"?>\n<!DOCTYPE l [\n<!ENTITY a0 "ha">\n' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">\n' for n in range(1, 12)
)


def test_xml_that_grows_a_thousand_million_times(tmp_path: Path) -> None:
    path = tmp_path / "laughs.xml"
    path.write_text(_LAUGHS + "]>\n<l>&a11;</l>")
    assert "declares XML entities, by which small files grow without end" in (ask(path).checked or "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.docx", "word/document.xml"),
        ("a.xlsx", "xl/sharedStrings.xml"),
        ("a.pptx", "ppt/slides/slide1.xml"),
        ("a.ods", "content.xml"),
        ("a.odt", "styles.xml"),
    ],
)
def test_the_same_inside_an_office_document(tmp_path: Path, name: str, part: str, encoding: str) -> None:
    whole = {
        "a.docx": lambda: makers.docx(["Words."]),
        "a.xlsx": lambda: makers.xlsx({"S": [["a", "b"]]}),
        "a.pptx": lambda: makers.pptx([("a", "b")]),
        "a.ods": lambda: makers.ods({"S": [["a", "b"]]}),
        "a.odt": lambda: makers.odt(["Words."]),
    }[name]()
    laughs = (_LAUGHS + "]>\n<w:document>&a11;</w:document>").replace('"1.0"', f'"1.0" encoding="{encoding}"')
    path = tmp_path / name
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, laughs.encode(encoding) if info.filename == part else old.read(info))
    answer = ask(path)
    assert "declares XML entities" in (answer.checked or "") and "declares XML entities" in (answer.read or "")


@pytest.mark.long
def test_xml_and_html_and_json_nested_without_end(tmp_path: Path) -> None:
    for name, data in (
        ("a.xml", b'<?xml version="1.0"?>' + b"<a>" * 100_000),
        ("a.html", b"<!doctype html>" + b"<div>" * 10_000 + b"words"),
        ("a.json", b"[" * 300_000),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        ask(path)


def test_xml_that_names_a_file_of_this_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the word is otter")
    path = tmp_path / "a.xml"
    path.write_text(f'<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]>\n<a>&x;</a>')
    assert "declares XML entities" in (ask(path).read or "")


# --- PDF ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_pdf_of_a_hundred_thousand_pages(tmp_path: Path) -> None:
    count = 100_000
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b"3 0 R " * count, count),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
    ]
    path = tmp_path / "long.pdf"
    path.write_bytes(_pdf_of(objects))
    assert "has 100000 pages; at most 3000 can be read" in (ask(path).checked or "")


@pytest.mark.long
def test_a_pdf_whose_pages_are_a_circle(tmp_path: Path) -> None:
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R] /Count 9 >>"]
    path = tmp_path / "circle.pdf"
    path.write_bytes(_pdf_of(objects))
    assert (ask(path).read or "").startswith(str(path))


@pytest.mark.long
def test_the_script_of_a_pdf_is_not_run_and_its_words_are_read(make_pdf: MakePdf, tmp_path: Path) -> None:
    from pypdf import PdfReader, PdfWriter
    from pypdf.actions import JavaScript

    writer = PdfWriter(clone_from=PdfReader(make_pdf("Plain words.", name="plain.pdf")))
    writer.add_open_action(JavaScript(f"app.launchURL('file://{tmp_path}/ran');"))
    path = tmp_path / "script.pdf"
    with path.open("wb") as file:
        writer.write(file)
    assert b"/JavaScript" in path.read_bytes()
    assert ask(path).read is None
    assert "Plain words." in str(read_document_sync(path))
    assert not (tmp_path / "ran").exists()


def _pdf_of(objects: list[bytes]) -> bytes:
    data = b"%PDF-1.4\n"
    offsets = []
    for number, one in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer


# --- workbooks ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_sheet_of_a_million_rows(tmp_path: Path) -> None:
    path = tmp_path / "long.xlsx"
    _sheet_of(
        path, (f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="B{n}"><v>7</v></c></row>' for n in range(1, 1_000_001))
    )
    answer = ask(path)
    assert answer.read is None
    note, merged = answer.notes
    assert note.startswith("S: only the rows up to ") and note.endswith("were read, 500,000 cells in all")
    assert merged == "S: merged cells and colours by rule are not told: the file lists them behind its rows"


@pytest.mark.long
def test_a_sheet_with_its_only_cells_at_the_far_corner(tmp_path: Path) -> None:
    path = tmp_path / "far.xlsx"
    _sheet_of(path, (f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(1_040_000, 1_048_577)))
    ask(path)


@pytest.mark.long
def test_a_sheet_of_a_million_formatted_cells(tmp_path: Path) -> None:
    path = tmp_path / "formatted.xlsx"
    row = "".join(f'<c r="{{letter}}{{n}}" s="{one}"/>' for one in (1, 2, 3, 4) for _ in range(5))
    letters = "ABCDEFGHIJKLMNOPQRST"
    cells = row.replace("{letter}", "%s") % tuple(letters)
    styles = makers.coloured_xlsx(["FF0000", "00FF00", "0000FF", "FFFF00"])
    _sheet_of(path, (f'<row r="{n}">{cells.replace("{n}", str(n))}</row>' for n in range(1, 50_001)), styles)
    answer = ask(path)
    assert answer.read is None
    assert "S: the fills are told of the first 100,000 cells that have one, up to row 5000" in answer.notes


@pytest.mark.long
def test_an_opendocument_sheet_that_repeats_a_cell_without_end(tmp_path: Path) -> None:
    from odf.table import TableCell  # type: ignore[import-untyped]

    path = tmp_path / "repeated.ods"
    whole = makers.ods({"S": [["a", TableCell(valuetype="float", value=1, numbercolumnsrepeated=16_000)]]})
    grown = makers.replaced(
        whole, "content.xml", b"<table:table-row>", b'<table:table-row table:number-rows-repeated="1048576">'
    )
    path.write_bytes(grown)
    answer = ask(path)
    assert answer.read is None
    assert answer.notes[0] == "S: only the rows up to 31 were read, 500,000 cells in all"


@pytest.mark.long
def test_broken_workbooks_are_said_to_be(tmp_path: Path) -> None:
    broken = tmp_path / "a.ods"
    whole = makers.ods({"S": [["a", "b"]]})
    broken.write_bytes(makers.replaced(whole, "content.xml", b"</office:body>", b"</office:bod"))
    assert f"{broken} is corrupt: this document cannot be read (ParseError: " in (ask(broken).read or "")
    old = tmp_path / "a.xls"
    old.write_bytes(makers.xls({"S": [["a"] * 200] * 50})[:9_000])
    said = ask(old).read or ""
    assert said.startswith(f"{old} is corrupt: this document cannot be read (")
    locked = tmp_path / "b.ods"
    keys = b"<manifest:encryption-data/></manifest:manifest>"
    locked.write_bytes(makers.replaced(whole, "META-INF/manifest.xml", b"</manifest:manifest>", keys))
    assert "is an encrypted office document; save it without a password." in (ask(locked).checked or "")


def _sheet_of(path: Path, rows: Iterable[str], whole: bytes = b"") -> None:
    """A workbook with a sheet written row by row, all else as in `whole`."""
    whole = whole or makers.xlsx({"S": [["a"]]})
    with (
        zipfile.ZipFile(io.BytesIO(whole)) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for info in old.infolist():
            if info.filename != "xl/worksheets/sheet1.xml":
                new.writestr(info.filename, old.read(info))
        with new.open("xl/worksheets/sheet1.xml", "w") as out:
            space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
            out.write(f'<?xml version="1.0"?><worksheet xmlns="{space}"><sheetData>'.encode())
            left = iter(rows)
            while block := "".join(islice(left, 10_000)):
                out.write(block.encode())
            out.write(b"</sheetData></worksheet>")


# --- anything -------------------------------------------------------------------------------------------------------


def _wholes(folder: Path) -> dict[str, bytes]:
    from fpdf import FPDF

    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    pdf.add_page()
    pdf.multi_cell(0, 6, "Words.")
    words = " ".join(str(CHANCE.random()) for _ in range(300))  # that do not pack into nothing
    return {
        "a.docx": makers.docx([words]),
        "a.xlsx": makers.xlsx({"S": [words.split()]}),
        "a.xls": makers.xls({"S": [words.split()[:200]]}),
        "a.ods": makers.ods({"S": [words.split()]}),
        "a.odt": makers.odt([words]),
        "a.pptx": makers.pptx([("a", words)]),
        "a.epub": makers.epub([words]),
        "a.pdf": bytes(pdf.output()),
        "a.zip": makers.zipped({"a.txt": words}),
        "a.tar": makers.tarred({"a.txt": words.encode()}, "w:"),
        "a.tar.gz": makers.tarred({"a.txt": words.encode()}),
        "a.tar.bz2": makers.tarred({"a.txt": words.encode()}, "w:bz2"),
        "a.tar.xz": makers.tarred({"a.txt": words.encode()}, "w:xz"),
        "a.txt.gz": makers.gzipped(words.encode()),
        "a.msg": makers.msg("News", "Words."),
        "a.eml": makers.eml(words, {"a.csv": b"a,b\n1,2\n"}),
        "a.ipynb": makers.notebook(words, words),
        "a.xml": f"<?xml version='1.0'?><a>{words}</a>".encode(),
        "a.html": f"<!doctype html><html><body><p>{words}</p></body></html>".encode(),
        "a.json": json.dumps({"words": words}).encode(),
        "a.csv": words.replace(" ", ",").encode(),
    }


STILL_TEXT = {"a.eml", "a.ipynb", "a.xml", "a.html", "a.json", "a.csv"}
"""What is text is read as far as it goes."""


_PADDED = {"a.tar", "a.msg"}
"""Nothing is lost with the last of their bytes."""


@pytest.mark.parametrize("share", [0.2, 0.6, 0.97])
@pytest.mark.long
def test_what_is_cut_off_is_said_to_be_corrupt(tmp_path: Path, share: float) -> None:
    for name, whole in _wholes(tmp_path).items():
        path = tmp_path / name
        path.write_bytes(whole[: int(len(whole) * share)])
        try:
            document = read_document_sync(path)
        except FileInputError as error:
            said = str(error)
            assert said.startswith(f"{path} is corrupt") or "holds no member that can be read" in said, said
            assert name not in STILL_TEXT, said
        else:
            assert name in STILL_TEXT or (name in _PADDED and share > 0.9), (
                f"{name} is cut off, and nobody noticed: {document}"
            )


@pytest.mark.long
def test_bytes_turned_over_anywhere_end_in_a_document_or_a_sentence(tmp_path: Path) -> None:
    chance = random.Random()
    seed = chance.randint(0, 1 << 30)
    chance.seed(seed)
    for name, whole in _wholes(tmp_path).items():
        data = bytearray(whole)
        for _ in range(max(1, len(data) // 200)):
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        path = tmp_path / name
        path.write_bytes(data)
        try:
            read_document_sync(path)
        except FileInputError as error:
            assert str(error).startswith(str(path)), (seed, name)


@pytest.mark.parametrize(("field", "sentence"), [("seconds", "within 0.05 s"), ("memory_bytes", "more than 24 MiB")])
def test_the_bounds_hold_for_every_format(tmp_path: Path, field: str, sentence: str) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(makers.xlsx({"S": [["a"] * 20] * 500}))
    limits = ReadLimits(seconds=0.05) if field == "seconds" else ReadLimits(memory_bytes=24 << 20)
    with pytest.raises(FileInputError, match=sentence):
        read_document_sync(path, limits)
    forking = [one for one in psutil.Process(os.getpid()).children() if "_worker.py" in " ".join(one.cmdline())]
    assert not [one for parent in forking for one in parent.children() if one.status() != psutil.STATUS_ZOMBIE]


def test_more_text_than_may_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(makers.zipped({"a.txt": "words " * 1000}))
    with pytest.raises(FileInputError, match="holds more than 100 characters by the text; give the part you need"):
        read_document_sync(path, ReadLimits(chars=100))
    with pytest.raises(FileInputError, match="holds more text than can be kept"):
        read_document_sync(path, ReadLimits(output_bytes=1000))


def test_what_lies_beside_a_hostile_member_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(
        makers.zipped(
            {"laughs.xml": _LAUGHS + "]><l>&a11;</l>", "cut.docx": makers.docx(["x"])[:300], "b.txt": "words"}
        )
    )
    document = read_document_sync(path)
    assert isinstance(document, PartsDocument)
    assert [(part.name, isinstance(part.document, TextDocument)) for part in document.parts] == [("b.txt", True)]
    assert document.notes[0] == "laughs.xml is not read: its XML declares entities"
    assert document.notes[1].startswith("cut.docx is not read: ")
