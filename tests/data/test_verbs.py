"""The data commands over a store that is a folder: what they do, say and refuse."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from data.project import Project, same


def test_up_away_and_down_again(project: Project) -> None:
    project.fill("data/voc20")
    done = project.gofer("u", "data/voc20")
    assert "33 files" in done.err
    assert done.out == ""
    before = project.away("data/voc20")
    project.gofer("d", "data/voc20")
    # A store that is a folder keeps bytes and names, and nothing beside them.
    same(before, project.data / "voc20", programs=False)


def test_existing_files_are_skipped_and_counted(project: Project) -> None:
    project.write("data/a", "1")
    project.gofer("u", "data/a")
    assert "nothing to do: 1 file is there already" in project.gofer("u", "data/a").err
    (project.data / "a").write_text("2")
    assert "1 file, 1 B" in project.gofer("u", "data/a").err
    assert project.gofer("cat", "data/a").out == "2"


def test_files_and_folders_are_distinguished(project: Project) -> None:
    project.write("data/x/one", "1")
    project.write("data/two", "2")
    project.gofer("u", "data/x", "data/two")
    assert project.objects == ["me/data/two", "me/data/x/one"]
    project.away("data")
    project.gofer("d", "data/two", "data/x")
    assert (project.data / "x/one").read_text() + (project.data / "two").read_text() == "12"


def test_ls_without_a_path_lists_the_mapped_folders(project: Project, tmp_path: Path) -> None:
    assert [line.split()[-1] for line in project.gofer("ls").out.splitlines()] == ["data/", "output/"]
    found = json.loads(project.gofer("ls", "--json").out)
    assert found[0] == {"path": "data/", "size": None, "modified": None}
    bare = tmp_path / "bare project"
    bare.mkdir()
    done = project.gofer("ls", cwd=bare)
    assert (done.out, "`folders:` in gofer.yaml maps one" in done.err) == ("", True)


def test_patterns_that_the_shell_left_alone(project: Project) -> None:
    for name in ("a.txt", "b.txt", "c.jpg", "deep/d.txt"):
        project.write(f"data/{name}", name)
    project.gofer("u", "data/*.txt")
    assert project.objects == ["me/data/a.txt", "me/data/b.txt"]
    project.gofer("u", "data/*")
    assert len(project.objects) == 4
    assert project.paths("data/?.jpg") == ["data/c.jpg"]
    project.away("data")
    project.gofer("d", "data/[ab].txt", "data/*/d.txt")
    assert sorted(os.listdir(project.data)) == ["a.txt", "b.txt", "deep"]


def test_a_name_with_a_star_in_it_is_that_name(project: Project) -> None:
    project.write("data/a*", "star")
    project.write("data/ab", "no")
    project.gofer("u", "data/a*")
    assert project.objects == ["me/data/a*"]
    assert project.gofer("cat", "data/a*").out == "star"


def test_include_and_exclude(project: Project) -> None:
    for name in ("a.txt", "b.jpg", "tmp/c.txt", "deep/d.txt"):
        project.write(f"data/x/{name}", name)
    project.gofer("u", "data/x", "--include", "*.txt", "--exclude", "tmp/")
    assert project.objects == ["me/data/x/a.txt", "me/data/x/deep/d.txt"]


def test_dry_run_names_every_file_and_moves_none(project: Project) -> None:
    project.write("data/x/a", b"12345")
    done = project.gofer("u", "--dry-run", "data/x")
    assert done.out.split() == ["send", "5", "B", "data/x/a"]
    assert "would send 1 file, 5 B" in done.err
    assert project.objects == []
    work = json.loads(project.gofer("u", "--dry-run", "--json", "data/x").out)
    assert (work["dry_run"], work["files"], work["bytes"]) == (True, 1, 5)


def test_the_summary_as_json(project: Project) -> None:
    project.fill("data/x")
    summary = json.loads(project.gofer("u", "--json", "-Q", "data/x").out)
    size = sum(path.stat().st_size for path in (project.data / "x").rglob("*") if path.is_file())
    assert summary | {"elapsed_s": 0} == {
        "files": 33,
        "bytes": size,
        "skipped": 0,
        "deleted": 0,
        "kept": 0,
        "failed": [],
        "changed": [],
        "not_sent": [],
        "elapsed_s": 0,
    }
    assert summary["elapsed_s"] > 0


def test_what_cannot_be_sent_is_named_and_the_exit_status_says_so(project: Project) -> None:
    project.write("data/x/good", "1")
    os.mkfifo(project.data / "x/pipe")
    (project.data / "x/dangling").symlink_to("nowhere")
    (project.data / "x/loop").symlink_to(project.data / "x")
    done = project.gofer("u", "--json", "data/x", status=1)
    named = {one["path"]: one["why"] for one in json.loads(done.out)["not_sent"]}
    assert named.keys() == {"data/x/pipe", "data/x/dangling", "data/x/loop"}
    assert "pipe" in named["data/x/pipe"]
    assert "not sent: data/x/pipe: " in done.err
    assert project.objects == ["me/data/x/good"]


def test_quiet_says_nothing(project: Project) -> None:
    project.write("data/a", "1")
    for verb in ("u", "d", "ls"):
        assert project.gofer(verb, "-Q", "data/a").err == ""


# -- looking


def test_ls_shows_what_begins_with_the_name(project: Project) -> None:
    for name in ("voc20.tar", "voc20/train.txt", "voc20/img/1.jpg", "voc20b/x", "voc2", "coco"):
        project.write(f"data/{name}", b"123")
    project.gofer("u", "data")
    assert project.paths("data/voc20") == [
        "data/voc20.tar",
        "data/voc20/img/",
        "data/voc20/train.txt",
        "data/voc20b/",
    ]
    assert project.paths("data/voc20/") == ["data/voc20/img/", "data/voc20/train.txt"]
    assert project.paths("-r", "data/voc20") == [
        "data/voc20.tar",
        "data/voc20/img/1.jpg",
        "data/voc20/train.txt",
        "data/voc20b/x",
    ]
    assert project.paths("data/voc20/tr") == ["data/voc20/train.txt"]
    assert project.paths("data") == [
        "data/coco",
        "data/voc2",
        "data/voc20.tar",
        "data/voc20/",
        "data/voc20b/",
    ]
    assert project.paths("data/coco") == ["data/coco"]


def test_ls_lines_have_size_time_and_path_and_the_total_is_talk(project: Project) -> None:
    project.write("data/a", b"x" * 2048)
    project.write("data/d/b", b"x")
    project.gofer("u", "data")
    done = project.gofer("ls", "data")
    first, second = done.out.splitlines()
    assert first.split()[:2] == ["2.0", "KiB"]
    assert first.split()[-1] == "data/a"
    assert (
        abs(time.mktime(time.strptime(" ".join(first.split()[2:4]), "%Y-%m-%d %H:%M:%S")) - time.time()) < 120
    )
    assert second.split() == ["-", "-", "data/d/"]
    assert done.err == "1 file, 2.0 KiB, 1 folder\n"


def test_ls_as_json_has_path_size_and_time(project: Project) -> None:
    project.write("data/a", b"123")
    project.gofer("u", "data/a")
    (one,) = project.listed("-r", "data")
    assert one["path"] == "data/a"
    assert one["size"] == 3
    assert one["modified"].endswith("Z")
    assert project.listed("output") == []


def test_ls_of_very_many_files_begins_before_all_are_known(project: Project) -> None:
    """The listing is longer than a pipe holds: at its first line it has not come to the last folder yet."""
    folder = project.store / "me/data/many"
    (folder / "first").mkdir(parents=True)
    (folder / "last").mkdir()
    for number in range(20_000):
        (folder / "first" / f"{number:05d}").touch()
    process = project.start("ls", "-r", "data/many")
    assert process.stdout
    assert process.stdout.readline().endswith(b"data/many/first/00000\n")
    (folder / "last" / "late").touch()
    lines = process.stdout.read().splitlines()
    assert len(lines) == 20_000
    assert lines[-1].endswith(b"data/many/last/late")
    assert process.wait() == 0
    process.stderr.close() if process.stderr else None


def test_du_counts_folders_and_the_whole(project: Project) -> None:
    for name in ("a/1", "a/deep/2", "b/3", "4"):
        project.write(f"data/{name}", b"x" * 10)
    project.gofer("u", "data")
    found = json.loads(project.gofer("du", "--json", "data").out)
    assert [tuple(one.values()) for one in found] == [("data/a/", 2, 20), ("data/b/", 1, 10), ("data", 4, 40)]
    assert project.gofer("du", "data/a").out.splitlines()[-1].split() == ["20", "B", "2", "files", "data/a"]


def test_cat_is_byte_for_byte(project: Project) -> None:
    project.write("data/a", bytes(range(256)))
    project.write("data/b", b"end")
    project.gofer("u", "data/a", "data/b")
    process = project.start("cat", "data/a", "data/b")
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == (bytes(range(256)) + b"end", b"", 0)


def test_url_of_a_file_in_a_folder_is_its_own(project: Project) -> None:
    path = project.write("data/a b", b"1")
    project.gofer("u", str(path))
    assert project.gofer("url", "data/a b").out == (project.store / "me/data/a b").as_uri() + "\n"


# -- removing


def test_rm_needs_yes_without_a_terminal(project: Project) -> None:
    project.write("data/coco/a", b"12")
    project.write("data/coco/b", b"3")
    project.gofer("u", "data/coco")
    done = project.gofer("rm", "data/coco", status=2)
    assert "data/coco: 2 files, 3 B" in done.err
    assert "hint: add `--yes`" in done.err
    assert len(project.objects) == 2
    assert "2 files removed" in project.gofer("rm", "--yes", "data/coco").err
    assert project.objects == []
    assert (project.data / "coco/a").exists()


def test_rm_takes_the_very_name_and_no_longer_one(project: Project) -> None:
    for name in ("coco", "coco2", "cocos/x"):
        project.write(f"data/{name}")
    project.gofer("u", "data")
    project.gofer("rm", "-y", "data/coco")
    assert project.objects == ["me/data/coco2", "me/data/cocos/x"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["data"], "all of a mapped folder"),
        (["s:"], "all of the store"),
        (["s:/"], "all of the store"),
        (["-r", "s:"], "all of the store"),
        (["data/.."], "in no mapped folder"),
        (["data/nothing"], "there is nothing at `data/nothing`"),
    ],
)
def test_rm_refuses(project: Project, words: list[str], says: str) -> None:
    project.write("data/a")
    project.gofer("u", "data/a")
    done = project.gofer("rm", "--yes", *words, status=None)
    assert done.status in (1, 2)
    assert says in done.err
    assert project.objects == ["me/data/a"]


def test_rm_of_a_whole_mapped_folder_with_recursive(project: Project) -> None:
    project.write("data/a")
    project.write("output/b")
    project.gofer("u", "data/a", "output/b")
    project.gofer("rm", "-r", "-y", "data")
    assert project.objects == ["me/output/b"]


def test_rm_dry_run_only_counts(project: Project) -> None:
    project.write("data/a", b"123")
    project.gofer("u", "data/a")
    found = json.loads(project.gofer("rm", "--dry-run", "--json", "data/a").out)
    assert found == {"dry_run": True, "paths": [{"path": "data/a", "files": 1, "bytes": 3}], "removed": 0}
    assert project.objects == ["me/data/a"]


# -- cp and sync


def test_cp_from_here_from_there_and_across(project: Project) -> None:
    project.write("results.csv", "1")
    project.gofer("cp", "./results.csv", "data/out/results.csv")
    project.gofer("cp", "results.csv", "data/out/")
    project.gofer("cp", "data/out/results.csv", "s:elsewhere/r.csv")
    project.gofer("cp", "data/out", "s:folder")
    assert project.objects == ["elsewhere/r.csv", "folder/results.csv", "me/data/out/results.csv"]
    project.gofer("cp", "s:elsewhere/r.csv", "./back.csv")
    project.gofer("cp", "s:elsewhere/r.csv", ".")
    project.gofer("cp", "s:folder", "./copy")
    for name in ("back.csv", "r.csv", "copy/results.csv"):
        assert (project.folder / name).read_text() == "1", name


def test_cp_between_urls(project: Project) -> None:
    project.write("data/a", "1")
    project.gofer("u", "data/a")
    project.gofer("cp", f"{project.store.as_uri()}/me/data/a", (project.root / "b").as_uri())
    assert (project.root / "b").read_text() == "1"


def test_cp_wants_a_store_on_one_side(project: Project) -> None:
    project.write("a")
    done = project.gofer("cp", "./a", "./b", status=2)
    assert "neither `./a` nor `./b` is in a store" in done.err


def test_sync_deletes_only_with_the_option_and_only_inside(project: Project) -> None:
    for name in ("x/keep", "x/old", "y"):
        project.write(f"data/{name}", name)
    project.gofer("u", "data")
    (project.data / "x/old").unlink()
    project.write("data/x/new", "n")
    project.gofer("sync", "./data/x", "data/x")
    assert project.objects == ["me/data/x/keep", "me/data/x/new", "me/data/x/old", "me/data/y"]
    dry = project.gofer("sync", "./data/x", "data/x", "--delete", "--dry-run")
    assert dry.out.split() == ["delete", "5", "B", "data/x/old"]
    done = project.gofer("sync", "./data/x", "data/x", "--delete")
    assert "1 file (5 B) will be deleted there" in done.err
    assert "1 deleted" in done.err
    assert project.objects == ["me/data/x/keep", "me/data/x/new", "me/data/y"]
    project.write("data/x/mine")
    project.gofer("sync", "data/x", "./data/x", "--delete")
    assert sorted(os.listdir(project.data / "x")) == ["keep", "new"]


def test_sync_deletes_nothing_when_something_failed(project: Project) -> None:
    project.write("data/x/old")
    project.gofer("u", "data/x")
    (project.data / "x/old").unlink()
    project.write("data/x/new")
    os.mkfifo(project.data / "x/pipe")
    done = project.gofer("sync", "./data/x", "data/x", "--delete", status=1)
    assert "1 file not deleted" in done.err
    assert project.objects == ["me/data/x/new", "me/data/x/old"]


# -- words


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (["u", "data/absent"], "`data/absent` does not exist", ""),
        (["u", "data/voc"], "`data/voc` does not exist", "did you mean `data/voc20`?"),
        (["d", "data/voc"], "there is nothing at `data/voc`", "did you mean `data/voc20`?"),
        (
            ["d", "dat/voc20"],
            "`dat/voc20` is in no mapped folder of the target `local`",
            "did you mean `data`?",
        ),
        (["ls", "other/x"], "in no mapped folder", "the folders are `data`, `output`"),
        (["ls", "nostore:x"], "in no mapped folder", "`STORE:path`"),
        (["u", "s:me"], "it has no local files to send", "gofer cp ./PATH s:me"),
        (["d", "s:me/data/voc20"], "gofer does not know where to put it", "gofer cp s:me/data/voc20 ./voc20"),
        (["cat", "data/voc20"], "`data/voc20` is a folder", "gofer ls data/voc20"),
        (["cat", "data"], "`data` is a folder", "gofer ls data"),
        (["url", "data/absent"], "there is nothing at `data/absent`", "gofer ls data"),
        (["u", "--pack", "data/voc20/a"], "a single file", "--pack"),
        (["u", "data/voc20", "--jobs", "0"], "0 is not in the range", "gofer u --help"),
        (["ls", "data/voc20", "-c", "lba"], "there is no target `lba`", "`local`"),
        (["sync", "./data/voc20/a", "data/a"], "`./data/voc20/a` is a file", "gofer cp"),
        (["-f", "local", "ls", "data"], "moves no data", ""),
    ],
)
def test_wrong_words_get_a_line_and_a_hint(project: Project, words: list[str], says: str, hint: str) -> None:
    project.write("data/voc20/a")
    project.gofer("u", "data/voc20")
    done = project.gofer(*words, status=None)
    assert done.status in (1, 2)
    assert done.out == ""
    assert says in done.err.splitlines()[0]
    assert hint in done.err


def test_paths_are_read_from_where_one_stands(project: Project) -> None:
    project.write("data/x/a", "1")
    inner = project.data / "x"
    project.gofer("u", "a", cwd=inner)
    assert project.objects == ["me/data/x/a"]
    source = project.folder / "src"
    source.mkdir()
    assert project.gofer("cat", "data/x/a", cwd=source).out == "1"
    assert project.gofer("cat", str(inner / "a"), cwd=source).out == "1"
    (source / "data").mkdir()
    (source / "data/x").write_text("another")
    done = project.gofer("ls", "data/x", cwd=source, status=2)
    assert "is both" in done.err


def test_a_path_that_climbs_out_of_a_mapped_folder_is_not_in_it(project: Project) -> None:
    Path(project.folder / "secret").write_text("x")
    done = project.gofer("u", "data/../secret", status=2)
    assert "in no mapped folder" in done.err
    assert project.objects == []
