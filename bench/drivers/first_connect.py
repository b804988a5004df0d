"""`first_connect.py REPORT WORD…`: `gofer WORD…` here, and what it cost before its first connection.

An audit hook of the interpreter hears of every connection before it is made, and writes the CPU time of this
process and of its children until then to the file REPORT. The hook is called for some thousand other events
too, so the figure is a little too high, never too low.
"""

from __future__ import annotations

import resource
import runpy
import socket
import sys
from typing import Any


def main(report: str, words: list[str]) -> None:
    is_reported = False

    def on_audit_event(event: str, details: tuple[Any, ...]) -> None:
        nonlocal is_reported
        if event != "socket.connect" or is_reported or details[0].family == socket.AF_UNIX:
            return
        is_reported = True
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        with open(report, "w", encoding="ascii") as file:
            file.write(str(sum(one.ru_utime + one.ru_stime for one in used)))

    sys.addaudithook(on_audit_event)
    sys.argv = ["gofer", *words]
    runpy.run_module("gofer", run_name="__main__", alter_sys=True)


main(sys.argv[1], sys.argv[2:])
