"""The files that configure one Slurm cluster, as text. Pure: nothing here looks at the machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CPUS = 16
GPUS = 4
MEMORY_MIB = 64_000
CLUSTER = "lab"
# The limit of the account `research`, of the 12 GPUs there are.
RESEARCH_GPUS = 8

# The same for every cluster. Without DefMemPerCPU a job takes all memory of a node. The nodes have more CPUs
# than the machine, which is what config_overrides allows.
_BEHAVIOUR = (
    "SlurmctldDebug=info",
    "SlurmdDebug=info",
    "MpiDefault=none",
    "ReturnToService=2",
    "SlurmdParameters=config_overrides",
    "SchedulerType=sched/backfill",
    "SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_Core_Memory",
    "GresTypes=gpu",
    "JobRequeue=1",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    "KillWait=6",
    "SlurmctldTimeout=30",
    "MaxArraySize=10001",
    "MaxJobCount=20000",
    "DefMemPerCPU=500",
)


@dataclass(frozen=True)
class Node:
    """One of the nodes: its name is its host name too."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Site:
    """All that tells one cluster from another."""

    folder: Path
    control: str
    control_address: str
    control_port: int
    nodes: tuple[Node, ...]
    cgroups: bool
    namespaces: bool
    accounting_port: int = 0
    database_port: int = 0

    @property
    def conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge" / "munge.sock"

    def hosts(self) -> str:
        """What a node finds in its /etc/hosts."""
        known = [(self.control_address, self.control), *((node.address, node.name) for node in self.nodes)]
        return "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in known)


def slurm_conf(site: Site) -> str:
    lines = [
        *_identity(site),
        *_files(site.folder),
        *_BEHAVIOUR,
        f"ProctrackType=proctrack/{'cgroup' if site.cgroups else 'linuxproc'}",
        f"TaskPlugin=task/{'cgroup' if site.cgroups else 'none'}",
        # Nodes that can be cut off are missed quickly, at the price of some patience under load.
        f"SlurmdTimeout={10 if site.namespaces else 60}",
        f"MessageTimeout={10 if site.namespaces else 15}",
        *_accounting(site),
        *(_node(node) for node in site.nodes),
        *_partitions([node.name for node in site.nodes]),
    ]
    return "\n".join(lines) + "\n"


def gres_conf(site: Site) -> str:
    names = ",".join(node.name for node in site.nodes)
    last = GPUS - 1
    return f"AutoDetect=off\nNodeName={names} Name=gpu Type=a100 File={site.folder}/dev/nvidia[0-{last}]\n"


def cgroup_conf() -> str:
    """Cores are not confined: there are fewer than the nodes claim."""
    return """CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainDevices=yes
"""


def slurmdbd_conf(site: Site) -> str:
    return f"""AuthType=auth/munge
AuthInfo=socket={site.munge_socket}
DbdHost={site.control}
DbdAddr=127.0.0.1
DbdPort={site.accounting_port}
SlurmUser=root
DebugLevel=info
LogFile={site.folder}/logs/slurmdbd.log
PidFile={site.folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={site.database_port}
StorageLoc=slurm_acct_db
StorageUser=slurm
StoragePass=dummy
"""


def _identity(site: Site) -> list[str]:
    """A requeued job waits `cred_expire` seconds (Slurm's default: two minutes)."""
    return [
        f"ClusterName={CLUSTER}",
        f"SlurmctldHost={site.control}({site.control_address})",
        f"SlurmctldPort={site.control_port}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={site.munge_socket},cred_expire=5",
        "CredType=cred/munge",
    ]


def _files(folder: Path) -> list[str]:
    return [
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/spool/%n.pid",
        f"SlurmctldLogFile={folder}/logs/slurmctld.log",
        f"SlurmdLogFile={folder}/logs/%n.log",
        "JobCompType=jobcomp/filetxt",
        f"JobCompLoc={folder}/logs/jobs.txt",
    ]


def _accounting(site: Site) -> list[str]:
    """Without accounting `squeue` soon forgets a job that ended. With a private munge socket and no
    AccountingStoragePass, every client hangs."""
    if not site.accounting_port:
        return ["MinJobAge=5", "AccountingStorageType=accounting_storage/none"]
    return [
        "MinJobAge=300",
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={site.control_address}",
        f"AccountingStoragePort={site.accounting_port}",
        f"AccountingStoragePass={site.munge_socket}",
        "AccountingStorageEnforce=limits,qos",
        "AccountingStorageTRES=gres/gpu,gres/gpu:a100",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=2",
    ]


def _node(node: Node) -> str:
    return (
        f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address} Port={node.port}"
        f" CPUs={CPUS} Boards=1 SocketsPerBoard=1 CoresPerSocket={CPUS} ThreadsPerCore=1"
        f" RealMemory={MEMORY_MIB} Gres=gpu:a100:{GPUS} Feature=a100,lab"
    )


def _partitions(names: list[str]) -> list[str]:
    """Jobs of `spare` give way to those of the others, which never give way."""
    everywhere = f"Nodes={','.join(names)} State=UP"
    return [
        f"PartitionName=gpu {everywhere} Default=YES MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF",
        f"PartitionName=short {everywhere} DefaultTime=1 MaxTime=5 PriorityTier=10 PreemptMode=OFF",
        f"PartitionName=spare {everywhere} MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE",
    ]
