"""Postgres, Redis, a worker and Flower for one machine: no root, no fixed ports, nothing left running.

Used by the demo, ``retrieval-worker up``, the tests and the benchmarks. Every server is a child process, stopped by its
own pid.
"""
