"""One question on each type of source. The code is random, and the model knows what its requests show, no more."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agentorchestra.agents.analysis import strategies
from agentorchestra.agents.analysis.agent import deep_analyzer
from agentorchestra.agents.transformations.a2t import a2t
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Price, Settings, WebSettings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.testing import call, decide
from agentorchestra.workspace import Workspace
from tests.agents.analysing import Reader, digits_heard, drawn, filmed, printed, source_of, spoken
from tests.files import makers
from tests.support.web import serving

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


with_ffmpeg = pytest.mark.skipif(not makers.has_ffmpeg(), reason=makers.NEEDS_FFMPEG)
TOWN = "Kelmar"


@pytest.fixture
def code() -> str:
    return f"{CHANCE.randrange(2000, 10_000)}"


async def analysed(
    folder: Path, model: Reader, name: str, data: bytes, *, asked: str = "", **settings: Any
) -> RunResult:
    """The result, which a replay gives too without asking anybody."""
    files = []
    if data:
        (folder / name).write_bytes(data)
        files = [folder / name]
    task = asked or f"What is the code of {TOWN}?"
    async with Workspace(folder / "ws", models={"reader": model}, settings=Settings(**settings)) as ws:
        result = await ws.run(task, files=files, system="deep_analyzer", model="reader")
        count = len(model.requests)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        assert len(model.requests) == count
    return result


KINDS = ("txt", "csv", "md", "xlsx", "docx", "pptx", "pdf", "html", "xml", "json", "zip", "joined")
CHEAP = ("txt", "csv")


@pytest.mark.parametrize("kind", [one if one in CHEAP else pytest.param(one, marks=pytest.mark.long) for one in KINDS])
async def test_one_question_on_each_type(tmp_path: Path, kind: str, code: str) -> None:
    ending = "zip" if kind == "joined" else kind
    model = Reader()
    result = await analysed(tmp_path, model, f"source.{ending}", source_of(kind, TOWN, code))
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    if kind not in ("csv", "xlsx", "joined"):  # those were computed
        assert [f"code of {TOWN} is {code}" in one.quote for one in result.sources] == [True]


async def test_chunks_are_asked_together_until_one_answers(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"CHUNK_CHARS": 2_000, "BATCH": 3, "MOST_CHUNKS": 100}.items():
        monkeypatch.setattr(strategies, name, value)
    filler = "\n\n".join(f"Nothing is said of number {number}, at some length, again." for number in range(200))
    said = f"The code of {TOWN} is {code}."
    text = f"{filler}\n\n{said}\n\n{filler}\n\n{filler}".encode()
    model = Reader()
    result = await analysed(tmp_path, model, "long.txt", text)
    asked = model.asked.count("You read one part of a")
    whole = -(-len(text) // 2_000)
    assert result.answer == code and asked % 3 == 0 and asked < whole - 9, f"{asked} of some {whole}"


@pytest.mark.long
async def test_of_a_text_with_more_chunks_those_with_the_words_are_asked(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "CHUNK_CHARS", 2_000)
    monkeypatch.setattr(strategies, "MOST_CHUNKS", 2)
    filler = "\n\n".join(f"Nothing is said of number {number}, at some length, again." for number in range(400))
    text = f"{filler}\n\nThe code of {TOWN} is {code}.\n\n{filler}".encode()
    model = Reader()
    result = await analysed(tmp_path, model, "long.txt", text)
    assert result.answer == code and model.asked.count("You read one part of a") == 2


async def test_a_text_that_is_a_table_by_what_the_model_says(tmp_path: Path, code: str) -> None:
    """Neither its bytes nor its name tell."""
    rows = [("town", "code"), *((f"Town{number}", f"{1000 + number}") for number in range(9)), (TOWN, code)]
    data = "\n".join("|".join(row) for row in rows).encode()
    model = Reader()
    result = await analysed(tmp_path, model, "export.dat", data, in_view_chars=0)
    assert result.answer == code
    assert model.asked.count("Say whether a file holds a") == 1, "once"
    assert "export.dat is of the kind table, by what the model made of it" in model.requests[1].messages[1].text


# -- pictures, recordings, videos --------------------------------------------------------------------------------------


async def test_a_picture_is_looked_at_as_it_is(tmp_path: Path, code: str) -> None:
    model = Reader(vision=True)
    result = await analysed(tmp_path, model, "codes.png", drawn(code), in_view_chars=0)
    assert (result.answer, model.given) == (code, [["image/png"]])


@pytest.mark.long
@pytest.mark.parametrize("named", [True, False], ids=["regions", "quarters"])
async def test_what_is_small_is_looked_at_again_enlarged(tmp_path: Path, code: str, named: bool) -> None:
    class Blunt(Reader):
        def regions(self, box: list[float]) -> list[list[float]]:
            return super().regions(box) if named else []

    model = Blunt(vision=True)
    data = drawn(code, size=(4000, 3000), square=15, at=(2600, 400))
    result = await analysed(tmp_path, model, "plan.png", data, in_view_chars=0)
    assert result.answer == code and len(model.given) == (2 if named else 3)


@pytest.mark.long
async def test_a_blind_model_is_said_to_be_blind(tmp_path: Path, code: str) -> None:
    result = await analysed(tmp_path, Reader(), "codes.png", drawn(code))
    assert result.status is RunStatus.BLOCKED, result.report
    assert code not in f"{result.answer_text}{result.report}"


@pytest.mark.long
async def test_a_picture_in_an_archive_is_looked_at_as_a_picture(tmp_path: Path, code: str) -> None:
    model = Reader(vision=True)
    files: dict[str, bytes | str] = {"readme.md": "# The codes are drawn.", "drawn/codes.png": drawn(code)}
    result = await analysed(tmp_path, model, "all.zip", makers.zipped(files))
    assert (result.answer, model.given) == (code, [["image/png"]])


async def test_any_agent_may_have_the_analyzer_and_its_tool(tmp_path: Path, code: str) -> None:
    """An agent asks the analyzer as a tool, and one file by itself."""
    filler = "\n\nNothing is said here." * 100  # a short text would be shown at once
    (tmp_path / "codes.txt").write_bytes(source_of("txt", TOWN, code) + filler.encode())
    task = f"What is the code of {TOWN}?"
    model = Reader()
    usual = model.act

    def act(request: ModelRequest) -> ModelResponse:
        names = {one.name for one in request.tools}
        if "deep_analyzer" not in names and "You analyse files" in request.messages[0].text:
            return usual(request)
        results = [one.text for one in request.messages if one.role == "tool"]
        if len(results) == 2:
            told = [code for one in results if code in one]

            return decide(calls=[call("done", answer=" ".join(told))])
        return decide(calls=[call("analyze", task=task), call("analyze_file", file="codes.txt", question=task)])

    model.act = act  # type: ignore[method-assign]
    tools = [*a2t.using(name="analyze")(deep_analyzer())]
    async with Workspace(tmp_path / "ws", models={"reader": model}, tools=tools) as ws:
        result = await ws.run(task, files=[tmp_path / "codes.txt"], system="react", model="reader")
    assert result.answer == f"{code} {code}"


@pytest.mark.long
@with_ffmpeg
async def test_a_recording_is_heard_or_written_down(tmp_path: Path, code: str) -> None:
    async def scribe(request: web.Request) -> web.Response:
        form = await request.post()
        recording: Any = form["file"]
        return web.json_response({"text": f"The code is {digits_heard(recording.file.read())}."})

    (tmp_path / "heard").mkdir()
    model = Reader(audio=True)
    heard = await analysed(tmp_path / "heard", model, "talk.wav", spoken(code))
    assert (heard.answer, model.given) == (code, [["audio/wav"]])
    async with serving(scribe) as address:
        profile = ModelProfile(model="openai:scribe", base_url=f"{address}/v1", price=Price(input=0, output=0))
        deaf = Reader()
        written = await analysed(
            tmp_path, deaf, "talk.wav", spoken(code), models={"scribe": profile}, transcription_model="scribe"
        )
    assert (written.answer, deaf.given) == (code, [])


@pytest.mark.long
@with_ffmpeg
@pytest.mark.parametrize("direct", [True, False], ids=["as it is", "frames"])
async def test_a_video(tmp_path: Path, code: str, direct: bool) -> None:
    model = Reader(vision=True, video=direct)
    result = await analysed(tmp_path, model, "film.mp4", filmed(code))
    assert result.answer == code
    assert {one.partition("/")[0] for given in model.given for one in given} == {"video" if direct else "image"}


@pytest.mark.long
async def test_a_pdf_goes_to_a_model_that_takes_documents_first(tmp_path: Path, code: str) -> None:
    model = Reader(document=True)
    result = await analysed(tmp_path, model, "codes.pdf", source_of("pdf", TOWN, code))
    assert (result.answer, model.given) == (code, [["application/pdf"]])
    assert not any("one part" in one for one in model.asked), "its text was not asked"


@pytest.mark.long
async def test_a_pdf_of_pictures_is_looked_at_page_by_page(tmp_path: Path, code: str) -> None:
    scan = printed(*[""] * 5, picture=drawn(code))
    model = Reader(vision=True)
    usual = model.act

    def act(request: ModelRequest) -> ModelResponse:
        asks = decide(calls=[call("analyze_file", file="scans.zip!scan.pdf", question=f"The code of {TOWN}?")])
        return usual(request) if any(one.role == "tool" for one in request.messages) else asks

    model.act = act  # type: ignore[method-assign]
    result = await analysed(tmp_path, model, "scans.zip", makers.zipped({"scan.pdf": scan, "readme.md": "Scans."}))
    assert (result.answer, model.given) == (code, [["image/png"] * 4])


# -- addresses --------------------------------------------------------------------------------------------------------


async def test_addresses_of_the_task_become_sources(tmp_path: Path, code: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/codes.csv":
            return web.Response(body=source_of("csv", TOWN, code), content_type="text/csv")
        return web.Response(status=404)

    async with serving(answer) as address:
        reading = WebSettings(private=(address.removeprefix("http://"),), robots=False)
        model = Reader()
        task = f"What is the code of {TOWN}? See {address}/gone.html and {address}/codes.csv."
        result = await analysed(tmp_path, model, "", b"", asked=task, web=reading)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, code), result.report
    assert f"Not read: {address}/gone.html" in result.report
    told = model.requests[0].messages[1].text
    assert "codes.csv, read already, whole below, of the kind table" in told and "gone.html could not be read" in told


async def test_short_pages_of_the_task_stand_whole_in_the_first_prompt(tmp_path: Path, code: str) -> None:
    """As short files do: all of them together up to `in_view_chars`; of a longer one there is what is said of it."""
    lakes = "".join(f'<li><a href="/{number}">Lake {number}</a></li>' for number in range(6))
    long = "".join(f"<p>Of Town{number} it is not known who lives there.</p>" for number in range(300))
    pages = {"/": f"<p>One page for each lake.</p><ul>{lakes}</ul>", "/long": long, "/second": f"<p>{'Far. ' * 90}</p>"}

    async def answer(request: web.Request) -> web.Response:
        head = '<!doctype html><html lang="en"><head><title>Lakes</title></head><body><main><h1>Lakes</h1>'
        return web.Response(text=f"{head}{pages[request.path]}</main></body></html>", content_type="text/html")

    model = Reader()
    model.act = lambda request: decide(calls=[call("done", answer=code)])  # type: ignore[method-assign]
    told = []
    async with serving(answer) as address:
        reading = WebSettings(private=(address.removeprefix("http://"),), robots=False)
        task = f"What stands at {address}/, {address}/long and {address}/second? Say {code}."
        for chars in (700, 0):
            folder = tmp_path / str(chars)
            folder.mkdir()
            model.requests.clear()
            await analysed(folder, model, "", b"", asked=task, web=reading, in_view_chars=chars)
            told.append(model.requests[0].messages[1].text)
    assert f"Source {address}/, read already, whole below" in told[0]
    assert "One page for each lake." in told[0] and all(f"[Lake {n}]({address}/{n})" in told[0] for n in range(6))
    assert "Town7 it is not known" not in told[0], "too long by itself"
    assert f"Source {address}/second, read already, of the kind" in told[0] and "Far." not in told[0], "no room is left"
    assert "read already, of the kind" in told[1] and "One page for each lake." not in told[1]
