"""Each component in three forms: function-calling schema, text, arguments as a pydantic model (000, C.5)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from agentorchestra import ActionEnvironment, Agent, Condition, Workspace, action, tool
from agentorchestra.agents.agent import Relationship
from agentorchestra.log.store import MemoryStore


@tool(effect="read")
def price_of(item: str, currency: Literal["EUR", "USD"] = "EUR", count: Annotated[int, Field(ge=1)] = 1) -> float:
    """What something costs.

    Args:
        item: what is bought.
    """
    return 1.0


class Shelf(ActionEnvironment):
    """A shelf that holds three books at most."""

    name = "shelf"

    def __init__(self) -> None:
        self.books: list[str] = []

    @action(before=[Condition("there is room", lambda self, given: len(self.books) < 3)])
    def put(self, title: str) -> int:
        """Put a book on it.

        Args:
            title: of the book.
        """
        self.books.append(title)
        return len(self.books)


CLERK = Agent(
    name="clerk",
    description="Sells books.",
    tools=("price_of",),
    environments=("shelf",),
    competencies=("finding a first edition",),
    objectives=("a full shelf",),
    relationships=(
        Relationship("hierarchical", "reporter", leads=True),
        Relationship("competitive", "worker", note="x"),
    ),
    prompt="worker",
)


async def test_every_kind_has_its_representations(tmp_path: Path) -> None:
    given: dict[str, Any] = {"tools": [price_of], "environments": {"shelf": Shelf}, "agents": [CLERK]}
    async with Workspace(tmp_path, store=MemoryStore(), **given) as ws:
        (priced,) = (await ws.tcp.info("price_of")).operations
        assert priced.function["function"] == {
            "name": "price_of", "description": "What something costs.", "parameters": price_of.schema.parameters,
        }  # fmt: skip
        assert '- `currency` ("EUR" | "USD", optional)' in priced.text
        model = price_of.arguments_model
        assert model.__name__ == "PriceOfArguments" and set(model.model_fields) == {"item", "currency", "count"}
        assert model(item="pear", count=2).model_dump(exclude_unset=True) == {"item": "pear", "count": 2}
        for wrong in (
            {},
            {"item": 1},
            {"item": "a", "currency": "GBP"},
            {"item": "a", "count": 0},
            {"item": "a", "x": 1},
        ):
            with pytest.raises(ValidationError):
                model.model_validate(wrong)

        shelf = await ws.ecp.info("shelf")
        assert "there is room" in shelf.rules and shelf.description == "A shelf that holds three books at most."
        (put,) = shelf.operations
        assert put.text.startswith("### put\n\nPut a book on it.\n\nBefore: there is room.")
        assert put.arguments_model.model_validate({"title": "Emma"}).model_dump() == {"title": "Emma"}

        clerk = await ws.acp.info("clerk")
        told = clerk.operations[0].arguments_model.model_validate({"task": "sell"})
        assert told.model_dump(exclude_unset=True) == {"task": "sell"}
        assert clerk.metadata["relationships"] == [
            {"kind": "hierarchical", "agent": "reporter", "leads": True, "note": ""},
            {"kind": "competitive", "agent": "worker", "leads": False, "note": "x"},
        ]
        contract = await ws.acp.contract()
        for said in (
            "Competencies: finding a first edition.",
            "Relationships: leads reporter; competes with worker (x).",
            "Environments: shelf.",
        ):
            assert said in contract
        found = await ws.acp.retrieve("who can find a first edition?", limit=1)
        assert found[0].config.name == "clerk"
