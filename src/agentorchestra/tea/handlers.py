"""The handler of InvokeTool: checks arguments, calls the tool, makes an outcome of what it returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from agentorchestra.core.budget import NO_COST, Bound
from agentorchestra.core.content import MediaBlock, TextBlock, Trust, lowest
from agentorchestra.core.effects import ArtifactRef, Effect, EffectKind, Mode, Outcome, Provenance, Tag, blocks_value
from agentorchestra.core.effects import failed as failed_outcome
from agentorchestra.core.errors import AgentOrchestraError, DoorError, ModelError, StoreError, ToolError
from agentorchestra.core.ids import canonical_json
from agentorchestra.tea.tool import Tool, ToolResult

_READS = frozenset({Tag.READ, Tag.NETWORK})


def effect_for(
    tool: Tool[Any, Any],
    arguments: dict[str, JsonValue] | str,
    *,
    role: str = "",
    provenance: tuple[Provenance, ...] = (),
) -> Effect:
    """InvokeTool for a call.

    Arguments stand as the model wrote them: filling in defaults would change the fingerprints of old logs whenever a
    default changes. A call that does not fit gives an invalid effect with the sentence that says what is allowed.
    """
    _, problem = tool.validate(arguments)
    return Effect(
        kind=EffectKind.INVOKE_TOOL,
        component=tool.component,
        content_hash=tool.content_hash,
        arguments=arguments if isinstance(arguments, dict) else {"raw": arguments},
        mode=tool.mode,
        tags=tool.tags,
        role=role,
        provenance=provenance,
        invalid=problem,
        timeout_s=tool.timeout_s,
    )


class ToolHandler:
    """Executes tools.

    Args:
        find: a tool by name.
        max_result_chars: longer results are cut; the whole is kept as an artifact.
        timeout_s: time limit of tools without one of their own.
    """

    def __init__(
        self, find: Callable[[str], Tool[Any, Any] | None], *, max_result_chars: int = 20_000, timeout_s: float = 120.0
    ) -> None:
        self._find = find
        self._max = max_result_chars
        self._timeout_s = timeout_s

    def mode(self, effect: Effect) -> Mode:
        """The tool's mode."""
        return effect.mode

    def bound(self, effect: Effect) -> Bound:
        """What the tool may cost."""
        tool = self._find(effect.name)
        return NO_COST if tool is None else Bound(cost_usd=tool.max_cost_usd)

    def redact(self, effect: Effect) -> Effect:
        """The effect with the time limit that applies. Composites are limited by what they perform."""
        if effect.timeout_s is not None or effect.mode is Mode.COMPOSITE:
            return effect
        return effect.model_copy(update={"timeout_s": self._timeout_s})

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Call the tool; whatever goes wrong in it is an outcome with a sentence."""
        own = getattr(getattr(ctx, "parent", None), "own_tools", {})
        tool = own.get(effect.name) or self._find(effect.name)
        if tool is None:
            return failed_outcome("error", f"the tool {effect.name!r} is not registered in this process")
        arguments, problem = tool.validate(effect.arguments)
        if arguments is None:
            return failed_outcome("mistake", problem or "the arguments do not fit")
        try:
            result = await tool.call(arguments, ctx)
            return await self._outcome(effect, result, ctx)
        except (DoorError, ModelError, StoreError):
            raise
        except ToolError as exc:
            return failed_outcome("error", str(exc), error_type="ToolError", trust=_trust(effect, None))
        except AgentOrchestraError as exc:
            return failed_outcome("error", str(exc), error_type=type(exc).__name__)
        except PydanticSerializationError as exc:
            return failed_outcome("error", f"{effect.name} returned a value that is not JSON: {exc}")
        except Exception as exc:
            said = (str(exc).splitlines() or [""])[0][:500]
            sentence = f"{effect.name} failed: {type(exc).__name__}: {said}"
            return failed_outcome("error", sentence, error_type=type(exc).__name__, trust=_trust(effect, None))

    async def _outcome(self, effect: Effect, result: ToolResult, ctx: Any) -> Outcome:
        content = result.content
        if isinstance(content, TextBlock | MediaBlock):
            content = [content]
        blocks = isinstance(content, list | tuple) and bool(content)
        if blocks and all(isinstance(one, TextBlock | MediaBlock) for one in content):
            value, artifacts = await self._cut_blocks(effect, list(content), ctx)
        else:
            value, artifacts = await self._cut(effect, to_jsonable_python(content), ctx)
        return Outcome(
            value=value, artifacts=result.artifacts + artifacts, trust=result.trust or _trust(effect, content)
        )

    async def _cut(self, effect: Effect, value: JsonValue, ctx: Any) -> tuple[JsonValue, tuple[ArtifactRef, ...]]:
        text = value if isinstance(value, str) else canonical_json(value)
        if len(text) <= self._max:
            return value, ()
        kept, media = (text, "text/plain") if isinstance(value, str) else (text, "application/json")
        ref = await ctx.artifact(
            f"{effect.name}-result.{'txt' if media == 'text/plain' else 'json'}", kept.encode(), media
        )
        return f"{text[: self._max]}\n{_note(len(text) - self._max, ref)}", (ref,)

    async def _cut_blocks(
        self, effect: Effect, blocks: list[TextBlock | MediaBlock], ctx: Any
    ) -> tuple[JsonValue, tuple[ArtifactRef, ...]]:
        total = sum(len(one.text) for one in blocks if isinstance(one, TextBlock))
        if total <= self._max:
            return blocks_value(blocks), ()
        whole = "\n\n".join(one.text for one in blocks if isinstance(one, TextBlock))
        ref = await ctx.artifact(f"{effect.name}-result.txt", whole.encode(), "text/plain")
        left = self._max
        shown: list[TextBlock | MediaBlock] = []
        for one in blocks:
            if isinstance(one, MediaBlock):
                shown.append(one)
            elif left > 0:
                shown.append(one.model_copy(update={"text": one.text[:left]}) if len(one.text) > left else one)
                left -= len(one.text)
        shown.append(TextBlock(text=_note(total - self._max, ref), trust=Trust.SYSTEM))
        return blocks_value(shown), (ref,)


def _note(count: int, ref: ArtifactRef) -> str:
    return f"[cut: {count} further characters; the whole is kept as the artifact {ref.name} ({ref.sha256[:12]})]"


def _trust(effect: Effect, content: Any) -> Trust:
    """Reads bring content from outside; what a tool computes is as good as what its caller saw."""
    if isinstance(content, list | tuple) and content and all(isinstance(o, TextBlock | MediaBlock) for o in content):
        return lowest(*(one.trust for one in content))
    if effect.tags & _READS or not effect.tags:
        return Trust.UNTRUSTED
    return lowest(effect.lowest_trust, Trust.AGENT)
