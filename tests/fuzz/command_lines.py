"""Areas of what a person types: command lines, filters, sweeps, references to runs, variables."""

from __future__ import annotations

import json
import os
from random import Random

from fuzz.case import Case
from fuzz.mutation import scalar, tree
from fuzz.records import GROUP, RUN
from fuzz.words import shown_word, word
from gofer.cli.verbs import NOUNS, VERBS

OPTIONS = [
    *("--json", "--filter", "--last", "--sort", "--columns", "--each", "--array", "--name", "--tag", "-n"),
    *("--procs", "--cpus", "--time-limit", "--retries", "--retry-on", "--grace", "-e", "--setup", "--target"),
    *("-t", "-c", "--expires", "--tail", "--rank", "--node", "--attempt", "--older-than", "--everywhere"),
    *("--all", "--rows", "-Q", "--lines", "--launcher", "--priority", "--sync", "--job", "--single"),
    *("--no-code", "--max", "--export", "--recursive", "--keep", "--outputs", "--packages", "--wheels"),
    *(
        "--rank-variables",
        "--include",
        "--code-folder",
        "--with-git",
        "-N",
        "--nodes",
        "--group",
        "--reverse",
    ),
    *("--debug", "-r", "-f", "--help", "-ca", "-rt", "-single", "--yes", "--as"),
]
# These talk to services or wait for a person.
_NEVER = {"login", "logout", "ssh", "monitor", "doctor", "image", "account"}
_DRY = {"submit", "run", "resubmit", "rerun", "upload", "u", "download", "d", "sync", "cp", "rm"}
# These list all files below a folder. The root folder would cost them the time of the machine's disks.
_LISTING = {"upload", "u", "download", "d", "sync", "cp", "rm", "du", "ls"}
FOLDERS = {"gofer.yaml": b"folders: {data: {store: default, path: d}}\n"}


def _verb(rng: Random) -> list[str]:
    verb = rng.choice([name for name in VERBS if name not in _NEVER])
    if verb in NOUNS:
        return [verb, rng.choice([*NOUNS[verb], word(rng)])]
    return [verb, "--dry-run"] if verb in _DRY else [verb]


def command_lines(rng: Random) -> Case:
    words = _verb(rng)
    for _ in range(rng.randrange(6)):
        words.append(rng.choice(OPTIONS) if rng.random() < 0.5 else word(rng))
    if words[0] == "wait":
        words += ["--timeout", "0s"]
    if rng.random() < 0.2:  # options may stand before the verb
        words = [rng.choice(OPTIONS), word(rng), *words]
    return Case(_without_root_folder(words))


_RIGHT = [
    ["submit", "--dry-run", "-n", "0", "--procs", "2", "--time-limit", "1h", "-e", "A=1", "echo", "x"],
    ["submit", "--dry-run", "-N", "2", "--cpus", "1", "--retries", "1", "--retry-on", "signal", "true"],
    ["submit", "--dry-run", "--grace", "5s", "--priority", "1", "--sync", "*.pt", "--setup", "true", "true"],
    ["submit", "--dry-run", "--keep", "2GiB", "--outputs", "out/*", "--include", "data/", "true"],
    ["submit", "--dry-run", "--launcher", "spawn", "--rank-variables", "auto", "--name", "x", "true"],
    ["submit", "--dry-run", "--packages", "auto", "--wheels", "w", "--code-folder", ".", "true"],
    ["submit", "--dry-run", "--each", "lr=0.1,0.2", "--tag", "a=b", "echo", "{lr}"],
    ["submit", "--dry-run", "--json", "sbatch", "-N", "2", "--wrap", "echo x"],
    ["list", "runs", "--filter", "state=failed", "--sort", "age", "--last", "5", "--columns", "id,state"],
    ["list", "runs", "--rows", "--group", "last", "--reverse", "--export", "x.csv"],
    ["list", "jobs", "--status", "failed", "--tag", "a=1"],
    ["list", "nodes", "--columns", "name,state"],
    ["q", "last", "--lines", "3"],
    ["q", "last", "--json"],
    ["logs", "last", "--tail", "2", "--rank", "0", "--attempt", "1", "--node", "0"],
    ["logs", "last", "--rank", "all", "--since", "10m", "--grep", "a|b"],
    ["logs", "last", "--row", "0-1", "--since", "14:05"],
    ["why", "last", "--json"],
    ["wait", "last", "--timeout", "0s"],
    ["extract", "last", "out"],
    ["tag", "last", "b=1"],
    ["tag", "last"],
    ["config", "show"],
    ["config", "show", "--json"],
    ["target", "show", "local"],
    ["store", "list"],
    ["store", "show", "default"],
    ["secret", "rm", "x"],
    ["prune", "--older-than", "90d"],
    ["ls", "data"],
    ["ls", "-r", "last:"],
    ["du", "data"],
    ["cat", "data/x"],
    ["cat", "last:files/x"],
    ["cp", "--dry-run", "gofer.yaml", "data/x"],
    ["sync", "--dry-run", ".", "data/x"],
    ["u", "--dry-run", "data/x"],
    ["d", "--dry-run", "data/x"],
    ["rm", "--dry-run", "data/x"],
    ["init"],
    ["url", "--expires", "1h", "data/x"],
    ["view", "log", "last"],
    ["view", "portal", "last"],
    ["completion", "bash"],
    ["ledger", "rebuild"],
]


