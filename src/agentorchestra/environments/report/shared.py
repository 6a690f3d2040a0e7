"""Reports that runs share: items in a file of the workspace, under a lock that processes hold one after the other.

    reports/NAME/items.jsonl    an item a line, only ever added to
    reports/NAME/report.md      the report as it was last completed
    reports/NAME/lock

An item's id is made of the effect that added it. One that is there is not added again, so an add that is repeated
after a crash adds nothing twice.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.report.items import ReportItem

MOST_BYTES = 64 << 20  # of the items of one report
WAIT_S = 60.0  # for whoever else is writing
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


class SharedReport:
    """A report in the workspace's folder of reports; every method blocks. Raise ToolError for a name that is none."""

    def __init__(self, folder: Path, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ToolError(
                f"{name[:100]!r} is no name of a report; take letters, digits, '-', '_' and '.', such as 'oysters-2026'"
            )
        self.name = name
        self.place = folder / name
        self.report = self.place / "report.md"  # as it was last completed
        self._items = self.place / "items.jsonl"

    def add(self, items: Sequence[ReportItem]) -> int:
        """Put items at the end; those that are there are left out. How many there are then."""
        with self._lock():
            ids, size = self._ids()
            lines = [_line(item) for item in items if item.id not in ids]
            if size + sum(len(line) for line in lines) > MOST_BYTES:
                raise ToolError(
                    f"the report {self.name!r} holds {size:,} bytes; at most {MOST_BYTES:,}: take another name"
                )
            if lines:
                with self._items.open("ab") as file:
                    file.write(b"".join(lines))
                    file.flush()
                    os.fsync(file.fileno())
            return len(ids) + len(lines)

    def items(self) -> list[ReportItem]:
        if not self._items.exists():
            return []
        with self._lock():
            self._ids()
            lines = self._items.read_bytes().splitlines()
        return [ReportItem.model_validate_json(line) for line in lines]

    def write(self, data: bytes, *, made_of: int | None = None) -> bool:
        """Replace the report; False if there are more items than it was `made_of`: it may be of somebody else then."""
        with self._lock():
            if made_of is not None and len(self._ids()[0]) > made_of:
                return False
            descriptor, name = tempfile.mkstemp(dir=self.place, prefix=".report-")
            path = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                path.chmod(0o644)
                path.replace(self.report)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return True

    def _ids(self) -> tuple[set[str], int]:
        """Return the ids that are there; remove a line that a killed process left half written."""
        if not self._items.exists():
            return set(), 0
        data = self._items.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(self._items, whole)
        return {line[7:71].decode("ascii", "replace") for line in data[:whole].splitlines()}, whole

    @contextmanager
    def _lock(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        self.place.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.place / "lock", timeout=WAIT_S):
                yield
        except Timeout:
            raise ToolError(
                f"another process has held the report {self.name!r} for {WAIT_S:.0f} s; try again later"
            ) from None


def _line(item: ReportItem) -> bytes:
    """`{"id":"…64 digits…", …}`: where the id stands is known, see `_ids`."""
    line = item.model_dump_json().encode("utf-8", "replace") + b"\n"
    assert line.startswith(b'{"id":"') and line[71:72] == b'"'
    return line
