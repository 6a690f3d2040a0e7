"""Actions by the mouse: click, hover, drag, scroll, and what only pixels can do (001, sec. 3.3.2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.actions.arguments import Count, Inside, Number, PagePoint, Ref
from agentorchestra.environments.browser.actions.base import First
from agentorchestra.environments.browser.actions.targets import TargetActions, in_view
from agentorchestra.environments.browser.scripts import of_page
from agentorchestra.environments.browser.session.chromium import playwright_api
from agentorchestra.environments.browser.view.script_results import Scrolled, as_told
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

Modifier = Literal["Alt", "Control", "Meta", "Shift"]
Button = Literal["left", "right", "middle"]
_STEPS = 12  # moves of the mouse between two places: pages that follow it see it on its way
_WHEEL_S = 0.2  # seconds until a page has seen the wheel
MOST_POINTS = 200
_WAYS = {"bottom": "down", "top": "up"}


class PointerActions(TargetActions):
    @action(effect=("write", "read", "network"))
    async def click(
        self,
        ctx: Any,
        ref: Ref,
        button: Button = "left",
        count: Annotated[Count, Field(ge=1, le=3)] = 1,
        modifiers: list[Modifier] | None = None,
    ) -> str:
        """Click an element or a place.

        Args:
            ref: a reference, or a place in the view in pixels as "x,y".
            button: of the mouse.
            count: 2 for a double click.
            modifiers: keys that are held.
        """
        page, keys = await self.tab(ctx), modifiers or []
        target = self.target(page, ref)
        if isinstance(target, PagePoint):

            async def press() -> None:
                for key in keys:
                    await page.keyboard.down(key)
                try:
                    await page.mouse.click(target.x, target.y, button=button, click_count=count)
                finally:
                    for key in keys:
                        await page.keyboard.up(key)

            await self.within(f"clicking {ref}", press)
        else:
            await self.on(ref, lambda ms: target.click(button=button, click_count=count, modifiers=keys, timeout=ms))
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def hover(self, ctx: Any, ref: Ref) -> str:
        """Move the mouse onto an element or a place and leave it there.

        Args:
            ref: a reference, or "x,y".
        """
        page = await self.tab(ctx)
        target = self.target(page, ref)
        if isinstance(target, PagePoint):
            await self.within("moving the mouse", lambda: page.mouse.move(target.x, target.y, steps=_STEPS))
        else:
            await self.on(ref, lambda ms: target.hover(timeout=ms))
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def drag(self, ctx: Any, start: Ref, end: Ref) -> str:
        """Drag from one element or place to another: things, sliders, maps.

        Args:
            start: a reference, or "x,y".
            end: where it is let go: a reference, or "x,y".
        """
        page = await self.tab(ctx)
        await self.place_of(ctx, start)
        to = await self.place_of(ctx, end)
        origin = await self.place_of(ctx, start, scroll=False)
        if not in_view(page, origin):  # the end was scrolled to
            origin = await self.place_of(ctx, start)
            to = await self.place_of(ctx, end, scroll=False)
        if not (in_view(page, origin) and in_view(page, to)):
            raise ToolError(f"{start} and {end} are not in view at the same time; scroll so that both are")
        await self._drag(page, [origin, to])
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def mouse_path(
        self,
        ctx: Any,
        points: Annotated[list[Annotated[list[Number], Field(min_length=2, max_length=2)]], Field(min_length=2)],
    ) -> str:
        """Press the mouse at the first point, move it through the others and let it go at the last: to draw, to turn.

        Args:
            points: [x, y] in the view, in pixels.
        """
        page = await self.tab(ctx)
        if len(points) > MOST_POINTS:
            raise ToolError(f"{len(points)} points are too many; give at most {MOST_POINTS}, and draw in pieces")
        places = [await self.place_of(ctx, f"{x:g},{y:g}") for x, y in points]
        await self._drag(page, places)
        return await self.settle(ctx)

    async def _drag(self, page: Page, places: list[PagePoint]) -> None:
        async def work() -> None:
            await page.mouse.move(*places[0])
            await page.mouse.down()
            try:
                for place in places[1:]:
                    await page.mouse.move(*place, steps=_STEPS)
                # A page sees where something is dropped only if the mouse moved over it.
                await page.mouse.move(*places[-1])
            finally:
                await page.mouse.up()

        await self.within("dragging", work)

    @action(effect=("write", "read", "network"))
    async def mouse_wheel(self, ctx: Any, ref: Ref, dx: Number = 0, dy: Number = 0) -> str:
        """Turn the wheel over an element or a place: to zoom a map, to scroll what has no scroll bar.

        Args:
            ref: a reference, or "x,y".
            dx: pixels to the right.
            dy: pixels down.
        """
        page = await self.tab(ctx)
        place = await self.place_of(ctx, ref)

        async def turn() -> None:
            await page.mouse.move(*place)
            await page.mouse.wheel(dx, dy)
            await asyncio.sleep(_WHEEL_S)

        await self.within("turning the wheel", turn)
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def scroll(
        self,
        ctx: Any,
        direction: Literal["down", "up", "bottom", "top", "left", "right"] = "down",
        pages: Annotated[Number, Field(gt=0, le=50)] = 0.9,
        ref: Ref = "",
    ) -> str:
        """Scroll the page, or the part of it in which an element is; says how much is left.

        Args:
            direction: bottom and top go to the end.
            pages: how far, in heights of the view.
            ref: an element in the part to scroll; empty for the page.
        """
        frame = (await self.tab(ctx)).main_frame
        if ref:
            answer = await self.ask_at("scrolling", ref, "scroll", [direction, pages])
            changed = await self.settle(ctx)
        else:
            first = First(frame, frame.evaluate, "scroll", [[direction, pages]])
            changed = await self.settle(ctx, first)
            if (answer := first.answer) is None:  # its document went on to another one, or asks something
                return changed
        position = as_told(Scrolled, answer)
        if not position.moved:
            raise ToolError(f"it does not go further {_WAYS.get(direction, direction)}; {_rest(position)}")
        return f"scrolled; {_rest(position)}; {changed}"

    @action(effect=("write", "read", "network"))
    async def scroll_to_text(self, ctx: Any, text: Inside, nth: Annotated[Count, Field(ge=1, le=1000)] = 1) -> str:
        """Scroll to where a text stands on the page.

        Args:
            text: as it stands there, capitals or not.
            nth: 2 for the second place.
        """
        page = await self.tab(ctx)

        async def find() -> tuple[int, Locator | None]:
            seen = 0
            for frame in page.frames:
                matches = frame.get_by_text(text).filter(visible=True)
                try:
                    count = await matches.count()
                except playwright_api().Error:  # frames come and go
                    continue
                if seen + count >= nth:
                    return seen + count, matches.nth(nth - 1 - seen)
                seen += count
            return seen, None

        count, locator = await self.within("looking for the text", find)
        if locator is None:
            raise ToolError(
                f"{text!r} stands on the page {count} times; give a smaller nth"
                if count
                else f"{text!r} does not stand on the page as it is now; try fewer words, or scroll down if more loads"
            )
        await self.on("the text", lambda ms: locator.evaluate(of_page("toTheMiddle"), timeout=ms))
        return f"scrolled to {text!r}; {await self.settle(ctx)}"


def _rest(position: Scrolled) -> str:
    parts = [f"{position.above:g} px above, {position.below:g} px below"]
    if position.left or position.right:
        parts.append(f"{position.left:g} px to the left, {position.right:g} px to the right")
    return ", ".join(parts)
