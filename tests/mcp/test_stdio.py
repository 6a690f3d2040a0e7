"""Servers that are programs: real ones, of the official SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentorchestra.core.content import MediaBlock, Trust
from agentorchestra.core.effects import Mode
from agentorchestra.core.errors import McpError, MissingExtraError, ToolError
from agentorchestra.tea.calling.toolkit import Toolkit
from agentorchestra.tools.mcp import McpToolkit, transports
from agentorchestra.tools.mcp.connection import CLOSE_S
from tests.mcp.support import called, calls, children, named, opened, stdio, words, written
from tests.support.patience import LONGEST_S


async def refused(path: Path, **environ: str) -> str:
    """The sentence with which a toolkit does not open, all servers being required; no program is left."""
    before = set(children())
    servers = json.loads(path.read_text())["mcpServers"]
    written(path.parent, **{name: {**one, "required": True} for name, one in servers.items()})
    toolkit = McpToolkit(path, environ)
    with pytest.raises(McpError) as caught:
        await toolkit.open(lambda: None)
    assert not set(children()) - before
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_results_of_every_kind_and_a_restart(tmp_path: Path) -> None:
    servers = {"srv": stdio(tmp_path, env={"MCP_TEST_TOKEN": "${TOKEN}"}), "off": {"command": "", "disabled": True}}
    async with opened(written(tmp_path, **servers), TOKEN="swordfish-17") as toolkit:
        assert isinstance(toolkit, Toolkit)
        assert toolkit.secrets() == {"srv.MCP_TEST_TOKEN": "swordfish-17", "srv.TOKEN": "swordfish-17"}
        tools = named(toolkit.tools())
        count = tools["srv_count"]
        assert count.schema.trust is Trust.UNTRUSTED
        assert (count.description, count.mode) == ("Does count.", Mode.ONCE)
        assert count.traits.origin == "mcp:srv"
        assert count.traits.distribution == "test-plain 2.1.0 (protocol 2025-11-25)"
        assert count.validate({"n": "one"})[1] is not None

        result = await called(toolkit, "srv_everything")
        blocks = result.content
        assert {block.trust for block in blocks} == {Trust.UNTRUSTED}
        assert {block.source.ref for block in blocks} == {"mcp:srv/everything"}
        text, picture, sound, memo, thing, link, broken = blocks
        assert [one.text for one in (text, memo)] == ["words", "a memo"]
        assert memo.source.place == "memo://one"
        assert isinstance(picture, MediaBlock) and isinstance(sound, MediaBlock)
        assert (picture.media_type, sound.media_type) == ("image/png", "audio/wav")
        assert thing.text == "[memo://two: 3 bytes of application/x-thing, kept as the artifact 7-everything-5.bin]"
        assert result.artifacts[-1].name == "7-everything-5.bin"
        assert link.text == "[a resource, not read: three, memo://three: another memo]"
        assert broken.text == "[image left out: its bytes are not base64]"
        assert (await called(toolkit, "srv_structured")).content == {"degrees": 21}
        with pytest.raises(ToolError, match="fail on the MCP server 'srv' failed: the disk is full"):
            await called(toolkit, "srv_fail")

        # It ends in the middle of a call: nobody may do that again unasked, and the next call finds it back.
        with pytest.raises(ToolError, match=r"went away while die was under way .*: the call may have happened"):
            await called(toolkit, "srv_die", n=1)
        assert calls(tmp_path).count("die 1") == 1
        assert words(await called(toolkit, "srv_die", n=1)) == "survived 1"

        await asyncio.gather(*(called(toolkit, "srv_count", n=number) for number in range(20)))
        assert sorted(calls(tmp_path)[-20:]) == sorted(f"count {number}" for number in range(20))
    with pytest.raises(ToolError, match=r"^count was not called: the MCP server .* is closed"):
        await count.call({"n": 1}, None)
    with pytest.raises(McpError, match="are not open; the workspace opens them with its first run"):
        toolkit.tools()


@pytest.mark.long
async def test_a_trusted_servers_call_that_may_be_repeated_is(tmp_path: Path) -> None:
    async with opened(written(tmp_path, srv=stdio(tmp_path, trust=True))) as toolkit:
        assert words(await called(toolkit, "srv_die_repeatable", n=1)) == "survived 1"
        assert calls(tmp_path) == ["die_repeatable 1", "die_repeatable 1"]

        # A call that is stopped disturbs no other, and the server is told.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await called(toolkit, "srv_hang")
        assert words(await called(toolkit, "srv_count", n=2)) == "count 2"


@pytest.mark.long
async def test_hundreds_of_tools_and_broken_ones_beside_a_whole_one(tmp_path: Path) -> None:
    path = written(tmp_path, many=stdio(tmp_path, "many"), broken=stdio(tmp_path, "broken"))
    async with opened(path) as toolkit:
        tools = named(toolkit.tools())
        assert len(tools) == 301
        assert words(await called(toolkit, "many_tool-299", n=1)) == "tool-299 1"
        assert words(await called(toolkit, "broken_whole", n=2)) == "whole 2"
        assert [note.partition(" of ")[0] for note in toolkit.notes] == [
            f"the tool {name!r}" for name in ("nonsense", "nowhere", "elsewhere", "huge")
        ]


@pytest.mark.long
async def test_tools_that_come_while_it_runs(tmp_path: Path) -> None:
    toolkit = McpToolkit(written(tmp_path, srv=stdio(tmp_path)), {})
    changed = asyncio.Event()
    await toolkit.open(changed.set)
    try:
        assert not changed.is_set()
        await called(toolkit, "srv_grow")
        async with asyncio.timeout(LONGEST_S):
            await changed.wait()
        assert words(await called(toolkit, "srv_grown12")) == "grown12 None"
    finally:
        async with asyncio.timeout(CLOSE_S - 1):
            await toolkit.close()
            await toolkit.close()


@pytest.mark.long
async def test_a_server_that_hangs_before_it_says_anything(tmp_path: Path) -> None:
    path = written(tmp_path, srv=stdio(tmp_path, "hang-initialize", startup_timeout_s=0.3))
    assert await refused(path) == (
        f"the MCP server 'srv' ({path}) did not say what it is (initialize) within 0.3 s; see whether it runs by "
        'itself, or give it more "startup_timeout_s"'
    )


@pytest.mark.long  # as long as the real server needs on a busy machine to say what it is
async def test_a_server_that_hangs_when_it_is_to_list_its_tools(tmp_path: Path) -> None:
    path = written(tmp_path, srv=stdio(tmp_path, "hang-list", startup_timeout_s=15))
    assert "did not list its tools (tools/list) within 15 s; see whether it runs by itself" in await refused(path)


@pytest.mark.long
async def test_a_program_that_ends_at_once_is_quoted_without_its_secrets(tmp_path: Path) -> None:
    path = written(tmp_path, srv=stdio(tmp_path, "crash", env={"MCP_TEST_SECRET": "${S}"}), two=stdio(tmp_path))
    sentence = await refused(path, S="swordfish-17")
    assert "cannot be used: Connection closed. It wrote: cannot start without secret:srv." in sentence
    assert sentence.endswith("See whether it runs by itself")
    assert "swordfish" not in sentence


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"command": "no-such-program"}, "starts the program 'no-such-program', which is not there or may not be run"),
        ({"command": "./no-such-program"}, "starts the program './no-such-program', which is not there"),
        ({"command": sys.executable, "cwd": "no-such-folder"}, 'no-such-folder, which is not there; correct "cwd"'),
    ],
)
async def test_a_program_that_is_not_there(tmp_path: Path, entry: dict[str, Any], sentence: str) -> None:
    assert sentence in await refused(written(tmp_path, srv=entry))


RAW = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": about}), flush=True)
    elif message.get("method") == "tools/list":
        print("this is no JSON", flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": ANSWER}), flush=True)
    elif message.get("method") == "tools/call":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": "no list"}}), flush=True)
"""  # noqa: E501


