from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.effects import ArtifactRef, Tag
from agentorchestra.core.errors import ToolError
from agentorchestra.core.settings import ComputerSettings
from agentorchestra.environments.computer import descriptions
from agentorchestra.environments.computer.desktop import CALL_S, Desktop, DesktopConnection, LostError, StuckError
from agentorchestra.environments.computer.programs import DesktopPrograms
from agentorchestra.environments.computer.screen import Capture, Pointer
from agentorchestra.environments.computer.windows import Windows, windows_of
from agentorchestra.environments.folder import FILES
from agentorchestra.environments.jobs import short
from agentorchestra.log.folders import MAIN, world_folder
from agentorchestra.sandbox import Sandbox, SandboxLimits
from agentorchestra.tea.calling.environment import ActionEnvironment

T = TypeVar("T")
_PRINTED_CHARS = 400


class DesktopEnvironment(ActionEnvironment):
    """The life and state of a desktop, and bounded calls to it; the actions are in `Computer`."""

    name = "computer"
    branching: Literal["stateless", "snapshot", "none"] = "none"

    def __init__(
        self,
        settings: ComputerSettings | None = None,
        *,
        sandbox: Sandbox | None,
        limits: SandboxLimits | None = None,
        network: bool = False,
    ) -> None:
        self._settings = settings or ComputerSettings()
        self._network = network
        self._safe = sandbox is None or sandbox.safe
        self._programs = DesktopPrograms(sandbox, limits or SandboxLimits(), network)
        self._desktop: Desktop | None = None
        self._folder: Path | None = None
        self._files: Path | None = None
        self._numbers = descriptions.Numbers()
        self._known = Windows()
        self._running: set[int] = set()

    @property
    def _reaches_out(self) -> bool:
        return self._network or not self._safe

    def tags(self, action: str) -> frozenset[Tag]:
        """Return what an action touches: where programs reach the network, using them may send something."""
        tags = super().tags(action)
        return tags | {Tag.NETWORK} if self._reaches_out and self.mutates(action) else tags

    @property
    def confined(self) -> bool:
        """Return True if programs are in a sandbox without network: none writes outside of the desktop's folder."""
        return not self._reaches_out

    async def open(self, ctx: Any) -> None:
        """Note the folders; nothing is started before it is needed."""
        world = world_folder(ctx.folder, str(getattr(ctx, "world", MAIN)))
        self._folder = world / "computer"
        self._files = ctx.folder / FILES if ctx.manifest.files else None
        self._desktop = Desktop(world / "display", self._settings.width, self._settings.height)

    async def close(self) -> None:
        """End programs and display; the programs' folder stays."""
        await self._programs.close()
        if self._desktop is not None:
            await self._desktop.close()

    @property
    def _open(self) -> Desktop:
        if self._desktop is None:
            raise ToolError("the environment 'computer' is not open; let a run or `ws.ecp` open it")
        return self._desktop

    async def _do(self, work: Callable[[DesktopConnection], T], seconds: float = CALL_S) -> T:
        async with self._explain():
            return await self._open.do(work, seconds)

    @asynccontextmanager
    async def _explain(self, before: str = "") -> AsyncIterator[None]:
        """Turn the desktop's errors into sentences that begin with `before`."""
        try:
            yield
        except StuckError as exc:
            raise ToolError(before + await self._stuck_sentence(str(exc))) from None
        except LostError as exc:
            raise ToolError(before + await self._loss_sentence(str(exc))) from None

    async def _stuck_sentence(self, problem: str) -> str:
        if running := [job for job in await self._programs.jobs() if job.state == "running"]:
            names = ", ".join(f"{job.job} ({short(job.command, 40)})" for job in running[:8])
            return (
                f"the desktop {problem}: a program may hold it for itself. Stop the program "
                f"that does, or try again; running: {names}"
            )
        await self._open.close()
        return f"the desktop {problem} and was ended, as no program runs; the next action begins with an empty one"

    async def _loss_sentence(self, reason: str) -> str:
        await self._programs.close()
        self._known = Windows()
        return f"the desktop is gone ({reason}), its windows and programs too; the next action begins with an empty one"

    async def state(self) -> tuple[Block, ...]:
        return (self._text("\n".join(await self._state_lines())),)

    async def state_for(self, ctx: Any) -> tuple[Block, ...]:
        """Return the state, with a picture of the screen if a model of the run can see."""
        words = await self.state()
        if self._open.display is None or not ctx.manifest.media_models.get("image"):
            return words
        try:
            picture = await self._do(lambda connection: connection.screen.capture())
            return (*words, (await self._keep(ctx, picture, "screen.png"))[1])
        except ToolError:
            return words  # which say already that the desktop does not answer, or the next look does

    def _text(self, text: str) -> TextBlock:
        return TextBlock(text=text, source=Source(kind="environment", ref=self.name), trust=Trust.UNTRUSTED)

    async def _state_lines(self) -> list[str]:
        size = f"screen: {self._settings.width} x {self._settings.height} pixels"
        if self._open.display is None:
            lines = [f"{size}, empty; nothing runs"]
        else:
            try:
                pointer, windows = await self._do(look)
                buttons = f" and holds the {' and the '.join(pointer.buttons)} button" if pointer.buttons else ""
                lines = [f"{size}; the mouse is at {pointer.x}, {pointer.y}{buttons}"]
                lines += descriptions.window_lines(windows, self._numbers)
                self._know(windows)
            except ToolError as exc:
                lines = [size, str(exc)]
        return [*lines, *await self._described_programs()]

    async def _described_programs(self) -> list[str]:
        jobs = await self._programs.jobs()
        loss = self._programs.take_loss()
        lines = [f"programs ended: {loss}"] if loss else []
        if not self._safe:
            lines.append("there is no sandbox: programs may do what the user may")
        if len(jobs) > descriptions.MOST_PROGRAMS:
            lines.append(f"programs: {len(jobs) - descriptions.MOST_PROGRAMS} earlier ones, and")
        elif jobs:
            lines.append("programs:")
        for job in jobs[-descriptions.MOST_PROGRAMS :]:
            lines.append(f"  {descriptions.program_line(job)}")
            output = (await self._programs.output_of(job.job)).strip()
            output = output if len(output) <= _PRINTED_CHARS else f"…{output[-_PRINTED_CHARS:]}"
            lines += [f"    printed: {line}" for line in output.splitlines()]
        self._running = {job.job for job in jobs if job.state == "running"}
        return lines

    def _know(self, windows: Windows) -> None:
        self._known = windows
        self._numbers.keep(window.window for window in windows.front)

    async def _keep(self, ctx: Any, picture: Capture, name: str, times: int = 1) -> tuple[ArtifactRef, MediaBlock]:
        data = await asyncio.to_thread(_png, picture, times)
        ref = await ctx.artifact(name, data, "image/png", made_for="run")
        source = Source(kind="environment", ref=self.name)
        return ref, MediaBlock(sha256=ref.sha256, media_type="image/png", name=name, size=ref.size, source=source)

    async def _settle(self, sentence: str) -> str:
        """Wait until nothing is drawn any more, and return what an action did."""
        async with self._explain(f"{sentence}; then "):
            keeps_up = await self._open.still()
        _, windows = await self._do(look)
        lines = [sentence, *descriptions.what_changed(self._known, windows, self._numbers)]
        if not keeps_up:
            lines.append("the program with the keyboard is busy and has not taken in everything yet: wait, or stop it")
        self._know(windows)
        jobs = await self._programs.jobs()
        finished = [job for job in jobs if job.job in self._running and job.state != "running"]
        lines += [f"program {descriptions.program_line(job)}" for job in finished]
        if loss := self._programs.take_loss():
            lines.append(f"programs ended: {loss}")
        self._running = {job.job for job in jobs if job.state == "running"}
        return "\n".join(lines)

    def _inside(self, x: int, y: int) -> None:
        width, height = self._settings.width, self._settings.height
        if not (0 <= x < width and 0 <= y < height):
            raise ToolError(f"{x}, {y} is not on the screen, which is {width} x {height} pixels")


def look(connection: DesktopConnection) -> tuple[Pointer, Windows]:
    return connection.screen.pointer(), windows_of(connection.screen)


def _png(picture: Capture, times: int) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        raise ToolError("pictures of the screen need Pillow: pip install 'agentorchestra[computer]'") from None
    image = Image.frombuffer("RGB", (picture.width, picture.height), picture.data, "raw", "BGRX", 0, 1)
    image = image.resize((picture.width * times, picture.height * times), Image.Resampling.LANCZOS)
    target = io.BytesIO()
    image.save(target, "PNG", compress_level=1)
    return target.getvalue()
