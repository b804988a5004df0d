"""Run pip, uv or conda to build one environment.

Their output goes directly to the set-up log; the part of it that says why a build failed goes into the
outcome.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from gofer.core import files, prune
from gofer.core.command.programs import locate
from gofer.node.cancellable_task import WorkFailed
from gofer.node.packages.cache import ENVIRONMENT, CachedEnvironment
from gofer.node.packages.package_files import CONDA, LOCK, UV
from gofer.node.packages.recipe import Recipe

_CONDA_PROGRAMS = ("mamba", "conda", "micromamba")
# Variables that would make a tool use another environment than the one to build.
_MISLEADING = (
    *(
        "VIRTUAL_ENV",
        "PYTHONHOME",
        "PYTHONPATH",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_USER",
        "PIP_REQUIRE_VIRTUALENV",
    ),
    *("UV_PROJECT_ENVIRONMENT", "UV_NO_SYNC", "UV_SYSTEM_PYTHON", "UV_PROJECT", "PIP_PYTHON"),
)
_FULL = ("No space left on device", "Disk quota exceeded", "os error 28", "os error 122")
_TAIL_LINES = 40
# pip and uv begin the line with `error`, conda with the name of an exception.
_ERROR = re.compile(r"(?i:error|fatal)\b|[A-Za-z]*(Error|NotFound|Exception)\w*: ")
# Lines after an error that belong to it: the cause that uv names, the packages that conda lists.
_BELONGING = re.compile(r"(?i:cause): |- ")
_UNREACHED = re.compile(
    r"(?i)name resolution|name or service not known|failed to resolve|dns error|network is unreachable"
    r"|failed to establish a new connection|connection refused|connect timeout|CONNECTION FAILED for url"
    r"|error sending request for url|failed to connect"
)
_ENSUREPIP = "No module named ensurepip"
_ADVICE = "the node cannot reach the package index: `--wheels FOLDER` builds without one"
_LONGEST = 400


class Workshop(NamedTuple):
    """Where one environment is built: its folder, the cache, the log, the variables of the run, and the build
    lock, which every tool inherits and so holds as long as it lives.
    """

    place: str
    cache: str
    log: str
    environment: Mapping[str, str]
    lock: int

    @property
    def env(self) -> str:
        return os.path.join(self.place, ENVIRONMENT)


def build(recipe: Recipe, shop: Workshop, *, own_python: bool) -> None:
    """Install the packages of the recipe into `shop.env`. Blocks. WorkFailed, with the tool's error, when a
    tool fails.

    With `own_python`, a Python that uv downloads is stored beside the environment.
    """
    work = _Work(recipe, shop, own_python=own_python)
    if recipe.file.tool == CONDA:
        work.conda()
    elif os.path.basename(recipe.file.path) == LOCK:
        work.uv_lock()
    elif recipe.file.tool == UV:
        work.uv_list()
    else:
        work.pip_list()
    work.start_once()


class _Work:
    def __init__(self, recipe: Recipe, shop: Workshop, *, own_python: bool) -> None:
        self._recipe = recipe
        self._shop = shop
        self._variables = _variables(recipe, shop, own_python=own_python)

    def pip_list(self) -> None:
        uv = self._find_uv()
        if not self._make_venv(self._shop.env, check=uv is None) and uv is not None:
            prune.delete(self._shop.env)
            self._uv_install(uv, ["--system-site-packages"])
            return
        _see_system_packages(self._shop.env)
        options = self._requirement_options()
        if options:
            self._run([os.path.join(self._shop.env, "bin", "python"), "-m", "pip", "install", *options])

    def start_once(self) -> None:
        """Start Python once before the environment is marked as complete. The node may have start-up hooks
        that change packages, for example to add certificates, and a change after the mark would cause a new
        build.
        """
        python = os.path.join(self._shop.env, "bin", "python")
        if os.access(python, os.X_OK):
            self._run([python, "-c", "pass"], check=False)

    def _make_venv(self, env: str, *, check: bool = True) -> bool:
        """Make an environment with pip. If the node's Python cannot do this: False, or WorkFailed with
        `check`.

        This takes two steps, since `venv` alone does not show why it cannot install pip.
        """
        python = self._recipe.interpreter.path
        steps = [
            [python, "-I", "-m", "venv", "--without-pip", env],
            [os.path.join(env, "bin", "python"), "-I", "-m", "ensurepip", "--upgrade", "--default-pip"],
        ]
        for argv in steps:
            if self._run(argv, check=False):
                if check:
                    raise WorkFailed(f"{python} cannot make an environment with pip: {self._last_words()}")
                return False
        return True

    def uv_list(self) -> None:
        self._uv_install(self._uv(), [])

    def _uv_install(self, uv: str, options: List[str]) -> None:
        python = self._recipe.interpreter.path
        self._run([uv, "venv", "--no-project", *options, "--python", python, self._shop.env])
        options = self._requirement_options()
        if options:
            target = ["--python", os.path.join(self._shop.env, "bin", "python"), "--compile-bytecode"]
            self._run([uv, "pip", "install", "--link-mode", "copy", *target, *options])

    def _requirement_options(self) -> List[str]:
        """Options for pip or uv with the list as files; empty for an empty list."""
        required, options = self._recipe.required, []
        for option, name, lines in (
            ("-r", "list", required.lines),
            ("-c", "constraints", required.constraints),
        ):
            if lines:
                path = os.path.join(self._shop.place, f"{name}.txt")
                files.write_whole(path, "".join(f"{one}\n" for one in lines).encode("utf-8"))
                options += [option, path]
        return options if required.lines else []

    def uv_lock(self) -> None:
        uv, recipe = self._uv(), self._recipe
        left_out = [word for one in recipe.locked_projects for word in ("--no-install-package", one)]
        if recipe.wheels is None:
            options = ["--frozen", "--no-install-project", *left_out, "--link-mode", "copy"]
            self._run([uv, "sync", *options, "--compile-bytecode"], cwd=recipe.folder)
            return
        # A lock contains the addresses of its wheels. Exported as a list, the same versions are found in the
        # folder.
        path = os.path.join(self._shop.place, "list.txt")
        left_out = [word for one in recipe.locked_projects for word in ("--no-emit-package", one)]
        options = ["--frozen", "--no-emit-project", *left_out, "--output-file", path, "--quiet"]
        self._run([uv, "export", *options], cwd=recipe.folder)
        self._run([uv, "venv", "--no-project", "--python", recipe.interpreter.path, self._shop.env])
        target = ["--python", os.path.join(self._shop.env, "bin", "python"), "--compile-bytecode"]
        self._run([uv, "pip", "install", "--link-mode", "copy", *target, "-r", path])

    def conda(self) -> None:
        search = self._shop.environment.get("PATH", os.defpath)
        named = (self._shop.environment.get(name) for name in ("MAMBA_EXE", "CONDA_EXE"))
        found = [one for one in (*(locate(name, search) for name in _CONDA_PROGRAMS), *named) if one]
        program = next((one for one in found if os.access(one, os.X_OK)), None)
        if program is None:
            raise WorkFailed(
                "there is no conda, mamba or micromamba in the PATH of the node; install one there, "
                "or list the packages in a requirements.txt"
            )
        path = os.path.join(self._recipe.folder, os.path.basename(self._recipe.file.path))
        is_micro = os.path.basename(program).startswith("micromamba")
        words = ["create", "--yes"] if is_micro else ["env", "create", "--quiet"]
        offline = ["--offline"] if self._recipe.wheels is not None else []
        self._run([program, *words, *offline, "-p", self._shop.env, "-f", path], cwd=self._recipe.folder)

    # -- uv itself

    def _uv(self) -> str:
        found = self._find_uv()
        return found if found is not None else self._install_uv()

    def _find_uv(self) -> Optional[str]:
        home = self._shop.environment.get("HOME", "")
        search = [self._shop.environment.get("PATH", os.defpath)]
        search += [os.path.join(home, *parts, "bin") for parts in ((".local",), (".cargo",)) if home]
        return locate("uv", os.pathsep.join(search))

    def _install_uv(self) -> str:
        """Install uv, once for all environments of the node; the path of the program."""
        tools = CachedEnvironment(os.path.join(self._shop.cache, "tools"), "uv")
        lock = tools.lock(wait=True)
        assert lock is not None  # `wait` never returns None
        try:
            env = os.path.join(tools.path, ENVIRONMENT)
            mark = os.path.join(tools.path, "ready")
            program = os.path.join(env, "bin", "uv")
            if not (os.path.exists(mark) and os.access(program, os.X_OK)):
                prune.delete(env)
                self._make_venv(env)
                self._run([os.path.join(env, "bin", "python"), "-m", "pip", "install", "uv"])
                files.write_whole(mark, b"")
            return program
        finally:
            os.close(lock)

    # -- running

    def _run(self, argv: Sequence[str], *, cwd: Optional[str] = None, check: bool = True) -> int:
        """Run a tool; its exit status. With `check`, WorkFailed with the tool's error unless the status is
        0.
        """
        shown = " ".join(os.path.basename(word) if n == 0 else word for n, word in enumerate(argv))
        files.append(self._shop.log, f"+ {shown}\n".encode("utf-8", "surrogateescape"))
        fd = os.open(self._shop.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            status = subprocess.run(
                list(argv),
                cwd=cwd or self._shop.place,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                pass_fds=[self._shop.lock],
                check=False,
            ).returncode
        except OSError as error:
            raise WorkFailed(f"cannot run `{argv[0]}`: {error.strerror}") from error
        finally:
            os.close(fd)
        if status and check:
            raise WorkFailed(f"{os.path.basename(argv[0])} failed: {self._last_words()}")
        return status

    def _last_words(self) -> str:
        """The tool's error. If the disk is full, which disk and how much is free."""
        lines = files.tail_lines(self._shop.log, _TAIL_LINES)
        if any(mark in line for line in lines for mark in _FULL):
            return full_disk(self._shop.place)
        return main_error(lines)


