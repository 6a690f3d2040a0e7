"""The file of MCP servers: what may stand in it, what is refused and in which words, what of it is secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import McpError
from agentorchestra.tools.mcp.config import McpFile, read_mcp_file
from tests.mcp.support import written


def read(folder: Path, environ: dict[str, str] | None = None, **servers: Any) -> McpFile:
    return read_mcp_file(written(folder, **servers), environ or {})


def refused(folder: Path, text: str) -> str:
    path = folder / "mcp.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(McpError) as caught:
        read_mcp_file(path, {})
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


def test_a_program_and_an_address_with_variables(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {"KEY": "k-123456", "HOST": "docs.example", "EMPTY": ""},
        weather={
            "command": "uvx",
            "args": ["weather", "--city=${CITY:-Rome}", "$HOME ${not a name}"],
            "env": {"API_KEY": "${env:KEY}", "MODE": "${EMPTY:-quick}"},
            "cwd": "data",
            "trust": True,
            "timeout_s": 5,
            "startup_timeout_s": 60,
        },
        docs={"type": "streamable-http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
        away={"command": "", "disabled": True},
        off={"url": "${NOT_SET}", "enabled": False},
    )
    weather, docs = file.servers
    assert (weather.command, weather.args) == ("uvx", ("weather", "--city=Rome", "$HOME ${not a name}"))
    assert weather.env == {"API_KEY": "k-123456", "MODE": "quick"}
    assert (weather.cwd, weather.trust) == (tmp_path / "data", True)
    assert (weather.timeout_s, weather.startup_s) == (5, 60)
    assert (docs.url, docs.headers) == ("https://docs.example/mcp", {"Authorization": "Bearer k-123456"})
    assert (docs.trust, docs.timeout_s, docs.command) == (False, None, "")


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "streamable_http"])
@pytest.mark.parametrize("field", ["type", "transport"])
@pytest.mark.parametrize("address", ["url", "httpUrl", "serverUrl"])
def test_the_forms_in_which_clients_write_an_address(tmp_path: Path, kind: str, field: str, address: str) -> None:
    (server,) = read(tmp_path, one={field: kind, address: "http://127.0.0.1:1/mcp"}).servers
    assert server.url == "http://127.0.0.1:1/mcp"


def test_a_field_that_is_not_read_is_named(tmp_path: Path) -> None:
    file = read(tmp_path, one={"command": "x", "alwaysAllow": ["a"], "description": "mine"})
    (note,) = file.notes
    assert note.endswith("has 'alwaysAllow', which nothing here reads")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", 'has no object "mcpServers"'),
        ('{"mcpServers": []}', 'has no object "mcpServers"; write {"mcpServers": {"NAME": {"command": "..."}}}'),
        ('{"servers": {}}', 'its servers are under "servers": rename that key'),
        ('{"mcpServers": {"": {}}}', "an MCP server without a name"),
        ('{"mcpServers": {"a": "uvx"}}', "the MCP server 'a' in "),
        ('{"mcpServers": {"a": {}}}', 'has neither "command" and "url"; give one of them'),
        ('{"mcpServers": {"a": {"command": "x", "url": "y"}}}', 'has both "command" and "url"; give one of them'),
        (
            '{"mcpServers": {"a": {"type": "carrier", "url": "y"}}}',
            "unknown transport 'carrier'; the transports: stdio",
        ),
        ('{"mcpServers": {"a": {"type": "sse", "url": "y"}}}', "which streamable HTTP has replaced"),
        ('{"mcpServers": {"a": {"type": "stdio"}}}', "has the transport 'stdio' and no \"command\"; add it"),
        ('{"mcpServers": {"a": {"type": "http"}}}', "has the transport 'http' and no \"url\"; add it"),
        ('{"mcpServers": {"a": {"command": " "}}}', 'has an empty "command"; name the program'),
        ('{"mcpServers": {"a": {"command": 7}}}', "command does not fit: Input should be a valid string (it is int)"),
        ('{"mcpServers": {"a": {"command": "x", "args": "-v"}}}', "args does not fit: Input should be a valid list"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}', "env.K does not fit"),
        ('{"mcpServers": {"a": {"command": "x", "timeout_s": 0}}}', "timeout_s does not fit"),
        ('{"mcpServers": {"a": {"command": "x", "trust": "yes"}}}', "trust does not fit"),
        ('{"mcpServers": {"a": {"command": "x", "args": ["${NOPE}"]}}}', "variable NOPE in args.0, which is not set"),
        ('{"mcpServers": {"a": {"command": "x", "args": ["${input:k}"]}}}', "nobody is asked here"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A=B": "1"}}}}', "zero byte or a '=' in a name"),
        ('{"mcpServers": {"a": {"url": "ftp://host/x"}}}', "has a url that is no address"),
        ('{"mcpServers": {"a": {"url": "http://host:99999/x"}}}', "has a url that is no address"),
        ('{"mcpServers": {"a": {"url": "http://h/", "headers": {"X": "a\\nb"}}}}', "which cannot be sent"),
        (json.dumps({"mcpServers": {f"s{n}": {} for n in range(101)}}), "at most 100 can be used"),
        (" " * 1_000_001, "at most 1,000,000"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in refused(tmp_path, text)


@pytest.mark.parametrize("other", ["my.disk", "my disk", "my_disk"])
def test_servers_whose_tools_would_have_the_same_names_are_refused(tmp_path: Path, other: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"my-disk": {"command": "x"}, other: {"command": "x"}}}))
    assert len(read_mcp_file(path, {}).servers) == 2
    path.write_text(
        json.dumps({"mcpServers": {"my/disk": {"command": "x", "disabled": True}, other: {"command": "x"}}})
    )
    sentence = (
        f"the tools of the MCP servers 'my/disk' and {other!r} in .* which begin with my_disk_; rename one of them"
    )
    with pytest.raises(McpError, match=sentence):
        read_mcp_file(path, {})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(McpError, match=r"nothing\.json cannot be read: No such file or directory; give the path"):
        read_mcp_file(tmp_path / "nothing.json", {})


def test_the_values_of_env_and_headers_are_secrets(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        {"TOKEN": "t0k3n-value", "HOME": "/home/me", "DATABASE_PASSWORD": "correct horse"},
        one={
            "command": "x",
            "args": ["--token", "abc-123456", "--api-key=def-123456", "-v", "postgres://me:hunter22@db/x", "${HOME}"],
            "env": {
                "WEATHER": "w9-8f7e6d5c",
                "PASSWORD": "swordfish",
                "FROM": "${TOKEN}",
                "SENTENCE": "use ${DATABASE_PASSWORD}",
                "MODE": "production",
                "PORT": "8080123",
                "FOLDER": "/var/lib/weather",
                "SITE": "https://weather.example/api",
            },
        },
        two={
            "url": "https://me:pass-word@host/s/0123456789abcdef0123/mcp?api_key=key-456&page=2",
            "headers": {"Authorization": "Bearer bearer-789", "X-Team": "blue team", "Accept-Language": "en-GB, en"},
        },
    )
    assert dict(file.secrets) == {
        "one.WEATHER": "w9-8f7e6d5c",
        "one.PASSWORD": "swordfish",
        "one.FROM": "t0k3n-value",
        "one.TOKEN": "t0k3n-value",
        "one.SENTENCE": "use correct horse",
        "one.DATABASE_PASSWORD": "correct horse",
        "one.token": "abc-123456",
        "one.api-key": "def-123456",
        "one.password": "hunter22",
        "two.Authorization": "Bearer bearer-789",
        "two.Authorization.credentials": "bearer-789",
        "two.X-Team": "blue team",
        "two.password": "pass-word",
        "two.path": "0123456789abcdef0123",
        "two.api_key": "key-456",
    }


def test_no_sentence_shows_a_value(tmp_path: Path) -> None:
    sentence = refused(tmp_path, '{"mcpServers": {"a": {"url": "http://h/", "headers": {"K": ["swordfish"]}}}}')
    assert "swordfish" not in sentence
    assert "headers.K does not fit" in sentence
