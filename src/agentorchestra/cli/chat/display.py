"""A turn while it is worked on: the tree of agents and the answer as it is streamed, above the line that is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment

from agentorchestra.cli.output import clean
from agentorchestra.cli.view.live import PictureDisplay
from agentorchestra.runtime.bus import Notice
from agentorchestra.workspace import Workspace

if TYPE_CHECKING:
    from agentorchestra.cli.chat.screen import ChatScreen

_ANSWER_CHARS = 6000  # characters of an answer that are drawn while it comes


class DrawnAnswer:
    """Markdown that a model wrote, for a terminal: nothing in it steers that, and the addresses of links are seen."""

    def __init__(self, text: str) -> None:
        self._markdown = Markdown(clean(text), hyperlinks=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield its pieces; an entity such as `&#x202e;` became a character only now."""
        for piece in console.render(self._markdown, options):
            if not piece.control:
                yield Segment(clean(piece.text), piece.style)


class TurnDisplay(PictureDisplay):
    """Draws a turn into the part of the screen above the prompt."""

    def __init__(self, workspace: Workspace[Any], run_id: str, screen: ChatScreen) -> None:
        super().__init__(workspace, run_id)
        self._screen = screen
        self.answer = ""  # what was streamed of it

    async def _begin(self) -> None:
        await self.catch_up()
        self._view.notes.clear()  # of how the turn was stopped before
        self._draw()

    def _show_text(self, notices: list[Notice]) -> None:
        for notice in notices:
            if notice.kind == "delta":
                self.answer += notice.text
            elif notice.kind == "retracted":
                self.answer = ""
        super()._show_text([notice for notice in notices if notice.kind != "delta"])

    def _draw(self) -> None:
        if self._screen.asking:  # the picture would repeat the question
            return self._end()
        console, rows = self._screen.console, self._screen.free_rows
        answer = self.answer
        with console.capture() as capture:
            if answer.strip():
                console.print(DrawnAnswer(answer[-_ANSWER_CHARS:]), end="")
        lines = [line for line in capture.get().rstrip("\n").split("\n") if line][-max(1, rows * 2 // 3) :]
        with console.capture() as capture:
            for line in self._picture(console, max(1, rows - len(lines))):
                console.print(line, soft_wrap=True)
        self._screen.draw(capture.get() + "".join(f"{line}\n" for line in lines))

    def _end(self) -> None:
        self._screen.draw("")
