"""`Evaluation` in a program, on questions in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra import Evaluation, Settings, Workspace
from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile, Price
from agentorchestra.evaluation.plan import Arm
from agentorchestra.testing import ScriptedModel
from tests.evaluation.support import adds, adds_small, sums


def workspace(folder: Path, requests: list[str]) -> Workspace[None]:
    def counted(name: str) -> ScriptedModel:
        def reply(request: ModelRequest) -> str:
            requests.append(name)
            return {"able": adds, "weak": adds_small}[name](request)

        return ScriptedModel(reply, name=name, profile=ModelProfile(model=name, price=Price(input=0, output=0)))

    models = {name: counted(name) for name in ("able", "weak")}
    return Workspace(folder, models=models, settings=Settings(system="direct", model="able"))


async def test_arms_are_asked_scored_and_reported_once(tmp_path: Path) -> None:
    requests: list[str] = []
    data = sums(tmp_path / "data", 8)
    arms: list[str | Arm] = ["direct", Arm(name="weak", system="direct", model="weak")]
    async with workspace(tmp_path / "ws", requests) as ws:
        evaluation = Evaluation(ws, data, arms, name="first")
        with pytest.raises(EvaluationError, match="first"):
            await evaluation.report()
        scores = await evaluation.run()
        right = {name: sum(score.score or 0 for score in scores if score.arm == name) for name in ("direct", "weak")}
        assert right == {"direct": 8, "weak": 5}
        assert "| direct - weak | +37.5" in await evaluation.report()
        assert {run.manifest.labels["evaluation"] for run in await ws.runs.list()} == {"first"}
    assert sorted(requests) == ["able"] * 8 + ["weak"] * 8
    again = Evaluation(workspace(tmp_path / "ws", requests), data, arms, name="first")
    assert (await again.run(), len(requests)) == (scores, 16)


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    data = sums(tmp_path / "data", 2)
    ws = workspace(tmp_path / "ws", [])
    for questions, arms, limits, reason in (
        (tmp_path / "gone", ["direct"], {}, "gone"),
        (data, [], {}, "the arms are named nothing"),
        (data, ["direct"], {"repeats": 0}, "repeats is 0"),
        (data, ["direct"], {"source": "lokal"}, "no set 'lokal'"),
    ):
        with pytest.raises(EvaluationError, match=reason):
            Evaluation(ws, questions, arms, **limits)
    assert not (tmp_path / "ws").exists()
