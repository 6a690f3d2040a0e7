"""docs/systems.md says what the packaged systems are."""

from __future__ import annotations

import asyncio
import re

import pytest

from agentorchestra.workspace.catalog import systems
from tests.sandbox.support import usable
from tests.systems.reference import MARK, PAGE, generated, head


def test_the_page_lists_every_system() -> None:
    sections = re.findall(r"^## ([a-z_]+)$", PAGE.read_text(encoding="utf-8").partition(MARK)[2], re.MULTILINE)
    # Of `direct` there is nothing to compare.
    assert sections == ["react", *sorted({*systems()} - {"react", "direct"})], "run `python -m tests.systems.reference`"


@pytest.mark.long  # a run of each system; on a machine with twenty busy processes it differed once
def test_the_page_of_systems_is_what_the_code_says() -> None:
    usable("bubblewrap")  # mini_swe works in it
    wanted = head() + asyncio.run(generated())
    assert PAGE.read_text(encoding="utf-8") == wanted, "run `python -m tests.systems.reference`"
    assert "\n## static\n" in wanted.partition(MARK)[2]