def almost_right(rng: Random) -> Case:
    """A right line with one or two words that are wrong."""
    words = list(rng.choice(_RIGHT))
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.randrange(min(2, len(words)), len(words) + 1)
        words[place : place + rng.randrange(2)] = [word(rng)]
    return Case(_without_root_folder(words), dict(FOLDERS))


def _without_root_folder(words: list[str]) -> tuple[str, ...]:
    """The words, with the project's folder instead of `/` where the verb would list all files below."""
    if not _LISTING.intersection(words):
        return tuple(words)
    return tuple("." if os.path.normpath(name) in ("/", "//") else name for name in words)


_FIELDS = [
    *("id", "name", "state", "reason", "exit_code", "gpus", "nodes", "procs", "command", "age", "submitted"),
    *("started", "ended", "elapsed", "target", "attempts", "group", "priority", "snapshot", "tag.a", "arg.x"),
    *("name", "command", "tag.a", "arg.x", "tag.", "arg.", "detail"),
]


def filters(rng: Random) -> Case:
    argv = ["list", "runs"]
    for _ in range(rng.choice([1, 1, 2])):
        operator = rng.choice(["=", "!=", "<", "<=", ">", ">=", "~", "~", "=", "!~", "==", word(rng)])
        value = rng.choice([word(rng), word(rng), _pattern(rng), "failed", "3", "2026-01-01", "1h", "none"])
        field = rng.choice(_FIELDS) if rng.random() < 0.9 else word(rng)
        argv += ["--filter", field + operator + value]
    if rng.random() < 0.2:
        argv += ["--sort", rng.choice([*_FIELDS, word(rng)])]
    if rng.random() < 0.1:
        argv += ["--columns", ",".join(rng.choice([*_FIELDS, word(rng)]) for _ in range(3))]
    if rng.random() < 0.2:
        argv.append(rng.choice(["--rows", "--json", "--reverse", "--all"]))
    return Case(tuple(argv))


_PATTERN_PARTS = [
    *(
        "a",
        ".",
        "*",
        "+",
        "?",
        "(",
        ")",
        "(?:",
        "(?i)",
        "(?P<a>",
        "(?P=a)",
        "[",
        "]",
        "[^",
        "a-z",
        "{",
        "}",
        "{9}",
    ),
    *(
        "{1,99999}",
        "{,5}",
        "|",
        "^",
        "$",
        "\\",
        "\\1",
        "\\d",
        "\\b",
        "\\u",
        "\\N{x}",
        "(?=",
        "(?<!",
        "(?#",
        "é",
        "\n",
    ),
    *("(a+)+", "(a|a)*", "(.*)*", "x" * 50, "(?(1)a|b)", "(?-i:", "\\Z", "(?>", "*+"),
]


def _pattern(rng: Random) -> str:
    """A regular expression of parts that may not fit together."""
    return "".join(rng.choices(_PATTERN_PARTS, k=rng.randrange(1, 9)))


def arrays(rng: Random) -> Case:
    ending = rng.choice([*["csv", "tsv", "jsonl"] * 6, "json", "txt"])
    if ending.startswith("json"):
        lines = [_line(rng) for _ in range(rng.randrange(1, 5))]
    else:
        mark = "\t" if ending == "tsv" else ","
        width = rng.choice([2, 2, 2, 1, 3])
        lines = [mark.join(_cell(rng) for _ in range(width)) for _ in range(rng.randrange(5))]
        if rng.random() < 0.9:
            lines.insert(0, mark.join(["lr", "seed", word(rng)][:width]))
    data = rng.choice(["\n", "\n", "\r\n", "\r"]).join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = rng.choice(
            [b"\xef\xbb\xbf" + data, data + b"\xff", data.decode("utf-8", "replace").encode("utf-16")]
        )
    argv = ["submit", "--dry-run", "--array", f"t.{ending}", "echo", "{lr}", word(rng)]
    return Case(tuple(argv), {f"t.{ending}": data})


def _cell(rng: Random) -> str:
    text = word(rng).replace("\n", " ").replace("\t", " ").replace(",", " ")
    return rng.choice([text, "1", f'"{text}"', f'"{text}""{text}"', f"{text}'"])


