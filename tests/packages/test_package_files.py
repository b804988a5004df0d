"""Which file is built, and what requirements.txt and pyproject.toml say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gofer.node.packages import pyproject, requirement_list, tools
from gofer.node.packages.interpreter import Interpreter
from gofer.node.packages.package_files import PackageFile, find
from gofer.node.packages.recipe import RecipeInput, make_recipe

PROJECT = '[project]\nname = "x"\ndependencies = []\n'
SETTINGS_ALONE = "[tool.ruff]\nline-length = 100\n"
PYPROJECT = """\
[build-system]
requires = ["hatchling"]

[project]  # a comment
name = "demo"
dependencies = [
    "numpy>=1.20,<3",  # with extras and markers
    'torch[cuda]; python_version > "3.8"',
    "plain",
]
[project.scripts]
train = "demo.cli:main"
"two" = 'demo.cli:Command.two'
[project.optional-dependencies]
dev = ["pytest"]
every-part = ["Demo[dev]", "black"]
[project.entry-points."demo.plugins"]
first = "demo.first"
[tool.other]
number = 3
"""


@pytest.mark.parametrize(
    ("packages", "workdir", "files", "found"),
    [
        ("auto", ".", ["requirements.txt", "uv.lock", "environment.yml"], PackageFile("uv.lock", "uv")),
        ("auto", ".", ["pyproject.toml", "requirements.txt"], PackageFile("requirements.txt", "pip")),
        ("auto", "exp/one", ["exp/requirements.txt"], PackageFile("exp/requirements.txt", "pip")),
        ("auto", "part", ["part/pyproject.toml", "uv.lock"], PackageFile("uv.lock", "uv")),
        ("auto", ".", ["environment.yaml"], PackageFile("environment.yaml", "conda")),
        ("uv", ".", ["requirements.txt"], PackageFile("requirements.txt", "uv")),
        ("pip", ".", ["uv.lock", "pyproject.toml"], PackageFile("pyproject.toml", "pip")),
        ("conda", ".", ["uv.lock"], None),
        ("none", ".", ["uv.lock"], None),
        ("auto", "sub", ["other/requirements.txt"], None),
    ],
)
def test_the_file_is_chosen_by_its_kind_then_by_its_folder(
    packages: str, workdir: str, files: list[str], found: PackageFile | None
) -> None:
    assert find(packages, workdir, {one: PROJECT for one in files}.get) == found


@pytest.mark.parametrize(
    "text", [SETTINGS_ALONE, '[project]\nname = "x"\ndynamic = ["dependencies"]\n', "not = [toml"]
)
def test_a_pyproject_without_packages_is_ignored(text: str) -> None:
    assert find("auto", ".", {"pyproject.toml": text}.get) is None


def test_a_pyproject_is_read_the_same_without_a_toml_parser() -> None:
    found = pyproject.parse(PYPROJECT)
    assert found.dependencies == ["numpy>=1.20,<3", 'torch[cuda]; python_version > "3.8"', "plain"]
    assert found.scripts == {"train": "demo.cli:main", "two": "demo.cli:Command.two"}
    whole, plain = tomllib.loads(PYPROJECT), pyproject.read_tables(PYPROJECT)
    assert plain["project"]["dependencies"] == whole["project"]["dependencies"]
    assert plain["project"]["scripts"] == whole["project"]["scripts"]
    assert plain["project"]["optional-dependencies"] == whole["project"]["optional-dependencies"]
    assert plain["project"]["entry-points"] == whole["project"]["entry-points"]
    assert (found.name, found.version) == ("demo", None)
    assert found.entry_points["demo.plugins"] == {"first": "demo.first"}


def test_a_list_holds_what_it_includes_and_not_the_project(tmp_path: Path) -> None:
    root = tmp_path / "a folder"
    (root / "part").mkdir(parents=True)
    (root / "links").mkdir()
    (root / "own-1-py3-none-any.whl").touch()
    (root / "requirements.txt").write_text(
        "# comment\nnumpy==1 \\\n  --hash=sha256:00\n-r more/base.txt\n-c limits.txt\n-e .[extra]\n./part\n"
        "own-1-py3-none-any.whl\n--find-links links\n-e git+https://host/x.git#egg=x\nhttps://host/y.whl\n"
    )
    (root / "more").mkdir()
    (root / "more" / "base.txt").write_text("-r../requirements.txt\nscipy # why\n")
    (root / "limits.txt").write_text("scipy<2\n")
    (root / "pyproject.toml").write_text(PROJECT.replace("[]", '["six"]'))
    asked = requirement_list.read(str(root / "requirements.txt"))
    assert asked.projects == [str(root), str(root / "part")]
    assert asked.constraints == ["scipy<2"]
    assert asked.lines == [
        "numpy==1    --hash=sha256:00",
        "scipy",
        "six",
        str(root / "own-1-py3-none-any.whl"),
        f"--find-links {root / 'links'}",
        "-e git+https://host/x.git#egg=x",
        "https://host/y.whl",
    ]
    (root / "more" / "base.txt").unlink()
    with pytest.raises(requirement_list.UnreadableRequirements, match=r"base\.txt"):
        requirement_list.read(str(root / "requirements.txt"))


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("-e .", ["plain"]),
        ("-e .[dev]", ["plain", "pytest"]),
        (".[every_part]", ["plain", "pytest", "black"]),
        ("-e .[dev,every-part]\n.[dev]", ["plain", "pytest", "black"]),
    ],
)
def test_the_extras_of_the_project_in_a_line_are_installed(
    tmp_path: Path, line: str, lines: list[str]
) -> None:
    text = PYPROJECT.replace('    "numpy>=1.20,<3",  # with extras and markers\n', "")
    (tmp_path / "pyproject.toml").write_text(
        text.replace("    'torch[cuda]; python_version > \"3.8\"',\n", "")
    )
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    asked = requirement_list.read(str(tmp_path / "requirements.txt"))
    assert (asked.lines, asked.projects) == (lines, [str(tmp_path)])


# As the tools print them: pip 24, uv 0.13, conda 26.7.
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
            "ERROR: No matching distribution found for x",
            "ERROR: No matching distribution found for x",
        ),
        (
            "Using Python 3.11.7 environment at: v\nerror: No solution found when resolving dependencies\n"
            "  cause: Because there is no version of six==99 and you require six==99, we can conclude that "
            "your requirements are unsatisfiable.\n\nhint: not this",
            "error: No solution found when resolving dependencies cause: Because there is no version of "
            "six==99 and you require six==99, we can conclude that your requirements are unsatisfiable.",
        ),
        (
            "Solving environment: ...working... failed\n\n"
            "PackagesNotFoundInChannelsError: The following packages are not available from current channels:"
            "\n\n  - alpha=7\n\nCurrent channels:\n\n  - file:///channel/noarch\n\nand use the search bar",
            "PackagesNotFoundInChannelsError: The following packages are not available from current channels:"
            " - alpha=7",
        ),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError('Failed to establish a new "
            "connection: [Errno -3] Temporary failure in name resolution')': /simple/uv/\n"
            "ERROR: No matching distribution found for uv",
            "ERROR: No matching distribution found for uv; the node cannot reach the package index: "
            "`--wheels FOLDER` builds without one",
        ),
        ("a tool\nthat names no fault\n\n", "that names no fault"),
        ("", "it printed nothing"),
    ],
)
def test_the_words_of_a_tool_that_say_why_it_failed(said: str, error: str) -> None:
    assert tools.main_error(said.splitlines()) == error


@pytest.mark.parametrize(
    ("environment", "is_another"),
    [
        ({}, False),
        ({"LR": "0.1"}, False),
        ({"UV_NO_GROUP": "dev"}, True),
        ({"UV_NO_DEFAULT_GROUPS": "1"}, True),
        ({"PIP_INDEX_URL": "https://index.invalid/simple"}, True),
    ],
)
def test_variables_of_the_tools_that_choose_packages_are_part_of_the_hash(
    tmp_path: Path, environment: dict[str, str], is_another: bool
) -> None:
    (tmp_path / "requirements.txt").write_text("alpha\n")
    interpreter = Interpreter("/usr/bin/python3", [3, 11, 2], "linux-x86_64", [])

    def make_hash(environment: dict[str, str]) -> str:
        file = PackageFile("requirements.txt", "uv")
        return make_recipe(RecipeInput(str(tmp_path), file, environment, None, "/cache"), interpreter).hash

    assert (make_hash(environment) != make_hash({})) == is_another


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 100_000,
        "[project]\nname = 'a'\ndynamic = 5\ndependencies = []\n",
        "[project]\nname = 'a'\n[project.name.x]\n",
        "project = 'a'\n[project.scripts]\nx = 'a:b'\n",
        "x = '" + "(" * 100_000,
    ],
)
def test_a_project_file_that_says_nonsense_raises_nothing(text: str) -> None:
    pyproject.parse(text)
    pyproject.read_tables(text)
