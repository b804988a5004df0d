"""Small projects in the manner of public research code, each with the command its README would print.

Every project is written for these tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True)
class Project:
    """Files by path; a path that ends in `*` is made executable. The command runs in `folder`."""

    files: dict[str, str]
    command: tuple[str, ...]
    folder: str = "."
    git: bool = False
    before: str | None = None
    submit: tuple[str, ...] = ()


def text(value: str) -> str:
    return dedent(value).lstrip("\n")


# Takes the distributed path when RANK is there at all, as many training scripts do; saves beside itself.
_TRAIN = text(
    """
    import json, os, sys
    distributed = int(os.environ.get("RANK", -1)) != -1
    if distributed:
        raise SystemExit("init_process_group: no peers")
    out = "out-char"
    os.makedirs(out, exist_ok=True)
    loss = 4.0
    for step in range(5):
        loss *= 0.9
        print(f"iter {step}: loss {loss:.4f}")
    json.dump({"loss": loss}, open(f"{out}/ckpt.json", "w"))
    print("saving checkpoint to", out)
    """
)
# Half of a dataset is ignored by the repository's own rules.
_DETECT = text(
    """
    import glob, os
    images = sorted(glob.glob("data/images/*.jpg"))
    labels = sorted(glob.glob("data/labels/*.txt"))
    assert len(images) == len(labels) > 0, f"{len(images)} images, {len(labels)} labels"
    os.makedirs("runs/exp", exist_ok=True)
    open("runs/exp/results.csv", "w").write("epoch,map\\n0,0.5\\n")
    print(len(images), "images")
    """
)
# Imports a package of the repository from a script in a folder below its top.
_CHAT = text(
    """
    import os, sys
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    from mini.model import Model
    print(Model().name)
    os.makedirs("../../out", exist_ok=True)
    open("../../out/model.pt", "w").write("weights")
    """
)
# Resumes from its newest checkpoint by time.
_RESUME = text(
    """
    import glob, os
    newest = max(glob.glob("ck/*.txt"), key=os.path.getmtime)
    print("resume from", newest)
    open("ck/new.txt", "w").write("next")
    """
)
_BAR = text(
    """
    import sys, time
    for done in range(11):
        sys.stderr.write(f"\\r{done * 10:3d}%|{'#' * done:<10}|")
    sys.stderr.write("\\n")
    print("done")
    """
)
# A launcher of its own: starts its second process itself, as some trainers do with devices=2.
_LAUNCH = text(
    """
    import os, subprocess, sys
    if "LOCAL_RANK" not in os.environ:
        os.environ["LOCAL_RANK"] = "0"
        other = subprocess.Popen([sys.executable, __file__], env={**os.environ, "LOCAL_RANK": "1"})
        assert other.wait() == 0
    print("member", os.environ["LOCAL_RANK"], flush=True)
    """
)
_TREE = text(
    """
    import os, stat
    os.makedirs("results/empty", exist_ok=True)
    open("results/tool", "w").write("#!/bin/sh\\necho tool\\n")
    os.chmod("results/tool", 0o755)
    os.symlink("tool", "results/latest")
    with open("results/holes.bin", "wb") as file:
        file.truncate(1 << 20)
    open("config.yaml", "a").write("seen: true\\n")
    """
)

PROJECTS: dict[str, Project] = {
    "character model": Project({"train.py": _TRAIN, "config.py": "batch = 4\n"}, ("python", "train.py")),
    "detector with ignored images": Project(
        {
            "train.py": _DETECT,
            ".gitignore": "*.jpg\nruns/\n",
            "data/images/a.jpg": "jpeg",
            "data/labels/a.txt": "0 0 1 1",
        },
        ("python", "train.py"),
        git=True,
        submit=("--include", "*.jpg"),
    ),
    "script below the top of a repository": Project(
        {
            "mini/__init__.py": "",
            "mini/model.py": "class Model:\n    name = 'mini'\n",
            "projects/chat/chat.py": _CHAT,
        },
        ("python", "chat.py"),
        folder="projects/chat",
        git=True,
    ),
    "package in src, by PYTHONPATH": Project(
        {"src/pkg/__init__.py": "V = 1\n", "scripts/run.py": "import pkg; print('V', pkg.V)\n"},
        ("env", "PYTHONPATH=src", "python", "scripts/run.py"),
    ),
    "project that is a package itself": Project(
        {
            "__init__.py": "",
            "nodes.py": "V = 1\n",
            "tests/__init__.py": "",
            "tests/show.py": "import os\nfrom ..nodes import V\nprint(V, os.path.basename(os.getcwd()))\n",
        },
        ("env", "PYTHONPATH=..", "python", "-m", "project.tests.show"),
    ),
    "make with built files": Project(
        {
            "Makefile": "prog: t.c\n\tgcc -o prog t.c\nrun: prog\n\t./prog\n",
            "t.c": '#include <stdio.h>\nint main(){puts("VERSION 1");return 0;}\n',
        },
        ("make", "run"),
        before="make prog >/dev/null && sleep 0.05 && sed -i 's/VERSION 1/VERSION 2/' t.c",
    ),
    "newest checkpoint by its time": Project(
        {"resume.py": _RESUME, "ck/a.txt": "1", "ck/b.txt": "2"},
        ("python", "resume.py"),
        before="touch -d '2 days ago' ck/a.txt; touch -d '1 day ago' ck/b.txt",
    ),
    "progress bar": Project({"bar.py": _BAR}, ("python", "bar.py")),
    "trainer that starts its own processes": Project({"fit.py": _LAUNCH}, ("python", "fit.py")),
    "links, modes, holes and changed files": Project(
        {"tree.py": _TREE, "config.yaml": "a: 1\n"}, ("python", "tree.py")
    ),
    "shell script with pipes and functions": Project(
        {
            "run.sh*": text(
                """
                #!/usr/bin/env bash
                set -euo pipefail
                step() { echo "step $1"; }
                step one | tee log.txt
                seq 3 | paste -sd+ > sum.txt
                printf '%s\\n' "$@"
                """
            )
        },
        ("./run.sh", "a  b", "ü", "$HOME", "*"),
    ),
    "script without an interpreter line": Project(
        {"go.sh*": "echo plain; echo kept > x.txt\n"}, ("./go.sh",)
    ),
    "its own virtual environment": Project(
        {"run.sh": "source .venv/bin/activate\npython -c 'import sys; print(sys.prefix[-5:])'\n"},
        ("bash", "run.sh"),
        before="python -m venv --without-pip .venv",
    ),
    "failing test run": Project({"t.py": "print('before')\nraise SystemExit(5)\n"}, ("python", "t.py")),
    "unbuffered print and stderr": Project(
        {"p.py": "import sys\nprint('out')\nsys.stdout.flush()\nprint('err', file=sys.stderr)\n"},
        ("python", "p.py"),
    ),
    "folder with an odd name": Project(
        {
            "a b/ü'$.txt": "x",
            "r.py": "import os\nprint(sorted(os.listdir('a b')))\nopen('a b/new','w').write('1')\n",
        },
        ("python", "r.py"),
    ),
}
