"""`ask_media`: a question about pictures, recordings and videos, to a model that sees and hears (001, 3.3; 004, 3.1.2).

The agent that asks need not see or hear itself. Who is asked was settled when the run was created (`media_models.py`).
What that model does not take is given in another form: frames and a transcript of a video, the words of a recording, or
what a model said that takes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.models.media_models import ROLES
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tea.transformations.base import Carried
from agentorchestra.tools.files.common import WAY_TO_HEAR, WAY_TO_SEE, note
from agentorchestra.tools.media_formats import Form, media_as

PROMPT = "media"
MOST_FILES = 8
MOST_PAGES = 8
MOST_FRAMES = 12
MOST_BYTES = 18_000_000  # of all media of one question: about what providers take in one request
_KINDS = {"image": "pictures", "audio": "sound", "video": "videos"}
_WAYS_OUT = {
    "image": WAY_TO_SEE,
    "audio": WAY_TO_HEAR,
    "video": "say video = true in agentorchestra.toml in the profile of a model that takes videos, or name one that "
    'sees with [roles.vision] model = "..."',
}
_PAGES = re.compile(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?")


@tool(effect="composite")
async def ask_media(
    ctx: RunContext[Any],
    question: str,
    files: Annotated[list[str], Field(min_length=1, max_length=MOST_FILES)],
    region: Annotated[list[float], Field(min_length=4, max_length=4)] | None = None,
    pages: str | None = None,
    from_s: Annotated[float, Field(ge=0)] | None = None,
    to_s: Annotated[float, Field(gt=0)] | None = None,
) -> ToolResult:
    """Ask a model that sees and hears about pictures, recordings, videos or the look of PDF pages.

    It knows only your question and these files. Ask again with a region for small details.

    Args:
        question: One precise question.
        files: Names of files, members ("a.zip!b.png") or artifacts, or addresses that were read.
        region: Part of the pictures, in fractions: [left, top, right, bottom].
        pages: Pages of a PDF, e.g. "2-4".
        from_s: First second of a recording.
        to_s: Last second.
    """
    view = await look(ctx, question, files, region=region, pages=_pages_of(pages), from_s=from_s, to_s=to_s)
    single = Source(kind="file", ref=view.names[0]) if len(files) == 1 else Source(kind="tool", ref="ask_media")
    blocks: list[Block] = [
        TextBlock(text=view.text, source=single, trust=Trust.UNTRUSTED),
        note(f"{view.by} was given {', '.join(view.pieces)}."),
        *(note(f"Note: {text}.") for text in view.notes),
    ]
    return ToolResult(content=blocks, trust=Trust.UNTRUSTED)


ask_media.backed_by(Carried(tools=(media_as,)), uses=(media_as.name,))


@dataclass(frozen=True)
class Looked:
    text: str  # its words
    by: str  # the model
    names: tuple[str, ...]  # of the media
    pieces: tuple[str, ...]  # what it was given of them
    notes: tuple[str, ...]  # what was left out


async def look(
    ctx: RunContext[Any],
    question: str,
    files: Sequence[str],
    *,
    region: list[float] | None = None,
    pages: Sequence[int] = (),
    from_s: float | None = None,
    to_s: float | None = None,
    prompt: str = PROMPT,
    known: Sequence[Block] = (),
) -> Looked:
    """Do what `ask_media` does, for other composites: `prompt` takes the variables of `media`, `known` goes along."""
    part = _Part(region, list(pages), from_s, to_s)
    facts = [(await _convert(ctx, name, "facts")).value for name in files]
    items = [Item(str(it["name"]), str(it["kind"]), bool(it["sound"]), bool(it["paged"])) for it in facts]
    part.check(items)
    asking = _Asking(ctx, question, part, prompt, tuple(known))
    text, blocks = await asking.answer(items)
    names = tuple(item.name for item in items)
    return Looked(text, asking.answered_by, names, tuple(map(_label, blocks)), tuple(asking.notes))


@dataclass(frozen=True)
class Item:
    name: str  # as the file tools name it
    kind: str  # `image` (PDFs too), `audio` or `video`
    sound: bool = False  # whether anything can be heard in it
    has_pages: bool = False  # whether it has pages, or frames that are named like pages


@dataclass(frozen=True)
class _Part:
    region: list[float] | None
    pages: list[int]
    from_s: float | None
    to_s: float | None

    def __post_init__(self) -> None:
        if self.region is not None:
            left, top, right, bottom = self.region
            if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
                raise ToolError(
                    f"region is {self.region}; give fractions between 0 and 1: [left, top, right, bottom], e.g. "
                    "[0.5, 0, 1, 0.5] for the upper right quarter"
                )
        if self.to_s is not None and self.to_s <= (self.from_s or 0):
            raise ToolError(f"to_s is {self.to_s:g} and from_s {self.from_s or 0:g}; give a later end")

    def check(self, items: Sequence[Item]) -> None:
        names = ", ".join(item.name for item in items)
        if self.region and not any(item.kind == "image" for item in items):
            raise ToolError(f"region is for pictures and PDFs, and {names} is none; leave it out")
        if self.pages and not any(item.has_pages for item in items):
            raise ToolError(f"pages is for PDFs, TIFF and GIF, and {names} is none; leave it out")
        if self.from_s is None and self.to_s is None:
            return
        if not any(item.kind != "image" for item in items):
            raise ToolError(f"from_s and to_s are for recordings and videos, and {names} is none; leave them out")

    def arguments(self, item: Item) -> dict[str, Any]:
        """Return what of it fits a medium, without what is not given."""
        fits = (
            {"region": self.region, "pages": self.pages if item.has_pages else []}
            if item.kind == "image"
            else {"from_s": self.from_s, "to_s": self.to_s}
        )
        return {name: value for name, value in fits.items() if value}


def _pages_of(pages: str | None) -> list[int]:
    numbers: list[int] = []
    for piece in (pages or "").split(",") if pages else ():
        match = _PAGES.fullmatch(piece)
        if match is None or int(match[1]) < 1:
            raise ToolError(f'pages is {pages!r}; write e.g. "3", "2-4" or "1,5-6"')
        numbers.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    if len(numbers) > MOST_PAGES:
        raise ToolError(f"pages {pages} are {len(numbers)}; at most {MOST_PAGES} are shown with one question")
    return numbers


async def _convert(ctx: RunContext[Any], name: str, form: Form, **part: Any) -> Any:
    outcome = await ctx.call_tool(media_as.name, name=name, form=form, **part)
    if not outcome.ok:
        raise ToolError(outcome.error or f"{name} cannot be read")
    return outcome


@dataclass(frozen=True)
class MediaPart:
    item: Item
    # `pictures`, `sound`, `clip`, `frames`; `transcript`: its sound in words; `told`: what another model says
    forms: tuple[str, ...]
    cost: int  # what is lost by that, for comparison
    by: str = ""  # that other model

    @property
    def description(self) -> str:
        words = {"told": f"as {self.by} describes it", "clip": "as a video", "sound": "its sound"}
        words |= {"transcript": "what is said in it", "frames": "frames of it", "pictures": "as a picture"}
        return " and ".join(words[form] for form in self.forms)


@dataclass(frozen=True)
class MediaPlan:
    """The model that is asked ("" for the model of the agent that asks), and how the media are given."""

    model: str
    parts: tuple[MediaPart, ...]

    @property
    def role(self) -> str:
        forms = {form for part in self.parts for form in part.forms}
        kind = "video" if "clip" in forms else "image" if forms & {"pictures", "frames"} else "audio"
        return ROLES[kind]


def plan_for(items: Sequence[Item], able: Mapping[str, Sequence[str]], *, transcribes: bool) -> MediaPlan:
    """Return the model that gets most of the media as they are, of several the first; else ToolError with a setting."""
    # The role's own first: where words are all that anybody gets, it is the one to ask.
    candidates = dict.fromkeys(["", *able.get("video", ()), *able.get("image", ()), *able.get("audio", ())])
    plans = [MediaPlan(name, tuple(_forms_of(item, name, able, transcribes) for item in items)) for name in candidates]
    best = min(plans, key=lambda plan: sum(part.cost for part in plan.parts))
    for part in best.parts:
        if not part.forms:
            kind = part.item.kind
            raise ToolError(
                f"no model here takes {_KINDS[kind]}, so {part.item.name} was not looked at: {_WAYS_OUT[kind]}"
            )
    return best


def _forms_of(item: Item, model: str, able: Mapping[str, Sequence[str]], transcribes: bool) -> MediaPart:
    if item.kind == "video" and model not in able.get("video", ()) and model in able.get("image", ()):
        forms = _sound_forms(model, able, transcribes) if item.sound else ()
        return MediaPart(
            item, ("frames", *forms), 2 + (item.sound and forms != ("sound",)) + (item.sound and not forms)
        )
    if model in able.get(item.kind, ()):
        return MediaPart(item, ({"image": "pictures", "audio": "sound", "video": "clip"}[item.kind],), 0)
    if item.kind == "audio" and transcribes:
        return MediaPart(item, ("transcript",), 1)
    models = [*able.get(item.kind, ()), *(able.get("image", ()) if item.kind == "video" else ())]
    if models:
        return MediaPart(item, ("told",), 10, by=models[0])
    if item.kind == "video" and item.sound and transcribes:
        return MediaPart(item, ("transcript",), 20)  # better than nothing, and that is said
    return MediaPart(item, (), 1_000)


def _sound_forms(model: str, able: Mapping[str, Sequence[str]], transcribes: bool) -> tuple[str, ...]:
    if model in able.get("audio", ()):
        return ("sound",)
    return ("transcript",) if transcribes else ()


@dataclass
class _Asking:
    ctx: RunContext[Any]
    question: str
    part: _Part
    prompt: str = PROMPT
    known: tuple[Block, ...] = ()  # what goes along with the media
    notes: list[str] = field(default_factory=list)
    answered_by: str = ""  # the model that answered

    async def answer(
        self, items: Sequence[Item], able: Mapping[str, Sequence[str]] | None = None
    ) -> tuple[str, list[Block]]:
        manifest = self.ctx.manifest
        left = {kind: list(names) for kind, names in (manifest.media_models if able is None else able).items()}
        while True:
            plan = plan_for(items, left, transcribes=bool(manifest.transcription_model))
            notes: list[str] = []
            blocks = await self._blocks(plan, items, notes)
            outcome = await self.ctx.ask_model(
                self.prompt,
                [*self.known, *blocks],
                role=plan.role,
                model=plan.model,
                media="required",
                question=self.question,
                given=[f"{part.item.name}: {part.description}" for part in plan.parts],
            )
            if outcome.ok:
                break
            kinds = _refused_kinds(outcome, blocks)
            if not any(plan.model in left.get(kind, ()) for kind in kinds):
                raise ToolError(outcome.error or f"{plan.model} could not answer")
            for kind in kinds:  # what was taken for a model that sees is none: another one, or another form
                left[kind] = [model for model in left.get(kind, ()) if model != plan.model]
        response = outcome.response
        if not response.text.strip():
            raise ToolError(f"{response.model or plan.model} gave no answer; put the question otherwise")
        if response.finish_reason == "length":
            notes.append("the answer is cut off: ask for less at once")
        self.notes += notes
        self.answered_by = response.model or plan.model
        return response.text.strip(), blocks

    async def _blocks(self, plan: MediaPlan, items: Sequence[Item], notes: list[str]) -> list[Block]:
        videos = sum(item.kind == "video" for item in items)
        blocks: list[Block] = []
        for part in plan.parts:
            if part.forms == ("frames",) and part.item.sound:
                notes.append(f"nobody heard {part.item.name}: {_WAYS_OUT['audio']}")
            if part.item.kind == "video" and part.forms == ("transcript",):
                notes.append(f"nobody saw {part.item.name}: {_WAYS_OUT['video']}")
            for form in part.forms:
                blocks += await self._block(part, form, MOST_FRAMES // max(1, videos), notes)
        size = sum(block.size for block in blocks if isinstance(block, MediaBlock))
        if size > MOST_BYTES:
            raise ToolError(
                f"these files have {size / 1e6:.1f} MB together as models take them, and {MOST_BYTES / 1e6:g} MB go "
                "with one question; ask about fewer of them, or about a part"
            )
        return blocks

    async def _block(self, part: MediaPart, form: str, frames: int, notes: list[str]) -> list[Block]:
        item = part.item
        place = "what is said in it" if form == "transcript" else f"as {part.by} describes it"
        source = Source(kind="file", ref=item.name, place=place)
        if form == "told":
            kinds = ("image", "video") if item.kind == "video" else (item.kind,)
            able = {
                kind: [name for name in self.ctx.manifest.media_models.get(kind, ()) if name == part.by]
                for kind in kinds
            }
            text, _ = await self.answer([item], able)
            return [TextBlock(text=text, source=source, trust=Trust.UNTRUSTED)]
        target: Form = "sound" if form == "transcript" else form  # type: ignore[assignment]
        count = {"count": frames} if form == "frames" else {}
        blocks = (await _convert(self.ctx, item.name, target, **self.part.arguments(item), **count)).blocks()
        media = [block for block in blocks if isinstance(block, MediaBlock)]
        for block in blocks:
            if isinstance(block, TextBlock):
                notes.append(f"of {item.name} {block.text}")
        if form != "transcript":
            return [*media]
        texts = [await self.ctx.transcribe(block) for block in media]
        return [TextBlock(text="\n".join(texts).strip() or "(nothing is said)", source=source, trust=Trust.UNTRUSTED)]


def _label(block: Block) -> str:
    if isinstance(block, MediaBlock):
        return block.name
    source = block.source or Source(kind="file")
    return f"{source.ref} ({source.place})"


def _refused_kinds(outcome: Any, blocks: Sequence[Block]) -> set[str]:
    if outcome.error_type != "ModelMediaError" or not isinstance(outcome.value, dict):
        return set()
    kinds = {block.media_type.partition("/")[0] for block in blocks if isinstance(block, MediaBlock)}
    return kinds & {str(kind) for kind in outcome.value.get("kinds") or ()}
