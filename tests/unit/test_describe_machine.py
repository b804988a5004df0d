"""What the script says of a machine becomes a description, whatever else a login prints."""

from __future__ import annotations

from gofer.transport.describe_machine import Partition, parse

SITE = """\
Welcome to the lab! gofer-says nothing here
gofer-says python python3 3.6.8
gofer-says python /usr/local/bin/python3 3.12.1
gofer-says python ~/anaconda3/bin/python 3.7.2
gofer-says host login1
gofer-says cpus 64
gofer-says memory 527433416
gofer-says home /home/me
gofer-says disk nas:/home nfs4 1024 512 512 50% /home
gofer-says slurm yes
gofer-says partition gpu*|up|10|64|gpu:a100:8(S:0-1)|1-00:00:00
gofer-says partition gpu*|up|2|32|gpu:v100:4|1-00:00:00
gofer-says partition cpu|down|30|128|(null)|infinite
gofer-says partition sinfo: error: something
gofer-says account vision
gofer-says account nlp
gofer-says end done
"""


def test_a_site_of_slurm() -> None:
    found = parse(SITE)
    assert found.pythons == (("/usr/local/bin/python3", "3.12.1"),)
    assert found.old_python == "3.6.8"
    assert (found.host, found.cpus, found.memory_mib, found.gpus) == ("login1", 64, 515071, ())
    assert (found.home, found.disk, found.has_shared_home) == ("/home/me", "nfs4", True)
    assert found.partitions == (
        Partition("gpu", True, True, 12, "64", {"a100": 8, "v100": 4}, "1-00:00:00"),
        Partition("cpu", False, False, 30, "128", {}, "infinite"),
    )
    assert found.accounts == ("vision", "nlp")


def test_a_machine_that_has_little() -> None:
    found = parse("gofer-says host box\ngofer-says end done\n")
    assert (found.pythons, found.old_python, found.cpus, found.disk) == ((), None, 0, "")
    assert not found.has_slurm and not found.has_shared_home