def raw(folder: Path, answer: str) -> dict[str, Any]:
    """A server that the SDK would not let be like that."""
    program = folder / "raw.py"
    program.write_text(RAW.replace("ANSWER", answer), encoding="utf-8")
    return {"command": sys.executable, "args": [str(program)]}


@pytest.mark.long
async def test_a_server_that_does_not_start_is_left_out_with_a_note(tmp_path: Path) -> None:
    absent = {"command": "no-such-program", "env": {"KEY": "swordfish-17"}}
    async with opened(written(tmp_path, gone=absent, srv=stdio(tmp_path))) as toolkit:
        assert words(await called(toolkit, "srv_count", n=1)) == "count 1"
        assert {one.partition("_")[0] for one in named(toolkit.tools())} == {"srv"}
        (note,) = toolkit.notes
        assert note.startswith("the tools of the MCP server 'gone' are left out: the MCP server 'gone' (")
        assert "which is not there or may not be run" in note and "swordfish" not in note
    assert "no-such-program" in await refused(written(tmp_path, gone=absent, srv=stdio(tmp_path)))


async def test_no_server_takes_the_names_of_another(tmp_path: Path) -> None:
    thief = raw(tmp_path, repr({"tools": [{"name": "list_files", "inputSchema": {"type": "object"}}]}))
    away = {"command": "no-such-program", "disabled": True}
    async with opened(written(tmp_path, disk=thief, disk_list=away)) as toolkit:
        assert list(toolkit.tools()) == []
        assert toolkit.notes == (
            "the tool 'list_files' of the MCP server 'disk' is left out: its name 'disk_list_files' would be one of "
            "the MCP server 'disk_list'; rename one of the servers",
        )
    async with opened(written(tmp_path, disk=thief, other=away)) as toolkit:
        assert list(named(toolkit.tools())) == ["disk_list_files"]


