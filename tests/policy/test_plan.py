"""The plan before the reading: what lies inside of it runs, what lies outside is asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra import Settings, Workspace, tool
from agentorchestra.core.spec import Question
from agentorchestra.testing import ScriptedModel, call

BILL = "Bill of Holz Meier KG\nTotal: 340.00 EUR\nIBAN: DE89370400440532013000\n"


def source(kind: str, tool: str = "", where: str = "", what: str = "") -> dict[str, str]:
    return {"kind": kind, "tool": tool, "where": where, "what": what}


def use(tool: str, times: int = 1, **arguments: list[dict[str, str]]) -> dict[str, Any]:
    listed = [{"argument": name, "sources": sources} for name, sources in arguments.items()]
    return {"tool": tool, "times": times, "arguments": listed}


def plan(*uses: dict[str, Any]) -> dict[str, Any]:
    return {"uses": [*uses]}


PAY = use(
    "pay",
    to=[source("result", "read_bill", "iban", "the account of the bill")],
    amount=[source("result", "read_bill", "total", "the total of the bill")],
    note=[source("composed")],
)


async def asked(
    folder: Path,
    script: list[Any],
    stated: Any,
    *,
    task: str = "Pay the bill.",
    bill: str = BILL,
    answer: bool = False,
) -> tuple[list[Question], list[dict[str, Any]], ScriptedModel]:
    """Run a script; return what was asked, what was paid, and the model."""
    questions: list[Question] = []
    paid: list[dict[str, Any]] = []

    @tool(effect="read")
    def read_bill() -> str:
        """Read the bill."""
        return bill

    @tool(effect="spend")
    def pay(to: str, amount: float, note: str = "") -> str:
        """Pay somebody."""
        paid.append({"to": to, "amount": amount, "note": note})
        return "paid"

    async def asker(question: Question) -> bool:
        questions.append(question)
        return answer

    model = ScriptedModel([*script, call("done", answer="ok")], plan=stated)
    settings = Settings(system="react", model="own")
    async with Workspace(folder, tools=[read_bill, pay], models={"own": model}, settings=settings, asker=asker) as ws:
        result = await ws.run(task)
        assert result.status == "completed"
    model.finish()
    return questions, paid, model


READ = call("read_bill")
GOOD = call("pay", to="DE89370400440532013000", amount=340, note="Your bill")


async def test_a_call_inside_the_plan_runs_without_a_question(tmp_path: Path) -> None:
    questions, paid, model = await asked(tmp_path, [READ, GOOD], plan(PAY))
    assert not questions
    assert len(paid) == 1
    assert len(model.plan_requests) == 1


async def test_without_a_plan_the_same_call_is_asked_about(tmp_path: Path) -> None:
    questions, _, _ = await asked(tmp_path, [READ, GOOD], None)
    assert len(questions) == 1


async def test_a_call_outside_the_plan_is_asked_about_although_nothing_was_read(tmp_path: Path) -> None:
    blind = call("pay", to="US133000000121212121212", amount=20)
    questions, paid, _ = await asked(tmp_path, [blind], plan(), task="What is on the bill?")
    assert not paid
    assert "do not call for it" in questions[0].question
