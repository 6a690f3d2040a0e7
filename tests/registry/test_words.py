"""The words of components as variables: of tools, environments and agents, also where no text makes these."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentorchestra import Agent, RunContext, Workspace, tool
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import CandidateError, ToolDefinitionError, VersionError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import GeneratorSettings, Settings
from agentorchestra.tea.calling.environment import ActionEnvironment, action
from agentorchestra.testing import ScriptedModel, call, decide
from tests.registry.support import PRICE, imported, shop
from tests.support.runs import whole_runs


def taught(request: ModelRequest) -> ModelResponse:
    """A model that does what the words of its tools and of the environment's rules say, and tells what it got."""
    said = [message.text for message in request.messages if message.role == "tool"]
    told = {one.name: one for one in request.tools}
    if said:
        return decide(calls=[call("done", answer=said[-1])])
    if "till_put" in told:
        text = f"{request.messages[0].text} {told['till_put'].description} {told['till_put'].parameters}"
        return decide(calls=[call("till_put", amount=100 if "in cents" in text else 1)])
    item = "Pear" if "capital" in str(told["price_of"].parameters) else "pear"
    return decide(calls=[call("price_of", item=item)])


def model() -> ScriptedModel:
    return ScriptedModel(taught, name="scripted")


STRICT = PRICE.replace("return 12.5", 'return 12.5 if item == "Pear" else 0.0')


async def test_words_of_a_tool_are_a_version_of_it_that_a_run_names(tmp_path: Path) -> None:
    options = {"model": "scripted", "system": "react"}
    async with shop(tmp_path, STRICT, models={"scripted": model()}) as ws:
        words = {one.name: one for one in await ws.tcp.vars("price_of")}
        assert words["argument:item"].value == "what is bought." and words["argument:item"].role == "description"
        config = await ws.tcp.setvars(
            "price_of", {"argument:item": "what is bought, with a capital"}, candidate=True, author="reflection"
        )
        assert (config.version, config.state) == ("1.0.1", "candidate")
        named = {"components": {"tool:price_of": config.version}}
        assert (await ws.run("A pear?", **options)).answer == "0.0"  # type: ignore[arg-type]
        result = await ws.run("A pear?", **options, **named)  # type: ignore[arg-type]
        assert result.answer == "12.5"
        difference = await ws.tcp.diff("price_of", "1.0.0", "1.0.1")
        assert difference.level == "patch" and "+what is bought, with a capital\n" in difference.text
    async with shop(
        tmp_path, STRICT, models={"scripted": model()}
    ) as ws:  # from the text that is kept, in another process
        assert (await ws.replay(result.run_id)).answer == "12.5"
        await ws.tcp.activate("price_of", "1.0.1")
        assert (await ws.run("A pear?", **options)).answer == "12.5"  # type: ignore[arg-type]
        assert (await ws.tcp.restore("price_of", "1.0.0")).version == "1.0.0"
        assert (await ws.resume(result.run_id, pin=True)).answer == "12.5"


