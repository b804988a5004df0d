"""Which files of a working copy are kept: not junk, packages, mapped folders or secrets; outputs always."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.core.node_request import decode
from gofer.node.code import working_copy
from gofer.node.kept import records, rules
from gofer.node.kept.rules import Candidate, KeepRules, KeptSelection


def selected(top: Path, request: dict[str, object]) -> KeptSelection:
    """Of all that is in the folder, as if nothing had been there before."""
    now = working_copy.scan(str(top))
    return rules.choose(KeepRules.of(decode({"id": "r", **request})), now, working_copy.compare({}, now))


def write(top: Path, *paths: str) -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(path)


def paths(candidates: list[Candidate]) -> list[str]:
    return sorted(one.path for one in candidates)


def test_junk_packages_mapped_folders_and_secrets_are_not_kept(tmp_path: Path) -> None:
    write(
        tmp_path,
        *("a/__pycache__/x.pyc", "b.pyc", ".git/HEAD", ".venv/bin/python", "env2/pyvenv.cfg", "env2/bin/x"),
        *("node_modules/m/index.js", "data/cache", "model.pt", "a/log.txt", ".env", "keys/server.pem"),
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "logs").symlink_to("/somewhere")
    (tmp_path / "latest").symlink_to("model.pt")
    chosen = selected(tmp_path, {"folders": {"data": {}, "logs": {}}})
    assert paths(chosen.others) == ["a/log.txt", "empty", "latest", "model.pt"]
    assert chosen.outputs == []
    assert sorted(chosen.left) == [(".env", records.SECRET), ("keys/server.pem", records.SECRET)]


def test_the_folder_outputs_and_patterns_are_always_kept(tmp_path: Path) -> None:
    write(tmp_path, "exp/outputs/x/y", "outputs/top", "exp/ck/last.ckpt", "exp/deep/a.bin", "exp/rest")
    request = {"workdir": "exp", "outputs": ["ck/", "*.bin"], "keep_bytes": 0}
    chosen = selected(tmp_path, request)
    assert paths(chosen.outputs) == ["exp/ck/last.ckpt", "exp/deep/a.bin", "exp/outputs/x/y"]
    assert paths(chosen.others) == ["exp/rest", "outputs/top"]


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("outputs/a/b", "outputs/", True),
        ("a/outputs/b", "outputs/", False),
        ("a/outputs/b", "outputs", True),
        ("ck/a.pt", "*.pt", True),
        ("ck/a.pt", "./ck/*.pt", True),
        ("x/ck/a.pt", "ck/*.pt", False),
        ("ck/a.txt", "*.pt", False),
        ("wandb/run/files/x", "wandb", True),
    ],
)
def test_a_pattern_fits_a_file_or_a_folder_above_it(path: str, pattern: str, fits: bool) -> None:
    assert rules.fits(path, pattern) is fits


def test_the_newest_that_fit_are_kept() -> None:
    old, large, new = (
        Candidate(name, size, at, False, False)
        for name, size, at in (("old", 5, 1), ("large", 20, 2), ("new", 6, 3))
    )
    kept, left = rules.newest_first([old, large, new], 12)
    assert (kept, left) == ([new, old], [large])
