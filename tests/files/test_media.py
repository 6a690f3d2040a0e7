"""Pictures, recordings and videos: their bytes arrive at the model's server, and words say what they are."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import os
import random
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image
from tests.files import makers

from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.testing import LoopbackModelServer, call, decide, http_error
from agentorchestra.tools.files.readers import describe_media
from agentorchestra.workspace import Workspace

CHANCE = random.Random(2506)
"""Seeded: the same tests in every run."""


with_ffmpeg = pytest.mark.skipif(not makers.has_ffmpeg(), reason=makers.NEEDS_FFMPEG)


async def shown(tmp_path: Path, path: Path, *parts: str | None, **profile: Any) -> list[dict[str, Any]]:
    """What the model's server got after `read_file` of each part; nothing of the file before."""
    replies: list[Any] = [
        decide(calls=[call("read_file", name=path.name, **({"part": part} if part else {}))]) for part in parts
    ]
    async with LoopbackModelServer([*replies, decide(calls=[call("done", answer="seen")])]) as server:
        models = {"m": ModelProfile(model="openai:gpt-5", base_url=server.base_url, **profile)}
        settings = Settings(models=models, model="m", system="react", in_view_chars=0)
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is this?", files=[path])
    assert result.answer == "seen", result.error
    return [json.loads(json.dumps(one)) for one in server.requests]


def words(request: dict[str, Any]) -> str:
    return json.dumps(request)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def pictures(request: dict[str, Any]) -> list[bytes]:
    found = []
    for message in request["messages"]:
        for piece in message["content"] if isinstance(message["content"], list) else ():
            if piece.get("type") == "image_url":
                found.append(base64.b64decode(piece["image_url"]["url"].partition(",")[2]))
    return found


async def test_a_picture_arrives_with_its_size_and_what_its_maker_wrote(tmp_path: Path) -> None:
    width, height = CHANCE.randint(20, 60), CHANCE.randint(61, 99)
    path = tmp_path / "dot.png"
    path.write_bytes(makers.png(width, height, comment="taken at dawn"))
    before, after = await shown(tmp_path, path, None)
    assert pictures(before) == []
    assert pictures(after) == [path.read_bytes()]
    assert f"{width} x {height} pixels, RGB" in words(after)
    assert "Comment: taken at dawn" in words(after)


async def first_view(tmp_path: Path, *replies: Any, roles: Any = None, **values: Any) -> list[dict[str, Any]]:
    """The requests of a run with six pictures, of which the first is large; `replies` come before the answer."""
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for path in paths:
        path.write_bytes(makers.png(2_000 if path.stem == "0" else 20 + int(path.stem), 9))
    system = values.pop("system", "react")
    answer = "seen" if system == "direct" else decide(calls=[call("done", answer="seen")])
    async with LoopbackModelServer([*replies, answer]) as server:
        models = {"m": ModelProfile(model="openai:gpt-5", base_url=server.base_url, **values)}
        models |= {"eyes": ModelProfile(model="openai:gpt-5", base_url=server.base_url, vision=True)} if roles else {}
        settings = Settings(models=models, model="m", system=system, roles=roles or {})
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is on these?", files=paths)
            assert result.answer == "seen", result.error
            assert (await ws.replay(result.run_id)).answer == "seen"
    return [json.loads(json.dumps(one)) for one in server.requests]


def widths(request: dict[str, Any]) -> list[int]:
    return [Image.open(io.BytesIO(one)).width for one in pictures(request)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("system", ["react", "agentorchestra", "deep_analyzer", "direct"])
async def test_the_first_pictures_go_along_in_the_first_message(tmp_path: Path, system: str) -> None:
    request, *later = await first_view(tmp_path, system=system)
    assert not later or system == "deep_analyzer", "an analysis without a quote is judged"
    assert widths(request) == [1568, 21, 22, 23]
    assert "2000 x 9 pixels" in words(request)
    if system != "direct":
        assert "3.png (image/png, " in words(request) and words(request).count("bytes), shown below") == 4
        assert "4.png (image/png, " in words(request)
        assert "The other pictures: the tool read_file shows them" in words(request)


@pytest.mark.long
async def test_without_pictures_where_the_server_refuses_them(tmp_path: Path) -> None:
    first, again = await first_view(tmp_path, http_error(400, "This model does not support image input"))
    assert len(pictures(first)) == 4 and pictures(again) == []
    assert words(again).count("(not shown: the model does not take it)") == 4


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"vision": False}, "No model of this run can see the pictures"),
        (
            {"vision": False, "roles": {"vision": {"model": "eyes"}}},
            "The tool ask_media puts your questions about them",
        ),
        ({"context_window": 8_000}, "read_file shows them"),
    ],
    ids=["nobody sees", "another model sees", "a small window"],
)
async def test_who_sees_no_picture_is_told_how_it_is_read(tmp_path: Path, values: Any, said: str) -> None:
    (request,) = await first_view(tmp_path, **values)
    assert pictures(request) == [] and said in words(request) and "shown below" not in words(request)


