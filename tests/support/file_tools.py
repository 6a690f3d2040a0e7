"""Contexts and calls for tests of the tools that read files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentorchestra.core.content import TextBlock
from agentorchestra.tools.files import file_tools
from tests.support.files import FakeContext


class Watched(FakeContext):
    """A context that hears of progress."""

    def __init__(self, files: list[Path], folder: Path, heard: Callable[[str], None] | None = None) -> None:
        super().__init__(files, folder)
        self.told: list[str] = []
        self._heard = heard

    def progress(self, text: str) -> None:
        self.told.append(text)
        if self._heard is not None:
            self._heard(text)


async def used(ctx: Any, tool_name: str, folder: Path | None = None, **arguments: Any) -> list[TextBlock]:
    """Return the texts that a file tool gives."""
    (tool,) = (tool for tool in file_tools(folder) if tool.name == tool_name)
    result = await tool.call(arguments, ctx)
    return [block for block in result.content if isinstance(block, TextBlock)]


async def search(ctx: Any, folder: Path, **arguments: Any) -> list[TextBlock]:
    """Return the texts that `search_files` gives, with its index in a folder."""
    return await used(ctx, "search_files", folder, **arguments)


def place(block: TextBlock) -> tuple[str, str | None]:
    """Return the file and the place of a text."""
    assert block.source is not None
    return block.source.ref, block.source.place
