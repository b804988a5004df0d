"""Trees that are removed in steps."""

from __future__ import annotations

from pathlib import Path

from gofer.core.code import trees


def test_a_large_tree_is_removed_in_steps_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    top = tmp_path / "top"
    for folder in range(3):
        deep = top / str(folder) / "deep"
        deep.mkdir(parents=True)
        (deep / "link").symlink_to(outside)
        for number in range(300):
            (deep / str(number)).touch()
        deep.chmod(0o500)
    steps = trees.remove_in_steps(str(top))
    next(steps)
    left = sum(path.is_file() for path in top.rglob("*"))
    assert 0 < left < 900
    assert sum(1 for _ in steps) >= 2
    assert not top.exists()
    assert (outside / "kept").read_text() == "x"


def test_what_is_absent_a_file_or_a_link_is_removed_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("absent", "file", "link"):
        assert list(trees.remove_in_steps(str(tmp_path / name))) == []
    assert list(tmp_path.iterdir()) == []
