"""The case study G.3: a small web game is put into a repository, and two refused pushes are recovered from."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from tests.browser import chromium
from tests.environments.gits import SANDBOX

EXAMPLE = Path(__file__).parents[2] / "examples" / "sokoban"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("publish", EXAMPLE / "publish.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.skipif(SANDBOX is None, reason="no sandbox here: install bubblewrap")
def test_the_game_is_in_the_repository_after_two_refused_pushes(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, faults = asyncio.run(example.publish(tmp_path))
    assert faults == []
    said = capsys.readouterr().out
    refused = [line for line in said.splitlines() if line.startswith("  refused: ")]
    assert len(refused) == 2 and "create it first" in refused[0] and "pull them" in refused[1]
    assert said.count("asked: ") == 1 and "github" in said
    (log,) = (tmp_path / "github").rglob("sokoban-mini.git")
    history = subprocess.run(
        ["git", "-C", log, "log", "--format=%s", "main"], capture_output=True, text=True, check=True
    )
    assert {"Initial commit", "Sokoban: three levels, undo"} < {*history.stdout.splitlines()}
    assert example.TOKEN not in said


@pytest.mark.long
@pytest.mark.real
async def test_the_game_can_be_played() -> None:
    """Each level is solved by keys, found by a search from outside."""
    solutions = ("rr", "rurrddddldruuuulllrdrdrddlldlluudr", "ulldldruurrdllrrddlurul")
    keys = {"u": "ArrowUp", "d": "ArrowDown", "l": "ArrowLeft", "r": "ArrowRight"}
    async with chromium() as browser:
        page = await browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        await page.goto((EXAMPLE / "game" / "index.html").as_uri())
        status = page.locator("#status")
        assert await status.text_content() == "Level 1 of 3, 0 moves, 1 to go"
        await page.keyboard.press("ArrowLeft")  # a wall
        await page.keyboard.press("n")  # not solved
        assert await status.text_content() == "Level 1 of 3, 0 moves, 1 to go"
        await page.keyboard.press("d")
        await page.get_by_role("button", name="Undo").click()
        assert await status.text_content() == "Level 1 of 3, 0 moves, 1 to go"
        for number, moves in enumerate(solutions, 1):
            for one in moves:
                await page.keyboard.press(keys[one])
            assert await status.text_content() == f"Level {number} of 3, {len(moves)} moves, solved"
            assert await page.locator("#board .box.mark").count() == await page.locator("#board .mark").count()
            if number < len(solutions):
                await page.get_by_role("button", name="Next level").click()
        await page.get_by_role("button", name="Again").click()
        assert await status.text_content() == "Level 3 of 3, 0 moves, 1 to go"
        assert faults == []
