"""A page that ottla writes as tests read it: its text, links and places, and whether it is well-formed."""

from __future__ import annotations

from html.parser import HTMLParser

VOID_TAGS = ("meta", "br")


class Page(HTMLParser):
    """One page; `open` is empty where every tag that was opened was closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        """What a reader sees, in one piece."""
        return " ".join("".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID_TAGS:
            self.open.append(tag)
        places = [value or "" for name, value in attrs if name in ("src", "href", "srcset", "xlink:href")]
        self.links += [place.removeprefix("#") for place in places if place.startswith("#")]
        self.fetched += [place for place in places if not place.startswith("#")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID_TAGS:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)
