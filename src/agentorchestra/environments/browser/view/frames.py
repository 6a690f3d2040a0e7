"""The snapshot of a page and what its frames say of themselves, put together.

The two are taken one after the other, so they are held together by what both of them have: the frame and the box of an
element. Boxes are of the frame at first; afterwards all are of what is seen of the whole page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.environments.browser.view.probe import NodeTrait, PageProbe, whole
from agentorchestra.environments.browser.view.snapshot import Box, PageNode
from agentorchestra.environments.browser.view.text import plain, quote

_TEXTS = frozenset(("textbox", "searchbox", "combobox", "spinbutton"))
_CHOICES = frozenset(("checkbox", "radio", "switch", "option", "menuitemcheckbox", "menuitemradio", "listbox"))
_BUTTONS = frozenset(("button", "link", "tab", "menuitem", "treeitem", "gridcell", "clickable"))
INTERACTIVE = _TEXTS | _CHOICES | _BUTTONS | frozenset(("slider", "scrollbar", "canvas"))
_CLICKS = frozenset(("listens", "pointer", "drags", "focus"))
_ROLES = {"canvas": "canvas", "hovers": "generic"} | dict.fromkeys(_CLICKS, "clickable")
_FIELD_ROLES = {"select": "combobox", "checkbox": "checkbox", "radio": "radio", "submit": "button", "button": "button"}
_NATIVE_ROLES = {"a": "link", "area": "link", "button": "button", "summary": "button", "option": "option"}
HIDDEN_VALUE = "(the value is hidden)"
_FIELD_TAGS = frozenset(("input", "select", "textarea"))
_ABOUT = frozenset(("scrolls", "floats", "frame", "state"))  # kinds that are no reason to use an element
_STATES = frozenset(("checked", "expanded", "pressed", "selected"))  # states that need no class to be seen
_MOST_ADDED = 400
_NO_TRAITS: list[NodeTrait] = []


@dataclass(slots=True)
class FramePart:
    key: Any  # names the frame for whoever gives references
    probe: PageProbe  # what it says of itself
    inner: dict[int, FramePart] = field(default_factory=dict)  # the frames in it, by the number of their element

    def parts(self) -> Iterator[FramePart]:
        yield self
        for part in self.inner.values():
            yield from part.parts()

    def secrets(self) -> frozenset[str]:
        return frozenset(secret for part in self.parts() for secret in part.probe.secrets)


Give = Callable[[FramePart, int], str]  # the reference of an element: its frame, its number there


def join(page: PageNode, part: FramePart, give: Give) -> None:
    """Say in a snapshot's nodes what the frames say, add what the snapshot misses, and move all boxes to the page."""
    _join(page, part, give, part.secrets(), (0, 0))


def join_drawn(page: PageNode, part: FramePart, give: Give) -> None:
    """Do the same for the plain views of the frames: their nodes have their elements' numbers for references."""
    _join_drawn(page, part, give, part.secrets(), (0, 0))


def _join_drawn(place: PageNode, part: FramePart, give: Give, secrets: frozenset[str], origin: tuple[int, int]) -> None:
    sketch = part.probe.sketch
    place.children, place.above, place.below = sketch.children, sketch.above, sketch.below
    _mask(place, [], secrets)
    by_number: dict[str, list[NodeTrait]] = defaultdict(list)
    for trait in part.probe.traits:
        by_number[str(trait.number)].append(trait)
    for node in _of_frame(place):
        about = by_number.get(node.ref, [])
        number = int(node.ref or 0)
        used = any(trait.kind not in ("scrolls", "state") for trait in about)
        _say(node, about)
        node.ref = give(part, number) if used else ""
        if used and node.role == "generic":
            node.role, node.interactive = "clickable", True
        _mask(node, about, secrets)
        if (inner := part.inner.get(number)) is not None:
            _join_drawn(node, inner, give, secrets, _inside(origin, about))
        _move(node, origin)


def _join(place: PageNode, part: FramePart, give: Give, secrets: frozenset[str], origin: tuple[int, int]) -> None:
    _mask(place, [], secrets)
    by_box: dict[Box, list[NodeTrait]] = defaultdict(list)
    for trait in part.probe.traits:
        by_box[trait.box].append(trait)
    nodes = list(_of_frame(place))
    for node in nodes:
        about = by_box.get(node.box, _NO_TRAITS) if node.box is not None else _NO_TRAITS
        _say(node, about)
        if about or secrets:
            _mask(node, about, secrets)
    for frame in [node for node in nodes if node.role == "iframe"]:
        if about := [trait for trait in by_box.get(frame.box or (0, 0, 0, 0), []) if trait.number in part.inner]:
            _join(frame, part.inner[about[0].number], give, secrets, _inside(origin, about))
        else:  # nothing is known of it: what is in it is moved near enough to be counted as in view or not
            x, y = (frame.box or (0, 0, 0, 0))[:2]
            for child in frame.children:
                for node in child.elements() if isinstance(child, PageNode) else ():
                    _move(node, (origin[0] + x, origin[1] + y))
    _add_missing(place, nodes, part, give)
    if origin != (0, 0):
        for node in _of_frame(place):
            _move(node, origin)


