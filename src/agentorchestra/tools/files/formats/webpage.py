"""A page of the web: of HTML its main content as Markdown, with its links; whatever else it is, as a file is read."""

from __future__ import annotations

import copy
import importlib
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from .base import ReadJob, Refused, clean, one_line, text_document
from .blocks import Blocks, bare_words
from .convert import convert
from .markup import convert_html
from .sniff import sniff
from .text import decoded, encoding_of

MOST_LINKS = 1_000
MOST_PICTURES = 50
# Characters of a page that are read: it is given in parts all the same
_MOST_SOURCE = 10_000_000
_MOST_CHARS = 2_000_000
# Of pages whose main part is looked for, which takes up to half a millisecond for each element
_MOST_ELEMENTS = 20_000
# Characters: a main part that is shorter may be none, and the whole page is shown where it has much more.
_SHORT = 300
_EMPTY = 80  # characters: what a page shows that waits for its scripts
_NEEDS_SCRIPTS = (
    "it shows next to nothing without JavaScript, which is not run here: the environment `browser` shows it"
)
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_BARE = "translate(@style, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ \t\r\n', 'abcdefghijklmnopqrstuvwxyz')"
_HIDDEN = f"//*[@hidden or contains({_BARE}, 'display:none') or contains({_BARE}, 'visibility:hidden')]"
_TAG = re.compile(r"<[a-zA-Z!/][^<>]{0,2000}>")