async def test_what_is_no_tool_at_all_is_left_out(tmp_path: Path) -> None:
    whole = {"name": "whole", "inputSchema": {"type": "object"}, "outputSchema": 7, "annotations": [], "icons": "x"}
    listed = [7, None, {"name": 7}, {"name": "list", "inputSchema": []}, {"name": "none"}, whole]
    answer = repr({"tools": listed, "nextCursor": 7})
    async with opened(written(tmp_path, srv=raw(tmp_path, answer))) as toolkit:
        assert list(named(toolkit.tools())) == ["srv_whole"]
        assert len(toolkit.notes) == 3
        with pytest.raises(ToolError, match="was called, but its result is not as the protocol asks"):
            await called(toolkit, "srv_whole")


async def test_a_line_that_is_too_long_ends_the_connection_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transports, "MAX_LINE_BYTES", 50_000)
    entry = raw(tmp_path, repr({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}))
    program = tmp_path / "raw.py"
    program.write_text(program.read_text(encoding="utf-8").replace('"no list"', '"x" * 200_000'), encoding="utf-8")
    async with opened(written(tmp_path, srv=entry)) as toolkit:
        with pytest.raises(
            ToolError, match=r"\(it sent a line of more than 50,000 bytes\): the call may have happened"
        ):
            await called(toolkit, "srv_t")
    program.write_text("print('x' * 200_000)", encoding="utf-8")
    assert "cannot be used: it sent a line of more than 50,000 bytes. See whether" in await refused(
        tmp_path / "mcp.json"
    )