async def test_words_that_a_model_wrote_leave_the_code_where_it_runs_and_are_untrusted(tmp_path: Path) -> None:
    class Desk:
        """Prices that stand on the desk."""

        @tool(effect="pure")
        def price_of(self, ctx: RunContext[float], item: str) -> float:
            """The price of an item."""
            return ctx.deps

    async with Workspace(tmp_path / "ws", tools=[Desk()], deps=12.5) as ws:
        assert [one.name for one in await ws.tcp.vars("price_of")] == ["description", "argument:item"]
        config = await ws.tcp.setvars(
            "price_of", {"description": "The price of one item."}, candidate=True, trusted=False
        )
        one = await ws.tcp.get("price_of", config.version)
        assert (one.description, one.schema.trust) == ("The price of one item.", Trust.UNTRUSTED)
        assert not (await ws.tcp.versions("price_of"))[-1].foreign
        outcome = await ws.tcp.invoke("price_of", {"item": "pear"}, version=config.version)
        assert outcome.value == 12.5  # a method with the run's dependencies: no sandbox could run it

    class Desk2:
        """Another desk."""

        @tool(effect="pure")
        def price_of(self, item: str) -> float:
            """The price of an item."""
            return 1.0

    async with Workspace(tmp_path / "ws", tools=[Desk2()]) as ws:
        with pytest.raises(VersionError, match=r"price_of@1\.0\.1 is the tool 'price_of' of another program"):
            await ws.tcp.get("price_of", config.version)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_code_that_a_model_wrote_runs_in_the_sandbox_as_the_version_that_a_run_names(tmp_path: Path) -> None:
    settings = Settings(generator=GeneratorSettings(tools=("python",)))
    async with shop(tmp_path, models={"scripted": model()}, settings=settings) as ws:
        code, *_ = await ws.tcp.vars("price_of")
        values = {"code": code.value.replace("12.5", "10.0")}
        config = await ws.tcp.setvars("price_of", values, candidate=True, trusted=False)
        assert (await ws.tcp.versions("price_of"))[-1].foreign
        result = await ws.run("A pear?", model="scripted", system="react", components={"tool:price_of": config.version})
        assert result.answer == "10.0"
        programs = [e for e in await ws.log.events(result.run_id) if e.body.get("effect", {}).get("kind") == "RunCode"]
        assert programs
        calling = code.value.replace("return 12.5", "return float(tools.python(code='1'))")
        with pytest.raises(CandidateError, match="the tools that its code calls python too; now it has none"):
            await ws.tcp.setvars("price_of", {"code": calling}, candidate=True, trusted=False)


class Till(ActionEnvironment):
    """A till."""

    name = "till"

    def __init__(self) -> None:
        self.coins = 0

    @action
    def put(self, amount: int) -> int:
        """Put coins in.

        Args:
            amount: how much.
        """
        self.coins += amount
        return self.coins

    def rules(self) -> str:
        """Say how it is used."""
        return "The till has a drawer."


class Still(Till):
    """A till of which only the rules may be optimised."""

    name = "still"
    evolvable = ("rules",)


