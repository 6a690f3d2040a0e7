"""`act` and `look`, with which an agent begins: several actions in one call, and what the state does not show."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.browser.actions.arguments import Inside, Ref, Site
from agentorchestra.environments.browser.actions.base import PAGE, TabActions
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.environment import action, argument_problems

Kind = Literal["click", "type", "select", "press", "scroll", "go", "back", "wait", "upload", "accept", "dismiss"]


class Step(TypedDict, total=False):
    """One step; what `text` is depends on what is done."""

    do: Required[Kind]
    ref: Ref
    text: str


class StepActions(TabActions):
    @action(effect="composite")
    async def act_(
        self, ctx: Any, steps: Annotated[list[Step], Field(min_length=1, max_length=30)], site: Site = ""
    ) -> ToolResult:
        """Do steps in order. They stop at the first that fails, and when the page becomes another one.

        Args:
            steps: click ref; type text into ref; select the option text of ref; press text (Enter, Control+A); scroll
                text (down, up, bottom, top); go to the address text; back; wait for text; upload the path text to ref;
                accept or dismiss a dialog.
            site: where texts and files go, as the state shows it.
        """
        names = [f"{number}. {step['do']} {step.get('ref', '')}".rstrip() for number, step in enumerate(steps, start=1)]
        calls = [_call(step, site) for step in steps]
        for name, (single, arguments) in zip(names, calls, strict=True):
            if problems := argument_problems(self, self._actions[single].schema, arguments, closed=True):
                raise ToolError(f"{name}: {'; '.join(problems)}; no step was done")
        lines: list[str] = []
        sources: dict[str, None] = {}
        for number, (name, (single, arguments)) in enumerate(zip(names, calls, strict=True), start=1):
            before, left = ctx.vars.get(PAGE), ", ".join(names[number:])
            try:
                result = await self.call(single, arguments, ctx)
            except ToolError as error:
                rest = [f"not done: {left}"] if left else []
                raise ToolError("; ".join([*lines, f"{name} failed: {error}", *rest])) from None
            blocks = [block for block in result.content if isinstance(block, TextBlock)]
            sources |= {block.source.ref: None for block in blocks if block.source is not None}
            lines.append(f"{name}: {blocks[0].text}")
            if left and ctx.vars.get(PAGE) != before and single not in ("go_to_url", "go_back"):
                lines.append(f"The page is another one now; not done: {left}. Look at the state and go on.")
                break
        last, *previous = [Source(kind="web", ref=ref) for ref in reversed(sources)]
        text = TextBlock(text="\n".join(lines), source=last, trust=Trust.UNTRUSTED)
        return ToolResult(content=text, sources=tuple(previous))

    @action(effect="composite")
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
        single, argument = ("find_elements", "text") if at == "elements" else ("read_page", "part")
        return await self.call(single, {argument: part}, ctx)


def _call(step: Step, site: str) -> tuple[str, dict[str, JsonValue]]:
    """Return the action of a step, and its arguments."""
    ref, text = step.get("ref", ""), step.get("text", "")
    calls: dict[Kind, tuple[str, dict[str, JsonValue]]] = {
        "click": ("click", {"ref": ref}),
        "type": ("input_text", {"ref": ref, "text": text, "site": site}),
        "select": ("select", {"ref": ref, "options": [text]}),
        "press": ("press", {"keys": text}),
        "scroll": ("scroll", {"direction": text or "down", "ref": ref}),
        "go": ("go_to_url", {"url": text}),
        "back": ("go_back", {}),
        "wait": ("wait", {"text": text} if text else {"seconds": 1.0}),
        "upload": ("upload", {"ref": ref, "paths": [text], "site": site}),
        "accept": ("answer_dialog", {"accept": True}),
        "dismiss": ("answer_dialog", {"accept": False}),
    }
    return calls[step["do"]]
