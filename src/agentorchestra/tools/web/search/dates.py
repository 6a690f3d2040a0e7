"""The days that engines write beside their results, in whatever form."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})")
_CHINESE = re.compile(r"(\d{4})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})")
_DAY_FIRST = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?\.?\s+([A-Za-z]{3})[a-z]*\.?,?\s+(\d{4})")
_AGO = re.compile(r"(\d{1,4})\s+(minute|hour|day|week|month|year)s?\s+ago")
_DAYS = {"minute": 0.0, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.44, "year": 365.25}


def day_of(text: object, now: datetime | None = None) -> str | None:
    """Return the day of a text as `2024-01-31`, None where it names none.

    Args:
        text: `Oct 18, 2019`, `2019-10-18T08:00:00Z`, `18 Oct 2019`, `2019年10月18日`, `3 days ago`.
        now: what "ago" counts from; without it such a text names no day.
    """
    if not isinstance(text, str) or not text:
        return None
    text = text[:200]
    for pattern in (_ISO, _CHINESE):
        if match := pattern.search(text):
            return _checked(int(match[1]), int(match[2]), int(match[3]))
    if (match := _MONTH_FIRST.search(text)) and (month := _month(match[1])):
        return _checked(int(match[3]), month, int(match[2]))
    if (match := _DAY_FIRST.search(text)) and (month := _month(match[2])):
        return _checked(int(match[3]), month, int(match[1]))
    if now is not None and (match := _AGO.search(text)):
        try:
            return (now - timedelta(days=int(match[1]) * _DAYS[match[2]])).date().isoformat()
        except OverflowError:
            return None
    return None


def _month(name: str) -> int:
    short = name.lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else 0


def _checked(year: int, month: int, day: int) -> str | None:
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return None
