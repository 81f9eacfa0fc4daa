"""Entry point of `retrieval-worker` and of `python -m workbench`."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is a handler of ours: Python's would print a stack trace

from worker.cli.signals import end_at_once, handle_ending  # noqa: E402 -- see above


def main() -> None:
    """Run the command line, which takes part of a second to import: a signal ends that without a stack trace."""
    handle_ending(end_at_once)
    from workbench.main import cli  # noqa: PLC0415 -- see above
    from worker.cli.main import run_to_exit  # noqa: PLC0415 -- see above

    run_to_exit(cli)


if __name__ == "__main__":
    main()
