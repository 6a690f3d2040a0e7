"""One decoder for every text: what is read right, and what is said where that is a guess."""

from __future__ import annotations

import email.message
import io
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.files import makers
from tests.files.texts import LANGUAGES
from tests.support.file_tools import used

from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.tools.files.documents import TableDocument, TextDocument
from agentorchestra.tools.files.formats.base import Job
from agentorchestra.tools.files.formats.charsets import known
from agentorchestra.tools.files.formats.convert import convert
from agentorchestra.tools.files.formats.text import decoded, name_of
from agentorchestra.tools.files.formats.webpage import read_page
from agentorchestra.tools.files.readers import read_document, read_document_sync
from agentorchestra.tools.files.worker import LIMITS

DOUBT = "a guess by its letters"


def job(encoding: str = "") -> Job:
    return Job(False, time.monotonic() + 60, asdict(LIMITS), encoding)


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


def test_small_texts_of_many_languages_are_read_right_or_with_their_doubt() -> None:
    every = [*samples()]
    assert len(every) >= 200
    assert len({one.language for one in every}) >= 12 and len({known(one.encoding) for one in every}) >= 20
    wrong, unsaid = [], []
    for one in every:
        text, said = read_of(one)
        if one.text not in text:
            wrong.append((one.language, one.encoding, one.container, text[-60:]))
            if DOUBT not in said:
                unsaid.append(one)
    assert not unsaid
    assert len(wrong) <= len(every) * 0.05, wrong
