"""Check whether gofer can work with Azure: one check for each thing that commonly fails, with a hint.

The checks write only a small object to each store and remove it again. They submit nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.errors import CheckFailed, GoferError
from gofer.ops.data.store_check import check_store
from gofer.ops.doctor import azure_login as login
from gofer.ops.doctor import azure_service as service
from gofer.ops.doctor.azure_ssh import shell_checks
from gofer.ops.doctor.machine import Check, Status

if TYPE_CHECKING:
    from gofer.config.targets import Target
    from gofer.ops.session import Session
    from gofer.storage.base import Store

_KIND = "azureml"
_NEEDED = {"r": "read", "w": "write", "d": "delete", "l": "list"}
_WRITING = ("write", "create once", "delete")


def azure_checks(session: Session, name: str | None = None) -> list[Check]:
    """Run every check, in a fixed order. Problems are reported as a Check and never raised; UnknownName when
    the target does not exist.

    With a name, only this target and its stores are checked; without, every target of the kind `azureml` and
    every Azure store.
    """
    targets = _targets(session, name)
    ways = _ways(session, targets)
    first = next((way for way in ways.values() if way.needs_az), next(iter(ways.values())))
    found = [*login.programs(session.environ, first)]
    for profile, way in ways.items():
        found += login.signed_in(way, "login" if len(ways) == 1 else f"login {profile}")
    found += service.reached(first)
    for target in targets:
        way = ways[_profile(session, target)]
        if way.token is not None:
            found += service.target_checks(way, target)
    found += shell_checks(session, targets)
    for store in _stores(session, targets, is_named=name is not None):
        found += _store(session, store, targets)
    return found


def _targets(session: Session, name: str | None) -> list[Target]:
    settings = session.settings
    if name is not None:
        found = settings.target(name)
        if found.kind != _KIND:
            raise CheckFailed(
                f"the target `{name}` is of the kind `{found.kind}`, not `{_KIND}`",
                hint=f"`gofer doctor -c {name}` checks it",
            )
        return [found]
    known = [settings.target(one) for one in settings.target_names]
    return [target for target in known if target.kind == _KIND]


def _ways(session: Session, targets: list[Target]) -> dict[str, login.Access]:
    """The access by profile, for each profile that the targets use, else for the active one."""
    found: dict[str, login.Access] = {}
    for target in targets:
        cloud, named = (getattr(target.options, name, None) for name in ("cloud", "profile"))
        profile = _profile(session, target)
        if profile not in found:
            found[profile] = login.Access(session, cloud, f"the target `{target.name}`", named)
    if not found:
        way = login.Access(session)
        found[way.profile] = way
    return found


def _profile(session: Session, target: Target) -> str:
    from gofer.ops.accounts.azure_profiles import Profiles

    return Profiles.of(session.environ).asking(getattr(target.options, "profile", None))


# -- stores


def _stores(session: Session, targets: list[Target], *, is_named: bool) -> list[str]:
    """The names of the stores to check, those of runs first."""
    from gofer.config.folders import folders_of
    from gofer.ops.data.store_facts import store_names

    wanted = [target.store for target in targets]
    for target in targets:
        wanted += [folder.store for folder in folders_of(session.settings, target.name).values()]
    if not is_named:
        wanted += store_names(session)
    known = [name for name in dict.fromkeys(wanted) if name]
    return [name for name in known if session.settings.store(name).url.startswith("az://")]


def _store(session: Session, name: str, targets: list[Target]) -> Iterator[Check]:
    """One check if everything is in order, else one for each problem."""
    holds_runs = not targets or any(target.store == name for target in targets)
    found = [*_permissions(session, name, holds_runs=holds_runs)]
    told = {check.name.rpartition(" ")[2] for check in found}
    for check in check_store(session, name):
        if check.status == Status.OK or check.name in told:
            continue
        status, hint = check.status, check.hint
        if check.name in _WRITING and not holds_runs:
            status, hint = (
                Status.WARN,
                f"{hint or 'ask for the right'}; runs that only read from it do not need this",
            )
        found.append(Check(f"store {name} {check.name}", status, check.detail, hint))
    yield from found
    if not found:
        url = session.settings.store(name).url
        yield Check(
            f"store {name}", Status.OK, f"{url} lists, writes, reads and deletes{_sas_left(session, name)}"
        )


def _permissions(session: Session, name: str, *, holds_runs: bool) -> Iterator[Check]:
    """One check for each permission that the SAS itself lacks. Calls no service."""
    from gofer.objects.azure_auth import bare_token
    from gofer.storage.credentials import OpenedStore, sas_facts

    entry = session.settings.store(name)
    if not entry.options.sas or entry.options.key:
        return
    try:
        facts = sas_facts(bare_token(session.settings.resolve(entry.options.sas)))
    except GoferError as error:
        yield Check(f"store {name} sas", Status.FAIL, error.message, error.hint)
        return
    mend = OpenedStore(entry.url, name=entry.name, written=entry.options).mend("sas")
    for letter, word in _NEEDED.items():
        if facts.permissions and letter not in facts.permissions:
            is_needed = holds_runs or letter in "rl"
            status = Status.FAIL if is_needed else Status.WARN
            words = f"its SAS lacks the permission `{word}` (`{letter}`); it has {facts.words()}"
            yield Check(f"store {name} {word}", status, words, mend)


def _sas_left(session: Session, name: str) -> str:
    from gofer.ops.data.store_facts import time_left

    store: Store = session.store(name)
    left = time_left(getattr(store, "sas_expires_at", None))
    return f"; its SAS has {left} left" if left else ""
