"""A search on a website, by elements and by pixels of the same page (000, app. G.4).

    python examples/browser/search.py [--model NAME] [FOLDER]

A small search site is served on the loopback address. The browser use agent opens it, fills in the search box by its
reference, and finds that the button is only drawn: a canvas, of which the page's structure says nothing. So it takes a
picture of the page, finds the button in it and clicks at that place. On the page of results it passes over what is
sponsored, scrolls, and gives the first result with its address.

No key and no network: what a language model would decide is decided by `Searcher` below, from the page and the picture
that it is shown. `--model openai:gpt-5`, or any other, lets a language model do it. It needs the extra `browser` and a
Chromium.

FOLDER keeps the workspace with the record of the steps; without it everything is gone at the end. The exit status is 1
if the answer is not the first result.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from typing import Any

from aiohttp import web
from PIL import Image, ImageChops

from agentorchestra import RunResult, Workspace
from agentorchestra.core.content import MediaBlock
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile, Settings, WebSettings
from agentorchestra.testing import ScriptedModel, call

BUTTON = (26, 115, 232)
"""The colour of the button, which nothing else on the page has."""

HOME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Seek</title>
<style>
  body { font: 18px sans-serif; text-align: center; margin-top: 120px }
  input { font: inherit; width: 420px }
</style>
<h1>Seek</h1>
<form action="/search"><input name="q" aria-label="Search"></form>
<p><canvas id="buttons" width="420" height="60"></canvas></p>
<script>
  const canvas = document.getElementById("buttons"), pen = canvas.getContext("2d");
  pen.fillStyle = "rgb(26, 115, 232)";
  pen.fillRect(130, 8, 160, 44);
  pen.fillStyle = "white";
  pen.font = "18px sans-serif";
  pen.fillText("Search", 180, 36);
  canvas.addEventListener("click", event => {
    const inside = event.offsetX > 130 && event.offsetX < 290 && event.offsetY > 8 && event.offsetY < 52;
    if (inside) document.forms[0].submit();
  });
</script>
"""

RESULTS = (
    ("Sponsored", "Python from nought to wage", "https://courses.example/python", "Forty hours, with a certificate."),
    ("Sponsored", "Coding essentials", "https://academy.example/coding", "Beginner to intermediate in a weekend."),
    ("", "Welcome to Python.org", "https://www.python.org/", "The official home of the Python language."),
    ("", "The Python Tutorial", "https://docs.python.org/3/tutorial/", "Python is easy to learn, and powerful."),
)
FIRST = RESULTS[2]


async def _home(request: web.Request) -> web.Response:
    return web.Response(text=HOME, content_type="text/html")


async def _search(request: web.Request) -> web.Response:
    asked = request.query.get("q", "")
    found = RESULTS if asked == "python programming" else ()
    items = "\n".join(
        f'<article style="height: 420px"><h2><a href="{address}">{escape(title)}</a> <small>{label}</small></h2>'
        f"<p>{escape(said)}</p></article>"
        for label, title, address, said in found
    )
    page = f"<h1>Results for {escape(asked)}</h1>{items or '<p>Nothing was found.</p>'}"
    return web.Response(text=f"<!doctype html><title>{escape(asked)} - Seek</title>{page}", content_type="text/html")


@asynccontextmanager
async def search_site() -> AsyncIterator[str]:
    """The site, until the block ends; `127.0.0.1:PORT`."""
    app = web.Application()
    app.add_routes([web.get("/", _home), web.get("/search", _search)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{host}:{port}"
    finally:
        await runner.cleanup()


class Searcher(ScriptedModel):
    """Decides by the page it sees, and by the last picture that was taken, as a model with eyes would."""

    def __init__(self) -> None:
        super().__init__(self.next, name="searcher", profile=ModelProfile(model="searcher", vision=True))
        self._picture = b""

    async def request(self, request: ModelRequest, *, media: Any = None, on_delta: Any = None) -> ModelResponse:
        """Look at the last picture first."""
        taken = [
            block for message in request.messages if message.role == "tool" for block in message.media
        ]  # not the state's own, which has marks on it
        self._picture = await media(taken[-1].sha256) if taken and media is not None else b""
        return await super().request(request, media=media, on_delta=on_delta)

    def next(self, request: ModelRequest) -> ToolCall:
        """The next action; it is shown."""
        made = self.decide(request)
        given = made.arguments if isinstance(made.arguments, dict) else {}
        print(f"  {made.name} {' '.join(str(value) for value in given.values())}"[:110])
        return made

    def decide(self, request: ModelRequest) -> ToolCall:
        """What to do with the page that is seen."""
        page = "\n".join(block.text for block in request.messages[-1].content if not isinstance(block, MediaBlock))
        site = re.search(r"127\.0\.0\.1:\d+", request.messages[1].text)
        assert site is not None
        if "title: python programming - Seek" in page:
            return self.first_result(page)
        box = re.search(r'\[(\w+)\] (?:textbox|searchbox) "Search"(.*)', page)
        if box is None:
            return call("browser_go_to_url", url=f"http://{site[0]}/")
        if "python programming" not in box[2]:
            return call("browser_input_text", ref=box[1], text="python programming", site=site[0])
        if not self._picture:
            return call("browser_screenshot")  # no button among the elements: what is there to be seen?
        x, y = middle_of(self._picture, BUTTON)
        return call("browser_click", ref=f"{x},{y}")

    def first_result(self, page: str) -> ToolCall:
        """The first result that nobody paid for, scrolled to where it is."""
        for part in page.split('link "')[1:]:  # a link, and what stands behind it up to the next one
            found = re.match(r'([^"]+)" -> (\S+)', part)
            if found is not None and "Sponsored" not in part:
                return call("done", answer=f"{found[1]}: {found[2]}")
        return call("browser_scroll", direction="down")


def middle_of(picture: bytes, colour: tuple[int, int, int]) -> tuple[int, int]:
    """The middle of the part of a picture that has a colour."""
    with Image.open(io.BytesIO(picture)) as shown:
        image = shown.convert("RGB")
    other = ImageChops.difference(image, Image.new("RGB", image.size, colour)).convert("L")
    box = other.point(lambda value: 0 if value else 255).getbbox()
    if box is None:
        raise ValueError("nothing in the picture has the colour of the button")
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


async def search(folder: Path, model: str = "") -> tuple[RunResult, Path]:
    """Let the agent search; its result, and the run's folder with the record of its steps."""
    async with search_site() as host:
        settings = Settings(web=WebSettings(private=(host,)))
        async with Workspace(folder / "workspace", settings=settings) as ws:
            task = f"Go to http://{host}/ and search for 'python programming', get the first result that is no advert."
            print(task)
            result = await ws.run(task, model=model or Searcher(), system="browser_use")
            return result, ws.files.root / result.run_id


def main() -> int:
    """Search; 0 when the answer is the first result."""
    reading = argparse.ArgumentParser(description="A search in the browser, by elements and by pixels.")
    reading.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    reading.add_argument("--model", default="", metavar="NAME")
    given = reading.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        result, place = asyncio.run(search(given.folder or Path(temporary), given.model))
        print(f"  answer:  {result.answer_text}\n  run:     {result.run_id} ({result.status}, {result.steps} steps)")
        for one in result.artifacts:
            where = place / one.name
            print(f"  record:  {where if given.folder and where.exists() else one.name} ({one.size:,} bytes)")
    right = FIRST[1] in result.answer_text and FIRST[2] in result.answer_text
    print(f"  check:   {'right: it is the first result that is no advert' if right else 'not the first result'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
