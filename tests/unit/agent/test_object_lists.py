"""Listings and dates as the services write them: the fast way must read what the parser reads."""

from __future__ import annotations

import base64
import hashlib
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.objects.azure import Listed, _parse, _read_plain, read_listing
from gofer.objects.dates import parse_http_date
from gofer.objects.facts import parse_md5

WHEN = "Sun, 06 Nov 1994 08:49:37 GMT"
MD5 = hashlib.md5(b"x").digest()


def blob(name: str, *, md5: bytes | None = MD5, metadata: str = "", attribute: str = "") -> str:
    hashed = f"<Content-MD5>{base64.b64encode(md5).decode()}</Content-MD5>" if md5 else "<Content-MD5 />"
    return (
        f"<Blob><Name{attribute}>{escape(name)}</Name><Properties><Creation-Time>{WHEN}</Creation-Time>"
        f"<Last-Modified>{WHEN}</Last-Modified><Etag>0x8D</Etag><Content-Length>12</Content-Length>"
        f"<Content-Type>text/plain</Content-Type>{hashed}<BlobType>BlockBlob</BlobType></Properties>"
        f"{metadata}</Blob>"
    )


def page(*blobs: str, marker: str = "", prefixes: str = "") -> bytes:
    text = f"<Blobs>{''.join(blobs)}{prefixes}</Blobs><NextMarker>{escape(marker)}</NextMarker>"
    head = '\ufeff<?xml version="1.0" encoding="utf-8"?>'
    return f"{head}<EnumerationResults>{text}</EnumerationResults>".encode()


def test_a_plain_page_needs_no_parser() -> None:
    words = "<Metadata><Mtime>2023-11-14T22:13:20Z</Mtime><mode>100755</mode></Metadata>"
    data = page(blob("a & <b>", metadata=words), blob("c", md5=None), marker="go&on")
    found = _read_plain(data.decode())
    assert found == _parse(data) == read_listing(data)
    assert found.marker == "go&on"
    assert found.blobs == [
        Listed("a & <b>", 12, WHEN, MD5, '"0x8D"', {"mtime": "2023-11-14T22:13:20Z", "mode": "100755"}),
        Listed("c", 12, WHEN, None, '"0x8D"', {}),
    ]


def test_folders_are_read_too() -> None:
    prefixes = "<BlobPrefix><Name>d&amp;e/</Name></BlobPrefix><BlobPrefix><Name>f/</Name></BlobPrefix>"
    data = page(blob("a"), prefixes=prefixes)
    assert read_listing(data).folders == ["d&e/", "f/"]
    assert _read_plain(data.decode()) == _parse(data)


@pytest.mark.parametrize(
    "data",
    [
        page(blob("a%0Ab", attribute=' Encoded="true"')),
        page(blob("x").replace("<Name>x<", "<Name>&#233;<")),
        page(blob("x", metadata="<Metadata><empty/><full>1</full></Metadata>")),
        page(blob("x").replace(f"<Last-Modified>{WHEN}</Last-Modified>", "")),
        page(blob("x").replace("<Name>x<", "<Name><![CDATA[<x>]]><")),
        page(blob("x").replace("<Blob>", "<Blob >")),
    ],
    ids=["encoded", "by number", "empty word", "no date", "cdata", "blank in a tag"],
)
def test_what_is_not_plain_goes_to_the_parser(data: bytes) -> None:
    found = read_listing(data)
    assert found == _parse(data)
    assert len(found.blobs) == 1


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", page(blob("a"))[:-30], b"<html>busy</html"])
def test_what_is_no_listing_is_an_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        read_listing(data)


@pytest.mark.parametrize("size", ["9" * 19, "-1", "1e3", "12 GiB"])
@pytest.mark.parametrize("attribute", ["", ' Encoded="true"'], ids=["plain", "for the parser"])
def test_a_size_that_no_file_can_have_is_no_listing(size: str, attribute: str) -> None:
    data = page(blob("a", attribute=attribute).replace(">12<", f">{size}<"))
    with pytest.raises(ValueError, match="is not the size of an object"):
        read_listing(data)


@pytest.mark.parametrize("text", ["abc", "a" * 400, "\u00e9", "YWJj", ""])
def test_an_md5_that_is_none_is_not_believed(text: str) -> None:
    assert parse_md5(text) is None
    found = read_listing(page(blob("a").replace(base64.b64encode(MD5).decode(), text)))
    assert [one.md5 for one in found.blobs] == [None]


_NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1, max_size=30
)


@given(
    st.lists(_NAMES, max_size=5),
    st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), _NAMES),
)
def test_any_name_is_read_as_the_parser_reads_it(names: list[str], words: dict[str, str]) -> None:
    inner = "".join(f"<{word}>{escape(value)}</{word}>" for word, value in words.items())
    data = page(*(blob(name, metadata=f"<Metadata>{inner}</Metadata>") for name in names))
    found = read_listing(data)
    assert found == _parse(data)
    assert [one.name for one in found.blobs] == names


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (WHEN, 784111777.0),
        ("Thu, 29 Feb 2024 23:59:60 GMT", 0.0),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 784111777.0),
        ("Xyz, 06 Abc 1994 08:49:37 GMT", 0.0),
        ("", 0.0),
        ("yesterday", 0.0),
    ],
)
def test_dates(text: str, seconds: float) -> None:
    assert parse_http_date(text) == seconds
