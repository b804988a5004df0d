"""Find the Python of the node with which environments are built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Dict, List, Mapping, NamedTuple, Optional

from gofer.core.command.programs import locate
from gofer.node.cancellable_task import WorkFailed

_OLDEST = (3, 8)
_PROBE_S = 60.0
_PROBE = """\
import json, os, platform, sys, sysconfig
paths = [path for path in {sysconfig.get_path("purelib"), *sys.path} if path and os.path.isdir(path)]
names = {name for path in paths for name in os.listdir(path) if name.endswith((".dist-info", ".egg-info"))}
own = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps({
    "path": os.path.realpath(own), "version": list(sys.version_info[:3]),
    "platform": sysconfig.get_platform() + " " + "".join(platform.libc_ver()), "installed": sorted(names)}))
"""


class Interpreter(NamedTuple):
    """One Python. `path` is its real path; `installed` are the packages that it has in addition to the
    standard library.

    It is never the Python of a virtual environment, but the Python from which that was made.
    """

    path: str
    version: List[int]
    platform: str
    installed: List[str]

    @property
    def number(self) -> str:
        return ".".join(str(one) for one in self.version)


def find_interpreter(environment: Mapping[str, str]) -> Interpreter:
    """The first Python 3.8 or newer of: `python` in the run's PATH, `python3` in it, the agent's own.

    WorkFailed when there is none. Runs each candidate for about 50 ms. Blocks.
    """
    search = environment.get("PATH", os.defpath)
    for name in ("python", "python3", sys.executable):
        path = locate(name, search) if name else None
        found = _ask(path, environment) if path else None
        if found is not None and found.path != os.path.realpath(path or ""):
            found = _ask(found.path, environment)
        if found is not None and tuple(found.version) >= _OLDEST:
            return found
    raise WorkFailed("the node has no Python 3.8 or newer in its PATH to build the packages with")


def _ask(path: str, environment: Mapping[str, str]) -> Optional[Interpreter]:
    try:
        # Python has `-I` since 3.4; an older one fails here.
        answer = subprocess.run(
            [path, "-I", "-c", _PROBE],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_S,
            check=True,
        ).stdout
        facts: Dict[str, object] = json.loads(answer)
        return Interpreter(**facts)  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return None