def _see_system_packages(env: str) -> None:
    """Make the packages of the node's Python visible in the environment. This is done after its creation: an
    environment that sees another pip would get no pip of its own.
    """
    path = os.path.join(env, "pyvenv.cfg")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    changed = text.replace("include-system-site-packages = false", "include-system-site-packages = true")
    files.write_whole(path, changed.encode("utf-8"))


def full_disk(path: str) -> str:
    """A sentence about a full disk."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    status = os.statvfs(path)
    free_mib = status.f_bavail * status.f_frsize / 2**20
    return f"the disk of {path} is full ({free_mib:.1f} MiB free); `gofer prune` removes what no run needs"


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _variables(recipe: Recipe, shop: Workshop, *, own_python: bool) -> Dict[str, str]:
    """The environment of the tools: the run's variables, without those that would mislead the tools."""
    found = {name: value for name, value in shop.environment.items() if name not in _MISLEADING}
    found.update(
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_NO_INPUT="1",
        PYTHONNOUSERSITE="1",
        PYTHONUNBUFFERED="1",
        # conda links files to its cache. gofer makes environments read-only, which would change the cache and
        # other environments too.
        CONDA_ALWAYS_COPY="true",
        MAMBA_ALWAYS_COPY="true",
        UV_NO_PROGRESS="1",
        UV_PROJECT_ENVIRONMENT=shop.env,
        PWD=shop.place,
    )
    found.setdefault(
        "UV_PYTHON_INSTALL_DIR", os.path.join(shop.place if own_python else shop.cache, "python")
    )
    if recipe.wheels is not None:
        for tool in ("PIP", "UV"):
            found[f"{tool}_NO_INDEX"] = "1"
            found[f"{tool}_FIND_LINKS"] = recipe.wheels
        found["UV_OFFLINE"] = "1"
    return found


def main_error(lines: Sequence[str]) -> str:
    """The last error with the lines that belong to it, as one line. If the tool printed no error, its last
    line.

    If the tool could not reach a package index, advice about that follows the error instead.
    """
    output = [line.strip() for line in lines]
    if any(line.endswith(_ENSUREPIP) for line in output):
        return "it has no ensurepip; install python3-venv, or uv, on the node"
    start = next((n for n in reversed(range(len(output))) if _ERROR.match(output[n])), None)
    if start is None:
        return ([line for line in output if line] or ["it printed nothing"])[-1]
    if any(_UNREACHED.search(line) for line in output):
        return f"{output[start]}; {_ADVICE}"
    return " ".join([output[start], *_belonging(output[start + 1 :])])[:_LONGEST]


def _belonging(lines: Sequence[str]) -> List[str]:
    found: List[str] = []
    for line in filter(None, lines):
        if not _BELONGING.match(line):
            break
        found.append(line)
    return found
