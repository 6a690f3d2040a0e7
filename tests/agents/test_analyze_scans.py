"""PDFs whose pages are pictures, given with the task: the model sees the pixels of their pages, and no more."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agentorchestra.agents.analysis import strategies
from agentorchestra.core.errors import UnseenScanError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Price, RoleSettings, Settings, WebSettings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import call, decide
from agentorchestra.workspace import Workspace
from tests.agents.analysing import Reader, drawn
from tests.files import makers
from tests.support.web import serving

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


TOWN = "Kelmar"
TASK = f"What is the code of {TOWN}?"
WORDS = "Nothing is said here of any code, at some length, so that this page is a page of words and not of a scanner. "


@pytest.fixture
def code() -> str:
    return f"{CHANCE.randrange(2000, 10_000)}"


def pdf(code: str, *pages: str) -> bytes:
    """Pages: "words", "blank", "picture" (of nothing), "code" (drawn), "both" (words beside the drawn code)."""
    nothing = drawn("", size=(640, 400))
    kinds = {"words": (WORDS, b""), "blank": ("", b""), "picture": ("", nothing), "code": ("", drawn(code))}
    return makers.paged([kinds[one] for one in pages])


async def asked(
    folder: Path, model: Reader, name: str, data: bytes, *, system: str = "deep_analyzer", **settings: Any
) -> tuple[RunResult, list[str]]:
    """The result, and what the tools of the run said; a replay asks nobody."""
    (folder / name).write_bytes(data)
    async with Workspace(folder / "ws", models={"reader": model}, settings=Settings(**settings)) as ws:
        result = await ws.run(TASK, files=[folder / name], system=system, model="reader")
        count = len(model.requests)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        assert len(model.requests) == count
        records = Ledger.of(await ws.store.load(result.run_id)).records.values()
    said = [json.dumps(one.outcome.value, ensure_ascii=False) for one in records if one.outcome is not None]
    return result, said


class Asker(Reader):
    """An agent of any system that reads the file first, and does what it is told of it there."""

    def act(self, request: ModelRequest) -> ModelResponse:
        name = re.search(r"^- (\S+\.pdf) ", "\n".join(one.text for one in request.messages), re.MULTILINE)
        assert name is not None
        results = [one.text for one in request.messages if one.role == "tool"]
        if not results:
            return decide(calls=[call("read_file", name=name[1])])
        if found := re.search(r"digits (\d{4})", results[-1]):
            return decide(calls=[call("done", answer=found[1])])
        pages = re.search(r"pp?\. ([\d, -]+): pictures without text", results[-1])
        if pages and "ask_media shows" in results[-1]:
            question = f"What is the code of {TOWN}?"
            return decide(calls=[call("ask_media", question=question, files=[name[1]], pages=pages[1])])
        return decide(calls=[call("done", answer="It cannot be read.", report=results[-1], status="blocked")])


# -- a scan ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_scan_of_the_task_is_looked_at_page_by_page(tmp_path: Path, code: str) -> None:
    model = Reader(vision=True)
    scan = pdf(code, "blank", *["picture"] * 5, "code")
    result, said = await asked(tmp_path, model, "scan.pdf", scan)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    assert model.given == [["image/png"] * 4, ["image/png"] * 2], "the blank page is none of them"
    assert any("pp. 2-7: pictures without text" in one for one in said)
    assert not any("ocrmypdf" in one for one in said)


async def test_an_agent_that_reads_a_scan_is_told_how_to_look_at_it(tmp_path: Path, code: str) -> None:
    model = Asker(vision=True)
    result, _ = await asked(tmp_path, model, "scan.pdf", pdf(code, "picture", "code"), system="react")
    assert (result.answer, model.given) == (code, [["image/png"] * 2])


@pytest.mark.long
async def test_a_model_that_takes_documents_gets_the_scan_as_it_is(tmp_path: Path, code: str) -> None:
    model = Reader(document=True)
    result, _ = await asked(tmp_path, model, "scan.pdf", pdf(code, "picture", "code"))
    assert (result.answer, model.given) == (code, [["application/pdf"]])


@pytest.mark.long
async def test_where_nobody_sees_a_scan_is_refused_before_anything_is_spent(tmp_path: Path, code: str) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(code, "code"))
    (tmp_path / "mixed.pdf").write_bytes(pdf(code, "code", "words"))
    model, eyes = Reader(), Reader("eyes", vision=True)
    settings = Settings(
        models={"eyes": ModelProfile(model="reader", vision=True, price=Price(input=0, output=0))},
        roles={"vision": RoleSettings(model="eyes")},
    )
    given: dict[str, Any] = {"system": "deep_analyzer", "model": "reader"}
    async with Workspace(tmp_path / "ws", models={"reader": model}) as ws:
        with pytest.raises(
            UnseenScanError,
            match=r"scan\.pdf is a PDF of pictures without text, and no model of this run sees: name a model that sees "
            r"with \[roles\.vision\] model = .* or recognise its text first, e\.g\. with ocrmypdf",
        ):
            await ws.run(TASK, files=[tmp_path / "scan.pdf"], **given)
        assert not model.requests and not await ws.runs.list()
        mixed = await ws.run(TASK, files=[tmp_path / "mixed.pdf"], **given)
        assert mixed.status is RunStatus.BLOCKED
        told = [one.text for request in model.requests for one in request.messages]
        assert any("p. 1: pictures without text, which were not read; no model of this run sees" in one for one in told)
    models = {"reader": Reader(), "eyes": eyes}
    async with Workspace(tmp_path / "ws", models=models, settings=settings) as ws:
        result = await ws.run(TASK, files=[tmp_path / "scan.pdf"], **given)
    assert result.answer == code and eyes.given == [["image/png"]] and not models["reader"].given


async def test_a_scan_in_a_folder_keeps_nobody_from_the_other_files(tmp_path: Path, code: str) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "scan.pdf").write_bytes(pdf(code, "code"))
    (folder / "codes.txt").write_text(f"The code of {TOWN} is {code}.")
    model = Reader()
    async with Workspace(tmp_path / "ws", models={"reader": model}) as ws:
        result = await ws.run(TASK, files=[folder], system="deep_analyzer", model="reader")
        assert result.answer == code
        with pytest.raises(UnseenScanError):  # though it was seen in the folder before
            await ws.run(TASK, files=[folder / "scan.pdf"], system="deep_analyzer", model="reader")


# -- pages with text, and pages without --------------------------------------------------------------------------------


@pytest.mark.long
async def test_of_a_mixed_pdf_the_pages_without_text_are_looked_at(tmp_path: Path, code: str) -> None:
    model = Reader(vision=True)
    result, said = await asked(tmp_path, model, "mixed.pdf", pdf(code, "words", "code", "words", "blank", "picture"))
    assert (result.answer, model.given) == (code, [["image/png"] * 2])
    assert any("mixed.pdf, pp. 2, 5" in one for one in said), "what was tried names the pages"


# -- elsewhere ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_scan_in_an_archive_is_looked_at_with_the_whole(tmp_path: Path, code: str) -> None:
    model = Reader(vision=True)
    members: dict[str, bytes | str] = {"readme.md": "# Scans", "in/mixed.pdf": pdf(code, "words", "code")}
    result, _ = await asked(tmp_path, model, "all.zip", makers.zipped(members))
    assert (result.answer, model.given) == (code, [["image/png"]])
    assert sum("one part" in one for one in model.asked) == 1, "its words were read with the archive's"


@pytest.mark.long
@pytest.mark.parametrize("document", [True, False])
async def test_a_scan_at_an_address_is_looked_at(tmp_path: Path, code: str, document: bool) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=pdf(code, "picture", "code"), content_type="application/pdf")

    model = Reader(vision=not document, document=document)
    async with serving(answer) as address:
        reading = WebSettings(private=(address.removeprefix("http://"),), robots=False)
        async with Workspace(tmp_path / "ws", models={"reader": model}, settings=Settings(web=reading)) as ws:
            result = await ws.run(f"{TASK} See {address}/scan.pdf.", system="deep_analyzer", model="reader")
    assert (result.answer, model.given) == (code, [["application/pdf"]] if document else [["image/png"] * 2])


@pytest.mark.long
async def test_pages_that_were_not_looked_at_are_counted(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "MOST_CHUNKS", 1)
    model = Reader(vision=True)
    scan = pdf(code, *["picture"] * 5, "code")
    result, said = await asked(tmp_path, model, "scan.pdf", scan)
    assert result.status is RunStatus.BLOCKED and model.given[0] == ["image/png"] * 4
    assert {len(one) for one in model.given} == {4}, "the code on the sixth page was not looked for"
    assert any("of 6 pages of scan.pdf that are pictures the first 4 were looked at" in one for one in said)
