"""Questions over a small site: a fact behind a link, a cell of a table, two pages that are compared."""

from __future__ import annotations

import random
from pathlib import Path

from .task import SITE, Task, is_number, names, page, says


def linked(chance: random.Random, folder: Path) -> Task:
    """A fact on the second page, behind one of several links."""
    lakes = names(chance, 6)
    pages = {"/": page("The lakes of the valley", f"<p>One page for each lake.</p><ul>{_links(lakes, 'Lake')}</ul>")}
    depths = {}
    for lake in lakes:
        depths[lake], length = chance.randint(12, 290), chance.randint(2, 40)
        pages[f"/{lake.lower()}"] = page(
            f"Lake {lake}",
            f"<p>It lies {chance.randint(300, 900)} metres above the sea and is {length} km long.</p>"
            f"<p>Lake {lake} is {depths[lake]} metres deep at its deepest place.</p>"
            "<p>Boats may be hired from May to September.</p>",
        )
    wanted = chance.choice(lakes)
    instruction = (
        f"The site at {SITE}/ describes the lakes of a valley. How many metres deep is Lake {wanted}? "
        "Answer with the number alone."
    )
    return Task("site", "linked", instruction, is_number(depths[wanted]), pages=pages)


def table(chance: random.Random, folder: Path) -> Task:
    """One cell of a table on a page."""
    stations, years = names(chance, 9), [1970 + 5 * number for number in range(6)]
    counts = {(station, year): chance.randint(10_000, 99_999) for station in stations for year in years}
    head = "".join(f"<th>{one}</th>" for one in ("station", *years))
    rows = "".join(
        f"<tr><td>{station}</td>{''.join(f'<td>{counts[station, year]}</td>' for year in years)}</tr>"
        for station in stations
    )
    station, year = chance.choice(stations), chance.choice(years)
    pages = {
        "/": page("The mountain railway", "<p><a href='/passengers'>Passengers by station and year</a></p>"),
        "/passengers": page(
            "Passengers by station and year",
            f"<p>Those who came back are counted once.</p><table><tr>{head}</tr>{rows}</table>",
        ),
    }
    instruction = (
        f"The page at {SITE}/passengers has a table of the passengers of a mountain railway. "
        f"How many passengers did {station} have in {year}? Answer with the number alone."
    )
    return Task("site", "table", instruction, is_number(counts[station, year]), pages=pages)


def compared(chance: random.Random, folder: Path) -> Task:
    """Two pages that are to be compared."""
    first, second, *others = names(chance, 4)
    cabins = dict(zip((first, second, *others), chance.sample(range(20, 300), 4), strict=True))
    pages = {
        f"/{ferry.lower()}": page(
            f"The ferry {ferry}",
            f"<p>She was launched in {chance.randint(1950, 2015)} and takes {chance.randint(20, 90)} cars.</p>"
            f"<p>The ferry {ferry} has {count} cabins.</p><p>Meals are served on the upper deck.</p>",
        )
        for ferry, count in cabins.items()
    }
    pages["/"] = page("The ferries of the sound", f"<ul>{_links([*cabins], 'The ferry')}</ul>")
    instruction = (
        f"The pages {SITE}/{first.lower()} and {SITE}/{second.lower()} describe two ferries. "
        f"Which has more cabins, {first} or {second}? Answer with the name alone."
    )
    return Task("site", "compared", instruction, says(max(first, second, key=lambda one: cabins[one])), pages=pages)


def _links(titles: list[str], what: str) -> str:
    """Return a list of links."""
    return "".join(f'<li><a href="/{one.lower()}">{what} {one}</a></li>' for one in titles)
