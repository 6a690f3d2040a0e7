"""`FolderEnvironment`: environments of one run and world that work on one folder.

`files`, `terminal` and `git` are such environments. What one does is there for the next; another run, and each rival
world of this one, has a folder of its own. After each action that changes something a snapshot of the folder is kept.

    class Notes(FolderEnvironment):
        \"\"\"Notes, one a line.\"\"\"

        name = "notes"

        @action
        def add(self, text: str) -> int:
            \"\"\"Add a note.\"\"\"
            with (self.folder / "notes.txt").open("a") as file:
                file.write(f"{text}\\n")
            self.kept["notes"] = int(self.kept.get("notes", 0)) + 1
            return self.kept["notes"]

Programs of the terminal may be at work in the folder at the same time: whoever follows a name that a model wrote does
it with `environments/beneath.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import JsonValue

from agentorchestra.core.content import Block, Source, TextBlock
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import EnvironmentLostError, ImageError, StoreError, ToolError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.protocols import Ground
from agentorchestra.core.spec import Project
from agentorchestra.environments.base import Base
from agentorchestra.environments.manifest import (
    DEFAULT_LIMITS,
    FolderLimits,
    FolderManifest,
    Omission,
    manifest_data,
    parts_named,
    stored_layer,
    too_large,
)
from agentorchestra.environments.packs import Contents
from agentorchestra.environments.project import is_untouched, mounts_of, seen_at
from agentorchestra.environments.tree import Tree
from agentorchestra.log.folders import MAIN, WORKED_ON, world_folder
from agentorchestra.log.store.references import PRIVATE
from agentorchestra.sandbox.machine import WORK, Machine
from agentorchestra.sandbox.shell import Mount
from agentorchestra.tea.calling.environment import ActionEnvironment

FOLDER = "folder"  # the ground's name: the run's state has the snapshot it stands at under `env:folder`
FILES = "files"  # where the task's files are seen below the folder, read only


@cache
def rules_text(name: str) -> str:
    """Return the rules of a packaged environment, for the prompt: state, vision, interaction (000, app. H)."""
    return (Path(__file__).parent / "rules" / f"{name}.md").read_text(encoding="utf-8").strip()


class FolderGround:
    """The folder of one run and world, and what the environments on it remember; see `FolderEnvironment.lay`."""

    snapshot_type = "application/json"

    def __init__(
        self,
        place: Path,
        ctx: Any,
        *,
        keep: bool,
        files: Path | None = None,
        limits: FolderLimits = DEFAULT_LIMITS,
        base: Base | None = None,
        project: Project | None = None,
    ) -> None:
        self.place = place  # what is made for it on disk
        self.folder = place / WORKED_ON  # what agents see as the folder
        self.files = files  # the folder with the task's files, seen read only as `files/`; None for none
        self.limits = limits  # of what a snapshot can hold
        self.kept: dict[str, dict[str, JsonValue]] = {}  # what each environment on it remembers, by its name
        self.members: list[Any] = []  # environments; each is told before and after it is put back
        self._ctx = ctx
        self._keep = keep  # whether the folder stays when the ground is closed
        self._stored: set[str] = set()
        apart = frozenset({FILES}) if files is not None else frozenset[str]()
        self.project = project  # of whose folder this one begins as a copy; None for none
        self._contents = Contents(ctx)
        self._tree = Tree(self.folder, self._contents, limits, apart=apart)
        self.machine: Machine | None = None  # what the commands of a terminal may write besides; None for nothing
        self._base = base
        overlay = base is not None and base.image is not None
        self._layer = Tree(place / "layer", ctx, limits, layer=True, watch=not overlay)
        self._last: tuple[bytes, bytes] | None = None  # what was kept besides the folder, and the whole snapshot
        self._told: set[Omission] = set()
        self._began = ""  # see FolderManifest

    async def open(self) -> None:
        """Make the folder; what a process that was killed left half made is removed."""
        await asyncio.to_thread(shutil.rmtree, self.place / "temporary", ignore_errors=True)
        await asyncio.to_thread(self.folder.mkdir, parents=True, exist_ok=True)
        if self._base is not None:
            try:
                self.machine = await asyncio.to_thread(self._base.machine, self._layer.root)
            except ImageError as exc:
                raise ToolError(str(exc)) from None

    def temporary(self) -> Path:
        """Return a new empty file on the folder's file system, which no program of an agent sees. Blocks."""
        place = self.place / "temporary"
        place.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=place)
        os.close(descriptor)
        return Path(name)

    async def snapshot(self) -> bytes:
        """Return the manifest of the folder, with its contents in the store; raise ToolError if it is too large."""
        full = any(getattr(member, "working", False) for member in self.members)
        differs = await self._tree.look(full=full)
        differs |= await self._layer.look(full=full)
        record = {name: values for name, values in self.kept.items() if values}
        besides = canonical_json(record).encode()
        if differs or self._last is None or self._last[0] != besides:
            layer = await self._stored_lines(self._layer)
            on_base = stored_layer(self._base.name, *layer) if self._base is not None and any(layer) else b""
            lines = await self._stored_lines(self._tree)
            left_out = self._tree.left_out()
            self._last = (besides, manifest_data(*lines, record, left_out=left_out, layer=on_base, began=self._began))
        return self._last[1]

    async def _stored_lines(self, tree: Tree) -> tuple[list[bytes], list[str]]:
        inside, parts = tree.lines()
        return inside, [await self._store_once("folder", data, self.snapshot_type) for data in parts]

    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each file that the snapshots do not have and that was not named before."""
        left_out = {*self._tree.left_out(), *self._layer.left_out()}
        new, self._told = sorted(left_out - self._told), left_out
        return tuple(too_large(omission.path, omission.size, self.limits) for omission in new)

    async def restore(self, data: bytes | None) -> None:
        """Put the folder back as a snapshot has it, or empty it; what is as it should be is not written again."""
        manifest = FolderManifest()
        if data is not None:
            refs = [ArtifactRef(name="folder", sha256=name, size=0) for name in parts_named(data)]
            parts = {ref.sha256: await self._ctx.read_artifact(ref) for ref in refs}
            manifest = FolderManifest.from_bytes(data, parts)
        base = self._base.name if self._base is not None else ""
        if manifest.layer and manifest.base != base:
            raise EnvironmentLostError(
                f"the machine of this run lay on {manifest.base!r}, and here it would lie on {base or 'nothing'!r}; "
                "set terminal.image as it was, or start a new run"
            )
        for member in self.members:
            await member.leave()
        self._last, self._began = None, manifest.began
        if self.project is not None:
            self._began = self.project.began
            began = await read_manifest(await self._blob(self._began), self._blob)
            self._contents.unpack(began)
            if data is None:
                manifest = began
                if await asyncio.to_thread(is_untouched, self.place):
                    await self._tree.begins_as(began)
                    return
        await self._layer.put_back(manifest.layer, (), self.temporary)
        await self._tree.put_back(manifest.entries, manifest.left_out, self.temporary)
        if data is None and self.project is None and self._base is not None and self.machine is not None:
            await asyncio.to_thread(self._base.begin, self.machine, self.folder)
            await self._note_beginning()
        # What an environment holds in its hands stays the same object.
        for name in {*self.kept, *manifest.kept}:
            values = self.kept.setdefault(name, {})
            values.clear()
            values.update(manifest.kept.get(name, {}))
        for member in self.members:
            await member.restored()

    async def _blob(self, sha256: str) -> bytes:
        data: bytes = await self._ctx.read_artifact(ArtifactRef(name=FOLDER, sha256=sha256, size=0))
        return data

    async def _note_beginning(self) -> None:
        """Keep what the base put into the folder, so that it can be told from what the run makes there."""
        if not any(self.folder.iterdir()):
            return
        with suppress(ToolError):  # it is too large: whoever acts on the folder is told
            began = await self._store_once(FOLDER, await self.snapshot(), self.snapshot_type)
            self._last, self._began = None, began

    async def hide(self, data: bytes) -> str:
        return await self._store_once("private", data, PRIVATE)

    async def _store_once(self, label: str, data: bytes, media_type: str) -> str:
        name = hashlib.sha256(data).hexdigest()
        if name not in self._stored:
            await self._ctx.artifact(label, data, media_type)
            self._stored.add(name)
        return name

    async def hidden(self, sha256: str) -> bytes | None:
        try:
            data: bytes = await self._ctx.read_artifact(ArtifactRef(name="private", sha256=sha256, size=0))
        except StoreError:
            return None
        return data

    async def close(self) -> None:
        """Leave the folder of the world that is the run's; nothing of another one."""
        self._tree.close()
        self._layer.close()
        of_a_process = [self.place / name for name in ("temporary", "overlay", "verifier")]
        for path in of_a_process if self._keep else [self.place]:
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


