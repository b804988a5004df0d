"""Parses a page of an Azure listing.

Nearly all pages are plain text between plain tags. Two regular expressions read such pages several times as
fast as an XML parser. All other pages go to the parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional
from urllib.parse import unquote

from gofer.objects.facts import parse_md5, parse_size

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# The tags in the order in which the services write them. A page with another order goes to the parser.
_BLOB = re.compile(
    r"<Name>([^<]*)</Name>.*?<Last-Modified>([^<]*)<.*?<Etag>([^<]*)<.*?<Content-Length>([0-9]+)<"
    r"(?:.*?<Content-MD5>([^<]*)<)?",
    re.DOTALL,
)
_FIELD = re.compile(r"<([^<>/]+)>([^<]*)</")
_PREFIX = re.compile(r"<BlobPrefix>\s*<Name>([^<]*)</Name>")
_MARKER = re.compile(r"<NextMarker>([^<]*)<")
# Comments and similar, numeric characters, line ends that a parser would change, and encoded names.
_NOT_PLAIN = re.compile(r"<!|&#|\r|Encoded=")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


class Listed(NamedTuple):
    """A blob of a listing; `modified` is in the service's format."""

    name: str
    size: int
    modified: str
    md5: Optional[bytes]
    etag: str
    metadata: Dict[str, str]


class BlobListing(NamedTuple):
    """The blobs, the names of folders with a slash, and the marker of the next page."""

    blobs: List[Listed]
    folders: List[str]
    marker: str


def read_listing(data: bytes) -> BlobListing:
    """Parse a page. Raises ValueError or xml.etree.ElementTree.ParseError for other data."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _parse(data)
    found = None if _NOT_PLAIN.search(text) else _read_plain(text)
    return found or _parse(data)


def _read_plain(text: str) -> Optional[BlobListing]:
    """Parse with regular expressions; None for a page that needs the parser."""
    pieces = text.split("<Blob>")
    blobs = []
    for piece in pieces[1:]:
        found = _BLOB.match(piece)
        words = _metadata(piece, found.end()) if found else None
        if found is None or words is None:
            return None
        name, modified, etag, size, md5 = found.groups()
        known = (parse_size(size), modified, parse_md5(md5), _quoted(_text(etag)), words)
        blobs.append(Listed(_text(name), *known))
    folders = [_text(name) for name in _PREFIX.findall(text)] if "<BlobPrefix>" in text else []
    marker = _MARKER.search(pieces[-1])
    # A page that is cut short, or with blobs that the expressions did not find, must go to the parser.
    if text.count("</Blob>") != len(blobs) or "</EnumerationResults>" not in pieces[-1]:
        return None
    return BlobListing(blobs, folders, _text(marker[1]) if marker else "")


def _metadata(piece: str, start: int) -> Optional[Dict[str, str]]:
    at = piece.find("<Metadata>", start)
    if at < 0:
        return {}
    section = piece[at + 10 : piece.find("</Metadata>", at)]
    if "/>" in section:  # a field without a value
        return None
    return {name.lower(): _text(value) for name, value in _FIELD.findall(section)}


def _text(found: str) -> str:
    if "&" in found:
        for entity, letter in _ENTITIES:
            found = found.replace(entity, letter)
    return found


def _quoted(etag: str) -> str:
    return etag if etag[:1] == '"' else f'"{etag}"'


def _parse(data: bytes) -> BlobListing:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(data)
    if root.tag != "EnumerationResults":
        raise ValueError(f"<{root.tag}> is not a listing")
    blobs = [_listed(node) for node in root.iter("Blob")]
    folders = [_name(node) for node in root.iter("BlobPrefix")]
    return BlobListing(blobs, folders, root.findtext("NextMarker") or "")


def _listed(node: Element) -> Listed:
    facts = _fields(node, "Properties")
    words = {word.lower(): value for word, value in _fields(node, "Metadata").items()}
    size, modified = parse_size(facts.get("Content-Length")), facts.get("Last-Modified", "")
    etag = _quoted(facts.get("Etag", ""))
    return Listed(_name(node), size, modified, parse_md5(facts.get("Content-MD5")), etag, words)


def _name(node: Element) -> str:
    """The blob's name. Names that XML cannot represent are percent-encoded."""
    found = node.find("Name")
    if found is None:
        return ""
    text = found.text or ""
    return unquote(text) if found.get("Encoded") == "true" else text


def _fields(node: Element, tag: str) -> Dict[str, str]:
    found = node.find(tag)
    return {} if found is None else {child.tag: child.text or "" for child in found}
