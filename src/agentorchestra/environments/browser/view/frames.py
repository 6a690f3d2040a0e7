"""The snapshot of a page and what its frames say of themselves, put together.

The two are taken one after the other, so they are held together by what both of them have: the frame and the box of an
element. Boxes are of the frame at first; afterwards all are of what is seen of the whole page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.environments.browser.view.probe import Found, Probe, whole
from agentorchestra.environments.browser.view.snapshot import Box, Node
from agentorchestra.environments.browser.view.text import plain, quoted

_TYPED = frozenset(("textbox", "searchbox", "combobox", "spinbutton"))
_CHOSEN = frozenset(("checkbox", "radio", "switch", "option", "menuitemcheckbox", "menuitemradio", "listbox"))
_PRESSED = frozenset(("button", "link", "tab", "menuitem", "treeitem", "gridcell", "clickable"))
INTERACTIVE = _TYPED | _CHOSEN | _PRESSED | frozenset(("slider", "scrollbar", "canvas"))
_CLICKS = frozenset(("listens", "pointer", "drags", "focus"))
_ROLES = {"canvas": "canvas", "hovers": "generic"} | dict.fromkeys(_CLICKS, "clickable")
_FIELD_ROLES = {"select": "combobox", "checkbox": "checkbox", "radio": "radio", "submit": "button", "button": "button"}
_NATIVE_ROLES = {"a": "link", "area": "link", "button": "button", "summary": "button", "option": "option"}
HIDDEN_VALUE = "(the value is hidden)"
_FIELD_TAGS = frozenset(("input", "select", "textarea"))
_ABOUT = frozenset(("scrolls", "floats", "frame", "state"))  # kinds that are no reason to use an element
_TOLD = frozenset(("checked", "expanded", "pressed", "selected"))  # states that need no class to be seen
_MOST_ADDED = 400
_NOTHING: list[Found] = []


@dataclass(slots=True)
class Part:
    key: Any  # names the frame for whoever gives references
    probe: Probe  # what it says of itself
    inner: dict[int, Part] = field(default_factory=dict)  # the frames in it, by the number of their element

    def parts(self) -> Iterator[Part]:
        yield self
        for one in self.inner.values():
            yield from one.parts()

    def secrets(self) -> frozenset[str]:
        return frozenset(secret for part in self.parts() for secret in part.probe.secrets)


Give = Callable[[Part, int], str]  # the reference of an element: its frame, its number there


def join(page: Node, part: Part, give: Give) -> None:
    """Say in a snapshot's nodes what the frames say, add what the snapshot misses, and move all boxes to the page."""
    _join(page, part, give, part.secrets(), (0, 0))


def join_drawn(page: Node, part: Part, give: Give) -> None:
    """Do the same for the plain views of the frames: their nodes have their elements' numbers for references."""
    _join_drawn(page, part, give, part.secrets(), (0, 0))


def _join_drawn(place: Node, part: Part, give: Give, secrets: frozenset[str], origin: tuple[int, int]) -> None:
    drawn = part.probe.drawn
    place.children, place.above, place.below = drawn.children, drawn.above, drawn.below
    _mask(place, [], secrets)
    found: dict[str, list[Found]] = defaultdict(list)
    for one in part.probe.found:
        found[str(one.number)].append(one)
    for node in _of_frame(place):
        about = found.get(node.ref, [])
        number = int(node.ref or 0)
        used = any(one.kind not in ("scrolls", "state") for one in about)
        _say(node, about)
        node.ref = give(part, number) if used else ""
        if used and node.role == "generic":
            node.role, node.interactive = "clickable", True
        _mask(node, about, secrets)
        if (inner := part.inner.get(number)) is not None:
            _join_drawn(node, inner, give, secrets, _inside(origin, about))
        _move(node, origin)


def _join(place: Node, part: Part, give: Give, secrets: frozenset[str], origin: tuple[int, int]) -> None:
    _mask(place, [], secrets)
    found: dict[Box, list[Found]] = defaultdict(list)
    for one in part.probe.found:
        found[one.box].append(one)
    nodes = list(_of_frame(place))
    for node in nodes:
        about = found.get(node.box, _NOTHING) if node.box is not None else _NOTHING
        _say(node, about)
        if about or secrets:
            _mask(node, about, secrets)
    for frame in [node for node in nodes if node.role == "iframe"]:
        if about := [one for one in found.get(frame.box or (0, 0, 0, 0), []) if one.number in part.inner]:
            _join(frame, part.inner[about[0].number], give, secrets, _inside(origin, about))
        else:  # nothing is known of it: what is in it is moved near enough to be counted as in view or not
            x, y = (frame.box or (0, 0, 0, 0))[:2]
            for child in frame.children:
                for node in child.elements() if isinstance(child, Node) else ():
                    _move(node, (origin[0] + x, origin[1] + y))
    _add_missing(place, nodes, part, give)
    if origin != (0, 0):
        for node in _of_frame(place):
            _move(node, origin)


