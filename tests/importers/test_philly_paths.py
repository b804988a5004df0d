"""The absolute paths that code of Philly used, on a node."""

from __future__ import annotations

import subprocess
from pathlib import Path

from unit.importers.printed import PHILLY
from unit.importers.shop import Shop, tree

ACCOUNT = "account_name: a\ncontainer_name: b\nsas_token: ?x\n"


def test_paths_below_the_mount_point_lead_to_the_folders_where_they_may(shop: Shop, tmp_path: Path) -> None:
    point = tmp_path / "a blob"
    shop.put("aux_data/configs/vigeastblob_account.yaml", ACCOUNT)
    shop.put("philly_vc.yaml", PHILLY.replace("/blob", str(point)))
    shop.put("gofer.yaml", "targets:\n  lab: {kind: ssh, hosts: [me@box]}\n")
    setup = str(tree(shop.plan("philly_vc.yaml", name="lab"))["targets"]["lab"]["job"]["setup"])
    links = setup.partition("run()")[0]
    code = tmp_path / "code"
    for name in ("data", "models", "output"):
        (code / name).mkdir(parents=True)
        (code / name / "mark").write_text(name)

    def prepare() -> str:
        argv = ["bash", "-euo", "pipefail", "-c", links]
        done = subprocess.run(argv, cwd=code, capture_output=True, text=True, timeout=30, check=True)
        return done.stderr

    assert [prepare() for _ in range(2)] == ["", ""]
    assert (point / "jianfw/data/qd_data/mark").read_text() == "data"
    assert (point / "jianfw/work/qd_models/mark").read_text() == "models"
    # A path that cannot be made does not end the run; the log of the set-up says which path to change.
    (point / "jianfw/data/qd_data").unlink()
    (point / "jianfw/data/qd_data").mkdir()
    assert "qd_data cannot be made here: code that names it must name ./data" in prepare()