async def read_manifest(snapshot: bytes, read: Callable[[str], Awaitable[bytes]]) -> FolderManifest:
    """Return what the snapshot of a folder says; `read` gives the bytes of a blob by its SHA-256."""
    parts = {name: await read(name) for name in parts_named(snapshot)}
    return await asyncio.to_thread(FolderManifest.from_bytes, snapshot, parts)


async def write_folder(snapshot: bytes, target: Path, ctx: Any) -> FolderManifest:
    """Write the folder of a snapshot into a new one, and nothing that lay besides it; return what the snapshot says.

    Args:
        snapshot: of a ground.
        target: is not there yet.
        ctx: has `read_artifact`.
    """
    refs = [ArtifactRef(name=FOLDER, sha256=name, size=0) for name in parts_named(snapshot)]
    parts = {ref.sha256: await ctx.read_artifact(ref) for ref in refs}
    manifest = FolderManifest.from_bytes(snapshot, parts)
    contents = Contents(ctx)
    if manifest.began:
        began = ArtifactRef(name=FOLDER, sha256=manifest.began, size=0)
        contents.unpack(FolderManifest.from_bytes(await ctx.read_artifact(began), parts))
    tree = Tree(target, contents, DEFAULT_LIMITS)

    def temporary() -> Path:
        descriptor, name = tempfile.mkstemp(dir=target.parent)
        os.close(descriptor)
        return Path(name)

    try:
        await asyncio.to_thread(target.mkdir)
        await tree.put_back(manifest.entries, (), temporary)
    finally:
        tree.close()
    return manifest


