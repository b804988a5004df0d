"""Which options of mounted folders reach a run, and what the person reads of those that do not."""

from __future__ import annotations

from pathlib import Path

from gofer.model.job import JobFolder
from gofer.ops.session import Session
from gofer.ops.submission import mapped_folders

SETTINGS = """\
targets:
  cloud: {kind: azureml, workspace: w, resource_group: g, subscription_id: s, compute: c, store: b}
  box: {kind: ssh, hosts: [box]}
stores:
  b: {url: 'az://data', account: acct, key: '${env:K}'}
folders:
  data: {store: b, path: me/data, options: [entry_timeout=9]}
  plain: {store: b, path: me/plain}
"""


def folders_on(folder: Path, target: str, *, local: bool) -> tuple[dict[str, JobFolder], list[str]]:
    (folder / "gofer.yaml").write_text(SETTINGS)
    environ = {"HOME": str(folder / "home"), "K": "a2V5", "PATH": "/bin"}
    messages: list[str] = []
    with Session(folder, environ, emit=lambda message: messages.append(str(message))) as session:
        return mapped_folders.of_target(session, target, local=local), messages


def test_a_service_that_mounts_by_itself_takes_no_options(tmp_path: Path) -> None:
    _, messages = folders_on(tmp_path, "cloud", local=False)
    assert [message for message in messages if "`options` of the folder `data` have no effect" in message]
    assert not [message for message in messages if "`plain`" in message]


def test_a_mount_of_gofer_gets_them(tmp_path: Path) -> None:
    folders, messages = folders_on(tmp_path, "box", local=False)
    assert folders["data"].options == ("attr-timeout=9s",)
    assert folders["plain"].options == ()
    assert messages == []


def test_a_folder_of_the_project_needs_none(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    folders, messages = folders_on(tmp_path, "local", local=True)
    assert (folders["data"].mode, folders["data"].options) == ("link", ())
    assert messages == []
