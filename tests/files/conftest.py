"""Documents for the tests of file reading, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

MakePdf = Callable[..., Path]


@pytest.fixture
def make_pdf(tmp_path: Path) -> MakePdf:
    """Writes a PDF with one paragraph a page."""

    def made(*pages: str, name: str = "made.pdf") -> Path:
        from fpdf import FPDF

        pdf = FPDF()
        pdf.set_font("Helvetica", size=11)
        for text in pages:
            pdf.add_page()
            if text:
                pdf.multi_cell(0, 6, text)
        path = tmp_path / name
        pdf.output(str(path))
        return path

    return made


@pytest.fixture
def encrypted_pdf(make_pdf: MakePdf, tmp_path: Path) -> Path:
    """A PDF that opens with a password only."""
    writer = PdfWriter(clone_from=PdfReader(make_pdf("Secret words.", name="plain.pdf")))
    writer.encrypt("password", algorithm="RC4-128")
    path = tmp_path / "locked.pdf"
    with path.open("wb") as file:
        writer.write(file)
    return path


@pytest.fixture
def slow_pdf(tmp_path: Path) -> Path:
    """A valid PDF whose single page keeps a parser busy for many seconds."""
    stream = b"BT /F1 12 Tf\n" + b"1 0 0 1 5 5 Tm (word) Tj\n" * 400_000 + b"ET"
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data = b"%PDF-1.4\n"
    offsets = []
    for number, part in enumerate(parts, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    start = len(data)
    data += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    data += b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start
    path = tmp_path / "slow.pdf"
    path.write_bytes(data)
    return path
