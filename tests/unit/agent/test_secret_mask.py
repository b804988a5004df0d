"""Secrets in logs: whole, across pieces, as JSON writes them, and values that are too short to mask."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gofer.core import files, run_layout
from gofer.core.secrets.mask import NO_SECRETS, SecretMask
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.node.uploader.run_folder import RunFolderUploader
from gofer.objects.files import FileObjects
from gofer.ops.logs.joined_parts import JoinedStore
from gofer.storage.file import FileStore

SECRET = "dummy-token-1234"
LINE = f"login with {SECRET} done\n".encode()
MASKED = b"login with **************** done\n"
RUN = "r261116-091233-k9qd4x"
LOG = f"{run_layout.node_key(RUN, 1, 0)}/rank-0.log"


def test_a_secret_becomes_stars_of_its_length_and_short_values_stay() -> None:
    mask = SecretMask([SECRET, "short"])
    assert mask.clean(LINE) == MASKED
    assert mask.clean(b"short\n") == b"short\n"
    assert not NO_SECRETS
    assert NO_SECRETS.clean(LINE) == LINE


def test_a_secret_with_quotes_is_found_in_a_record_too() -> None:
    mask = SecretMask(['pass"word\n12'])
    assert b"word" not in mask.clean(rb'{"tail":["pass\"word\n12"]}')


KEY = "-----BEGIN KEY-----\nfirst-dummy-line\nlast-dummy-line\n-----END KEY-----\n"


def test_the_lines_of_a_secret_are_masked_where_a_log_shows_some_of_them() -> None:
    """Of a log with a key in it, the last lines are shown, or one by one in a record."""
    shown = SecretMask([KEY]).clean(b"x last-dummy-line\n-----END KEY-----\n")
    assert shown == b"x ***************\n-----END KEY-----\n"
    assert SecretMask([KEY]).clean(KEY.encode()) == b"*" * len(KEY)


def test_blanks_around_a_secret_do_not_hide_it() -> None:
    assert SecretMask([f" {SECRET}\n"]).clean(LINE) == MASKED


def test_a_secret_in_which_the_last_lines_begin_is_masked(tmp_path: Path) -> None:
    mask, log = SecretMask([SECRET]), tmp_path / "rank-0.log"
    log.write_bytes(LINE * 3)
    for most in range(1, len(LINE)):
        (shown,) = files.tail_lines(str(log), 1, most=most, clean_after=mask.clean_after, margin=mask.margin)
        assert f"{shown}\n" == MASKED[-most:].decode()


@given(st.lists(st.integers(0, len(LINE) * 3), max_size=6))
def test_no_cut_shows_a_secret(cuts: list[int]) -> None:
    data, mask = LINE * 3, SecretMask([SECRET])
    ends = [0, *sorted(cuts), len(data)]
    pieces = [data[first:last] for first, last in itertools.pairwise(ends)]
    assert b"".join(mask.stream(pieces)) == MASKED * 3


@given(st.integers(0, 80), st.integers(1, 40))
def test_any_part_of_a_file_is_read_without_secrets(start: int, length: int) -> None:
    data, mask = LINE * 3, SecretMask([SECRET])
    assert mask.read(io.BytesIO(data), start, length) == (MASKED * 3)[start : start + length]


def test_what_goes_to_a_store_while_a_log_grows_never_holds_a_secret(tmp_path: Path) -> None:
    """The log grows by one byte at a time, as a slow writer's does."""
    spool, store = tmp_path / "spool", tmp_path / "store"
    store.mkdir()
    path = spool / LOG
    path.parent.mkdir(parents=True)
    mask = RunSecrets(
        {"TOKEN": SECRET}, {"kind": "s3", "secret_key": "dummy-secret-key"}, {}, ["TOKEN"]
    ).mask()
    uploader = RunFolderUploader(str(spool), FileObjects(str(store)), part_bytes=10, mask=mask)
    text = LINE + b"and dummy-secret-key\n" + b"dummy-tok"
    shown = MASKED + b"and ****************\n" + b"dummy-tok"
    for size in range(1, len(text) + 1):
        path.write_bytes(text[:size])
        uploader.upload_changes(RUN)
        sent = JoinedStore(FileStore(store)).get(LOG) if any(store.rglob("*.log*")) else b""
        assert shown.startswith(sent)
        assert len(text[:size]) - len(sent) < len(SECRET)
    uploader.finish(RUN)
    assert FileStore(store).get(LOG) == shown


def test_all_that_opens_a_store_is_masked() -> None:
    nested: Any = {"auth": {"key": "dummy-key-0"}}
    private = RunSecrets({"A": "not-a-secret-value"}, {"sas": "sv=dummy&sig=dummy"}, {"data": nested})
    mask = private.mask()
    assert (
        mask.clean(b"sv=dummy&sig=dummy dummy-key-0 not-a-secret-value")
        == b"*" * 18 + b" " + b"*" * 11 + b" not-a-secret-value"
    )
