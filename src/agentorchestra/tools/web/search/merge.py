"""Many lists become one: the same page under different spellings is one result, and what several list comes first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from urllib.parse import parse_qsl, urlencode, urlsplit

from agentorchestra.tools.web.search.types import INVENTIVE, EngineRank, SearchResult

_K = 60  # of reciprocal rank fusion: how little the first places count more than the next
_TRACKING = re.compile(
    r"(utm_\w+|ga_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|li_fat_id|igshid|igsh|mc_[ce]id"
    r"|_hs(enc|mi)|mkt_tok|vero_id|spm|scm|oly_\w+_id|ref_src|ref_url|referrer|cmpid|ncid|sr_share|share_\w+|amp|output)",
    re.IGNORECASE,
)
_NOISE_VALUES = {"amp": {"", "1", "true"}, "output": {"amp"}}  # parameters that are only noise with these values
_INDEX = re.compile(r"/(index|default)\.(html?|php|aspx?)$", re.IGNORECASE)
_OTHER_HOSTS = re.compile(r"^(www\d?|m|mobile|amp|wap|touch)\.(?=[^.]+\.)")


def page_key(address: str) -> str:
    """Return what two spellings of one page have in common; no address to read.

    Without scheme, `www.`, mobile and AMP hosts and paths, default ports, tracking parameters, fragments (those that a
    page's own code reads as an address, `#!/...`, stay), index files and slashes at the end; escapes resolved and
    parameters in order.
    """
    from url_normalize import url_normalize

    text = address.strip()
    if not re.match(r"https?://", text, re.IGNORECASE):
        return text
    try:
        parts = urlsplit(url_normalize(text) or text)
        host, port = parts.hostname or "", parts.port
    except (ValueError, UnicodeError):
        return text
    if re.fullmatch(r"[\w.-]+\.cdn\.ampproject\.org", host) or (
        host.endswith("google.com") and parts.path.startswith("/amp/")
    ):
        return _page_behind(parts.path) or text
    host = _OTHER_HOSTS.sub("", host)
    # The mobile pages of Wikipedia: en.m.wikipedia.org.
    host = re.sub(r"^([a-z-]{2,12})\.m\.(?=wiki)", r"\1.", host)
    place = host if port in (None, 80, 443) else f"{host}:{port}"
    path = _INDEX.sub("/", parts.path)
    path = re.sub(r"^/(amp|m|mobile)(?=/.)|/(amp|amp\.html)/?$|\.amp(?=\.html$|$)", "", path).rstrip("/")
    query = sorted(pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not _is_tracking(*pair))
    fragment = f"#{parts.fragment}" if parts.fragment.startswith(("!", "/")) else ""
    return f"{place}{path}{'?' if query else ''}{urlencode(query)}{fragment}"


def _is_tracking(name: str, value: str) -> bool:
    noise = _NOISE_VALUES.get(name.lower())
    return bool(_TRACKING.fullmatch(name)) and (noise is None or value.lower() in noise)


def _page_behind(path: str) -> str:
    """Return the page behind `/c/s/example.org/news/` of an AMP cache."""
    match = re.match(r"/(?:amp/|[cv]/)(?:s/)?([\w-]+(?:\.[\w-]+)+/?.*)", path)
    return page_key(f"https://{match[1]}") if match else ""


def merge(lists: Mapping[str, Sequence[SearchResult]]) -> list[SearchResult]:
    """Return one list by reciprocal rank fusion: a result's score is the sum of 1 / (60 + rank) over the engines.

    Title, address and snippet are those of the engine that ranks it best, of one that may make them up only where no
    other lists it; a date is taken from whoever knows one.
    """
    groups: dict[str, list[tuple[int, str, SearchResult]]] = {}
    for engine, results in lists.items():
        seen: set[str] = set()
        for result in results:
            key = page_key(result.address)
            if key not in seen:  # the same page twice in one list counts once
                seen.add(key)
                groups.setdefault(key, []).append((len(seen), engine, result))
    scores: list[tuple[float, int, SearchResult]] = []
    for order, group in enumerate(groups.values()):
        best = min(group, key=lambda entry: (entry[1] == INVENTIVE, entry[0]))[2]
        sources = tuple(EngineRank(engine=engine, rank=rank) for rank, engine, _ in group)
        day = next((result.date for _, _, result in sorted(group, key=lambda it: it[0]) if result.date), None)
        snippet = best.snippet or next((result.snippet for _, _, result in group if result.snippet), "")
        place = best.place or next((result.place for _, _, result in group if result.place), None)
        # What has a copy in an archive is that copy: it is found as such.
        copy = next(((e.archived, e.archived_date) for _, _, e in group if e.archived), (None, None))
        update = {
            "sources": sources,
            "date": day,
            "snippet": snippet,
            "place": place,
            "archived": copy[0],
            "archived_date": copy[1],
        }
        score = sum(1 / (_K + rank) for rank, _, _ in group)
        scores.append((-score, order, best.model_copy(update=update)))
    return [result for _, _, result in sorted(scores, key=lambda score: score[:2])]


def first(results: Sequence[SearchResult], limit: int) -> list[SearchResult]:
    """Return the first results, among them the best one of each engine: several that list the same drown no other."""
    best: dict[str, tuple[int, int]] = {}
    for at, result in enumerate(results):
        for source in result.sources:
            best[source.engine] = min(best.get(source.engine, (source.rank, at)), (source.rank, at))
    indices = sorted({at for _, at in best.values()})[:limit]
    for at in range(len(results)):
        if len(indices) >= limit:
            break
        if at not in indices:
            indices.append(at)
    return [results[at] for at in sorted(indices)]


def between(
    results: Sequence[SearchResult], since: date | None, until: date | None
) -> tuple[list[SearchResult], int, int]:
    """Return those that may lie between two days, how many do not, and how many have no known day."""
    if since is None and until is None:
        return list(results), 0, 0
    first_day, last_day = (since or date.min).isoformat(), (until or date.max).isoformat()
    matches = [result for result in results if result.date is None or first_day <= result.date <= last_day]
    return matches, len(results) - len(matches), sum(result.date is None for result in matches)
