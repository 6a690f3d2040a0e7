"""One decoder for every text: what is read right, and what is said where that is a guess."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.files import makers
from tests.files.texts import LANGUAGES
from tests.support.file_tools import used
from tests.support.files import FakeContext

from agentorchestra.core.errors import ToolError
from agentorchestra.tools.files.documents import TableDocument
from agentorchestra.tools.files.formats.base import ReadJob
from agentorchestra.tools.files.formats.charsets import codec_name, declared_codec
from agentorchestra.tools.files.formats.convert import convert
from agentorchestra.tools.files.formats.text import decoded, name_of
from agentorchestra.tools.files.formats.webpage import read_page
from agentorchestra.tools.files.readers import read_document_sync
from agentorchestra.tools.files.worker import LIMITS

DOUBT = "a guess by its letters"


def job(encoding: str = "") -> ReadJob:
    return ReadJob(False, time.monotonic() + 60, asdict(LIMITS), encoding)


class Sample(NamedTuple):
    """A small text in a container, and what is to be read of it."""

    language: str
    encoding: str
    container: str
    data: bytes
    text: str


def samples() -> Iterator[Sample]:
    for name, language in LANGUAGES.items():
        table = "".join(",".join(row) + "\n" for row in language.table)
        for encoding in language.encodings:
            for paragraph in language.paragraphs:
                yield Sample(name, encoding, "txt", f"{paragraph}\n".encode(encoding), paragraph)
            long = "\n\n".join(language.paragraphs)
            yield Sample(name, encoding, "csv", table.encode(encoding), table)
            page = f"<html><head><title>x</title></head><body><p>{language.paragraphs[1]}</p></body></html>"
            yield Sample(name, encoding, "html", page.encode(encoding), language.paragraphs[1])
            lying = page.replace("<title>", '<meta charset="utf-8"><title>')
            yield Sample(name, encoding, "html", lying.encode(encoding), language.paragraphs[1])
            mail = b"From: ann@example.org\nTo: bob@example.org\nSubject: x\n\n" + long.encode(encoding)
            yield Sample(name, encoding, "eml", mail, long)
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.writestr("inner.txt", long.encode(encoding))
            yield Sample(name, encoding, "zip", packed.getvalue(), long)


def read_of(sample: Sample) -> tuple[str, str]:
    """What is read of a sample, and what is said of how."""
    name = f"a.{sample.container}"
    if sample.container == "html":
        document = read_page(job(), sample.data, name, {"raw": True, "media_type": "text/html"})["document"]
    else:
        document = convert(job(), sample.data, name)
    if document["kind"] == "parts":
        document = document["parts"][0]["document"]
    said = " ".join([str(document.get("form") or ""), *document.get("notes", ())])
    if document["kind"] == "table":
        rows = [document["header"], *document["rows"]] if document["header"] else document["rows"]
        return "".join(",".join(row) + "\n" for row in rows), said
    return document["text"], said


@pytest.mark.long
def test_small_texts_of_many_languages_are_read_right_or_with_their_doubt() -> None:
    every = [*samples()]
    assert len(every) >= 200
    assert len({one.language for one in every}) >= 12 and len({codec_name(one.encoding) for one in every}) >= 20
    wrong, unsaid = [], []
    for one in every:
        text, said = read_of(one)
        if one.text not in text:
            wrong.append((one.language, one.encoding, one.container, text[-60:]))
            if DOUBT not in said:
                unsaid.append(one)
    assert not unsaid
    assert len(wrong) <= len(every) * 0.05, wrong


RUSSIAN, JAPANESE, GREEK = (LANGUAGES[name].paragraphs for name in ("Russian", "Japanese", "Greek"))


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        ("Der Käufer zahlt im Café".encode("cp1252"), "Der Käufer zahlt im Café", "cp1252"),
        (b"Sie zahlt im Caf\xe9", "Sie zahlt im Café", "cp1252"),  # not the beginning of a letter in UTF-8
        (RUSSIAN[0].encode("utf-16-le"), RUSSIAN[0], "utf-16-le"),
        (GREEK[0].encode("utf-16-be"), GREEK[0], "utf-16-be"),
        (JAPANESE[1].encode("utf-16-le"), JAPANESE[1], "utf-16-le"),
        (LANGUAGES["Korean"].paragraphs[0].encode("utf-16-be"), LANGUAGES["Korean"].paragraphs[0], "utf-16-be"),
        (LANGUAGES["Arabic"].paragraphs[0].encode("utf-16-le"), LANGUAGES["Arabic"].paragraphs[0], "utf-16-le"),
        (JAPANESE[0].encode("iso2022_jp"), JAPANESE[0], "iso2022_jp"),
        (b"a\0b", "a␀b", "utf-8"),
        (b"./one.txt\0./two.txt\0", "./one.txt␀./two.txt␀", "utf-8"),
        (b"\x0bMSH|^~\\&|LAB|\rPID|1||7\r\x1c\r", "\x0bMSH|^~\\&|LAB|\rPID|1||7\r\x1c\r", "utf-8"),  # HL7
        (b"00042nam\x1e1\x1fa One\x1fb Two\x1e\x1d", "00042nam\x1e1\x1fa One\x1fb Two\x1e\x1d", "utf-8"),  # MARC
        (b"8=FIX.4.2\x019=65\x0135=A\x01", "8=FIX.4.2\x019=65\x0135=A\x01", "utf-8"),
        (("größe " * 9).encode()[:-5], "größe " * 8 + "gr�", "utf-8"),  # cut inside a letter
    ],
)
def test_bytes_that_were_read_wrong_or_refused(data: bytes, text: str, encoding: str) -> None:
    found = decoded(data)
    assert (found.text, found.encoding) == (text, encoding)


@pytest.mark.parametrize("data", [b"one \x00\x01\x02\x03\x04 two", bytes(range(256)) * 4, b"\0" * 40 + b"x"])
def test_binary_data_is_still_no_text(data: bytes) -> None:
    with pytest.raises(Exception, match="binary"):
        decoded(data)


@pytest.mark.parametrize(
    ("data", "declared", "said"),
    [
        (
            LANGUAGES["Arabic"].paragraphs[1].encode("cp1256"),
            "utf-8",
            "guess by its letters (it says UTF-8, which does",
        ),
        (RUSSIAN[1].encode("koi8-r"), "iso-8859-1", "guess by its letters (it says Windows-1252, which does not fit)"),
        (RUSSIAN[1].encode("koi8-r"), "koi8-r", ""),
        (JAPANESE[1].encode("cp932"), "x-sjis", ""),
        (LANGUAGES["Traditional Chinese"].paragraphs[1].encode("cp950"), "windows-950", ""),
        ("Привет 你好 Ωμέγα".encode("gb18030"), "gb18030", "as it says, though EUC-JP and Big5 are likelier"),
        (LANGUAGES["Korean"].paragraphs[1].encode("cp949"), "shift_jis", "says Shift_JIS, which does not fit"),
        (LANGUAGES["German"].paragraphs[1].encode("mac_roman"), "big5", "says Big5, which does not fit"),
        (b"na\xefve", "iso-8859-1", ""),
        ("Die Größe".encode(), "iso-8859-1", ""),  # valid UTF-8 is never anything else
    ],
)
def test_what_a_text_says_of_itself_counts_unless_its_letters_do_not_fit(data: bytes, declared: str, said: str) -> None:
    found = decoded(data, declared)
    assert said in found.doubt and bool(said) == bool(found.doubt)


@pytest.mark.parametrize("name", ["cp1252", "cp932", "big5hkscs", "utf-16-le", "koi8-r", "iso8859-2", "mac-roman"])
def test_the_name_that_is_shown_is_one_that_may_be_given(name: str) -> None:
    assert declared_codec(name_of(name)) == codec_name(name)


def test_a_table_tells_its_encoding_and_another_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("氏名,金額\n山田太郎,12000\n佐藤はなこ,8500\n".encode("cp932"))
    document = read_document_sync(path)
    assert isinstance(document, TableDocument)
    assert (document.header, document.form.partition(";")[0]) == (
        ("氏名", "金額"),
        "Read as Shift_JIS, a guess by its letters",
    )
    utf16 = tmp_path / "b.csv"
    utf16.write_bytes("a,b\n1,ü\n".encode("utf-16"))
    document = read_document_sync(utf16)
    assert isinstance(document, TableDocument)
    assert (document.rows, document.form) == ((("1", "ü"),), "Read as UTF-16 LE with a byte order mark.")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.zip"])
async def test_an_agent_reads_in_the_encoding_that_it_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = "name,city\nZoé Müller,Orléans\n".encode("cp1252")
    if name == "a.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.txt", text)
    else:
        path.write_bytes(text)
    ctx = FakeContext([path], tmp_path)
    guessed = "\n".join(one.text for one in await used(ctx, "read_file", name=name))
    assert "Zoé Müller" in guessed and DOUBT in guessed
    named = "\n".join(one.text for one in await used(ctx, "read_file", name=name, encoding="cp1251"))
    assert "Zoй Mьller" in named and "guess" not in named
    with pytest.raises(ToolError, match="the encoding 'klingon' is unknown"):
        await used(ctx, "read_file", name=name, encoding="klingon")


def test_mail_says_its_doubt_and_keeps_raw_headers() -> None:
    mail = (
        b"From: a@b.org\nTo: c@d.org\nSubject: " + RUSSIAN[0].encode("cp1251") + b"\n\n" + RUSSIAN[1].encode("cp1251")
    )
    message = convert(job(), mail, "a.eml")["parts"][0]["document"]
    assert f"Subject: {RUSSIAN[0]}\n\n{RUSSIAN[1]}\n" in message["text"] and DOUBT in message["notes"][0]
    assert "Subject: оПХБЕР" in convert(job("koi8-r"), mail, "a.eml")["parts"][0]["document"]["text"]


@pytest.mark.parametrize(
    ("language", "encoding", "page"),
    [
        ("Traditional Chinese", "cp950", 950),
        ("Traditional Chinese", "cp950", 0),  # it names none
        ("Traditional Chinese", "cp950", 1252),
        ("Traditional Chinese", "cp950", 99_999),  # there is none of this number
        ("Simplified Chinese", "gbk", 936),
        ("Thai", "cp874", 874),
        ("Russian", "cp1251", 1252),
        ("Russian", "koi8-r", 1251),
        ("Russian", "cp1251", 65_001),
    ],
)
def test_messages_of_outlook_in_a_code_page(language: str, encoding: str, page: int) -> None:
    subject, text, _ = LANGUAGES[language].paragraphs
    data = makers.msg(subject, text, sender="Ann", encoding=encoding, code_page=page)
    message = convert(job(), data, "a.msg")["parts"][0]["document"]
    assert f"Subject: {subject}\n\n{text}\n" in message["text"]
    assert (DOUBT in str(message.get("notes"))) == (codec_name(f"cp{page}") != codec_name(encoding))


@pytest.mark.parametrize("page", [0, 1251, 28_595])
def test_pages_in_messages_of_outlook_say_their_doubt(page: int) -> None:
    html = f"<html><body><p>{RUSSIAN[1]}</p></body></html>".encode("cp1251")
    data = makers.msg(RUSSIAN[0], "", code_page=1251, html=html, internet_page=page)
    message = convert(job(), data, "a.msg")["parts"][0]["document"]
    assert f"Subject: {RUSSIAN[0]}\n\n{RUSSIAN[1]}\n" in message["text"]
    assert (DOUBT in str(message.get("notes"))) == (page == 28_595)


def test_a_chapter_of_a_book_says_its_doubt() -> None:
    book = makers.replaced(makers.epub(["WORDS"]), "OEBPS/c0.xhtml", b"WORDS", RUSSIAN[1].encode("cp1251"))
    (chapter,) = convert(job(), book, "a.epub")["parts"]
    assert RUSSIAN[1] in chapter["document"]["text"] and DOUBT in str(chapter["document"]["notes"])
