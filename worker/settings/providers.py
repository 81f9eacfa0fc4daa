"""Settings of models and of other services: embedder, language model, reranker, remote sources, prices."""

from __future__ import annotations

import os
import re
from decimal import Decimal
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import jmespath
from jmespath.functions import Functions
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from worker.settings.base import Seconds, Section


def _expression(text: str) -> str:
    try:
        nodes = [jmespath.compile(text).parsed]
    except jmespath.exceptions.JMESPathError:
        raise ValueError("expected a JMESPath expression") from None
    # An unknown function would only be noticed when an answer reaches it.
    for node in nodes:
        if isinstance(node, dict):
            if node["type"] == "function_expression" and node["value"] not in Functions.FUNCTION_TABLE:
                raise ValueError(f"JMESPath has no function {node['value']}")
            nodes += node["children"]
    return text


def _from_environment(value: Any) -> Any:
    """A header's value, of which `env:NAME` at the end stands for a variable."""
    named = re.fullmatch(r"(.* )?env:(\w+)", value) if isinstance(value, str) else None
    if named is None:
        return value
    if not os.environ.get(named[2]):
        raise ValueError(f"the variable {named[2]} is missing")
    return (named[1] or "") + os.environ[named[2]]


def _sendable(name: str) -> str:
    # `Host` would ask another site than the one that was checked; the others belong to the connection.
    if name.lower() in {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}:
        raise ValueError("expected another header")
    return name


def _printable(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[ -~]+", value.get_secret_value()):
        raise ValueError("expected printable ASCII characters")
    return value


JMESPath = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_expression)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$"), AfterValidator(_sendable)]
MaxBytes = Annotated[int, Field(ge=1000, le=100_000_000)]
HeaderValue = Annotated[SecretStr, BeforeValidator(_from_environment), AfterValidator(_printable)]


class EmbedderSettings(Section):
    """Where text becomes vectors: for the command line, and for jobs that carry text."""

    kind: Literal["lexical", "openai"] = "lexical"
    model: str = "text-embedding-3-small"
    version: str = "1"
    base_url: str | None = None
    api_key: SecretStr | None = None
    send_dimensions: bool = True
    batch_size: int = Field(64, ge=1, le=2048)
    timeout_seconds: Seconds = 30.0
    max_retries: int = Field(2, ge=0, le=10)
    max_bytes: MaxBytes = 20_000_000


class LanguageModelSettings(Section):
    """What answers questions, words queries anew, and judges passages."""

    kind: Literal["none", "openai"] = "none"
    api: Literal["responses", "chat"] = "responses"
    model: str = "gpt-5-mini"
    base_url: str | None = None
    api_key: SecretStr | None = None
    max_output_tokens: int = Field(1024, ge=16, le=100_000)
    tokenizer: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    timeout_seconds: Seconds = 30.0
    max_retries: int = Field(2, ge=0, le=10)
    max_bytes: MaxBytes = 10_000_000


class PriceSettings(Section):
    """What a million tokens of a model cost, or a million search units, as decimal numbers."""

    input: Decimal | None = Field(None, ge=0)
    output: Decimal = Field(Decimal(0), ge=0)
    cached_input: Decimal | None = Field(None, ge=0)
    search_unit: Decimal | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _is_a_price(self) -> PriceSettings:
        if self.input is None and self.search_unit is None:
            raise ValueError("expected input or search_unit")
        return self


class RerankerSettings(Section):
    """What rereads candidates, for profiles that rerank over HTTP or in this process."""

    url: str | None = None
    model: str = ""
    api_key: SecretStr | None = None
    timeout_seconds: Seconds = 10.0
    max_retries: int = Field(1, ge=0, le=10)
    max_bytes: MaxBytes = 10_000_000


class RemoteFields(Section):
    """Where a result's parts are: JMESPath expressions, applied to each result."""

    title: JMESPath = "title"
    url: JMESPath = "url"
    snippet: JMESPath = "snippet"
    score: JMESPath | None = None
    date: JMESPath | None = None
    metadata: JMESPath | None = None


class RemoteSettings(Section):
    """A service that finds things elsewhere: asked by one GET, answers JSON."""

    url: str = Field(max_length=2000)
    hosts: list[str] = []
    headers: dict[HeaderName, HeaderValue] = {}
    items: JMESPath = "@"
    fields: RemoteFields = RemoteFields()
    max_items: int = Field(5, ge=1, le=50)
    max_bytes: MaxBytes = 1_000_000
    timeout_seconds: Seconds = 5.0
    allow_private: list[str] = []

    @field_validator("url")
    @classmethod
    def _is_a_template(cls, url: str) -> str:
        try:
            parts, _ = urlsplit(url), urlsplit(url).port
        except ValueError:
            raise ValueError("expected a URL") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.fragment:
            raise ValueError("expected an http or https URL")
        if parts.username is not None or parts.password is not None:
            raise ValueError("expected no password in it; put it into headers")
        # Elsewhere a question could choose the host or the path.
        if "{query}" not in parts.query or re.search(r"[{}]", parts.netloc + parts.path):
            raise ValueError("expected {query}, and {k} if there is one, behind the question mark")
        if re.search(r"[{}]", parts.query.replace("{query}", "").replace("{k}", "")):
            raise ValueError("expected no other placeholders than {query} and {k}")
        return url

    @field_validator("hosts", "allow_private")
    @classmethod
    def _lower(cls, names: list[str]) -> list[str]:
        return [name.lower() for name in names]

    @model_validator(mode="after")
    def _its_own_host_is_allowed(self) -> RemoteSettings:
        if self.hosts and urlsplit(self.url).hostname not in self.hosts:
            raise ValueError("hosts: expected the url's host among them")
        return self
