"""Compound tools: checked when they are made, each step an effect of its own, a failure names its step."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from agentorchestra import Workspace, tool
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import tool_from_schema
from agentorchestra.tea.transformations.compound import Given, Result, Step, compound
from tests.tea.transformations.support import probed


class Offer(BaseModel):
    item: str
    price: float
    notes: list[str] = []


@dataclasses.dataclass
class Money:
    amount: float
    currency: str


@tool(effect="read")
def offer_of(item: str) -> Offer:
    """The offer for an item."""
    return Offer(item=item, price=12.5, notes=["fresh"])


@tool(effect="pure")
def convert(amount: float, currency: Literal["EUR", "USD"] = "EUR") -> Money:
    """Convert euros."""
    return Money(amount * (1.1 if currency == "USD" else 1), currency)


@tool(effect="pure")
def label(money: Money, note: str, width: int = 10) -> str:
    """A label."""
    return f"{money.amount:.2f} {money.currency}: {note}".ljust(width)


@tool(effect="pure")
def fail(x: int) -> int:
    """Never works."""
    raise ValueError(f"{x} is wrong")


@tool(effect="pure")
def count(words: list[str]) -> int:
    """How many."""
    return len(words)


NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
unknown = tool_from_schema(
    lambda **_: [{"rows": []}], ToolSchema(name="unknown", description="?", parameters=NOTHING), effect="read"
)

QUOTE = compound(
    "quote",
    "A price tag in another currency.",
    [
        Step(offer_of, {"item": Given("item")}),
        Step(convert, {"amount": Result("offer_of", ("price",)), "currency": Given("currency")}),
        Step(label, {"money": Result("convert"), "note": Result("offer_of", ("notes", 0)), "width": 20}, name="tag"),
    ],
)


async def test_it_is_one_tool_whose_steps_are_effects(tmp_path: Path) -> None:
    assert QUOTE.schema.parameters == {
        "type": "object",
        "properties": {
            "item": {"type": "string"},
            "currency": {"enum": ["EUR", "USD"], "type": "string", "default": "EUR"},
        },
        "additionalProperties": False,
        "required": ["item"],
    }

    async def probe(ctx: BranchContext[Any]) -> list[Any]:
        asked = [{"item": "pear", "currency": "USD"}, {"item": "pear"}, {"item": "pear", "currency": "GBP"}]
        return [(o.value, o.error) for o in [await ctx.call_tool("quote", **one) for one in asked]]

    async with Workspace(tmp_path / "ws", tools=[QUOTE]) as ws:
        result = await ws.run('quote(item="pear", currency="USD")', system="react", model="offline")
        assert result.status == "completed" and "13.75 USD: fresh" in result.answer
        inside = [e for e in await ws.log.events(result.run_id) if e.branch.endswith(".quote")]
        assert [e.body["effect"]["component"] for e in inside] == ["offer_of@1.0.0", "convert@1.0.0", "label@1.0.0"]
    result = await probed(tmp_path, probe, tools=[QUOTE])
    assert "('13.75 USD: fresh    ', None), ('12.50 EUR: fresh    ', None)" in result.answer
    assert "is not one of" in result.answer and 'currency ("EUR" | "USD", default "EUR")' in result.answer


async def test_a_failure_names_its_step_and_nothing_after_it_happens(tmp_path: Path) -> None:
    happened: list[str] = []

    @tool(effect="write")
    def after(x: Any) -> str:
        """After."""
        happened.append("after")
        return "done"

    broken = compound("broken", "Breaks.", [Step(fail, {"x": 3}, name="first"), Step(after, {"x": Result("first")})])
    missing = compound("missing", "Misses.", [Step(unknown), Step(after, {"x": Result("unknown", (0, "row"))})])

    async def probe(ctx: BranchContext[Any]) -> str:
        return "; ".join([str((await ctx.call_tool(name)).error) for name in ("broken", "missing")])

    result = await probed(tmp_path, probe, tools=[broken, missing])
    assert "broken: step 'first' failed: tool fail failed: ValueError: 3 is wrong" in result.answer
    assert "missing: step 'after' needs 'row' of the result of 'unknown', which has none" in result.answer
    assert happened == []


async def test_whoever_may_call_it_may_not_call_its_steps(tmp_path: Path) -> None:
    async def probe(ctx: BranchContext[Any]) -> Any:
        return (await ctx.call_tool("offer_of", item="pear")).error

    result = await probed(tmp_path, probe, tools=[QUOTE])
    assert result.answer.startswith("'offer_of' is not among the tools this agent may use")


def test_steps_may_be_returned_and_used_twice() -> None:
    several = compound(
        "several",
        "Several.",
        [
            Step(convert, {"amount": Given("amount")}, name="one"),
            Step(convert, {"amount": Result("one", ("amount",)), "currency": "USD"}, name="two"),
        ],
        returns="one",
    )
    assert several.schema.parameters["required"] == ["amount"]
    again = compound("several", "Several.", [Step(convert, {"amount": Given("amount")}, name="one")])
    assert several.content_hash != again.content_hash


@pytest.mark.parametrize(
    ("steps", "more", "sentence"),
    [
        ([], {}, "compound tool 'x' has no steps"),
        ([Step("convert")],  # type: ignore[arg-type]
         {}, "is 'convert'; a step calls a tool"),
        ([Step(convert, {"amount": 1}), Step(convert, {"amount": 1})], {}, "two steps of compound tool 'x' are called"),
        ([Step(convert)], {}, "step 'convert' of compound tool 'x' does not give 'amount', which convert needs"),
        ([Step(convert, {"amont": 1})], {}, "gives 'amont', which convert does not take; it takes: amount, currency"),
        ([Step(convert, {"amount": "a lot"})], {}, "gives amount='a lot', which does not fit: 'a lot' is not of type"),
        ([Step(convert, {"amount": 1, "currency": "GBP"})], {}, "currency='GBP', which does not fit"),
        ([Step(convert, {"amount": Result("later")}), Step(fail, {"x": 1}, name="later")], {},
         "takes 'amount' from the step 'later', which does not come before it; before it come: none"),
        ([Step(convert, {"amount": 1})], {"returns": "other"}, "has no step 'other' to return; it has convert"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_when_it_is_made(steps: list[Any], more: dict[str, str], sentence: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        compound("x", "X.", steps, **more)
    assert sentence in str(caught.value)


async def test_a_result_that_does_not_fit_is_a_failure_of_its_step(tmp_path: Path) -> None:
    wrong = compound("wrong", "Wrong.", [Step(offer_of, {"item": "a"}), Step(convert, {"amount": Result("offer_of")})])

    async def probe(ctx: BranchContext[Any]) -> Any:
        return (await ctx.call_tool("wrong")).error

    result = await probed(tmp_path, probe, tools=[wrong])
    assert result.answer.startswith("wrong: step 'convert' failed: convert: amount: Input should be a valid number")
