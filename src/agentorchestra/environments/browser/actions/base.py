from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.content import Source, TextBlock, Trust, text_of
from agentorchestra.core.errors import MissingKeyError, ToolError
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.settings import BrowserSettings, WebSettings
from agentorchestra.environments.browser import limits
from agentorchestra.environments.browser.actions.arguments import host_of, wrong_site
from agentorchestra.environments.browser.scripts import ask
from agentorchestra.environments.browser.session.chromium import playwright_api, within
from agentorchestra.environments.browser.session.persistence import MOST_FRAMES, note_stored
from agentorchestra.environments.browser.session.recorder import pointed_at, take_frame
from agentorchestra.environments.browser.session.session import BrowserSession, DialogOpened
from agentorchestra.environments.browser.session.tabs import BLANK, Tab
from agentorchestra.environments.browser.view.probe import options
from agentorchestra.environments.browser.view.references import locate, numbers_of, selected
from agentorchestra.environments.browser.view.text import without_password
from agentorchestra.environments.browser.view.view import PageView, look
from agentorchestra.environments.folder import FolderEnvironment
from agentorchestra.runtime.results import ToolResult
from agentorchestra.runtime.worlds import STATE_ACTION

if TYPE_CHECKING:
    from playwright.async_api import Frame, Locator, Page

T = TypeVar("T")
_MOMENT_S = 0.15  # in which what an action sets off begins: a navigation, a dialog, a download
_WHOLE_S = 3.0  # how long a document that is there is waited for until all of it is
_REFRESH_S = 5.0  # how long one that leads on by itself is waited for
_MOST_DOCUMENTS = 5  # that follow each other by themselves
_MOST_REFUSED = 5
_PLAIN = frozenset(("textbox", "searchbox"))
_NOT_PLAIN = frozenset(("disabled", "readonly", "suggests values"))
# A line of a view: the reference, the role, and the name where there is one.
_ELEMENT_LINE = re.compile(r"^\s*- (?:\w+ > )*\[((?:f\d+)?[ex]\d+)\] (\w+(?: \"[^\"]*\")?)")


PAGE = "agent:browser:page"
"""Of an agent's own state: how many times its page became another one."""


@dataclass
class First:
    """What a function of page.js does before it is waited for what it sets off: two calls in one."""

    frame: Frame
    evaluate: Callable[..., Awaitable[Any]]  # of the frame, or of an element in it
    function: str
    arguments: list[Any]
    answer: Any = None  # what the function said; None if its document went on to another one
    tab: Tab | None = None  # where it was done
    documents: int = 0  # how many had come to the tab before

    @property
    def is_done(self) -> bool:
        """Return True if the function said something, or something else of its tab is seen since: it was done."""
        went_on = self.tab is not None and (self.tab.dialog is not None or self.tab.documents != self.documents)
        return self.answer is not None or went_on


def agent_of(ctx: Any) -> str:
    """Return the name of the agent that acts: its session's branch, the same after a resume and in rival worlds."""
    context = ctx
    # An agent has a part of the budget of its own; programs, composite actions and rivals have its agent's.
    while getattr(context, "parent", None) is not None and context.node is context.parent.node:
        context = context.parent
    return str(getattr(context, "branch", "/"))


def _records(ctx: Any) -> Mapping[EffectKey, Any]:
    ledger = getattr(getattr(ctx, "run", None), "ledger", None)
    return ledger.records if ledger is not None else {}


def has_ended(ctx: Any, agent: str) -> bool:
    above, _, last = agent.rpartition("/")
    number = last.partition(".")[0]
    record = _records(ctx).get(EffectKey(above or "/", int(number))) if number.isdigit() else None
    return record is not None and record.outcome is not None


def reference_in(line: str) -> tuple[str, str] | None:
    """Return the reference that a line of a view gives, and the role and name of its element; None for no reference."""
    match = _ELEMENT_LINE.match(line)
    return (match[1], match[2]) if match else None


def shown_as(ctx: Any, agent: str, ref: str, url: str) -> str:
    """Return the role and name that an agent was last shown for a reference on this page, by the log; "" for none."""
    states = [
        (record.seq, record.outcome)
        for key, record in _records(ctx).items()
        if key.branch == agent and record.effect.get("arguments", {}).get("action") == STATE_ACTION and record.outcome
    ]
    outcome = max(states, key=lambda state: state[0], default=(0, None))[1]
    if outcome is None or not outcome.ok or url not in {block.source.ref for block in outcome.blocks() if block.source}:
        return ""
    lines = map(reference_in, text_of(outcome.blocks()).splitlines())
    return next((label for reference, label in filter(None, lines) if reference == ref.strip().strip("[]")), "")


