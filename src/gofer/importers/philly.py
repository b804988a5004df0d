"""`philly_vc.yaml` and `multi_philly_vc.yaml` of quickdetection.

The service Philly has ended, so the files name no place to run. The list of clusters becomes a group of
targets. The folders, their accounts and the defaults of jobs go to each target of the list, or to the target
that the person names.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from gofer.core.launch import MPIRUN
from gofer.errors import ConfigError
from gofer.importers.accounts import import_account, missing_file
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import named_file, project_of, read_foreign
from gofer.importers.keys import Sheet, SheetKeys
from gofer.importers.node_setup import node_setup
from gofer.importers.target_store import CodeArchive, choose_store
from gofer.model.mount_options import MountOptions, parse_mount_options

GROUP = "philly"
COMPILE_SCRIPT = "compile.philly.sh"
_GONE = "Philly is gone"
_NO_PASSWORD = (
    f"{_GONE}: neither this nor `PHILLY_PASSWORD` is needed, since a target has its own login; take a "
    "password out of the file"
)
# What a job got that did not say how many.
_GPUS = 4
_DROPPED = {
    "vc": f"{_GONE}, and its virtual clusters with it",
    "cluster": f"{_GONE}, and its clusters with it",
    "user_name": f"{_GONE}; a target's own login is used",
    "isDebug": "`gofer ssh RUN` opens a shell in any run",
    "dry_run": "`gofer submit --dry-run` does this",
}


# A node has the old paths where its user may make them, as root in a container may. Elsewhere the run
# continues: its code may well use the folders beside it.
_LINK = """\
# Philly had its folders below a mount point; these paths lead to where they are now.
link() {
  { mkdir -p "$(dirname "$2")" && { [ -e "$2" ] || rm -f "$2"; }; } 2> /dev/null || true
  [ "$1" -ef "$2" ] || ln -sT "$(readlink -f "$1")" "$2" 2> /dev/null ||
    echo "$2 cannot be made here: code that names it must name $1" >&2
}
"""
# The one folder that was called otherwise beside the code.
_FOLDERS = {"model_folder": "models"}


class _Mount(NamedTuple):
    """Where an account was mounted. `row` is what the file says of it."""

    row: SheetKeys
    point: str
    store: str | None
    problem: str
    read_only: bool
    options: MountOptions

    def holds(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self.point.rstrip('/')}/")

    def inner(self, path: str) -> str:
        """Where in the account a path below the mount point is; empty for the mount point itself."""
        return path.removeprefix(self.point.rstrip("/")).strip("/")


def import_philly(draft: ImportDraft, path: Path, name: str | None) -> None:
    """Folders, a store and defaults of jobs for the target `name`, its kind left open; without a name, for
    each target of the group that the list of clusters became.

    ConfigError without a name and a list.
    """
    keys = draft.sheet(Sheet(read_foreign(path)))
    listed = list(dict.fromkeys(one for names in draft.target_groups.values() for one in names))
    targets = [safe_name(name)] if name else listed
    if not targets:
        raise ConfigError(
            f"{_GONE}, so the settings in this file need a target to go to",
            where=keys.place.where,
            hint="name it: `gofer config import FILE --as NAME`",
        )
    mounts = _mounts(draft, keys, project_of(path, draft.folder))
    why = "gofer sends the code of each run to the target's store by itself"
    keys.inner("config_param").dropped("code_path", why)
    for target in targets:
        _import_target(draft, keys, target, mounts)
    _drop(draft, keys)
    names = ", ".join(f"`{one}`" for one in targets)
    draft.note(
        f"{_GONE}: cluster, virtual cluster, login and image of `{path.name}` are not carried; its folders "
        f"and job defaults go to the target{'s' * (len(targets) > 1)} {names}"
    )


def _import_target(draft: ImportDraft, keys: SheetKeys, target: str, mounts: list[_Mount]) -> None:
    folders = _folders(keys, target, mounts)
    entry: Entry = {"folders": dict(folders)} if folders else {}
    entry |= _store(draft, keys, target, _code_place(keys, mounts, folders))
    job: Entry = {"rank_variables": MPIRUN}
    many, gpus = keys.boolean("multi_process"), keys.number("num_gpu")
    if many is not None:
        job["multi_process"] = many
        keys.shared("multi_process", f"targets.{target}.job.multi_process")
    job["gpus"] = _GPUS if gpus is None else gpus
    keys.shared("num_gpu", f"targets.{target}.job.gpus")
    script = _link_lines(keys, folders) + node_setup(COMPILE_SCRIPT, as_root=False)
    if draft.add_setup(target, job, script):
        draft.note(
            f"runs on `{target}` install `requirements.txt` and run `{COMPILE_SCRIPT}` first, where there is "
            f"one, as on Philly; without `targets.{target}.job.setup` they do not"
        )
    entry["job"] = job
    draft.extend_target(target, entry)


def _link_lines(keys: SheetKeys, folders: dict[str, Entry]) -> str:
    """Lines of a set-up that let the older absolute paths lead to the folders; none without folders."""
    params = keys.inner("config_param")
    paths = {_folder_name(key): params.text(key) or "" for key in params if key.endswith("_folder")}
    lines = [f"link {quote(f'./{name}')} {quote(paths[name].rstrip('/'))}\n" for name in folders]
    return _LINK + "".join(lines) if lines else ""


def _folder_name(key: str) -> str:
    return _FOLDERS.get(key) or safe_name(key.removesuffix("_folder"))


def import_clusters(draft: ImportDraft, path: Path, group: str) -> None:
    """The list of clusters as a group of targets."""
    keys = draft.sheet(Sheet(read_foreign(path)))
    names = list(dict.fromkeys(safe_name(one) for one in keys.texts("clusters")))
    if names:
        draft.add_group(group, names)
        why = f"`-c {group}` is all of them where runs are looked up, and `-c {names[0]}` is one"
        keys.changed("clusters", f"target_groups.{group}", why)


def _drop(draft: ImportDraft, keys: SheetKeys) -> None:
    for key, why in _DROPPED.items():
        if key in keys:
            keys.dropped(key, why)
    if "password" in keys:
        draft.forget(keys, "password", _NO_PASSWORD)
    for key in ("docker", "docker_tag"):
        if key in keys:
            keys.dropped(key, f"the image lay in Philly's own registry. {_GONE}; name another as `image`")


def _mounts(draft: ImportDraft, keys: SheetKeys, root: Path) -> list[_Mount]:
    """The mount points, the longest first, with their stores."""
    rows = [*keys.rows("blob_mount_info"), *([keys] if "blob_mount_point" in keys else [])]
    found = []
    for row in rows:
        point = "/" + (row.text("blob_mount_point") or "").strip("/")
        account = row.text("azure_blob_config_file")
        store, problem = None, "no account file is named"
        if account is not None:
            path = named_file(root, account)
            store, problem = import_account(draft, path), missing_file(path)
        row.dropped("blob_mount_point", "a folder is `./NAME` beside the code, wherever the run is")
        if store:
            row.changed("azure_blob_config_file", f"stores.{store}", "the account is a store")
        else:
            row.dropped("azure_blob_config_file", problem)
            draft.note(problem)
        words = row.texts("blob_fuse_options")
        mount = _Mount(row, point, store, problem, _is_read_only(words), parse_mount_options(words))
        row.dropped("blob_fuse_options", _left_out(mount) or "no folder of a run is below the mount point")
        found.append(mount)
    return sorted(found, key=lambda one: -len(one.point))


def _is_read_only(options: list[str]) -> bool:
    """Whether `ro` is among the options of the mount: `-o ro`, `-oro`, `-o=ro`, alone or between commas."""
    words = " ".join(options).split()
    given = [after for word, after in pairwise([*words, ""]) if word == "-o"]
    given += [word.removeprefix("-o").lstrip("=") for word in words if word.startswith("-o")]
    return any("ro" in one.split(",") for one in given)


def _options_report(mount: _Mount) -> str:
    words = ["`ro` is `read_only`"] if mount.read_only else []
    words += ["`options` are those that rclone knows, as it writes them"] if mount.options.flags else []
    said = f"of the folders below `{mount.point}`, {' and '.join(words)}"
    left = _left_out(mount)
    return f"{said}; left out: {left}" if left else said


def _left_out(mount: _Mount) -> str:
    """The options that are not carried, each with its reason."""
    return "; ".join(f"{one}" for one in mount.options.refused if one.name != "ro" or not mount.read_only)


def _mount_of(path: str, mounts: list[_Mount]) -> _Mount | None:
    return next((one for one in mounts if one.holds(path)), None)


def _code_place(keys: SheetKeys, mounts: list[_Mount], folders: dict[str, Entry]) -> CodeArchive | None:
    """Where the code lay, else the account of a folder that runs wrote to."""
    code = keys.inner("config_param").text("code_path")
    mount = _mount_of(code, mounts) if code else None
    if code and mount and mount.store:
        return CodeArchive(mount.store, mount.inner(code))
    written = [one for one in folders.values() if not one.get("read_only")]
    return CodeArchive(str(written[0]["store"])) if written else None


def _store(draft: ImportDraft, keys: SheetKeys, target: str, place: CodeArchive | None) -> Entry:
    taken = choose_store(draft, target, place)
    if taken.is_beside_code:
        why = "gofer's own folder lies beside it; code goes with each run"
        keys.inner("config_param").shared("code_path", f"targets.{target}.store", why)
    return taken.entry


def _folders(keys: SheetKeys, target: str, mounts: list[_Mount]) -> dict[str, Entry]:
    params = keys.inner("config_param")
    folders: dict[str, Entry] = {}
    for key in params:
        path = params.text(key)
        if path is None:
            continue
        mount = _mount_of(path, mounts)
        if mount is None or mount.store is None:
            why = "it lies in Philly's own file system, which is gone" if path.startswith("/hdfs/") else ""
            params.dropped(key, why or (mount.problem if mount else "it lies below no mount point"))
        elif key.endswith("_folder") and key != "_folder":
            name = _folder_name(key)
            folders[name] = _folder(params, key, f"targets.{target}.folders.{name}", mount)
    return folders


def _folder(params: SheetKeys, key: str, to: str, mount: _Mount) -> Entry:
    folder: Entry = {"store": mount.store or "", "path": mount.inner(params.text(key) or "") or "/"}
    why = f"a store and a path in it; the set-up lets the path below `{mount.point}` lead there where it may"
    if mount.read_only:
        folder["read_only"] = True
        why += ", and `read_only`, as it was mounted"
    if mount.options.flags:
        folder["options"] = list(mount.options.flags)
    if mount.read_only or mount.options.flags:
        mount.row.shared("blob_fuse_options", to.rpartition(".")[0], _options_report(mount))
    params.shared(key, to, why)
    return folder
