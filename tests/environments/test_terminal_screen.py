"""`terminal` with jobs that have a screen: what agents see, what they may type, and what becomes of a job."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.environments.gits import SANDBOX
from tests.environments.test_terminal import bench, do, drive, refused, terminal  # noqa: F401 # a fixture
from tests.runtime.support import Bench

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Mode, Tag
from agentorchestra.core.errors import KeysError
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.environments.terminal.keys import encode_keys
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect, action_tags
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace

ASKS = "read -p 'Name? ' name; echo \"Hello $name\" | tee hello.txt"


async def shows(ctx: BranchContext[Any], job: int, *texts: str) -> str:
    """The screen once these texts are on it."""
    while True:
        said = await do(ctx, "read_screen", job=job, wait_s=5)
        if all(text in said for text in texts):
            return said


async def test_a_job_with_a_screen(bench: Bench, tmp_path: Path) -> None:  # noqa: F811
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="mkdir d; cd d")
        await do(root, "start", command=ASKS, screen=True)
        asked = await shows(root, 1, "[job 1: waits for input")
        assert asked == "Name?\n[job 1: waits for input; the cursor is in line 1, column 7]"
        assert await do(root, "run", command="echo meanwhile") == (
            "meanwhile\n[1 in the background: see terminal_jobs]"
        )
        assert await do(root, "jobs") == f"job 1: running with a screen: {ASKS}"
        assert await refused(root, "output", job=1) == "job 1 has a screen; look at it with terminal_read_screen"
        await do(root, "send_keys", job=1, keys=["Ann", "<enter>"])
        over = await shows(root, 1, "ended")
        assert over == "Name? Ann\nHello Ann\n[job 1: ended with exit code 0]"
        assert await do(root, "run", command="cat hello.txt") == "Hello Ann"

        await do(root, "start", command="trap 'echo caught; exit 3' INT; echo on; read x", screen=True)
        await shows(root, 2, "on", "waits for input")
        await do(root, "interrupt", job=2)
        assert (await shows(root, 2, "ended")).endswith("caught\n[job 2: ended with exit code 3]")
        await do(root, "start", command="printf '\\e[7mchosen\\e[m other'; read x", screen=True)
        assert "[highlighted: chosen]" in await shows(root, 3, "other")
        stopped = await do(root, "stop", job=3)
        assert stopped.startswith("chosen other\n") and stopped.endswith("[job 3: ended by signal 15]")
        return "done"

    assert await drive(bench, main) == "done"
    assert await bench.replay(main) is not None


async def test_a_resume_types_nothing_again(bench: Bench, tmp_path: Path) -> None:  # noqa: F811
    crash = True

    async def main(root: BranchContext[Any]) -> str:
        await do(root, "start", command="while read line; do echo $line >>typed; done", screen=True)
        await do(root, "send_keys", job=1, keys=["one\n"])
        await do(root, "run", command="until [ -e typed ]; do sleep 0.02; done")
        if crash:
            raise RuntimeError("the process ends here")
        gone = "job 1 is gone with the shell it ran in; start it again: while read line; do echo $line >>typed; done"
        assert await refused(root, "send_keys", job=1, keys=["two\n"]) == gone
        assert await refused(root, "read_screen", job=1) == gone
        said = await do(root, "run", command="cat typed")
        later = "job 1 is gone, with the shell it ran in or long ago; start it again"
        assert await refused(root, "send_keys", job=1, keys=["two\n"]) == later
        return said.splitlines()[0]

    assert (await bench.drive(main)).status is RunStatus.FAILED
    crash = False
    assert await drive(bench, main) == "one"
    assert await bench.replay(main) is not None


async def test_a_rival_world_has_no_such_job(bench: Bench) -> None:  # noqa: F811
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "start", command="read line; echo $line >typed", screen=True)
        left, right = root.candidates(2)

        async def go(ctx: BranchContext[Any]) -> str:
            said = await refused(ctx, "send_keys", job=1, keys=["x", "<enter>"])
            await do(ctx, "start", command="read line; echo $line >own", screen=True)
            await do(ctx, "send_keys", job=2, keys=["own", "<enter>"])
            await do(ctx, "run", command="until [ -s own ]; do sleep 0.02; done; [ ! -e typed ]")
            return said

        for said in await root.rivals([lambda: go(left), lambda: go(right)]):
            assert said == "job 1 is gone with the shell it ran in; start it again: read line; echo $line >typed"
        await root.adopt(right)
        assert "job 1 is gone" in await refused(root, "send_keys", job=1, keys=["x"])
        return (await do(root, "run", command="cat own; ls")).splitlines()[0]

    assert await drive(bench, main) == "own"


SHELL = "PS1='> ' bash --norc --noprofile"


async def test_a_signal_takes_nothing_that_was_typed_before_it(bench: Bench) -> None:  # noqa: F811
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "start", command=SHELL, screen=True)
        await shows(root, 1, ">", "waits for input")
        await do(root, "send_keys", job=1, keys=["echo typed", "<enter>", "<ctrl+c>", "echo af", "ter", "<enter>"])
        said = await shows(root, 1, "\nafter\n")
        assert said.startswith("> echo typed\ntyped\n> ^C\n> echo after\nafter\n>"), said
        await do(root, "start", command="cat >read", screen=True)
        await shows(root, 2, "waits for input")
        await do(root, "send_keys", job=2, keys=["one", "<enter>", "<ctrl+c>"])
        assert "[job 2: ended" in await shows(root, 2, "ended")
        # Who never reads is interrupted all the same.
        await do(root, "start", command="exec sleep 300", screen=True)
        await do(root, "send_keys", job=3, keys=["x", "<enter>", "<ctrl+c>"], wait_s=0)
        assert "[job 3: ended by signal 2]" in await shows(root, 3, "ended")
        return await do(root, "run", command="cat read")

    assert (await drive(bench, main)).startswith("one")


@pytest.mark.parametrize(("program", "shown", "leave"), [("vim -u NONE -N", "~", ":q!\n"), ("less", "(END)", "q")])
async def test_a_program_gives_the_screen_back(bench: Bench, program: str, shown: str, leave: str) -> None:  # noqa: F811
    if shutil.which(program.split()[0]) is None:
        pytest.skip(f"no {program} here")

    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="printf 'in the file\\n' >file")
        await do(root, "start", command=f"echo before; {program} file; echo after; read x", screen=True)
        said = await shows(root, 1, "in the file", shown, "waits for input")
        assert "before" not in said and len(said) < 400  # the empty lines of an editor are not repeated
        await do(root, "send_keys", job=1, keys=[leave])
        return await shows(root, 1, "after", "waits for input")

    assert (await drive(bench, main)).startswith("before\nafter\n[job 1: waits")


KEYS = """
import curses
def main(screen):
    while True:
        size = screen.getmaxyx()
        screen.erase(); screen.border(); screen.addstr(1, 1, f"{size}"); screen.refresh()
        key = curses.keyname(screen.getch()).decode()
        if key == "KEY_RESIZE":
            curses.update_lines_cols()
            continue
        screen.addstr(2, 1, key); screen.refresh()
        if screen.getch() == ord("q"):
            break
