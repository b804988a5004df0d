"""Pure tests: a test of this folder that starts a process or opens a connection fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

_FORBIDDEN = frozenset(
    {
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "socket.bind",
        "socket.connect",
    }
)
_seen: list[str] = []


def _notice(event: str, arguments: tuple[object, ...]) -> None:
    if event in _FORBIDDEN:
        _seen.append(event)


# An audit hook cannot be removed; what it notices beside the tests of this folder is dropped.
sys.addaudithook(_notice)


@pytest.fixture(autouse=True)
def _is_pure() -> Iterator[None]:
    _seen.clear()
    yield
    assert not _seen, (
        f"a test in tests/unit used {', '.join(sorted(set(_seen)))}: move the test out of tests/unit"
    )
