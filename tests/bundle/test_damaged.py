"""Bundles that are not what they should be: each is refused with its own sentence, and nothing is written."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import AgentOrchestraError, BundleError
from agentorchestra.log.bundle import format as form
from agentorchestra.workspace import Workspace
from tests.bundle.support import here, recorded, rewritten, settings

Members = dict[str, bytes]


@pytest.fixture(scope="module")
def good() -> Iterator[Path]:
    """A good bundle."""

    async def make(folder: Path) -> Path:
        async with here(folder) as ws:
            run = (await recorded(ws, folder)).run_id
            return (await ws.log.export(run, folder / "good.zip")).path

    with tempfile.TemporaryDirectory() as folder:
        yield asyncio.run(make(Path(folder)))


def state(folder: Path) -> dict[str, Any]:
    """Everything in a workspace but the database's own files."""
    found: dict[str, Any] = {
        str(path.relative_to(folder)): path.is_dir() or path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not path.name.startswith("workspace.db")
    }
    import sqlite3

    with sqlite3.connect(folder / "workspace.db") as database:
        tables = ("runs", "jobs", "events", "blobs")
        found["database"] = {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    database.close()
    return found


async def refused(tmp_path: Path, bundle: Path, sentence: str) -> None:
    async with Workspace(tmp_path / "there", settings=settings(), environ={}) as ws:
        before = state(ws.folder)
        with pytest.raises(BundleError, match=sentence) as caught:
            await ws.log.import_file(bundle)
        assert state(ws.folder) == before
        assert "\n" not in str(caught.value)
        assert await ws.runs.list() == []


def lines(members: Members, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the events."""
    events = [json.loads(line) for line in members["events.jsonl"].splitlines()]
    change(events)
    members["events.jsonl"] = b"".join(json.dumps(event).encode() + b"\n" for event in events)


def edited(name: str, **changes: Any) -> Callable[[Members], Any]:
    """Other fields in a member."""

    def change(members: Members) -> None:
        members[name] = json.dumps({**json.loads(members[name]), **changes}).encode()

    return change


def manifest(**changes: Any) -> Callable[[Members], Any]:
    """Another manifest, in both of its places."""

    def change(members: Members) -> None:
        edited("manifest.json", **changes)(members)
        lines(members, lambda events: events[0]["body"]["manifest"].update(changes))

    return change


def first(members: Members, folder: str) -> str:
    return next(name for name in members if name.startswith(folder))


def replaced(members: Members, folder: str) -> None:
    members[first(members, folder)] = b"other bytes"


def source(members: Members) -> str:
    return "blobs/" + str(json.loads(members["manifest.json"])["prompts"]["react"]["source"])


def event(seq: int, **changes: Any) -> Callable[[Members], Any]:
    return lambda members: lines(members, lambda events: events[seq - 1].update(changes))


def replies(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outcomes of requests to models."""
    asked = {
        (one["branch"], one["n"])
        for one in events
        if one["type"] == "started" and one["body"]["effect"]["kind"] == "RequestModel"
    }
    done = [one for one in events if one["type"] == "completed" and (one["branch"], one["n"]) in asked]
    return [one["body"]["outcome"] for one in done]


def file_named(name: str) -> Callable[[Members], Any]:
    def change(members: Members) -> None:
        files = json.loads(members["manifest.json"])["files"]
        files[0]["name"] = name
        manifest(files=files)(members)

    return change


CASES: dict[str, tuple[Callable[[Members], Any], str]] = {
    "no header": (lambda m: m.pop("bundle.json"), "is a ZIP file without bundle.json; it is no bundle"),
    "another kind": (edited("bundle.json", kind="recipe"), "is no bundle: its bundle.json is not one's"),
    "newer": (
        edited("bundle.json", format=2, distribution="9.9"),
        r"has the format 2, made by a later version of agentorchestra \(9.9\); this one reads up to 1: upgrade",
    ),
    "older than any": (edited("bundle.json", format=0), "has the format 0, which there never was"),
    "format is text": (edited("bundle.json", format="1"), "has the format '1', which there never was"),
    "header is a list": (lambda m: m.update({"bundle.json": b"[]"}), "its bundle.json is not one's"),
    "header is not JSON": (lambda m: m.update({"bundle.json": b"{"}), "bundle.json is not JSON"),
    "header is deep": (lambda m: m.update({"bundle.json": b"[" * 200_000}), "bundle.json is not JSON"),
    "status unknown": (edited("bundle.json", status="asleep"), r"bundle.json does not fit \(status: "),
    "status another": (edited("bundle.json", status="waiting"), "is said to be waiting and is completed in its log"),
    "id leads out": (edited("bundle.json", run="run_../../evil"), "a run named 'run_../../evil', which is no run's id"),
    "id another": (edited("bundle.json", run="run_" + "0" * 26), "event 1 is of the run 'run_01.*', not run_0000"),
    "count another": (edited("bundle.json", events=3), "says it has 3 events and has "),
    "a member missing": (lambda m: m.pop("packages.json"), "lacks packages.json"),
    "no log": (lambda m: m.update({"events.jsonl": b""}), "does not begin with run_created"),
    "a path": (lambda m: m.update({"../../x": b"x"}), r"holds '../../x', which no bundle has"),
    "a path in a folder": (lambda m: m.update({"blobs/../../x": b"x"}), r"holds 'blobs/../../x', which no bundle has"),
    "an absolute path": (lambda m: m.update({"/etc/x": b"x"}), "holds '/etc/x', which no bundle has"),
    "a further member": (lambda m: m.update({"setup.py": b"x"}), "holds 'setup.py', which no bundle has"),
    "a blob of another name": (lambda m: replaced(m, "blobs/"), r"blobs/\w+ holds bytes with another hash"),
    "a file of another name": (lambda m: replaced(m, "files/"), r"files/\w+ holds bytes with another hash"),
    "a listed blob missing": (lambda m: m.pop(source(m)), "lacks the text of 'react'"),
    "a file missing": (lambda m: m.pop(first(m, "files/")), "lacks the file '.*' of the task"),
    "a file too many": (
        lambda m: m.update({"files/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881": b"x"}),
        "holds a file 2d711642b726 that its task was not given",
    ),
    "another manifest": (edited("manifest.json", task="other"), "the manifest is not the one that the log of"),
    "manifest does not fit": (edited("manifest.json", budget="much"), r"manifest.json does not fit \(budget: "),
    "a file's name leads out": (file_named("../../x"), r"the name '../../x' of a file of the task leads out"),
    "a file's name is absolute": (file_named("/etc/passwd"), "the name '/etc/passwd' of a file of the task leads out"),
    "a file's name is a trick": (file_named("a\0b"), "of a file of the task leads out"),
    "an event missing": (lambda m: lines(m, lambda e: e.pop(4)), "event 6 stands where event 5 belongs"),
    "the first missing": (lambda m: lines(m, lambda e: e.pop(0)), "event 2 stands where event 1 belongs"),
    "events swapped": (lambda m: lines(m, lambda e: e.insert(3, e.pop(5))), "event 6 stands where event 4 belongs"),
    "an event twice": (lambda m: lines(m, lambda e: e.insert(3, e[3])), "event 4 stands where event 5 belongs"),
    "a key twice": (
        lambda m: lines(m, lambda e: e.append({**e[4], "seq": len(e) + 1})),
        r"event \d+ records \w+ of /1.react#\d again",
    ),
    "cut off": (lambda m: lines(m, lambda e: e.pop()), "is said to be completed and is running in its log"),
    "a line is not JSON": (lambda m: m.update({"events.jsonl": b"{\n"}), r"event 1 of .* is not JSON"),
    "a line is not UTF-8": (lambda m: m.update({"events.jsonl": b"\xff\n"}), r"event 1 of .* is not JSON"),
    "a line is a list": (lambda m: m.update({"events.jsonl": b"[]\n"}), r"event 1 of .* is no event"),
    "a field too many": (event(3, more=1), r"event 3 of .* is no event \(more: "),
    "a field missing": (lambda m: lines(m, lambda e: e[2].pop("actor")), r"event 3 of .* is no event \(actor: "),
    "a number is text": (event(3, n="1"), r"event 3 of .* is no event \(n: "),
    "a number is huge": (event(3, n=2**63), r"event 3 of .* is no event \(n: "),
    "a time is none": (event(3, ts="yesterday"), r"event 3 of .* is no event \(ts: "),
    "a time has no zone": (event(3, ts="2026-01-01T00:00:00"), r"event 3 of .* \(its time .* has no zone\)"),
    "a branch with a NUL": (event(3, branch="/\0"), r"event 3 of .* \(a name with characters no name has\)"),
    "a type unknown": (event(3, type="exec"), r"event 3 of .* cannot be read: the log holds an event of type 'exec'"),
    "a type newer": (event(3, v=99), r"event 3 of .* cannot be read: .* version 99"),
    "a body that is not its type's": (event(2, body={}), r"event 2 of .* cannot be read: "),
    "an effect that is none": (
        event(3, body={"effect": {"kind": "Explode"}, "fingerprint": "f"}),
        r"the log of run_\w+ does not fit together \(kind: ",
    ),
    "an outcome that is none": (
        lambda m: lines(m, lambda e: e[3]["body"]["outcome"].update(status="fine")),
        r"the log of run_\w+ does not fit together \(status: ",
    ),
    "an outcome of nothing": (
        lambda m: lines(m, lambda e: [one["body"].pop("effect", None) for one in e if one["type"] == "completed"]),
        r"does not fit together \(event \d+ completes an effect that nothing says\)",
    ),
    "a reply that is none": (
        lambda m: lines(m, lambda e: replies(e)[0].update(value={"text": 5})),
        r"does not fit together \(text: Input should be a valid string\)",
    ),
    "an end that is none": (
        lambda m: lines(m, lambda e: e[-1]["body"].update(status="over")),
        r"does not fit together \('over' is not a valid RunStatus\)",
    ),
    "two files in one place": (file_named("more"), "two files of the task have one name, 'more"),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES)
async def test_each_is_refused_with_its_own_sentence(good: Path, tmp_path: Path, case: str) -> None:
    change, sentence = CASES[case]
    await refused(tmp_path, rewritten(good, tmp_path / "bad.zip", change), sentence)


def test_the_sentences_differ() -> None:
    assert len({sentence for _, sentence in CASES.values()}) >= 35


async def test_a_sum_that_does_not_fit(good: Path, tmp_path: Path) -> None:
    bad = rewritten(good, tmp_path / "bad.zip", edited("settings.json", model="other"), sums=False)
    await refused(tmp_path, bad, "settings.json is not what its sum says; it was damaged or changed")
    lists_more = rewritten(good, tmp_path / "bad2.zip", lambda m: m.pop(first(m, "files/")), sums=False)
    await refused(tmp_path, lists_more, r"lacks files/\w+, which its sums name")
    more = {"blobs/" + "0" * 64: b"x"}
    await refused(
        tmp_path, rewritten(good, tmp_path / "bad3.zip", lambda m: m.update(more), sums=False), "its sums do not name"
    )


async def test_a_member_twice(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    bad.write_bytes(good.read_bytes())
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(bad, "a") as archive:
        archive.writestr("settings.json", b"{}")
    await refused(tmp_path, bad, "holds a member twice")


async def test_a_bomb(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "RATIO_FROM", 1 << 20)
    bad = tmp_path / "bad.zip"
    bad.write_bytes(good.read_bytes())
    with zipfile.ZipFile(bad, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("blobs/" + "0" * 64, bytes(4 << 20))
    await refused(tmp_path, bad, r"would unpack from [\d,]+ to 4,194,304 bytes; that is a bomb")


async def test_members_over_each_other(good: Path, tmp_path: Path) -> None:
    """One compressed piece that many members unpack: each is small, all together are not."""
    with zipfile.ZipFile(good) as archive:
        names = [f"blobs/{number:064x}" for number in range(2000)]
        biggest = max(archive.infolist(), key=lambda one: one.compress_size)
    data = good.read_bytes()
    at = data.rfind(b"PK\x05\x06")
    count, size, offset = struct.unpack_from("<H2L", data, at + 10)
    central = data[offset : offset + size]
    for name in names:
        local = struct.pack(
            "<4s6H3L5H2L",
            *(b"PK\x01\x02", 20, 20, 0, 8, 0, 33, biggest.CRC, biggest.compress_size, biggest.file_size),
            *(len(name), 0, 0, 0, 0, 0, biggest.header_offset),
        )
        central += local + name.encode()
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count + 2000, count + 2000, len(central), offset, 0)
    bad = tmp_path / "bad.zip"
    bad.write_bytes(data[:offset] + central + end)
    await refused(tmp_path, bad, "holds members that lie over each other")


async def test_a_list_of_members_without_end(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "MAX_MEMBERS", 4)
    await refused(tmp_path, good, "has more than 4 members|lists more than 4 members")


async def test_no_room(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "MAX_BYTES", 1000)
    await refused(tmp_path, good, r"would unpack to [\d,]+ bytes; at most 1,000 are taken")


async def test_encrypted_or_packed_otherwise(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w", zipfile.ZIP_LZMA) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    await refused(tmp_path, bad, "is packed in a way no bundle is")


@pytest.mark.parametrize("where", ["start", "half", "end", "empty", "text"])
async def test_no_zip_file(good: Path, tmp_path: Path, where: str) -> None:
    data = good.read_bytes()
    bad = tmp_path / "bad.zip"
    pieces = {"start": data[10:], "half": data[: len(data) // 2], "end": data[:-30], "empty": b"", "text": b"hello\n"}
    bad.write_bytes(pieces[where])
    await refused(tmp_path, bad, "line 1 of|no bundle, or its end is missing|holds no events")


async def test_no_file_at_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    await refused(tmp_path, tmp_path / "pipe", "is no file; name a bundle")
    await refused(tmp_path, tmp_path / "folder", "is no file; name a bundle|cannot be read: Is a directory")
    await refused(tmp_path, tmp_path / "missing", "cannot be read: No such file")


async def test_a_version_of_the_format_that_nobody_writes(good: Path, tmp_path: Path) -> None:
    spoilt = bytearray(good.read_bytes())
    spoilt[spoilt.index(b"PK\x01\x02") + 6] = 145
    bad = tmp_path / "bad.zip"
    bad.write_bytes(bytes(spoilt))
    async with Workspace(tmp_path / "there", settings=settings(), environ={}) as ws:
        with pytest.raises(BundleError, match=r"bad\.zip is damaged \(zip file version 14\.5\)"):
            await ws.log.import_file(bad)


@pytest.mark.parametrize("seed", range(2))
async def test_bytes_changed_anywhere(good: Path, tmp_path: Path, seed: int) -> None:
    """Whatever is changed is refused in a sentence, or is a part that says nothing (a time, a mode)."""
    data = good.read_bytes()
    chance = random.Random(seed)
    bad = tmp_path / "bad.zip"
    async with Workspace(tmp_path / "there", settings=settings(), environ={}) as ws:
        for _ in range(40):
            spoilt = bytearray(data)
            for _ in range(chance.choice((1, 1, 8))):
                spoilt[chance.randrange(len(data))] = chance.randrange(256)
            bad.write_bytes(bytes(spoilt))
            try:
                (done,) = await ws.log.import_file(bad)
            except AgentOrchestraError as exc:
                assert isinstance(exc, BundleError), exc
                assert re.search(r"nothing was imported|name a bundle", str(exc)), exc
            else:
                assert await same(ws, done.run_id, good)


async def same(ws: Workspace[Any], run: str, bundle: Path) -> bool:
    """Whether a run is what a bundle holds."""
    from agentorchestra.log.bundle.lines import to_line

    with zipfile.ZipFile(io.BytesIO(bundle.read_bytes())) as archive:
        return b"".join(to_line(one) for one in await ws.log.events(run)) == archive.read("events.jsonl")


async def test_too_large_to_be_read(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(good) as archive:
        (tmp_path / "events.jsonl").write_bytes(archive.read("events.jsonl"))
    monkeypatch.setattr(form, "MAX_JSON_BYTES", 600)
    await refused(tmp_path, tmp_path / "events.jsonl", r"line 1 of .* is longer than 600 bytes")
    monkeypatch.setattr(form, "MAX_LOG_BYTES", 1000)
    await refused(tmp_path, tmp_path / "events.jsonl", r"has [\d,]+ bytes; at most 1,000 are read")
    monkeypatch.setattr(form, "MAX_JSON_BYTES", 2**25)
    await refused(tmp_path, good, r"events.jsonl has [\d,]+ bytes, too many")
