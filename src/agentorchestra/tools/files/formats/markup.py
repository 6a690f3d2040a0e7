"""JSON, XML, HTML, notebooks: formats written as text."""

from __future__ import annotations

import json
from typing import Any

from .base import PartList, ReadJob, Refused, clean, need, text_document
from .blocks import Blocks
from .text import decoded, encoding_of, form_of, with_newlines


def convert_json(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return JSON as it stands in the file; a notebook as its cells; what is no JSON as text."""
    reading = decoded(data, encoding=job.encoding)
    text = with_newlines(reading.text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        media_type = "application/jsonl" if _is_jsonl(text) else "text/plain"
        return text_document(job, text, media_type, form_of(reading))
    if isinstance(value, dict) and isinstance(value.get("cells"), list) and "nbformat" in value:
        return _notebook(job, value)
    return text_document(job, text, "application/json", form_of(reading))


def _is_jsonl(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        for line in lines[:20]:
            json.loads(line)
    except (ValueError, RecursionError):
        return False
    return len(lines) > 1


def _notebook(job: ReadJob, notebook: dict[str, Any]) -> dict[str, Any]:
    """Return each cell with its outputs below it."""
    parts = PartList("application/x-ipynb+json")
    for number, cell in enumerate(notebook["cells"], 1):
        if not isinstance(cell, dict):
            continue
        job.spend("members")
        source = _source_text(cell.get("source"))
        outputs = [_output(output) for output in cell.get("outputs") or () if isinstance(output, dict)]
        text = source + "".join(f"\n\nOutput:\n{output}" for output in outputs if output.strip())
        if text.strip():
            parts.add(
                f"cell {number}",
                text_document(job, text, "text/markdown" if cell.get("cell_type") == "markdown" else "text/plain"),
            )
    if not len(parts):
        raise Refused("no_text", "this notebook has no cell with content")
    return parts.document()


def _source_text(value: Any) -> str:
    """Return text that a notebook holds as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        return f"{output.get('ename')}: {output.get('evalue')}"
    data: dict[str, Any] = output["data"] if isinstance(output.get("data"), dict) else {}
    texts = (output.get("text"), *(data.get(f"text/{kind}") for kind in ("plain", "markdown", "html")))
    text = next(filter(None, map(_source_text, texts)), "")
    pictures = [f"[{name}]" for name in data if name.startswith("image/")]
    return "\n".join([*([text[:200_000].rstrip("\n")] if text else []), *pictures])


def check_entities(data: bytes) -> None:
    """Raises: Refused: if XML declares entities: they are how a small file grows without end."""
    for encoding in ("ascii", "utf-16-le", "utf-16-be"):
        if "<!ENTITY".encode(encoding) in data:
            raise Refused("entities")


def convert_xml(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return XML as it stands in the file, broken or not."""
    reading = decoded(data, encoding=job.encoding)
    check_entities(data)
    return text_document(job, reading.text, "application/xml", form_of(reading))


def convert_html(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return HTML as Markdown."""
    reading = decoded(data, encoding=job.encoding)
    source = with_newlines(reading.text)
    if job.check:
        return text_document(job, source, "text/html")
    document = html_document(job, source, "text/html", doubt=encoding_of(reading, doubtful=True))
    return document if document["text"].strip() else text_document(job, source, "text/html")


def html_document(job: ReadJob, source: str, media_type: str, *, doubt: str = "") -> dict[str, Any]:
    """Return a page as Markdown, with its tables; `doubt` is a note on its letters."""
    text, tables = _markdown(need("markitdown.converters"), source, "text/html")
    return text_document(job, text, media_type, tables=tables, doubt=doubt)


def html_text(converters: Any, source: str) -> str:
    """Return the Markdown of a page, the source of one that is nested too deep for that."""
    return _markdown(converters, source)[0]


def _markdown(converters: Any, source: str, media_type: str = "") -> tuple[str, list[dict[str, Any]]]:
    blocks = Blocks(source, media_type)
    try:
        plain = blocks.with_marks(source, every=False).encode("utf-8", "replace").decode()
        return blocks.back(clean(str(converters.HtmlConverter().convert_string(plain).markdown)))
    except RecursionError:
        return source, []