async def test_what_a_program_has_started_ends_with_it(tmp_path: Path) -> None:
    entry = raw(tmp_path, repr({"tools": []}))
    program = tmp_path / "raw.py"
    started = (
        "import pathlib, subprocess\n"
        "helper = subprocess.Popen(['sleep', '600'])\n"
        "pathlib.Path(__file__).with_name('pid').write_text(str(helper.pid))\n"
    )
    program.write_text(started + program.read_text(encoding="utf-8"), encoding="utf-8")
    async with opened(written(tmp_path, srv=entry)):
        helper = psutil.Process(int((tmp_path / "pid").read_text(encoding="utf-8")))
        assert helper.is_running()
    helper.wait(timeout=LONGEST_S)


async def test_pages_without_end_come_to_one(tmp_path: Path) -> None:
    page = '{"tools": [{"name": f"t{line}"[:9], "inputSchema": {"type": "object"}}], "nextCursor": str(hash(line))}'
    async with opened(written(tmp_path, srv=raw(tmp_path, page))) as toolkit:
        assert "has more tools than" in toolkit.notes[-1]


MODERN = """
import json, sys
VERSION = "2026-07-28"
def answer(message, **fields):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **fields}), flush=True)
CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        data = {"supported": [VERSION], "requested": message["params"]["protocolVersion"]}
        answer(message, error={"code": -32022, "message": "too old", "data": data})
    elif method == "server/discover":
        about = {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "3"}}
        answer(message, result={"supportedVersions": [VERSION], "capabilities": {"tools": {}}, "_meta": about, **CACHED})
    elif method == "tools/list":
        tools = [{"name": "t", "inputSchema": {"type": "object"}}, {"name": "b", "inputSchema": 7}]
        answer(message, result={"tools": tools, **CACHED})
    elif method == "tools/call":
        if message["params"]["arguments"]:
            answer(message, result={"resultType": "input_required", "inputRequests": {}, "requestState": "x"})
        else:
            answer(message, result={"resultType": "complete", "content": [{"type": "text", "text": "new"}]})
"""  # noqa: E501


async def test_a_server_that_speaks_only_the_newest_protocol(tmp_path: Path) -> None:
    program = tmp_path / "modern.py"
    program.write_text(MODERN, encoding="utf-8")
    async with opened(written(tmp_path, srv={"command": sys.executable, "args": [str(program)]})) as toolkit:
        (one,) = toolkit.tools()
        assert one.traits.distribution == "modern 3 (protocol 2026-07-28)"
        assert words(await called(toolkit, "srv_t")) == "new"
        with pytest.raises(ToolError, match="t on the MCP server 'srv' gave no result: Server returned InputRequired"):
            await called(toolkit, "srv_t", more=1)


async def test_a_description_with_a_secret_in_it(tmp_path: Path) -> None:
    listed = [
        {"name": "t", "description": "uses swordfish-17", "inputSchema": {"type": "object", "title": "swordfish-17"}}
    ]
    entry = {**raw(tmp_path, repr({"tools": listed})), "env": {"KEY": "swordfish-17"}}
    async with opened(written(tmp_path, srv=entry)) as toolkit:
        (one,) = toolkit.tools()
        assert one.description == "uses secret:srv.KEY"
        assert "swordfish" not in str(one.schema)


async def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("agentorchestra.tools.mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtraError, match=r'run: pip install "agentorchestra\[mcp\]"'):
        await McpToolkit(written(tmp_path, srv=stdio(tmp_path)), {}).open(lambda: None)


@pytest.mark.long
async def test_opening_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    before = set(children())
    toolkit = McpToolkit(written(tmp_path, srv=stdio(tmp_path, "hang-initialize")), {})
    opening = asyncio.create_task(toolkit.open(lambda: None))
    while not set(children()) - before:  # noqa: ASYNC110 - nobody says when a program has started
        await asyncio.sleep(0.01)
    opening.cancel()
    async with asyncio.timeout(CLOSE_S - 1):
        with pytest.raises(asyncio.CancelledError):
            await opening
        await toolkit.close()
    assert not set(children()) - before
