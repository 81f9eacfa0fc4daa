"""The client under its former name; new code imports `retrieval_client`."""

from retrieval_client import *  # noqa: F403 -- the same names
from retrieval_client import __all__ as __all__  # noqa: PLC0414 -- re-exported