def _of_frame(place: Node) -> Iterator[Node]:
    """Return the elements of one frame: below a place, but not in frames below it."""
    stack = [child for child in reversed(place.children) if isinstance(child, Node)]
    while stack:
        one = stack.pop()
        children = one.children  # as they are before whoever takes it changes them
        yield one
        if children and one.role != "iframe":
            stack.extend([child for child in reversed(children) if isinstance(child, Node)])


def _inside(origin: tuple[int, int], about: list[Found]) -> tuple[int, int]:
    """Return where the page in a frame begins, on the whole page."""
    frame = next((one for one in about if one.kind == "frame"), about[0])
    inner = frame.facts.get("inner")
    dx, dy = (round(float(one)) for one in inner) if isinstance(inner, list) and len(inner) == 2 else (0, 0)
    return origin[0] + frame.box[0] + dx, origin[1] + frame.box[1] + dy


def _move(node: Node, origin: tuple[int, int]) -> None:
    if node.box is not None:
        node.box = (node.box[0] + origin[0], node.box[1] + origin[1], node.box[2], node.box[3])


def _say(node: Node, about: list[Found]) -> None:
    """Add what is known of an element besides its role and name."""
    node.interactive = node.interactive or node.role in INTERACTIVE or node.pointer
    if not about:
        return
    for one in about:
        if one.kind == "field":
            node.interactive = True
            node.notes += _facts(one)
            if one.value:
                node.children, node.exact = [one.value], True
            if one.tag not in _FIELD_TAGS and node.role in ("generic", "paragraph"):  # text that can be edited
                node.role = "textbox"
        elif one.kind == "scrolls":
            above, below = (_pages(one.facts.get(side)) for side in ("above", "below"))
            items = one.facts.get("items")
            size = f", {items:,} items" if isinstance(items, int) and 1 < items < 1_000_000 else ""
            node.notes.append(f"scrolls: {above} pages above, {below} below{size}")
            node.cuts = True
        elif one.kind == "drags" or (one.kind in _CLICKS and not node.interactive):
            node.interactive = True
            node.notes.append("draggable" if one.kind == "drags" else "clickable")
        elif one.kind == "hovers":
            node.interactive = True
        elif one.kind == "canvas" and not any(isinstance(child, Node) for child in node.children):
            node.interactive = True
            if node.role == "generic":
                node.role = "canvas"
    if any(one.tag == "summary" for one in about) and node.role == "generic":
        node.role, node.interactive = "button", True
        node.states = (*node.states, "expanded" if any(one.facts.get("open") is True for one in about) else "collapsed")
    used = [one for one in about if one.kind not in _ABOUT]
    node.clipped = bool(used) and all(one.clipped for one in used)
    if node.interactive and used and _wordless(node):
        _describe(node, used[0])
    elif not _TOLD.intersection(node.states) and (state := next((one.state for one in about if one.state), "")):
        node.notes.append(f"class {quoted(state, 40)}")
    if any(one.hovers for one in about):
        node.notes.append("hover shows more")
    covered = next((one.covered for one in about if one.covered), "")
    if covered and all(one.covered for one in used):
        node.notes.append(f"covered by {quoted(covered, 80)}")
    if any(one.unseen for one in about):
        node.notes.append("invisible")


def _wordless(node: Node) -> bool:
    if node.role in _TYPED or node.url:
        return not (node.name or node.placeholder or node.url)
    for element in node.elements():
        # Letters of icon fonts are no words.
        if plain(element.name, 9) or any(isinstance(child, str) and plain(child, 9) for child in element.children):
            return False
    return True


def _describe(node: Node, one: Found) -> None:
    """Say of an element without words which one it is: by its title, else by its id, class or icon."""
    node.name = one.label
    if not one.label and one.hint:
        node.notes.append(f"{one.tag} {quoted(one.hint, 40)}")
    if kept := one.state if one.label else one.classes:
        node.notes.append(f"class {quoted(kept, 40)}")


def _pages(value: Any) -> str:
    return f"{max(value, 0):.1f}" if isinstance(value, int | float) and value == value else "0.0"


