"""The whole command line, `retrieval-worker`: the commands of the worker and of the workbench."""

from __future__ import annotations

from workbench.commands import adopt, calibrate, contract, evaluate, init, machine
from worker.cli.commands import dead, inspector, install, jobs, load, pipeline, retention, runs, ui
from worker.cli.main import application

cli = application(
    (
        *(machine.demo, machine.up),
        *(jobs.query, jobs.search, pipeline.ask, jobs.cite, jobs.replay, jobs.feedback),
        *(runs.verify, pipeline.trace, inspector.inspect, ui.ui, inspector.report, evaluate.evaluate, runs.tune),
        *(init.init, install.migrate, adopt.adopt, load.load, install.statistics, install.doctor, retention.prune),
        *(calibrate.calibrate, contract.contract),
    ),
    {"runs": runs.runs, "dead": dead.dead},
)
