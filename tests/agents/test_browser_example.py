"""The case study G.4: a search by elements and by pixels of the same page."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser" / "search.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("browser_search", EXAMPLE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.long
async def test_the_first_result_is_found_through_a_button_that_is_only_drawn(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, place = await example.search(tmp_path)
    assert result.answer == "Welcome to Python.org: https://www.python.org/", result.error
    actions = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert actions[:4] == ["browser_go_to_url", "browser_input_text", "browser_screenshot", "browser_click"]
    assert result.sources[0].source.endswith("/search?q=python+programming")
    (gif,) = place.rglob("steps.gif")
    assert gif.read_bytes().startswith(b"GIF89a")
