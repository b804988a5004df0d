"""The mapped folders of a run: which there are, how each reaches the run, and the credentials of their
stores.

The default mode depends on where the run is. On this machine it is the project's own folder, if it exists.
Otherwise it is the folder in the store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.config.folders import folders_of
from gofer.config.sections import NAME_PATTERN
from gofer.core import folder_modes
from gofer.core.store_spec import IdentitySpec, StoreSpec
from gofer.errors import CheckFailed, ConfigError
from gofer.model.job import JobFolder
from gofer.ops.messages import Message
from gofer.storage.base import Delegates, OnDisk

if TYPE_CHECKING:
    from gofer.config.folders import MappedFolder
    from gofer.config.sections import StorePlace
    from gofer.ops.session import Session
    from gofer.storage.base import Store


def of_target(session: Session, target: str, *, local: bool) -> dict[str, JobFolder]:
    """The folders of every run on the target; ConfigError or CheckFailed for one that cannot be provided.

    Tells the person about `read_only` folders to which nothing refuses a write: only root can mount a folder
    read-only.
    """
    found = folders_of(session.settings, target)
    folders = {name: _folder(session, folder.check(), local=local) for name, folder in found.items()}
    service_mounts = registry.capabilities_of(session.settings.target(target)).mounts_folders
    for name, folder in folders.items():
        can_mount = local and os.geteuid() == 0
        if folder.read_only and _is_folder_itself(folder) and not can_mount:
            what = f"`{folder.here}`" if folder.here else "the store's folder"
            session.emit(
                Message(
                    f"`read_only` of the folder `{name}` refuses no write: runs have {what} itself; "
                    "`mode: copy` gives them a copy that is protected"
                )
            )
        if folder.options and service_mounts and folder.store.startswith("az://"):
            session.emit(
                Message(
                    f"`options` of the folder `{name}` have no effect: the service of `{target}` mounts it "
                    "with its own; `mode: copy` copies the files before the start"
                )
            )
    return folders


def working_copy(session: Session, place: StorePlace) -> dict[str, JobFolder]:
    """The working copy as a folder whose new files go to the place of a store. UnknownName without such a
    store.
    """
    url = session.settings.store(place.store).url
    path = place.path.strip("/")
    return {folder_modes.WORKING_COPY: JobFolder(store=url, path=path, mode=folder_modes.UPLOAD)}


def _is_folder_itself(folder: JobFolder) -> bool:
    """Whether runs find a folder of a disk, where a write is up to the permissions of the files."""
    if folder.mode == folder_modes.LINK:
        return True
    return folder.mode == folder_modes.MOUNT and folder.store.startswith("file://")


def check(session: Session, folders: Mapping[str, JobFolder], *, local: bool) -> None:
    """CheckFailed when a folder of a record can no longer be provided. `local` runs make their mounts
    themselves.
    """
    for name, folder in folders.items():
        if folder.mode == folder_modes.LINK and not os.path.isdir(folder.here or ""):
            raise CheckFailed(
                f"the folder `{name}` of the run was `{folder.here}`, which does not exist here",
                hint="`gofer submit` uses the present settings of folders",
            )
        if folder.mode == folder_modes.MOUNT and local:
            _check_mount(session, name, folder.store)


def specs(
    session: Session,
    folders: Mapping[str, JobFolder],
    *,
    expires_s: float,
    identity: IdentitySpec | None = None,
) -> dict[str, StoreSpec]:
    """The store settings, with credentials, of each folder that is in a store, for `RunSecrets`.

    `identity` is the identity of the nodes: see `gofer.storage.base.Delegates`.
    """
    return {
        name: _spec(session.store(folder.store), name, folder, expires_s, identity)
        for name, folder in folders.items()
        if folder.mode != folder_modes.LINK
    }


def _folder(session: Session, folder: MappedFolder, *, local: bool) -> JobFolder:
    if not re.fullmatch(NAME_PATTERN, folder.name):
        raise ConfigError(
            f"the folder `{folder.name}` cannot be placed beside the code of a run", where=folder.place.where
        )
    url = session.settings.store(folder.store).url
    here = folder.root / folder.name
    if os.path.lexists(here) and not here.is_dir():
        raise CheckFailed(
            f"`{folder.name}` is a mapped folder ({folder.place.where}), and `{here}` is not a folder",
            hint="give one of them another name",
        )
    if folder.mode is None and local and here.is_dir():
        return JobFolder(
            store=url, path=folder.path, mode=folder_modes.LINK, here=str(here), read_only=folder.read_only
        )
    mode = _mode(session, folder, url, local=local)
    options = folder.options if mode == folder_modes.MOUNT else ()
    return JobFolder(store=url, path=folder.path, mode=mode, read_only=folder.read_only, options=options)


def _mode(session: Session, folder: MappedFolder, url: str, *, local: bool) -> str:
    if not local:
        return folder.mode or folder_modes.MOUNT
    if folder.mode is None:
        return folder_modes.COPY if _mount_problem(session, url) else folder_modes.MOUNT
    if folder.mode == folder_modes.MOUNT:
        _check_mount(session, folder.name, url)
    return folder.mode


def _check_mount(session: Session, name: str, url: str) -> None:
    problem = _mount_problem(session, url)
    if problem:
        raise CheckFailed(
            f"the folder `{name}` cannot be mounted: {problem}",
            hint=f"`mode: copy` under `folders: {name}:` copies the files before the start; "
            "or install rclone and fuse3",
        )


def _mount_problem(session: Session, url: str) -> str | None:
    """Why the store cannot be mounted on this machine; None when it can. A store that is a folder here needs
    no mount.
    """
    if url.startswith("file://"):
        return None
    # Few runs mount a folder, and `submit` of the others starts faster without the code that mounts.
    from gofer.node.folders import rclone_mount

    return rclone_mount.problem(session.environ.get("PATH", os.defpath))


def _spec(
    store: Store, name: str, folder: JobFolder, expires_s: float, identity: IdentitySpec | None
) -> StoreSpec:
    if isinstance(store, OnDisk):
        return {"kind": "file", "root": str(store.path("runs").parent), "prefix": folder.path}
    if isinstance(store, Delegates):
        write = folder.mode != folder_modes.COPY and not folder.read_only
        lent = folder_modes.path_of_all_runs(folder.path)
        spec = store.node_spec(lent, expires_s=expires_s, write=write, identity=identity)
        rest = folder.path[len(lent) :].strip("/")
        return {**spec, "prefix": "/".join(one for one in (spec.get("prefix", ""), rest) if one)}
    if name == folder_modes.WORKING_COPY:
        raise CheckFailed(
            f"`outputs_to` is in {store.url}, which runs cannot reach",
            hint="name a store whose URL begins with `file://`, `az://` or `s3://`",
        )
    raise CheckFailed(
        f"the folder `{name}` is in {store.url}, which runs cannot reach",
        hint="map it to a store whose URL begins with `file://`, `az://` or `s3://`; without a `mode:`, a "
        f"folder `{name}` of the project is used instead",
    )
