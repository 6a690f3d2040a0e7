"""A broken tool is diagnosed, patched, gated and promoted, by models that see only their prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import evolve
from agentorchestra.core.errors import EvolutionError, UsageError
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evolution.evolver import Evolver, alone
from agentorchestra.evolution.gate import GateTerms
from agentorchestra.evolution.optimisers import optimiser
from agentorchestra.evolution.record import Evolution, EvolutionRound, keep, new_evolution, read, rounds
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace import Workspace
from tests.evaluation.support import write_set
from tests.evolution.money import cents_of
from tests.evolution.optimising import under


def questions(folder: Path, count: int = 10, first: int = 11) -> Path:
    """Write questions that the tool is needed for; no wrong answer to one is the right answer to another."""
    amounts = [first + n for n in range(count)]
    lines = [
        {"id": f"q{n}", "question": f"How many cents are {n} euros and {n} more?", "answer": 200 * n} for n in amounts
    ]
    return write_set(folder, lines)


def worker(request: ModelRequest) -> ToolCall:
    """Convert the sum by the tool and answer with what it said."""
    said = [message.text for message in request.messages if message.role == "tool"]
    first, other = re.findall(r"are (\d+) euros and (\d+) more", "".join(one.text for one in request.messages))[-1]
    if not said:
        return call("cents_of", euros=int(first) + int(other))
    return call("done", answer=said[-1])


class Mender:
    """A model that finds the first line of a tool's code which contradicts what everybody knows of euros.

    Attributes:
        knows: the cents of a euro as it believes.
    """

    def __init__(self, knows: int = 100) -> None:
        self.knows = knows
        self.read: list[str] = []

    def __call__(self, request: ModelRequest) -> ModelResponse:
        words = "\n".join(message.text for message in request.messages)
        self.read.append(words)
        if request.messages[0].text.startswith("You diagnose a run"):
            code = under(request, "The text tool:cents_of/code")
            part = 10 if self._wrong(code) else 0
            causes = [{"variable": "tool:cents_of/code", "part": part, "why": f"a euro has {self.knows} cents"}]
            return ModelResponse(text=json.dumps({"failures": ["the amount is wrong"], "causes": causes}))
        code = under(request, "The text as it is now")
        text = code.replace(self._wrong(code)[0], f"euros * {self.knows})")
        return ModelResponse(text=json.dumps({"reason": f"a euro has {self.knows} cents", "text": text}))

    def _wrong(self, code: str) -> list[str]:
        """Return the conversions that are wrong, as it believes."""
        return [one for one in re.findall(r"euros \* \d+\)", code) if one != f"euros * {self.knows})"]


class Shop:
    """A workspace with the broken tool, whose requests are counted."""

    def __init__(self, folder: Path, mender: Mender | None = None, price: Price | None = None, **asks: int) -> None:
        self.folder, self.data = folder / "ws", questions(folder / "data", **asks)
        self.mender, self.price = mender or Mender(), price or Price(input=0, output=0)
        self.asked = {"worker": 0, "mender": 0}
        self.tell: Callable[[str], None] = lambda line: None

    def workspace(self, folder: Path, arm: Arm | None = None) -> Workspace[Any]:
        settings = Settings(system="react", model="worker")
        return Workspace(
            folder,
            tools=[cents_of],
            settings=settings if arm is None else arm.merge(settings),
            models={"worker": self._counted("worker", worker), "mender": self._counted("mender", self.mender)},
        )

    def _counted(self, name: str, reply: Any) -> ScriptedModel:
        def counted(request: ModelRequest) -> Any:
            self.asked[name] += 1
            return reply(request)

        return ScriptedModel(counted, profile=ModelProfile(model=name, price=self.price))

    def evolution(self, **fields: Any) -> Evolution:
        fields = {"subjects": ("tool:cents_of",), "optimiser": "reflection", "optimiser_model": "mender"} | fields
        made = new_evolution("cents", training=("local", str(self.data), load_set("local", self.data)), **fields)
        return keep(self.folder, made)

    async def evolve(self, **fields: Any) -> list[EvolutionRound]:
        evolution = self.evolution(**fields)
        evolver = Evolver(
            self.folder, evolution, optimiser(evolution.optimiser), workspaces=self.workspace, tell=self.tell
        )
        return await evolver.run()

    async def means(self) -> tuple[str, list[str]]:
        """What the tool's name means, and the states of all of its versions."""
        async with self.workspace(self.folder) as ws:
            current = (await ws.tcp.info("cents_of")).version
            return current, [one.state for one in await ws.tcp.versions("cents_of")]


async def test_a_broken_tool_is_diagnosed_patched_gated_and_promoted(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (first, second) = await shop.evolve(rounds=2, batch=2)
    assert (first.ended, first.versions, second.ended) == ("promoted", {"tool:cents_of": "1.0.1"}, "learnt")
    assert first.before is not None and first.before < 1
    assert first.after == 1
    assert first.decision is not None and first.decision.verdict == "promote"
    assert first.reasons == {"tool:cents_of/code": "a euro has 100 cents"}
    assert await shop.means() == ("1.0.1", ["active", "active"])
    async with shop.workspace(shop.folder) as ws:
        held = (await ws.tcp.versions("cents_of"))[1]
        assert (held.author, held.run, held.foreign) == ("evolution cents", first.run, True)
        assert "a euro has 100 cents" in held.reason
        assert "evaluation cents-1-gate" in held.why
        assert "it is better: +" in held.why
        result = await ws.run("How many cents are 4 euros and 3 more?")
        assert result.answer == "700"
        await ws.replay(first.run)
    async with shop.workspace(shop.folder) as ws:
        await ws.tcp.restore("cents_of", "1.0.0")
        assert (await ws.run("How many cents are 4 euros and 3 more?")).answer == "70"
        await ws.tcp.restore("cents_of", "1.0.1")
    # A stop between the promotion and the record of the round: it is found again.
    before, (record,) = dict(shop.asked), (shop.folder / "evolutions" / "cents").glob("rounds.jsonl")
    kept = record.read_text(encoding="utf-8")
    record.unlink()
    await shop.evolve(rounds=2, batch=2)
    assert (record.read_text(encoding="utf-8"), shop.asked) == (kept, before)
    # Nothing of the questions that decide, and no true answer of any question, stood in a request of the optimiser.
    evolution = read(shop.folder, "cents")
    known = load_set("local", shop.data).by_id
    words = "\n".join(shop.mender.read)
    assert any(known[one].task in words for one in evolution.training.ids)
    for one in evolution.validation.ids:
        assert known[one].task not in words
    assert [one for one in known if str(known[one].truth) in words] == []


@pytest.mark.long
async def test_what_was_tried_before_is_shown_to_the_optimiser(tmp_path: Path) -> None:
    shop = Shop(tmp_path, Mender(knows=60))
    first, _ = await shop.evolve(rounds=2, batch=2)
    assert first.ended == "no better"
    steps = [words for words in shop.mender.read if words.startswith("You improve one text")]
    assert "An earlier version" not in steps[0]
    assert "An earlier version, which scored 0" in steps[-1]
    assert "euros * 60" in steps[-1]


@pytest.mark.long
async def test_a_bad_patch_is_archived_before_anything_is_spent_on_its_validation(tmp_path: Path) -> None:
    shop = Shop(tmp_path, Mender(knows=60))
    (only,) = await shop.evolve(rounds=1, batch=2)
    assert only.ended == "no better"
    assert only.decision is None
    assert await shop.means() == ("1.0.0", ["active", "archived"])
    assert not (shop.folder / "evaluations" / "cents-1-gate").exists()


@pytest.mark.long
async def test_a_stop_at_any_step_is_gone_on_with_and_pays_nothing_twice(tmp_path: Path) -> None:
    whole = Shop(tmp_path / "whole")
    expected = await whole.evolve(rounds=1, batch=2)
    broken = Shop(tmp_path / "broken")
    stops = 0
    for step in ("cents-1-train", "cents-1-try", "cents-1-gate"):

        def stop(line: str, step: str = step) -> None:
            if line.startswith(step):
                raise KeyboardInterrupt(line)

        evolution = broken.evolution(rounds=1, batch=2)
        evolver = Evolver(broken.folder, evolution, optimiser("reflection"), workspaces=broken.workspace, tell=stop)
        with pytest.raises(KeyboardInterrupt):
            await evolver.run()
        stops += 1
    assert stops == 3
    ended = await broken.evolve(rounds=1, batch=2)
    assert [one.model_dump(exclude={"run"}) for one in ended] == [one.model_dump(exclude={"run"}) for one in expected]
    assert broken.asked == whole.asked
    assert rounds(broken.folder, "cents") == ended


@pytest.mark.long
async def test_a_person_decides_about_what_passed_the_gate(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (only,) = await shop.evolve(rounds=1, batch=2, promote="ask")
    assert (only.ended, await shop.means()) == ("waiting", ("1.0.0", ["active", "candidate"]))


@pytest.mark.long
async def test_the_papers_way_takes_what_does_better_on_its_own_questions(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (only,) = await shop.evolve(rounds=1, batch=2, promote="auto")
    assert (only.ended, only.decision, await shop.means()) == ("promoted", None, ("1.0.1", ["active", "active"]))


@pytest.mark.long
async def test_a_budget_that_ends_in_the_middle_goes_on_with_a_larger_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path, price=Price(input=1000, output=1000))
    whole = Shop(tmp_path / "whole", price=shop.price)
    (only,) = await whole.evolve(rounds=1, batch=2, question_usd=30.0, budget_usd=10_000.0)
    assert only.usd is not None and only.usd > 0
    with pytest.raises(EvolutionError, match=r"has no room for cents-1-gate.*--budget-usd X"):
        await shop.evolve(rounds=1, batch=2, question_usd=30.0, budget_usd=70.0)
    before = dict(shop.asked)
    (same,) = await shop.evolve(rounds=1, batch=2, question_usd=30.0, budget_usd=10_000.0)
    assert (same.ended, same.decision) == ("promoted", only.decision)
    assert before["mender"] == shop.asked["mender"]
    assert shop.asked == whole.asked


async def test_two_optimisers_of_one_component_are_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.evolution(rounds=1, batch=2)
    with alone(shop.folder, ["tool:cents_of"]), pytest.raises(EvolutionError, match="another process evolves tool:"):
        await shop.evolve(rounds=1, batch=2)
    assert shop.asked == {"worker": 0, "mender": 0}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"subjects": ("tool:sense_of",)}, "sense_of"),
        ({"subjects": ("cents_of",)}, "write KIND:NAME"),
        ({"variables": ("tool:cents_of/colour",)}, "is no variable of the subjects; they have: tool:cents_of/code"),
        ({"rounds": 0}, "rounds is 0"),
        ({"budget_usd": 5.0}, "needs a limit for each run"),
        ({"held_apart": 1.0}, "a share of 1 cannot be held apart"),
        ({"terms": GateTerms(), "repeats": 0}, "repeats is 0"),
    ],
)
async def test_what_is_refused_before_anything_is_spent(tmp_path: Path, fields: dict[str, Any], sentence: str) -> None:
    shop = Shop(tmp_path)
    with pytest.raises(UsageError, match=re.escape(sentence)):
        await shop.evolve(**fields)
    assert shop.asked == {"worker": 0, "mender": 0}


