"""examples/search/mirror.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "search" / "mirror.py"


@pytest.mark.long
async def test_a_page_of_a_copied_site_is_found_read_and_cited(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("mirror", PROGRAM)
    assert spec is not None and spec.loader is not None
    mirror = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mirror)
    await mirror.main()
    answer, *sources = capsys.readouterr().out.splitlines()
    assert answer == "The wheel is 4.8 metres high and made of larch. It was last renewed in 1996."
    assert [one.partition("/wheel/, ")[2] for one in sources] == [
        "line 3: The wheel is 4.8 metres high and made of larch.",
        "line 5: It was last renewed in 1996.",
    ]
