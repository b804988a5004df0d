"""Slurm's accounting: a private MariaDB and slurmdbd, with an account, a limit and a QOS to look at."""

from __future__ import annotations

import os
import time

from clusters.cells import Cell, call
from clusters.errors import ClusterError, with_logs
from clusters.slurm_conf import CLUSTER, RESEARCH_GPUS, Site, slurmdbd_conf

_TIMEOUT_S = 120.0
_GRANT = """CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@'%' IDENTIFIED BY 'dummy';
GRANT ALL ON slurm_acct_db.* TO slurm@'%';
"""


def start_accounting(site: Site, control: Cell) -> None:
    """Blocks until `sacctmgr` answers and knows the cluster; ClusterError with the logs when it does not."""
    _start_database(site, control)
    conf = site.conf.with_name("slurmdbd.conf")
    conf.touch(mode=0o600)
    conf.write_text(slurmdbd_conf(site))
    logs = site.folder / "logs"
    env = {"SLURM_CONF": str(site.conf)}
    control.start(["slurmdbd", "-D"], log=logs / "slurmdbd.out", env=env)
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            _sacctmgr(site, "add", "cluster", CLUSTER)
            break
        except ClusterError as error:
            if time.monotonic() > deadline:
                database = logs / "mariadbd.out"
                raise with_logs(
                    f"no accounting: {error}", database, logs / "slurmdbd.out", logs / "slurmdbd.log"
                ) from error
            time.sleep(0.1)


def set_limits(site: Site) -> None:
    """After the controller's start, which is what makes GPUs known to the accounting."""
    _sacctmgr(site, "add", "qos", "urgent", "Priority=100")
    _sacctmgr(site, "add", "account", "research", f"Cluster={CLUSTER}", f"GrpTRES=gres/gpu={RESEARCH_GPUS}")
    _sacctmgr(site, "add", "user", "root", "Account=research")
    _sacctmgr(site, "modify", "user", "root", "set", "qos=normal,urgent")


def _start_database(site: Site, control: Cell) -> None:
    data, log = site.folder / "database", site.folder / "logs" / "mariadbd.out"
    grant = site.folder / "etc" / "grant.sql"
    grant.write_text(_GRANT)
    quick = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
    install = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", *quick]
    control.call(*install, timeout_s=120)
    argv = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--init-file={grant}"]
    argv += [f"--port={site.database_port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
    argv += [f"--socket={data}/socket", f"--pid-file={data}/pid", "--innodb-buffer-pool-size=64M"]
    # Durability is of no use to a database that is thrown away.
    argv += ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--skip-log-bin"]
    control.start(argv, log=log)
    deadline = time.monotonic() + _TIMEOUT_S
    # slurmdbd asks once and then sleeps for five seconds.
    while not _listens(control, site.database_port):
        if time.monotonic() > deadline:
            raise with_logs("MariaDB did not start", log)
        time.sleep(0.05)


def _listens(control: Cell, port: int) -> bool:
    try:
        control.call("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    except ClusterError:
        return False
    return True


def _sacctmgr(site: Site, *words: str) -> str:
    return call(
        "sacctmgr", "--immediate", *words, env={**os.environ, "SLURM_CONF": str(site.conf)}, timeout_s=60
    )
