"""The tests of a module go to one process where one of its fixtures is made once for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.sharing import Together

FIXTURE = "@pytest.fixture({})\ndef browser():\n    return 1\n"


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ('scope="module"', "test_a.py"),
        ('loop_scope="module", scope="module"', "test_a.py"),
        ('loop_scope="module"', "test_a.py::test_b[1@2]"),
        ("", "test_a.py::test_b[1@2]"),
    ],
)
def test_what_is_handed_out_at_once(tmp_path: Path, options: str, unit: str) -> None:
    (tmp_path / "test_a.py").write_text(FIXTURE.format(options))
    scheduler = Together.__new__(Together)
    scheduler.config = SimpleNamespace(rootpath=tmp_path)
    assert scheduler._split_scope("test_a.py::test_b[1@2]") == unit
