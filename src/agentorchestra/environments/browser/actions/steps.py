"""`act` and `look`, with which an agent begins: several actions in one call, and what the state does not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Required

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.actions.arguments import Inside, Ref, Site
from agentorchestra.environments.browser.actions.base import PAGE, TabActions
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action, argument_problems

MOST_STEPS = 30
Kind = Literal["click", "type", "select", "press", "scroll", "go", "back", "wait", "upload", "accept", "dismiss"]


class Step(TypedDict, total=False):
    """One step; what `text` is depends on what is done."""

    do: Required[Kind]
    ref: Ref
    text: str


_MADE: Mapping[str, tuple[str, Callable[[str, str, str], dict[str, JsonValue]]]] = {
    "click": ("click", lambda ref, text, site: {"ref": ref}),
    "type": ("input_text", lambda ref, text, site: {"ref": ref, "text": text, "site": site}),
    "select": ("select", lambda ref, text, site: {"ref": ref, "options": [text]}),
    "press": ("press", lambda ref, text, site: {"keys": text}),
    "scroll": ("scroll", lambda ref, text, site: {"direction": text or "down", **({"ref": ref} if ref else {})}),
    "go": ("go_to_url", lambda ref, text, site: {"url": text}),
    "back": ("go_back", lambda ref, text, site: {}),
    "wait": ("wait", lambda ref, text, site: {"text": text} if text else {"seconds": 1.0}),
    "upload": ("upload", lambda ref, text, site: {"ref": ref, "paths": [text], "site": site}),
    "accept": ("answer_dialog", lambda ref, text, site: {"accept": True}),
    "dismiss": ("answer_dialog", lambda ref, text, site: {"accept": False}),
}
"""The action of a step, and its arguments."""

_NEEDS_REF = frozenset({"click", "type", "select", "upload"})
_NEEDS_TEXT = frozenset({"select", "press", "go", "upload"})
_LEADS_ON = frozenset({"go", "back"})
"""Steps that are to bring another page."""


class StepActions(TabActions):
    @action(name="act", composite=True)
    async def act_in_steps(
        self,
        ctx: Any,
        steps: Annotated[list[Step], Field(min_length=1, max_length=MOST_STEPS)],
        site: Site = "",
    ) -> ToolResult:
        """Do steps in order. They stop at the first that fails, and when the page becomes another one.

        Args:
            steps: click ref; type text into ref; select the option text of ref; press text (Enter, Control+A); scroll
                text (down, up, bottom, top); go to the address text; back; wait for text; upload the path text to ref;
                accept or dismiss a dialog.
            site: where texts and files go, as the state shows it.
        """
        made = [self._made(number, one, site) for number, one in enumerate(steps, start=1)]
        lines: list[str] = []
        sources: dict[str, None] = {}
        for number, (what, (name, arguments)) in enumerate(zip(steps, made, strict=True), start=1):
            before = ctx.vars.get(PAGE)
            left = f"; {_steps(number + 1, len(steps))} not done" if number < len(steps) else ""
            try:
                result = await self.call(name, arguments, ctx)
            except ToolError as error:
                done = f"{'; '.join(lines)}; " if lines else ""
                raise ToolError(f"{done}{_named(number, what)} failed: {error}{left}") from None
            blocks = [one for one in result.content if isinstance(one, TextBlock)]
            sources |= {one.source.ref: None for one in blocks if one.source is not None}
            lines.append(f"{_named(number, what)}: {blocks[0].text if blocks else ''}")
            if left and ctx.vars.get(PAGE) != before and what["do"] not in _LEADS_ON:
                lines.append(f"the page is another one now{left}: look at the state and go on")
                break
        last, *others = [Source(kind="web", ref=ref) for ref in reversed(sources)]
        text = TextBlock(text="\n".join(lines), source=last, trust=Trust.UNTRUSTED)
        return ToolResult(content=text, sources=tuple(others))

    def _made(self, number: int, step: Step, site: str) -> tuple[str, dict[str, JsonValue]]:
        """Return the action of a step with its arguments; a ToolError for one that cannot be, before any is done."""
        do, ref, text = step["do"], step.get("ref", ""), step.get("text", "")
        given = (("ref", ref, _NEEDS_REF), ("text", text, _NEEDS_TEXT))
        missing = [name for name, value, needing in given if do in needing and not value]
        if do in ("type", "upload") and not site:
            missing.append("site")
        if missing:
            raise ToolError(f"step {number} ({do}) needs {' and '.join(missing)}; no step was done")
        name, make = _MADE[do]
        arguments = make(ref, text, site)
        if problems := argument_problems(self, self._actions[name].schema, arguments, closed=True):
            raise ToolError(f"step {number} ({do}): {'; '.join(problems)}; no step was done")
        return name, arguments

    @action(composite=True)
    async def look(
        self, ctx: Any, at: Literal["text", "elements", "picture"] = "text", part: Inside = ""
    ) -> ToolResult:
        """Look at what the state does not show of the page.

        Args:
            at: its text, with places; its elements, also out of view; a picture of the view.
            part: of the text: "lines 40-80"; of the elements: words that they hold.
        """
        if at == "picture":
            return await self.call("screenshot", {}, ctx)
        if at == "elements":
            return await self.call("find_elements", {"text": part}, ctx)
        return await self.call("read_page", {"part": part}, ctx)


def _named(number: int, step: Step) -> str:
    return f"{number}. {step['do']}{' ' + step['ref'] if step.get('ref') else ''}"


def _steps(first: int, last: int) -> str:
    return f"step {first} was" if first == last else f"steps {first} to {last} were"
