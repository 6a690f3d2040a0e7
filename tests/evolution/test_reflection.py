"""Self-reflection: a broken tool is diagnosed, patched, and the patch is tried in the real sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.optimiser.evidence import Evidence, Variable
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import SandboxSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.evolution.evidence import evidence_of
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.evolution.optimising import options, shown, under, variables_of
from tests.sandbox.support import usable

SOURCE = '''from agentorchestra import tool

PRICES = {"lamp": 30, "chair": 45}


@tool(effect="pure")
def price_of(item: str) -> int:
    """Return the price of an item in euros.

    Args:
        item: Its name.
    """
    return PRICES[item]
'''
TASK = "What do the lamp and the Chair cost?"
KEY = "tool:price_of/code"


def clerk(request: ModelRequest) -> ModelResponse:
    """Look up each thing of the task as it is written there; answer with what came back."""
    results = [one.text for one in request.messages if one.role == "tool"]
    if results:
        return decide(calls=[call("done", answer=", ".join(results))])
    return decide(calls=[call("price_of", item=name) for name in ("lamp", "Chair")])


def lowered(code: str, failed: str) -> str:
    """Write the code so that it takes the argument in small letters."""
    return code.replace("PRICES[item]", "PRICES[item.lower()]")


@dataclass
class Doctor:
    """An optimiser's model: blames the code whose failing step it reads, and writes it as it was told to.

    Attributes:
        writes: the ways in which it writes a patch, one for each attempt; the last one for all further ones.
        asked: the requests for patches.
    """

    writes: tuple[Callable[[str, str], str], ...] = (lowered,)
    asked: list[ModelRequest] = field(default_factory=list)
    diagnosed: list[ModelRequest] = field(default_factory=list)

    def __call__(self, request: ModelRequest) -> ModelResponse:
        """Reply."""
        if request.messages[0].text.startswith("You diagnose a run"):
            self.diagnosed.append(request)
            return ModelResponse(text=json.dumps(self._diagnosis(request)))
        self.asked.append(request)
        code, said = under(request, "The text as it is now"), under(request, "What was said of a run")
        write = self.writes[min(len(self.asked), len(self.writes)) - 1]
        return ModelResponse(text=json.dumps({"reason": "It takes any case.", "text": write(code, said)}))

    def _diagnosis(self, request: ModelRequest) -> dict[str, Any]:
        failed = [(head, text) for head, text in shown(request) if re.match(r"Step \d+, failed", head)]
        used = "\n".join(head for head, _ in shown(request))
        texts = re.findall(r"The text (\S+) ", used)
        causes = []
        for head, text in failed:
            number = re.findall(r"\d+", head)[0]
            step = next(one for one, _ in shown(request) if one.startswith(f"Step {number} ("))
            causes += [{"variable": one, "part": 8, "why": text[:200]} for one in texts if one in step]
        return {
            "failures": [f"{head} {text}" for head, text in failed],
            "missing": [], "assumptions": [], "unsafe": [],
            "causes": causes + [{"variable": one, "part": 0, "why": ""} for one in texts],
        }  # fmt: skip


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    usable("bubblewrap")


def workspace(folder: Path, doctor: Any, **settings: Any) -> Workspace[Any]:
    """A workspace with a clerk and a doctor."""
    models = {"clerk": ScriptedModel(clerk, name="clerk"), "doctor": ScriptedModel(doctor, name="doctor")}
    return Workspace(folder / "ws", models=models, settings=Settings(**settings))


async def failed_run(ws: Workspace[Any]) -> tuple[list[Variable], list[Evidence]]:
    """Register the broken tool and have it fail; return its code and the parts of the prompt, and the evidence."""
    await ws.tcp.register(source=SOURCE, name="price_of")
    given = variables_of(await ws.tcp.vars("price_of"), "tool:price_of", source=await ws.tcp.source("price_of"))
    given = [one for one in given if one.variable == "code"]
    given += variables_of(await ws.components.prompts.vars("react"), "prompt:react")
    result = await ws.run(TASK, model="clerk", system="react")
    assert "KeyError: 'Chair'" in result.answer
    return given, [evidence_of(await ws.log.events(result.run_id), given, score=0.0)]


async def test_a_broken_tool_is_diagnosed_patched_and_tried(tmp_path: Path) -> None:
    doctor = Doctor()
    async with workspace(tmp_path, doctor) as ws:
        given = options(*await failed_run(ws))
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
        assert result.status is RunStatus.COMPLETED, result
        assert [(one["component"], one["variable"]) for one in result.output] == [("tool:price_of", "code")]
        records = Ledger.of(await ws.log.events(result.run_id)).records.values()
        tried = [one for one in records if one.kind is EffectKind.INVOKE_TOOL]
        # the call that failed first; both in the sandbox, through the door
        assert [one.effect["arguments"] for one in tried] == [{"item": "Chair"}, {"item": "lamp"}]
        assert all(one.outcome is not None and one.outcome.ok for one in tried)
        assert any(one.kind is EffectKind.RUN_CODE for one in records)
        assert (await ws.replay(result.run_id)).answer == result.answer
        await ws.tcp.setvars("price_of", {"code": result.output[0]["text"]}, trusted=False)
        assert (await ws.run(TASK, model="clerk", system="react")).answer == "30, 45"
    assert "KeyError: 'Chair'" in result.report
    assert len(doctor.diagnosed) == len(doctor.asked) == 1


@pytest.mark.long
async def test_a_patch_that_fails_its_trial_is_written_again_with_what_failed(tmp_path: Path) -> None:
    def raised(code: str, failed: str) -> str:
        return code.replace("PRICES[item]", "PRICES[item.upper()]")

    doctor = Doctor((raised, lowered))
    async with workspace(tmp_path, doctor) as ws:
        given = options(*await failed_run(ws))
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
    assert "item.lower()" in result.output[0]["text"]
    why = under(doctor.asked[1], "Why it was refused")
    assert """with {"item": "Chair"} it failed: price_of failed: KeyError: 'CHAIR'""" in why
    assert """with {"item": "lamp"} it failed: price_of failed: KeyError: 'LAMP'""" in why


def _reaching(code: str, failed: str) -> str:
    return code.replace("    return", "    import socket\n    return")


def _renamed(code: str, failed: str) -> str:
    return code.replace("item", "thing")


def _freed(code: str, failed: str) -> str:
    return code.replace('"pure"', '"network"')


def _broken(code: str, failed: str) -> str:
    return code.replace("return", "retrun")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("write", "said"),
    [
        (_reaching, "imports 'socket' in line "),
        (_renamed, "refuses calls that fitted: item was removed; thing is new and required; keep what it takes"),
        (_freed, "changes the decorator of 'price_of', which says what it may do; keep it"),
        (_broken, "is not Python: line "),
        (lambda code, failed: code.replace("[item]", "[item.upper()]"), "KeyError: 'CHAIR'"),
    ],
)
async def test_a_bad_patch_is_not_proposed(tmp_path: Path, write: Callable[[str, str], str], said: str) -> None:
    doctor = Doctor((write,))
    async with workspace(tmp_path, doctor) as ws:
        given = options(*await failed_run(ws), limits={"attempts": 1})
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
    assert (result.status, result.output) == (RunStatus.COMPLETED, [])
    assert f"{KEY} stays as it is: " in result.report and said in result.report


async def test_without_a_sandbox_code_is_not_changed(tmp_path: Path) -> None:
    async with workspace(tmp_path, Doctor(), sandbox=SandboxSettings(backend="none")) as ws:
        given = options(*await failed_run(ws), limits={"attempts": 1})
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
    assert result.output == []
    assert "there is no sandbox here in which the patch could be tried (agentorchestra doctor)" in result.report


async def test_the_texts_with_the_greatest_part_are_changed_first(tmp_path: Path) -> None:
    parts = {KEY: 3, "prompt:react/profile": 2, "prompt:react/task_rules": 9}

    def doctor(request: ModelRequest) -> ModelResponse:
        if request.messages[0].text.startswith("You diagnose a run"):
            causes = [{"variable": name, "part": part, "why": "It says so."} for name, part in parts.items()]
            return ModelResponse(text=json.dumps({"failures": ["It failed."], "causes": causes}))
        text = under(request, "The text as it is now")
        return ModelResponse(text=json.dumps({"text": f"{text.rstrip()} Take care.\n"}))

    async with workspace(tmp_path, doctor) as ws:
        given = options(*await failed_run(ws), limits={"changes": 1})
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
    assert [(one["variable"], one["text"].endswith(" Take care.\n")) for one in result.output] == [("task_rules", True)]
    assert "Its part: It says so." in result.output[0]["feedback"]


async def test_where_nothing_had_a_part_nothing_is_proposed(tmp_path: Path) -> None:
    async with workspace(tmp_path, lambda request: ModelResponse(text='{"causes": []}')) as ws:
        given = options(*await failed_run(ws))
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
    assert (result.output, result.report) == ([], "No text had a part in what was diagnosed, so nothing is proposed.")


async def test_without_a_readable_diagnosis_nothing_is_proposed(tmp_path: Path) -> None:
    async with workspace(tmp_path, lambda request: ModelResponse(text="It is ill.")) as ws:
        given = options(*await failed_run(ws))
        result = await ws.run("Improve it.", model="doctor", system="reflection", options=given)
    assert (result.status, result.output_value) == (RunStatus.BLOCKED, [])
    assert result.report == "No diagnosis of a run could be had, so nothing is proposed."
