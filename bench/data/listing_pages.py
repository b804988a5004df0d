"""Listings as Azure answers them, prepared as files so that the sink can serve them without thinking."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape

# As many as Azure puts on a page.
_ON_A_PAGE = 5000


@dataclass(frozen=True)
class Blob:
    """What a listing says of a blob; `made_at` is in whole seconds."""

    name: str
    size: int
    made_at: int
    md5: bytes


def blobs_of(folder: Path) -> list[Blob]:
    """The files in `folder` as blobs whose names begin with the folder's, in the order of their names."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            facts = path.stat()
            name = f"{folder.name}/{path.relative_to(folder)}"
            found.append(Blob(name, facts.st_size, int(facts.st_mtime), _md5(path)))
    return sorted(found, key=lambda blob: blob.name)


def invented(count: int) -> Iterator[Blob]:
    """Blobs that are in the listing alone."""
    for number in range(count):
        name = f"item_{number:07}.bin"
        yield Blob(name, 4096 + number, 1_700_000_000 + number // 100, hashlib.md5(name.encode()).digest())


def write_listing(folder: Path, blobs: Sequence[Blob]) -> None:
    """Answers to every question a client may ask of the container, flat or a level at a time."""
    prefixes = {"", *(f"{blob.name[:at]}/" for blob in blobs for at in _slashes(blob.name))}
    for prefix in prefixes:
        below = [blob for blob in blobs if blob.name.startswith(prefix)]
        write_pages(folder / "flat", prefix, map(_element, below))
        here = [blob for blob in below if "/" not in blob.name[len(prefix) :]]
        folders = {f"{prefix}{blob.name[len(prefix) :].partition('/')[0]}/" for blob in below} - {prefix}
        names = sorted(folders - {f"{blob.name}/" for blob in here})
        write_pages(folder / "level", prefix, [*map(_prefix_element, names), *map(_element, here)])


def write_flat(folder: Path, blobs: Iterable[Blob]) -> None:
    """As `write_listing` for blobs outside any folder: the same pages with a delimiter and without."""
    write_pages(folder / "flat", "", map(_element, blobs))
    (folder / "level").symlink_to("flat")


def write_pages(folder: Path, prefix: str, elements: Iterable[str]) -> None:
    """`folder/<prefix>_<marker>.xml`, with the prefix as it stands in a query."""
    folder.mkdir(parents=True, exist_ok=True)
    source = iter(elements)
    page = list(islice(source, _ON_A_PAGE))
    number = 0
    while True:
        following = list(islice(source, _ON_A_PAGE))
        marker = f"page{number + 1}" if following else ""
        text = page_text("".join(page), marker)
        here = f"page{number}" if number else ""
        # Some clients encode the slashes of a prefix and some do not.
        for spelling in {quote(prefix, safe=""), quote(prefix, safe="/")}:
            path = folder / f"{spelling}_{here}.xml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not following:
            return
        page, number = following, number + 1


def page_text(blobs: str, marker: str) -> str:
    """One page; an empty marker says that it is the last."""
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="bench">'
        f"<MaxResults>{_ON_A_PAGE}</MaxResults><Blobs>{blobs}</Blobs>"
        f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
    )


def _element(blob: Blob) -> str:
    made = time.gmtime(blob.made_at)
    when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", made)
    # nginx makes its ETag of the same two facts.
    etag = f'"{blob.made_at:x}-{blob.size:x}"'
    # As rclone and gofer keep the time of a file.
    mtime = time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", made)
    return (
        f"<Blob><Name>{escape(blob.name)}</Name><Properties><Creation-Time>{when}</Creation-Time>"
        f"<Last-Modified>{when}</Last-Modified><Etag>{escape(etag)}</Etag>"
        f"<Content-Length>{blob.size}</Content-Length><Content-Type>application/octet-stream</Content-Type>"
        f"<Content-MD5>{base64.b64encode(blob.md5).decode()}</Content-MD5><BlobType>BlockBlob</BlobType>"
        "<AccessTier>Hot</AccessTier><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>"
        "<ServerEncrypted>true</ServerEncrypted></Properties>"
        f"<Metadata><mtime>{mtime}</mtime></Metadata></Blob>"
    )


def _prefix_element(name: str) -> str:
    return f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"


def _slashes(name: str) -> list[int]:
    return [at for at, letter in enumerate(name) if letter == "/"]


def _md5(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").digest()
