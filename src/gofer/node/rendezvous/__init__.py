"""The rendezvous: how the nodes of an attempt find each other, and notice that a node is gone.

Every cluster has the same interface, `base.Rendezvous`. One object is the part of one node in its run:

    class                  messages are in              made by
    OneMachineRendezvous   the run's folder             the agent of a queue, if all nodes are on its machine
    FolderRendezvous       the run's folder             the agent of a queue, if nodes are on other machines
    SlurmRendezvous        the handoff folder           the agent in a Slurm job; see gofer.node.slurm
    ObjectRendezvous       objects of the run's store   the agent in a job of Azure ML

Callers. The agent makes the rendezvous and gives it to the runner of an attempt, gofer.node.runner. The
runner calls `join` before it stages the code, unless the agent has joined. It calls `wait_until_prepared`
before it starts a command that runs on the first node only, and `has_ended` while such a command runs on
another node. It calls `watch` while ranks run, if `watch_interval_s` is set. The agent publishes the exit
record where the runner's own file does not reach the other nodes, and calls `leave` last.

Blocking. `join`, `wait_until_prepared` and `leave` wait for other nodes. All other methods read or write
small files or objects.

Errors. Where messages are files, OSError. Where they are objects, ObjectsError: methods that wait try again
until the store has been away for minutes, and raise Terminated when the service ends this node meanwhile.

Threads. The main thread of the agent only. An ObjectRendezvous is watched by one child process, which is
forked after `join`: gofer.node.rendezvous.peer_monitor.

A silent peer. Before all nodes are there, `join` gives up after a time limit, so no attempt starts with a
node missing. Later, `watch` names a node that has failed and, in an object store, a node whose heartbeat has
stopped. The runner then stops its ranks. Elsewhere the supervisor or the scheduler notices a dead node.

A generation is a set of nodes that run together. `join` returns the membership of a generation: its number,
the hosts of its nodes, and the port. Another set of nodes is another generation, which every node has to
join. For now a run has exactly one, number 1: when a node is lost, the attempt ends.

Names and contents of the files and objects never change: agents and clients of other versions read them.
"""