def _facts(one: Found) -> list[str]:
    facts, said = one.facts, []
    kind = facts.get("type")
    if one.tag == "input" and isinstance(kind, str) and kind.isalpha() and kind not in ("text", "checkbox", "radio"):
        said.append(kind)
    if one.tag == "textarea":
        said.append("textarea")
    said += [name for name in ("required", "readonly", "invalid", "multiple") if facts.get(name) is True]
    if isinstance(limit := facts.get("limit"), int) and limit > 0:
        said.append(f"at most {limit} characters")
    if isinstance(accept := facts.get("accept"), str) and accept:
        said.append(f"accepts {quoted(accept, 60)}")
    if facts.get("list"):
        said.append("suggests values")
    return said


def _mask(node: Node, about: list[Found], secrets: frozenset[str]) -> None:
    """Put nothing secret into words: by the field, and wherever the same value stands."""
    if secret := [one for one in about if one.secret]:
        node.children = [child for child in node.children if isinstance(child, Node)]
        node.children += [HIDDEN_VALUE] if any(one.filled for one in secret) else []
    if secrets:
        node.children = [_masked(child, secrets) if isinstance(child, str) else child for child in node.children]
        node.name = _masked(node.name, secrets)
        node.placeholder = _masked(node.placeholder, secrets)


def _masked(text: str, secrets: frozenset[str]) -> str:
    # A short value may well stand somewhere else, as a part of a word or a number.
    for secret in secrets:
        if text.strip() == secret.strip() or (len(secret) > 5 and secret in text):
            text = HIDDEN_VALUE if text.strip() == secret.strip() else text.replace(secret, HIDDEN_VALUE)
    return text


def unmatched_fields(page: Node, part: Part) -> list[Node]:
    """Return fields with a value that no probe knows: they moved between the two looks."""
    known = {one.box for part in part.parts() for one in part.probe.found if one.kind == "field"}
    return [
        node
        for node in page.elements()
        if node.role in _TYPED and node.ref and node.box not in known and any(isinstance(c, str) for c in node.children)
    ]


def _add_missing(place: Node, nodes: list[Node], part: Part, give: Give) -> None:
    """Give references to what can be used and has none in the snapshot, each where it comes in the document."""
    taken = {node.box for node in nodes if node.ref and node.box is not None}
    seen_area = part.probe.scroll.seen_width * part.probe.scroll.seen_height
    added: dict[int, Node] = {}
    for one in part.probe.found:
        if one.kind in _ABOUT or one.box in taken:
            continue
        empty = one.box[2] <= 0 or one.box[3] <= 0
        if empty and not (one.kind == "field" and one.facts.get("type") == "file"):
            continue
        if one.kind in (*_CLICKS, "hovers") and one.box[2] * one.box[3] > seen_area / 2:
            continue  # listens for what lies in it
        if len(added) >= _MOST_ADDED:
            break
        if not empty:
            taken.add(one.box)
        added[one.at] = _missing(one, part, give)
    if added:
        _insert(place, nodes, part.probe, added)


def _insert(place: Node, nodes: list[Node], probe: Probe, added: dict[int, Node]) -> None:
    """Put nodes, by their places in the document, into what lies around each, behind what comes before it there."""
    known: dict[Box, list[Node]] = defaultdict(list)
    for node in reversed(nodes):
        if node.box is not None:
            known[node.box].append(node)
    parents = {child: node for node in (place, *nodes) for child in node.children if isinstance(child, Node)}
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
            before: Node | None = last
            while before is not None and before is not home and parents.get(before) is not home:
                before = parents.get(before)
            index = len(home.children) if before is None else 0 if before is home else home.children.index(before) + 1
            while texts and index < len(home.children) and isinstance(home.children[index], str):
                index, texts = index + 1, texts - 1
            home.children.insert(index, node)
            parents[node] = home
        elif not known.get(box):
            texts += text >> 1 & 1
            continue
        else:
            node = known[box].pop()
        around.append((depth, node))
        last, texts = node, 0
    place.children += added.values()  # the probe did not come so far


def _missing(one: Found, part: Part, give: Give) -> Node:
    role = _ROLES.get(one.kind)
    if role is None and one.kind == "field":
        kind = str(one.facts.get("type"))
        role = "file" if kind == "file" else _FIELD_ROLES.get(one.tag) or _FIELD_ROLES.get(kind, "textbox")
    role = role or _NATIVE_ROLES.get(one.tag, "clickable")
    node = Node(role, ref=give(part, one.number), box=one.box)
    _say(node, [one])
    _mask(node, [one], frozenset())
    if one.kind == "canvas":
        node.notes.append("{2}x{3} at {0},{1}".format(*one.box))
    return node
