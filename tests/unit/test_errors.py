from __future__ import annotations

import inspect
import pickle

import pytest

from retrieval_client import errors

ON_THE_WIRE = {
    "InvalidJob",
    "NotAuthorised",
    "Unavailable",
    "TimedOut",
    "DeadLettered",
    "SettingsError",
    "InternalError",
}
CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.RetrievalError)]


def test_the_tree_is_the_contract_s_list() -> None:
    """Every class below the root is an `exc_type` of the contract, and the other way round."""
    assert {cls.__name__ for cls in CLASSES} - {"RetrievalError"} == ON_THE_WIRE


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_survives_the_way_between_processes(cls: type[errors.RetrievalError]) -> None:
    """Pickled and rebuilt, as prefork does, it is the same class with the same one sentence."""
    error = pickle.loads(pickle.dumps(cls("one readable sentence")))  # noqa: S301 -- our own bytes
    assert (type(error), error.message, str(error)) == (cls, "one readable sentence", "one readable sentence")
    assert error.args == ("one readable sentence",)


def test_an_invalid_job_names_its_path_once() -> None:
    """The sentence on the wire starts with the path; both parts stay available."""
    error = errors.InvalidJob("expected an integer", "filters.pages[0]")
    assert error.args == ("filters.pages[0]: expected an integer",)
    assert (error.path, error.expected) == ("filters.pages[0]", "expected an integer")
