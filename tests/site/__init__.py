"""A website on the loopback address with everything around it that reading and searching the web meets.

`async with served() as site:` serves about 30 linked pages, traps, an archive, a wiki and the programming interfaces of
search engines, each answering from those pages in its real documented format. Every request is in `site.requests`.
"""

from tests.site.pages import PAGES, Page, write_mirror
from tests.site.server import Site, served

__all__ = ["PAGES", "Page", "Site", "served", "write_mirror"]
