"""What a page says, as plain text by its sections: for tests of words."""

from __future__ import annotations

from html.parser import HTMLParser

AFTER = {"dt": ": ", "td": " | ", "th": " | "} | dict.fromkeys(
    ("p", "li", "dd", "tr", "caption", "figcaption", "summary", "pre"), "\n"
)
"""What stands behind an element."""
SILENT = ("title", "style", "script", "svg", "nav", "header", "h2")
"""What has no words, or names the part."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, list[str]] = {"first": []}
        self._part, self._silent, self._exact = "first", 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT
        self._exact += tag == "pre"
        if tag == "section":
            self._part = dict(attrs).get("aria-labelledby") or "first"
            self.parts.setdefault(self._part, [])

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT
        self._exact -= tag == "pre"
        self.parts[self._part].append(AFTER.get(tag, ""))

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts[self._part].append(data if self._exact else " ".join(data.split("\n")))


def said(page: str) -> dict[str, str]:
    """The words of each section by its name; ``first``: what stands before them. Cells of a table are parted by " | "."""
    reader = _Reader()
    reader.feed(page[page.index("<main") :])
    lines = {name: "".join(parts).replace(" | \n", "\n").splitlines() for name, parts in reader.parts.items()}
    return {name: "\n".join(line.strip() for line in found if line.strip()) for name, found in lines.items()}