class TabActions(FolderEnvironment):
    """The base of all actions: the tabs of a run, bounded calls, news."""

    name = "browser"
    stops_at_failure = True

    def __init__(self, settings: BrowserSettings | None = None, web: WebSettings | None = None) -> None:
        self.settings = settings or BrowserSettings()
        self.web = web or WebSettings()
        self._session: BrowserSession | None = None
        self._tab: Tab | None = None
        self._seen = 0  # visits that were told
        self._told: list[str] = []  # by this action, if it says anything
        self._views: dict[str, PageView] = {}  # what each agent saw last
        self._began = 0.0  # the loop's time at which this action did

    @property
    def confined(self) -> bool:
        """Return True: downloads land in the run's folder, addresses are judged as the network's."""
        return True

    @property
    def session(self) -> BrowserSession:
        if self._session is None:
            self._session = BrowserSession(self.settings, self._stands_on, self.kept, self.web)
        return self._session

    async def current(self, ctx: Any, *, responsive: bool = False) -> Tab:
        """Return this agent's current tab; its page is open, and with `responsive` it answers."""
        self._tab = await self.session.tab(agent_of(ctx), responsive=responsive)
        return self._tab

    async def tab(self, ctx: Any, *, responsive: bool = False) -> Page:
        page = (await self.current(ctx, responsive=responsive)).page
        assert page is not None
        return page

    async def element(self, ctx: Any, ref: str) -> Locator:
        """Return the element that has a reference in the state; a ToolError if there is none any more."""
        page = await self.tab(ctx)
        if (locator := await self.within(f"finding {ref}", lambda: locate(page, ref))) is None:
            raise ToolError(gone_sentence(ref))
        return locator

    def locator(self, ref: str) -> Locator:
        """Return what a reference in the state stands for; a ToolError for none. The next call finds it gone."""
        frame, selector = self.spot(ref)
        return frame.locator(selector)

    def spot(self, ref: str) -> tuple[Frame, str]:
        """Return the frame and selector of a reference in the state; a ToolError for none."""
        assert self._tab is not None, "ask for the tab first"
        page = self._tab.page
        if page is None or (spot := selected(page, ref)) is None:
            raise ToolError(gone_sentence(ref))
        return spot

    def plain_field(self, ctx: Any, ref: str) -> bool:
        """Return True if the state that this agent sees shows a text field that suggests nothing under a reference."""
        view, page = self._views.get(agent_of(ctx)), self._tab.page if self._tab is not None else None
        if view is None or page is None or numbers_of(page).views != view.number:
            return False
        node = next((element for element in view.tree.elements() if element.ref == ref.strip().strip("[]")), None)
        return node is not None and node.role in _PLAIN and not {*node.notes, *node.states} & _NOT_PLAIN

    async def field(self, ctx: Any, ref: str) -> str:
        """Return the reference, as it is now, of the element to fill in; a ToolError if there is none any more."""
        # Between the question about a text and its answer the process may have ended: then the page is opened anew, and
        # the element is the one with the role and name that the agent was shown under the reference.
        page = await self.tab(ctx)
        line = shown_as(ctx, agent_of(ctx), ref, without_password(page.url)) if numbers_of(page).views == 0 else ""
        if not line:
            return ref
        view = await self.within("looking at the page", lambda: look(page, whole=True))
        same = [entry for entry in map(reference_in, view.lines) if entry is not None and entry[1] == line]
        if len(same) != 1:
            raise ToolError(
                f"the page was opened anew since {ref!r} was shown, and {line} stands there {len(same)} times; look at "
                "the state again"
            )
        return same[0][0]

    def mistaken(self, action: str, arguments: Mapping[str, JsonValue], ctx: Any) -> str | None:
        """Return what is wrong with the site that an action names, so that nobody is asked about it."""
        tab, site = self._at_hand(ctx), arguments.get("site")
        if not isinstance(site, str) or tab is None or tab.page is None:
            return None
        here = host_of(tab.page.url)
        hosts = {here, *(host_of(frame.url) for frame in tab.page.frames)}
        return None if site.strip().lower() in hosts else wrong_site(site, here)

    async def within(self, stage: str, make: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
        """Return the result of a call on this agent's page; `seconds` and errors as for `BrowserSession.run`."""
        assert self._tab is not None, "ask for the tab first"
        return await self.session.run(self._tab, stage, make, seconds)

    async def settle(self, ctx: Any, first: First | None = None) -> str:
        """Wait for what an action set off, not longer than a page may load; return one line on what there is now.

        What is done `first` is done in the call that waits in its frame.
        """
        end = asyncio.get_running_loop().time() + self.settings.load_s
        for _ in range(_MOST_DOCUMENTS):
            tab = await self.current(ctx)  # another one where a page opened it, or closed itself
            documents = tab.documents
            await self._quiet(tab, first)
            first = None
            await self._windows(tab)
            await self._loaded(tab, end)
            still = tab is self._at_hand(ctx) and tab.page is not None and not tab.page.is_closed()
            if tab.dialog is not None or (still and tab.documents == documents):
                break
        await self.session.downloads.settle(limits.CALL_S / 2)
        self._told += self.news(tab)
        return "; ".join([self._location(tab), *self._told])

    async def _quiet(self, tab: Tab, first: First | None) -> None:
        """Wait until nothing is about to happen in a tab; note what its sites keep."""
        page = tab.page
        if page is None or tab.dialog is not None or tab.dead:
            return
        if first is not None:
            first.tab, first.documents = tab, tab.documents
        since = (asyncio.get_running_loop().time() - self._began) * 1000
        wait = [_MOMENT_S * 1000, _WHOLE_S * 1000, since]

        async def quiet(frame: Frame) -> Any:
            args = [wait, options() if frame == page.main_frame else None]
            moved_on = contextlib.suppress(playwright_api().Error)
            if first is not None and frame == first.frame:
                with moved_on:
                    results = await ask(first.evaluate, "done", [first.function, first.arguments, *args])
                    first.answer, *results = results if isinstance(results, list) and len(results) == 3 else [None] * 3
                    return results
            with moved_on:
                results = await ask(frame.evaluate, "quiet", *args)
                return results if isinstance(results, list) and len(results) == 2 else None

        async def all_quiet() -> None:
            document = tab.documents
            frames = page.frames[:MOST_FRAMES]
            answers = [await quiet(frames[0])] if len(frames) == 1 else await asyncio.gather(*map(quiet, frames))
            results = [answer or (None, None) for answer in answers]
            tab.probe = (asyncio.get_running_loop().time(), document, results[0][1])
            tab.read = results[0][0] is not None
            if tab.read:
                note_stored(tab, [result[0] for result in results])

        try:
            await self.session.run(tab, "waiting for the page", all_quiet, limits.CALL_S + _WHOLE_S)
        except DialogOpened:
            pass
        except ToolError as exc:
            tab.note(str(exc))

    async def _windows(self, tab: Tab) -> None:
        """Wait for windows that the page is about to open, not longer than for any other call."""
        clock = asyncio.get_running_loop().time
        end = clock() + limits.CALL_S
        while tab.opening and tab.dialog is None and not tab.dead and clock() < end:
            tab.changed.clear()
            with contextlib.suppress(TimeoutError):
                await within(tab.changed.wait(), end - clock())
        if tab.opening and clock() >= end:
            tab.opening = 0
            tab.note("the page opens another tab, which is not there yet")

    async def _loaded(self, tab: Tab, end: float) -> None:
        """Wait for a document that was asked for until `end`, and for one that a page leads to soon."""
        clock = asyncio.get_running_loop().time
        due = min(end, tab.leads[0] + _MOMENT_S) if tab.leads and tab.leads[0] < self._began + _REFRESH_S else 0.0
        while tab.dialog is None and not tab.dead and clock() < (end if tab.loading else due if tab.leads else 0):
            tab.changed.clear()
            with contextlib.suppress(TimeoutError):
                await within(tab.changed.wait(), (end if tab.loading else due) - clock())
        if tab.dialog is None and (tab.loading or tab.dead):
            tab.note(await self.session.heal(tab) or "the page is still loading")
        elif tab.leads is not None:
            seconds = max(tab.leads[0] - clock(), 0)
            tab.note(f"the page leads to {tab.leads[1][:200]} by itself in {seconds:.0f} s")
            tab.leads = None

    def _location(self, tab: Tab) -> str:
        if tab.dialog is not None:
            return dialog_sentence(tab)
        if tab.page is None or tab.page.url == BLANK:
            return f"tab {tab.number} is empty"
        return f"tab {tab.number} is at {tab.address[:500]}"

    def news(self, tab: Tab) -> list[str]:
        """Return what happened and nobody was told yet: in a tab, with downloads, at the boundary."""
        boundary = self.session.boundary
        visits = boundary.failures(self._seen)
        self._seen = boundary.count
        more = len(visits) - _MOST_REFUSED
        return [
            *tab.take_notes(),
            *self.session.downloads.news(),
            *(visit.reason for visit in visits[:_MOST_REFUSED]),
            *([f"{more} more places were not reached"] if more > 0 else []),
        ]

    def check_address(self, url: str) -> str:
        """Return an address that may be opened; a ToolError for any that is not of the web."""
        if not url.lower().startswith(("http://", "https://")):
            raise ToolError(f"{url!r} is no address of the web; give one that begins with https:// or http://")
        return url

    async def act(self, action: str, arguments: dict[str, JsonValue], ctx: Any) -> Any:
        """Do it, keep what has to be there after a crash, and take a picture for whoever records."""
        if self.composes(action):  # it acts by effects; this instance is not open
            return await super().act(action, arguments, ctx)
        self._begin(ctx)
        records = self.settings.record and self.mutates(action)
        point = await pointed_at(_usable(self._at_hand(ctx)), ctx, arguments) if records else None
        page = self._page(ctx)
        try:
            return self._with_sources(await super().act(action, arguments, ctx))
        except DialogOpened:
            return self._with_sources(dialog_sentence(self._tab))
        except ToolError:
            for note in self._told:  # the mistake is all that is said: the next look tells this
                if self._tab is not None:
                    self._tab.note(note)
            raise
        finally:
            if self._page(ctx) != page:
                ctx.vars[PAGE] = ctx.vars.get(PAGE, 0) + 1
            if self.mutates(action) and self._session is not None:
                await self._session.save()
            if records and self._session is not None:
                await take_frame(_usable(self._at_hand(ctx)), ctx, action, self._session.shared.look(), point)

    def _begin(self, ctx: Any) -> None:
        """Release the tabs of agents that ended; start counting dialogs anew, unless this action answers one."""
        self._told = []
        self._began = asyncio.get_running_loop().time()
        session = self.session
        for host, names in self.settings.logins.items():
            with contextlib.suppress(MissingKeyError):  # one that is not set here is of no use
                if len(names) == 2:
                    session.credentials[host] = (str(ctx.secret(names[0])), str(ctx.secret(names[1])))
        session.release([agent for agent in session.current if agent != agent_of(ctx) and has_ended(ctx, agent)])
        tab = self._at_hand(ctx)
        if tab is not None and tab.dialog is None:
            tab.dialogs = 0

    def _page(self, ctx: Any) -> tuple[int, int, bool] | None:
        """Return the number of this agent's tab, of the document in it, and whether a dialog is open."""
        tab = self._at_hand(ctx)
        return None if tab is None else (tab.number, tab.documents, tab.dialog is not None)

    def _at_hand(self, ctx: Any) -> Tab | None:
        """Return this agent's tab as it is; nothing is opened for this."""
        session = self._session
        return session.tabs.get(session.current.get(agent_of(ctx), 0)) if session is not None else None

    def _with_sources(self, value: Any) -> Any:
        """Add the page as the source of what an action says, and all that was shown in it: policy asks for both."""
        url, *rest = self._tab.sources() if self._tab is not None else [""]
        also = tuple(Source(kind="web", ref=other) for other in rest)
        if isinstance(value, str):
            value = TextBlock(text=value, source=Source(kind="web", ref=url), trust=Trust.UNTRUSTED)
            return ToolResult(content=value, sources=also) if also else value
        return replace(value, sources=(*value.sources, *also)) if isinstance(value, ToolResult) else value


def _usable(tab: Tab | None) -> Page | None:
    return tab.page if tab is not None and tab.dialog is None and not tab.dead else None


def gone_sentence(ref: str) -> str:
    return f"there is no element {ref!r} on the page now; look at the state again and take a reference from it"


def dialog_sentence(tab: Tab | None) -> str:
    """Return what a dialog asks; its page does nothing until it has an answer."""
    if tab is None or (dialog := tab.dialog) is None:
        return "no dialog is open any more"
    if dialog.type == "beforeunload":
        return (
            f"the page of tab {tab.number} asks whether to leave it: what was changed there may be lost; answer_dialog "
            "with accept leaves it, without stays"
        )
    proposal = f", which proposes {dialog.default_value[:200]!r}" if dialog.default_value else ""
    return (
        f"a dialog is open in tab {tab.number} ({dialog.type}{proposal}): {dialog.message[:1000]!r}; nothing else can "
        "be done there until it is answered"
    )
