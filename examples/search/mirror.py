"""Search in a copy of a website, read the page that was found, and cite it: without a key and without a network.

    python examples/search/mirror.py

The copy is a folder, as `wget --mirror` leaves it. `local` searches it and gives the addresses of the site, and `fetch`
reads them from the copy. A function stands in for the model: it takes the address from what `search` found, and the
quote with its place from what `fetch` read.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide

PAGES = {
    "": ("The mill on the Orr", "The mill has ground barley and rye since 1713. It stands open on Saturdays."),
    "wheel": ("The wheel", "The wheel is 4.8 metres high and made of larch. It was last renewed in 1996."),
    "millers": ("The millers", "Eleven families have kept the mill. The last of them, the Brandts, left in 1971."),
    "flood": ("The flood of 1954", "In July 1954 the Orr rose by three metres and carried off the weir."),
}
QUESTION = "What is the wheel of the mill made of, and when was it renewed?"


def write_copy(folder: Path) -> None:
    """The copy of the site."""
    for name, (title, text) in PAGES.items():
        page = folder / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        words = "".join(f"<p>{one}.</p>" for one in text.rstrip(".").split(". "))
        page.write_text(f"<title>{title}</title><main><h1>{title}</h1>{words}</main>", encoding="utf-8")


def model(request: ModelRequest) -> ModelResponse:
    """Search, read the best page, answer with the sentence that says it and its place."""
    results = [one.text for one in request.messages if one.role == "tool"]
    if not results:
        return decide(calls=[call("search", query="wheel of the mill larch renewed")])
    found = json.loads(re.search(r"\{.*\}", results[0], re.DOTALL)[0])  # type: ignore[index]
    address = found["results"][0]["address"]
    if len(results) == 1:
        return decide(calls=[call("fetch", url=address)])
    # The first line says what was read; below it stand the lines of the page, each behind its number.
    lines = [line.partition("\t") for line in results[1].splitlines()[1:]]
    cited: list[Any] = [
        {"source": address, "place": f"line {number}", "quote": line}
        for number, _, line in lines
        if "larch" in line or "renewed" in line
    ]
    return decide(calls=[call("done", answer=" ".join(one["quote"] for one in cited), sources=cited)])


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "copy"
        write_copy(folder)
        folders = [{"path": str(folder), "address": "https://mill.example"}]
        settings = Settings.model_validate({"search": {"engines": ["local"], "folders": folders}})
        async with Workspace(Path(place) / "ws", settings=settings) as ws:
            result = await ws.run(QUESTION, model=ScriptedModel(model), system="react")
    print(result.answer)
    for one in result.sources:
        print(f"  {one.source}, {one.place}: {one.quote}")


if __name__ == "__main__":
    asyncio.run(main())
