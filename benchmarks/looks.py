"""What a look at a page costs: time and size of `look`, beside the accessibility snapshot that it is made from.

Used by `benchmarks/browser`; by itself `python benchmarks/looks.py` prints the table.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page, async_playwright

from agentorchestra.environments.browser.session.chromium import find_chromium, flags
from agentorchestra.environments.browser.view.references import listen, teach
from agentorchestra.environments.browser.view.view import look

SIZES = (1_000, 20_000)


@dataclass(frozen=True)
class Looks:
    """Medians for one page.

    Attributes:
        elements: of the page.
        snapshot_ms, snapshot_chars: of Playwright's `aria_snapshot(mode="ai", boxes=True)`.
        look_ms, look_chars: of what is in view, as agents see it.
        whole_ms, whole_chars: of all of the page, in the same budget.
        drawn: the page is too large for a snapshot, and was looked at without one.
    """

    elements: int
    snapshot_ms: float
    snapshot_chars: int
    look_ms: float
    look_chars: int
    whole_ms: float
    whole_chars: int
    drawn: bool


def page_of(elements: int) -> str:
    """A table with a link and a button in each row, of so many elements."""
    rows = (
        f"<tr><td>{n}</td><td><a href='/item/{n}'>Item {n}</a></td><td><button>Buy</button></td></tr>"
        for n in range(elements // 6)
    )
    return f"<!doctype html><title>table</title><table>{''.join(rows)}</table>"


async def measure_looks(page: Page, elements: int, *, repeats: int = 3) -> Looks:
    """Measure on a page of a context that listens (`references.listen`).

    Args:
        page: its content is replaced.
        elements: of the page that is made.
        repeats: of each measurement; medians are given.
    """
    await page.set_content(page_of(elements), timeout=120_000)
    count = await page.evaluate("document.getElementsByTagName('*').length")
    snapshot_ms, text = await _timed(lambda: page.aria_snapshot(mode="ai", boxes=True, timeout=120_000), repeats)
    look_ms, view = await _timed(lambda: look(page), repeats)
    whole_ms, whole = await _timed(lambda: look(page, whole=True), repeats)
    return Looks(count, snapshot_ms, len(text), look_ms, len(view.text), whole_ms, len(whole.text), drawn=view.sketch)


async def _timed(call: Callable[[], Awaitable[Any]], repeats: int) -> tuple[float, Any]:
    times, value = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        value = await call()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times), value


async def table(sizes: Sequence[int] = SIZES, repeats: int = 3) -> None:
    """Print the table, a line for each size."""
    async with async_playwright() as playwright:
        await teach(playwright)
        chromium = playwright.chromium
        browser = await chromium.launch(
            executable_path=find_chromium("", chromium.executable_path), args=flags(), headless=True
        )
        context = await browser.new_context()
        await listen(context)
        page = await context.new_page()
        print(f"{'elements':>9} {'snapshot':>21} {'look':>18} {'whole page':>18}")
        for size in sizes:
            one = await measure_looks(page, size, repeats=repeats)
            print(
                f"{one.elements:9,} {one.snapshot_ms:7,.0f} ms {one.snapshot_chars:9,} ch {one.look_ms:6,.0f} ms "
                f"{one.look_chars:6,} ch {one.whole_ms:6,.0f} ms {one.whole_chars:6,} ch{'  (drawn)' * one.drawn}",
                flush=True,
            )
        await browser.close()


if __name__ == "__main__":
    asyncio.run(table())
