"""What of a secret file a log must not show, and that many values are found wherever they stand."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.core.secrets import secret_files
from gofer.core.secrets.mask import SecretMask
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.secrets.search import SecretSearch
from gofer.core.secrets.secret_files import MOST_VALUES, values_in, values_of

PEM = b"-----BEGIN PRIVATE KEY-----\nZHVtbXkgbGluZSBvbmU\nZHVtbXk=\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("path", "data", "values"),
    [
        (
            "conf/.env.local",
            b"# TOKEN=in-a-comment\nexport A='dummy one' # said\n"
            b'B = "dummy-#two"\nC=dummy-three  # why\nD=short\n',
            ["dummy one", "dummy-#two", "dummy-three"],
        ),
        (
            ".env",
            b'KEY="-----BEGIN\nZHVtbXkgbGluZQ\n"\r\nLAST=dummy-last\r\n',
            ["-----BEGIN", "ZHVtbXkgbGluZQ", "dummy-last"],
        ),
        ("a.pem", PEM, ["ZHVtbXkgbGluZSBvbmU", "ZHVtbXk="]),
        (
            ".aws/credentials",
            b"[default]\n; no\naws_secret_access_key = dummy/secret\n",
            ["[default]", "dummy/secret", "aws_secret_access_key = dummy/secret"],
        ),
        (
            ".netrc",
            b"machine h login ann password dummy-pass\n",
            ["dummy-pass", "machine h login ann password dummy-pass"],
        ),
        ("credentials.json", json.dumps({"key": PEM.decode(), "n": [1, {"id": "dummy-id"}]}).encode(), None),
        ("broken-credentials.json", b'{"key": "dummy-key",', ['{"key": "dummy-key",']),
    ],
)  # fmt: skip
def test_the_values_of_a_file(path: str, data: bytes, values: list[str] | None) -> None:
    expected = {"ZHVtbXkgbGluZSBvbmU", "ZHVtbXk=", "dummy-id"} if values is None else set(values)
    assert set(values_in(path, data)) == expected


def test_a_mask_of_a_run_has_the_values_of_its_files_and_not_more_than_a_thousand() -> None:
    lines = "".join(f"K{number}=dummy-{number:06}\n" for number in range(MOST_VALUES + 5)).encode()
    files = secret_files.encode({".env": lines, "late.pem": PEM})
    values = values_of(files)
    assert len(values) == MOST_VALUES
    shown = RunSecrets({}, None, {}, (), files).mask().clean(lines)
    assert shown.startswith(b"K0=************\nK1=")
    assert len(shown) == len(lines)
    assert shown.count(b"dummy-") == 5


def test_only_the_first_64_kib_of_a_file_are_looked_at() -> None:
    data = b"#" * 65_000 + b"\nA=dummy-one\n" + b"#" * 600 + b"\nB=dummy-two\n"
    assert values_of(secret_files.encode({".env": data})) == ["dummy-one"]


# Few letters, so that values overlap, begin alike and hold each other.
VALUES = st.lists(st.text("ab", min_size=8, max_size=40), min_size=1, max_size=80)
PARTS = st.lists(st.one_of(st.sampled_from(["x", "\n", "abab"]), st.integers(0, 79)), max_size=12)


def _log_of(values: list[str], parts: list[str | int]) -> bytes:
    return "".join(one if isinstance(one, str) else values[one % len(values)] for one in parts).encode()


def _plain_mask(values: list[str], data: bytes) -> bytes:
    """The same by the simplest means."""
    stars = bytearray(data)
    for value in map(str.encode, values):
        for start in range(len(data) - len(value) + 1):
            if data[start : start + len(value)] == value:
                stars[start : start + len(value)] = b"*" * len(value)
    return bytes(stars)


@given(VALUES, PARTS)
def test_values_that_overlap_are_masked_from_the_first_byte_to_the_last(
    values: list[str], parts: list[str | int]
) -> None:
    data = _log_of(values, parts)
    assert SecretMask(values).clean(data) == _plain_mask(values, data)


@given(VALUES, PARTS, st.lists(st.integers(0, 400), max_size=8))
def test_cuts_change_nothing(values: list[str], parts: list[str | int], cuts: list[int]) -> None:
    data = _log_of(values, parts)
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[first:last] for first, last in itertools.pairwise(ends)]
    assert b"".join(SecretMask(values).stream(pieces)) == _plain_mask(values, data)


@pytest.mark.parametrize("length", [8, 14, 15, 30, 31, 64])
def test_each_of_many_values_is_found_at_every_place_of_a_word(length: int) -> None:
    values = [f"{number:03}".encode() + b"-dummy" * 20 for number in range(100)]
    values = [value[: length - 3] + value[:3] for value in values]
    search = SecretSearch(values)
    for shift in range(33):
        data = b" " * shift + b"|".join(values)
        found = sorted(set(search.places(data)))
        assert found == [(at, at + length) for at in range(shift, len(data), length + 1)]