class FolderEnvironment(ActionEnvironment):
    """An environment that works on the folder of its run and world; see this module.

    Attributes:
        limits: of what the folder may hold, so that a snapshot of it can be kept.
        base: what the machine of a terminal on the folder lies on; None for no machine.
        on_machine: whether its commands run on that machine.
    """

    branching: Literal["stateless", "snapshot", "none"] = "snapshot"
    ground: ClassVar[str] = FOLDER
    limits: FolderLimits = DEFAULT_LIMITS
    base: Base | None = None
    on_machine: ClassVar[bool] = False
    _ground: FolderGround | None = None

    @property
    def confined(self) -> bool:
        """Return True if no argument of an action leads out of the folder: policy need not ask about paths."""
        return False

    @property
    def working(self) -> bool:
        """Return True while programs of it are at work in the folder between two actions: all is looked at then.

        They may write to files that they mapped, of which no kernel tells.
        """
        return False

    @property
    def _stands_on(self) -> FolderGround:
        if self._ground is None:
            raise ToolError(f"the environment {self.name!r} is not open; let a run or `ws.ecp` open it")
        return self._ground

    @property
    def folder(self) -> Path:
        return self._stands_on.folder

    @property
    def files(self) -> Path | None:
        """The folder with the task's files, seen read only as `files/` in the folder; None for none."""
        return self._stands_on.files

    async def seen(self) -> list[Mount]:
        """Return what commands see in the folder besides what lies there: packages that the project has installed."""
        ground = self._stands_on
        if ground.project is None:
            return []
        work = ground.machine.work if ground.machine is not None and self.on_machine else WORK
        return await asyncio.to_thread(mounts_of, ground.project, ground.folder, work, machine=self.on_machine)

    @property
    def kept(self) -> dict[str, JsonValue]:
        """Return what is kept besides the folder, as part of the snapshot. Change it, never replace it."""
        return self._stands_on.kept.setdefault(self.name, {})

    async def hide(self, data: bytes) -> str:
        """Keep bytes that are a credential, such as cookies, and that no bundle takes along; return their SHA-256."""
        return await self._stands_on.hide(data)

    async def hidden(self, sha256: str) -> bytes | None:
        """Return what `hide` kept; None where it is not, as in a run that was imported."""
        return await self._stands_on.hidden(sha256)

    async def lay(self, ctx: Any) -> FolderGround:
        world = str(getattr(ctx, "world", MAIN))
        files = ctx.folder / FILES if ctx.manifest.files else None
        place = world_folder(ctx.folder, world)
        base, project = self.base, ctx.manifest.project
        if base is not None and project is not None:
            base = replace(base, work=seen_at(project, base.work), copies=())
        ground = FolderGround(
            place, ctx, keep=world == MAIN, files=files, limits=self.limits, base=base, project=project
        )
        await ground.open()
        return ground

    def stand_on(self, ground: Ground) -> None:
        assert isinstance(ground, FolderGround)
        self._ground = ground
        ground.members.append(self)

    async def leave(self) -> None:
        """Called before the folder is put back to a snapshot: end whatever works in it."""

    async def restored(self) -> None:
        """Called when folder and `kept` were put back to a snapshot."""

    async def close(self) -> None:
        """Let the folder go; overriding methods call this one last."""
        if self._ground is not None and self in self._ground.members:
            self._ground.members.remove(self)

    async def state(self) -> tuple[Block, ...]:
        lines = [f"{name}: {canonical_json(value)}" for name, value in sorted(self.kept.items())]
        return (TextBlock(text="\n".join(lines), source=Source(kind="environment", ref=self.name)),) if lines else ()

    async def snapshot(self) -> bytes:
        return await self._stands_on.snapshot()

    async def restore(self, data: bytes) -> None:
        await self._stands_on.restore(data)
