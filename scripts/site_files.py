"""The files of the site of `make docs`: a hook of MkDocs, which knows only the files in docs/ by itself.

A page has the same path in the site as in the repository, so that the same link works in both. The site has
the pages in the navigation, the files in docs/, and every file of the repository that a page links to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s#:]+)")
# Browsers save files of other kinds instead of showing them, so that such a file ends in .txt.
SHOWN = (".md", ".css", ".json", ".png", ".svg", ".txt")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Replace the files that MkDocs found in docs/ by those of the site; files of the theme stay."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    docs = Path(config.docs_dir)
    found = {path.relative_to(ROOT) for path in docs.rglob("*") if path.is_file()}
    for path in sorted(_with_linked({*found, *_pages(config.nav or [])})):
        name = path.as_posix()
        dest = None if path.suffix in SHOWN else f"{name}.txt"
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls, dest_uri=dest))
    return files


def _pages(entries: Iterable[Any]) -> Iterator[Path]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, list):
                yield from _pages(value)
            elif (ROOT / value).is_file():  # MkDocs itself names one that is missing
                yield Path(value)


def _with_linked(paths: set[Path]) -> set[Path]:
    waiting = set(paths)
    while waiting:
        path = waiting.pop()
        if path.suffix == ".md":
            new = set(_linked(path)) - paths
            paths, waiting = paths | new, waiting | new
    return paths


def _linked(page: Path) -> Iterator[Path]:
    for link in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        target = (ROOT / page.parent / link).resolve()
        if target.is_file() and target.is_relative_to(ROOT):
            yield target.relative_to(ROOT)
