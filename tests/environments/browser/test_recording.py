"""The record of an agent's steps: pictures that gather on disk, and what becomes of them."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

from PIL import Image, ImageSequence

from agentorchestra.environments.browser.session.recorder import MOST_FRAMES, add_frame, frames_of, moving_picture


def shot(shade: int, size: tuple[int, int] = (1280, 800)) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", size, (shade % 256, 255 - shade % 256, 40)).save(held, "JPEG", quality=50)
    return held.getvalue()


def pictures(gif: bytes) -> list[Image.Image]:
    with Image.open(io.BytesIO(gif)) as shown:
        return [one.convert("RGB") for one in ImageSequence.Iterator(shown)]


def test_of_a_long_work_pictures_stay_that_are_spread_over_all_of_it(tmp_path: Path) -> None:
    count = 5 * MOST_FRAMES
    for number in range(count):
        add_frame(tmp_path, shot(number, (64, 40)), "click", f"http://a.example/{number}", None)
    found = [int(one.address.rpartition("/")[2]) for one in frames_of(tmp_path)]
    assert len(found) == MOST_FRAMES
    assert (found[0], found[-1]) == (0, count - 1)
    assert found == sorted(found)
    assert max(later - earlier for earlier, later in pairwise(found)) < count / 5
    assert len(list((tmp_path / "frames").iterdir())) <= 2 * MOST_FRAMES
    gif = moving_picture(tmp_path)
    assert gif is not None
    assert MOST_FRAMES - 5 <= len(pictures(gif)) <= MOST_FRAMES  # those that are alike are one


def test_a_picture_is_small_and_shows_where_the_next_action_clicks(tmp_path: Path) -> None:
    add_frame(tmp_path, shot(200), "go_to_url", "http://a.example/", None)
    add_frame(tmp_path, shot(90, (2000, 1000)), "click", "http://a.example/", (640.0, 400.0))
    gif = moving_picture(tmp_path)
    assert gif is not None
    first, second = pictures(gif)
    assert first.size == second.size == (640, 400)
    assert first.getpixel((100, 100)) != first.getpixel((320 + 6, 200))  # the ring around 640,400, half as large
    assert len(second.getcolors() or ()) == 1
    assert len(gif) < 40_000


def test_what_a_process_left_half_written_is_passed_over(tmp_path: Path) -> None:
    assert frames_of(tmp_path) == []
    add_frame(tmp_path, shot(1), "click", "http://a.example/", None)
    (tmp_path / "frames" / "000002.jpg").write_bytes(shot(2)[:200])
    with (tmp_path / "frames.jsonl").open("a") as steps:
        steps.write('{"file": "000002.jpg", "action": "click", "address": ""}\n{"file": "0000')
    add_frame(tmp_path, shot(3), "click", "http://a.example/", None)
    gif = moving_picture(tmp_path)
    assert gif is not None
    assert 1 <= len(pictures(gif)) <= 2
