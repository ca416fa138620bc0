"""Worker processes: each runs a gateway for some of the sandboxes, and a supervisor keeps them alive.

The supervisor holds a descriptor of every listener. So while a worker is down, its sandboxes' ports stay taken,
connections wait to be accepted, and nothing else can answer them: the sandboxes are closed, not open. And what is
wanted of a sandbox does not depend on its worker's goodwill: one that does not listen is replaced (`keeper`).

`supervisor.Workers` is what others use; `worker` is the program that it starts.
"""