curses.wrapper(main)
"""


async def test_sizes_keys_and_lines_of_a_program_that_draws(bench: Bench) -> None:  # noqa: F811
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command=f"cat >keys.py <<'END'{KEYS}END")
        python = "command -v curses; python3 keys.py"
        assert "(20, 60)" in await do(root, "start", command=python, screen=True, columns=60, rows=20)
        said = await shows(root, 1, "waits for input")
        assert said.splitlines()[0] == "┌" + "─" * 58 + "┐" and "[16 more lines like this]" in said
        await do(root, "resize", job=1, columns=200, rows=10)
        assert (await shows(root, 1, "(10, 200)")).splitlines()[0] == "┌" + "─" * 198 + "┐"
        for key, name in (("<up>", "KEY_UP"), ("<end>", "KEY_END"), ("<f1>", "KEY_F(1)"), ("<f5>", "KEY_F(5)")):
            said = await do(root, "send_keys", job=1, keys=[key], wait_for=name, wait_s=20)
            assert name in said, said
            await do(root, "send_keys", job=1, keys=["x"])
        for columns, rows in ((10, 20), (300, 20), (80, 4), (80, 101)):
            sentence = f"a screen cannot have {columns} columns and {rows} lines; choose 20 to 250 and 5 to 100"
            assert await refused(root, "resize", job=1, columns=columns, rows=rows) == sentence
            assert await refused(root, "start", command="x", screen=True, columns=columns, rows=rows) == sentence
        return "done"

    assert await drive(bench, main) == "done"


async def test_a_text_is_waited_for(bench: Bench) -> None:  # noqa: F811
    async def main(root: BranchContext[Any]) -> str:
        await do(root, "start", command=SHELL, screen=True)
        await shows(root, 1, ">", "waits for input")
        keys = ["until [ -e go ]; do sleep 0.02; done; echo built; sleep 300", "<enter>"]
        said = await do(root, "send_keys", job=1, keys=keys, wait_for="a text that never comes", wait_s=0.3)
        assert said.endswith("\n['a text that never comes' did not come in 0.3 s]")
        await do(root, "run", command="touch go")
        said = await do(root, "read_screen", job=1, wait_for="\nbuilt", wait_s=20)
        assert "\nbuilt\n[job 1: running" in said, said
        # A prompt that is there already is not taken for the next one.
        await do(root, "send_keys", job=1, keys=["<ctrl+c>"], wait_for=">", wait_s=20)
        keys = ["until [ -e stop ]; do sleep 0.02; done", "<enter>"]
        said = await do(root, "send_keys", job=1, keys=keys, wait_for="> ", wait_s=0.3)
        assert "[job 1: running" in said
        await do(root, "run", command="touch stop")
        await shows(root, 1, "waits for input")
        over = await do(root, "send_keys", job=1, keys=["exit 3", "<enter>"], wait_for="nothing", wait_s=20)
        assert "[job 1: ended with exit code 3]" in over
        return "done"

    assert await drive(bench, main) == "done"


async def test_mistakes(bench: Bench) -> None:  # noqa: F811
    async def main(root: BranchContext[Any]) -> str:
        assert await refused(root, "send_keys", job=4, keys=["x"]) == "there is no job 4; the jobs: none"
        await do(root, "start", command="exec sleep 300")
        assert await refused(root, "send_keys", job=1, keys=["x"]) == "job 1 has no screen"
        assert await refused(root, "read_screen", job=1, wait_s=1000) == (
            "wait_s is 1000; at most 20 s are waited here: look again then"
        )
        await do(root, "start", command="true", screen=True)
        await shows(root, 2, "ended")
        assert await refused(root, "send_keys", job=2, keys=["x"]) == (
            "job 2 has ended and takes no keys; start it again: true"
        )
        assert "there is no key <entre>; the keys: <enter>," in await refused(
            root, "send_keys", job=2, keys=["<entre>"]
        )
        return "done"

    assert await drive(bench, main) == "done"


GAME = """
import random
number = random.randrange(100)
while (guess := int(input("Your guess: "))) != number:
    print("higher" if guess < number else "lower")
