"""The counter of names that say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.names import bad, main


@pytest.mark.parametrize("name", ["one", "_said", "already_shown", "GIVEN", "not_found", "what", "untouched"])
def test_pronouns_and_participles_say_nothing(name: str) -> None:
    assert bad(name)


@pytest.mark.parametrize("name", ["found_path", "closed", "speed", "left", "already", "row", "_", "x"])
def test_nouns_and_what_the_field_says_of_a_state_do(name: str) -> None:
    assert not bad(name)


def test_a_share_above_its_limit_is_told_with_its_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("def _made(one):\n    for row in one:\n        pass\nclass Plan: ...\n")
    (tmp_path / "b.py").write_text("class Plan: ...\nclass Row: ...\n")
    assert main([str(tmp_path), "--list"]) == 1
    out = capsys.readouterr().out
    assert "a.py:1 one" in out and "a.py:1 _made" in out and "b.py:1 Plan" in out
    assert "variables: 1 of 2, 50.0%" in out and "functions: 1 of 1" in out and "classes: 1 of 2" in out
    (tmp_path / "a.py").write_text("def make(rows):\n    return rows\n")
    assert main([str(tmp_path)]) == 0
