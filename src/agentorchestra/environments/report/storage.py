"""Where the items of a run's report are kept, and where its files lie."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.content import Block, Source, TextBlock, Trust, without_numbers
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import FileInputError, ToolError
from agentorchestra.environments.beneath import parts_of, status_of
from agentorchestra.environments.files import disk
from agentorchestra.environments.files.disk import DiskPlace
from agentorchestra.environments.folder import FILES, FolderEnvironment
from agentorchestra.environments.report.addresses import address_of_file, file_address
from agentorchestra.environments.report.items import ReportItem
from agentorchestra.environments.report.references import CollectedReferences, collect
from agentorchestra.environments.report.shared import SharedReport
from agentorchestra.log.folders import MAIN

MOST_ITEMS = 1_000
MOST_CONTENT = 200_000  # characters of one item
_TEXTS = (".md", ".markdown", ".txt", ".json")
_STATE_ITEMS = 40
_STATE_CHARS = 240  # items, and characters of each, that are shown to the agent in each step


def count(number: int, noun: str = "reference") -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class ReportStorage(FolderEnvironment):
    """Items of a report: the environment remembers their short form, the run's store has them whole."""

    name = "report"

    def __init__(self, reports: Path | None = None) -> None:
        self._reports = reports

    @property
    def confined(self) -> bool:
        """Paths are walked from the folder, and no link is followed; shared reports have a folder of their own."""
        return True

    def repeatable(self, action: str) -> bool:
        """Return True: a resume puts the folder back, and what is shared knows the effect that added it."""
        return True

    @property
    def rows(self) -> list[dict[str, JsonValue]]:
        rows = self.kept.get("items")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    async def keep(self, ctx: Any, item: ReportItem, report: str, *, number: int = 0) -> int:
        """Keep an item at the end, or in the place of the item `number`; return its number."""
        rows = self.rows
        if not number and len(rows) >= MOST_ITEMS:
            raise ToolError(f"the report has {MOST_ITEMS:,} items already; complete it")
        data = item.model_dump_json().encode("utf-8", "replace")
        ref = await ctx.artifact("report", data, "application/json")
        short: dict[str, JsonValue] = {
            "title": item.title,
            "summary": (item.summary or " ".join(item.content.split()))[:_STATE_CHARS],
            "references": len(item.references),
            "by": item.by,
            "size": len(item.content),
            "summarised": bool(item.summary),
            "report": report,
            "id": item.id,
            "sha256": ref.sha256,
        }
        if number:
            rows[number - 1] = short
        else:
            rows.append(short)
        self.kept["items"] = [*rows]
        return number or len(rows)

    async def item(self, ctx: Any, number: int) -> ReportItem:
        rows = self.rows
        if not 1 <= number <= len(rows):
            raise ToolError(f"there is no item {number}; the report has {count(len(rows), 'item')}")
        return await self._whole(ctx, rows[number - 1])

    async def _whole(self, ctx: Any, short: dict[str, JsonValue]) -> ReportItem:
        ref = ArtifactRef(name="report", sha256=str(short["sha256"]), size=0)
        return ReportItem.model_validate_json(await ctx.read_artifact(ref))

    async def collection(self, ctx: Any, report: str, more: Sequence[ReportItem] = ()) -> CollectedReferences:
        """Return the items of the run, or those of a shared report, and these, with their references as one list."""
        if report:
            shared = self.shared(report)
            await self.publish(ctx, shared)
            items = await asyncio.to_thread(shared.items)
        else:
            items = [await self._whole(ctx, row) for row in self.rows]
        return await asyncio.to_thread(collect, [*items, *more])

    def shared(self, name: str) -> SharedReport:
        if self._reports is None:
            raise ToolError(f"the report {name!r} cannot be shared: there is no workspace here; leave the name out")
        return SharedReport(self._reports, name)

    async def publish(self, ctx: Any, shared: SharedReport) -> str:
        """Add what of this run belongs to a shared report and is not there; for a candidate, once it is chosen."""
        if getattr(ctx, "world", MAIN) != MAIN:
            return f"it is in the shared report {shared.name!r} as soon as this candidate is chosen"
        items = [await self._whole(ctx, row) for row in self.rows if row.get("report") == shared.name]
        number = await asyncio.to_thread(shared.add, items)
        return f"the shared report {shared.name!r} has {count(number, 'item')}"

    def refuse_candidates(self, ctx: Any, change: str) -> None:
        """Candidates of a step change nothing outside of their world."""
        if getattr(ctx, "world", MAIN) != MAIN:
            raise ToolError(f"a candidate of a step cannot {change}; do it when the step is taken")

    def place(self, path: str) -> DiskPlace:
        """Return the place of a path; the task's files are seen below `files/`."""
        return disk.place_of(path.strip(), self.folder, self.files)

    def address_of(self, ctx: Any, name: str) -> str:
        """Return the address of a file of the task, or of the run's folder; "" for what is none of them. Blocks."""
        for ref in ctx.manifest.files:
            if ref.name == name.removeprefix(f"{FILES}/"):
                return address_of_file(ref)
        if not name or "://" in name or name.startswith("/") or len(name) > 1_000:
            return ""
        try:
            parts = parts_of(name)
            status_of(self.folder, parts)
        except (OSError, ValueError):
            return ""
        return file_address(str(self.folder.joinpath(*parts))) if parts else ""

    async def content_of(self, ctx: Any, path: str) -> str | dict[str, JsonValue]:
        """Return a file's content: JSON as an object, text as it is, a document as far as it is read at once."""
        place = self.place(path)
        try:
            copy = await asyncio.to_thread(disk.copy_of, place, self._stands_on.temporary)
            try:
                if not path.lower().endswith(_TEXTS):
                    return "\n".join(map(without_numbers, await disk.content_blocks(copy.path, place.path, "", ctx)))
                data = await asyncio.to_thread(_read_limited, copy.path, path)
            finally:
                await asyncio.to_thread(disk.forget, copy.path)
            if not path.lower().endswith(".json"):
                return data.decode("utf-8", "replace")
            value = json.loads(data)
            return value if isinstance(value, dict) else {"values": value}
        except FileInputError as exc:
            raise ToolError(str(exc).replace(str(copy.path), place.path)) from None
        except OSError as exc:
            raise disk.failure(exc) from None
        except (ValueError, RecursionError) as exc:
            raise ToolError(f"{path} is no JSON: {exc}; give its text as content") from None

    async def to_disk(self, path: str, data: bytes) -> DiskPlace:
        """Write a report; a file of that name that is not from here stays, and the report has a number behind it."""
        record = self.kept.get("written")
        digests = dict(record) if isinstance(record, dict) else {}

        def write() -> DiskPlace:
            first = self.place(path)
            if first.from_task or not first.parts:
                raise ToolError(
                    f"the report cannot be written to {path!r}; name a file of the folder, such as report.md"
                )
            head, dot, ending = path.rpartition(".")
            places = (self.place(f"{head or path}-{n}{dot}{ending if head else ''}") for n in range(2, 50))
            for place in (first, *places):
                before = disk.content_of(place)
                if before is None or hashlib.sha256(before).hexdigest() == digests.get(place.path):
                    disk.write(place, self._stands_on.temporary, data)
                    return place
            raise ToolError(f"{path} and many names like it are taken; name another file")

        place = await disk.in_thread(write)
        self.kept["written"] = {**digests, place.path: hashlib.sha256(data).hexdigest()}
        return place

    def block(self, text: str) -> TextBlock:
        """Words of the report, which may be anybody's."""
        return TextBlock(text=text, source=Source(kind="environment", ref=self.name), trust=Trust.UNTRUSTED)

    async def state(self) -> tuple[Block, ...]:
        rows = self.rows
        lines = [count(len(rows), "item") if rows else "no items yet"]
        for number, row in enumerate(rows[:_STATE_ITEMS], start=1):
            title = f"{row['title']}: " if row["title"] else ""
            references = count(int(str(row["references"])))
            lines.append(f"{number}. {title}{row['summary']} ({references}, by {row['by']})")
        if len(rows) > _STATE_ITEMS:
            lines.append(f"and {len(rows) - _STATE_ITEMS} more")
        return (self.block("\n".join(lines)),)


def _read_limited(path: Path, name: str) -> bytes:
    size = path.stat().st_size
    if size > 4 * MOST_CONTENT:
        raise ToolError(f"{name} has {size:,} bytes; add at most {4 * MOST_CONTENT:,}, or a part of it as content")
    return path.read_bytes()