print("found", number)
"""


def player(request: ModelRequest) -> ToolCall:
    """Start the game, halve what is left by what the last screen says, say what was found."""
    said = [one.text for one in request.messages if one.role == "tool"]
    if not said:
        return call("terminal_run", command=f"cat >game.py <<'END'{GAME}END")
    if len(said) == 1:
        return call("terminal_start", command="python3 game.py", screen=True)
    if found := re.search(r"found (\d+)", said[-1]):
        return call("done", answer=found[1])
    low, high = 0, 99
    for guess, way in re.findall(r"Your guess: (\d+)\n(higher|lower)", said[-1]):
        low, high = (int(guess) + 1, high) if way == "higher" else (low, int(guess) - 1)
    return call("terminal_send_keys", job=1, keys=[str((low + high) // 2), "<enter>"], wait_s=30)


async def test_a_model_plays_by_what_it_sees(tmp_path: Path) -> None:
    if SANDBOX is None:
        pytest.skip("no sandbox here")
    async with Workspace(tmp_path / "ws", store=MemoryStore(), settings=Settings(prompt_tool_chars=0)) as ws:
        result = await ws.run("Play.", model=ScriptedModel(player), system="react", environments=["terminal"])
        assert result.error is None, result.error
        over = [event for event in await ws.log.events(result.run_id) if f"found {result.answer}" in str(event.body)]
        assert over and result.answer.isdigit()
        assert (await ws.replay(result.run_id)).answer == result.answer


async def test_what_is_on_the_screen_is_from_outside_and_without_secrets(tmp_path: Path) -> None:
    secret = "s3cr3t" * 30  # longer than a line of the screen
    if SANDBOX is None:
        pytest.skip("no sandbox here")
    made = Bench(await opened(), {}, environments={"terminal": terminal}, folder=tmp_path, secrets={"TOKEN": secret})
    await made.create()

    async def main(root: BranchContext[Any]) -> str:
        await do(root, "run", command="printf s3cr3t%.0s {1..30} >word")
        await do(root, "start", command="cat word; read x", screen=True)
        await shows(root, 1, "waits")
        outcome = await root.perform(action_effect(terminal(), "read_screen", {"job": 1}))
        assert outcome.trust is Trust.UNTRUSTED
        return str(outcome.value)

    said = await drive(made, main)
    assert "secret:TOKEN" in said and "s3cr3t" not in said
    await made.store.close()


async def opened() -> MemoryStore:
    store = MemoryStore()
    await store.open()
    return store


def test_what_the_door_sees() -> None:
    closed, reaching = terminal(), terminal(network=True)
    assert action_tags(closed, "send_keys") == {Tag.WRITE, Tag.EXECUTE}
    assert action_tags(reaching, "send_keys") == {Tag.WRITE, Tag.EXECUTE, Tag.NETWORK}
    assert action_effect(reaching, "send_keys", {"job": 1, "keys": ["x"]}).mode is Mode.ONCE


def test_keys() -> None:
    assert encode_keys(["print(1)", "<enter>", "<Up>", "<ctrl+c>", "<C-d>", "<alt+B>", "<f1>", "<F12>", "<esc>"]) == (
        b"print(1)\r\x1b[A\x03\x04\x1bB\x1bOP\x1b[24~\x1b"
    )
    assert encode_keys(["a\nb\r\nc", "#include <stdio.h>", "<", "b>", "é"]) == "a\rb\rc#include <stdio.h><b>é".encode()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([], 'no keys; give texts and keys, e.g. ["print(1)", "<enter>"]'),
        (["x" * 4_001], "the keys have 4,001 bytes; at most 4,000 are sent at once: write a longer text to a file"),
        (["<b>"], "there is no key <b>; the keys: <enter>, <tab>"),
        (["<b>"], 'A text in angle brackets is given in two parts: ["<", "b>"]'),
        (["make<ctrl+c>"], '<ctrl+c> stands in a text, where it is no key; give it apart: ["make", "<ctrl+c>"]'),
        (["<ctrl+ä>"], "there is no key <ctrl+ä>"),
        (
            ["ihello<escape>:wq"],
            '<escape> stands in a text, where it is no key; give it apart: ["ihello", "<escape>", ":wq"]',
        ),
    ],
)
def test_keys_that_are_none(keys: list[str], said: str) -> None:
    with pytest.raises(KeysError) as raised:
        encode_keys(keys)
    assert said in str(raised.value)