def _of_frame(place: PageNode) -> Iterator[PageNode]:
    """Return the elements of one frame: below a place, but not in frames below it."""
    stack = [child for child in reversed(place.children) if isinstance(child, PageNode)]
    while stack:
        node = stack.pop()
        children = node.children  # as they are before whoever takes it changes them
        yield node
        if children and node.role != "iframe":
            stack.extend([child for child in reversed(children) if isinstance(child, PageNode)])


def _inside(origin: tuple[int, int], about: list[NodeTrait]) -> tuple[int, int]:
    """Return where the page in a frame begins, on the whole page."""
    frame = next((trait for trait in about if trait.kind == "frame"), about[0])
    inner = frame.facts.get("inner")
    dx, dy = (round(float(value)) for value in inner) if isinstance(inner, list) and len(inner) == 2 else (0, 0)
    return origin[0] + frame.box[0] + dx, origin[1] + frame.box[1] + dy


def _move(node: PageNode, origin: tuple[int, int]) -> None:
    if node.box is not None:
        node.box = (node.box[0] + origin[0], node.box[1] + origin[1], node.box[2], node.box[3])


def _say(node: PageNode, about: list[NodeTrait]) -> None:
    """Add what is known of an element besides its role and name."""
    node.interactive = node.interactive or node.role in INTERACTIVE or node.pointer
    if not about:
        return
    for trait in about:
        if trait.kind == "field":
            node.interactive = True
            node.notes += _facts(trait)
            if trait.value:
                node.children, node.exact = [trait.value], True
            if trait.tag not in _FIELD_TAGS and node.role in ("generic", "paragraph"):  # text that can be edited
                node.role = "textbox"
        elif trait.kind == "scrolls":
            above, below = (_pages(trait.facts.get(side)) for side in ("above", "below"))
            items = trait.facts.get("items")
            size = f", {items:,} items" if isinstance(items, int) and 1 < items < 1_000_000 else ""
            node.notes.append(f"scrolls: {above} pages above, {below} below{size}")
            node.cuts = True
        elif trait.kind == "drags" or (trait.kind in _CLICKS and not node.interactive):
            node.interactive = True
            node.notes.append("draggable" if trait.kind == "drags" else "clickable")
        elif trait.kind == "hovers":
            node.interactive = True
        elif trait.kind == "canvas" and not any(isinstance(child, PageNode) for child in node.children):
            node.interactive = True
            if node.role == "generic":
                node.role = "canvas"
    if any(trait.tag == "summary" for trait in about) and node.role == "generic":
        node.role, node.interactive = "button", True
        is_open = any(trait.facts.get("open") is True for trait in about)
        node.states = (*node.states, "expanded" if is_open else "collapsed")
    used = [trait for trait in about if trait.kind not in _ABOUT]
    node.cut = bool(used) and all(trait.clipped for trait in used)
    if node.interactive and used and _wordless(node):
        _describe(node, used[0])
    elif not _STATES.intersection(node.states) and (state := next((trait.state for trait in about if trait.state), "")):
        node.notes.append(f"class {quote(state, 40)}")
    if any(trait.hovers for trait in about):
        node.notes.append("hover shows more")
    cover = next((trait.covered for trait in about if trait.covered), "")
    if cover and all(trait.covered for trait in used):
        node.notes.append(f"covered by {quote(cover, 80)}")
    if any(trait.unseen for trait in about):
        node.notes.append("invisible")


def _wordless(node: PageNode) -> bool:
    if node.role in _TEXTS or node.url:
        return not (node.name or node.placeholder or node.url)
    for element in node.elements():
        # Letters of icon fonts are no words.
        if plain(element.name, 9) or any(isinstance(child, str) and plain(child, 9) for child in element.children):
            return False
    return True


def _describe(node: PageNode, trait: NodeTrait) -> None:
    """Say of an element without words which one it is: by its title, else by its id, class or icon."""
    node.name = trait.label
    if not trait.label and trait.hint:
        node.notes.append(f"{trait.tag} {quote(trait.hint, 40)}")
    if classes := trait.state if trait.label else trait.classes:
        node.notes.append(f"class {quote(classes, 40)}")


def _pages(value: Any) -> str:
    return f"{max(value, 0):.1f}" if isinstance(value, int | float) and value == value else "0.0"


def _facts(trait: NodeTrait) -> list[str]:
    facts, notes = trait.facts, []
    kind = facts.get("type")
    if trait.tag == "input" and isinstance(kind, str) and kind.isalpha() and kind not in ("text", "checkbox", "radio"):
        notes.append(kind)
    if trait.tag == "textarea":
        notes.append("textarea")
    notes += [name for name in ("required", "readonly", "invalid", "multiple") if facts.get(name) is True]
    if isinstance(limit := facts.get("limit"), int) and limit > 0:
        notes.append(f"at most {limit} characters")
    if isinstance(accept := facts.get("accept"), str) and accept:
        notes.append(f"accepts {quote(accept, 60)}")
    if facts.get("list"):
        notes.append("suggests values")
    return notes


