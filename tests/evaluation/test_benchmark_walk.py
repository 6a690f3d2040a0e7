"""Three questions of each benchmark, in its own format, asked and scored: one by one as its users would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.evaluation.benchmarks.pages import ANSWER_PAGES
from agentorchestra.evaluation.plan import Arm, make_plan
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evaluation.runner import Runner
from agentorchestra.evaluation.scores import judged_usd, score
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace
from tests.evaluation import benchmark_data

pytestmark = pytest.mark.long  # inspect-evals takes seconds to import

ON_A_MACHINE = {"terminal-bench-2", "swe-bench-verified"}
"""Sets that are worked on with the terminal: test_task_sets.py."""

KNOWN = {
    "How many jars": "17",
    "Which colour has the gate": "Sea Green",
    "two rivers of Varn": "Zo, Ammel",  # in the wrong order
    "capital of Varn": "It is Orsolo.",
    "Who built it": "Ida Marl, I think",
    "In which year": "1205",
    "Which painter of Varn": "Exact Answer: Tilda Öst",
    "was lost in the flood": "Exact Answer: The Ferry",
    "Who found its frame": "Exact Answer: Jan Beck",
    "animal is on the shield": "Explanation: it has a beak\nAnswer: a heron\nConfidence: 80%",
    "star of Varn": "Answer: 11",
    "Whose motto": "Answer: the bakers'",
    "Varn clock fall": "3 s",
    "dissolves orsolite": "water",
    "ferry moth eat": "none of these",
    "{a} + 1": "a + 1 = 41\nANSWER: 41",
    "{a} + 2": "\\boxed{42}",
    "{a} + 3": "ANSWER: 34",
    "$90 + 0$": "90",
    "$90 + 1$": "ANSWER: 91.",
    "$90 + 2$": "92 or 93",
}
"""What the model knows: of each three the last is wrong."""


def solves(request: ModelRequest) -> str:
    """A model that knows something, and takes the letter of what it knows where it is to choose."""
    text = request.messages[-1].text
    (answer,) = (one for part, one in KNOWN.items() if part in text)
    choice = re.search(rf"^([A-D])\) {re.escape(answer)}$", text, re.MULTILINE)
    return f"ANSWER: {choice[1]}" if choice else answer


def judges(request: ModelRequest) -> str:
    """A judge that finds the true answer in the answer or does not."""
    text = request.messages[-1].text
    if "Gold target:" in text:
        truth, answer = re.findall(r"Gold target: (.*)\nPredicted answer: (.*)", text)[-1]
        return "A" if truth in answer else "B"
    (truth,) = re.findall(r"\[correct_answer\]: (.*)", text)
    (answer,) = re.findall(r"\[response\]: (.*?)\n\nYour judgement", text, re.DOTALL)
    return f"reasoning: compared\n\ncorrect: {'yes' if truth in answer else 'no'}\n\nconfidence: 100"


@pytest.mark.parametrize("name", sorted({*benchmark_data.WRITERS} - ON_A_MACHINE))
async def test_a_benchmark_from_its_data_to_its_scores(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_evals.constants.INSPECT_EVALS_CACHE_PATH", tmp_path / "cache")
    data = benchmark_data.WRITERS[name](tmp_path / "data")
    arm = Arm(name="one", model="solver")
    plan = make_plan(load_set(name, data), [arm], source=name, data=str(data), name="trial", judge="judge")
    folder = tmp_path / "workspace"

    def workspace(where: Path, of: Arm | None = None) -> Workspace[Any]:
        settings = Settings(system="direct", model="solver")
        price = Price(input=1, output=1)
        return Workspace(
            where,
            settings=of.merge(settings) if of else settings,
            models={
                each: ScriptedModel(function, profile=ModelProfile(model=each, price=price))
                for each, function in (("solver", solves), ("judge", judges))
            },
        )

    ending = await Runner(folder, plan, plan.load(), workspaces=workspace).run()
    assert (ending.runs, ending.refusals) == (3, {})
    async with workspace(folder) as ws:
        scores = await score(ws, plan, plan.load())
        cost = await judged_usd(ws, plan)
    if name == "gaia-test":
        assert [(one.status, one.score) for one in scores] == [("missing", None)] * 3
        assert {one.why.partition(";")[0] for one in scores} == {"the true answer is not public"}
    else:
        assert [one.status for one in scores] == ["ok", "ok", "wrong"]
    assert (cost or 0) > 0 if name in ("simpleqa", "hle", "browsecomp") else cost == 0
    # What the set knows of its answers besides is nowhere in the workspace, log and blobs included.
    files = [one for one in folder.rglob("*") if one.is_file()]
    assert files and not [one for one in files if b"CANARY" in one.read_bytes()]
    assert {*ANSWER_PAGES} <= {*arm.merge(Settings()).web.deny}