def _line(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.1:
        return rng.choice([word(rng), "[" * 5000, '{"lr":' * 5000])
    row = {"lr": rng.choice([1, "a", 0.5, scalar(rng), tree(rng, 1)]), "seed": 1}
    return json.dumps(row if kind < 0.9 else tree(rng, 2))


def each(rng: Random) -> Case:
    texts = [
        f"{rng.choice(['lr', 'a', word(rng)])}={word(rng)},{word(rng)}",
        f"a={word(rng)}..{word(rng)}",
        f"lr={rng.choice(['1', '-5', '0', '9' * 20])}..{rng.choice(['3', '100000', '9' * 21])}..{word(rng)}",
        f"lr={rng.randrange(400)}..{rng.randrange(400)}",
        f"b={rng.randrange(400)}..{rng.randrange(400)}",
        f'lr="{word(rng)}",{word(rng)}',
        word(rng),
    ]
    argv = ["submit", "--dry-run"]
    for text in rng.sample(texts, rng.randrange(1, 4)):
        argv += ["--each", text]
    return Case((*argv, "echo", rng.choice(["{lr}", "{a}", "{{lr}}", "{lr", word(rng)])))


def references(rng: Random) -> Case:
    verb = rng.choice(["q", "logs", "why", "wait", "tag", "extract", "list", "cat", "ls", "du"])
    if verb == "list":
        return Case(("list", "runs", "--filter", f"id={word(rng)}"))
    run = rng.choice(["last", RUN, GROUP, f"{GROUP}-1", "aaaaaa", "bbbbbb-0", "2", word(rng)])
    name = rng.choice(
        [word(rng), f"{run}{word(rng)}", f"{run}:{word(rng)}", f"{run}:out/{word(rng)}", f"{run}-{word(rng)}"]
    )
    behind = {"extract": ["out"], "wait": ["--timeout", "0s"]}
    return Case((verb, name, *behind.get(verb, [])))


_VARIABLES = [
    *("GOFER_TARGET", "GOFER_GPUS", "GOFER_PROCS", "GOFER_TIME_LIMIT", "GOFER_DEBUG", "GOFER_LAUNCHER"),
    *("GOFER_NAME", "GOFER_NODES", "GOFER_CPUS", "GOFER_SETUP", "GOFER_GRACE", "GOFER_RETRIES"),
    *("GOFER_RETRY_ON", "GOFER_PRIORITY", "GOFER_SYNC", "GOFER_KEEP", "GOFER_OUTPUTS", "GOFER_MULTI_PROCESS"),
    *(
        "GOFER_RANK_VARIABLES",
        "GOFER_PACKAGES",
        "GOFER_WHEELS",
        "GOFER_AZURE_PROFILE",
        "GOFER_TAGS",
        "GOFER_RUN_ID",
    ),
    *("AML_CONFIG_PATH", "NO_COLOR", "COLUMNS", "LINES", "TERM", "LANG", "LC_ALL", "TZ", "PAGER", "SHELL"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "HTTPS_PROXY", "NO_PROXY", "PATH", "HOME", "USER"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "GIT_DIR", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"),
]


def environments(rng: Random) -> Case:
    if rng.random() < 0.4:
        words = ["gofer", *_verb(rng), word(rng).replace("\n", " ")]
        environ = {
            "_GOFER_COMPLETE": rng.choice(["bash_complete", "zsh_complete", "fish_complete", word(rng)]),
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": rng.choice(["1", "2", "9", "-1", word(rng)]),
        }
        return Case((), {}, {}, _clean(environ))
    environ = {rng.choice(_VARIABLES): word(rng) for _ in range(rng.randrange(1, 4))}
    argv = rng.choice(
        [
            ["list", "runs"],
            ["submit", "--dry-run", "true"],
            ["submit", "--dry-run", "-e", rng.choice(list(environ)), "true"],
            ["config", "show"],
            ["list", "targets"],
            ["q", "last"],
            ["why", "last"],
            ["target", "show"],
        ]
    )
    return Case(tuple(argv), {}, {}, _clean(environ))


def _clean(environ: dict[str, str]) -> dict[str, str]:
    return {name: value.replace("\x00", "") for name, value in environ.items()}


def file_names(rng: Random) -> Case:
    """Names of files in the project and in the store."""
    names = [shown_word(rng) for _ in range(3)]
    names = [name for name in names if name not in (".", "..")] or ["x"]
    files = {rng.choice([name, f"d/{name}"]): b"x" for name in names if _fits(name)}
    store = {f"d/x/{name}": b"y" for name in names if _fits(name)}
    name = rng.choice(names)
    argv = rng.choice(
        [
            ["submit", "--dry-run", "python", name],
            ["submit", "--dry-run", "--include", name, "true"],
            ["submit", "--dry-run", name],
            ["u", "--dry-run", f"data/{name}"],
            ["d", "--dry-run", f"data/x/{name}"],
            ["ls", "-r", "data"],
            ["ls", f"data/x/{name}"],
            ["cat", f"data/x/{name}"],
            ["du", "data"],
            ["cp", "--dry-run", name, "data/x/y"],
            ["sync", "--dry-run", ".", "data/x"],
            ["rm", "--dry-run", "data/x"],
            ["url", f"data/x/{name}"],
            ["init"],
        ]
    )
    return Case(tuple(argv), {**FOLDERS, **files}, store)


def _fits(name: str) -> bool:
    try:
        return 0 < len(name.encode("utf-8", "surrogateescape")) < 250
    except UnicodeEncodeError:
        return False
