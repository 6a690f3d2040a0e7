"""The life of a version, copies, who may invoke, and names that are hidden and come back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Workspace, tool
from agentorchestra.agents.agent import Agent
from agentorchestra.core.effects import Effect
from agentorchestra.core.errors import LifecycleError, NotAllowedError, UnknownComponentError, UsageError, VersionError
from agentorchestra.core.policy import PolicyView, Verdict
from agentorchestra.core.spec import Question
from agentorchestra.testing import ScriptedModel, call
from tests.registry.support import PRICE, imported, shop
from tests.runtime.counter import Counter

DEARER = PRICE.replace("12.5", "13.5")


@tool(effect="pure")
def twice(number: int) -> int:
    """Two times a number."""
    return 2 * number


async def test_a_candidate_is_called_by_its_version_until_it_is_active(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        (candidate,) = await ws.tcp.register(source=DEARER, state="candidate", author="generator", reason="trial")
        assert (candidate.version, candidate.state) == ("1.0.1", "candidate")
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5
        assert (await ws.tcp.invoke("price_of", {"item": "a"}, version="1.0.1")).value == 13.5
        with pytest.raises(LifecycleError, match="is a candidate, which never was in use; activate it instead"):
            await ws.tcp.restore("price_of", "1.0.1")
        await ws.tcp.activate("price_of", "1.0.1")
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 13.5


async def test_transitions_are_checked(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        await ws.tcp.update("price_of", source=DEARER)
        with pytest.raises(LifecycleError, match=r"price_of@1\.0\.0 is active and cannot become archived"):
            await ws.tcp.archive("price_of", "1.0.0")
        await ws.tcp.deprecate("price_of", "1.0.0", reason="prices rose")
        old = (await ws.tcp.versions("price_of"))[0]
        assert (old.state, old.why) == ("deprecated", "prices rose")
        assert (await ws.tcp.invoke("price_of", {"item": "a"}, version="1.0.0")).value == 12.5
        await ws.tcp.archive("price_of", "1.0.0")
        with pytest.raises(LifecycleError, match="archived and cannot become active"):
            await ws.tcp.restore("price_of", "1.0.0")
        await ws.tcp.deprecate("price_of")
        with pytest.raises(LifecycleError, match="is what 'price_of' means now; restore another version first"):
            await ws.tcp.archive("price_of", "1.0.1")


async def test_what_is_deprecated_is_no_longer_found(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        assert [one.config.name for one in await ws.tcp.retrieve("price of an item", limit=1)] == ["price_of"]
        await ws.tcp.deprecate("price_of")
        assert "price_of" not in [one.config.name for one in await ws.tcp.retrieve("price of an item")]
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5
        await ws.tcp.activate("price_of", "1.0.0")
        assert [one.config.name for one in await ws.tcp.retrieve("price of an item", limit=1)] == ["price_of"]


async def test_an_unregistered_name_is_hidden_and_stays_readable(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        run = await ws.run("What is 2 + 2?", model="offline")
        await ws.tcp.unregister("price_of", reason="no longer sold")
        assert "price_of" not in await ws.tcp.list()
        with pytest.raises(UnknownComponentError, match="it was unregistered; restore it"):
            await ws.tcp.get("price_of")
        assert [one.version for one in await ws.tcp.versions("price_of")] == ["1.0.0"]
        assert "return 12.5" in await ws.tcp.source("price_of", "1.0.0")
        record = await ws.store.get_run(run.run_id)
        assert record is not None and record.manifest.tools["price_of"].version == "1.0.0"
        second = await ws.create("anything", model="offline")
        record = await ws.store.get_run(second)
        assert record is not None and "price_of" not in record.manifest.tools
    async with shop(tmp_path) as ws:  # the code at hand does not bring it back
        assert "price_of" not in await ws.tcp.list()
        await ws.tcp.restore("price_of")
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5


async def test_a_copy_has_its_own_life(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        copy = await ws.tcp.copy("price_of")
        assert copy.component == "price_of_copy@1.0.0"
        await ws.tcp.copy("price_of", "cost_of", version="3.0.0", reason="another word")
        (held,) = await ws.tcp.versions("cost_of")
        assert (held.version, held.parent, held.reason) == ("3.0.0", "price_of@1.0.0", "another word")
        code, *_ = await ws.tcp.vars("cost_of")
        await ws.tcp.setvars("cost_of", {"code": code.value.replace("12.5", "9.0")})
        assert (await ws.tcp.invoke("cost_of", {"item": "a"})).value == 9.0
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5
        with pytest.raises(VersionError, match="there is a tool 'cost_of' already"):
            await ws.tcp.copy("price_of", "cost_of")
    async with Workspace(tmp_path / "ws") as ws:  # copies were registered: they are there without the application
        assert (await ws.tcp.invoke("cost_of", {"item": "a"})).value == 9.0
        assert (await ws.tcp.invoke("price_of_copy", {"item": "a"})).value == 12.5
        assert "price_of" not in await ws.tcp.list()


async def test_only_some_may_invoke(tmp_path: Path) -> None:
    model = ScriptedModel([call("twice", number=2), call("done", answer="it is not for me", status="partial")])
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(twice, invokers=["analyst"])
        with pytest.raises(NotAllowedError, match="'twice' may be called by analyst only"):
            await ws.tcp.invoke("twice", {"number": 2})
        result = await ws.run("Twice two?", model=model, system="react")
        events = await ws.log.events(result.run_id)
        denied = [e.body["outcome"] for e in events if e.type == "completed" and e.body and "twice" in str(e.body)]
        assert any("may not call twice; these may: analyst" in str(one) for one in denied), denied
        with pytest.raises(NotAllowedError, match="cannot be limited; leave invokers out"):
            await ws.acp.register(Agent("helper", "Helps."), invokers=["user"])


@pytest.mark.long
async def test_environments_and_agents_have_the_same_life(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", environments={"counter": Counter}) as ws:
        assert (await ws.ecp.invoke("counter", "add", {"by": 3})).ok
        assert (await ws.ecp.invoke("counter", "add", {"by": 4})).ok
        refused = await ws.ecp.invoke("counter", "add", {"number": 4})
        assert refused.status == "mistake" and "by" in (refused.error or "")
        assert "7" in str((await ws.ecp.state("counter"))[0])
        with pytest.raises(UnknownComponentError, match="has no action 'ad'; did you mean 'add'"):
            await ws.ecp.invoke("counter", "ad", {})
        await ws.acp.register(Agent("helper", "Helps with sums."), reason="new")
        assert "helper" in ws.catalog.agents
        await ws.acp.update("helper", Agent("helper", "Helps with sums and more."))
        assert [one.version for one in await ws.acp.versions("helper")] == ["1.0.0", "1.0.1"]
        result = await ws.acp.invoke("helper", "What is 2 + 2?", model="offline")
        assert result.system == "helper"
    async with Workspace(tmp_path / "ws") as ws:  # an agent is its definition: it is there without the application
        assert (await ws.acp.get("helper")).description == "Helps with sums and more."
        await ws.acp.restore("helper", "1.0.0")
        assert (await ws.acp.get("helper")).description == "Helps with sums."


async def test_direct_calls_are_recorded_and_replayed(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        for item in ("pear", "plum"):
            await ws.tcp.invoke("price_of", {"item": item})
        refused = await ws.tcp.invoke("price_of", {"itm": "pear"})
        assert refused.status == "mistake" and "item" in (refused.error or "")
    async with shop(tmp_path) as ws:
        (run,) = await ws.runs.list()
        assert run.status.value == "completed" and run.manifest.task == "calls outside of a run"
        assert (await ws.replay(run.id)).keys == 3


class _AsksToSend:
    """A policy that asks before anything is sent."""

    def decide(self, effect: Effect, view: PolicyView) -> Verdict:
        return Verdict(action="ask" if effect.name == "send" else "allow", reason="it sends")


async def test_who_calls_directly_is_asked_where_policy_asks(tmp_path: Path) -> None:
    done = []

    @tool(effect=("write", "send"))
    def send(text: str) -> str:
        """Send a text."""
        done.append(text)
        return "sent"

    async def yes(question: Question) -> bool:
        return question.kind == "approval"

    async with Workspace(tmp_path / "ws", tools=[send]) as ws:
        assert (await ws.tcp.invoke("send", {"text": "mine"})).result() == "sent"  # the user's own words
    async with Workspace(tmp_path / "ws", tools=[send], policy=_AsksToSend()) as ws:
        outcome = await ws.tcp.invoke("send", {"text": "nobody there"})
        assert outcome.status == "denied" and "nobody can be asked" in (outcome.error or "")
    async with Workspace(tmp_path / "ws", tools=[send], policy=_AsksToSend(), asker=yes) as ws:
        assert (await ws.tcp.invoke("send", {"text": "approved"})).result() == "sent"
    assert done == ["mine", "approved"]


async def test_give_one_thing(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        with pytest.raises(UsageError, match="give a tool, its source= or its path=, one of them"):
            await ws.tcp.register()


async def test_what_cannot_be_made_again_is_noted_in_the_runs(tmp_path: Path) -> None:
    text = "import shop_of_that_day\n\n\ndef sell(item: str) -> int:\n    return 1\n"
    (tmp_path / "shop_of_that_day.py").write_text("", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        async with Workspace(tmp_path / "ws") as ws:
            await ws.tcp.register(source=text)
    for name in [name for name in sys.modules if name.startswith(("shop_of", "agentorchestra_source_"))]:
        del sys.modules[name]
    (tmp_path / "shop_of_that_day.py").unlink()
    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("What is 2 + 2?", model="offline")
        notes = [e.body["message"] for e in await ws.log.events(result.run_id) if e.type == "noted" and e.body]
        assert any("No module named 'shop_of_that_day'" in str(note) for note in notes), notes
        with pytest.raises(VersionError, match="No module named 'shop_of_that_day'"):
            await ws.tcp.invoke("sell", {"item": "a"})


async def test_another_implementation_gives_nobody_a_right(tmp_path: Path) -> None:
    price_of = imported(tmp_path, PRICE).price_of
    async with Workspace(tmp_path / "ws", tools=[price_of]) as ws:
        # It is registered already, by being at hand: who may invoke it is said of the version that is there.
        await ws.tcp.register(price_of, invokers=["worker"])
        with pytest.raises(NotAllowedError, match="may be called by worker only"):
            await ws.tcp.invoke("price_of", {"item": "a"})
        await ws.tcp.update("price_of", source=PRICE.replace("12.5", "13.5"))
        with pytest.raises(NotAllowedError, match="may be called by worker only"):
            await ws.tcp.invoke("price_of", {"item": "a"})
        await ws.tcp.save(tmp_path / "tools.json")
    async with shop(tmp_path, PRICE.replace("12.5", "14.5")) as ws:  # the module was edited
        await ws.tcp.restore("price_of", "1.0.2")
        assert [one.invokers for one in await ws.tcp.versions("price_of")] == [("worker",)] * 3
        with pytest.raises(NotAllowedError, match="may be called by worker only"):
            await ws.tcp.invoke("price_of", {"item": "a"})
        await ws.tcp.register(path=_file(tmp_path, PRICE), invokers=["user"])
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5
    async with Workspace(tmp_path / "other", tools=[imported(tmp_path, PRICE).price_of]) as ws:
        await ws.tcp.load(tmp_path / "tools.json", trusted=True)
        assert (await ws.tcp.versions("price_of"))[-1].invokers == ("worker",)


def _file(folder: Path, text: str) -> Path:
    (folder / "shop.py").write_text(text, encoding="utf-8")
    return folder / "shop.py"


async def test_whoever_reads_foreign_code_and_stands_for_it_has_it_as_their_own(tmp_path: Path) -> None:
    text = "def twice(number: int) -> int:\n    return 2 * number\n"
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(source=text, name="twice", trusted=False)
        assert (await ws.tcp.versions("twice"))[0].foreign
        await ws.tcp.register(source=text)
    async with Workspace(tmp_path / "ws") as ws:
        assert not (await ws.tcp.versions("twice"))[0].foreign
        assert (await ws.tcp.get("twice"))(number=4) == 8
        await ws.tcp.register(source=text, name="twice", trusted=False)  # the same words again are still theirs
        assert not (await ws.tcp.versions("twice"))[0].foreign


async def test_what_is_archived_is_over(tmp_path: Path) -> None:
    text = "def thrice(number: int) -> int:\n    return 3 * number\n"
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(source=text)
        await ws.tcp.update("thrice", source=text.replace("3 *", "30 *"))
        await ws.tcp.deprecate("thrice", "1.0.0")
        await ws.tcp.archive("thrice", "1.0.0")
        assert await ws.tcp.source("thrice", "1.0.0") == text
        with pytest.raises(LifecycleError, match=r"thrice@1\.0\.0 is archived: it can be read and not called"):
            await ws.tcp.invoke("thrice", {"number": 2}, version="1.0.0")
        with pytest.raises(LifecycleError, match="register its content again"):
            await ws.tcp.restore("thrice", "1.0.0")
        (config,) = await ws.tcp.register(source=text)  # as the sentence says
        assert (config.version, config.state) == ("1.0.2", "active")
        assert (await ws.tcp.invoke("thrice", {"number": 2})).value == 6


async def test_direct_actions_are_done_on_one_instance(tmp_path: Path) -> None:
    made: list[str] = []
    opened: list[str] = []

    class Counted(Counter):
        def __init__(self) -> None:
            super().__init__()
            made.append("one")

        async def open(self, ctx: Any) -> None:
            opened.append("one")
            await super().open(ctx)

    async with Workspace(tmp_path / "ws", environments={"counter": Counted}) as ws:
        await ws.ecp.invoke("counter", "add", {"by": 1})
        at_first = len(made)
        for _ in range(11):
            assert (await ws.ecp.invoke("counter", "add", {"by": 1})).ok
        assert "12" in str((await ws.ecp.state("counter"))[0])
    assert (len(made) - at_first, len(opened)) == (0, 1)


async def test_an_environment_that_is_registered_after_the_first_direct_call(tmp_path: Path) -> None:
    source = (Path(__file__).parents[1] / "runtime" / "counter.py").read_text(encoding="utf-8")
    async with Workspace(tmp_path / "ws", tools=[twice]) as ws:
        assert (await ws.tcp.invoke("twice", {"number": 2})).value == 4
        await ws.ecp.register(source=source, name="Counter")
        assert (await ws.ecp.invoke("Counter", "add", {"by": 2})).value == 2


async def test_an_updated_environment_goes_on_from_its_state(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "runtime" / "counter.py").read_text(encoding="utf-8")
    async with Workspace(tmp_path / "ws") as ws:
        await ws.ecp.register(source=text, name="Counter")
        await ws.ecp.invoke("Counter", "add", {"by": 3})
        faster = text.replace('arguments["by"]', '10 * arguments["by"]')
        assert faster != text
        await ws.ecp.update("Counter", source=faster)
        await ws.ecp.invoke("Counter", "add", {"by": 3})
        assert "33" in str((await ws.ecp.state("Counter"))[0])
        await ws.ecp.restore("Counter", "1.0.0")
        await ws.ecp.invoke("Counter", "add", {"by": 3})
        assert "36" in str((await ws.ecp.state("Counter"))[0])