@pytest.mark.long
async def test_words_of_an_environment(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", environments={"till": Till}, models={"scripted": model()}) as ws:
        names = [one.name for one in await ws.ecp.vars("till")]
        assert names == ["code", "description", "rules", "action:put", "argument:put.amount"]
        answers = {}
        for name in ("rules", "action:put", "argument:put.amount"):
            config = await ws.ecp.setvars("till", {name: "Amounts are in cents."}, candidate=True, trusted=False)
            named = {"environment:till": config.version}
            result = await ws.run("Pay 1.", model="scripted", system="react", components=named)
            assert (await ws.replay(result.run_id)).answer == result.answer
            answers[name] = result.answer
        assert answers == dict.fromkeys(answers, "100")
        assert (await ws.run("Pay 1.", model="scripted", system="react")).answer == "1"
        code = (await ws.ecp.vars("till"))[0].value
        with pytest.raises(VersionError, match="code of environments that the workspace's user did not write"):
            await ws.ecp.setvars("till", {"code": code}, candidate=True, trusted=False)
        config = await ws.ecp.setvars("till", {"code": code.replace("+= amount", "+= 7 * amount")}, candidate=True)
        named = {"environment:till": config.version}
        assert (await ws.run("Pay 1.", model="scripted", system="react", components=named)).answer == "7"
        with pytest.raises(CandidateError, match="what it touches network too"):
            await ws.ecp.setvars(
                "till", {"code": code.replace("@action", '@action(effect=("write", "network"))')}, candidate=True
            )


async def test_words_of_packaged_components_and_agents(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", agents=[Agent("guide", "Knows cities.")], models={"scripted": model()}) as ws:
        for server, name in ((ws.tcp, "python"), (ws.acp, "deep_analyzer"), (ws.ecp, "files")):
            known = {one.name: one for one in await server.vars(name)}
            assert known["description"].evolvable and (await server.info(name)).evolvable
            text = known["description"].value + " It is careful."
            config = await server.setvars(name, {"description": text}, candidate=True)
            assert config.state == "candidate" and "It is careful." in config.description
        with pytest.raises(CandidateError, match="a candidate for tool 'todo' cannot change code"):
            await ws.tcp.setvars("todo", {"code": "pass"}, candidate=True)
        config = await ws.acp.setvars("guide", {"description": "Knows cities and their rivers."}, candidate=True)
        result = await ws.run(
            "Which?", system="guide", model=ScriptedModel(_done), components={"agent:guide": config.version}
        )
        (record,) = [one for one in await whole_runs(ws) if one.id == result.run_id]
        assert record.manifest.agents["guide"].version == config.version
        assert (await ws.replay(result.run_id)).answer == "yes"
        assert ws.catalog.agents["guide"].description == "Knows cities."
        await ws.tcp.activate("python", "1.0.1")
    async with Workspace(tmp_path / "ws") as ws:
        assert "It is careful." in (await ws.tcp.get("python")).description
        assert "careful" not in (await ws.tcp.restore("python", "1.0.0")).description  # the package's own words


def _done(request: ModelRequest) -> ModelResponse:
    return decide(calls=[call("done", answer="yes")])


async def test_the_author_says_what_may_be_optimised(tmp_path: Path) -> None:
    fixed = PRICE.replace('effect="pure"', 'effect="pure", evolvable=("description",)')
    async with shop(tmp_path, fixed) as ws:
        assert [one.name for one in await ws.tcp.vars("price_of") if one.evolvable] == ["description"]
        code, *_ = await ws.tcp.vars("price_of")
        with pytest.raises(CandidateError, match=r"cannot change code: .* evolvable are: description"):
            await ws.tcp.setvars("price_of", {"code": code.value}, candidate=True)
        freed = {"code": code.value.replace('evolvable=("description",)', "evolvable=True")}
        assert (await ws.tcp.setvars("price_of", freed)).state == "active"  # the user may: it is no candidate
    still = PRICE.replace('effect="pure"', 'effect="pure", evolvable=False')
    async with Workspace(tmp_path / "other", tools=[imported(tmp_path, still, "still").price_of]) as ws:
        assert not (await ws.tcp.info("price_of")).evolvable
        with pytest.raises(CandidateError, match="evolvable are: none"):
            await ws.tcp.setvars("price_of", {"description": "Dear."}, candidate=True)
        await ws.ecp.register(Still)
        assert {one.name for one in await ws.ecp.vars("still") if one.evolvable} == {"rules"}
        await ws.acp.register(Agent("guide", "Knows cities.", evolvable=False))
        assert not (await ws.acp.info("guide")).evolvable
        assert not any(one.evolvable for one in await ws.acp.vars("guide"))
    with pytest.raises(ToolDefinitionError, match="evolvable='description'; give True, False, or names"):
        tool(effect="pure", evolvable="description")(_done)


DRIVES = '''from agentorchestra.core.spec import AgentResult


async def shout(spec, session, kit):
    """Answer at once."""
    return AgentResult(answer="HO")


class Caller:
    """Answers with its word."""

    def __init__(self, word):
        self.word = word

    async def __call__(self, spec, session, kit):
        return AgentResult(answer=self.word)
'''


async def test_the_code_of_an_agent_is_the_text_of_what_drives_it(tmp_path: Path) -> None:
    def opened() -> Workspace:
        module = imported(tmp_path, DRIVES, "drives")
        agents = [
            Agent("shouter", "Shouts.", drive=module.shout),
            Agent("caller", "Calls.", drive=module.Caller("hey")),
        ]
        return Workspace(tmp_path / "ws", agents=agents)

    async def answer(ws: Workspace, name: str, version: str) -> str:
        return (await ws.run("Call.", system=name, model="offline", components={f"agent:{name}": version})).answer

    async with opened() as ws:
        for name, old, new in (("shouter", '"HO"', '"HO HO"'), ("caller", "self.word)", "self.word * 2)")):
            code, description = await ws.acp.vars(name)
            assert (code.role, description.name) == ("agent code", "description")
            changed = {"code": code.value.replace(old, new), "description": "Calls out."}
            with pytest.raises(VersionError, match="code of agents that the workspace's user did not write"):
                await ws.acp.setvars(name, changed, candidate=True, trusted=False)
            config = await ws.acp.setvars(name, changed, candidate=True)
            assert config.description == "Calls out."
        assert [await answer(ws, "shouter", one) for one in ("1.0.0", "1.0.1")] == ["HO", "HO HO"]
    async with opened() as ws:
        assert [await answer(ws, "caller", one) for one in ("1.0.0", "1.0.1")] == ["hey", "heyhey"]
        assert (await ws.acp.vars("deep_analyzer"))[0].value.startswith("class AnalysisDriver")
