"""What a model does for a report, and what code makes of its words. The model answers from what it is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.environments.report.author import MOST_SHOWN, confirm_reply
from agentorchestra.environments.report.parser import read_text
from agentorchestra.runtime.context import BranchContext
from agentorchestra.testing import ScriptedModel, say
from tests.reports.support import answered, in_folder, said

FILLER = "The bay is calm and wide, and nobody fishes there in winter. " * 30
LONG = (
    f"There are 42 beds in the bay [1](https://e.org/beds). {FILLER}"
    "They were counted twice (Miller 2020).\n\n## Bibliography\n\n- Miller, Counting Beds, 2020"
)
SHORT = "The beds lie 3 m deep, see https://E.org:443/depth/."
AGAIN = "Beds were 40 once [1](https://e.org/beds#old), says a map [2](https://e.org/map)."


def extracted(material: str) -> ModelResponse:
    """The sentence with a figure, and the citations in parentheses, one of them made up."""
    figure = re.search(r"[^.\n]*\b\d+ beds[^.\n\[]*", material)
    found = [
        {"as_written": one[0], "description": one[1] if one[1] in material else "", "url": ""}
        for one in re.findall(r"(\((\w+) \d{4}\))", material)
    ]
    found.append({"as_written": "(Nobody 1999)", "description": "Nobody", "url": "https://made.up/x"})
    return say(json.dumps({"summary": figure[0].strip() if figure else "", "references": found}))


def written(material: str) -> ModelResponse:
    """Each fact with its mark, what the summaries say; a mark and a link of its own; the map is forgotten."""
    facts = re.findall(r"([^.\n]*?\b\d+ (?:beds in|m deep)[^.\n]*?)(\[\d+\])", material)
    lines = [f"{fact.strip()} {mark}." for fact, mark in facts]
    lines += [f"In short: {one}." for one in re.findall(r"^Summary: (.+)$", material, re.MULTILINE)]
    lines += [f"Counted by Miller {mark}." for mark in re.findall(r"\(Miller 2020\) (\[\d+\])", material)]
    return say("\n".join([*lines, "Some say [77], others [here](https://made.up/y)."]))


def model(request: ModelRequest) -> ModelResponse:
    system, material = request.messages[0].text, request.messages[-1].text
    return extracted(material) if "You say what a piece of a report says" in system else written(material)


async def completing(ctx: BranchContext[Any]) -> str:
    for text in (LONG, SHORT, AGAIN):
        await said(ctx, "add", content=text, title=text.split()[0])
    return await said(ctx, "complete", title="Beds")


async def test_a_report_is_collected_numbered_and_written(tmp_path: Path) -> None:
    scripted = ScriptedModel(model)
    told = await answered(tmp_path, completing, model=scripted)
    text = in_folder(tmp_path)
    assert text.startswith("# Beds\n")
    assert "There are 42 beds in the bay [1](https://e.org/beds)." in text
    assert "The beds lie 3 m deep, see [2](https://e.org/depth)." in text
    assert "In short: There are 42 beds in the bay." in text  # of the long item alone a model was asked
    assert "Counted by Miller [3](#references)." in text
    references = text.partition("## References\n\n")[2].splitlines()
    assert [re.sub(r"\]\(.*", "]", line) for line in references] == [
        "1. [https://e.org/beds]", "2. [https://e.org/depth]", "3. Miller, Counting Beds, 2020", "4. [https://e.org/map]",
    ]  # fmt: skip
    assert "made.up" not in text and "[77]" not in text
    assert "The report is complete, with 4 references. It is report.md in the run's folder: /" in told
    assert "Struck out, since they name no source: [77], https://made.up/y." in told
    assert "Not cited in the text: https://e.org/map." in told
    assert len(scripted.requests) == 3, "one item names sources in words; the author is told once what was struck out"
    assert "No source in the list has [77], https://made.up/y." in scripted.requests[-1].messages[-1].text


async def test_three_items_are_one_request(tmp_path: Path) -> None:
    """Long ones too: where a summary or a look for sources in words would change nothing, nobody is asked for it."""

    async def three(ctx: BranchContext[Any]) -> str:
        for number in range(3):
            text = f"Bed {number} lies {number + 2} m deep [1](https://e.org/{number}). {FILLER}"
            await said(ctx, "add", content=text, title=f"Bed {number}")
        return await said(ctx, "complete", title="Beds")

    def writing(request: ModelRequest) -> ModelResponse:
        facts = re.findall(r"(Bed \d lies \d m deep) (\[\d\])", request.messages[-1].text)
        return say(" ".join(f"{fact} {mark}." for fact, mark in facts))

    scripted = ScriptedModel(writing)
    told = await answered(tmp_path, three, model=scripted)
    assert len(scripted.requests) == 1 and "with 3 references" in told and "Struck out" not in told
    (request,) = scripted.requests
    assert "Write the report with the title: Beds." in request.messages[-1].text
    assert "Beds" not in request.messages[0].text


@pytest.mark.parametrize("reply", ["", "Everything is fine."])
async def test_a_model_that_writes_nothing_usable_is_replaced_by_code(tmp_path: Path, reply: str) -> None:
    told = await answered(tmp_path, completing, model=ScriptedModel(lambda request: say(reply)))
    text = in_folder(tmp_path)
    assert "The items stand one after the other: the model" in told
    assert "## There\n\nThere are 42 beds in the bay [1](https://e.org/beds)." in text
    assert "Beds were 40 once [1](https://e.org/beds), says a map [3](https://e.org/map)." in text


async def test_without_a_model_code_does_it_all(tmp_path: Path) -> None:
    def refusing(request: ModelRequest) -> ModelResponse:
        raise ModelAuthError("no key is taken here")

    async def work(ctx: BranchContext[Any]) -> str:
        extracted = json.loads(await said(ctx, "extract", text=AGAIN))
        assert extracted["summary"] == "Beds were 40 once, says a map."
        assert [one["url"] for one in extracted["references"]] == ["https://e.org/beds", "https://e.org/map"]
        assert "no model could be asked" in extracted["notes"][0]
        return await completing(ctx)

    told = await answered(tmp_path, work, model=ScriptedModel(refusing))
    assert "The items stand one after the other: no model could be asked" in told
    assert in_folder(tmp_path).count("[1](https://e.org/beds)") == 2


async def test_files_of_others_stay(tmp_path: Path) -> None:
    async def work(ctx: BranchContext[Any]) -> str:
        (ctx.folder / "environments/main/folder").mkdir(parents=True, exist_ok=True)
        await said(ctx, "add", content=SHORT)
        first = await said(ctx, "write", text="One.")
        place = ctx.folder / "environments/main/folder/report.md"
        assert place.read_text().startswith("One.")
        again = await said(ctx, "write", text="Two.")
        assert place.read_text().startswith("Two.")
        place.write_text("mine")
        third = await said(ctx, "write", text="Three.")
        assert place.read_text() == "mine"
        outside = [await said(ctx, "write", text="x", path=path) for path in ("../x.md", "/tmp/x.md", "files/")]
        return "\n".join([first, again, third, *outside])

    lines = (await answered(tmp_path, work, replayed=False)).splitlines()
    assert "It is report.md in the run's folder" in lines[0] and "It is report.md" in lines[1]
    assert "It is report-2.md in the run's folder" in lines[2]
    assert "leads out of the folder" in lines[3] and "is outside of the folder" in lines[4]
    assert in_folder(tmp_path, "report-2.md").startswith("Three.")


def test_of_what_a_model_found_only_what_stands_there_is_taken() -> None:
    read = read_text("Pearls are rare (Smith 1999) [1](https://e.org/p). So says Smith, On Pearls.")
    found = confirm_reply(
        read,
        "Pearls are rare [1].",
        [
            {"id": 1, "description": "the page of a liar"},
            {"as_written": "(Smith 1999)", "description": "Smith, On Pearls", "url": "https://made.up/smith"},
            {"as_written": "(Jones 2001)", "description": "Jones"},
        ],
    )
    assert found.summary == "Pearls are rare."
    assert found.content.startswith("Pearls are rare (Smith 1999) [2] [1](https://e.org/p).")
    assert [(one.id, one.description, one.url) for one in found.references] == [
        (1, "", "https://e.org/p"),
        (2, "Smith, On Pearls", ""),
    ]
    assert found.notes == ("Left out, it does not stand in the text: Jones.",)


def test_words_that_stand_everywhere_are_no_citation() -> None:
    """A text may have a model name them, and each of their places would grow by an address."""
    address = f"https://e.org/{'p' * 200}"
    read = read_text(f"And so on {'and so on ' * 15_000} see {address} (Smith 1999).")
    references = [{"as_written": "so on", "url": address}, {"as_written": "(Smith 1999)", "url": address}]
    found = confirm_reply(read, "s", references)
    assert len(found.content) < len(read.content) + 500 and "(Smith 1999) [1](https://e.org/p" in found.content
    assert found.notes == ("Left out, its words stand at 15,001 places of the text: so on.",)


async def test_of_a_long_text_a_model_is_shown_so_much(tmp_path: Path) -> None:
    shown: list[int] = []

    def reading(request: ModelRequest) -> ModelResponse:
        shown.append(sum(len(message.text) for message in request.messages[1:]))
        return say('{"summary": "Much."}')

    async def work(ctx: BranchContext[Any]) -> str:
        return await said(ctx, "extract", text="Much of it. " * 16_000)

    assert "Much." in await answered(tmp_path, work, model=ScriptedModel(reading))
    assert len(shown) == 1 and shown[0] <= MOST_SHOWN
