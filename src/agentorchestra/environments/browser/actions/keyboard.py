"""Actions by the keyboard: type into fields, press keys, choose from lists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import pydantic

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import Count, Inside, Ref, Site, Switch, same_site
from agentorchestra.environments.browser.actions.base import First, gone_sentence
from agentorchestra.environments.browser.actions.targets import TargetActions, address_of
from agentorchestra.environments.browser.scripts import ask, of_page
from agentorchestra.environments.browser.view.references import in_some_frame
from agentorchestra.environments.browser.view.script_results import Field, Option, Options, as_told
from agentorchestra.tea.calling.environment import action

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, JSHandle, Locator, Page

MOST_TYPED = 20_000  # characters of one `input_text`; key by key a tenth of that
MOST_OPTIONS = 40  # options that are named when none of them was meant
_KEY_S = 0.02  # seconds that one key may take, of those that are pressed one by one
_OPENS_S = 3.0  # seconds that a list of one's own making has to open
_CLICK_TYPES = {"checkbox", "radio", "button", "submit", "reset", "image"}
_MODIFIERS = {"shift": "Shift", "alt": "Alt", "option": "Alt"}
_MODIFIERS |= dict.fromkeys(("control", "ctrl", "strg"), "Control")
_MODIFIERS |= dict.fromkeys(("meta", "cmd", "command", "win"), "Meta")
_KEY_NAMES = (
    *("Enter", "Escape", "Tab", "Backspace", "Delete", "Insert", "Space", "Home", "End", "PageUp", "PageDown"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "ContextMenu"),
    *(f"F{number}" for number in range(1, 13)),
    *("Shift", "Control", "Alt", "Meta"),
)
_ALIASES = {"esc": "Escape", "return": "Enter", "del": "Delete", "pgup": "PageUp", "pgdn": "PageDown", " ": "Space"}
_ALIASES |= {way.lower(): f"Arrow{way}" for way in ("Up", "Down", "Left", "Right")}


class KeyboardActions(TargetActions):
    @action(effect=("write", "send"))
    async def input_text(
        self,
        ctx: Any,
        ref: Ref,
        text: str,
        site: Site,
        append: Switch = False,
        keys: Switch = False,
        enter: Switch = False,
    ) -> str:
        """Fill a field.

        Args:
            ref: the field's reference.
            text: its new content. Dates: 2024-05-31, times: 14:30, colours: #ff8800.
            site: the host of the page or frame, as the state shows it.
            append: add to what stands there.
            keys: press key by key, for fields that suggest while one types.
            enter: press Enter at the end.
        """
        now = await self.field(ctx, ref)
        same_site(site, await self.address_of(now))
        suggests = False
        if append or keys or not self.plain_field(ctx, now):
            field = as_told(Field, await self.ask_at(f"looking at {ref}", now, "field"))
            refuse(ref, field)
            suggests = field.suggests
        if len(text) > (MOST_TYPED // 10 if keys else MOST_TYPED):
            raise ToolError(f"the text has {len(text):,} characters; give at most {MOST_TYPED:,}, a tenth key by key")
        frame, selector = self.spot(now)
        locator = frame.locator(selector)
        if keys or (suggests and len(text) <= MOST_TYPED // 10):
            page, element = await self.tab(ctx), await self.handle(ref, locator)
            if not append:
                await self.on(ref, lambda ms: locator.fill("", timeout=ms))
            await self.ask(f"going to the end of {ref}", element, "caretToEnd")
            problem = f"{ref} lost the keyboard while it was filled in; look at the state and try again"
            await self._type(page, f"typing into {ref}", element, text, problem)
        elif append:
            await self.ask_at(f"going to the end of {ref}", now, "caretToEnd")
            page = await self.tab(ctx)
            if not await self.ask_at(f"looking at {ref}", now, "hasKeys"):
                raise ToolError(f"{ref} does not take the keyboard; click it, look at the state and use what appeared")
            await self.within(f"typing into {ref}", lambda: page.keyboard.insert_text(text))
        else:
            await self.on(ref, lambda ms: locator.fill(text, timeout=ms))
        if enter or in_some_frame(frame.page, now):
            other = _other(ref, text, await self._holds(now, text))
            if enter:
                await self.on(ref, lambda ms: locator.press("Enter", timeout=ms))
            return f"{ref} is filled in{other}; {await self.settle(ctx)}"
        first = First(frame, partial(frame.eval_on_selector, selector), "holds", [text])
        news = await self.settle(ctx, first)
        return f"{ref} is filled in{_other(ref, text, first.answer)}; {news}"

    async def _holds(self, ref: str, text: str) -> Any:
        try:
            return await self.ask_at(f"looking at {ref}", ref, "holds", text)
        except ToolError as error:
            if str(error) == gone_sentence(ref):  # the page put another one in its place
                return "unknown"
            raise

    async def _type(self, page: Page, stage: str, owner: ElementHandle | Frame, text: str, problem: str) -> None:
        """Type character by character, as long as the element or frame has the keyboard."""

        async def press() -> None:
            for char in text:
                # Another frame could take the keys for itself meanwhile, and with them what is typed.
                if not await ask(owner.evaluate, "hasKeys"):
                    raise ToolError(problem)
                await page.keyboard.type(char)

        await self.within(stage, press, seconds=limits.CALL_S + _KEY_S * len(text))

    @action(effect=("write", "send"))
    async def type_text(self, ctx: Any, text: str, site: Site) -> str:
        """Type with the keyboard into whatever has the focus: for drawings, games, editors without a field.

        Args:
            text: what is typed; a new line is Enter.
            site: the host of the page or frame, as the state shows it.
        """
        page = await self.tab(ctx)
        if len(text) > MOST_TYPED // 10:
            raise ToolError(f"the text has {len(text):,} characters; type at most {MOST_TYPED // 10:,} at once")
        frame = await self.within("finding what has the keyboard", lambda: _focus_frame(page))
        same_site(site, address_of(frame))
        problem = "the keyboard went to another frame while this was typed; look at the state"
        await self._type(page, "typing", frame, text, problem)
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def press(self, ctx: Any, keys: Inside, times: Annotated[Count, pydantic.Field(ge=1, le=100)] = 1) -> str:
        """Press a key or several together, in whatever has the focus.

        Args:
            keys: Enter, Escape, Tab, Backspace, Delete, Space, ArrowDown, PageDown, Home, End, Shift+Tab, Control+A.
            times: how often.
        """
        page = await self.tab(ctx)
        chord = checked_keys(keys)

        async def press() -> None:
            for _ in range(times):
                await page.keyboard.press(chord)

        await self.within(f"pressing {chord}", press)
        return await self.settle(ctx)

    @action(effect=("write", "read", "network"))
    async def select(self, ctx: Any, ref: Ref, options: Annotated[list[Inside], pydantic.Field(min_length=1)]) -> str:
        """Choose from a list, also from one that opens when it is clicked.

        Args:
            ref: the list's reference.
            options: as they are written; several where the list takes several.
        """
        await self.current(ctx)
        frame, selector = self.spot(ref)
        locator, answer = frame.locator(selector), None
        if not in_some_frame(frame.page, ref):
            first = First(frame, partial(frame.eval_on_selector, selector), "choose", [options])
            news = await self.settle(ctx, first)
            if first.answer is True or (first.answer is None and first.is_done):
                return f"chosen; {news}"
            answer = first.answer
        answer = answer or await self.ask_at(f"looking at {ref}", ref, "options")
        if answer is None:
            await self._select_listed(ctx, ref, locator, await self.handle(ref, locator), options)
        else:
            native = as_told(Options, answer)
            if len(options) > 1 and not native.multiple:
                labels = [option.label for option in native.options]
                raise ToolError(f"{ref} takes one option; give one of: {_listing(labels)}")
            indices = [_option(ref, option, native.options) for option in options]
            await self.on(ref, lambda ms: locator.select_option(index=indices, timeout=ms))
        return f"chosen; {await self.settle(ctx)}"

    async def _select_listed(
        self, ctx: Any, ref: str, locator: Locator, element: ElementHandle, options: list[str]
    ) -> None:
        """Choose from a list of a page's own making: opened by a click, its options have roles."""
        before = await self.within(f"looking at {ref}", lambda: element.evaluate_handle(of_page("allListed")))
        items, words = await self._option_items(ref, element, None)
        if not words:
            await self.on(ref, lambda ms: locator.click(timeout=ms))
            until = asyncio.get_running_loop().time() + _OPENS_S
            while not words:
                if asyncio.get_running_loop().time() > until:
                    raise ToolError(f"{ref} is no list with options; look at the state, and click what is meant")
                await asyncio.sleep(0.1)
                items, words = await self._option_items(ref, element, before)
        for option in options:
            at = _option(ref, option, [Option(label=word, value=word) for word in words])
            item = await self.within(f"choosing {option!r}", partial(items.evaluate_handle, of_page("item"), at))
            await self.on(option, partial(_click_option, item))
            if option is not options[-1]:
                items, words = await self._option_items(ref, element, before)

    async def _option_items(self, ref: str, element: ElementHandle, before: Any) -> tuple[JSHandle, list[str]]:
        async def look() -> tuple[JSHandle, list[str]]:
            items = await element.evaluate_handle(of_page("listed"), before)
            return items, as_told(list[str], await items.evaluate(of_page("words")))

        return await self.within(f"looking for the options of {ref}", look)


