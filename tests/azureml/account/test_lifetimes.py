"""Credentials against the time that a run may wait and work: said before it is sent, with the remedy."""

from __future__ import annotations

import json

import pytest
from home import Home
from hypothesis import given
from hypothesis import strategies as st
from services.azurite import Azurite
from services.fixtures import azurite as azurite

from gofer.backends.base import RunCredential
from gofer.errors import CredentialError
from gofer.ops.submission.credential_lifetimes import QUEUE_S, RUN_S, ExpectedDuration, judge, need_of

pytestmark = pytest.mark.xdist_group("azure-lifetimes")

NOW = 1_800_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR


def sas(ends_in_s: float, what: str = "the SAS of the store `blob`") -> RunCredential:
    return RunCredential(what, NOW + ends_in_s, "set another with `gofer secret set blob-sas`")


def test_the_words() -> None:
    (warning,) = judge([sas(18 * HOUR)], need_of(HOUR), NOW)
    assert warning == (
        "the SAS of the store `blob` ends at 2027-01-16 02:00:00 UTC, in 18h00m; a run that waits up to "
        "2d00h and works 1h00m may outlive it: set another with `gofer secret set blob-sas`"
    )
    (assumed,) = judge([sas(18 * HOUR)], need_of(None), NOW)
    assert "works 2d00h (no time limit is set) may outlive it" in assumed


def test_long_enough_is_not_worth_a_word() -> None:
    assert judge([sas(QUEUE_S + RUN_S)], need_of(None), NOW) == []
    assert judge([sas(QUEUE_S + HOUR)], need_of(HOUR), NOW) == []
    assert judge([], ExpectedDuration(), NOW) == []


def test_every_attempt_counts() -> None:
    assert judge([sas(QUEUE_S + HOUR)], need_of(HOUR, retries=2), NOW) != []
    assert judge([sas(QUEUE_S + 3 * HOUR)], need_of(HOUR, retries=2), NOW) == []


def test_one_that_has_ended_is_an_error() -> None:
    with pytest.raises(CredentialError) as caught:
        judge([sas(DAY), sas(-2 * HOUR, "the SAS of the store `data`")], need_of(HOUR), NOW)
    assert caught.value.message == "the SAS of the store `data` expired at 2027-01-15 06:00:00 UTC, 2h00m ago"
    assert caught.value.hint == "set another with `gofer secret set blob-sas`"


def test_each_credential_is_reported_once_and_the_first_to_expire_first() -> None:
    found = judge([sas(2 * DAY, "later"), sas(DAY, "sooner"), sas(DAY, "sooner")], need_of(None), NOW)
    assert [warning.split()[0] for warning in found] == ["sooner", "later"]


@given(st.floats(1, 1e7), st.floats(0, 1e7), st.floats(0, 1e7))
def test_a_warning_comes_exactly_when_it_may_end_before_the_run(
    left: float, queue: float, run: float
) -> None:
    ends_at = NOW + left
    need = ExpectedDuration(queue, run, False)
    assert bool(judge([RunCredential("x", ends_at, "")], need, NOW)) == (ends_at < NOW + need.whole_s)


# -- before a run is sent, on a real store


def configure(home: Home, azurite: Azurite, *, hours: float, key: bool = False) -> None:
    container = azurite.one.new_container()
    secret = azurite.one.key if key else azurite.one.container_sas(container, "rwdlc", hours=hours)
    path = home.path / "secrets.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(json.dumps({"blob": secret}))
    home.configure(
        f"target: here\ntargets: {{here: {{kind: local, store: blob}}}}\n"
        f'stores: {{blob: {{url: "az://{container}", account: {azurite.one.name}, '
        f'endpoint: "{azurite.one.endpoint}", {"key" if key else "sas"}: "${{secret:blob}}"}}}}\n'
    )


def warnings(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("warning:")]


def test_a_sas_that_may_end_too_early_is_a_warning(home: Home, azurite: Azurite) -> None:
    configure(home, azurite, hours=1)
    for words in (["--dry-run"], ["--wait"]):
        done = home.gofer("submit", "--no-code", *words, "true")
        (only,) = warnings(done.err)
        assert "the SAS of the store `blob` ends at " in only
        assert "may outlive it: set another with `gofer secret set blob`" in only
        assert "sig=" not in done.err


def test_a_sas_that_has_ended_is_an_error_and_nothing_is_recorded(home: Home, azurite: Azurite) -> None:
    configure(home, azurite, hours=-3)
    for words in ([], ["--dry-run"]):
        done = home.gofer("submit", "--no-code", *words, "true", status=1)
        assert "error: the SAS of the store `blob` expired at " in done.err
        assert "hint: set another with `gofer secret set blob`" in done.err
    assert json.loads(home.gofer("list", "runs", "--json").out) == []


@pytest.mark.parametrize(("hours", "key"), [(24 * 30, False), (0, True)])
def test_what_lasts_is_not_worth_a_word(home: Home, azurite: Azurite, hours: float, key: bool) -> None:
    configure(home, azurite, hours=hours, key=key)
    assert warnings(home.gofer("submit", "--no-code", "--dry-run", "true").err) == []


def test_a_key_lends_for_as_long_as_the_run_may_work(home: Home, azurite: Azurite) -> None:
    configure(home, azurite, hours=0, key=True)
    assert warnings(home.gofer("submit", "--no-code", "--dry-run", "--time-limit", "10d", "true").err) == []


def test_a_run_that_is_longer_than_the_sas_of_a_login(home: Home) -> None:
    home.configure(
        "target: cloud\n"
        "targets: {cloud: {kind: azureml, store: blob, subscription_id: s, resource_group: g, workspace: w,"
        ' compute: c, image: "me/env:1"}}\nstores: {blob: {url: "az://box/me", account: acct}}\n'
    )
    done = home.gofer("submit", "--no-code", "--dry-run", "--time-limit", "10d", "true")
    (only,) = warnings(done.err)
    assert "the access to the store `blob` that gofer gives a run ends at" in only
    assert "Azure gives a login no longer access" in only
    assert warnings(home.gofer("submit", "--no-code", "--dry-run", "true").err) == []


def test_files_of_this_machine_need_no_credential(home: Home) -> None:
    assert warnings(home.gofer("submit", "--no-code", "--dry-run", "true").err) == []
