"""Pages as tests look at them."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = "<script>alert('&\"')</script>"
_EMPTY = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """A page as its text, links, attributes and elements; unbalanced markup is an error."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.text = ""
        self.elements: list[str] = []
        self.attributes: set[tuple[str, str]] = set()
        self._open: list[str] = []
        self.feed(page.decode())
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
