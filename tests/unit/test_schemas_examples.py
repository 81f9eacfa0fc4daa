"""The wire contract's examples: valid, parsed by the worker, and true."""

from __future__ import annotations

import importlib
import tomllib

import jsonschema
import pytest
from pydantic import TypeAdapter

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import hash_chunk
from workbench.schemas import examples, objects
from workbench.schemas.envelopes import ENVELOPES
from worker import client
from worker.core.ranking import vectors
from worker.jobs import principal
from worker.jobs.principal import identify
from worker.settings import from_values
from worker.settings.base import config_folder

SCHEMAS = objects.schemas()
EXAMPLES = examples.examples()


def test_every_schema_has_an_example():
    """There is an example of every object."""
    assert {schema for schema, _ in EXAMPLES.values()} == set(SCHEMAS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_valid(name):
    """Every example is valid against its schema."""
    schema, value = EXAMPLES[name]
    jsonschema.Draft202012Validator(SCHEMAS[schema]).validate(value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_parses(name):
    """Every example parses through the project's own types."""
    schema, value = EXAMPLES[name]
    jobs = {f"{task.name}.job": task.job for task in TASKS}
    results = {f"{task.name}.result": task.answer for task in TASKS}
    if schema in jobs:
        assert parse_job(jobs[schema], value).model_dump(mode="json", exclude_unset=True) == value
    elif schema in results:
        assert TypeAdapter(results[schema]).validate_python(value).model_dump(mode="json") == value
    else:
        assert ENVELOPES[schema].model_validate(value)


@pytest.mark.parametrize("name", [name for name, (schema, _) in EXAMPLES.items() if schema == "retrieve_top_k.job"])
def test_example_embeddings_decode(name):
    """An example's first embedding is one that the worker can search for."""
    job = EXAMPLES[name][1]
    query = job["query_embedding"] if "query_embedding" in job else job["query_embeddings"][0]
    assert vectors.decode(query).shape == (768,)


def test_example_embedding_is_what_the_client_encodes():
    """The examples' vector, made without Celery or NumPy, is as the client would encode it."""
    assert examples.example_embedding() == client.encode_embedding(i % 17 / 8 - 1 for i in range(768))


def test_batch_example_fails_as_the_worker_says():
    """The failed query of the batch result is the batch job's second, in the worker's words."""
    with pytest.raises(InvalidJob) as refused:
        vectors.decode(EXAMPLES["retrieve_top_k.job.batch"][1]["query_embeddings"][1], "query_embeddings[1]")
    error = EXAMPLES["retrieve_top_k.result.batch"][1]["results"][1]["error"]
    assert error == {"type": "InvalidJob", "path": refused.value.path, "message": refused.value.message}


def test_failure_example_is_what_the_worker_says():
    """The failure's sentence is the worker's for a job with such a mistake."""
    with pytest.raises(InvalidJob) as refused:
        parse_job(RetrieveTopK, {**EXAMPLES["retrieve_top_k.job"][1], "filters": {"pages": ["3"]}})
    error = EXAMPLES["failure"][1]["result"]
    assert error["exc_type"] == type(refused.value).__name__
    assert error["exc_message"] == [refused.value.message]
    assert getattr(importlib.import_module(error["exc_module"]), error["exc_type"]) is type(refused.value)


def test_token_example_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the example is good for its job under the example's task id, and for no other job."""
    values = tomllib.loads((config_folder() / "worker.toml").read_text())
    values |= {"database_connection_string": "postgresql:///", "broker_url": "redis://localhost"}
    # The example must not end; a real one would be refused for that.
    monkeypatch.setattr(principal, "MAX_TOKEN_SECONDS", 10**10)
    settings = from_values({**values, "token_keys": {"example": examples.EXAMPLE_KEY}})
    raw = EXAMPLES["retrieve_top_k.job.token"][1]
    job = parse_job(RetrieveTopK, raw)
    asker = identify(job, raw, task="retrieve_top_k", task_id=examples.EXAMPLE_ID, settings=settings)
    assert asker is not None
    assert asker.claims == {"user_id": "u1", "tenant_id": "t1", "roles": ("editor",)}
    with pytest.raises(Exception, match="args_sha256 differs"):
        identify(job, {**raw, "k": 11}, task="retrieve_top_k", task_id=examples.EXAMPLE_ID, settings=settings)


def test_chunk_hashes_of_the_examples_are_true():
    """An example's chunk hash is the hash of its text, and its similarity 1 − its distance."""
    for chunk in EXAMPLES["retrieve_top_k.result"][1]["chunks"]:
        assert chunk["chunk_hash"] == hash_chunk(chunk["text"])
        assert chunk["similarity_score"] == 1 - chunk["distance"]
