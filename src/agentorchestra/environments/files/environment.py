"""The environment `files`: the folder of a run, to list, read, write, change, search, fetch into and unpack into."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import EditError, FileInputError, PatchError, ToolError, WebError
from agentorchestra.environments.files import disk
from agentorchestra.environments.files.disk import DiskPlace
from agentorchestra.environments.files.patch import apply_hunks, parse_patch
from agentorchestra.environments.files.syntax import syntax_problem
from agentorchestra.environments.files.trash import Trash
from agentorchestra.environments.files.undo import FileChanges
from agentorchestra.environments.folder import FolderEnvironment, rules_text
from agentorchestra.environments.project import GIT
from agentorchestra.tea.calling.environment import action
from agentorchestra.trust.arguments import INSIDE

if TYPE_CHECKING:
    from agentorchestra.environments.registry import EnvironmentParts

MOST_WRITTEN = 10_000_000  # characters of one `write`
MOST_LISTED = 400  # entries of one `list`
MOST_HITS = 100  # lines that one `search` gives
SHOWN_DIFF = 40  # lines of what changed that are told
_STATE_ENTRIES = 60  # entries that are shown to the agent in each step
_SEEN = "agent:files:"  # names of an agent's own state that hold which version of a file it last saw


class FilesEnvironment(FolderEnvironment):
    """A folder with files: read them part by part, write, change by replacement, move, delete, search, unpack."""

    name = "files"
    begins_with = frozenset({"read", "write", "edit"})

    def __init__(self, parts: EnvironmentParts | None = None) -> None:
        self._parts = parts

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> Self:
        """With the workspace's settings, which `download` follows."""
        return cls(parts)

    @property
    def confined(self) -> bool:
        """Each path is walked from the folder, and no link is followed."""
        return True

    def repeatable(self, action: str) -> bool:
        """Return True: only the folder is touched, which a resume first puts back."""
        return True

    def rules(self) -> str:
        return rules_text(self.name)

    # -- looking -----------------------------------------------------------------------------------------------------

    @action(effect="read")
    async def read(
        self, ctx: Any, path: str, part: str = "", view_range: list[int] | None = None, encoding: str = ""
    ) -> Any:
        """Read a file, whole or a part of it; text comes exactly, with the numbers of its lines.

        Documents, spreadsheets, archives and pictures are read as well.

        Args:
            path: the file.
            part: a place: "p. 3", "rows 1-20", "Sheet1!B2:D9", the name of a member, "line 1, characters 5000-9000".
            view_range: the first and the last line (page, row) to show: [1, 400]; [401, -1] to the end.
            encoding: of its text, e.g. "cp1251", where the result says that it is a guess.
        """
        place = self._place(path)
        copy = await disk.in_thread(lambda: disk.copy_of(place, self._stands_on.temporary))
        try:
            blocks = await disk.content_blocks(copy.path, place.path, part or "", ctx, view_range or (), encoding)
            if self._changed(ctx, place, copy.sha256):
                now = await asyncio.to_thread(copy.path.read_bytes)
                diff = await self._what_changed(ctx, place, now)
                blocks = [
                    TextBlock(text="It was changed by another since you last saw it:", trust=Trust.SYSTEM),
                    TextBlock(text=diff, source=Source(kind="file", ref=place.path), trust=Trust.UNTRUSTED),
                    TextBlock(text="As it is now:", trust=Trust.SYSTEM),
                    *blocks,
                ]
        except FileInputError as exc:
            raise ToolError(str(exc).replace(str(copy.path), place.path)) from None
        finally:
            await asyncio.to_thread(disk.forget, copy.path)
        self._saw(ctx, place, copy.sha256)
        return blocks

    @action(effect="read")
    async def search(self, text: str = "", names: str = "*", path: str = "", limit: int = 50) -> str:
        """Find files by their names, or lines by the words in them.

        Args:
            text: what a line has to hold, capitals or not; empty to look for names only.
            names: a pattern for the names: "*.py", "report*".
            path: the folder in which to look; empty for all of it.
            limit: the most that is given, up to 100.
        """
        if not 1 <= limit <= MOST_HITS:
            raise ToolError(f"limit is {limit}; give a number from 1 to {MOST_HITS}")
        if not text and names in ("", "*"):
            raise ToolError("say what to look for: a text, or a pattern for names such as *.csv")
        place = self._place(path)
        hits = await disk.in_thread(lambda: disk.search(place, self.files, text, names or "*", limit))
        return hits or f"nothing in {place.path or 'the folder'} fits"

    # -- writing -----------------------------------------------------------------------------------------------------

    @action
    async def write(self, ctx: Any, path: str, content: str, overwrite: bool = False) -> str:
        """Write a text file; the folders on the way are made.

        A file that is there is replaced only if you have read it as it is now.

        Args:
            path: the file.
            content: all of its text.
            overwrite: replace it whatever it holds by now.
        """
        if len(content) > MOST_WRITTEN:
            raise ToolError(f"the content has {len(content):,} characters; write at most {MOST_WRITTEN:,} at once")
        place = self._writable(path)
        before = await disk.in_thread(lambda: disk.content_of(place))
        if before is not None and not overwrite:
            await self._refuse_unseen(ctx, place, before)
        data = content.encode("utf-8", "surrogatepass")
        message = f"{'wrote' if before is None else 'replaced'} {place.path} ({len(data):,} bytes)"
        return await self._put(ctx, place, before, content, data, message)

    @action
    async def edit(self, ctx: Any, path: str, old: str, new: str, every: bool = False) -> str:
        """Replace a text in a file by another one.

        Args:
            path: the file.
            old: the text as it stands there, with enough around it to stand there once.
            new: what stands there afterwards.
            every: replace it wherever it stands.
        """

        def change(text: str, name: str) -> tuple[str, str]:
            changed, count = disk.replace_text(text, old, new, every=every, name=name)
            return changed, f"replaced {count} {'place' if count == 1 else 'places'} in {name}"

        return await self._change(ctx, self._writable(path), change)

    @action
    async def insert(self, ctx: Any, path: str, line: int, text: str) -> str:
        """Put further lines into a file.

        Args:
            path: the file.
            line: the line behind which they go; 0 for the beginning.
            text: the lines.
        """

        def change(before: str, name: str) -> tuple[str, str]:
            return disk.insert_lines(before, line, text, name), f"put text behind line {line} of {name}"

        return await self._change(ctx, self._writable(path), change)

    @action
    async def patch(self, ctx: Any, patch: str) -> str:
        """Change one file or several by a unified diff: all of it, or nothing.

        A hunk goes where its lines stand: at the line it names, else where they stand once. `--- /dev/null` makes a
        file, `+++ /dev/null` deletes one, which undelete brings back.

        Args:
            patch: lines "--- a/PATH" and "+++ b/PATH", then hunks "@@ -3,2 +3,3 @@" with lines that begin with a space,
                "-" or "+".
        """
        edits: list[tuple[DiskPlace, bytes | None, str, bytes | None]] = []
        for file in parse_patch(patch):
            place = self._writable(file.to or file.path)
            before = await disk.in_thread(partial(disk.content_of, place))
            if before is None and file.path:
                raise PatchError(f"there is no file {place.path} to patch; '--- /dev/null' makes one")
            if before is not None and not file.path:
                raise PatchError(f"{place.path} is there already; patch it as it is, by '--- a/{place.path}'")
            text, encoded = disk.decoded(before or b"", place.path)
            changed = apply_hunks(text, file.hunks, place.path)
            if not file.to and changed:
                raise PatchError(f"the patch deletes {place.path} but for some lines; use delete for the whole file")
            edits.append((place, before, changed, encoded(changed) if file.to else None))
        lines = []
        for place, before, text, data in edits:
            if data is None:
                await Trash(self.kept, self._stands_on, ctx).put(place)
                lines.append(f"deleted {place.path}; undelete brings it back")
            else:
                message = f"{'made' if before is None else 'patched'} {place.path}"
                lines.append(await self._put(ctx, place, before, text, data, message))
        return "\n".join(lines)

    @action
    async def undo(self, ctx: Any, path: str) -> str:
        """Take back the last change of a file by write, edit, insert or patch; again for the one before.

        Args:
            path: the file.
        """
        place = self._writable(path)
        now = await disk.in_thread(lambda: disk.content_of(place))
        changes = FileChanges(self.kept, ctx)
        before = await changes.last(place, now)
        if before is None:
            await Trash(self.kept, self._stands_on, ctx).put(place)
            message = f"{place.path}, which was made then, is gone; undelete brings it back"
        else:
            await disk.in_thread(lambda: disk.write(place, self._stands_on.temporary, before))
            self._saw(ctx, place, hashlib.sha256(before).hexdigest())
            message = f"{place.path} is as it was before its last change ({len(before):,} bytes)"
        changes.forget(place)
        return message

    async def _change(self, ctx: Any, place: DiskPlace, change: Callable[[str, str], tuple[str, str]]) -> str:
        """Change the text of a file that is there: `change(text, name)` gives the new text, and what is said of it."""
        before = await disk.in_thread(lambda: disk.content_of(place))
        if before is None:
            raise EditError(f"there is no file {place.path}; write makes one")
        text, encoded = disk.decoded(before, place.path)
        changed, message = change(text, place.path)
        return await self._put(ctx, place, before, changed, encoded(changed), message)

    async def _put(self, ctx: Any, place: DiskPlace, before: bytes | None, text: str, data: bytes, message: str) -> str:
        """Replace `before` by `data`, which encodes `text`; return the message, and what others changed."""
        diff = await self._what_changed(ctx, place, before) if before is not None else ""
        await disk.in_thread(lambda: disk.write(place, self._stands_on.temporary, data))
        await FileChanges(self.kept, ctx).note(place, before, data)
        self._saw(ctx, place, hashlib.sha256(data).hexdigest())
        lines = [message]
        if problem := syntax_problem(place.path, text):
            lines.append(f"It has a syntax error, {problem}. The change stays: mend it, or take it back by undo.")
        return "\n".join([*lines, *(["Since you last saw it, it was changed by another:", diff] if diff else [])])

    @action
    async def make_folder(self, path: str) -> str:
        """Make a folder, with those on the way to it.

        Args:
            path: the folder.
        """
        place = self._writable(path)
        await disk.in_thread(lambda: disk.make_folder(place))
        return f"{place.path} is there"

    @action
    async def move(self, path: str, to: str) -> str:
        """Move a file or a folder, or give it another name; nothing that is there is replaced.

        Args:
            path: what is moved.
            to: its new path.
        """
        source, target = self._writable(path), self._writable(to)
        await disk.in_thread(lambda: disk.move(source, target))
        return f"{source.path} is {target.path} now"

    @action
    async def copy(self, path: str, to: str) -> str:
        """Copy a file or a folder; nothing that is there is replaced.

        Args:
            path: what is copied; the task's files below files/ too.
            to: the path of the copy.
        """
        source, target = self._place(path), self._writable(to)
        count = await disk.in_thread(lambda: disk.copy(source, target, self._stands_on.temporary, self.limits))
        return f"copied {source.path} to {target.path} ({count} {'file' if count == 1 else 'files'})"

    @action
    async def delete(self, ctx: Any, path: str) -> str:
        """Delete a file or a folder; undelete brings it back.

        Args:
            path: what is deleted.
        """
        place = self._writable(path)
        if not place.parts:
            raise ToolError("this is the folder itself; name something in it")
        count = await Trash(self.kept, self._stands_on, ctx).put(place)
        return f"deleted {place.path} ({count} {'entry' if count == 1 else 'entries'}); undelete brings it back"

    @action
    async def undelete(self, ctx: Any, path: str, to: str = "") -> str:
        """Bring back what was deleted last under a path.

        Args:
            path: the path it had.
            to: where it is put, if not there.
        """
        target = self._writable(to or path)
        await Trash(self.kept, self._stands_on, ctx).back(self._place(path).path, target)
        return f"{target.path} is there again"

    # -- from elsewhere ----------------------------------------------------------------------------------------------

    @action(effect=("write", "read", "network"))
    async def download(
        self, ctx: Any, url: str, path: Annotated[str, Field(json_schema_extra={"format": INSIDE})] = ""
    ) -> str:
        """Read an address of the web into a file; nothing that is there is replaced.

        Args:
            url: http or https.
            path: the file, or a folder that ends in a slash; by default the address's own name.
        """
        from agentorchestra.tools.web.http import WebClient
        from agentorchestra.tools.web.robots import Robots

        client = WebClient(self._parts.settings.web if self._parts is not None else None)
        check = Robots(client).check if client.settings.robots else None
        try:
            answer = await client.get(url, max_bytes=self.limits.file_bytes, before=check)
        except WebError as exc:
            raise ToolError(str(exc)) from None
        if not answer.ok:
            raise ToolError(f"{url} answered with status {answer.status}; nothing was written")
        name = path if path and not path.endswith("/") else f"{path}{disk.name_of(answer.url)}"
        place = self._writable(name)
        await disk.in_thread(lambda: disk.write(place, self._stands_on.temporary, answer.body, new=True))
        kind = f", {answer.media_type}" if answer.media_type else ""
        return f"wrote {place.path} ({len(answer.body):,} bytes{kind})"

    @action
    async def unpack(self, path: str, to: str = "") -> str:
        """Unpack a zip or tar archive, or a compressed file, into a new folder.

        Args:
            path: the archive.
            to: the folder, which must not be there yet; by default the archive's name without its ending.
        """
        place = self._place(path)
        target = self._writable(to or disk.unpacked_name(place.parts[-1] if place.parts else ""))
        copy = await disk.in_thread(lambda: disk.copy_of(place, self._stands_on.temporary))
        try:
            count, notes = await disk.unpack(copy.path, target, self._stands_on.temporary, self.limits)
        except FileInputError as exc:
            raise ToolError(str(exc).replace(str(copy.path), place.path)) from None
        except (OSError, ValueError) as exc:
            raise disk.failure(exc) from None
        finally:
            await asyncio.to_thread(disk.forget, copy.path)
        message = f"unpacked {count} {'file' if count == 1 else 'files'} into {target.path}"
        return "\n".join([message, *(f"Note: {note}." for note in notes)])

    # -- what an agent sees ------------------------------------------------------------------------------------------

    async def state(self) -> tuple[Block, ...]:
        whole = self._place("")
        # What git keeps for itself would drive a project's own files out of the list.
        hidden = frozenset({GIT} if self._stands_on.project is not None else ())
        lines = await disk.in_thread(
            lambda: disk.listing(whole, self.files, depth=3, most=_STATE_ENTRIES, hidden=hidden)
        )
        deleted = Trash.paths(self.kept)
        lines += [f"deleted, can be brought back: {', '.join(deleted[-10:])}"] if deleted else []
        text = "\n".join(lines) or "(the folder is empty)"
        return (TextBlock(text=text, source=Source(kind="environment", ref=self.name), trust=Trust.UNTRUSTED),)

    @action(effect="read")
    async def list(self, path: str = "", depth: int = 1) -> str:
        """List a folder: names, sizes in bytes, where links lead.

        Args:
            path: the folder; empty for the whole one.
            depth: 1 for what lies directly in it, up to 10 for what lies below that.
        """
        if not 1 <= depth <= 10:
            raise ToolError(f"depth is {depth}; give a number from 1 to 10")
        place = self._place(path)
        lines = await disk.in_thread(lambda: disk.listing(place, self.files, depth=depth, most=MOST_LISTED))
        return "\n".join(lines) or f"{place.path or 'the folder'} is empty"

    # -- paths -------------------------------------------------------------------------------------------------------

    def _place(self, path: str) -> DiskPlace:
        path = path.strip()
        return disk.place_of("" if path == "." else path, self.folder, self.files)

    def _writable(self, path: str) -> DiskPlace:
        place = self._place(path)
        if place.from_task:
            raise ToolError(
                f"{place.path} belongs to the task's files, which stay as they are; copy it and change that"
            )
        return place

    # -- versions ----------------------------------------------------------------------------------------------------

    def _saw(self, ctx: Any, place: DiskPlace, sha256: str) -> None:
        if not place.from_task:
            ctx.vars[f"{_SEEN}{place.path}"] = sha256

    async def _refuse_unseen(self, ctx: Any, place: DiskPlace, now: bytes) -> None:
        seen = ctx.vars.get(f"{_SEEN}{place.path}")
        if seen is None:
            raise ToolError(
                f"{place.path} is there ({len(now):,} bytes) and you have not read it; read it first, or write with "
                "overwrite=true"
            )
        diff = await self._what_changed(ctx, place, now)
        if diff:
            raise ToolError(
                f"{place.path} was changed by another since you last saw it, and was not written:\n{diff}\n"
                "Read it and write what takes that into account, or change it by edit"
            )

    def _changed(self, ctx: Any, place: DiskPlace, sha256: str) -> bool:
        """Return True if a file is another one than this agent last saw."""
        return bool(ctx.vars.get(f"{_SEEN}{place.path}", sha256) != sha256)

    async def _what_changed(self, ctx: Any, place: DiskPlace, now: bytes) -> str:
        """Return what another one changed in a file since this agent saw it, as the lines of a diff; "" for nothing."""
        seen = ctx.vars.get(f"{_SEEN}{place.path}")
        if not isinstance(seen, str) or seen == hashlib.sha256(now).hexdigest():
            return ""
        try:
            before = await ctx.read_artifact(ArtifactRef(name=place.path, sha256=seen, size=0))
            old, new = (content.decode().splitlines() for content in (before, now))
        except Exception:  # what it saw was never kept, or is no text
            return f"it has {len(now):,} bytes now"
        if len(old) + len(new) > 20_000:  # a diff of long texts takes its time
            return f"it has {len(new):,} lines now, it had {len(old):,}"
        lines = [*difflib.unified_diff(old, new, "as you saw it", "as it is", lineterm="", n=1)]
        more = [f"... {len(lines) - SHOWN_DIFF} more lines"] if len(lines) > SHOWN_DIFF else []
        return "\n".join([*lines[:SHOWN_DIFF], *more])
