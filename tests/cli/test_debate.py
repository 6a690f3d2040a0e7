"""`debate`: each argument when it comes, the conclusion at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentorchestra.core.messages import ModelResponse
from agentorchestra.testing import LoopbackModelServer
from tests.agents.debating import TOPIC, reply_to
from tests.cli.support import Folder

APP = """
from agentorchestra import Workspace
from tests.agents.debating import debater

def workspace():
    return Workspace(models={"scripted": debater()})
"""
EXPERTS = ["--expert", "finance_expert", "--expert", "mathematics_expert"]


@pytest.fixture
def talking(folder: Folder) -> Folder:
    folder.write("app.py", APP)
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\n')
    return folder


def test_arguments_on_stderr_when_they_come_the_conclusion_on_stdout(talking: Folder) -> None:
    done = talking.run("debate", TOPIC, *EXPERTS, "--rounds", "2")
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert lines[0].startswith("run run_")
    assert "finance_expert (A) is thinking" in lines
    spoken = [line.split()[0] for line in lines if line.startswith("[")]
    assert [*spoken[:2]] in (["[A1]", "[B1]"], ["[B1]", "[A1]"]), "the first ones speak at the same time"
    assert spoken[2:] == ["[A2]", "[B2]", "[B3]", "[A3]"]
    assert lines.index("the manager: Said so far: A1, B1, A2, B2.") < lines.index("[B3] Spread the money.")
    assert "[A2] (answers B1) Services grow. That stands against “The variance of one stock is high.”" in lines
    assert not any(line.startswith("step ") for line in lines)
    assert done.out.startswith(f"# {TOPIC}\n\nIt may be held. [A1][B1]\n\n## Agreements\n\n- A share of it")
    assert "## Disagreements" in done.out and "## Open questions" in done.out
    assert done.status.startswith("completed, run_") and "completed, run_" not in done.out
    again = talking.run("replay", "last")
    assert again.code == 0, again.err


@pytest.mark.long
def test_json_is_one_object(talking: Folder) -> None:
    done = talking.run("debate", TOPIC, *EXPERTS, "--expert", "Alice: an old shareholder", "--rounds", "1", "--json")
    assert (done.code, done.err) == (0, "")
    output = done.json["output"]
    assert [one["name"] for one in output["experts"]] == ["finance_expert", "mathematics_expert", "alice"]
    assert output["rounds"] == 1 and len(output["turns"]) == 6


@pytest.mark.long
def test_tail_shows_the_same_marks(talking: Folder) -> None:
    talking.run("debate", TOPIC, *EXPERTS)
    shown = talking.run("tail", "last")
    assert [line.split()[0] for line in shown.out.splitlines() if line.startswith("[")][2:] == [
        "[A2]", "[B2]", "[B3]", "[A3]",
    ]  # fmt: skip


def test_what_is_refused_costs_nothing(talking: Folder) -> None:
    done = talking.run("debate", TOPIC, "-e", "finance_export", "-e", "mathematics_expert")
    assert (done.code, done.out, talking.ids()) == (2, "", [])
    assert done.err == (
        "error: there is no expert 'finance_export'; did you mean 'finance_expert'? An expert of your own is written "
        "'NAME: description'\n"
    )


def test_a_folder_for_files_that_cannot_be_is_refused_first(talking: Folder) -> None:
    talking.write("taken", "a file")
    done = talking.run("debate", TOPIC, *EXPERTS, "--out", "taken")
    assert (done.code, talking.ids()) == (2, []) and "taken" in done.err


@pytest.mark.long
async def test_with_a_real_client(folder: Folder) -> None:
    def answer(body: dict[str, Any]) -> ModelResponse:
        def text(message: dict[str, Any]) -> str:
            content = message.get("content") or ""
            return content if isinstance(content, str) else "\n".join(str(one.get("text", "")) for one in content)

        first, *rest = body["messages"]
        return reply_to(text(first), "\n".join(text(one) for one in rest))

    async with LoopbackModelServer(answer) as server:
        profile = f'[models.mine]\nmodel = "openai:mine"\nbase_url = "{server.base_url}"\napi_key_env = ""\n'
        folder.write("agentorchestra.toml", profile)
        words = ("debate", TOPIC, *EXPERTS, "--model", "mine", "--rounds", "1")
        done = await asyncio.to_thread(lambda: folder.run(*words, env={}))
    assert done.code == 0, done.err
    assert "[B2] (answers A2) Past growth is no proof." in done.err and "It may be held. [A1][B1]" in done.out
