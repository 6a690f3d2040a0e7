"""The record of what a browser use agent did: moving picture, conversation, report, in a folder of its own.

The folder is named after the agent's branch: agents that work at the same time never share one, and a resume goes on
in it. What is made is kept as artifacts of the run as well.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.browser.history import conversation
from agentorchestra.agents.reporting.references import make_report
from agentorchestra.agents.viewed_pages import addresses_of, looks
from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import AgentResult, Citation
from agentorchestra.environments.report.addresses import normalised_address
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool

KEEP = "keep_record"
GIF, LOG, REPORT = "steps.gif", "log.jsonl", "report.md"


def call_id(branch: str) -> str:
    """Return the name of an agent's work: its branch, as the name of a folder."""
    return "-".join(part for part in branch.split("/") if part) or "run"


def begin_record(ctx: BranchContext[Any]) -> None:
    """Let the environment record what this agent does, unless the settings say otherwise."""
    from agentorchestra.environments.browser.session.recorder import RECORD  # only who browses pays for it

    ctx.vars[RECORD] = call_id(ctx.branch)


@tool(name=KEEP, effect="read", timeout_s=60)
async def keep_record(task: str, result: dict[str, JsonValue], ctx: RunContext[Any]) -> ToolResult:
    """Make the files of an agent's record.

    Args:
        task: What it was to do.
        result: Its result.
    """
    from agentorchestra.environments.browser.session.recorder import (
        FRAMES,
        PLACE,
        RECORD,
        moving_picture,
        record_folder,
    )

    above = getattr(ctx, "parent", None)
    name = str(ctx.vars.get(RECORD) or "")
    if not isinstance(above, BranchContext) or not name:
        return ToolResult(content="")
    folder = record_folder(ctx.folder, name)
    log = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in conversation(above, task))
    files = {LOG: (log.encode("utf-8", "replace"), "application/x-ndjson")}
    picture = await asyncio.to_thread(moving_picture, folder) if (folder / FRAMES).is_dir() else None
    if picture is not None:
        files[GIF] = (picture, "image/gif")
    pages = addresses_of(looks(above))
    report = browser_report(task, AgentResult.model_validate(result), pages, sorted(files))
    files[REPORT] = (report.encode("utf-8", "replace"), "text/markdown")
    await asyncio.to_thread(_write, folder, {file_name: data for file_name, (data, _) in files.items()})
    artifacts: list[ArtifactRef] = []
    for file_name, (data, media_type) in sorted(files.items()):
        artifacts.append(await ctx.artifact(f"{PLACE}/{name}/{file_name}", data, media_type))
    note = f"Record: {', '.join(artifact.name for artifact in artifacts)}."
    return ToolResult(content=note, artifacts=tuple(artifacts))


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def browser_report(task: str, result: AgentResult, pages: list[str], files: list[str]) -> str:
    """Return the report in Markdown: task, result with references, the pages on the way, the record's files."""
    evidence = list(result.sources)
    marks = "".join(f"[E{index}]" for index in range(1, len(evidence) + 1))
    numbers = {normalised_address(citation.source): index for index, citation in enumerate(evidence, start=1)}
    way = []
    for page in pages:
        at = normalised_address(page)
        if at not in numbers:
            evidence.append(Citation(source=page))
            numbers[at] = len(evidence)
        way.append(f"- [E{numbers[at]}]")
    about = [
        "# Browser task",
        f"## Task\n\n{_safe(task)}",
        f"## Result ({result.status.value})\n\n{_safe(result.answer) or 'none'} {marks}".rstrip(),
        _safe(result.report),
        "## Pages\n\n" + "\n".join(way) if way else "",
        "## Record\n\n" + "\n".join(f"- `{name}`" for name in files),
    ]
    return make_report("\n\n".join(part for part in about if part), evidence, ()).text + "\n"


def _safe(text: str) -> str:
    """Words of others: what looks like a mark of evidence in them is none."""
    return text.replace("[E", "[ E").strip()
