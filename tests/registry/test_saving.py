"""A saved registry is the registry: loaded elsewhere it has the same versions, contract, findings and behaviour."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra import Workspace
from agentorchestra.core.errors import ManifestError, VersionError
from agentorchestra.core.ids import sha256_text
from agentorchestra.log.store import MemoryStore
from tests.registry.support import PRICE, shop
from tests.support.examples import examples

TWICE = "def twice(number: int) -> int:\n    return 2 * number\n"

ELSEWHERE = """
import asyncio, json, sys
from agentorchestra import Workspace

async def main(folder, file, again):
    async with Workspace(folder) as ws:
        await ws.tcp.load(file, trusted=True)
        await ws.tcp.save(again)
        print(json.dumps({
            "contract": await ws.tcp.contract(),
            "versions": [[one.version, one.reason, one.author] for one in await ws.tcp.versions("price_of")],
            "found": [[one.config.name, one.score] for one in await ws.tcp.retrieve("what does a pear cost in euros")],
            "price": (await ws.tcp.invoke("price_of", {"item": "pear"})).value,
            "twice": (await ws.tcp.invoke("twice", {"number": 4})).value,
        }))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.long
async def test_in_another_process_it_is_the_same(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        await ws.tcp.register(source=TWICE, author="Ann", reason="doubling")
        code, *_ = await ws.tcp.vars("price_of")
        await ws.tcp.setvars("price_of", {"code": code.value.replace("12.5", "10.0")}, reason="cheaper")
        await ws.tcp.save(tmp_path / "tools.json")
        here = {
            "contract": await ws.tcp.contract(),
            "versions": [[one.version, one.reason, one.author] for one in await ws.tcp.versions("price_of")],
            "found": [[one.config.name, one.score] for one in await ws.tcp.retrieve("what does a pear cost in euros")],
            "price": 10.0,
            "twice": 8,
        }
    paths = [str(tmp_path / name) for name in ("other", "tools.json", "again.json")]
    command = [sys.executable, "-c", ELSEWHERE, *paths]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(out) == here
    assert (tmp_path / "again.json").read_text() == (tmp_path / "tools.json").read_text()


async def test_code_from_a_file_runs_in_the_sandbox_only(tmp_path: Path) -> None:
    told = tmp_path / "executed"
    text = f"open({str(told)!r}, 'w').close()\n\n\ndef twice(number: int) -> int:\n    return 2 * number\n"
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(source=text)
        await ws.tcp.save(tmp_path / "tools.json")
    told.unlink()
    async with Workspace(tmp_path / "other") as ws:
        await ws.tcp.load(tmp_path / "tools.json")
        (held,) = await ws.tcp.versions("twice")
        assert held.foreign
        outcome = await ws.tcp.invoke("twice", {"number": 4})
        assert not told.exists()  # neither loading nor calling it executed it here
        # In the sandbox the folder is not there: its own first line fails, and says so.
        assert not outcome.ok and "twice failed" in (outcome.error or "")


@pytest.mark.long
async def test_what_is_known_here_stays(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        await ws.tcp.update("price_of", source=PRICE.replace("12.5", "13.5"))
        await ws.tcp.save(tmp_path / "tools.json")
    async with Workspace(tmp_path / "other") as ws:
        await ws.tcp.register(source=PRICE)
        await ws.tcp.load(tmp_path / "tools.json", trusted=True)
        assert [one.version for one in await ws.tcp.versions("price_of")] == ["1.0.0", "1.0.1"]
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5
        await ws.tcp.restore("price_of", "1.0.1")
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 13.5
    async with Workspace(tmp_path / "third") as ws:
        await ws.tcp.register(source=PRICE.replace("12.5", "99.0"))
        with pytest.raises(ManifestError, match=r"price_of@1\.0\.0 is known here with other content; nothing was"):
            await ws.tcp.load(tmp_path / "tools.json")
        assert len(await ws.tcp.versions("price_of")) == 1


def _damaged(change: Any) -> Any:
    def do(raw: dict[str, Any]) -> None:
        change(raw)

    return do


def _drop_texts(raw: dict[str, Any]) -> None:
    raw["texts"] = {}


def _other_text(raw: dict[str, Any]) -> None:
    raw["texts"] = dict.fromkeys(raw["texts"], "something else")


def _gap(raw: dict[str, Any]) -> None:
    raw["changes"]["twice"][0]["seq"] = 2


def _strange(raw: dict[str, Any]) -> None:
    raw["changes"]["twice"][0]["type"] = "strange"


def _name(raw: dict[str, Any]) -> None:
    raw["changes"]["../x"] = raw["changes"].pop("twice")


def _own(raw: dict[str, Any]) -> None:
    raw["changes"]["twice"].append({**raw["changes"]["twice"][0], "seq": 2, "type": "loaded", "body": {"versions": []}})


def _other_kind(raw: dict[str, Any]) -> None:
    raw["kind"] = "agent"


def _newer(raw: dict[str, Any]) -> None:
    raw["agentorchestra_registry"] = 7


def _missing_version(raw: dict[str, Any]) -> None:
    last = {**raw["changes"]["twice"][0], "seq": 2, "type": "activated", "body": {"version": "7.7.7"}}
    raw["changes"]["twice"].append(last)


def _same_as_nothing(raw: dict[str, Any]) -> None:
    body = {"version": "7.7.7", "identity": "a"}
    raw["changes"]["twice"].append({**raw["changes"]["twice"][0], "seq": 2, "type": "same", "body": body})


def _strange_version(raw: dict[str, Any]) -> None:
    raw["changes"]["twice"][0]["body"]["version"] = "../../x"


def _two_versions(raw: dict[str, Any]) -> None:
    raw["changes"]["twice"][0]["body"]["config"]["version"] = "8.8.8"


def _no_zone(raw: dict[str, Any]) -> None:
    raw["changes"]["twice"][0]["ts"] = "2026-01-01T00:00:00"


DAMAGES = {
    _missing_version: r"has no version '7\.7\.7'",
    _same_as_nothing: r"has no version '7\.7\.7'",
    _strange_version: "versions look like",
    _two_versions: r"says that it is version '8\.8\.8'",
    _no_zone: "has no zone",
    _drop_texts: r"the text of \w+@1\.0\.0 is missing",
    _other_text: "does not match its hash",
    _gap: "does not follow",
    _strange: "has an entry 'strange'",
    _name: "damaged",
    _own: "belongs to one machine",
    _other_kind: "holds components of the kind agent, not tool",
    _newer: "has the format 7",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
async def test_damaged_files_are_refused_whole(tmp_path: Path, damage: Any) -> None:
    async with Workspace(tmp_path / "ws", store=MemoryStore()) as ws:
        await ws.tcp.register(source=TWICE)
        raw = json.loads((await ws.tcp.save(tmp_path / "tools.json")).read_text())
    damage(raw)
    (tmp_path / "tools.json").write_text(json.dumps(raw))
    async with Workspace(tmp_path / "other", store=MemoryStore()) as ws:
        with pytest.raises(ManifestError, match=DAMAGES[damage]):
            await ws.tcp.load(tmp_path / "tools.json")
        assert "twice" not in await ws.tcp.list()


async def test_what_is_no_saved_registry(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", store=MemoryStore()) as ws:
        for text in ("", "[]", "{}", "null"):
            (tmp_path / "x.json").write_text(text)
            with pytest.raises(ManifestError, match="is no saved registry"):
                await ws.tcp.load(tmp_path / "x.json")
        with pytest.raises(ManifestError, match="is no saved registry"):
            await ws.tcp.load(tmp_path / "missing.json")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("register"), st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.just("candidate"), st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.just("restore"), st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.just("deprecate"), st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.just("unregister"), st.sampled_from("ab"), st.integers(0, 0)),
        st.tuples(st.just("copy"), st.sampled_from("ab"), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(10), deadline=None)
@given(steps=STEPS)
async def test_save_and_load_are_the_identity(steps: list[tuple[str, str, int]], tmp_path_factory: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("saved")
    async with Workspace(folder / "ws", store=MemoryStore()) as ws:
        for step, name, number in steps:
            await _do(ws, step, name, number)
        await ws.tcp.save(folder / "one.json")
        contract = await ws.tcp.contract()
    async with Workspace(folder / "other", store=MemoryStore()) as ws:
        await ws.tcp.load(folder / "one.json", trusted=True)
        await ws.tcp.save(folder / "two.json")
        assert await ws.tcp.contract() == contract
    assert (folder / "two.json").read_text() == (folder / "one.json").read_text()


async def _do(ws: Workspace, step: str, name: str, number: int) -> None:
    from agentorchestra.core.errors import UsageError

    text = f"def {name}(number: int) -> int:\n    return {number} * number\n"
    known = [one.version for one in await ws.tcp.versions(name)] if name in await ws.tcp.list() else []
    try:
        match step:
            case "register":
                await ws.tcp.register(source=text)
            case "candidate":
                await ws.tcp.register(source=text, state="candidate")
            case "copy":
                await ws.tcp.copy(name, f"{name}_{number}")
            case "unregister":
                await ws.tcp.unregister(name)
            case _ if known:
                await getattr(ws.tcp, step)(name, known[number % len(known)])
    except UsageError:
        pass  # what is refused writes nothing, which is what the comparison shows


def _as_if_packaged(raw: dict[str, Any], identity: str) -> None:
    raw["changes"]["twice"][0]["body"]["identity"] = identity


def _as_if_no_code(raw: dict[str, Any], how: str) -> None:
    raw["changes"]["twice"][0]["body"]["maker"]["how"] = how


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["prompt", "fields", "module"])
async def test_what_a_file_says_of_its_code_does_not_get_it_executed(tmp_path: Path, how: str) -> None:
    told = tmp_path / "executed"
    text = f"open({str(told)!r}, 'w').close()\n\n\ndef twice(number: int) -> int:\n    return 2 * number\n"
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(source=text)
        raw = json.loads((await ws.tcp.save(tmp_path / "tools.json")).read_text())
        packaged = (await ws.tcp.versions("python"))[0].identity
    told.unlink()
    raw["changes"] = {"twice": raw["changes"]["twice"]}
    raw["texts"] = {sha256_text(text): text}
    _as_if_no_code(raw, how)
    (tmp_path / "no_code.json").write_text(json.dumps(raw))
    _as_if_packaged(raw, packaged)
    (tmp_path / "packaged.json").write_text(json.dumps(raw))
    async with Workspace(tmp_path / "other") as ws:
        with pytest.raises(ManifestError, match=r"the identity of twice@1\.0\.0 is not that of its text"):
            await ws.tcp.load(tmp_path / "packaged.json")
        await ws.tcp.load(tmp_path / "no_code.json")
        assert (await ws.tcp.versions("twice"))[0].foreign
        assert not (await ws.tcp.invoke("twice", {"number": 4})).ok
        assert not told.exists()


async def test_environments_from_a_file_are_not_executed(tmp_path: Path) -> None:
    told = tmp_path / "executed"
    counter = (Path(__file__).parents[1] / "runtime" / "counter.py").read_text(encoding="utf-8")
    async with Workspace(tmp_path / "ws") as ws:
        await ws.ecp.register(source=f"{counter}\n\nopen({str(told)!r}, 'w').close()\n", name="Counter")
        raw = json.loads((await ws.ecp.save(tmp_path / "environments.json")).read_text())
    told.unlink()
    raw["changes"]["Counter"][0]["body"]["maker"]["how"] = "prompt"
    (tmp_path / "environments.json").write_text(json.dumps(raw))
    async with Workspace(tmp_path / "other") as ws:
        await ws.ecp.load(tmp_path / "environments.json")
        with pytest.raises(VersionError, match="came from elsewhere"):
            await ws.ecp.get("Counter")
        assert not told.exists()


async def test_a_tool_of_a_schema_alone_as_former_versions_had_is_refused_and_harms_nobody_else(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", store=MemoryStore()) as ws:
        await ws.tcp.register(source=TWICE)
        raw = json.loads((await ws.tcp.save(tmp_path / "tools.json")).read_text())
    body = raw["changes"]["twice"][0]["body"]
    body.update(maker={"how": "definition", "fields": {"parameters": {"type": "object"}}}, source="", identity="x")
    (tmp_path / "tools.json").write_text(json.dumps(raw))
    async with Workspace(tmp_path / "other", store=MemoryStore()) as ws:
        await ws.tcp.load(tmp_path / "tools.json")
        assert "twice" in await ws.tcp.contract()
        with pytest.raises(VersionError, match=r"tool twice@1\.0\.0 is not at hand and its text was not kept"):
            await ws.tcp.invoke("twice", {"number": 1})
        await ws.create("anything", model="offline")
