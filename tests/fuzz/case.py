"""One input of the fuzzer."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A command line and what it finds: files of the project folder, objects of the store, variables, files
    of gofer's home. Files of the project below `bin/` are programs.

    `ledger` are SQL statements for the ledger with their values. `damage` names files of the home of which
    some bytes are changed, each with a number that says how. `{PROJECT}` in a variable is the project folder.
    `answers` are given in turn by a server on loopback, whose port is `{PORT}` in the files of the project;
    or the server is an S3 with the objects of `bucket`. `before` is a command line that runs first, and whose
    answer counts when it is odd.
    """

    argv: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    store: dict[str, bytes] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    home: dict[str, bytes] = field(default_factory=dict)
    ledger: tuple[tuple[str, tuple[object, ...]], ...] = ()
    damage: dict[str, int] = field(default_factory=dict)
    answers: tuple[bytes, ...] = ()
    bucket: dict[str, bytes] = field(default_factory=dict)
    before: tuple[str, ...] = ()
