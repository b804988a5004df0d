"""What the figures were taken on and with: the heading of the results."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess


def facts() -> list[tuple[str, str]]:
    """Label and value, in the order they are printed."""
    one, five, fifteen = os.getloadavg()
    return [
        ("date", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("processor", f"{processor()}, {len(os.sched_getaffinity(0))} cores"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("system", distribution()),
        ("python", platform.python_version()),
        ("load before", f"{one:.2f} {five:.2f} {fifteen:.2f} (1, 5, 15 minutes)"),
    ]


def processor() -> str:
    """The first processor's name as the kernel gives it, else the architecture."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def distribution() -> str:
    """The PRETTY_NAME of /etc/os-release, or `unknown`."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def tool_versions() -> dict[str, str]:
    """git and zip as they are on this machine; one that is not installed is absent."""
    found = {}
    if shutil.which("git"):
        found["git"] = _output("git", "--version").split()[-1]
    if shutil.which("zip"):
        found["zip"] = next(
            (line.split()[3] for line in _output("zip", "-v").splitlines() if line.startswith("This is Zip")),
            "?",
        )
    return found


def _output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True).stdout
