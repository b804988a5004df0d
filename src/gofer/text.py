"""Words and numbers as people write them: quoting, sizes, durations, times, safe names.

Pure functions; this module knows nothing of runs, files or clusters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gofer.errors import UsageError

# A name in braces, such as the placeholder `{lr}`, is not expanded by a shell.
_SAFE_WORD = re.compile(r"(?:[A-Za-z0-9_@%+=:,./-]|\{[A-Za-z_][A-Za-z0-9_]*\})+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s|w|ms)", re.IGNORECASE)
_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
# Times and durations beyond this, and what is no number, come only from a damaged or forged record.
_MOST_SECONDS = 1e11
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def quote_word(word: str) -> str:
    """One shell word that a POSIX shell reads back as exactly `word`."""
    if _SAFE_WORD.fullmatch(word):
        return word
    if "'" in word and not any(sign in word for sign in '"$`\\!'):
        return f'"{word}"'
    return "'" + word.replace("'", "'\"'\"'") + "'"


def quote_command(argv: Sequence[str]) -> str:
    """The argv as one line that can be pasted into a shell."""
    return " ".join(quote_word(word) for word in argv)


def printable(text: str) -> str:
    """`text` with everything that could move the cursor or hide itself written as an escape.

    Format and bidirectional marks count as hiding; bytes that are no UTF-8 are shown as `\\udcXX`.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def parse_duration_s(text: str) -> float:
    """Seconds from `90`, `90s`, `1h30m`, `2d`, `01:30:00` or `1-12:00:00`; UsageError otherwise."""
    found = _parse_duration_s(text)
    if found >= _MOST_SECONDS:
        raise UsageError(f"`{text[:40]}` is too long a duration", hint="write at most 3,000 years")
    return found


def _parse_duration_s(text: str) -> float:
    value = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    clock = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)", value)
    if clock:
        # `int` refuses a number of several thousand digits; `float` takes it as infinite
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    parts = _DURATION_PART.findall(value)
    if parts and not _DURATION_PART.sub("", value).strip():
        return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)
    raise UsageError(
        f"`{text}` is not a duration", hint="write it like `90s`, `30m`, `1h30m`, `2d` or `01:30:00`"
    )


def format_duration(seconds: float | None, *, tenths: bool = True) -> str:
    """`0.4s`, `12s`, `3m12s`, `5h03m`, `2d04h`; `-` when unknown or not a possible duration.

    Without `tenths`, `0.4s` is `0s`.
    """
    if seconds is None or not abs(seconds) < _MOST_SECONDS:
        return "-"
    if seconds < 10 and tenths:
        return f"{max(seconds, 0.0):.1f}s"
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def format_ago(seconds: float) -> str:
    """`just now`, `42 s ago`, `2 min ago`, `3 h ago`, `1 day ago`."""
    if not abs(seconds) < _MOST_SECONDS:
        return "-"
    if seconds < 5:
        return "just now"
    for unit_s, name in ((60.0, "s"), (3600.0, "min"), (86400.0, "h")):
        if seconds < unit_s:
            return f"{int(seconds // {'s': 1, 'min': 60, 'h': 3600}[name])} {name} ago"
    days = int(seconds // 86400)
    return "1 day ago" if days == 1 else f"{days} days ago"


def parse_size(text: str) -> int:
    """Bytes from `512`, `10k`, `1.5GiB`, `50 MB` (k = 1000, ki = 1024); UsageError otherwise."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"`{text}` is not a size", hint="write it like `512`, `10k`, `1.5GiB` or `50MB`")
    number, prefix, binary = match.groups()
    unit: int = (1024 if binary else 1000) ** _SIZE_POWER[prefix.lower()]
    return round(float(number) * unit)


def format_size(size: int) -> str:
    """`999 B`, `1.2 KiB`, `3.4 GiB`."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def count_files(files: int) -> str:
    """`1 file`, `12,000 files`."""
    return "1 file" if files == 1 else f"{files:,} files"


def count_runs(runs: int) -> str:
    """`1 run`, `12,000 runs`."""
    return "1 run" if runs == 1 else f"{runs:,} runs"


def count_nodes(nodes: int) -> str:
    """`1 node`, `12 nodes`."""
    return "1 node" if nodes == 1 else f"{nodes:,} nodes"


def format_moment(seconds: float) -> str:
    """`2026-03-01 14:05:09 UTC`."""
    return (format_time(seconds) or "").partition(".")[0].replace("T", " ") + " UTC"


def format_time(seconds: float | None) -> str | None:
    """RFC 3339 in UTC with microseconds, as every time in gofer's JSON; None for an impossible time."""
    if seconds is None or not abs(seconds) < _MOST_SECONDS:
        return None
    # Five times as fast as strftime, which long listings notice.
    from datetime import UTC, datetime  # not loaded by commands that show no moment

    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def format_local_time(seconds: float | None) -> str:
    """The time as a person at this machine reads it: `2026-03-01 14:05:09`."""
    if seconds is None or not abs(seconds) < _MOST_SECONDS:
        return "-"
    from datetime import datetime

    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def parse_time(text: str) -> float:
    """Seconds since the epoch from RFC 3339 or `YYYY-MM-DD[ HH:MM[:SS]]` (local time without a zone)."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"`{text}` is not a time", hint="write it like `2026-03-01` or `2026-03-01 14:05`"
        ) from None


def slug(text: str, *, most: int = 40) -> str:
    """A name safe in a path, a DNS label and a job name: lower case, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most].rstrip("-")


def closest(word: str, known: Iterable[str]) -> str | None:
    """The nearest known word; None when nothing is near."""
    import difflib  # slow to load and only needed on the way to an error

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the nearest known word, or None when nothing is near."""
    near = closest(word, known)
    return None if near is None else f"did you mean `{near}`?"
