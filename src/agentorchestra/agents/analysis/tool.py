"""`analyze_file`: one question to one source, by the strategy that fits it (000, app. D.4; 001, sec. 3.3.3)."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.analysis.strategies import MOST_FINDINGS, Analysis
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.tea.transformations.base import Carried
from agentorchestra.tools.media_formats import media_as
from agentorchestra.tools.source_reader import read_source

NAME = "analyze_file"


def analyze_file_tool() -> Tool[..., Any]:
    @tool(effect="composite")
    async def analyze_file(ctx: RunContext[Any], file: str, question: str, known: str = "") -> ToolResult:
        """Have one file read whole for a question: a long text, a large table, a picture, a recording, an archive.

        Args:
            file: A file of the task, a member ("a.zip!b.csv"), a file in the folder, an artifact, or an address that
                was read.
            question: One question that stands by itself.
            known: What helps to find it: names, numbers, earlier findings.
        """
        analysis = Analysis(ctx, question, known)
        content = await analysis.run(file)
        source = Source(kind="web" if "://" in file else "file", ref=content.name)
        answer = analysis.answer or "This file does not answer it."
        if not analysis.answer and analysis.missing:
            answer += f" Missing: {analysis.missing}"
        blocks: list[Block] = [TextBlock(text=answer, source=source, trust=Trust.UNTRUSTED)]
        for finding in analysis.findings[-MOST_FINDINGS * 4 :]:
            if finding.quote:
                quote_source = source.model_copy(update={"place": finding.place})
                blocks.append(TextBlock(text=finding.quote, source=quote_source, trust=Trust.UNTRUSTED))
            else:  # without a place, so that nobody takes it for words that stand there
                text = f"Not to be quoted{f', {finding.place}' if finding.place else ''}: {finding.fact}"
                blocks.append(TextBlock(text=text, source=source, trust=Trust.UNTRUSTED))
        steps = "; ".join(dict.fromkeys(analysis.steps))
        # Names of members and what a program printed are the file's words too: they stand in its quotation.
        notes = [*(f"Note: {note.rstrip('.')}." for note in dict.fromkeys(analysis.notes)), f"[{steps}]"]
        blocks += [TextBlock(text=note, source=source, trust=Trust.UNTRUSTED) for note in notes]
        return ToolResult(content=blocks, trust=Trust.UNTRUSTED)

    return analyze_file.backed_by(
        Carried(tools=(media_as, read_source)), uses=(media_as.name, read_source.name, "python")
    )