async def _click_option(item: JSHandle, ms: float) -> None:
    if (element := item.as_element()) is None:
        raise ToolError("the list changed meanwhile; look at the state and choose again")
    await element.click(timeout=ms)


def _other(ref: str, text: str, holds: Any) -> str:
    """Return a sentence if a field holds something else than the text that it was given; a ToolError for nothing."""
    if holds == "nothing" and text.strip():
        raise ToolError(
            f"{ref} did not take this text: it is empty now; dates are 2024-05-31, times 14:30, months 2024-05, "
            "colours #ff8800, numbers plain digits"
        )
    return "; it holds something else than was given, look at it" if holds == "other" else ""


def refuse(ref: str, field: Field) -> None:
    if field.tag == "select":
        raise ToolError(f"{ref} is a list; use select")
    if field.type == "file":
        raise ToolError(f"{ref} takes files; use upload")
    if field.type in _CLICK_TYPES:
        raise ToolError(f"{ref} is a {field.type}; use click")
    if field.disabled:
        raise ToolError(f"{ref} is disabled; do first what it waits for, or use another field")
    if field.readonly:
        raise ToolError(f"{ref} is read only; click it and look whether something else opens, or use another field")
    if not field.takes:
        raise ToolError(f"{ref} is a <{field.tag}>, no field; take the reference of a field, or use type_text")