def _mask(node: PageNode, about: list[NodeTrait], secrets: frozenset[str]) -> None:
    """Put nothing secret into words: by the field, and wherever the same value stands."""
    if secret := [trait for trait in about if trait.secret]:
        node.children = [child for child in node.children if isinstance(child, PageNode)]
        node.children += [HIDDEN_VALUE] if any(trait.filled for trait in secret) else []
    if secrets:
        node.children = [_mask_text(child, secrets) if isinstance(child, str) else child for child in node.children]
        node.name = _mask_text(node.name, secrets)
        node.placeholder = _mask_text(node.placeholder, secrets)


def _mask_text(text: str, secrets: frozenset[str]) -> str:
    # A short value may well stand somewhere else, as a part of a word or a number.
    for secret in secrets:
        if text.strip() == secret.strip() or (len(secret) > 5 and secret in text):
            text = HIDDEN_VALUE if text.strip() == secret.strip() else text.replace(secret, HIDDEN_VALUE)
    return text


def unmatched_fields(page: PageNode, part: FramePart) -> list[PageNode]:
    """Return fields with a value that no probe knows: they moved between the two looks."""
    boxes = {trait.box for part in part.parts() for trait in part.probe.traits if trait.kind == "field"}
    return [
        node
        for node in page.elements()
        if node.role in _TEXTS and node.ref and node.box not in boxes and any(isinstance(c, str) for c in node.children)
    ]


def _add_missing(place: PageNode, nodes: list[PageNode], part: FramePart, give: Give) -> None:
    """Give references to what can be used and has none in the snapshot, each where it comes in the document."""
    boxes = {node.box for node in nodes if node.ref and node.box is not None}
    seen_area = part.probe.scroll.seen_width * part.probe.scroll.seen_height
    added: dict[int, PageNode] = {}
    for trait in part.probe.traits:
        if trait.kind in _ABOUT or trait.box in boxes:
            continue
        empty = trait.box[2] <= 0 or trait.box[3] <= 0
        if empty and not (trait.kind == "field" and trait.facts.get("type") == "file"):
            continue
        if trait.kind in (*_CLICKS, "hovers") and trait.box[2] * trait.box[3] > seen_area / 2:
            continue  # listens for what lies in it
        if len(added) >= _MOST_ADDED:
            break
        if not empty:
            boxes.add(trait.box)
        added[trait.at] = _missing(trait, part, give)
    if added:
        _insert(place, nodes, part.probe, added)


def _insert(place: PageNode, nodes: list[PageNode], probe: PageProbe, added: dict[int, PageNode]) -> None:
    """Put nodes, by their places in the document, into what lies around each, behind what comes before it there."""
    by_box: dict[Box, list[PageNode]] = defaultdict(list)
    for node in reversed(nodes):
        if node.box is not None:
            by_box[node.box].append(node)
    parents = {child: node for node in (place, *nodes) for child in node.children if isinstance(child, PageNode)}
    around = [(-1, place)]  # with their depths
    last, texts = place, 0  # the node that came last, and how many texts since then
    order = iter(map(whole, probe.order))
    for at, (x, y, width, height, depth, text) in enumerate(zip(*[order] * 6, strict=False), 1):
        box = (x, y, width, height)
        while around[-1][0] >= max(depth, 0):
            around.pop()
        texts += text & 1
        if at in added:
            node, home = added.pop(at), around[-1][1]
            before: PageNode | None = last
            while before is not None and before is not home and parents.get(before) is not home:
                before = parents.get(before)
            index = len(home.children) if before is None else 0 if before is home else home.children.index(before) + 1
            while texts and index < len(home.children) and isinstance(home.children[index], str):
                index, texts = index + 1, texts - 1
            home.children.insert(index, node)
            parents[node] = home
        elif not by_box.get(box):
            texts += text >> 1 & 1
            continue
        else:
            node = by_box[box].pop()
        around.append((depth, node))
        last, texts = node, 0
    place.children += added.values()  # the probe did not come so far


def _missing(trait: NodeTrait, part: FramePart, give: Give) -> PageNode:
    role = _ROLES.get(trait.kind)
    if role is None and trait.kind == "field":
        kind = str(trait.facts.get("type"))
        role = "file" if kind == "file" else _FIELD_ROLES.get(trait.tag) or _FIELD_ROLES.get(kind, "textbox")
    role = role or _NATIVE_ROLES.get(trait.tag, "clickable")
    node = PageNode(role, ref=give(part, trait.number), box=trait.box)
    _say(node, [trait])
    _mask(node, [trait], frozenset())
    if trait.kind == "canvas":
        node.notes.append("{2}x{3} at {0},{1}".format(*trait.box))
    return node
