"""`read_file` and `search_files` as an agent meets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.files import makers
from tests.files.conftest import MakePdf
from tests.support.files import FakeContext

from agentorchestra.core.content import TextBlock, Trust, without_numbers
from agentorchestra.core.effects import Mode
from agentorchestra.core.errors import ToolError
from agentorchestra.tools.files import file_tools, verify_quote


@pytest.fixture
def ctx(tmp_path: Path, make_pdf: MakePdf) -> Any:
    """A run with a long text, a table and a PDF."""
    text = tmp_path / "notes.txt"
    text.write_text(
        "\n\n".join(f"Paragraph {number} tells of otter {number} at length. " * 4 for number in range(1, 301))
    )
    table = tmp_path / "table.csv"
    table.write_text("city,people\n" + "".join(f"Town{number},{number * 7}\n" for number in range(1, 900)))
    pdf = make_pdf("The first page speaks of herons.", "The second page speaks of otters.")
    return FakeContext([text, table, pdf], tmp_path / "run")


async def call(ctx: Any, tool_name: str, /, **arguments: Any) -> list[TextBlock]:
    tools = {tool.name: tool for tool in file_tools()}
    result = await tools[tool_name].call(arguments, ctx)
    blocks = list(result.content)
    assert all(isinstance(block, TextBlock) for block in blocks)
    return blocks


def places(blocks: list[TextBlock]) -> list[str | None]:
    return [block.source.place for block in blocks if block.source is not None]


def test_they_only_read() -> None:
    for tool in file_tools():
        assert tool.mode is Mode.PURE
        assert "ctx" not in tool.schema.parameters["properties"]


async def test_search_gives_passages_with_their_places(ctx: Any) -> None:
    blocks = await call(ctx, "search_files", query="page otters")
    assert next((block.source.ref, block.source.place) for block in blocks if block.source) == ("made.pdf", "p. 2")
    assert blocks[0].text == "The second page speaks of otters."
    assert blocks[0].trust is Trust.UNTRUSTED
    assert len(await call(ctx, "search_files", query="otter", limit=2)) == 2


async def test_search_says_when_nothing_is_there(ctx: Any) -> None:
    (block,) = await call(ctx, "search_files", query="platypus")
    assert block.text == "No passage of notes.txt, table.csv, made.pdf holds a word of the query 'platypus'."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"query": " ?! "}, "holds no word to search for"),
        ({"query": "otter", "limit": 0}, "limit is 0; give a number from 1 to 50"),
    ],
)
async def test_search_mistakes(ctx: Any, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        await call(ctx, "search_files", **arguments)


async def test_search_without_files(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="This task has no files to search"):
        await call(FakeContext([], tmp_path), "search_files", query="otter")


async def test_a_file_that_broke_does_not_hide_the_others(ctx: Any) -> None:
    ctx.file("made.pdf").write_bytes(b"%PDF-1.4 broken")
    blocks = await call(ctx, "search_files", query="otter 12")
    assert blocks[0].source is not None
    assert blocks[0].source.ref == "notes.txt"
    assert blocks[-1].text.startswith("Not searched: made.pdf is corrupt")


async def test_a_long_file_is_read_on_to_its_end(ctx: Any) -> None:
    part = ""
    view_range: tuple[int, ...] = ()
    seen: list[str] = []
    for _ in range(40):
        blocks = await call(ctx, "read_file", name="notes.txt", part=part, view_range=view_range)
        seen += [without_numbers(block) for block in blocks if block.source is not None]
        assert sum(len(block.text) for block in blocks) < 20_000
        on = re.search(r"Read on with view_range=\[(\d+), (\d+)\]", blocks[-1].text)
        if on is None:
            break
        view_range = (int(on[1]), -1)
    assert "\n".join(seen) == ctx.file("notes.txt").read_text()


async def test_parts(ctx: Any) -> None:
    (block, rest) = await call(ctx, "read_file", name="notes.txt", part="lines 3-5")
    assert block.source is not None and (block.source.place, rest.text) == ("lines 3-5", "It has 599 lines.")
    three, four, five = block.text.split("\n")
    assert three.startswith("3\tParagraph 2 tells") and four == "4\t" and five.startswith("5\tParagraph 3 tells")
    assert block in await call(ctx, "read_file", name="notes.txt", view_range=[3, 5])
    assert places(await call(ctx, "read_file", name="made.pdf", part="p. 2")) == ["p. 2"]
    assert [b.text for b in await call(ctx, "read_file", name="table.csv", part="B2")] == ["7"]
    blocks = await call(ctx, "read_file", name="table.csv", part="A2:B3")
    assert [block.text for block in blocks] == ["row,A,B\n1,city,people\n2,Town1,7\n3,Town2,14"]
    assert places(blocks) == ["A2:B3"]


async def test_a_name_is_found_by_its_last_part(ctx: Any) -> None:
    assert places(await call(ctx, "read_file", name="folder/NOTES.txt", part="line 1")) == ["line 1"]


@pytest.mark.parametrize(
    ("name", "part", "sentence"),
    [
        ("other.txt", None, "This task has no file 'other.txt'; its files are: notes.txt, table.csv, made.pdf"),
        ("notes.txt", "line 9000", "notes.txt has no part 'line 9000'; it has lines 1-599"),
        ("notes.txt", "B7", "notes.txt has no part 'B7'; it has lines 1-599: give e.g. 'lines 1-40'"),
        ("made.pdf", "p. 3", "made.pdf has no part 'p. 3'; it has pp. 1-2"),
        ("table.csv", "Z9", "table.csv has no part 'Z9'; it has rows 1-900 and the cells A1:B900"),
        ("table.csv", "the end", "table.csv has no part 'the end'"),
    ],
)
async def test_mistakes_list_what_there_is(ctx: Any, name: str, part: str | None, sentence: str) -> None:
    with pytest.raises(ToolError) as caught:
        await call(ctx, "read_file", name=name, part=part)
    assert sentence in str(caught.value)


async def test_an_endless_line_is_cut_and_read_on_by_its_characters(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    long = "".join(f"word{number} " for number in range(20_000))
    path.write_text(f"{long}\nlast line\n")
    ctx = FakeContext([path], tmp_path / "run")
    block, note = await call(ctx, "read_file", name="long.txt")
    assert block.text == f"1, characters 1-4000\t{long[:4000]}\n2\tlast line"
    assert note.text.startswith(
        f"Line 1 has {len(long):,} characters; 1-4,000 are shown. Read on with part='line 1, char"
    )
    assert note.trust is Trust.SYSTEM
    seen, notes = long[:4000], [note]
    while notes and (on := re.search(r"part='(line 1, characters [\d-]+)'", notes[0].text)):
        block, *notes = await call(ctx, "read_file", name="long.txt", part=on[1])
        assert block.source is not None and block.source.place == on[1]
        seen += without_numbers(block)
    assert (seen, notes) == (long, [])
    assert verify_quote(path, "line 1, characters 4001-5000", "word530 word531 word532")
    assert not verify_quote(path, "line 1, characters 1-4000", "word530 word531 word532")
    with pytest.raises(ToolError, match="has no part 'line 2, characters 20-30'; line 2 has 9 characters"):
        await call(ctx, "read_file", name="long.txt", part="line 2, characters 20-30")
    (hit,) = await call(ctx, "search_files", query="word15000")
    assert hit.source is not None and (found := re.match(r"line 1, characters (\d+)-(\d+)", hit.source.place or ""))
    assert long[int(found[1]) - 1 : int(found[2])] == hit.text


async def test_a_folder_that_cannot_be_written_makes_no_difference(ctx: Any, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    assert await call(ctx, "search_files", query="herons")


async def test_the_index_is_shared_by_runs(ctx: Any, tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    for _ in range(2):
        for tool in file_tools(folder):
            if tool.name == "search_files":
                await tool.call({"query": "herons"}, ctx)
    assert (folder / "index.db").exists()
    assert not (tmp_path / "run").exists()


# -- pages that are pictures -------------------------------------------------------------------------------------------

LONG = "Words of a page of its own, at more length than what a scanner adds below the picture of a page of a book. "


@pytest.fixture
def scans(tmp_path: Path) -> Any:
    """A PDF of words and pictures, and one of pictures, in a run that sees."""
    drawn = makers.page_picture()
    (tmp_path / "mixed.pdf").write_bytes(makers.paged([(LONG, b""), ("", drawn), (LONG, b""), ("", drawn)]))
    (tmp_path / "scan.pdf").write_bytes(makers.paged([("", drawn)] * 2))
    ctx = FakeContext([tmp_path / "mixed.pdf", tmp_path / "scan.pdf"], tmp_path / "run")
    ctx.manifest.media_models = {"image": ("eyes",)}
    return ctx


async def test_a_search_says_which_pages_it_does_not_find(scans: Any) -> None:
    for _ in range(2):  # read, then from the index
        *_, said = await call(scans, "search_files", query="scanner")
        assert said.text.startswith("Not searched: mixed.pdf!pp. 2, 4, scan.pdf!pp. 1-2: pictures without text, which")
        assert "ask_media shows" in said.text


async def test_reading_names_the_pictures_among_the_pages_that_were_asked_for(scans: Any) -> None:
    said = {
        part: " ".join(one.text for one in await call(scans, "read_file", name="mixed.pdf", part=part))
        for part in ("p. 2", "p. 3", "pp. 1-3")
    }
    assert "holds no text. Note: p. 2: pictures" in said["p. 2"] and "pictures without" not in said["p. 3"]
    assert "Note: p. 2: pictures without text" in said["pp. 1-3"]
    scans.manifest.media_models = {}
    (alone,) = await call(scans, "read_file", name="scan.pdf")
    assert "pp. 1-2: pictures without text, which were not read; no model of this run sees: name a model" in alone.text
    scans.manifest.media_models = {"document": ("reader",)}
    described = await call(scans, "describe_files")
    assert "pp. 1-2: pictures without text, which were not read; analyze_file gives the whole" in described[1].text
