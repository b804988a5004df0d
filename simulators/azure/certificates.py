"""A throw-away authority, and a certificate for loopback that it signed, made by the `openssl` program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

_LEFT_S = 24 * 3600
_NAMES = "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:*.blob.core.localhost"


class Certificates(NamedTuple):
    """Files in PEM: the authority to trust, the server's chain, the server's key."""

    authority: Path
    chain: Path
    key: Path


def make_certificates(folder: Path, days: int = 30) -> Certificates:
    """The certificates in the folder. Missing ones and those that end within a day are made.

    RuntimeError without `openssl`.

    A server with the old certificates must be restarted, because the authority changes with them.
    """
    if shutil.which("openssl") is None:
        raise RuntimeError(
            "the simulator needs the `openssl` program for its certificates, and it is not installed"
        )
    made = Certificates(folder / "ca.pem", folder / "chain.pem", folder / "leaf.key")
    if all(path.exists() for path in made) and _lasts(made.authority) and _lasts(made.chain):
        return made
    folder.mkdir(parents=True, exist_ok=True)
    root_key, request, leaf, names = (
        folder / name for name in ("ca.key", "leaf.csr", "leaf.pem", "leaf.ext")
    )
    names.write_text(f"{_NAMES}\nbasicConstraints=CA:FALSE\n")
    fresh = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    root = ["-keyout", str(root_key), "-out", str(made.authority), "-subj", "/CN=gofer simulator authority"]
    _openssl("req", "-x509", *fresh, *root, "-days", str(days), *usage)
    _openssl("req", *fresh, "-keyout", str(made.key), "-out", str(request), "-subj", "/CN=127.0.0.1")
    signer = ["-CA", str(made.authority), "-CAkey", str(root_key), "-CAcreateserial", "-days", str(days)]
    _openssl("x509", "-req", "-in", str(request), *signer, "-out", str(leaf), "-extfile", str(names))
    made.chain.write_bytes(leaf.read_bytes() + made.authority.read_bytes())
    made.key.chmod(0o600)
    root_key.unlink()
    return made


def _lasts(path: Path) -> bool:
    """Whether the first certificate of the file is good for a day more."""
    return _run_openssl("x509", "-checkend", str(_LEFT_S), "-noout", "-in", str(path)).returncode == 0


def _openssl(*words: str) -> None:
    done = _run_openssl(*words)
    if done.returncode:
        raise RuntimeError(f"`openssl {words[0]}` failed: {done.stderr.strip()[-500:]}")


def _run_openssl(*words: str) -> subprocess.CompletedProcess[str]:
    argv = ["openssl", *words]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
