"""Shared by the converters: the bounds of one job, the documents they make, and how they refuse."""

from __future__ import annotations

import importlib
import importlib.util
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MOST_DEPTH = 5  # archives and mails inside each other that are opened


class Refused(Exception):
    """A file that is not read: `code` says which sentence tells so (worker.py), `detail` what that names."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code, self.detail = code, detail


Convert = Callable[["ReadJob", bytes, str, int], dict[str, Any]]  # converts a member: job, bytes, name, depth


@contextmanager
def refusing(code: str) -> Iterator[None]:
    """Turn whatever a library says of broken input into a refusal."""
    try:
        yield
    except (Refused, MemoryError, RecursionError):
        raise
    except Exception as error:
        text = re.sub(r"<([\w. ]+) at 0x[0-9a-fA-F]+>", r"\1", str(error))  # where an object lies tells nobody anything
        raise Refused(code, f"{type(error).__name__}: {one_line(text)}") from None


@dataclass
class ReadJob:
    """One file that is read, and what is left of its bounds; members of archives share those of the whole."""

    check: bool  # only look whether it can be read
    deadline: float  # (monotonic clock) after which what may be left out is left out
    numbers: dict[str, int]  # the bounds, see `ReadLimits`
    encoding: str = ""  # of its text, as whoever reads it says; "" to look
    notes: list[str] = field(default_factory=list)  # what was left out, for the reader
    _usage: Counter[str] = field(default_factory=Counter)

    def spend(self, limit: str, count: int = 1, place: str = "") -> None:
        """Count what was read or unpacked, by the names of `ReadLimits`; Refused when it exceeds the bound."""
        self._usage[limit] += count
        if self._usage[limit] > self.numbers[limit]:
            raise Refused(limit.removesuffix("_bytes"), place)

    def take_cells(self, count: int) -> bool:
        """Return True if so many more cells may be kept."""
        if self._usage["cells"] + count > self.numbers["cells"]:
            return False
        self._usage["cells"] += count
        return True

    def late(self) -> bool:
        """Return True if half of the time has gone."""
        return time.monotonic() > self.deadline


def need(module: str) -> Any:
    """Import a library of the extra `files`; Refused where it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise Refused("extra", error.name or module) from None


def check_installed(module: str) -> None:
    """Raises: Refused: if a library is not installed. Importing it can take a second; this does not."""
    if importlib.util.find_spec(module) is None:
        raise Refused("extra", module)


def clean(text: str) -> str:
    """Return text that UTF-8 can hold, without null characters, with bare newlines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, most: int = 200) -> str:
    """Return a name from outside without control characters and line breaks, and not long."""
    line = "".join(char if char.isprintable() else "?" for char in text)
    return line if len(line) <= most else line[:most] + "…"


def text_document(
    job: ReadJob,
    text: str,
    media_type: str,
    form: str | None = None,
    *,
    tables: Sequence[dict[str, Any]] = (),
    doubt: str = "",
) -> dict[str, Any]:
    """Return text as a document; `form` says how it stands in its file, None that it was converted; `doubt` a note."""
    text = clean(text)
    job.spend("chars", len(text), "the text")
    document: dict[str, Any] = {"kind": "text", "text": text, "media_type": media_type}
    document["notes"] = [doubt] if doubt else []
    if form is not None:
        document["form"] = form
    if tables:
        survivors = [table for table in tables if job.take_cells(sum(map(len, [table["header"], *table["rows"]])))]
        document["tables"] = survivors
        if left := len(tables) - len(survivors):
            document["notes"].append(f"{left} of its tables have no addresses, as it has too many cells")
    return document


def table_document(
    media_type: str, header: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str = ",", form: str = ""
) -> dict[str, Any]:
    """Return a table as a document: its header (empty for none), the records below it, and what it was read as."""
    first = 2 if header else 1
    table = {"kind": "table", "media_type": media_type, "header": header, "rows": rows, "first_row": first}
    return table | {"delimiter": delimiter, "form": form}


class PartList:
    """Collects the parts of a document under names that differ."""

    def __init__(self, media_type: str) -> None:
        self._media_type = media_type
        self._parts: list[dict[str, Any]] = []
        self._names: set[str] = set()
        self.notes: list[str] = []

    def add(self, name: str, document: dict[str, Any], size: int | None = None) -> str:
        """Add a part; its name as it was taken."""
        name = plain = one_line(name).strip() or "unnamed"
        counter = 1
        while name in self._names:
            counter += 1
            name = f"{plain} ({counter})"
        self._names.add(name)
        self._parts.append({"name": name, "document": document, "size": size})
        return name

    def document(self) -> dict[str, Any]:
        return {"kind": "parts", "media_type": self._media_type, "parts": self._parts, "notes": self.notes}

    def __len__(self) -> int:
        return len(self._parts)


_REASONS = {
    "binary": "it holds binary data",
    "foreign": "its format is not read",
    **dict.fromkeys(("ole", "doc"), "it is an old office document"),
    "empty": "it is empty",
    "depth": f"it lies inside more than {MOST_DEPTH} others",
    **dict.fromkeys(("encrypted_member", "encrypted_archive", "encrypted_pdf", "encrypted_office"), "it is encrypted"),
    "entities": "its XML declares entities",
    "pdf_cut": "it is cut off",
    "pdf_blank": "its pages are empty",
}


def reason_of(error: Refused) -> str:
    """Return why a member is left out, for a list of them."""
    return _REASONS.get(error.code, error.detail or error.code)
