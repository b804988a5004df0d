"""Words and values that are likely to be handled badly."""

from __future__ import annotations

from random import Random

WORDS = [
    *("", "-", "--", "a", "last", "0", "-1", "1e999", "9" * 30, "none", "null", "true", "é", "\u202e", "😀"),
    *("a b", "'", '"', "$HOME", "${secret:x}", "${env:", "{a}", "{", "}", "..", "../..", "/", "~", "a/b"),
    *("a:b", "a=b", "=", "\t", "\n", "\x1b[31m", "x" * 300, "a" * 5000, "1..5", "1,2", "local"),
    *("file:///nonexistent", "s3://b/k", "ssh://h/x", "2026-03-01", "9999-12-31", "today", "90s", "1d"),
    *("12:99", "(a+)+$", "(" * 60, "[", "\\", "%s", "\udcff"),
    # Digits that `str.isdigit` takes and `int` does not, and numbers that `int` refuses for their length.
    *("²", "١٢", "9" * 5000, "0x10", "1_000", "+1", " 1 ", "1e5", "nan", "-inf", "1.", "0" * 400),
    *("last:x", "last:../x", "last:", ":", "a:", "data/x", "@", "a@b", "a,b,,c", "x" * 256, "\x7f", "\u2028"),
    *(
        "file://",
        "az://c",
        "az://@",
        "gs://b/../c",
        "http://[",
        "s3://",
        "default:x",
        "r260101-000000-aaaaaa",
    ),
    *("{x}", "{x!r}", "{{x}}", "${file:/dev/null}", "${env:HOME:-x}", "0..9..0", "9..0", "1..2..3..4"),
    *(
        "9999999999d",
        "1e400d",
        "-1h",
        "00:00:00",
        "99:99:99",
        "0s",
        "5GiB",
        "-1GiB",
        "1e999GiB",
        "9" * 25 + "GiB",
    ),
]


def word(rng: Random) -> str:
    return rng.choice(WORDS) if rng.random() < 0.7 else "".join(rng.choices(WORDS, k=2))


def shown_word(rng: Random) -> str:
    """A word that a file name or a variable may be: no NUL, no slash, not too long."""
    return word(rng).replace("\0", "").replace("/", "_")[:100] or "x"


KEYS = [
    *("target", "targets", "stores", "folders", "job", "ignore", "kind", "url", "gpus", "hosts", "name"),
    *("command", "env", "tags", "setup", "time_limit", "retries", "array", "each", "store", "path", "mode"),
    *("read_only", "launcher", "procs", "config_param", "azure_blob_config_file", "aml_config", "tools"),
    *("xt-services", "compute", "cluster", "docker_image", "dockers", "image", "_base_", "zip_options"),
]
SCALARS: list[object] = [
    *(None, True, False, 0, -1, 1, 10**30, -(10**30), 2**63, 2**64, 10**400, 1.5, 1e300, 1e-320),
    *(float("inf"), float("-inf"), float("nan")),
    *("", "local", "slurm", "ssh", "azureml", "a\n", "${env:X}", "x" * 500, "file:///tmp", "é", "\x00"),
    *(
        "\ud800",
        "\udcff",
        "1",
        "true",
        "null",
        "..",
        "/",
        "../../x",
        "-",
        "y" * 70_000,
        "\u202e",
        "2026-01-01",
    ),
    *([], {}, [[]], [None], {"a": 1}, {"": ""}, [0] * 300),
]
