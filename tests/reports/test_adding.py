"""What is added to a report: texts, objects and files, and the sources that code finds in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.reporting.pieces import act_on_report, add_to_report
from agentorchestra.core.content import text_of
from agentorchestra.core.spec import Citation
from agentorchestra.environments.report.environment import Report
from agentorchestra.environments.report.parser import read_object, read_text, summary_of
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from tests.reports.support import answered, said

PAGE = Citation(source="https://example.org/oysters", place="lines 1-2", quote="Oysters sleep.")


async def look(ctx: BranchContext[Any]) -> str:
    outcome = await ctx.perform(action_effect(Report(), "state", {}))
    return text_of(outcome.blocks()) if outcome.ok else str(outcome.error)


async def work(ctx: BranchContext[Any]) -> str:
    """Adds two pieces; the answer is what the report shows."""
    await add_to_report(ctx, "Oysters sleep [1].", title="Oysters", citations=[PAGE])
    await add_to_report(ctx, {"depth": 3})
    await add_to_report(ctx, "  ")
    return await look(ctx)


async def test_a_workflow_adds_and_the_state_shows_it(tmp_path: Path) -> None:
    shown = await answered(tmp_path, work)
    assert shown.splitlines()[0] == "2 items"
    assert "1. Oysters: Oysters sleep" in shown and "1 reference, by digger" in shown
    assert "depth" in shown


async def test_an_agent_that_does_not_name_the_report_adds_nothing(tmp_path: Path) -> None:
    assert "not among the tools" in await answered(tmp_path, work, environments=())


async def test_files_of_the_run_and_of_the_task_are_added(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(
        json.dumps(
            {"title": "Depths", "text": "It is deep [a].", "sources": [{"id": "a", "url": "https://e.org/deep"}]}
        )
    )
    (tmp_path / "notes.md").write_text("Shells: see https://e.org/shells.\n")
    (tmp_path / "broken.json").write_text("{")

    async def adding(ctx: BranchContext[Any]) -> str:
        told = [await said(ctx, "add", path=f"files/{name}") for name in ("found.json", "notes.md", "broken.json")]
        told.append(await said(ctx, "add", path="../../secret.md"))
        told.append(await said(ctx, "add"))
        told.append(await said(ctx, "collect"))
        return "\n".join(told)

    files = [tmp_path / name for name in ("found.json", "notes.md", "broken.json")]
    lines = (await answered(tmp_path, adding, files=files)).splitlines()
    assert lines[0] == "item 1 is in the report, with 1 reference"
    assert lines[1] == "item 2 is in the report, with 1 reference"
    assert lines[2].startswith("FAILED: files/broken.json is no JSON") and "give its text as content" in lines[2]
    assert "leads out of the folder" in lines[3]
    assert lines[4] == "FAILED: give either a content or the path of a file"
    assert lines[5:] == ["2 references in 2 items", "[1] https://e.org/deep", "[2] https://e.org/shells"]


async def test_what_is_too_long_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async def adding(ctx: BranchContext[Any]) -> str:
        return await said(ctx, "add", content="x" * 200_001)

    assert await answered(tmp_path, adding) == (
        "FAILED: the content has 200,001 characters; add at most 200,000 at once"
    )


async def test_what_a_failed_action_says_ends_no_workflow(tmp_path: Path) -> None:
    async def adding(ctx: BranchContext[Any]) -> str:
        await add_to_report(ctx, "x" * 300_000)
        outcome = await act_on_report(ctx, "complete", {})
        return str(outcome.error)

    assert await answered(tmp_path, adding) == "the report has no items; add what it is to say"


TEXT = """\
Oysters sleep [1]. They eat [2, 3] and [Oyster](https://en.wikipedia.org/wiki/Oyster_(food)).
See https://Example.org:443/a/, or <https://example.org/b>; also [^note] and doi:10.1000/XYZ.1. Nobody knows [9].
Code stays: `list[1] https://code.org`.

```
[1] https://fenced.org
```

## Sources

1. [One](https://a.org/x?utm_source=1): line 3
2. Smith, J. Title. https://b.org/y
[3] Miller. doi:10.1000/xyz.1

[^note]: A note, https://c.org/
"""


def test_citations_are_found_by_code_in_every_form() -> None:
    read = read_text(TEXT)
    assert [(one.id, one.url, one.description) for one in read.references] == [
        (1, "https://a.org/x", "One: line 3"),
        (2, "https://b.org/y", "Smith, J. Title"),
        (3, "https://doi.org/10.1000/xyz.1", "Miller"),
        (4, "https://c.org", "A note"),
        (5, "https://en.wikipedia.org/wiki/Oyster_(food)", "Oyster"),
        (6, "https://example.org/a", ""),
        (7, "https://example.org/b", ""),
    ]
    assert read.struck == ("[9]",)
    lines = read.content.splitlines()
    assert lines[0] == (
        "Oysters sleep [1](https://a.org/x). They eat [2](https://b.org/y)[3](https://doi.org/10.1000/xyz.1) "
        "and Oyster [5](https://en.wikipedia.org/wiki/Oyster_%28food%29)."
    )
    assert lines[1] == (
        "See [6](https://example.org/a), or [7](https://example.org/b); also [4](https://c.org) "
        "and [3](https://doi.org/10.1000/xyz.1). Nobody knows."
    )
    assert lines[2:] == ["Code stays: `list[1] https://code.org`.", "", "```", "[1] https://fenced.org", "```"]


def test_a_mark_is_the_citation_that_was_given_unless_the_text_says_otherwise() -> None:
    other = Citation(source="a.pdf", place="p. 2", quote="Two.")
    read = read_text("One [1], two [E2], three [3](https://example.org/three).", [PAGE, other])
    assert read.content == ("One [1](https://example.org/oysters), two [2], three [3](https://example.org/three).")
    assert [(one.source, one.place) for one in read.references][:2] == [
        ("https://example.org/oysters", "lines 1-2"),
        ("a.pdf", "p. 2"),
    ]


def test_of_an_object_the_rest_is_written_as_a_list() -> None:
    read = read_object({"answer": "Deep [x].", "depth": {"m": 3}, "sources": [{"id": "x", "title": "Map"}]}, ())
    assert read.content == "Deep [x].\n- depth:\n  - m: 3"  # a letter alone is no mark
    assert [one.description for one in read.references] == ["Map"]


def test_a_section_with_another_heading_or_other_lines_stays() -> None:
    text = "A.\n\n## Sources\n\nThe river has two sources. Both are small, and have no name.\n\n## Notes on it\n\n1. a"
    assert read_text(text).content == text


HOSTILE = [
    "[" * 200_000,
    "[a](" * 50_000,
    "http://" * 28_000,
    "`" * 200_000,
    "```\n" * 50_000,
    "[1" * 100_000,
    "[1," * 66_000,
    "\\[" * 100_000,
    "doi:10.1000/" * 16_000,
    "[x](http://a" + "(" * 190_000,
    "[x](http://a" + "(b)" * 60_000,
    "[x](" + " " * 190_000,
    "# sources\n" * 20_000,
    "- " * 100_000,
    "https://[::1" + "]" * 100_000,
    "https://doi.org/" + "%" * 100_000,
]


@pytest.mark.sampled(4)
@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:14])
def test_hostile_texts_take_no_time(text: str) -> None:
    read = read_text(text)
    assert len(read.content) <= 40 * len(text) + 100
    assert len(summary_of(text)) < 400
