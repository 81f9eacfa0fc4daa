"""The workbench of retrieval-worker: what measures, sets up, shows and describes a worker, and a service never loads.

It stands above `worker`, which imports nothing of it. Read in this order:

1. `schemas`: the wire contract as documents, from the types.
2. `devstack`: servers and workers on one machine. `demo`: jobs on them.
3. `adoption`, `starter_files`: settings, for tables that are there and to begin with.
4. `evaluation`: measures of retrieval. `calibration`: the search width of a corpus. `core`: the pure parts of both.
5. `commands`: the commands of these. `main`: the whole command line, with the commands of `worker.cli`.
"""
