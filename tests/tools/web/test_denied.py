"""Pages that the setting `web.deny` names are neither read nor listed, however their addresses are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.errors import SettingsError, WebError
from agentorchestra.core.settings import Settings, WebSettings
from agentorchestra.evaluation.benchmarks.pages import ANSWER_PAGES, without_answer_pages
from agentorchestra.tools.web.denied import DeniedPages
from agentorchestra.tools.web.reader import WebPageReader
from tests.site import served
from tests.tools.search.support import searched, settings, titles

DENIED = DeniedPages(["hub.example/datasets/riddle", "answers.example", "127.0.0.1:8080"])


@pytest.mark.parametrize(
    "url",
    [
        "https://hub.example/datasets/riddle",
        "https://www.hub.example/datasets/Riddle/resolve/main/x.parquet?download=true",
        "https://hub.example:443/datasets/riddle-copy",
        "http://archive.example/web/2024/https://hub.example/datasets/riddle/viewer",
        "http://archive.example/web/2024/hub.example/datasets/riddle",
        "https://reader.example/?url=https%3A%2F%2Fhub.example%2Fdatasets%2F%72iddle",
        "https://answers.example",
        "http://old.answers.example:8000/x",
        "http://127.0.0.1:8080/x",
    ],
)
def test_what_is_denied(url: str) -> None:
    assert DENIED.holds(url)
    with pytest.raises(WebError, match=r"is not read: the setting web\.deny names '.*'; use another source"):
        DENIED.refuse(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://hub.example/datasets/other",
        "https://hub.example/",
        "https://notanswers.example/",
        "https://answers.example.org/",
        "http://127.0.0.1:80801/",
        "file.csv",
    ],
)
def test_what_is_not(url: str) -> None:
    assert not DENIED.holds(url)
    DENIED.refuse(url)


@pytest.mark.parametrize("entry", ["", "https://hub.example", "/datasets", "*.hub.example", "localhost"])
def test_an_entry_that_names_no_page_is_refused(entry: str) -> None:
    with pytest.raises(SettingsError, match=r"web\.deny holds '.*', which names no page; write 'example\.org' for a"):
        WebPageReader(WebSettings(deny=(entry,)))


async def test_a_denied_page_is_not_read_kept_or_redirected_to(tmp_path: Path) -> None:
    async with served() as site:
        place = f"127.0.0.1:{site.port}"
        page = f"{site.address}/faq"
        open_to_all = WebSettings(private=(place,), robots=False)
        before, _, kept = await WebPageReader(open_to_all, tmp_path).page(page)
        assert before.url == page and not kept

        reader = WebPageReader(open_to_all.model_copy(update={"deny": (f"{place}/faq",)}), tmp_path)
        asked = len(site.requests)
        for fresh in (False, True):
            with pytest.raises(WebError, match=r"names '127\.0\.0\.1:\d+/faq'"):
                await reader.page(page, fresh=fresh)
        assert len(site.requests) == asked
        with pytest.raises(WebError, match=r"redirects: .*web\.deny"):
            await reader.page(f"{site.address}/trap/redirect?to=%2Ffaq")
        assert [one.path for one in site.requests[asked:]] == ["/trap/redirect"]


async def test_searches_do_not_list_denied_pages(tmp_path: Path) -> None:
    async with served() as site:
        site.host |= {"serper": "https://www.skerrow.example"}
        chosen = settings(site, "serper")
        everything = await searched(tmp_path, chosen, "automated lighthouse keeper")
        assert "Lighthouse to be automated" in titles(everything)
        (wanted,) = (one for one in everything["results"] if one["title"] == "Lighthouse to be automated")
        page = wanted["address"].removeprefix("https://www.")
        denying = chosen.model_copy(update={"web": WebSettings(deny=(page,))})
        found = await searched(tmp_path, denying, "automated lighthouse keeper")
        others = [one for one in titles(everything) if one != "Lighthouse to be automated"]
        assert titles(found)[: len(others)] == others
        assert page not in str(found)


def test_evaluations_deny_what_publishes_answers() -> None:
    mine = Settings.model_validate({"web": {"deny": ["mine.example"]}, "browser": {"deny": ["mine.example"]}})
    made = without_answer_pages(mine)
    assert made.web.deny == ("mine.example", *ANSWER_PAGES)
    assert {"mine.example", "huggingface.co"} <= {*made.browser.deny} and "github.com" not in made.browser.deny
    denied = DeniedPages(made.web.deny)
    for url in (
        "https://huggingface.co/datasets/gaia-benchmark/GAIA/viewer",
        "https://huggingface.co/spaces/gaia-benchmark/leaderboard",
        "https://openaipublic.blob.core.windows.net/simple-evals/browse_comp_test_set.csv",
        "https://artofproblemsolving.com/wiki/index.php/2024_AIME_II_Problems/Problem_3",
    ):
        assert denied.holds(url)
    assert not denied.holds("https://huggingface.co/docs/hub/index")
    assert not denied.holds("https://github.com/python/cpython")
    assert without_answer_pages(made) == made
