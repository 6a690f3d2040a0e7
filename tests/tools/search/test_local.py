"""`local`: files of the task, folders, a copy of a site; without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.settings import Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.site import write_mirror
from tests.tools.search.support import searched, titles

AT = "https://www.skerrow.example"


def local(*folders: dict[str, str]) -> Settings:
    return Settings.model_validate({"search": {"engines": ["local"], "folders": folders}})


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_mirror(
        tmp_path_factory.mktemp("mirror"), "/news/2018/", "/news/2019/", "/zh/", "/places/", "/people/"
    )
    page = "<title>x</title><link rel='canonical' href='https://evil.example/?d=1'><p>a cage for canaries</p>"
    (folder / "a b").mkdir()
    (folder / "a b" / "index.html").write_text(page)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a workspace whose index has the copy of the site after the first test."""
    return tmp_path_factory.mktemp("place")


async def test_a_copy_of_a_site_has_the_addresses_titles_and_days_of_the_site(mirror: Path, place: Path) -> None:
    found = await searched(place, local({"path": str(mirror), "address": AT}), "who kept the lighthouse until 2019")
    by_address = {one["address"]: one for one in found["results"]}
    report = by_address[f"{AT}/news/2019/automation"]
    assert report["title"] == "Lighthouse to be automated | Skerrow Record"
    assert report["date"] == "2019-10-18"
    assert "no keeper from 1 November 2019" in report["snippet"]
    assert report["place"].startswith("line")
    assert not [one for one in (place / "ws").iterdir() if one.name.startswith("searched-")]


async def test_days_and_the_site_are_kept_to(mirror: Path, place: Path) -> None:
    chosen = local({"path": str(mirror), "address": AT})
    found = await searched(place, chosen, "tide mill", since="2018", until="2018", site="skerrow.example")
    dated = [one["title"] for one in found["results"] if one.get("date")]
    assert dated == ["The tide mill grinds again | Skerrow Record", "潮汐磨坊重新开工 | Skerrow Record"] or dated == [
        "The tide mill grinds again | Skerrow Record"
    ]
    other = await searched(place, chosen, "tide mill", site="elsewhere.example")
    assert other["results"] == []


async def test_chinese_is_found_by_its_characters(mirror: Path, place: Path) -> None:
    found = await searched(place, local({"path": str(mirror), "address": AT}), "守塔人是谁")
    assert titles(found)[0] == "斯凯罗岛的灯塔 | Skerrow Record"
    again = await searched(place, local({"path": str(mirror), "address": AT}), "落叶松 水轮")
    assert titles(again)[0] == "潮汐磨坊重新开工 | Skerrow Record"


async def test_a_folder_without_a_site_gives_its_names(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "wheel.txt").write_text("one\ntwo\nThe wheel is made of larch.\n")
    (found,) = (await searched(tmp_path, local({"path": str(tmp_path / "notes")}), "larch wheel"))["results"]
    assert found["address"].endswith("notes/wheel.txt")
    assert found["snippet"].endswith("The wheel is made of larch.")


async def test_the_files_of_a_task_are_searched(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("Fog on the third of May.\n")
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request.messages[-2].text + request.messages[-1].text)
        return decide(calls=[call("done", answer="fog")])

    model = ScriptedModel([decide(calls=[call("search", query="fog in May")]), answer])
    async with Workspace(
        tmp_path / "ws", store=MemoryStore(), settings=local(), models={model.name: model}, environ={}
    ) as ws:
        await ws.run("q", model=model, system="react", files=[tmp_path / "log.txt"])
    assert '"address":"log.txt"' in seen[0]
    assert "there are files to search" in seen[0]


async def test_nothing_to_search_is_said(tmp_path: Path) -> None:
    found = await searched(tmp_path, local(), "larch", engines=["local"])
    assert "there is no search engine" not in found["error"]
    assert found["error"] == (
        "No search engine gave results: local has nothing to search: the task has no files, and search.folders names "
        "none"
    )


async def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    found = await searched(tmp_path, local({"path": str(tmp_path / "gone")}), "larch")
    assert found["error"].startswith(f"No search engine gave results: local cannot read its folder {tmp_path}/gone: ")


async def test_a_page_says_no_address_but_one_of_its_site(mirror: Path, place: Path) -> None:
    """What a page calls canonical may be anybody's."""
    (found,) = (await searched(place, local({"path": str(mirror), "address": AT}), "canaries"))["results"]
    assert found["address"] == f"{AT}/a%20b/"


async def test_what_a_killed_search_left_behind_goes(mirror: Path, place: Path) -> None:
    left, new = place / "ws" / "searched-old", place / "ws" / "searched-new"
    for one in (left, new):
        (one / "0").mkdir(parents=True)
    os.utime(left, (0, 0))
    await searched(place, local({"path": str(mirror), "address": AT}), "canaries")
    assert not left.exists()
    assert new.exists()  # another process may be at work in it
