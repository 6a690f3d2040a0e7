"""No known secret leaves in a bundle, wherever it stands; what is not known cannot be refused."""

from __future__ import annotations

import importlib.resources
import json
import zipfile
from pathlib import Path

import pytest
from pydantic import SecretStr

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.core.errors import BundleError
from agentorchestra.core.settings import ModelProfile
from agentorchestra.log.bundle.format import CHUNK
from agentorchestra.log.bundle.secrets import SecretScanner, secret_variables
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.runtime.results import ToolResult
from agentorchestra.testing import call, decide
from tests.bundle.support import SECRET, drawing, here, recorded, settings

LATER = 'a "late" secret ü'


def members(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


async def test_a_secret_that_a_tool_used_is_not_in_it(tmp_path: Path) -> None:
    @tool(effect="write")
    def spend(ctx: RunContext[None]) -> str:
        """Tell a secret to the agent, which the door hides."""
        return f"the value is {ctx.secret('TOKEN_OF_TESTS')}"

    steps = [decide(calls=[call("spend")]), decide(calls=[call("done", answer=f"it is {SECRET}")])]
    async with here(tmp_path, drawing(steps), tools=[spend]) as ws:
        result = await recorded(ws, tmp_path, labels={"with": SECRET})
        assert result.answer == "it is secret:TOKEN_OF_TESTS"
        done = await ws.log.export(result.run_id, tmp_path / "run.zip")
    assert b"secret:TOKEN_OF_TESTS" in members(done.path)["events.jsonl"]
    assert not [name for name, data in members(done.path).items() if SECRET.encode() in data]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("where", ["event", "artifact", "artifact utf-16", "file", "label", "prompt", "large body"])
async def test_a_value_that_became_a_secret_later_is_refused_by_its_place(tmp_path: Path, where: str) -> None:
    form = "utf-16-le" if where.endswith("16") else "utf-8"

    @tool(effect="write")
    async def keep(ctx: RunContext[None]) -> ToolResult:
        """Keep it as a file."""
        data = b"x" * 30_000 + (LATER.encode(form) if where.startswith("artifact") else b"")
        ref = await ctx.artifact("kept.bin", data)
        return ToolResult("kept" + ("." * 18_000 + LATER if where == "large body" else ""), (ref,))

    answer = f"it is {LATER}" if where == "event" else "nothing"
    steps = [decide(calls=[call("keep")]), decide(calls=[call("done", answer=answer)])]
    async with here(tmp_path, drawing(steps), tools=[keep]) as ws:
        if where == "prompt":
            packaged = importlib.resources.files("agentorchestra.agents") / "prompts" / "summary.md"
            (ws.folder / "prompts" / "summary.md").write_text(packaged.read_text() + LATER)
            await ws.close(verify=False)
            await ws.open()
        more = tmp_path / "given.txt"
        # Over the edge of two pieces.
        data = b"y" * (CHUNK - 5) + (LATER.encode() if where == "file" else b"") + b"\n"
        more.write_bytes(data)
        run = await ws.create(
            "Draw.", files=[more], system="react", model="drawer", labels={"a": LATER} if where == "label" else {}
        )
        await ws.resume(run)
        assert (await ws.log.export(run, tmp_path / "known.zip")).blobs  # nobody knows it yet
    environ = {"TOKEN_OF_TESTS": LATER}
    async with Workspace(tmp_path / "ws", settings=settings(), environ=environ) as later:
        with pytest.raises(BundleError) as caught:
            await later.log.export(run, tmp_path / "run.zip")
    said = str(caught.value)
    place = {
        "event": "event ",
        "artifact": "the blob ",
        "artifact utf-16": "the blob ",
        "file": "the file 'given.txt' of the task",
        "label": "event 1 (run_created)",
        "prompt": "the text of the prompt 'summary'",
        "large body": "event ",
    }[where]
    assert said.startswith(place)
    assert "holds the value of the secret TOKEN_OF_TESTS" in said
    assert "Give TOKEN_OF_TESTS a new value" in said
    assert LATER not in said
    left = [path.name for path in tmp_path.iterdir() if "zip" in path.name or "export" in path.name]
    assert left == ["known.zip"]


@pytest.mark.long
async def test_the_database_and_addresses_passwords_are_not_in_it(tmp_path: Path) -> None:
    given = settings(
        database=SecretStr("postgresql://user:database-password@host/name"),
        models={
            "drawer": ModelProfile(model="drawer", base_url="https://a:address-password@b.example/v1?key=query-key")
        },
    )
    script = drawing([decide(calls=[call("done", answer="x")])])
    async with here(tmp_path, script, settings=given, store=MemoryStore()) as ws:
        run = (await recorded(ws, tmp_path)).run_id
        done = await ws.log.export(run, tmp_path / "run.zip")
    found = members(done.path)
    assert json.loads(found["settings.json"])["models"]["drawer"]["base_url"] == "https://b.example/v1"
    for word in (b"database-password", b"address-password", b"query-key", b"postgresql"):
        assert not [name for name, data in found.items() if word in data]


def test_which_variables_are_secret() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-12345678",
        "GITHUB_TOKEN": "gh-12345678",
        "DB_PASSWORD": "p4ssword-x",
        "PGPASSWORD": "p4ssword-y",
        "AWS_SECRET_ACCESS_KEY": "abcdefghij",
        "SHORT_KEY": "true",
        "SSL_KEY": "/etc/ssl/key.pem",
        "KEYBOARD": "qwertyuiop",
        "PATH": "/usr/bin:/bin",
        "MONKEY_PATCH": "everything",
    }
    assert set(secret_variables(environ)) == {
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "DB_PASSWORD",
        "PGPASSWORD",
        "AWS_SECRET_ACCESS_KEY",
    }


def test_a_watch_looks_for_every_form() -> None:
    watch = SecretScanner({"KEY": LATER, "TINY": "abc"})
    watch.check(b"abc late secret", "here")
    for data in (LATER.encode(), json.dumps(LATER).encode(), LATER.encode("utf-16-be"), LATER.encode("utf-16-le")):
        with pytest.raises(BundleError, match="here holds the value of the secret KEY"):
            watch.check(b"a" + data + b"b", "here")
    assert watch.overlap >= len(LATER.encode("utf-16-le")) - 1
