"""A researcher killed with SIGKILL in the middle: it goes on, nothing is asked, searched or read twice."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import Event
from agentorchestra.log.ledger import Ledger
from tests.agents.researching import ISLAND, TASK, TOWN, chosen
from tests.chaos.support import effect_keys, only_run, python, read_log
from tests.site import Site, served
from tests.site.pages import PAGES

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("research_program.py")
CLI = ("-m", "agentorchestra.cli")


@pytest.fixture
async def site(monkeypatch: Any) -> AsyncIterator[Site]:
    for path in [*PAGES]:
        monkeypatch.delitem(PAGES, path)
    PAGES.update(ISLAND)
    async with served() as running:
        yield running
    PAGES.clear()


@dataclass
class Case:
    """A workspace of its own, driven by the command line in fresh processes."""

    folder: Path
    site: Site
    run: str = ""
    begins: int = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        shutil.copy(PROGRAM, self.folder / "app.py")
        self.begins = len(self.site.requests)

    async def cli(self, *words: str, kill_at: str = "") -> dict[str, Any]:
        """A command; what it printed."""
        settings = chosen(self.site).model_dump(mode="json", exclude_unset=True)
        (self.folder / "agentorchestra.toml").write_text('app = "app:workspace"\n')
        environ = {"RESEARCH_SETTINGS": json.dumps(settings)}
        whole: list[str | Path] = [*CLI, *words, "--workspace", self.folder / "ws", "--json"]
        printed = await asyncio.to_thread(python, whole, kill_at=kill_at, environ=environ)
        self.run = self.run or await only_run(self.folder / "ws")
        return json.loads(printed) if printed.strip() else {}

    @property
    def questions(self) -> Counter[str]:
        """How often the model was asked what."""
        return Counter((self.folder / "requests.txt").read_text().split())

    @property
    def seen(self) -> Counter[tuple[str, str]]:
        """How often the site was asked what."""
        return Counter((one.path, one.body) for one in self.site.requests[self.begins :] if one.path != "/robots.txt")

    async def log(self) -> list[Event]:
        """Of its run."""
        return await read_log(self.folder / "ws", self.run)


def keys_of(events: list[Event], name: str) -> list[str]:
    """The effects of a component, in order."""
    records = Ledger.of(events).records
    return [str(key) for key, one in records.items() if str(one.effect.get("component", "")).startswith(f"{name}@")]


async def test_it_survives_being_killed(site: Site, tmp_path: Path) -> None:
    clean = Case(tmp_path / "clean", site)
    expected = await clean.cli("run", TASK)
    assert (expected["status"], expected["answer"]) == ("completed", TOWN)
    events = await clean.log()
    pages, asked, added = (keys_of(events, name) for name in ("fetch", "scripted", "report"))
    engines = keys_of(events, "search_engine_serper")
    # In a reader's answer, beside another one; as a round goes into the report; after the second search.
    points = [f"in_record:{asked[2]}", f"after_mark:{added[0]}", f"after:{engines[1]}"]
    assert (len(pages), len(asked)) == (3, 6)
    for number, point in enumerate(points):
        case = Case(tmp_path / f"case-{number}", site)
        await case.cli("run", TASK, kill_at=point)
        result = await case.cli("resume", case.run)
        assert (result["status"], result["answer"]) == ("completed", TOWN), point
        assert result["report"] == expected["report"], point
        assert effect_keys(await case.log()) == effect_keys(events), point
        again = case.questions - Counter(dict.fromkeys(case.questions, 1))
        # What was under way when it died is done again, two pages or readers: their outcomes were not recorded.
        under_way = {"in_record": 2, "after": 2}.get(point.partition(":")[0], 0)
        assert again.total() <= under_way, (point, again)
        assert case.questions.keys() == clean.questions.keys(), point
        read = case.seen - clean.seen
        assert read.total() <= under_way, (point, read)
        assert case.seen.keys() == clean.seen.keys(), point
