"""An analyzer killed with SIGKILL in the middle: it goes on, nothing that was recorded is asked or computed again."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import Event
from agentorchestra.log.ledger import Ledger
from tests.agents.analysing import source_of
from tests.chaos.support import effect_keys, only_run, python, read_log

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("analysis_program.py")
TASK = "What is the code of Kelmar?"


@dataclass
class Case:
    """A workspace of its own, driven by the command line in fresh processes."""

    folder: Path
    source: bytes
    run: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        shutil.copy(PROGRAM, self.folder / "app.py")
        (self.folder / "agentorchestra.toml").write_text('app = "app:workspace"\n')
        (self.folder / "towns.zip").write_bytes(self.source)

    async def cli(self, *words: str, kill_at: str = "") -> dict[str, Any]:
        """A command; what it printed."""
        whole: list[str | Path] = ["-m", "agentorchestra.cli", *words, "--workspace", self.folder / "ws", "--json"]
        printed = await asyncio.to_thread(python, whole, kill_at=kill_at)
        self.run = self.run or await only_run(self.folder / "ws")
        return json.loads(printed) if printed.strip() else {}

    async def ask(self, kill_at: str = "") -> dict[str, Any]:
        """The run."""
        return await self.cli("run", TASK, "--file", str(self.folder / "towns.zip"), kill_at=kill_at)

    @property
    def questions(self) -> Counter[str]:
        """How often the model was asked what."""
        return Counter((self.folder / "requests.txt").read_text().split())

    async def log(self) -> list[Event]:
        """Of its run."""
        return await read_log(self.folder / "ws", self.run)


def keys_of(events: list[Event], name: str) -> list[str]:
    """The effects of a component, in order."""
    records = Ledger.of(events).records
    return [str(key) for key, one in records.items() if str(one.effect.get("component", "")).startswith(f"{name}@")]


async def test_it_survives_being_killed(tmp_path: Path) -> None:
    source = source_of("joined", "Kelmar", "4711")  # a workbook holds the time it was made
    clean = Case(tmp_path / "clean", source)
    expected = await clean.ask()
    assert (expected["status"], expected["answer"]) == ("completed", "4711")
    events = await clean.log()
    asked = [key for key in keys_of(events, "reader") if "analyze_file" in key]
    (read,), (added,) = (keys_of(events, name) for name in ("read_source", "report"))
    assert len(asked) == 3, "the text, the program, the conclusion"
    # As the source was read; as the answer of its text is recorded; as the round is reported.
    points = [f"after:{read}", f"in_record:{asked[0]}", f"after_mark:{added}"]
    for number, point in enumerate(points):
        case = Case(tmp_path / f"case-{number}", source)
        assert not await case.ask(kill_at=point), "it is dead"
        result = await case.cli("resume", case.run)
        assert (result["status"], result["answer"]) == ("completed", "4711"), point
        assert result["report"] == expected["report"], point
        assert effect_keys(await case.log()) == effect_keys(events), point
        again = case.questions - Counter(dict.fromkeys(case.questions, 1))
        # Only what was under way, and not recorded, is asked again.
        assert again.total() == point.startswith("in_record"), (point, again)
        assert case.questions.keys() == clean.questions.keys(), point
