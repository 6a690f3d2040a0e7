"""Transcripts of the recordings of a task; there where the settings name a model that writes it down."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.calling.tool import tool


@tool(effect="composite")
async def transcribe_file(ctx: RunContext[Any], name: str) -> TextBlock:
    """Write down what is said in a recording among this task's files.

    Args:
        name: The file's name as listed with the task.
    """
    text = await ctx.transcribe(name)
    return TextBlock(text=text or "(nothing is said)", source=Source(kind="file", ref=name), trust=Trust.UNTRUSTED)
