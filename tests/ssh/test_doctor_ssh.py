"""`gofer doctor ssh`, with OpenSSH's own programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "a home")
    made.environ.pop("SSH_AUTH_SOCK", None)
    return made


def folder(home: Home) -> Path:
    made = Path(home.environ["HOME"]) / ".ssh"
    made.mkdir(mode=0o700, parents=True, exist_ok=True)
    return made


def make_key(home: Home, passphrase: str = "") -> Path:
    key = folder(home) / "id_ed25519"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(key)]
    subprocess.run(make, check=True, timeout=60)
    return key


def checks(home: Home, *words: str, status: int = 0) -> dict[str, dict[str, Any]]:
    found = json.loads(home.gofer("doctor", "ssh", *words, "--json", status=status).out)
    return {one["name"]: one for one in found}


def mend(hint: str) -> str:
    """The first command of a hint."""
    found = re.search("`([^`]+)`", hint)
    assert found is not None, hint
    return found[1]


def test_a_key_that_others_may_read_is_mended_by_the_command_that_is_named(home: Home) -> None:
    make_key(home).chmod(0o644)
    found = checks(home, status=1)
    assert found["ssh key"]["status"] == "fail"
    subprocess.run(mend(found["ssh key"]["hint"]), shell=True, check=True, timeout=60)
    found = checks(home)
    assert {one["status"] for one in found.values()} == {"ok"}
    assert "none is needed" in found["ssh agent"]["detail"]


def test_a_key_with_a_passphrase_needs_an_agent_that_has_it(home: Home) -> None:
    key = make_key(home, "dummy words")
    found = checks(home)["ssh agent"]
    assert (found["status"], "has a passphrase" in found["detail"]) == ("warn", True)
    assert mend(found["hint"]) == 'eval "$(ssh-agent)"'
    with subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(home.root / "agent")], stdout=subprocess.DEVNULL
    ) as agent:
        try:
            home.environ["SSH_AUTH_SOCK"] = str(home.root / "agent")
            while not (home.root / "agent").exists() and agent.poll() is None:
                os.sched_yield()
            assert mend(checks(home)["ssh agent"]["hint"]) == f"ssh-add '{key}'"
            key.unlink()
            add = ["ssh-add", str(make_key(home))]
            subprocess.run(add, check=True, timeout=60, env=home.environ, capture_output=True)
            assert checks(home)["ssh agent"]["detail"] == "has keys"
        finally:
            agent.terminate()


def test_machines_that_ssh_does_not_know_are_named(home: Home) -> None:
    home.configure(
        "targets:\n  lab: {kind: ssh, hosts: [me@box.example, 'odd.example'], store: runs}\n"
        "stores:\n  runs: {url: 'file:///srv/runs'}\n"
    )
    key = make_key(home).with_suffix(".pub").read_text().split()
    known = folder(home) / "known_hosts"
    known.write_text(f"box.example {key[0]} {key[1]}\n")
    # ssh takes the home folder of the user database, so the settings come from a file that is named.
    (folder(home) / "settings").write_text(f'Host *\n  UserKnownHostsFile "{known}"\n')
    program = home.root / "bin" / "ssh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\nexec /usr/bin/ssh -F '{folder(home) / 'settings'}' \"$@\"\n")
    program.chmod(0o755)
    home.environ["PATH"] = f"{program.parent}{os.pathsep}{home.environ['PATH']}"
    found = checks(home)
    assert found["target lab me@box.example"]["status"] == "ok"
    odd = found["target lab odd.example"]
    assert (odd["status"], mend(odd["hint"])) == ("warn", "ssh odd.example true")
    assert "target lab odd.example" in checks(home, "lab")
