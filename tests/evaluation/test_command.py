"""`agentorchestra eval` from the first question to the report, as its users meet it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.testing import LoopbackModelServer, ServerReply
from tests.browser import chromium
from tests.cli.support import Folder
from tests.evaluation.support import over_files, sums
from tests.support import solver
from tests.support.patience import LONGEST_S

SETTINGS = """model = "local"
[models.local]
model = "local-model"
base_url = "{address}"
price = {{ input = 1, output = 2 }}
"""


def folder_with(path: Path, address: str) -> Folder:
    folder = Folder(path)
    folder.write("agentorchestra.toml", SETTINGS.format(address=address))
    return folder


async def shown_page(path: Path) -> tuple[str, int, list[str]]:
    """The text of a page as a browser shows it, the circles of its plot, and what it asked for besides itself."""
    asked: list[str] = []
    async with chromium() as browser:
        page = await browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(path.as_uri())
        text = await page.inner_text("body")
        return text, await page.locator("svg circle").count(), [one for one in asked if one != path.as_uri()]


@pytest.mark.long
@pytest.mark.parametrize(("count", "systems"), [(3, ("react", "direct")), (20, ("react", "oagents", "aorchestra"))])
@pytest.mark.real
def test_a_set_of_three_levels_from_plan_to_report(tmp_path: Path, count: int, systems: tuple[str, ...]) -> None:
    over_files(tmp_path / "data", count)
    named = [word for one in systems for word in ("--system", one)]
    with solver.serving() as server:
        folder = folder_with(tmp_path, server.base_url)
        begun = ["local", "--data", "data", *named, "--budget-usd", "200", "--question-usd", "1", "--name", "first"]
        done = folder.run("eval", "plan", *begun, "--pilot", "2")
        assert done.code == 0, done.err
        assert re.search(
            rf"cost of all {count} questions, after 2: \$[\d.]+ \(between \$[\d.]+ and \$[\d.]+\)", done.out
        )
        assert "a difference of 10 points is found with" in done.out
        pilot = server.count
        done = folder.run("eval", "run", *begun)
        assert done.code == 0, done.err
        assert done.err.count(": completed") == (count - 2) * len(systems)
        assert server.count > pilot
        requests = server.count
        assert folder.run("eval", "run", *begun).code == 0
        assert folder.run("eval", "score", "first").out.strip() == (
            f"{3 * count // 3} ok, {count} wrong" if "direct" in systems else f"{count * len(systems)} ok"
        )
        assert server.count == requests
    done = folder.run("eval", "report", "first")
    (row,) = re.findall(r"^\| react \| (.*?) \|", done.out, re.MULTILINE)[:1]
    assert row.startswith("100.0 [")
    assert row.endswith(f" of {count}")
    asked = ["Agents asked for a solved question"] * ("aorchestra" in systems)
    assert re.findall(r"^## (.*)$", done.out, re.MULTILINE) == [
        "Accuracy",
        "What came of it",
        "Cost, tokens, time, steps",
        *asked,
        "Differences",
        "Questions",
        "Settings",
    ]
    assert folder.run("eval", "report", "first", "--html", "first.html", "--latex", "first.tex").code == 0
    assert (tmp_path / "first.tex").read_text(encoding="utf-8").count(r"\begin{tabular}") == 4 + len(asked)
    shown, circles, others = asyncio.run(shown_page(tmp_path / "first.html"))
    assert "accuracy, percent" in shown
    assert f" of {count}" in shown
    assert (circles, others) == (len(systems), [])
    done = folder.run("eval", "compare", "first", systems[0], systems[1])
    assert f"over {count} questions, p = " in done.out
    assert done.out.count("first differ at /1.react#1") == (count if "direct" in systems else 0)
    done = folder.run("eval", "export", "first", "--as", "gaia")
    assert done.code == 2
    assert f"first has {len(systems)} arms; say whose answers with --arm" in done.err
    lines = folder.run("eval", "export", "first", "--as", "gaia", "--arm", "react").out.splitlines()
    answers = {one["task_id"]: one["model_answer"] for one in map(json.loads, lines)}
    assert len(answers) == count
    lines = folder.run("eval", "export", "first").out.splitlines()
    attempts = [json.loads(one) for one in lines]
    assert len(attempts) == count * len(systems)
    react = [one for one in attempts if one["arm"] == "react"]
    assert {one["question"]: one["result"]["answer"] for one in react} == answers
    assert {one["score"]["status"] for one in react} == {"ok"}
    done = folder.run("eval", "list")
    assert f"evaluation first: {count} questions of local; {', '.join(systems)}" in done.out


@pytest.mark.long
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    folder = Folder(tmp_path)
    for words, said in (
        (("run", "local"), "the set local needs --data"),
        (("run", "local", "--data", "data", "--arm", "a b"), "'b' of the arm a is not of the form KEY=VALUE"),
        (("run", "local", "--data", "data", "--arm", "a 'b"), "is not of the form 'NAME KEY=VALUE ...'"),
        (("run", "local", "--data", "data", "--arm", "a web.reader=x"), "the arm a: web.reader = 'x' does not fit"),
        (("run", "local", "--data", "data", "--system", "rect"), "rect"),
        (("resume", "gone"), "there is no evaluation 'gone'"),
        (("score", "gone"), "there is no evaluation 'gone'"),
    ):
        done = folder.run("eval", *words)
        assert (done.code, said in done.err) == (2, True), done.err
    assert folder.run("eval", "run", "local", "--data", "data", "--system", "direct", "--name", "one").code == 0
    done = folder.run("eval", "report", "one")
    assert (done.code, "one was not scored yet; `agentorchestra eval score one`" in done.err) == (2, True)
    assert folder.run("eval", "score", "one").out.strip() == "2 wrong"
    done = folder.run("eval", "report", "one")
    assert re.search(r"^\| direct \| 0\.0 \[0\.0, \d+\.\d\] of 2 \|", done.out, re.MULTILINE), done.err
    done = folder.run("eval", "compare", "one", "direct", "other")
    assert (done.code, "there is no arm 'other'; the arms: direct" in done.err) == (2, True)


def test_what_cannot_be_asked_is_said_before_the_rest_is_asked(tmp_path: Path) -> None:
    data = sums(tmp_path / "data", 3) / "questions.jsonl"
    lines = data.read_text(encoding="utf-8").splitlines()
    data.write_text(
        "\n".join([*lines[:2], json.dumps({**json.loads(lines[2]), "files": ["gone.pdf"]})]), encoding="utf-8"
    )
    folder = Folder(tmp_path)
    begun = ("local", "--data", "data", "--arm", "one system=direct roles.judge=offline", "--name", "first")
    done = folder.run("eval", "run", *begun)
    assert done.code == 3
    said = done.err.splitlines()
    assert said[1].startswith("missing: q2: the file ") and "gone.pdf of the question 'q2' is not there" in said[1]
    assert said[2] == "1 question of 3 cannot be asked; the report names them"
    assert done.err.count(": completed") == 2
    done = folder.run("eval", "score", "first")
    assert done.out.strip() == "2 wrong, 1 missing"
    assert done.err.startswith("missing: q2 one: the file ")
    assert '"roles":{"judge":"offline"}' in folder.run("eval", "report", "first").out
    done = folder.run("eval", "plan", *begun, "--pilot", "2")
    assert "cost of all 2 questions, after 2: " in done.out, done.err
    for words, why in (
        (("run", "local", "--data", "data", "--choices-seed", "7"), "the set local has no choices to shuffle"),
        (("run", *begun[:3], "--arm", "one roles.judge=nobody"), "nobody"),
        (("score", "first", "--data", "gone"), "gone"),
        (("score", "first", "--verdicts", "one=gone.json"), "gone.json is no report of SWE-bench's harness"),
        (("score", "first", "--verdicts", "two=gone.json"), "there is no arm 'two'; the arms: one"),
        (("export", "first", "--as", "swe-bench"), "what the runs of one changed was not looked at yet"),
    ):
        done = folder.run("eval", *words)
        assert (done.code, why in done.err) == (2, True), done.err


@pytest.mark.long
def test_an_imported_evaluation_is_scored_with_the_data_there(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    folder = Folder(tmp_path)
    assert folder.run("eval", "run", "local", "--data", "data", "--system", "direct", "--name", "first").code == 0
    assert folder.run("eval", "export", "first", "--bundle", "first.zip").code == 0
    there = ("--workspace", "there")
    assert folder.run("eval", "import", "first.zip", *there).code == 0
    done = folder.run("eval", "score", "first", *there)
    assert (done.code, "the set local needs --data" in done.err) == (2, True)
    sums(tmp_path / "other", 2, seed=2)
    done = folder.run("eval", "score", "first", "--data", "other", *there)
    assert (done.code, "bring the former data back" in done.err) == (2, True)
    assert folder.run("eval", "score", "first", "--data", "data", *there).out.strip() == "2 wrong"
    assert folder.run("eval", "score", "first", *there).out.strip() == "2 wrong"


@pytest.mark.long
def test_a_log_of_inspect_and_a_bundle_that_another_workspace_reports(tmp_path: Path) -> None:
    sums(tmp_path / "data", 3)
    folder = Folder(tmp_path)
    begun = ["local", "--data", "data", "--arm", "one system=direct", "--arm", "two system=direct", "--name", "first"]
    assert folder.run("eval", "run", *begun).code == 0
    done = folder.run("eval", "export", "first", "--inspect", "first.eval")
    assert (done.code, "first was not scored yet" in done.err) == (2, True)
    assert folder.run("eval", "score", "first").code == 0
    done = folder.run("eval", "compare", "first", "one", "two")
    assert "one may not stop yet, by the sequential test over 3 blocks" in done.out
    done = folder.run("eval", "export", "first", "--inspect", "first.eval")
    assert done.code == 0, done.err
    assert "it holds the true answers" in done.err
    assert (tmp_path / "first.eval").read_bytes()[:2] == b"PK"
    for words, said in (
        (("--inspect", "first.json"), "first.json does not end in .eval"),
        (("--inspect", "a.eval", "--bundle", "b.zip"), "--inspect and --bundle each write a file of their own"),
        (("--bundle", "b.zip", "--as", "gaia"), "--inspect and --bundle each write a file of their own"),
    ):
        done = folder.run("eval", "export", "first", *words)
        assert (done.code, said in done.err) == (2, True), done.err
    done = folder.run("eval", "export", "first", "--bundle", "first.zip")
    assert (done.code, "first: 6 runs" in done.err) == (0, True), done.err
    there = ("--workspace", "there")
    done = folder.run("eval", "import", "first.zip", "--data", "data", *there)
    assert (done.code, done.out.strip()) == (0, "evaluation first: 6 runs"), done.err
    assert folder.run("eval", "score", "first", *there).code == 0
    assert folder.run("eval", "report", "first", *there).out == folder.run("eval", "report", "first").out


@pytest.mark.long
@pytest.mark.parametrize(("end", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
async def test_after_kill_9_or_ctrl_c_only_what_was_not_answered_is_asked(
    tmp_path: Path, end: signal.Signals, code: int
) -> None:
    sums(tmp_path / "data", 20)
    asked: list[str] = []
    half, never = asyncio.Event(), asyncio.Event()

    async def answer(body: dict[str, Any]) -> Any:
        (question,) = re.findall(r"What is (\d+) \+ (\d+)\?", json.dumps(body["messages"]))
        asked.append(question[0])
        if len(asked) == 11:
            half.set()
            await never.wait()
        return ServerReply(answer=str(int(question[0]) + int(question[1])))

    async with LoopbackModelServer(answer) as server:
        folder_with(tmp_path, server.base_url)
        words = ["eval", "run", "local", "--data", "data", "--system", "direct", "--at-once", "1", "--name", "k"]

        async def begin(words: list[str]) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "agentorchestra", *words),
                cwd=tmp_path,
                env={**os.environ, "OPENAI_API_KEY": "x"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )

        first = await begin(words)
        async with asyncio.timeout(LONGEST_S):
            await half.wait()
        first.send_signal(end)
        await first.communicate()
        assert first.returncode == code
        never.set()
        second = await begin(words)
        said, _ = await second.communicate()
        assert second.returncode == 0, said.decode()
        third = await begin(["eval", "score", "k"])
        scored, _ = await third.communicate()
    counts = {one: asked.count(one) for one in asked}
    assert len(counts) == 20
    assert [one for one, count in counts.items() if count != 1] == ["10"]
    assert counts["10"] == 2
    assert scored.decode().strip() == "20 ok"
