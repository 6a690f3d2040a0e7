"""The pages: the paper of an island that does not exist. Nothing in them is about the world outside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from html import escape, unescape
from pathlib import Path


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        title: of the page.
        body: HTML inside its main part.
        published: its date, None for a page without one.
        language: of its text.
        charset: it is sent in; the header says so.
        media_type: of what is sent: HTML, or the body as it stands.
    """

    title: str
    body: str
    published: date | None = None
    language: str = "en"
    charset: str = "utf-8"
    media_type: str = "text/html"

    @property
    def text(self) -> str:
        """Its words without tags."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", f"{self.title} {self.body}")).split())

    def html(self, path: str = "/") -> str:
        """The whole page, with the navigation and the footer that surround the text of a real one."""
        day = self.published.isoformat() if self.published else ""
        meta = f'<meta property="article:published_time" content="{day}T08:00:00+00:00">' if day else ""
        stamp = f'<p><time datetime="{day}">{day}</time></p>' if day else ""
        return (
            f'<!doctype html><html lang="{self.language}"><head><meta charset="{self.charset}">'
            f'<title>{escape(self.title)} | Skerrow Record</title>{meta}<link rel="canonical" href="{path}"></head>'
            f"<body>{_NAVIGATION}<main><article><h1>{escape(self.title)}</h1>{stamp}{self.body}</article></main>"
            f"{_FOOTER}</body></html>"
        )


_NAVIGATION = (
    '<nav><a href="/">Home</a> <a href="/news/">News</a> <a href="/places/">Places</a> <a href="/data/">Data</a> '
    '<a href="/search">Search</a> <form action="/search"><input name="q"></form></nav>'
)
_FOOTER = '<footer><p>Skerrow Record. Subscribe to our weekly letter! <a href="/about">About</a></p></footer>'


def _p(*paragraphs: str) -> str:
    return "".join(f"<p>{one}</p>" for one in paragraphs)


def _table(head: tuple[str, ...], *rows: tuple[object, ...]) -> str:
    first = "".join(f"<th>{one}</th>" for one in head)
    body = "".join("<tr>" + "".join(f"<td>{one}</td>" for one in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{body}</tbody></table>"


OYSTERS = ((2017, 41200, 1830), (2018, 39850, 1790), (2019, 44010, 2045), (2020, 47330, 2210), (2021, 52690, 2480))
"""Year, oysters counted, kilograms landed."""

PAGES: dict[str, Page] = {
    "/": Page(
        "Skerrow Record",
        _p(
            "The paper of the island of Skerrow, printed on Fridays since 1951.",
            'Read about the <a href="/places/lighthouse">lighthouse</a>, the <a href="/places/tide-mill">tide mill</a>'
            ' and the <a href="/data/oysters">oyster count</a>, or in Chinese about '
            '<a href="/zh/lighthouse">灯塔</a>.',
            'All that happened is in the <a href="/long">whole history</a>; odd words are in the '
            '<a href="/glossary">glossary</a>.',
        ),
    ),
    "/about": Page(
        "About the Skerrow Record",
        _p(
            "Four people write the paper: two of them also run the ferry office.",
            'Letters go to the office at the <a href="/places/harbour">harbour</a>. See also the '
            '<a href="/faq">questions we are asked</a>.',
        ),
    ),
    "/faq": Page(
        "Questions we are asked",
        _p(
            "How do I get to Skerrow? By the ferry from Port Aldin, see the "
            '<a href="/data/ferry-timetable">timetable</a>.',
            "Can I visit the lighthouse? On Saturdays from May to September, except when fog is forecast.",
            "Is there a bank? No. The shop at the harbour gives cash against a card.",
        ),
    ),
    "/glossary": Page(
        "Words of the island",
        "<dl><dt>slack</dt><dd>The half hour in which the tide mill stands still.</dd>"
        "<dt>wrack line</dt><dd>The line of weed that a high tide leaves.</dd>"
        "<dt>lamp room</dt><dd>The glazed top of a lighthouse.</dd></dl>",
    ),
    "/news/": Page(
        "News",
        "<ul>"
        + "".join(
            f'<li><a href="/news/{where}">{title}</a></li>'
            for where, title in (
                ("2014/ferry-returns", "The ferry returns"),
                ("2016/lamp-room", "New panes for the lamp room"),
                ("2018/tide-mill-grinds", "The tide mill grinds again"),
                ("2019/automation", "Lighthouse to be automated"),
                ("2021/oyster-count", "A record oyster count"),
                ("2023/storm-damage", "Storm takes the north pier"),
                ("2024/library-hours", "Longer hours at the library"),
            )
        )
        + "</ul>",
    ),
    "/news/2014/ferry-returns": Page(
        "The ferry returns",
        _p(
            "After nineteen months in the yard the ferry Maren is back on the crossing from Port Aldin.",
            "The repair cost 412,000 crowns, a third more than was planned. The boat now carries 14 cars.",
        ),
        date(2014, 4, 11),
    ),
    "/news/2016/lamp-room": Page(
        "New panes for the lamp room",
        _p(
            "Keeper Ada Lindqvist has had the sixteen panes of the lamp room replaced.",
            "The old glass of 1888 goes to the museum. The light is visible at 19 nautical miles as before.",
        ),
        date(2016, 9, 2),
    ),
    "/news/2018/tide-mill-grinds": Page(
        "The tide mill grinds again",
        _p(
            "Josef Marr opened the sluice on Sunday, and the tide mill ground barley for the first time since 1962.",
            "The wheel of larch was built on the island. It turns for about five hours after each high tide.",
        ),
        date(2018, 6, 29),
    ),
    "/news/2019/automation": Page(
        "Lighthouse to be automated",
        _p(
            "The lighthouse of Skerrow will have no keeper from 1 November 2019: "
            "the lamp becomes electric and automatic.",
            'Ada Lindqvist, who kept it for 22 years, moves to the <a href="/places/library">library</a>.',
            "The fog signal stays as it is, since the engine of 1931 cannot be started from afar.",
        ),
        date(2019, 10, 18),
    ),
    "/news/2021/oyster-count": Page(
        "A record oyster count",
        _p(
            "Volunteers counted 52,690 oysters in the sound this March, more than ever since the counts began.",
            'The <a href="/data/oysters">whole table</a> is kept by the harbour office.',
        ),
        date(2021, 3, 26),
    ),
    "/news/2023/storm-damage": Page(
        "Storm takes the north pier",
        _p(
            "The storm of 14 January 2023 carried off 60 metres of the north pier.",
            "Nobody was hurt. The ferry lands at the south steps until the pier is mended.",
        ),
        date(2023, 1, 20),
    ),
    "/news/2024/library-hours": Page(
        "Longer hours at the library",
        _p("From March the library is open until eight in the evening on Tuesdays and Thursdays."),
        date(2024, 2, 23),
    ),
    "/places/": Page(
        "Places",
        "<ul>"
        + "".join(
            f'<li><a href="/places/{one}">{one}</a></li>'
            for one in ("lighthouse", "tide-mill", "harbour", "chapel", "library", "north-sound")
        )
        + "</ul>",
    ),
    "/places/lighthouse": Page(
        "The lighthouse",
        _p(
            "The tower of 1888 stands 31 metres high on the west cliff. Its light flashes twice every 15 seconds.",
            'It has been automatic since November 2019 (<a href="/news/2019/automation">report</a>). '
            'Its last keeper was <a href="/people/ada-lindqvist">Ada Lindqvist</a>.',
        ),
    ),
    "/places/tide-mill": Page(
        "The tide mill",
        _p(
            "A pond of two hectares fills with the flood and drives the wheel with the ebb.",
            'The mill stood still from 1962 to 2018; <a href="/people/josef-marr">Josef Marr</a> mended it. '
            'How much power it gives is measured in <a href="/papers/tidal-energy.pdf">a paper</a>.',
        ),
    ),
    "/places/harbour": Page(
        "The harbour", _p("South steps, north pier, the ferry office and a shop. Depth at low water: 3.4 metres.")
    ),
    "/places/chapel": Page(
        "The chapel", _p("Built in 1740 of ships' timber. The bell is from the wreck of the brig Constance.")
    ),
    "/places/library": Page(
        "The library",
        _p("Nine thousand volumes, among them the logs of the lighthouse from 1888 to 2019, which can be read there."),
    ),
    "/places/north-sound": Page(
        "The north sound",
        _p('The oyster beds lie here. Since 2017 they are counted every spring (<a href="/data/oysters">table</a>).'),
    ),
    "/people/ada-lindqvist": Page(
        "Ada Lindqvist", _p("Keeper of the lighthouse from 1997 to 2019, librarian since. Born in Port Aldin in 1961.")
    ),
    "/people/josef-marr": Page(
        "Josef Marr", _p("Carpenter and miller. He rebuilt the wheel of the tide mill from 2015 to 2018.")
    ),
    "/data/": Page(
        "Data",
        '<ul><li><a href="/data/oysters">Oysters</a></li><li><a href="/data/oysters.xlsx">Oysters (spreadsheet)</a>'
        '</li><li><a href="/data/rainfall">Rainfall</a></li><li><a href="/data/ferry-timetable">Ferry</a></li></ul>',
    ),
    "/data/oysters": Page(
        "Oysters counted in the north sound",
        _table(("Year", "Oysters", "Landed (kg)"), *OYSTERS) + _p("Counted in March. Source: harbour office."),
    ),
    "/data/rainfall": Page(
        "Rainfall at the chapel",
        _table(("Month", "mm"), ("January", 118), ("April", 61), ("July", 54), ("October", 127)),
    ),
    "/data/ferry-timetable": Page(
        "Ferry timetable",
        _table(("From Port Aldin", "From Skerrow"), ("07:15", "08:30"), ("12:00", "13:15"), ("17:45", "19:00")),
    ),
    "/zh/lighthouse": Page(
        "斯凯罗岛的灯塔",
        _p(
            "斯凯罗岛的灯塔建于1888年，高31米。",
            "2019年11月起灯塔实现自动化，最后一位守塔人是阿达·林奎斯特，她守塔二十二年。",
            '另见<a href="/zh/tide-mill">潮汐磨坊</a>。',
        ),
        date(2019, 12, 5),
        "zh",
    ),
    "/zh/tide-mill": Page(
        "潮汐磨坊重新开工", _p("潮汐磨坊于2018年6月重新磨面，水轮由落叶松制成。"), date(2018, 7, 6), "zh", "gb18030"
    ),
    # Served as a PDF: what its words are, for the engines.
    "/papers/tidal-energy.pdf": Page(
        "The power of the tide mill of Skerrow",
        _p("We measured the wheel over forty tides: 7.2 kilowatts on average, and 11.5 kilowatts at most."),
        date(2020, 3, 2),
    ),
    "/private/ledger": Page("Ledger of the ferry office", _p("Not for visitors: robots.txt says so.")),
    "/long": Page(
        "The whole history of the island",
        "".join(
            f"<h2>Year {year}</h2>"
            + _p(
                *(
                    f"In the year {year} the log of week {week} records wind and the tide mark {year * week % 97}."
                    for week in range(1, 53)
                )
            )
            for year in range(1951, 1966)
        ),
    ),
}

VERSIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "/places/lighthouse": (
        ("20090514120000", "<p>The lighthouse is kept by Ada Lindqvist. The lamp burns paraffin.</p>"),
        ("20170302080000", "<p>The lighthouse is kept by Ada Lindqvist. The lamp has new panes since 2016.</p>"),
        ("20200119093000", "<p>The lighthouse is automatic since November 2019. It has no keeper.</p>"),
    ),
    "/places/harbour": (
        ("20120601000000", "<p>South steps and a north pier of 140 metres.</p>"),
        ("20230301000000", "<p>South steps. Of the north pier 80 metres are left.</p>"),
    ),
}
"""What the archive keeps: path to (time of capture, body), oldest first."""

WIKI: dict[str, dict[str, tuple[tuple[int, str, str], ...]]] = {
    "en": {
        "Skerrow Lighthouse": (
            (1001, "2011-02-03T10:00:00Z", "Skerrow Lighthouse is a manned lighthouse. Its keeper is Ada Lindqvist."),
            (1044, "2016-10-01T10:00:00Z", "Skerrow Lighthouse is a manned lighthouse, reglazed in 2016."),
            (1102, "2020-01-20T10:00:00Z", "Skerrow Lighthouse is an automatic lighthouse without a keeper."),
        ),
        "Tide mill": (
            (2001, "2008-05-05T10:00:00Z", "A tide mill is a mill driven by the fall of the tide."),
            (2010, "2022-05-05T10:00:00Z", "A tide mill is a mill driven by the tide; one works on Skerrow."),
        ),
    },
    "zh": {"斯凯罗灯塔": ((3001, "2020-02-02T10:00:00Z", "斯凯罗灯塔是一座自动化灯塔。"),)},
}
"""Language, title, revisions (id, time, text), oldest first."""


def write_mirror(folder: Path, *below: str) -> Path:
    """The pages as files, as a copier of sites leaves them: `news/2019/automation/index.html`.

    Args:
        folder: where they are written.
        below: only those whose paths begin so; all of them by default.
    """
    for path, page in PAGES.items():
        if (below and not path.startswith(below)) or path.endswith(".pdf"):
            continue
        place = folder / path.strip("/") / "index.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page.html(path).replace('charset="gb18030"', 'charset="utf-8"'), encoding="utf-8")
    return folder