async def test_validation_that_overlaps_training_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    line = {"id": "z", "question": "HOW many cents are 13  euros and 13 more?", "answer": 2600}
    again = write_set(tmp_path / "again", [line])
    with pytest.raises(EvolutionError, match="the validation question 'z' is the training question 'q13' too"):
        shop.evolution(validation=("local", str(again), load_set("local", again)))


@pytest.mark.long
async def test_gepa_is_an_optimiser_of_the_same_interface(tmp_path: Path) -> None:
    shop = Shop(tmp_path, Rewriter())
    (only,) = await shop.evolve(rounds=1, batch=2, optimiser="gepa")
    assert (only.ended, only.reasons) == ("promoted", {"tool:cents_of/code": "the best of GEPA's candidates"})
    before = dict(shop.asked)
    (shop.folder / "evolutions" / "cents" / "rounds.jsonl").unlink()
    (same,) = await shop.evolve(rounds=1, batch=2, optimiser="gepa")
    assert (same.ended, same.decision, shop.asked) == (only.ended, only.decision, before)


class Rewriter(Mender):
    """A model that replies as GEPA asks: the whole text, between fences."""

    def __call__(self, request: ModelRequest) -> ModelResponse:
        words = "\n".join(message.text for message in request.messages)
        self.read.append(words)
        (code,) = re.findall(r"```\n(.*?)\n```", words, re.DOTALL)[:1]
        for wrong in self._wrong(code):
            code = code.replace(wrong, f"euros * {self.knows})")
        return ModelResponse(text=f"```\n{code}\n```")


@pytest.mark.long
async def test_a_program_evolves_a_component_of_its_own_workspace(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    options: dict[str, Any] = {"name": "cents", "optimiser": "reflection", "optimiser_model": "mender"}
    async with shop.workspace(shop.folder) as ws:
        (first,) = await evolve(ws, shop.data, on=["tool:cents_of"], rounds=1, batch=2, **options)
        assert (first.ended, first.versions) == ("promoted", {"tool:cents_of": "1.0.1"})
        requests = dict(shop.asked)
        assert await evolve(ws, shop.data, on=["tool:cents_of"], rounds=1, batch=2, **options) == [first]
        with pytest.raises(EvolutionError, match="begun with other batch"):
            await evolve(ws, shop.data, on=["tool:cents_of"], rounds=1, batch=3, **options)
        assert shop.asked == requests
        assert (await ws.run("How many cents are 4 euros and 3 more?")).answer == "700"
    assert (await shop.means())[0] == "1.0.1"
