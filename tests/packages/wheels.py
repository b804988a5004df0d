"""Small wheels and a stand-in for conda, so that packages are built without a network."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# Takes words that conda 26.7 takes, and no others: `env create [--quiet] [--offline] -p PREFIX -f FILE`. As
# conda does, it refuses a file that is not there or has another name, names an error by its exception, and
# links files to a cache of its own unless CONDA_ALWAYS_COPY says otherwise. It installs no packages.
_CONDA = """\
#!/bin/sh
echo "conda $*"
test "$1 $2" = "env create" || { echo "conda: error: unrecognized arguments: $1 $2"; exit 2; }
shift 2
while [ $# -gt 0 ]; do case "$1" in
  -p) prefix=$2; shift 2;;
  -f) file=$2; shift 2;;
  --quiet|--offline) shift;;
  *) echo "conda: error: unrecognized arguments: $1"; exit 2;;
esac; done
case "$file" in */environment.yml|*/environment.yaml) ;; *) file=$file.unknown;; esac
test -f "$file" || { echo "EnvironmentFileNotFound: '$file' file not found"; exit 1; }
if grep -q nosuchpackage "$file"; then
  printf 'PackagesNotFoundInChannelsError: The following packages are missing:\n\n  - nosuchpackage\n\n'
  printf 'Current channels:\n\n  - file:///channel\n\n'; exit 1
fi
mkdir -p "$prefix/half" "$prefix/share"
test -e CACHED || echo cached > CACHED
if [ "$CONDA_ALWAYS_COPY" = true ]; then put=cp; else put=ln; fi
$put CACHED "$prefix/share/data"
if [ -e GATE.wait ]; then touch GATE.reached; while [ ! -e GATE ]; do sleep 0.05; done; fi
PYTHON -m venv --without-pip "$prefix"
rm -r "$prefix/half"
"""


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] = {},
    files: Mapping[str, str] = {},
) -> Path:
    """A wheel with one module, whose `VERSION` is its version, programs for `bin`, and files."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {one}" for one in requires]
    contents = {
        **files,
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **{f"{name}-{version}.data/scripts/{one}": text for one, text in scripts.items()},
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for one, text in contents.items():
            info_of_file = zipfile.ZipInfo(one)
            info_of_file.external_attr = (0o100755 if "/scripts/" in one else 0o100644) << 16
            archive.writestr(info_of_file, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class CondaStandIn:
    """A program `conda` in a folder of its own. With `hold`, it stops in the middle until `let_go`."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "conda-bin"
        self.bin.mkdir(parents=True)
        self._gate = folder / "gate"
        self.cached = folder / "conda-cached"
        program = self.bin / "conda"
        names = {"GATE": self._gate, "PYTHON": sys.executable, "CACHED": self.cached}
        text = _CONDA
        for name, value in names.items():
            text = text.replace(name, str(value))
        program.write_text(text)
        program.chmod(0o755)

    @property
    def path(self) -> str:
        """A PATH with it in front."""
        return os.pathsep.join([str(self.bin), os.environ["PATH"]])

    def hold(self) -> None:
        for ending in ("", ".reached"):
            Path(f"{self._gate}{ending}").unlink(missing_ok=True)
        Path(f"{self._gate}.wait").touch()

    def is_held(self) -> bool:
        return Path(f"{self._gate}.reached").exists()

    def let_go(self) -> None:
        self._gate.touch()
        Path(f"{self._gate}.wait").unlink()
