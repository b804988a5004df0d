"""The checks of `gofer doctor azure|kubernetes|ssh`: what targets of one kind need, and their stores.

The checks of a kind are in its package of `gofer.backends`. The check of a store writes one small object to
the store and removes it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.backends.kind import CheckContext
from gofer.config.folders import folders_of
from gofer.errors import CheckFailed, GoferError, UsageError
from gofer.model.checks import Check, Status
from gofer.objects.azure_auth import bare_token
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.ops.data.store_check import check_store, store_names, time_left
from gofer.ops.submission.credential_lifetimes import ExpectedDuration
from gofer.storage.credentials import OpenedStore, sas_facts

if TYPE_CHECKING:
    from gofer.config.targets import Target
    from gofer.ops.session import Session
    from gofer.storage.base import Store

_NEEDED = {"r": "read", "w": "write", "d": "delete", "l": "list"}
_WRITING = ("write", "create once", "delete")


def kind_checks(session: Session, word: str, name: str | None = None) -> list[Check]:
    """Run the checks that `gofer doctor WORD` names, one after the other in a fixed order. Blocks while
    services answer. A problem that a check finds becomes a Check.

    With `name`, this target and its stores are checked. Without `name`, all targets of the kind and all
    stores with the URL scheme of the kind are checked. UsageError when no kind has checks named `word`,
    UnknownName when there is no target `name`, CheckFailed when the target is of another kind, ConfigError
    when the settings of a target or store cannot be read.
    """
    known = registry.find_checks(word)
    if known is None:
        raise UsageError(
            f"`gofer doctor {word}` checks nothing",
            hint="`gofer doctor`, or `gofer doctor azure|kubernetes|ssh [TARGET]`",
        )
    kind, checks = known
    targets = _targets(session, kind, name)
    home, logins = str(session.paths.queue_home), Profiles.of(session.environ)
    context = CheckContext(session.environ, home, logins, ExpectedDuration().whole_s)
    found = [*checks.run(targets, context)]
    for store in _stores(session, targets, checks.store_scheme, is_named=name is not None):
        found += _store(session, store, targets)
    return found


def _targets(session: Session, kind: str, name: str | None) -> list[Target]:
    settings = session.settings
    if name is not None:
        found = settings.target(name)
        if found.kind != kind:
            raise CheckFailed(
                f"the target `{name}` is of the kind `{found.kind}`, not `{kind}`",
                hint=f"`gofer doctor -c {name}` checks it",
            )
        return [found]
    known = [settings.target(one) for one in settings.target_names]
    return [target for target in known if target.kind == kind]


# -- stores


def _stores(
    session: Session, targets: list[Target], scheme: str | tuple[str, ...], *, is_named: bool
) -> list[str]:
    """The names of the stores to check. Stores that hold runs come first."""
    wanted = [target.store for target in targets]
    for target in targets:
        wanted += [folder.store for folder in folders_of(session.settings, target.name).values()]
    if not is_named:
        wanted += store_names(session)
    known = [name for name in dict.fromkeys(wanted) if name]
    return [name for name in known if session.settings.store(name).url.startswith(scheme)]


def _store(session: Session, name: str, targets: list[Target]) -> Iterator[Check]:
    """One check if everything is in order, else one for each problem."""
    holds_runs = not targets or any(target.store == name for target in targets)
    found = [*_permissions(session, name, holds_runs=holds_runs)]
    named = {check.name.rpartition(" ")[2] for check in found}
    for check in check_store(session, name):
        if check.status == Status.OK or check.name in named:
            continue
        status, hint = check.status, check.hint
        if check.name in _WRITING and not holds_runs:
            status, hint = (
                Status.WARN,
                f"{hint or 'ask for this permission'}; runs that only read from it do not need this",
            )
        found.append(Check(f"store {name} {check.name}", status, check.detail, hint))
    yield from found
    if not found:
        url = session.settings.store(name).url
        yield Check(
            f"store {name}",
            Status.OK,
            f"listing, writing, reading and deleting work in {url}{_sas_left(session, name)}",
        )


def _permissions(session: Session, name: str, *, holds_runs: bool) -> Iterator[Check]:
    """One check for each permission that is missing in the text of the SAS, or one when the SAS cannot be
    read. Calls no service.
    """
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
    store: Store = session.store(name)
    left = time_left(getattr(store, "sas_expires_at", None))
    return f"; its SAS has {left} left" if left else ""
