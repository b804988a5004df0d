"""Every page of docs/ is in the navigation of the site, and every link between the pages leads somewhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "bench/*.md", "examples/*/*.md")
    for path in ROOT.glob(pattern)
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _navigation() -> list[str]:
    return _leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


def _leaves(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    entries = entry.values() if isinstance(entry, dict) else entry
    return [leaf for one in entries for leaf in _leaves(one)]


def _prose(text: str) -> str:
    """The text without blocks of code and without code in a line."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


@cache
def _anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them; `make docs` compares with those of MkDocs."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _broken(page: str, text: str) -> list[str]:
    """The links in the text of a page that lead to no file and no heading of this repository."""
    found = []
    for link in _LINK.findall(_prose(text)):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (ROOT / page).parent / path if path else ROOT / page
        inside = target.resolve().is_relative_to(ROOT) and target.is_file()
        if not inside or (anchor and anchor not in _anchors(target.resolve().relative_to(ROOT).as_posix())):
            found.append(link)
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = _navigation()
    assert len(navigation) == len(set(navigation))
    assert [page for page in PAGES if page.startswith("docs/") and page not in navigation] == []


def test_every_page_of_the_navigation_exists() -> None:
    assert [page for page in _navigation() if not (ROOT / page).is_file()] == []


def test_every_page_that_a_page_of_the_site_links_to_is_in_the_navigation() -> None:
    navigation = _navigation()
    linked = {
        ((ROOT / page).parent / link.partition("#")[0]).resolve().relative_to(ROOT).as_posix()
        for page in navigation
        for link in _LINK.findall(_prose((ROOT / page).read_text()))
        if ":" not in link and link.partition("#")[0].endswith(".md")
    }
    assert sorted(linked - set(navigation)) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert _broken(page, (ROOT / page).read_text()) == []


def test_broken_links_are_found() -> None:
    broken = ["nothing.md", "data.md#nothing", "#nothing", "../src", "../../outside.md"]
    sound = [
        "data.md",
        "data.md#folders-in-a-run",
        "../README.md",
        "#the-queue",
        "https://example.org/nothing",
    ]
    text = "".join(f"[a]({link}) and " for link in [*broken, *sound])
    assert _broken("docs/local.md", text) == broken
    assert _broken("docs/local.md", "`[a](nothing.md)`\n\n```sh\n[a](nothing.md)\n```\n") == []
