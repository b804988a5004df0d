"""References, their look-up, and what is kept out of messages."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.config.project import ConfigProject

from gofer.config import redact
from gofer.config.redact import MASK, Redactor, is_sensitive
from gofer.config.references import Reference, Resolver, is_secret, references
from gofer.errors import ConfigError, CredentialError, GoferError


def resolver(folder: Path = Path("/"), **environ: str) -> Resolver:
    def no_secret(name: str) -> str:
        raise CredentialError(f"there is no secret `{name}`")

    return Resolver(environ, folder, no_secret)


def test_each_kind_is_read() -> None:
    text = "a ${env:A} ${env:B:-x:y} ${file:~/t k} ${secret:n.a-m_e} $${env:C} ${HOME} ${X:-1}"
    assert [*references(text)] == [
        Reference("env", "A"),
        Reference("env", "B", "x:y"),
        Reference("file", "~/t k"),
        Reference("secret", "n.a-m_e"),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("${env:A}", "1"),
        ("x${env:A}y${env:A}", "x1y1"),
        ("${env:NONE:-d e}", "d e"),
        ("${env:NONE:-}", ""),
        ("${env:EMPTY:-d}", "d"),
        ("${env:EMPTY}", ""),
        ("$${env:A}", "${env:A}"),
        ("$$${env:A}", "$${env:A}"),
        ("${HOME} ${A:-2} $A $(a) ${a[1]}", "${HOME} ${A:-2} $A $(a) ${a[1]}"),
        ("${env:LOOP}", "${env:A}"),
    ],
)
def test_resolving(text: str, value: str) -> None:
    assert resolver(A="1", EMPTY="", LOOP="${env:A}").resolve(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "${env:}",
        "${env:A",
        "${env:A B}",
        "${env:1A}",
        "${file:}",
        "${secret:}",
        "${secret:a b}",
        "${secret:../x}",
    ],
)
def test_half_references_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a whole reference") as caught:
        resolver(A="1").resolve(text)
    assert "${secret:NAME}" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("slip", "right"), [("${secrets:x}", "secret"), ("${ENV:X}", "env"), ("a${files:/x}", "file")]
)
def test_near_references_are_refused(slip: str, right: str) -> None:
    with pytest.raises(ConfigError, match="is not a reference") as caught:
        resolver().resolve(slip)
    assert caught.value.hint == f"write `${{{right}:…}}`"


def test_a_missing_variable_names_itself_and_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"`TOKEN` is not set") as caught:
        resolver().resolve("${env:TOKEN}")
    assert caught.value.hint == "set it, or write `${env:TOKEN:-default}`"


def test_files_lose_their_last_newline_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"line 1\n\nline 2\r\n")
    assert resolver(tmp_path).resolve("<${file:token}>") == "<line 1\n\nline 2>"
    assert resolver().resolve(f"<${{file:{tmp_path / 'token'}}}>") == "<line 1\n\nline 2>"


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "huge").write_bytes(b"x" * ((1 << 20) + 1))
    for name, words in [("absent", "No such file"), ("binary", "not UTF-8"), ("huge", "too large")]:
        with pytest.raises(ConfigError, match=words) as caught:
            resolver(tmp_path).resolve(f"${{file:{name}}}")
        assert str(tmp_path / name) in caught.value.message


@given(st.text(st.sampled_from("a$${}:env-"), max_size=30))
def test_doubling_the_dollar_keeps_any_text(text: str) -> None:
    assert resolver().resolve(text.replace("${", "$${")) == text


@given(st.text(st.sampled_from("a${}:-envfilsecrt~/ "), max_size=40))
def test_any_text_resolves_or_is_refused(text: str) -> None:
    try:
        resolver(a="1").resolve(text)
    except GoferError as error:
        assert error.message


# -- through the settings


def test_revealed_values_are_masked_from_then_on(project: ConfigProject, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("dummy-file-value-1\n")
    settings = project.load(TOKEN="dummy-env-value-2", PLACE=str(tmp_path), REGION="north-region")
    settings.secrets.set("wandb", "dummy-secret-value-3")
    revealed = settings.reveal(
        {
            "A": f"${{file:{tmp_path / 'key'}}}",
            "B": "Bearer ${env:TOKEN}",
            "C": "${secret:wandb}",
            "D": "${env:PLACE}/x",
            "E": "plain",
        }
    )
    assert revealed == {
        "A": "dummy-file-value-1",
        "B": "Bearer dummy-env-value-2",
        "C": "dummy-secret-value-3",
        "D": f"{tmp_path}/x",
        "E": "plain",
    }
    result = redact.mask(f"{revealed} in {tmp_path}/x, north-region")
    assert f"{tmp_path}/x" in result
    assert "north-region" in result
    assert not any(
        value in result for value in ("dummy-file-value-1", "dummy-env-value-2", "dummy-secret-value-3")
    )


def test_an_unknown_secret_says_how_to_set_it(project: ConfigProject) -> None:
    settings = project.load()
    with pytest.raises(CredentialError, match="there is no secret `wandb`") as caught:
        settings.resolve("${secret:wandb}")
    assert caught.value.hint == "`gofer secret set wandb`"
    settings.secrets.set("wandb2", "dummy")
    with pytest.raises(CredentialError) as caught:
        settings.resolve("${secret:wandb}")
    assert caught.value.hint == "did you mean `wandb2`? or `gofer secret set wandb`"


def test_other_forms_of_a_value_are_masked() -> None:
    redactor = Redactor()
    value = 'dummy "pass" & wörd/+\\'
    redactor.remember(value)
    for form in (value, json.dumps(value), quote(value, safe=""), repr(value), f"x{value}y"):
        assert "wörd" not in redactor.mask(form) and "w%C3%B6rd" not in redactor.mask(form)
        assert MASK in redactor.mask(form)


def test_a_line_of_a_key_file_is_masked_alone() -> None:
    redactor = Redactor()
    redactor.remember("-----BEGIN DUMMY-----\nabcdefghijklmnop\n}\n-----END DUMMY-----")
    assert redactor.mask("got abcdefghijklmnop}") == f"got {MASK}}}"


def test_a_longer_value_is_masked_before_one_it_holds() -> None:
    redactor = Redactor()
    redactor.remember("dummy")
    redactor.remember("dummy-and-more")
    assert redactor.mask("dummy-and-more dummy") == f"{MASK} {MASK}"


def test_very_short_values_are_left_alone() -> None:
    redactor = Redactor()
    redactor.remember("1")
    redactor.remember("")
    assert redactor.mask("exit 1") == "exit 1"


@pytest.mark.parametrize(
    "name", ["token", "HF_TOKEN", "api-key", "AWS_SECRET_ACCESS_KEY", "sas", "my_password"]
)
def test_sensitive_names(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize("name", ["login", "keyboard", "gpus", "monkey_count", "path", "passes"])
def test_ordinary_names(name: str) -> None:
    assert not is_sensitive(name)


@pytest.mark.parametrize(
    ("variable", "text", "secret"),
    [
        ("A", "${secret:x}", True),
        ("A", "user:${file:~/.pass}", True),
        ("HF_TOKEN", "${env:HF_TOKEN}", True),
        ("A", "${env:AWS_SECRET_ACCESS_KEY}", True),
        ("TOKEN", "${env:VALUE}", True),
        ("BLOB_SAS", "${env:X}", True),
        ("CUDA_HOME", "${env:CUDA_HOME}", False),
        ("SASHA", "${env:SASHA}", False),
        ("TOKEN", "written out", False),
    ],
)
def test_which_values_no_log_may_show(variable: str, text: str, secret: bool) -> None:
    assert is_secret(variable, text) is secret