def checked_keys(text: str) -> str:
    """Return a key or chord as the browser names it: `Control+A`; a ToolError for text and unknown keys."""
    *prefixes, last = text.replace(" ", "").split("+") if text.strip() else [text]
    modifiers = [_MODIFIERS.get(prefix.lower(), "") for prefix in prefixes]
    if "" in modifiers:
        bad = prefixes[modifiers.index("")]
        raise ToolError(f"{bad!r} is no key to hold; hold Control, Shift, Alt or Meta, as in Control+A")
    keys = {name.lower(): name for name in _KEY_NAMES} | _ALIASES
    key = keys.get(last.lower(), "")
    strong = [modifier for modifier in modifiers if modifier != "Shift"]
    if not key and len(last) == 1 and last.isprintable() and strong:
        key = last.upper() if last.isalpha() and "Shift" in modifiers else last
    if (key.lower() in ("c", "x", "v") and strong) or (key == "Insert" and modifiers):
        raise ToolError(
            f"{text!r} copies or pastes, and the clipboard is shared by all runs; give the text with input_text"
        )
    if not key:
        raise ToolError(
            f"{text!r} is no key; give one of {', '.join(_KEY_NAMES[:16])}, F1 to F12, or a letter with Control or Alt "
            "(text is typed with input_text or type_text)"
        )
    return "+".join([*modifiers, key])


def _option(ref: str, choice: str, options: Sequence[Option]) -> int:
    """Return the place of an option, by its words, its value, or words that only it begins with; else a ToolError."""
    plain = choice.strip().casefold()
    labels = [option.label.casefold() for option in options]
    by_value = [at for at, option in enumerate(options) if option.value.casefold() == plain]
    by_prefix = [at for at, label in enumerate(labels) if plain and label.startswith(plain)]
    for places in ([at for at, label in enumerate(labels) if label == plain], by_value, by_prefix):
        if places and len({labels[at] for at in places}) == 1:
            if options[places[0]].disabled:
                raise ToolError(f"the option {choice!r} of {ref} is disabled; choose another one")
            return places[0]
    usable = [option.label or option.value for option in options if not option.disabled]
    raise ToolError(f"{ref} has no option {choice!r}; it has: {_listing(usable)}")


def _listing(words: list[str]) -> str:
    text = ", ".join(repr(word[:80]) for word in words[:MOST_OPTIONS])
    return f"{text} and {len(words) - MOST_OPTIONS} more" if len(words) > MOST_OPTIONS else text or "none"


async def _focus_frame(page: Page) -> Frame:
    frame = page.main_frame
    while True:
        active = (await frame.evaluate_handle("document.activeElement")).as_element()
        inner = await active.content_frame() if active is not None else None
        if inner is None:
            return frame
        frame = inner
