from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_CLOSE = 0.1  # names that are this much less like the wrong one than the best are told too
_LONGEST = 200  # characters that are compared


def nearest(name: str, names: Iterable[str], n: int = 1) -> list[str]:
    """Return at most `n` of the known names, those most like a wrong one, best first; case makes no difference."""
    word = name[:_LONGEST].casefold()
    by_casefold = {name.casefold(): name for name in names}
    close = get_close_matches(word, by_casefold, n=n)
    likeness = [SequenceMatcher(None, match, word).ratio() for match in close]
    return [by_casefold[match] for match, like in zip(close, likeness, strict=True) if like >= likeness[0] - _CLOSE]


def did_you_mean(name: str, names: Iterable[str], otherwise: str, n: int = 1) -> str:
    """Return the end of a refusal: the nearest names as a question, `otherwise` where no name is near."""
    close = nearest(name, names, n)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise
