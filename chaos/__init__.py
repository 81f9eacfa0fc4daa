"""Shows that no job is lost: real servers and workers, a seeded plan of faults, a ledger and an oracle.

In the order to read it:

`plan` (which faults, when) · `corpus` (rows and who may see them) · `oracle` (the right answers, by brute force) ·
`jobs` (what is asked) · `ledger` (what was submitted, and what became of it) · `proxy`, `servers`, `clocks`, `fleet`
(what is hurt) · `faults`, `aimed` (how) · `sleeping`, `sleepers` (jobs that run just then) · `producer`, `watcher`
(what goes in, what comes out) · `history` (what happened, for `check`, which judges it and knows nothing of these) ·
`stage`, `run` (all of it together) · `recovery` (how long each fault was felt) · `report` and `plot` (the results).
`four_queues` compares `brokers`, one of them `rabbit`. `fuzz`, `latency`, `poison`, `rolling` and `soak` are further
runs on the same parts.
"""
