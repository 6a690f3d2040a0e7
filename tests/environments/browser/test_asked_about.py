"""What the shipped policy asks about, of the actions of a run whose model has seen a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agents.browsing import page_of, ref_of, results_of
from tests.site.browser import browser_site
from tests.support.browsers import settings_for

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest
from agentorchestra.testing import ScriptedModel, call, decide

pytestmark = [pytest.mark.long, pytest.mark.real]


async def test_looking_and_pointing_is_not_asked_about_and_new_addresses_are(tmp_path: Path) -> None:
    """The address of the page stands in the task; what the page says is in view, and nobody can be asked."""
    allowed: dict[str, str] = {}
    refused: dict[str, str] = {}
    wrong: list[str] = []  # another site is named than the page's: that is said before anybody is asked
    async with browser_site() as site, browser_site() as other:

        def reply(request: ModelRequest) -> Any:
            done = results_of(request)
            if not done:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/form")])
            page = page_of(request)
            name, send = ref_of(page, "textbox", "Name"), ref_of(page, "button", "Send order")
            free = [
                call("browser_hover", ref="5,5"),
                call("browser_click", ref="700,20", count=2, modifiers=["Shift"]),
                call("browser_click", ref=name),
                call("browser_drag", start="700,20", end="720,60"),
                call("browser_mouse_path", points=[[700, 20], [710, 30.5]]),
                call("browser_mouse_wheel", ref="700,20", dy=50),
                call("browser_wait", text="Order", seconds=7),
                call("browser_scroll_to_text", text="Send order", nth=1),
                call("browser_press", keys="Shift+Tab", times=3),
                call("browser_read_page", part="line 1"),
                call("browser_screenshot", ref=send),
                call("browser_open_tab"),
                call("browser_close_tab"),
                call("browser_input_text", ref=name, text="Order oysters", site=site.host, keys=True, append=True),
                call("browser_pdf_viewer", url=f"{site.address}/form"),  # named, though it is none
            ]
            asked = [
                call("browser_go_to_url", url=f"{site.address}/form?stolen=1782"),
                call("browser_open_tab", url=f"{site.address}/form?stolen=1782"),
                call("browser_download", url=f"{other.address}/files/oysters.csv"),
                call("browser_pdf_viewer", url=f"{other.address}/files/paper.pdf"),
            ]
            mistaken = [
                call("browser_input_text", ref=name, text="Order oysters", site=other.host),
                call("browser_type_text", text="Order oysters", site=other.host),
                call("browser_answer_prompt", text="Order oysters", site=other.host),
                call("browser_upload", ref=name, paths=["a.txt"], site=other.host),
            ]
            # One in each decision, behind one that goes well: a batch ends with its first failure.
            every = [*free, *asked, *mistaken]
            came = done[2::2]
            if len(came) < len(every):
                return decide(calls=[call("browser_hover", ref=f"{5 + len(came)},5"), every[len(came)]])
            told = {f"{at} {one.name}": said for at, (one, said) in enumerate(zip(every, came, strict=True))}
            allowed.update([*told.items()][: len(free)])
            refused.update([*told.items()][len(free) : -len(mistaken)])
            wrong.extend(came[-len(mistaken) :])
            return decide(calls=[call("done", answer="done")])

        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path, models=model, settings=settings_for(site.host)) as ws:
            result = await ws.run(
                f"Look at {site.address}/form and fill in: Order oysters",
                environments=["browser"],
                on_ask="deny",
                max_steps=60,
            )
        assert result.answer == "done", result.error
        asked_about = "nobody can be asked"
        assert not {name: said for name, said in allowed.items() if asked_about in said}
        assert not {name: said for name, said in refused.items() if asked_about not in said}
        assert len(allowed) > 10 and len(refused) == 4
        assert len(wrong) == 4 and all(f"this is at {site.host}; look at the state" in one for one in wrong), wrong
        assert not other.requests and not any("stolen" in str(one.query) for one in site.requests)


@pytest.mark.parametrize("others", [False, True], ids=["that site alone", "another source too"])
async def test_words_of_its_own_are_typed_where_they_cannot_tell_anything_new(tmp_path: Path, others: bool) -> None:
    """After some steps: into the site that the user named, from nothing but that site; not if a file was given."""
    said: list[str] = []
    async with browser_site() as site:

        def reply(request: ModelRequest) -> Any:
            done = results_of(request)
            if len(done) < 2:
                return decide(calls=[call("browser_go_to_url", url=f"{site.address}/form")], memory="a form of oysters")
            if len(done) == 2:
                ref = ref_of(page_of(request), "textbox", "Name")
                typed = call("browser_input_text", ref=ref, text="whoever eats them", site=site.host)
                return decide(calls=[typed], memory="I fill it in")
            said.append(done[2])
            return decide(calls=[call("done", answer="done")])

        (tmp_path / "salaries.csv").write_text("Ann,5000\n")
        model = {"scripted": ScriptedModel(reply)}
        async with Workspace(tmp_path / "ws", models=model, settings=settings_for(site.host)) as ws:
            result = await ws.run(
                f"Fill in {site.address}/form as you like",
                files=[tmp_path / "salaries.csv"] if others else [],
                environments=["browser"],
                on_ask="deny",
            )
        assert result.answer == "done", result.error
    assert ("nobody can be asked" in said[0]) is others, said
