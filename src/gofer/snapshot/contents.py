"""Reads a snapshot from its store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gofer.core.code import manifest
from gofer.core.code.snapshot_names import ManifestError
from gofer.errors import SnapshotError, StoreError
from gofer.node.code import checkout

if TYPE_CHECKING:
    from gofer.core.code.manifest import Differences, Manifest
    from gofer.node.code.checkout import Restored
    from gofer.snapshot.stores import ObjectStore


def load(store: ObjectStore, snapshot_id: str) -> Manifest:
    """The snapshot's files without their contents; SnapshotError when the store does not have all of it."""
    try:
        return manifest.load(store.get_range, snapshot_id)
    except (ManifestError, StoreError) as error:
        raise _unsound(store, snapshot_id, error) from error


def differences(store: ObjectStore, old: str, new: str) -> Differences:
    """The files in which two snapshots of one store differ."""
    return manifest.differences(load(store, old), load(store, new))


def restore(
    store: ObjectStore,
    snapshot_id: str,
    destination: str | os.PathLike[str],
    *,
    times_key: str | None = None,
) -> Restored:
    """Write the files to `destination` as `checkout.restore` does; SnapshotError when it cannot."""
    try:
        return checkout.restore(store.get_range, snapshot_id, destination, times_key=times_key)
    except StoreError as error:
        raise _unsound(store, snapshot_id, error) from error
    except checkout.CheckoutError as error:
        raise SnapshotError(str(error)) from error


def _unsound(store: ObjectStore, snapshot_id: str, error: Exception) -> SnapshotError:
    return SnapshotError(f"cannot read the snapshot {snapshot_id} in {store.url}: {error}")
