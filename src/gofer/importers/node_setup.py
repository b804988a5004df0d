"""The `job.setup` that does what ACT and quickdetection did on a node before the command.

They installed `requirements.txt` and ran a compile script, each if present, and ignored failures. Here a
failure ends the run, and its last line says how to skip the step: code without its packages would fail later
with a less useful message. Where `packages` of the job has installed the list, only the compile script runs.
"""

from __future__ import annotations

from shlex import quote

# What the compile script gets as its one argument; `-ca` of ACT's command line sets it too.
COMPILE_ARGS = "ACT_COMPILE_ARGS"

# The older tools ran both as root. Where this user may write the folder, root is not needed.
_AS_ROOT = """\
run() {
  folder=$1; shift; echo "+ $*"
  if [ -w "$folder" ] || ! sudo -n true 2>/dev/null; then "$@"
  else sudo -n -E env "PATH=$PATH" "$@"; fi
}
"""
_AS_ONESELF = """\
run() { shift; echo "+ $*"; "$@"; }
"""
_SCRIPT = """\
failed() {
  status=$?; echo "$1 failed; \\`gofer submit --setup ''\\` runs without it" >&2; exit "$status"
}
if [ -f requirements.txt ] && [ -z "${GOFER_PACKAGES_FILE:-}" ]; then
  python=<python>
  where='import sysconfig; print(sysconfig.get_path("purelib"))'
  packages=$("$python" -c "$where") || failed "$python"
  run "$packages" "$python" -m pip install --disable-pip-version-check -r requirements.txt \\
    || failed 'installing requirements.txt'
fi
if [ -f <compile> ]; then
  chmod +x <compile>
  run / ./<compile> ${<args>:+"$<args>"} || failed <compile>
fi
"""
_ANY_PYTHON = "$(command -v python || command -v python3)"


def node_setup(compile_script: str, python: str | None = None, *, as_root: bool) -> str:
    """The script; it prints nothing when both files are absent. `python` installs the packages (default:
    the one on the PATH).

    With `as_root` sudo is used where a folder cannot be written and sudo asks for no password.
    """
    script = _SCRIPT.replace("<python>", quote(python) if python else _ANY_PYTHON)
    script = script.replace("<compile>", compile_script).replace("<args>", COMPILE_ARGS)
    return (_AS_ROOT if as_root else _AS_ONESELF) + script
