"""The environment `computer`: a desktop at pixel level: mouse, keyboard, windows, programs (001, sec. 3.3.2)."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from agentorchestra.core.errors import MissingExtraError, ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.environments.computer import descriptions
from agentorchestra.environments.computer.base import DesktopEnvironment, look
from agentorchestra.environments.computer.clipboard import MOST_BYTES
from agentorchestra.environments.computer.desktop import CALL_S, DesktopConnection
from agentorchestra.environments.computer.display import missing_program
from agentorchestra.environments.computer.keyboard import MOST_CHARACTERS, chord, named_key, unknown_character
from agentorchestra.environments.computer.screen import BUTTON_PRESS, BUTTON_RELEASE, BUTTONS, SCROLLS, Capture, library
from agentorchestra.environments.computer.windows import Windows, close_window, place_window, raise_window
from agentorchestra.environments.folder import rules_text
from agentorchestra.environments.registry import EnvironmentParts
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action

_TYPE_S = 60.0
_LOOK_S = 0.1
_CLOSE_S = 2.0
_MOST_ZOOM = 8
_DRAG_STEPS, _DRAG_S = 12, 0.01
X = Annotated[int, Field(description="In pixels from the left edge of the screen.", ge=0)]
Y = Annotated[int, Field(description="In pixels from the upper edge of the screen.", ge=0)]
Button = Annotated[Literal["left", "middle", "right"], Field(description="Which button.")]
Modifiers = Annotated[
    list[Literal["ctrl", "shift", "alt", "super"]], Field(description="Keys that are held meanwhile.", max_length=4)
]
WindowNumber = Annotated[int, Field(description="The window's number, as the state shows it.")]
ProgramNumber = Annotated[int, Field(description="The program's number, as the state shows it.")]


class Computer(DesktopEnvironment):
    """A desktop: a screen with a mouse, a keyboard, windows and programs, which run in the sandbox."""

    name = "computer"

    @classmethod
    def from_parts(cls, parts: EnvironmentParts) -> Computer:
        return cls(parts.settings.computer, sandbox=parts.sandbox, limits=parts.limits, network=parts.network)

    def check(self) -> None:
        """Refuse what cannot work here, before anything is spent; a MissingExtraError says what to install."""
        if problem := missing_program():
            raise MissingExtraError(problem)
        library()
        if importlib.util.find_spec("PIL") is None:
            raise MissingExtraError("pictures of the screen need Pillow: pip install 'agentorchestra[computer]'")

    def rules(self) -> str:
        return rules_text(self.name)

    # -- looking -----------------------------------------------------------------------------------------------------

    @action(effect="read")
    async def screenshot(self, ctx: RunContext[Any], x: X = 0, y: Y = 0, width: int = 0, height: int = 0) -> ToolResult:
        """A picture of the screen, or of a part of it; it is kept as an artifact.

        Args:
            x: the part's left edge.
            y: the part's upper edge.
            width: of the part in pixels; 0 to the right edge.
            height: of the part in pixels; 0 to the lower edge.
        """
        picture = await self._capture(x, y, width, height)
        part = f"the screen from {x}, {y}: {picture.width} x {picture.height} pixels"
        ref, block = await self._keep(ctx, picture, "screenshot.png")
        note = self._text(f"{part}; add {x}, {y} to a place in the picture to point")
        return ToolResult([block, note], artifacts=(ref,))

    @action(effect="read")
    async def zoom(
        self,
        ctx: RunContext[Any],
        x: X,
        y: Y,
        width: Annotated[int, Field(description="Of the part, in pixels.", ge=1)],
        height: Annotated[int, Field(description="Of the part, in pixels.", ge=1)],
    ) -> ToolResult:
        """A part of the screen enlarged, for small text and signs; it is kept as an artifact.

        Args:
            x: the part's left edge.
            y: the part's upper edge.
            width: of the part.
            height: of the part.
        """
        picture = await self._capture(x, y, width, height)
        fits = min(self._settings.width // picture.width, self._settings.height // picture.height)
        times = max(1, min(fits, _MOST_ZOOM))
        ref, block = await self._keep(ctx, picture, "zoom.png", times)
        note = (
            f"the screen from {x}, {y}: {picture.width} x {picture.height} pixels, {times} times as large; to point, "
            f"divide a place in the picture by {times} and add {x}, {y}"
        )
        return ToolResult([block, self._text(note)], artifacts=(ref,))

    async def _capture(self, x: int, y: int, width: int, height: int) -> Capture:
        """Return the pixels of a part of the screen, as much of it as there is; 0 for all to the edge."""
        self._inside(x, y)
        if width < 0 or height < 0:
            raise ToolError(f"a part of {width} x {height} pixels cannot be shown; give sizes of 1 and more")
        width = min(width or self._settings.width, self._settings.width - x)
        height = min(height or self._settings.height, self._settings.height - y)
        return await self._do(lambda connection: connection.screen.capture(x, y, width, height))

    @action(effect="read")
    async def windows(self) -> str:
        """The windows with titles, places and sizes, the frontmost first."""
        _, windows = await self._do(look)
        self._know(windows)
        return "\n".join(descriptions.window_lines(windows, self._numbers))

    @action(effect="read")
    async def wait(
        self,
        seconds: Annotated[float, Field(description="In seconds, 60 at most.", gt=0, le=60)] = 1.0,
        title: Annotated[str, Field(description="Ends as soon as a window has this in its title.")] = "",
    ) -> str:
        """Wait, and say what changed."""
        if not title:
            await asyncio.sleep(seconds)
        elif not await self._until(
            lambda windows: any(title.casefold() in window.title.casefold() for window in windows.front), seconds
        ):
            return await self._settle(
                f"waited {seconds:g} s; no window has {descriptions.quote(title[:100])} in its title"
            )
        return await self._settle("waited")

    async def _until(self, condition: Callable[[Windows], bool], seconds: float) -> bool:
        """Look at the windows again and again; return True once they are as wanted."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            if condition((await self._do(look))[1]):
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    # -- mouse -------------------------------------------------------------------------------------------------------

    @action
    async def mouse_move(self, x: X, y: Y) -> str:
        """Move the mouse without a click, for instance for what shows only then."""
        self._inside(x, y)
        await self._do(lambda connection: connection.screen.move(x, y))
        return await self._settle(f"the mouse is at {x}, {y}")

    @action
    async def click(
        self,
        x: X,
        y: Y,
        button: Button = "left",
        count: Annotated[int, Field(description="2 for a double click.", ge=1, le=3)] = 1,
        modifiers: Modifiers = [],  # noqa: B006 - never changed; a schema needs the default as it is
    ) -> str:
        """Click at a place."""
        self._inside(x, y)
        keys = tuple(named_key(modifier) for modifier in modifiers)

        def work(connection: DesktopConnection) -> None:
            connection.screen.move(x, y)
            with connection.keyboard.hold(keys):
                connection.screen.click(BUTTONS[button], count)

        await self._do(work)
        return await self._settle(f"clicked at {x}, {y}")

    @action
    async def drag(self, x: X, y: Y, to_x: X, to_y: Y, button: Button = "left") -> str:
        """Press a button at a place, move to another one, let it go there.

        Args:
            x: of the place where it begins.
            y: of the place where it begins.
            to_x: of the place where it ends.
            to_y: of the place where it ends.
            button: which is held.
        """
        self._inside(x, y)
        self._inside(to_x, to_y)

        async def at(place_x: int, place_y: int, kind: int = 0) -> None:
            def work(connection: DesktopConnection) -> None:
                connection.screen.move(place_x, place_y)
                if kind:
                    connection.screen.send(kind, BUTTONS[button])
                    connection.screen.sync()

            await self._do(work)
            await asyncio.sleep(_DRAG_S)

        await at(x, y, BUTTON_PRESS)
        try:
            for step in range(1, _DRAG_STEPS + 1):
                part = step / _DRAG_STEPS
                await at(round(x + (to_x - x) * part), round(y + (to_y - y) * part))
        finally:
            await at(to_x, to_y, BUTTON_RELEASE)
        return await self._settle(f"dragged from {x}, {y} to {to_x}, {to_y}")

    @action
    async def mouse_down(self, x: X, y: Y, button: Button = "left") -> str:
        """Press a button at a place and hold it, until mouse_up; mouse_move then drags."""
        await self._button(x, y, button, down=True)
        return await self._settle(f"the {button} button is held at {x}, {y}; mouse_up lets it go")

    @action
    async def mouse_up(self, x: X, y: Y, button: Button = "left") -> str:
        """Move to a place and let go of a button that mouse_down pressed."""
        await self._button(x, y, button, down=False)
        return await self._settle(f"the {button} button was let go at {x}, {y}")

    async def _button(self, x: int, y: int, button: str, *, down: bool) -> None:
        self._inside(x, y)

        def work(connection: DesktopConnection) -> bool:
            is_down = button in connection.screen.pointer().buttons
            if is_down is not down:
                connection.screen.move(x, y)
                connection.screen.send(BUTTON_PRESS if down else BUTTON_RELEASE, BUTTONS[button])
                connection.screen.sync()
            return is_down

        if await self._do(work) is down:
            state = "held already; let it go by mouse_up" if down else "not held; press it by mouse_down"
            raise ToolError(f"the {button} button is {state}")

    @action
    async def scroll(
        self,
        x: X,
        y: Y,
        direction: Annotated[Literal["up", "down", "left", "right"], Field(description="Where to.")] = "down",
        steps: Annotated[int, Field(description="Steps of the wheel.", ge=1, le=50)] = 3,
    ) -> str:
        """Turn the wheel of the mouse at a place."""
        self._inside(x, y)

        def work(connection: DesktopConnection) -> None:
            connection.screen.move(x, y)
            connection.screen.click(SCROLLS[direction], steps)

        await self._do(work)
        return await self._settle(f"scrolled {direction} at {x}, {y}")

    # -- keyboard ----------------------------------------------------------------------------------------------------

    @action
    async def type_text(
        self, text: Annotated[str, Field(description="In any script; a line end is the return key.", min_length=1)]
    ) -> str:
        """Type a text into whatever has the keyboard."""
        if len(text) > MOST_CHARACTERS:
            raise ToolError(f"the text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are typed at once")
        if unknown := unknown_character(text):
            raise ToolError(f"the character {unknown!a} is on no keyboard; use press for keys such as Escape")
        count = await self._do(lambda connection: connection.keyboard.type(text, _TYPE_S), _TYPE_S + CALL_S)
        if count < len(text.replace("\r\n", "\n")):
            return await self._settle(f"typed the first {count:,} characters only, its program was too slow for more")
        return await self._settle(f"typed {len(text):,} characters")

    @action
    async def press(
        self,
        keys: Annotated[str, Field(description="A key or a chord, e.g. Return, Page_Down, F5, ctrl+s, ctrl+shift+t.")],
        count: Annotated[int, Field(description="How often.", ge=1, le=100)] = 1,
    ) -> str:
        """Press a key, or several together."""
        modifiers, key = chord(keys)
        await self._do(lambda connection: connection.keyboard.press(modifiers, key, count))
        return await self._settle(f"pressed {keys}")

    @action
    async def hold_key(
        self,
        keys: Annotated[str, Field(description="A key or a chord, as for press.")],
        seconds: Annotated[float, Field(description="How long, 30 at most.", gt=0, le=30)] = 1.0,
    ) -> str:
        """Hold a key down for a time; it repeats as on any keyboard."""
        modifiers, key = chord(keys)
        await self._do(lambda connection: connection.keyboard.down(modifiers, key))
        try:
            await asyncio.sleep(seconds)
        finally:
            await self._do(lambda connection: connection.keyboard.up(modifiers, key))
        return await self._settle(f"held {keys} for {seconds:g} s")

    # -- windows -----------------------------------------------------------------------------------------------------

    def _window(self, number: int) -> int:
        if (window := self._numbers.window(number)) is None:
            raise ToolError(f"there is no window {number}; look at the state again")
        return window

    @action
    async def raise_window(self, window: WindowNumber) -> str:
        """Bring a window to the front and give it the keyboard; one that is minimized, too."""
        target = self._window(window)
        await self._do(lambda connection: raise_window(connection.screen, target))
        return await self._settle(f"window {window} was asked to come to the front")

    @action
    async def place_window(
        self,
        window: WindowNumber,
        x: X,
        y: Y,
        width: Annotated[int, Field(description="In pixels.", ge=1, le=8192)],
        height: Annotated[int, Field(description="In pixels.", ge=1, le=8192)],
    ) -> str:
        """Move a window's content to a place and give it a size; a window may refuse sizes that it is not made for."""
        self._inside(x, y)
        target = self._window(window)
        await self._do(lambda connection: place_window(connection.screen, target, x, y, width, height))
        text = await self._settle(f"window {window} was asked to go to {x}, {y} with {width} x {height}")
        now = next((entry for entry in self._known.front if entry.window == target), None)
        return text if now is None else f"{text}\nwindow {descriptions.window_line(now, window)}"

    @action
    async def close_window(self, window: WindowNumber) -> str:
        """Ask a window to close, as its button does; a program may ask back, or not listen."""
        target = self._window(window)
        await self._do(lambda connection: close_window(connection.screen, target))
        if await self._until(lambda windows: not any(entry.window == target for entry in windows.front), _CLOSE_S):
            return await self._settle(f"window {window} was asked to close")
        text = await self._settle(f"window {window} was asked to close, and is still there")
        return f"{text}\nits program may have asked something, or does not listen: then stop the program"

    # -- programs ----------------------------------------------------------------------------------------------------

    @action(effect=("write", "execute"))
    async def start_program(
        self,
        command: Annotated[str, Field(description="For bash, e.g. xterm, or python3 files/app.py.", min_length=1)],
        wait_s: Annotated[float, Field(description="For its window, in seconds.", ge=0, le=60)] = 10.0,
    ) -> str:
        """Start a program on this desktop, in the sandbox, and wait for its first window or its end."""
        if not command.strip():
            raise ToolError("the command is empty; give one, e.g. xterm")
        await self._programs.check()
        assert self._folder is not None
        _, before = await self._do(look)
        display = await self._open.start()
        job = await self._programs.start(command, display, self._folder, self._files)
        self._running.add(job.job)
        numbers = {window.window for window in before.front}
        end = asyncio.get_running_loop().time() + wait_s
        while asyncio.get_running_loop().time() < end and job.job in await self._programs.running():
            if await self._until(lambda windows: any(entry.window not in numbers for entry in windows.front), _LOOK_S):
                break
        text = await self._settle(f"program {job.job} was started")
        return text if self._safe else f"[run without a sandbox]\n{text}"

    @action(effect="read")
    async def programs(self) -> str:
        """The programs that were started, what became of them and the end of what they printed."""
        return "\n".join(await self._described_programs()) or "no programs"

    @action(effect="read")
    async def output(self, program: ProgramNumber) -> str:
        """What a program has printed, both outputs, its beginning and end if that is long."""
        job = await self._programs.shell_of(program).output(program)
        output = descriptions.cut((job.output or "").rstrip("\n"))
        return "\n".join([*([output] if output else []), f"[program {descriptions.program_line(job)}]"])

    @action(effect=("write", "execute"))
    async def stop(self, program: ProgramNumber) -> str:
        """End a program: it is asked to, and killed if it has not ended after a second."""
        job = await self._programs.shell_of(program).stop(program)
        self._running.discard(program)
        text = f"program {descriptions.program_line(job)}"
        if self._open.display is None:
            return text
        async with self._explain(f"{text}; but "):
            if not await self._open.manage():  # it may have had so many windows that it is still busy with them
                text += "\nthe window manager did not keep up and was started anew"
        return await self._settle(text)

    # -- clipboard ---------------------------------------------------------------------------------------------------

    @action(effect="read")
    async def clipboard_read(self) -> str:
        """The text that was copied last (ctrl+a, ctrl+c copy all of a field in many programs)."""
        text = await self._do(lambda connection: connection.clipboard.read())
        return "(nothing was copied)" if text is None else descriptions.cut(text)

    @action
    async def clipboard_write(self, text: str) -> str:
        """Put a text into the clipboard, for ctrl+v; quicker than typing a long one.

        Args:
            text: what is pasted.
        """
        if len(text.encode("utf-8", "replace")) > MOST_BYTES or "\0" in text:
            raise ToolError(f"the clipboard takes texts of up to {MOST_BYTES:,} bytes, without zero characters")
        await self._do(lambda connection: connection.clipboard.write(text))
        self._open.serve()
        return f"{len(text):,} characters are in the clipboard"
