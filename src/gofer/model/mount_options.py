"""Options of a mount, as rclone, FUSE and blobfuse write them, made into flags of `rclone mount`.

A name may have `_` or `-`, and dashes or `-o` before it. A bare number of a time is in seconds, as in FUSE.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TIME, _SIZE, _COUNT, _PERMISSIONS, _SWITCH = "a time", "a size", "a number", "permissions", "a switch"
_FORMS = {
    _TIME: (r"(\d+(\.\d+)?(ms|s|m|h))+|\d+(\.\d+)?d|\d+(\.\d+)?", "a time such as `240s` or `2h`"),
    _SIZE: (r"\d+(\.\d+)?[KMGT]i?|off", "a size with its unit, such as `64Mi`, or `off`"),
    _COUNT: (r"\d+", "a whole number"),
    _PERMISSIONS: (r"[0-7]{3,4}", "octal digits such as `022`"),
    _SWITCH: (r"true|false", "`true`, or no value"),
}
# What rclone knows, by the form of the value. gofer sets the other flags itself.
_KNOWN = {
    **dict.fromkeys(("attr-timeout", "dir-cache-time", "vfs-cache-max-age"), _TIME),
    **dict.fromkeys(("buffer-size", "max-read-ahead", "vfs-read-ahead"), _SIZE),
    **dict.fromkeys(("vfs-cache-max-size", "vfs-cache-min-free-space"), _SIZE),
    **dict.fromkeys(("vfs-read-chunk-size", "vfs-read-chunk-size-limit"), _SIZE),
    **dict.fromkeys(("transfers", "vfs-read-chunk-streams", "uid", "gid"), _COUNT),
    **dict.fromkeys(("umask", "file-perms", "dir-perms"), _PERMISSIONS),
    **dict.fromkeys(("default-permissions", "direct-io", "no-modtime"), _SWITCH),
    **dict.fromkeys(("vfs-fast-fingerprint", "vfs-refresh"), _SWITCH),
}
_CHOICES = {
    "vfs-cache-mode": ("full", "writes"),
    "log-level": ("ERROR", "NOTICE", "INFO"),
}
_CACHE_MODE, _ATTRIBUTES = "vfs-cache-mode", "attr-timeout"
# rclone has one time for the attributes of a file and for its entry in a folder.
_SAME = {
    "entry-timeout": _ATTRIBUTES,
    "file-cache-timeout-in-seconds": "vfs-cache-max-age",
    "file-cache-timeout": "vfs-cache-max-age",
    "cache-size-mb": "vfs-cache-max-size",
    "max-readahead": "max-read-ahead",
}
_LEVELS = {"LOG_ERR": "ERROR", "LOG_CRIT": "ERROR", "LOG_WARNING": "NOTICE", "LOG_INFO": "INFO"}
# blobfuse keeps the files that were read on the disk. rclone does so in this mode only.
_OF_FILE_CACHE = ("file-cache-timeout-in-seconds", "file-cache-timeout", "cache-size-mb")

_PRIVATE = "only the run's own user can reach the mount, so it has no effect"
_OWN_FOLDER = "the cache is in gofer's own folder; `vfs-cache-max-size` limits it"
_OF_STORE = "the settings of the store decide; leave it out"
_KEPT_READ = "rclone has none; the nearest is `vfs-cache-mode=full`, which keeps what was read on the disk"
_ATTRIBUTE_CACHE = "rclone has none; the nearest are `dir-cache-time` and `attr-timeout`"
_REFUSED = {
    "ro": "`read_only: true` of the folder does this",
    "read-only": "`read_only: true` of the folder does this",
    "rw": "runs may write unless the folder is `read_only`; leave it out",
    "allow-other": _PRIVATE,
    "allow-root": _PRIVATE,
    "nonempty": "gofer mounts at an empty folder; leave it out",
    "negative-timeout": "rclone has none; the nearest is `dir-cache-time`, how long it keeps the list of "
    "a folder (30s)",
    "use-attr-cache": _ATTRIBUTE_CACHE,
    "attr-cache-timeout": _ATTRIBUTE_CACHE,
    "kernel-cache": _KEPT_READ,
    "auto-cache": _KEPT_READ,
    "max-concurrency": "rclone has none; the nearest are `vfs-read-chunk-streams` and `transfers`",
    "vfs-write-back": "gofer has every file sent a second after it is closed; leave it out",
    "tmp-path": _OWN_FOLDER,
    "cache-dir": _OWN_FOLDER,
    "config-file": _OF_STORE,
    "container-name": _OF_STORE,
    "use-https": _OF_STORE,
}


class RefusedOption(NamedTuple):
    """An option that rclone is not given. `why` names the nearest equivalent, where there is one."""

    name: str
    word: str
    why: str

    def __str__(self) -> str:
        return f"`{self.word}`: {self.why}"


class MountOptions(NamedTuple):
    """The options as flags of `rclone mount` without their dashes, and those that are refused."""

    flags: tuple[str, ...]
    refused: tuple[RefusedOption, ...]


def parse_mount_options(words: Sequence[str]) -> MountOptions:
    """The flags in the order of their first option. Of two times for one flag the shorter counts, else the
    last value.
    """
    flags: dict[str, str] = {}
    refused = []
    for word in _options(words):
        name, _, value = word.partition("=")
        name = name.replace("_", "-")
        flag = _SAME.get(name, name)
        given = _value(name, flag, value)
        why = _problem(name, flag, given)
        if why:
            refused.append(RefusedOption(name, word, why))
            continue
        flags[flag] = min(flags.get(flag, given), given, key=_seconds) if flag == _ATTRIBUTES else given
        if name in _OF_FILE_CACHE:
            flags.setdefault(_CACHE_MODE, "full")
    return MountOptions(tuple(f"{flag}={value}" for flag, value in flags.items()), tuple(refused))


def _options(words: Sequence[str]) -> Iterator[str]:
    """The single options, as `name` or `name=value`. One `-o` may have several, with commas between them."""
    for word in re.sub(r"(^|\s)-o[=\s]*", r"\1-o", " ".join(words)).split():
        if word.startswith("-o"):
            yield from (part for part in word[2:].split(",") if part)
        else:
            yield word.lstrip("-")


def _value(name: str, flag: str, value: str) -> str:
    """The value as rclone writes it."""
    form = _KNOWN.get(flag)
    if flag == "log-level":
        return _LEVELS.get(value, value)
    if name == "cache-size-mb" and value.isdigit():
        return f"{value}Mi"
    if form == _TIME and re.fullmatch(r"\d+(\.\d+)?", value):
        return f"{value}s"
    if name == "max-readahead" and value.isdigit():
        return f"{-(-int(value) // 1024)}Ki"
    return "true" if form == _SWITCH and not value else value


def _problem(name: str, flag: str, value: str) -> str | None:
    """Why rclone cannot be given the option; None when it can."""
    if name in _REFUSED:
        return _REFUSED[name]
    if flag in _CHOICES:
        choices = _CHOICES[flag]
        return None if value in choices else f"the value is one of {', '.join(choices)}"
    if flag not in _KNOWN:
        return _unknown(name)
    pattern, words = _FORMS[_KNOWN[flag]]
    return None if re.fullmatch(pattern, value) else f"the value is {words}"


def _unknown(name: str) -> str:
    known = [*_KNOWN, *_CHOICES]
    near = difflib.get_close_matches(name, known, 1)
    words = f"the nearest is `{near[0]}`" if near else "`docs/data.md` lists those it gives"
    return f"gofer gives rclone no such option; {words}"


def _seconds(time: str) -> float:
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"([\d.]+)(ms|s|m|h|d)", time)
    return sum(float(count) * units[unit] for count, unit in parts)