async def test_what_a_camera_wrote_is_said_where_nobody_sees(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(makers.jpeg(30, 40, "Camerata"))
    *_, after = await shown(tmp_path, path, None, vision=False)
    assert pictures(after) == []
    assert "Make: Camerata" in words(after)
    assert "30 x 40 pixels" in words(after)


async def test_a_picture_in_an_archive_arrives(tmp_path: Path) -> None:
    picture = makers.png(31, 41)
    path = tmp_path / "a.zip"
    path.write_bytes(makers.zipped({"in/b.zip": makers.zipped({"dot.png": picture})}))
    *_, after = await shown(tmp_path, path, "in/b.zip!dot.png")
    assert pictures(after) == [picture]


@pytest.mark.long
async def test_pictures_on_slides_are_named_and_arrive(tmp_path: Path) -> None:
    picture = makers.png(31, 43)
    path = tmp_path / "a.pptx"
    path.write_bytes(makers.pptx([("Sales", "of a year")], pictures={"Bars,\none a month": picture}))
    whole, after = (await shown(tmp_path, path, None, "ppt/media/image1.png", "ppt/media/image9.png"))[1:3]
    assert "[picture: ppt/media/image1.png, 31x43, Bars, one a month]" in words(whole)
    assert "pictures are shown by their names as part, such as 'ppt/media/image1.png'" in words(whole)
    assert pictures(after) == [picture]


@pytest.mark.long
async def test_a_picture_in_a_mail_arrives(tmp_path: Path) -> None:
    picture = makers.png(31, 42)
    path = tmp_path / "a.eml"
    path.write_bytes(makers.eml("See it.\n", {"dot.png": picture}))
    *_, after = await shown(tmp_path, path, "dot.png")
    assert pictures(after) == [picture]


@with_ffmpeg
async def test_a_recording_arrives_with_its_length(tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(makers.wav(2.5))
    before, after = await shown(tmp_path, path, None)
    assert encoded(path.read_bytes()) not in words(before)
    assert encoded(path.read_bytes()) in words(after)
    assert "00:02 long (2.50 s)" in words(after)
    assert "stream: audio, pcm_s16le, 8000 Hz, 1 channel(s)" in words(after)


@with_ffmpeg
async def test_a_video_arrives_where_the_model_takes_one(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(makers.mp4(tmp_path, 3, title="Tides"))
    *_, after = await shown(tmp_path, path, None, video=True)
    assert f"data:video/mp4;base64,{encoded(path.read_bytes())}" in words(after)
    assert "stream: video, " in words(after)
    assert "64 x 48 pixels" in words(after)
    assert "title: Tides" in words(after)


@pytest.mark.long
@with_ffmpeg
async def test_for_the_others_a_video_is_frames(tmp_path: Path) -> None:
    """The first second is red, the rest is blue."""
    path = tmp_path / "clip.mp4"
    path.write_bytes(makers.mp4(tmp_path, 4))
    first, whole, frame, several = await shown(tmp_path, path, None, "frame 00:02", "frames 4")
    assert encoded(path.read_bytes()) not in words(several)
    assert "not shown: the model does not take it" in words(whole)
    assert "part='frames 5'" in words(whole)
    assert "ask_media asks a model that does" in words(whole)
    assert all(f"frame 00:0{at}.5" in words(several) for at in range(4))
    assert pictures(first) == pictures(whole) == []
    assert [_colour(one) for one in pictures(frame)] == ["blue"]
    assert [_colour(one) for one in pictures(several)] == ["blue", "red", "blue", "blue", "blue"]


def _colour(picture: bytes) -> str:
    with Image.open(io.BytesIO(picture)) as image:
        red, _, blue = image.convert("RGB").getpixel((10, 10))  # type: ignore[misc]
    return "red" if red > blue else "blue"


@pytest.mark.long
@pytest.mark.sampled(2)
@with_ffmpeg
@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("frame 00:30", "gives no frames: it ends at 00:02"),
        ("line 3", "has no part 'line 3'; give 'frames 5' (evenly over its length) or 'frame 00:12'"),
    ],
)
async def test_frames_that_are_not_there(tmp_path: Path, part: str, sentence: str) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(makers.mp4(tmp_path, 2))
    *_, after = await shown(tmp_path, path, part)
    assert sentence in words(after)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_a_damaged_picture_or_recording_is_shown_all_the_same(tmp_path: Path, share: float) -> None:
    for name, whole in (("dot.png", makers.png(300, 300)), ("talk.wav", makers.wav(1))):
        path = tmp_path / name
        path.write_bytes(whole[: max(40, int(len(whole) * share))])
        *_, after = await shown(tmp_path, path, None)
        assert encoded(path.read_bytes()) in words(after)
        assert "Traceback" not in words(after)


async def test_a_program_that_the_reader_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program named ffprobe that never ends, until nobody waits for it any more."""
    program = tmp_path / "bin" / "ffprobe"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    path = tmp_path / "talk.wav"
    path.write_bytes(makers.wav(1))
    reading = asyncio.create_task(describe_media(path))
    while not ((tmp_path / "pid").exists() or reading.done()):  # noqa: ASYNC110 - a program sets no event
        await asyncio.sleep(0.02)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    pid = int((tmp_path / "pid").read_text())
    with contextlib.suppress(psutil.NoSuchProcess):  # the test's own limit ends it where ffprobe outlives its reader
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
