"""A small project beside a test cluster, for a person who tries gofer on it: `exports.sh`, a gofer.yaml, a
script, and the lines to type.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = """\
import os
import socket

rank, ranks = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
print(f"rank {rank} of {ranks} on {socket.gethostname()}, GPUs: {gpus}")
"""


def exports_text(variables: Mapping[str, str], path: Path | None = None) -> str:
    """Lines for a shell: the variables, and a folder in front of the search path."""
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    if path:
        lines.append(f"export PATH={shlex.quote(str(path))}:$PATH\n")
    return "".join(lines)


def write_project(folder: Path, exports: str, settings: str) -> Path:
    """Write the files into the folder of the cluster; the folder of the project."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    (folder / "exports.sh").write_text(exports + exports_text({}, Path(sys.executable).parent))
    (project / "gofer.yaml").write_text(settings)
    (project / "train.py").write_text(_SCRIPT)
    return project


def lines_to_type(folder: Path, remark: str, *commands: str) -> str:
    """What a person types: the variables, the project, and commands of gofer."""
    shown = _short(folder)
    first = [f". {shlex.quote(f'{shown}/exports.sh')}", f"cd {shlex.quote(f'{shown}/project')}  # {remark}"]
    return "".join(f"{line}\n" for line in (*first, *commands))


def _short(folder: Path) -> Path:
    """The folder as seen from the present one, where it lies in it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
