"""Pages that publish questions and answers of benchmarks: an evaluation keeps its runs from them."""

from __future__ import annotations

from agentorchestra.core.settings import Settings

ANSWER_PAGES = (
    # The hub: the datasets and leaderboards, and copies of both under other names; with its mirrors.
    "huggingface.co/datasets",
    "huggingface.co/spaces",
    "hf.co/datasets",
    "hf.co/spaces",
    "datasets-server.huggingface.co",
    "hf-mirror.com",
    # Where the tables of SimpleQA, BrowseComp and GPQA lie.
    "openaipublic.blob.core.windows.net/simple-evals",
    "github.com/openai/simple-evals",
    "github.com/idavidrein/gpqa",
    "github.com/centerforaisafety/hle",
    "lastexam.ai",
    "agi.safe.ai",
    # Solutions of AIME, with the problems.
    "artofproblemsolving.com/wiki/index.php/2024_aime",
    "artofproblemsolving.com/wiki/index.php?title=2024_aime",
    "artofproblemsolving.com/wiki/index.php/2025_aime",
    "artofproblemsolving.com/wiki/index.php?title=2025_aime",
    # The tasks with their solutions and tests.
    "github.com/laude-institute/terminal-bench-2",
    "github.com/swe-bench",
    "swebench.com",
    "tbench.ai",
    # Logs of agents on these benchmarks, question by question.
    "hal.cs.princeton.edu",
)
"""Pages as `web.deny` takes them."""


def without_answer_pages(settings: Settings) -> Settings:
    """Return settings with which no run reads these pages, or finds them by a search.

    The browser knows hosts only: it is kept from the sites as a whole (`browser.deny`). What a model itself searches
    (the engine `model`) is kept from them only in what it lists.
    """
    hosts = {page.partition("/")[0] for page in ANSWER_PAGES} - {"github.com"}
    web = settings.web.model_copy(update={"deny": tuple(dict.fromkeys((*settings.web.deny, *ANSWER_PAGES)))})
    browser = settings.browser.model_copy(
        update={"deny": tuple(dict.fromkeys((*settings.browser.deny, *sorted(hosts))))}
    )
    return settings.model_copy(update={"web": web, "browser": browser})
