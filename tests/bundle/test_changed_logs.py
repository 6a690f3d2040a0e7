"""Logs in which anything was changed: refused in a sentence, or whoever reads them gets on with them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cli.commands.log import _line
from agentorchestra.cli.view.model import RunView
from agentorchestra.cli.view.tree import tree_lines
from agentorchestra.core.errors import AgentOrchestraError, BundleError
from agentorchestra.log.store import MemoryStore
from agentorchestra.workspace import Workspace
from tests.bundle.support import here, recorded, rewritten, settings

VALUES: list[Any] = [None, 0, -1, "", [], {}, "x" * 50, 1e400, True, [[]], {"a": 1}, 2**70, "run_01"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from paths(one, (*path, key))


def change(events: list[dict[str, Any]], chance: random.Random) -> None:
    """Another value, or none, anywhere in a body."""
    body = chance.choice(events)["body"]
    *above, last = chance.choice(list(paths(body)) or [("new",)])
    for key in above:
        body = body[key]
    if chance.random() < 0.3 and isinstance(body, dict):
        body.pop(last, None)
    else:
        body[last] = chance.choice(VALUES)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.long
async def test_whoever_reads_it_gets_on_with_it(tmp_path: Path, seed: int) -> None:
    async with here(tmp_path) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        good = (await ws.log.export(run, tmp_path / "good.zip")).path
    chance = random.Random(seed)
    read = 0

    def spoil(members: dict[str, bytes]) -> None:
        events = [json.loads(line) for line in members["events.jsonl"].splitlines()]
        for _ in range(chance.choice((1, 1, 3))):
            change(events, chance)
        members["events.jsonl"] = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        members["manifest.json"] = json.dumps(events[0]["body"].get("manifest")).encode()

    for _ in range(20):
        bad = rewritten(good, tmp_path / "bad.zip", spoil)
        async with Workspace(tmp_path / "there", store=MemoryStore(), settings=settings(), environ={}) as ws:
            try:
                await ws.log.import_file(bad)
            except BundleError:
                continue
            read += 1
            await ws.runs.result(run)
            list(tree_lines(RunView.of(await ws.log.events(run))))
            assert [_line(event) async for event in ws.log.select()]
            try:
                await ws.replay(run)
            except AgentOrchestraError as exc:
                assert "Traceback" not in str(exc)
    assert read
