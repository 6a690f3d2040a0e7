"""Versions: computed from how content changed, kept with their lineage, restored as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra import Workspace
from agentorchestra.core.errors import UnknownComponentError, VersionError
from agentorchestra.tea.registry.versions import changes_of, level_of, next_version
from tests.registry.support import PRICE, imported, shop

DEARER = PRICE.replace("12.5", "13.5")
OPTIONAL = PRICE.replace("item: str)", 'item: str, currency: str = "EUR")')
REQUIRED = PRICE.replace("item: str)", "item: str, currency: str)")


async def test_an_edited_tool_gets_its_next_version_by_itself(tmp_path: Path) -> None:
    found = []
    for text in (PRICE, PRICE, DEARER, OPTIONAL, REQUIRED):
        async with shop(tmp_path, text) as ws:
            found.append((await ws.tcp.info("price_of")).version)
    assert found == ["1.0.0", "1.0.0", "1.0.1", "1.1.0", "2.0.0"]
    async with shop(tmp_path, REQUIRED) as ws:
        history = await ws.tcp.versions("price_of")
        assert [(one.version, one.parent) for one in history] == [
            ("1.0.0", ""),
            ("1.0.1", "price_of@1.0.0"),
            ("1.1.0", "price_of@1.0.1"),
            ("2.0.0", "price_of@1.1.0"),
        ]
        assert all(one.origin == "code" for one in history)


async def test_a_run_is_pinned_to_the_version_of_its_tools(tmp_path: Path) -> None:
    pins = []
    for text in (PRICE, DEARER):
        async with shop(tmp_path, text) as ws:
            record = await ws.store.get_run(await ws.create("What is 2 + 2?", model="offline"))
            assert record is not None
            pins.append(record.manifest.tools["price_of"])
    assert [pin.version for pin in pins] == ["1.0.0", "1.0.1"]
    assert all(pin.source for pin in pins)  # their texts are kept


async def test_code_that_is_what_it_was_is_the_version_it_was(tmp_path: Path) -> None:
    found = []
    for text in (PRICE, DEARER, PRICE):
        async with shop(tmp_path, text) as ws:
            price = (await ws.tcp.invoke("price_of", {"item": "pear"})).value
            found.append(((await ws.tcp.info("price_of")).version, price, len(await ws.tcp.versions("price_of"))))
    assert found == [("1.0.0", 12.5, 1), ("1.0.1", 13.5, 2), ("1.0.0", 12.5, 2)]


async def test_an_explicit_version_with_other_content_is_refused(tmp_path: Path) -> None:
    explicit = PRICE.replace('effect="pure"', 'effect="pure", version="1.2.0"')
    async with shop(tmp_path, explicit) as ws:
        assert (await ws.tcp.info("price_of")).version == "1.2.0"
    async with shop(tmp_path, explicit.replace("12.5", "13.5")) as ws:
        with pytest.raises(VersionError, match=r"price_of@1\.2\.0 is registered with other content.*another version"):
            await ws.create("anything", model="offline")
        refusals, failures = await ws.tcp.stock.examine()  # what `doctor` asks
        assert len(refusals) == 1 and "price_of@1.2.0 is registered with other content" in refusals[0]
        assert failures == []
    # Only the text around it changed: it is the same tool.
    async with shop(tmp_path, explicit + "\n\nOTHER = 1\n") as ws:
        assert (await ws.tcp.info("price_of")).version == "1.2.0"
        assert len(await ws.tcp.versions("price_of")) == 1
    async with shop(tmp_path, explicit.replace("12.5", "13.5").replace("1.2.0", "1.3.0")) as ws:
        assert [one.version for one in await ws.tcp.versions("price_of")] == ["1.2.0", "1.3.0"]


async def test_a_restored_version_behaves_as_it_did(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 12.5
    async with shop(tmp_path, REQUIRED) as ws:
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).status == "mistake"
        await ws.tcp.restore("price_of", "1.0.0", reason="callers were not ready")
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 12.5
        assert (await ws.tcp.get("price_of")).component == "price_of@1.0.0"
    # Another process with the newer code keeps what was restored; newer code still takes its place.
    async with shop(tmp_path, REQUIRED) as ws:
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 12.5
    async with shop(tmp_path, REQUIRED.replace("12.5", "14.5")) as ws:
        assert (await ws.tcp.info("price_of")).version == "2.0.1"


async def test_a_pinned_version_stays(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        await ws.tcp.pin("price_of", "1.0.0")
    async with shop(tmp_path, DEARER) as ws:
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 12.5
        assert [one.version for one in await ws.tcp.versions("price_of")] == ["1.0.0", "1.0.1"]
        await ws.tcp.unpin("price_of")
        await ws.tcp.restore("price_of", "1.0.1")
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 13.5


async def test_variables_are_rewritten_into_the_next_version(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        code, *words = await ws.tcp.vars("price_of")
        assert [one.name for one in words] == ["description", "argument:item"]
        assert code.name == "code" and "return 12.5" in code.value and "import" not in code.value
        config = await ws.tcp.setvars(
            "price_of", {"code": code.value.replace("12.5", "10.0")}, author="optimiser", reason="cheaper"
        )
        assert config.version == "1.0.1"
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 10.0
        last = (await ws.tcp.versions("price_of"))[-1]
        assert (last.author, last.reason, last.parent) == ("optimiser", "cheaper", "price_of@1.0.0")
        difference = await ws.tcp.diff("price_of", "1.0.0", "1.0.1")
        assert difference.level == "patch" and "-    return 12.5\n+    return 10.0\n" in difference.text
        with pytest.raises(
            VersionError, match="has no variable 'coed'; its variables: code, description, argument:item"
        ):
            await ws.tcp.setvars("price_of", {"coed": ""})
    # The same code in another process: what was optimised is in use.
    async with shop(tmp_path) as ws:
        assert (await ws.tcp.invoke("price_of", {"item": "pear"})).value == 10.0


async def test_unknown_names_and_versions_suggest(tmp_path: Path) -> None:
    async with shop(tmp_path) as ws:
        with pytest.raises(UnknownComponentError, match=r"no tool 'price_off'; did you mean 'price_of'\?"):
            await ws.tcp.get("price_off")
        with pytest.raises(VersionError, match=r"has no version '2\.0\.0'; its versions: 1\.0\.0"):
            await ws.tcp.restore("price_of", "2.0.0")
        with pytest.raises(VersionError, match=r"has the version 'two'; versions look like 1\.2\.0"):
            await ws.tcp.register(source=DEARER, version="two")
        assert len(await ws.tcp.versions("price_of")) == 1


async def test_prompts_have_versions_too(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        before = await ws.components.prompts.get("tail")
        (template,) = [one for one in await ws.components.prompts.vars("tail") if one.name == "template"]
        config = await ws.components.prompts.setvars("tail", {"template": template.value + "\nBe brief."})
        assert config.version != before.version
        assert ws.catalog.prompts.get("tail").template.rstrip().endswith("Be brief.")
        assert ws.catalog.prompts.pins()["tail"].version == config.version
        await ws.components.prompts.restore("tail", before.version)
        assert ws.catalog.prompts.get("tail").template == before.template


SCALAR = st.sampled_from(["string", "integer", "number", "boolean"])
SCHEMA = st.dictionaries(st.sampled_from("abcdef"), st.tuples(SCALAR, st.booleans()), max_size=4)


def _schema(arguments: dict[str, tuple[str, bool]]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, (kind, _) in arguments.items()},
        "required": sorted(name for name, (_, required) in arguments.items() if required),
        "additionalProperties": False,
    }


@given(SCHEMA, SCHEMA)
def test_the_level_is_what_a_caller_of_the_old_schema_meets(
    before: dict[str, tuple[str, bool]], after: dict[str, tuple[str, bool]]
) -> None:
    """Removed, newly required or of another type: major. Only more optional ones: minor. Else a patch or nothing."""
    removed = any(name not in after for name in before)
    needed = any(required and not before.get(name, ("", False))[1] for name, (_, required) in after.items())
    other = any(
        name in after and after[name][0] != kind and not (kind == "integer" and after[name][0] == "number")
        for name, (kind, _) in before.items()
    )
    level = level_of(changes_of(_schema(before), _schema(after)))
    if removed or needed or other:
        assert level == "major"
    elif _schema(before) == _schema(after):
        assert level == "none"
    else:
        assert level == "minor"
    order = next_version("1.2.3", level)
    assert order == {"major": "2.0.0", "minor": "1.3.0", "none": "1.2.3", "patch": "1.2.4"}[level]


TWO = '''from agentorchestra import tool


@tool(effect="pure")
def first(number: int) -> int:
    """The first."""
    return number + 1


@tool(effect="pure")
def second(number: int) -> int:
    """The second."""
    return number + 2
'''


async def test_of_two_tools_in_one_module_each_is_other_content(tmp_path: Path) -> None:
    shop_module = imported(tmp_path, TWO, "two")
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(shop_module.first, name="count")
        await ws.tcp.register(shop_module.second, name="count")
        assert (await ws.tcp.invoke("count", {"number": 1})).value == 3
    async with Workspace(tmp_path / "ws") as ws:  # where the module is not at hand
        assert [one.version for one in await ws.tcp.versions("count")] == ["1.0.0", "1.0.1"]
        assert (await ws.tcp.invoke("count", {"number": 1})).value == 3
        await ws.tcp.restore("count", "1.0.0")
        assert (await ws.tcp.invoke("count", {"number": 1})).value == 2


async def test_the_same_content_under_a_version_that_is_written_down(tmp_path: Path) -> None:
    def half(number: int) -> float:
        """Half a number."""
        return number / 2

    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(half)
        (config,) = await ws.tcp.register(half, version="2.0.0")
        assert (config.version, (await ws.tcp.info("half")).version) == ("2.0.0", "2.0.0")
        assert (await ws.tcp.invoke("half", {"number": 3})).value == 1.5
        await ws.tcp.register(half, version="1.0.0")
        assert (await ws.tcp.info("half")).version == "1.0.0"
        assert (await ws.tcp.invoke("half", {"number": 3})).value == 1.5
        assert len(await ws.tcp.versions("half")) == 2


async def test_an_unregistered_tool_comes_back_where_only_the_text_around_it_changed(tmp_path: Path) -> None:
    text = PRICE.replace('effect="pure"', 'effect="pure", version="1.4.0"')
    async with Workspace(tmp_path / "ws") as ws:
        await ws.tcp.register(imported(tmp_path, text).price_of)
        await ws.tcp.unregister("price_of")
        await ws.tcp.register(imported(tmp_path, f"{text}\n# more\n").price_of)
        assert (await ws.tcp.invoke("price_of", {"item": "a"})).value == 12.5
        assert [one.version for one in await ws.tcp.versions("price_of")] == ["1.4.0"]


async def test_two_versions_of_the_code_on_one_log_mean_their_own(tmp_path: Path) -> None:
    """Neither writes again and again that the name means its own; each uses what is at hand in it."""
    async with shop(tmp_path) as old:
        assert (await old.tcp.info("price_of")).version == "1.0.0"
        async with shop(tmp_path, DEARER) as new:
            entries = 0
            for _ in range(3):
                for ws, version, price in ((old, "1.0.0", 12.5), (new, "1.0.1", 13.5)):
                    outcome = await ws.tcp.invoke("price_of", {"item": "pear"})
                    assert ((await ws.tcp.info("price_of")).version, outcome.value) == (version, price)
                    record = await ws.store.get_run(await ws.create("What is 2 + 2?", model="offline"))
                    assert record is not None and record.manifest.tools["price_of"].version == version
                history = new.tcp.registry.history("tool", "price_of")
                assert history is not None and entries in (0, history.seq)
                entries = history.seq
            # An operation is everybody's.
            await old.tcp.pin("price_of", "1.0.1", reason="the price is right")
            assert (await old.tcp.info("price_of")).version == "1.0.1"
            assert (await old.tcp.invoke("price_of", {"item": "pear"})).value == 13.5
