"""Options of a mount, as the documents of older tools print them and as rclone has them."""

from __future__ import annotations

import pytest

from gofer.model.mount_options import parse_mount_options

PRINTED = [
    "-o",
    "attr_timeout=240",
    "-o",
    "entry_timeout=240",
    "-o",
    "negative_timeout=120",
    "--log-level=LOG_WARNING",
    "-o",
    "allow_other",
    "--file-cache-timeout-in-seconds=10000000",
]


def test_the_printed_options_of_blobfuse() -> None:
    found = parse_mount_options(PRINTED)
    assert found.flags == (
        "attr-timeout=240s",
        "log-level=NOTICE",
        "vfs-cache-max-age=10000000s",
        "vfs-cache-mode=full",
    )
    assert [one.word for one in found.refused] == ["negative_timeout=120", "allow_other"]
    assert "`dir-cache-time`" in str(found.refused[0])


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ([], ()),
        (["-o"], ()),
        (["-oattr_timeout=2,uid=7", "--gid=8"], ("attr-timeout=2s", "uid=7", "gid=8")),
        (["-o=umask=022"], ("umask=022",)),
        (["-o attr_timeout=90 -o entry_timeout=1m"], ("attr-timeout=1m",)),
        (["--attr-timeout=1h30m"], ("attr-timeout=1h30m",)),
        (
            ["vfs-cache-mode=writes", "cache-size-mb=500"],
            ("vfs-cache-mode=writes", "vfs-cache-max-size=500Mi"),
        ),
        (["max_readahead=131072"], ("max-read-ahead=128Ki",)),
        (["direct_io", "vfs-refresh=false"], ("direct-io=true", "vfs-refresh=false")),
        (["dir-cache-time=1m", "dir-cache-time=2m"], ("dir-cache-time=2m",)),
    ],
)
def test_forms_of_an_option(words: list[str], flags: tuple[str, ...]) -> None:
    assert parse_mount_options(words) == (flags, ())


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("ro", "`read_only: true` of the folder does this"),
        ("attr-timeout=", "a time such as `240s`"),
        ("attr-timeout=-1", "a time such as `240s`"),
        ("vfs-cache-max-size=5", "a size with its unit"),
        ("vfs-cache-mode=off", "one of full, writes"),
        ("log-level=LOG_DEBUG", "one of ERROR, NOTICE, INFO"),
        ("use-attr-cache=true", "the nearest are `dir-cache-time` and `attr-timeout`"),
        ("tmp-path=/mnt", "`vfs-cache-max-size` limits it"),
        ("vfs_cache_maxage=1h", "the nearest is `vfs-cache-max-age`"),
        ("rc", "`docs/data.md` lists"),
        ("config=/etc/passwd", "gofer gives rclone no such option"),
    ],
)
def test_a_refused_option_says_what_to_write(word: str, why: str) -> None:
    found = parse_mount_options([word])
    assert found.flags == ()
    assert why in str(found.refused[0]) and f"`{word}`" in str(found.refused[0])
