"""`agentorchestra browser`: the environment in the hands of a person, at a terminal and from a pipe."""

from __future__ import annotations

import asyncio
import os

import pytest

from agentorchestra.cli.commands.browser import arguments_of, usage_of
from agentorchestra.core.messages import ToolSchema
from tests.cli.screen import ProcessScreen
from tests.cli.support import Folder, Result, clean_environment
from tests.site.browser import PASSWORD, USER, browser_site
from tests.support.patience import LONGEST_S

FILL = ToolSchema(
    name="fill",
    description="Fill a field.",
    parameters={
        "type": "object",
        "properties": {
            "ref": {"type": "string"},
            "text": {"type": "string"},
            "site": {"type": "string"},
            "count": {"type": "integer"},
            "keys": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        },
        "required": ["ref", "text", "site"],
    },
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["e5", "hello"], {"ref": "e5", "text": "hello", "site": "a.example"}),
        (["e5", "a=b"], {"ref": "e5", "text": "a=b", "site": "a.example"}),
        (["text=5", "e5", "b.example"], {"ref": "e5", "text": "5", "site": "b.example"}),
        (["e5", "x", "b.example", "2", "Shift"], {"ref": "e5", "text": "x", "site": "b.example", "count": 2}),
        (["e5", "x", 'keys=["a","b"]'], {"ref": "e5", "text": "x", "site": "a.example", "keys": ["a", "b"]}),
    ],
)
def test_words_are_arguments_in_their_order_or_by_name(words: list[str], expected: dict[str, object]) -> None:
    found, problem = arguments_of(FILL, words, {"site": "a.example"})
    assert problem == ""
    assert found | expected == found
    assert arguments_of(FILL, words, {"site": "a.example"})[0].get("keys") in (None, ["a", "b"], ["Shift"])


def test_what_is_missing_or_too_much_is_said_with_the_usage() -> None:
    usage = "fill REF TEXT SITE [count=COUNT] [keys=KEYS]"
    assert usage_of(FILL) == usage
    assert arguments_of(FILL, ["e5"], {"site": ""}) == ({}, f"fill needs text, site; {usage}")
    assert arguments_of(FILL, list("abcdef"), {}) == ({}, f"fill takes no 'f'; {usage}")


def test_without_a_browser_it_says_so(folder: Folder) -> None:
    folder.write("agentorchestra.toml", '[browser]\nexecutable = "no-such-browser"\n')
    said = folder.run("browser", "http://127.0.0.1:1/")
    assert said.code == 2
    assert "browser.executable is 'no-such-browser', which is no program here" in said.error


def scripted(folder: Folder, commands: str, *words: str) -> Result:
    with folder.write("commands", commands).open() as stdin:
        return folder.run("browser", *words, stdin=stdin)


@pytest.mark.long
async def test_commands_from_a_pipe_act_and_what_is_wrong_with_them_is_said(folder: Folder) -> None:
    async with browser_site() as site:
        folder.write("agentorchestra.toml", f'[web]\nprivate = ["{site.host}"]\n')
        commands = (
            f"# a person signs in\ninput_text e6 {USER}\nbrowser_input_text e9 text={PASSWORD}\nclick e10\nstate\n"
            "screenshot page.png\nhelp\nhelp click\nfly away\nclick\nclick e99\n'\n"
            f"download url={site.address}/account/statement.csv\ngo_to_url http://127.0.0.1:9/\nquit\nnever done\n"
        )
        said = await asyncio.to_thread(scripted, folder, commands, f"{site.address}/login")
        assert len(site.sessions) == 1
    assert said.code == 1  # some of the commands did not work
    assert 'textbox "Password"' in said.out
    assert 'heading "Welcome, ada"' in said.out
    assert (folder.path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert "click REF [button=BUTTON] [count=COUNT] [modifiers=MODIFIERS]" in said.out
    for wrong in (
        "error: there is no command 'fly'; `help` lists them",
        "error: click needs ref; click REF",
        "127.0.0.1:9",  # a service of this machine that the settings do not name
        "error: there is no element 'e99' on the page now",
        'error: "\'" cannot be read: No closing quotation',
    ):
        assert wrong in said.out
    assert "never" not in said.out
    (made,) = [line.removeprefix("files in ") for line in said.err.splitlines() if line.startswith("files in ")]
    assert [one.name for one in (folder.path / made).rglob("*.csv")] == ["statement.csv"]


@pytest.mark.long
async def test_at_a_terminal_commands_are_asked_for(folder: Folder) -> None:
    """Ctrl-D ends it, and so does Ctrl-C."""

    def work(last: str, *address: str) -> int:
        screen = ProcessScreen()
        env = {**clean_environment(), "TERM": "xterm"}
        words = ["-m", "agentorchestra", "browser", *address]
        with screen.start_warm(words, cwd=folder.path, environ=env) as process:
            screen.wait(lambda: "browser>" in screen.text)
            screen.type("fly\n")
            screen.wait(lambda: "there is no command 'fly'" in screen.text)
            screen.type(last)
            code = process.wait(LONGEST_S)
            screen.end()
        os.close(screen.ours)
        assert "Traceback" not in screen.text
        return code

    async with browser_site() as site:
        folder.write("agentorchestra.toml", f'[web]\nprivate = ["{site.host}"]\n')
        assert await asyncio.to_thread(work, "\x04", f"{site.address}/article") == 0
        assert await asyncio.to_thread(work, "\x03") == 130
