"""Elastic runs: agents that form one group of nodes after another, while nodes are lost and arrive.

A generation is a set of nodes that run together, and it is an attempt of the run: generation 3 writes into
`attempts/3`. When a node is lost, arrives or leaves, the ranks of the generation end and the next one begins,
with new numbers of nodes and ranks. The agents decide this among themselves. What starts agents in place of
lost ones is the cluster: a queue, Slurm, Kubernetes.

    module                contents
    rules                 what a run allows, and the times of the protocol
    records               heartbeats, orders, and the lease: what goes over the lines and into the store
    participant           one agent: finds the leader, keeps its line, takes the lease when the leader is gone
    member                its ranks and its licence to run them
    leader                who is in the next generation, when it begins, and how the run ends
    actions               what these pure parts ask their agent to do
    agent                 the I/O of a participant on one node, in one loop
    generation_process    the child that runs this node's share of one generation: an ordinary attempt
    store_process         the child that reads and writes the store, which may hang
    lease_store           the lease in a folder, or as an object of a store
    line, lines           the TCP lines, and all lines of one agent
    checkpoints           whether the ranks have completed a checkpoint, by their files

The lease is one object in the store, and changes by conditional writes only. It names the leader and the
present generation, so that a generation is committed if and only if its leader still has the lease. All other
messages go over one TCP line between each member and the leader. They state what is so, not what has changed:
a lost or doubled message does no harm.

Why ranks of two generations never run at the same time, whatever is lost, frozen or cut off. No clocks are
compared, only seconds counted:

1. A member may run ranks until `licence_s` after it sent the last heartbeat that the leader has acknowledged.
   Then it kills them. A leader that stops to acknowledge has no ranks in its generation `licence_s` later.
2. The leader begins a generation after every member of the last one has said that its ranks have ended and
   that it will start none of that generation; or has no process left, which a refused connection proves; or
   has been silent for `silent_s` + `margin_s`, which is more than `licence_s`.
3. A leader acknowledges only while it has authority: it has renewed the lease within `authority_s`, or, while
   the store is away, it has heard from every member of its generation within `in_touch_s`.
4. Another agent takes the lease after it has seen it unchanged for `unchanged_s`, which is more than
   `authority_s`, and has heard nothing of the leader for `in_touch_s`. If it is a member of the generation,
   the old leader has missed it by then and has no authority. So `takeover_s`, more than `licence_s`, later no
   rank of the old generation runs. A newcomer cannot conclude this, and waits `stranger_s` for members that
   it cannot reach: a leader without the store gives up after `store_patience_s`.
5. A machine that was suspended looks at its clock before it reads anything.

What a cluster's own part has to construct, in the program that it starts on each node: an `ElasticContext`,
a `Watch`, and an `ElasticAgent` of both, and call `run`. `gofer.queue.elastic_share` does it for the queue
of a machine. For a pod, the context has an `ObjectLease` over the run's objects, in the folder of its
messages; the address of the pod; the key from the run's private values (`ELASTIC_KEY`), taken out of what
ranks get; a folder that the uploader sends as `store`; and a `make_node` that returns the `Node` of a
`NodePlace`, with its code staged in a folder of its own for each generation. The cluster replaces agents
that die, and `run` of the new one joins. SIGTERM to the agent is a notice that the node is taken back. When
`run` returns, the lease has the outcome in `over`: one program, that of the leader or of the cluster,
writes the line of the run's end. Still to do for pods: uploads of an older generation have to be kept from
replacing files of a newer one.
"""
