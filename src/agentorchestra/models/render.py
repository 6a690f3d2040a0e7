"""How content blocks become text for a model: the one place where origin and trust are written out."""

from __future__ import annotations

import re
from html import escape, unescape

from pydantic import BaseModel, ConfigDict

from agentorchestra.core.content import Block, MediaBlock, Trust
from agentorchestra.core.messages import Message

_CLOSE = re.compile(r"<(/?)content\b", re.IGNORECASE)
_TAG = re.compile(r"<content (?P<attrs>[^>]*)>\n(?P<text>.*?)\n</content>", re.DOTALL)
_ATTR = re.compile(r'(\w+)="([^"]*)"')


def render_block(block: Block) -> str:
    """A block's text; content from outside stands in a tag that names its source and that it is untrusted.

    A closing tag inside the content is made harmless, so that content cannot end its own quotation.
    """
    if isinstance(block, MediaBlock):
        return f"[{block.media_type} {block.name or block.sha256[:12]}, {block.size} bytes]"
    source = block.source
    if block.trust is not Trust.UNTRUSTED or source is None:
        return block.text
    attrs = f'source="{escape(source.kind)}:{escape(source.ref, quote=True)}"'
    if source.place:
        attrs += f' place="{escape(source.place, quote=True)}"'
    inner = _CLOSE.sub(r"&lt;\1content", block.text)
    return f'<content {attrs} trust="untrusted">\n{inner}\n</content>'


def render_message(message: Message) -> str:
    """The text of a message as every model sees it. A model's own words stand without a tag."""
    if message.role == "assistant":
        return message.text
    return "\n".join(render_block(block) for block in message.content)


class RenderedContent(BaseModel):
    """A `<content>` element read back from rendered text."""

    model_config = ConfigDict(frozen=True)

    kind: str
    ref: str
    place: str
    text: str


def parse_contents(text: str) -> list[RenderedContent]:
    """The `<content>` elements of rendered text, in order."""
    found = []
    for match in _TAG.finditer(text):
        attrs = {name: unescape(value) for name, value in _ATTR.findall(match["attrs"])}
        kind, _, ref = attrs.get("source", "").partition(":")
        inner = match["text"].replace("&lt;/content", "</content").replace("&lt;content", "<content")
        found.append(RenderedContent(kind=kind, ref=ref, place=attrs.get("place", ""), text=inner))
    return found
