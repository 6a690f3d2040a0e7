"""The action on films: play, go to a second, see a frame (001, sec. 3.3.2)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import Number, Ref
from agentorchestra.environments.browser.actions.extraction import ExtractionActions
from agentorchestra.environments.browser.scripts import of_page
from agentorchestra.environments.browser.view.script_results import Film, as_told
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle

_FILM_S = 8.0  # seconds that a film has to load, or to go to a second, before it is said not to


class VideoActions(ExtractionActions):
    @action(effect=("write", "read", "network"))
    async def video_viewer(
        self,
        ctx: Any,
        do: Literal["look", "play", "pause", "seek", "frame"] = "look",
        at: Annotated[Number, Field(ge=0)] | None = None,
        ref: Ref = "",
    ) -> ToolResult:
        """Work the video of the page; says its length, where it stands, its subtitles.

        Args:
            do: frame gives a picture.
            at: the second to which seek and frame go.
            ref: the video, where there are several; empty for the largest.
        """
        film = await self._film(ctx, ref)
        wait = limits.CALL_S + _FILM_S
        await self.ask("loading the video", film, "ready", _FILM_S, seconds=wait)
        state = as_told(Film, await self.ask("looking at the video", film, "filmState"))
        if state.error or not state.ready:
            raise ToolError(
                f"the video does not load ({state.error or 'nothing came'}); wait, press its play button, or look "
                "for another copy"
            )
        if do == "seek" and at is None:
            raise ToolError("say where to go: at=12.5 for a second")
        if at is not None and do in ("seek", "frame"):
            if state.length is not None and at > state.length:
                raise ToolError(f"the video has {state.length:g} s and no second {at:g}; give a smaller one")
            if do == "frame":
                await self.ask("stopping the video", film, "pause")
            await self.ask(f"going to {at:g} s", film, "seek", [at, _FILM_S], seconds=wait)
        elif do in ("play", "pause"):
            await self.ask(f"{do} of the video", film, do)
        state = as_told(Film, await self.ask("looking at the video", film, "filmState"))
        if do == "frame":
            data = await self.on("the video", lambda ms: film.screenshot(scale="css", timeout=ms))
            return await self.picture(ctx, data, f"the video at {state.at or 0:g} s", f"; {_sentence(state)}")
        return ToolResult(content=[TextBlock(text=_sentence(state), source=self.here(), trust=Trust.UNTRUSTED)])

    async def _film(self, ctx: Any, ref: str) -> ElementHandle:
        page = await self.tab(ctx)
        if ref:
            element = await self.handle(ref, await self.element(ctx, ref))
            handle = await self.within("finding the video", lambda: element.evaluate_handle(of_page("film")))
            video: ElementHandle | None = handle.as_element()
            if video is None:
                raise ToolError(f"{ref} is no video and holds none; leave ref out for the largest of the page")
            return video
        for frame in page.frames:
            handle = await self.within("finding the video", partial(frame.evaluate_handle, of_page("film")))
            if (video := handle.as_element()) is not None:
                return video
        raise ToolError("there is no video on the page; press what loads it, or look at the state")


def _sentence(state: Film) -> str:
    length = f"of {state.length:g} s" if state.length is not None else "of a live stream"
    doing = "playing" if state.playing else "at its end" if state.ended else "paused"
    parts = [f"{doing} at {state.at or 0:g} s {length}, {state.width:g} x {state.height:g}"]
    parts.append(f"tracks: {', '.join(state.tracks)}" if state.tracks else "no subtitles")
    if state.said:
        parts.append(f"subtitle now: {state.said}")
    return "; ".join(parts)
