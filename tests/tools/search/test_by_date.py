"""`archived_page`: a page as it was on a day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.site import Site
from tests.tools.search.support import settings, workspace
from tests.tools.search.test_engines import ask

PAGE = "http://page.example/wiki/Mercury_(planet)"


async def copy(site: Site, folder: Path, address: str, date: str) -> tuple[dict[str, str], str]:
    """Return what the tool gives, and its sentence where it fails."""
    async with workspace(folder, settings(site, "archive")) as ws:
        outcome = await ws.tcp.invoke("archived_page", {"address": address, "date": date})
    return dict(outcome.value) if outcome.ok else {}, outcome.error or ""  # type: ignore[arg-type]


def captures(*rows: tuple[str, str]) -> bytes:
    """Return the archive's list of captures: times and digests."""
    return json.dumps([["timestamp", "original", "digest"], *([time, PAGE, digest] for time, digest in rows)]).encode()


async def test_the_newest_copy_before_a_day_is_that_of_the_newest_visit(site: Site, tmp_path: Path) -> None:
    """Not the first of several that are the same: the page still looked so at the later visit."""
    site.answers["archive"] = (200, captures(("20100101000000", "A"), ("20140630235900", "A")), "application/json")
    found, _ = await copy(site, tmp_path, PAGE, "2014-06-30")
    asked = site.asked("/cdx/")[-1].query
    assert (asked["to"], asked["limit"], asked.get("collapse")) == ("20140630", "-1", None)
    assert (found["date"], found["address"].rpartition("/web/")[2]) == ("2014-06-30", f"20140630235900/{PAGE}")
    assert asked["url"] == PAGE
    await ask(site, "archive", PAGE)
    assert site.asked("/cdx/")[-1].query["collapse"] == "digest"


async def test_a_page_of_which_there_is_no_copy(site: Site, tmp_path: Path) -> None:
    _, error = await copy(site, tmp_path, PAGE, "2014")
    assert error == "The archive has no copy of this page."
    assert site.asked("/wayback/available")[-1].query["timestamp"] == "20141231235959"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("address", "date", "sentence"),
    [
        (PAGE, "30.6.2014", "date is '30.6.2014'; give a day like 2024-01-31, a month like 2024-01, or a year."),
        (PAGE, "2014-06-31", "date is '2014-06-31'; give a day like"),
        (PAGE, "", f"address is {PAGE!r}, date ''; give the address of a page, and a day."),
        ("Mercury", "2014", "address is 'Mercury', date '2014'; give the address of a page, and a day."),
    ],
)
async def test_what_names_no_page_or_day_is_refused_unasked(
    site: Site, tmp_path: Path, address: str, date: str, sentence: str
) -> None:
    assert (await copy(site, tmp_path, address, date))[1].startswith(sentence)
    assert site.requests == []
