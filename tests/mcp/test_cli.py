"""MCP servers on the command line: `--mcp`, the setting, what is said of a file that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Folder
from tests.mcp.support import calls, children, stdio, written


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.long
def test_the_tools_of_a_file_and_of_the_setting(folder: Folder) -> None:
    before = set(children())
    written(folder.path, srv=stdio(folder.path, autoApprove=["count"]))
    ran = folder.run("run", "srv_count(n=7)", "--system", "react", "--mcp", "mcp.json")
    # It may write and use the network, and its own words are a stranger's: it is asked about.
    assert ran.code == 3, ran.err
    assert "Allow srv_count? srv_count (network, write) would act with n not taken from your task" in ran.err
    assert calls(folder.path) == []
    allowed = folder.run("approve", "last", folder.open_code(), "--mcp", "mcp.json")
    assert allowed.code == 0, allowed.err
    assert calls(folder.path) == ["count 7"]
    assert "warning: the MCP server 'srv' in mcp.json has 'autoApprove', which nothing here reads" in ran.err

    # What is recorded is replayed without the servers; to go on they must be named.
    assert folder.run("replay", "last").code == 0
    forked = folder.run("fork", "last", "--at", "3")
    assert forked.code == 2
    assert "tools of mcp:srv which the run was started with; name the file of the servers by --mcp" in forked.err

    folder.write("agentorchestra.toml", 'mcp = "mcp.json"\n')
    listed = folder.run("tools", "list", "--json")
    assert listed.err.endswith("mcp.json has 'autoApprove', which nothing here reads\n")
    assert {"name": "srv_count", "origin": "mcp:srv"}.items() <= next(
        one for one in json.loads(listed.out) if one["name"] == "srv_count"
    ).items()
    assert folder.run("fork", "last", "--at", "3").code == 3  # it asks again
    assert not set(children()) - before


def test_a_file_or_server_that_cannot_be_used_is_one_sentence(folder: Folder) -> None:
    missing = folder.run("run", "a task", "--mcp", "nothing.json")
    assert missing.code == 2
    assert "the file of MCP servers nothing.json cannot be read: No such file or directory" in missing.err
    written(folder.path, srv={"command": "no-such-program"})
    without = folder.run("tools", "list", "--mcp", "mcp.json")
    assert without.code == 0
    assert without.err.startswith("warning: the tools of the MCP server 'srv' are left out: the MCP server 'srv' (")
    written(folder.path, srv={"command": "no-such-program", "required": True})
    absent = folder.run("tools", "list", "--mcp", "mcp.json")
    assert absent.code == 2
    assert "starts the program 'no-such-program', which is not there" in absent.err
    assert len(absent.err.strip().splitlines()) == len(missing.err.strip().splitlines()) == 1
    assert absent.out == missing.out == ""


def test_doctor_reads_the_file_and_starts_nothing(folder: Folder) -> None:
    folder.write("agentorchestra.toml", 'mcp = "mcp.json"\n')

    def said() -> str:
        return next(line for line in folder.run("doctor").out.splitlines() if " mcp " in f" {line} ")

    assert "mcp.json cannot be read: No such file or directory" in said()
    written(folder.path, one={"command": "no-such-program"}, two={"url": "http://127.0.0.1:9/"})
    assert "names the servers one, two (none was started)" in said()