def read_page(job: ReadJob, data: bytes, name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a document, and what is known of the page; `options` has what the server says, and `raw` to leave HTML."""
    if not data.strip(b" \t\r\n\x0b\x0c\xef\xbb\xbf\xff\xfe\x00"):
        raise Refused("empty")
    content_type = str(options.get("media_type", ""))
    media_type = sniff(data, name)
    textual = media_type.startswith("text/") or media_type in ("application/json", "application/xml", "message/rfc822")
    page: dict[str, Any] = {"charset": "", "links": [], "pictures": []}
    if not textual:
        return {"document": convert(job, data, name), "page": page}
    text = decoded(data, str(options.get("charset", "")), job.encoding)
    job.encoding = ""  # what is read below is UTF-8
    source, page["charset"] = clean(text.text), text.encoding
    notes = [doubt] if (doubt := encoding_of(text, doubtful=True).removesuffix(".")) else []
    longer = len(source) > _MOST_SOURCE
    if longer:
        end = 1 + max(source.rfind("\n", 0, _MOST_SOURCE), source.rfind(">", 0, _MOST_SOURCE))
        source = source[: end if 2 * end > _MOST_SOURCE else _MOST_SOURCE]
    alike = content_type in _HTML_TYPES and media_type in ("text/plain", "application/xml", "text/markdown")
    if media_type == "text/html" or (alike and _TAG.search(source[:20_000])):
        if options.get("raw"):
            result = {"document": text_document(job, source, "text/html"), "page": page}
        else:
            result = _html(job, source, str(options.get("url", "")), page)
    else:
        result = {"document": convert(job, source.encode(), name), "page": page}
    if longer:
        notes.append(f"it is longer; only its first {len(source):,} characters were read")
    result["document"]["notes"] = [*result["document"].get("notes", ()), *notes]
    return result


def _html(job: ReadJob, source: str, url: str, page: dict[str, Any]) -> dict[str, Any]:
    try:
        import trafilatura
    except ImportError:
        return {"document": _without_library(job, source), "page": page}
    notes = []
    blocks = Blocks(source)
    tree = _parsed(trafilatura, source)
    if tree is None:
        return {"document": text_document(job, source, "text/html"), "page": page}
    bases = tree.xpath("//base/@href")
    base = urljoin(url, str(bases[0])) if bases else url
    try:
        small = len(source) <= _MOST_CHARS and sum(1 for _ in tree.iter()) <= _MOST_ELEMENTS
        if small:
            about = trafilatura.extract_metadata(tree, default_url=url, extensive=False)
            facts = {name: getattr(about, name, None) for name in ("title", "author", "date", "sitename")}
            page |= {name: one_line(" ".join(str(value).split()), 300) for name, value in facts.items() if value}
        page |= {name: value for name, value in _marks(tree).items() if name == "title" or name not in page}
        _drop_hidden(tree)
        page["links"] = _links(tree, base)
        page["pictures"] = _pictures(tree, base)
        blocks.mark(tree)
        main = ""
        if small:
            extract = trafilatura.extract(
                copy.deepcopy(tree),  # it takes the page apart
                url=base,
                output_format="markdown",
                include_links=True,
                include_formatting=True,
                include_tables=True,
                include_comments=False,
                favor_recall=True,
            )
            main = extract or ""
        if len(main) < _SHORT:
            parts = tree.xpath("//main | //article[not(ancestor::main)]")
            whole = _whole(parts[0] if len(parts) == 1 else tree)
            has_main = len(parts) == 1 and len(whole) * 5 >= len(main) * 4
            if has_main or len(whole) > len(main) + 40 or len(whole) < _SHORT:
                main = whole
                if len(parts) != 1 and len(whole) > _SHORT:
                    reason = "no main part was found" if small else "it is too large to look for its main part"
                    notes.append(f"{reason}; this is the whole page")
        text, _ = blocks.back(_tidy(main))
    except RecursionError:
        text = clean(bare_words(source)).strip()
        notes.append("it is nested without end; these are its words without their structure")
    if len(text) < _EMPTY and tree.xpath("//script[not(@type) or @type='module' or contains(@type, 'javascript')]"):
        page["notes"] = [_NEEDS_SCRIPTS]
        source = ""
    document = text_document(job, text or source, "text/markdown")
    document["notes"] = notes
    return {"document": document, "page": page}


def _parsed(trafilatura: Any, source: str) -> Any:
    """Return the tree of a page; None where there is none to be made. Pages that lack `<html>` are pages too."""
    tree = trafilatura.load_html(source)
    if tree is not None:
        return tree
    parser = importlib.import_module("lxml.html")
    try:
        return parser.document_fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", source))
    except (parser.etree.ParserError, ValueError):
        return None


def _without_library(job: ReadJob, source: str) -> dict[str, Any]:
    try:
        return convert_html(job, source.encode())
    except Refused as error:
        raise Refused("extra_reading" if error.code == "extra" else error.code, error.detail) from None


def _marks(tree: Any) -> dict[str, str]:
    """Return the title, the site and the date of a page as its own marks name them."""
    marks = {
        "title": tree.xpath("//title/text()"),  # the heading, which readers take for it, stands in the text
        "sitename": tree.xpath("//meta[@property='og:site_name']/@content"),
        "date": tree.xpath("//meta[@property='article:published_time']/@content | //time/@datetime")
        or re.findall(r'"datePublished"\s*:\s*"([^"]+)"', " ".join(tree.xpath("//script/text()"))),
    }
    return {name: one_line(" ".join(str(values[0]).split()), 300) for name, values in marks.items() if values}


def _drop_hidden(tree: Any) -> None:
    """Remove what nobody who looks at the page sees: a place for words that are meant for machines."""
    for node in tree.xpath(_HIDDEN):
        parent = node.getparent()
        if parent is None:
            continue
        before = node.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + (node.tail or "")
        else:
            parent.text = (parent.text or "") + (node.tail or "")
        parent.remove(node)


def _links(tree: Any, base: str) -> list[list[str]]:
    """Return [words, address] of each link, in order, each address once; make them absolute in the tree."""
    links: dict[str, str] = {}
    for number, node in enumerate(tree.iter("a")):
        target = _absolute(str(node.get("href") or ""), base) if number < 20 * MOST_LINKS else ""
        node.set("href", target)
        if target and target not in links and len(links) < MOST_LINKS:
            links[target] = one_line(" ".join("".join(node.itertext()).split()), 200)
    return [[words, target] for target, words in links.items()]


def _pictures(tree: Any, base: str) -> list[list[str]]:
    """Return [words, address] of the pictures of the main part, of the whole page where it names none."""
    parts = tree.xpath("//main | //article[not(ancestor::main)]")
    pictures: dict[str, str] = {}
    for node in (parts[0] if len(parts) == 1 else tree).iter("img"):
        target = _absolute(str(node.get("src") or node.get("data-src") or ""), base)
        if target and len(pictures) < MOST_PICTURES:
            words = one_line(" ".join(str(node.get("alt") or node.get("title") or "").split()), 200)
            pictures.setdefault(target, words)
    return [[words, target] for target, words in pictures.items()]


def _absolute(href: str, base: str) -> str:
    """Return a link as an absolute address of the web, "" for any other."""
    href = re.sub(r"[\t\r\n]", "", href).strip()
    if not href or href.startswith("#"):
        return ""
    try:
        target = urljoin(base, href)
        return target if urlsplit(target).scheme in ("http", "https") and " " not in target else ""
    except ValueError:
        return ""


_LEFT_OUT = {"script", "style", "noscript", "template", "svg", "head", "iframe", "object"}
_BLOCKS = {
    *("p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "ul", "ol", "table", "tr", "form"),
    *("blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "li", "dl", "dt", "dd", "figure", "hr", "body", "html"),
}


def _whole(tree: Any) -> str:
    """Return the words of a page with headings, items and links. Without recursion: pages nest without end."""
    out: list[str] = []
    pending: list[tuple[Any, bool]] = [(tree, False)]
    while pending:
        node, leaving = pending.pop()
        tag = node.tag if isinstance(node.tag, str) else ""
        if leaving:
            out.append(_after(node, tag))
            out.append(_words(node.tail))
            continue
        if not tag or tag in _LEFT_OUT:
            out.append(_words(node.tail))
            continue
        out.append(_before(tag))
        out.append(_words(node.text))
        pending.append((node, True))
        pending.extend((child, False) for child in reversed(node))
    return "".join(out)


def _words(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")


_BEFORE = {"li": "\n- ", "br": "\n", "td": " | ", "th": " | ", "a": "["}


def _before(tag: str) -> str:
    if re.fullmatch(r"h[1-6]", tag):
        return f"\n\n{'#' * int(tag[1])} "
    return _BEFORE.get(tag) or ("\n\n" if tag in _BLOCKS else "")


def _after(node: Any, tag: str) -> str:
    if tag == "a":
        return f"]({node.get('href')})" if node.get("href") else "]"
    return "\n" if tag in _BLOCKS else ""


def _tidy(text: str) -> str:
    """Remove white space at the ends of lines, and heaps of empty lines."""
    lines = [line.rstrip() for line in clean(text).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
