"""Misconfigurations as operators make them: `doctor` has one sentence for each, whose mend is then carried out."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from tests.command_line import command_line

from workbench.devstack.postgres import base_backup, postgres_server
from workbench.devstack.redis import Redis, redis_server
from worker.adapters.providers.embedder import make as make_embedder
from worker.cli.doctor import LEAKPROOF, examine
from worker.cli.loader import migrate
from worker.jobs.principal import as_principal
from worker.settings import read_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack
    from worker.adapters.durability import Finding
    from worker.model import Principal
    from worker.settings import Settings


WORKER = "retrieval_worker"


@dataclass(frozen=True)
class Fault:
    """A misconfiguration; in its texts {db} is the database.

    Attributes:
        says: what the one sentence says, as a pattern.
        sql: makes it, as a superuser.
        settings: makes it, in the worker's settings; taken back as its mend.
        corpus: changes of the corpus `docs`.
        mend: SQL that does what the words say; default the commands in the sentence, or the settings taken back.
        undo: puts back what belongs to the server, whatever happens.
        level: `problem` stops the start; `advice` does not.
        also: what else follows from it, as a pattern.
    """

    says: str
    sql: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    corpus: dict[str, Any] = field(default_factory=dict)
    mend: str = ""
    undo: str = ""
    level: str = "advice"
    also: str = "$^"


def of_role(setting: str, value: str, says: str, level: str = "advice") -> Fault:
    """A setting of the worker's role in this database: where it wins over those of role, database and server."""
    return Fault(says, f"ALTER ROLE {WORKER} IN DATABASE {{db}} SET {setting} = {value}", level=level)


def policy(table: str, name: str, condition: str) -> str:
    return f"DROP POLICY {name} ON {table}; CREATE POLICY {name} ON {table} FOR SELECT USING ({condition})"


VISIBLE = policy(
    "public.documents",
    "documents_visible",
    "visibility = 'public' OR owner_id = (SELECT retrieval.asker('app.user_id'))",
)
CHUNKS_VISIBLE = policy(
    "public.document_chunks",
    "chunks_visible",
    "EXISTS (SELECT FROM public.documents d WHERE d.id = document_chunks.document_id)",
)
OPEN = "Every caller sees all of it, or nearly"

FAULTS = {
    # the role and its connections
    "superuser": Fault(
        "is a superuser, .*connect as a role without it",
        f"ALTER ROLE {WORKER} SUPERUSER",
        mend=f"ALTER ROLE {WORKER} NOSUPERUSER",
        undo=f"ALTER ROLE {WORKER} NOSUPERUSER",
        level="problem",
    ),
    "BYPASSRLS": Fault(
        "has BYPASSRLS: connect as a role without it",
        f"ALTER ROLE {WORKER} BYPASSRLS",
        mend=f"ALTER ROLE {WORKER} NOBYPASSRLS",
        undo=f"ALTER ROLE {WORKER} NOBYPASSRLS",
        level="problem",
    ),
    "owner of a table": Fault(
        "owns public.document_chunks .*: connect as another role",
        f"ALTER TABLE public.document_chunks OWNER TO {WORKER}",
        mend="ALTER TABLE public.document_chunks OWNER TO postgres;"
        f"GRANT SELECT ON public.document_chunks TO {WORKER}",
        level="problem",
    ),
    "no connection left for the role": Fault(
        f"no connection is left for this role.*ALTER ROLE {WORKER} CONNECTION LIMIT",
        f"ALTER ROLE {WORKER} CONNECTION LIMIT 0",
        undo=f"ALTER ROLE {WORKER} CONNECTION LIMIT -1",
        level="problem",
        also="Postgres is away",
    ),
    "no right to connect": Fault(
        "GRANT CONNECT ON DATABASE … TO …",
        "REVOKE CONNECT ON DATABASE {db} FROM PUBLIC",
        mend=f"GRANT CONNECT ON DATABASE {{db}} TO {WORKER}",
        level="problem",
    ),
    "pgvector in a schema of its own": Fault(
        "pgvector is in the schema extensions, which the worker's role may not use: GRANT USAGE",
        "CREATE SCHEMA extensions; ALTER EXTENSION vector SET SCHEMA extensions",
        level="problem",
    ),
    "row_security off": of_role("row_security", "off", "row_security is off .*: ALTER ROLE", "problem"),
    "no statement_timeout in this database": of_role("statement_timeout", "0", "has no statement_timeout"),
    "a statement_timeout above the time limits": of_role(
        "statement_timeout", "'1h'", r"has statement_timeout 3600 s, more than worker.time_limit_seconds \(90\)"
    ),
    "a statement_timeout below a search's": of_role(
        "statement_timeout", "'50ms'", "has statement_timeout 0.05 s, less than search.statement_timeout_seconds"
    ),
    "a statement_timeout that nothing is done in": Fault(
        "another session locks a table .*, or the role's time limit is too short: ALTER ROLE … SET statement_timeout$",
        f"ALTER ROLE {WORKER} IN DATABASE {{db}} SET statement_timeout = '1ms'",
        mend=f"ALTER ROLE {WORKER} IN DATABASE {{db}} RESET statement_timeout",
        level="problem",
    ),
    "a search's time limit above a job's": Fault(
        r"search.statement_timeout_seconds \(20\) is not below worker.soft_time_limit_seconds \(15\)",
        settings={"worker": {"soft_time_limit_seconds": 15}},
    ),
    "no lock_timeout": of_role("lock_timeout", "0", "has no lock_timeout"),
    "index scans switched off": of_role("enable_indexscan", "off", "enable_indexscan is off"),
    "writes not waited for": of_role("synchronous_commit", "off", "has synchronous_commit off"),
    "writes not counted": Fault("track_counts is off", "ALTER DATABASE {db} SET track_counts = off"),
    "no autovacuum": Fault(
        "autovacuum is off",
        "ALTER SYSTEM SET autovacuum = off; SELECT pg_reload_conf()",
        undo="ALTER SYSTEM RESET autovacuum; SELECT pg_reload_conf()",
    ),
    # rights
    "no right on the chunks": Fault(
        f"GRANT SELECT ON public.document_chunks TO {WORKER}",
        f"REVOKE SELECT ON public.document_chunks FROM {WORKER}",
        level="problem",
    ),
    "no right on a table that a policy reads": Fault(
        f"a policy of public.document_chunks reads.*GRANT SELECT ON public.document_grants TO {WORKER}",
        f"REVOKE SELECT ON public.document_grants FROM {WORKER}",
        level="problem",
    ),
    "no right on a function that a policy calls": Fault(
        f"GRANT EXECUTE ON FUNCTION retrieval.asker_grantees\\(\\) TO {WORKER}",
        f"REVOKE EXECUTE ON FUNCTION retrieval.asker_grantees() FROM PUBLIC, {WORKER}",
        level="problem",
    ),
    "no right to record": Fault(
        "jobs that record a run fail.*GRANT SELECT, INSERT ON ALL TABLES",
        f"REVOKE INSERT ON ALL TABLES IN SCHEMA retrieval FROM {WORKER}",
    ),
    "no right on the records' schema": Fault(
        f"GRANT USAGE ON SCHEMA retrieval TO {WORKER}",
        f"REVOKE USAGE ON SCHEMA retrieval FROM {WORKER}, PUBLIC",
        level="problem",
    ),
    # row-level security
    "no row-level security": Fault(
        "document_chunks has no row-level security",
        "ALTER TABLE public.document_chunks DISABLE ROW LEVEL SECURITY",
        level="problem",
    ),
    "no policy": Fault(
        "no policy of (public.)?document_chunks lets this role SELECT",
        "DROP POLICY chunks_visible ON public.document_chunks",
        mend=CHUNKS_VISIBLE.split("; ")[1],
    ),
    "no policy of a table that a policy reads": Fault(
        "no policy of documents lets this role SELECT",
        "DROP POLICY documents_visible ON public.documents",
        mend=VISIBLE.split("; ")[1],
    ),
    "a setting that no claim sets": Fault(
        "reads the setting app.tennant_id, to which principal.settings maps no claim",
        policy("public.document_chunks", "chunks_visible", "document_id = current_setting('app.tennant_id', true)"),
        mend=CHUNKS_VISIBLE,
    ),
    "a setting that no claim sets, below": Fault(
        "reads the setting app.uid, to which principal.settings maps no claim",
        policy("public.documents", "documents_visible", "owner_id = current_setting('app.uid', true)"),
        mend=VISIBLE,
    ),
    "a setting that no claim sets, in a function": Fault(
        "reads the setting request.jwt.claims.sub, to which principal.settings maps no claim",
        "CREATE FUNCTION public.uid() RETURNS text LANGUAGE sql STABLE AS"
        " $$SELECT current_setting('request.jwt.claims.sub', true)$$;"
        + policy("public.documents", "documents_visible", "owner_id = public.uid()"),
        mend=VISIBLE,
    ),
    "a policy by the database's user": Fault(
        "no policy that decides reads a setting of principal.settings .*, so every caller sees the same rows",
        CHUNKS_VISIBLE
        + ";"
        + policy("public.documents", "documents_visible", "owner_id = current_user")
        + ";"
        + policy("public.document_grants", "grants_own", "grantee = current_user"),
        mend=VISIBLE,
    ),
    "a policy that shows all": Fault(
        OPEN,
        "CREATE POLICY everybody ON public.document_chunks USING (true)",
        mend="DROP POLICY everybody ON public.document_chunks",
    ),
    "a view with its owner's rights": Fault(
        r"ALTER VIEW public.doc_embeddings SET \(security_invoker = true\)",
        "ALTER TABLE public.doc_embeddings RENAME TO below;"
        "CREATE VIEW public.doc_embeddings AS SELECT * FROM public.below;"
        f"GRANT SELECT ON public.doc_embeddings TO {WORKER}",
        corpus={"public": False},
        level="problem",
        also=f"{OPEN}|no table of documents|no policy that decides",
    ),
    # rows, columns and indexes
    "a third of the embeddings missing": Fault(
        "about 33% of its rows have no embedding",
        "CREATE TABLE public.kept AS SELECT id, embedding FROM public.document_chunks;"
        "UPDATE public.document_chunks SET embedding = NULL WHERE id IN"
        " (SELECT id FROM public.document_chunks ORDER BY id LIMIT 36); ANALYZE public.document_chunks",
        mend="UPDATE public.document_chunks c SET embedding = k.embedding FROM public.kept k WHERE k.id = c.id;"
        "ANALYZE public.document_chunks",
    ),
    "no index of the embeddings": Fault(
        "no HNSW index by cosine distance over all its rows: CREATE INDEX CONCURRENTLY",
        "DROP INDEX public.document_chunks_embedding_idx",
    ),
    "an index by another distance": Fault(
        "no HNSW index by cosine distance over all its rows: CREATE INDEX CONCURRENTLY",
        "DROP INDEX public.document_chunks_embedding_idx;"
        "CREATE INDEX ON public.document_chunks USING hnsw (embedding vector_l2_ops)",
    ),
    "no index of words": Fault("no GIN index: CREATE INDEX", "DROP INDEX public.document_chunks_text_idx"),
    "no index of hashes": Fault(
        "no index starts with chunk_hash.*CREATE INDEX CONCURRENTLY ON document_chunks \\(chunk_hash\\)",
        "DROP INDEX public.document_chunks_hash_idx",
    ),
    "words of one language, queries of another": Fault(
        "text_search is made by english, and queries are read by german", corpus={"language": "german"}
    ),
    "never analysed": Fault(
        "document_chunks was never analysed",
        "UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid = 'public.document_chunks'::regclass",
        also="rows visible",
    ),
    "an extension that was not updated": Fault(
        "ALTER EXTENSION vector UPDATE", "UPDATE pg_extension SET extversion = '0.8.0' WHERE extname = 'vector'"
    ),
    "words counted long ago": Fault(
        "its words were counted 40 days ago",
        "UPDATE retrieval.text_statistics SET refreshed_at = now() - interval '40 days' WHERE corpus = 'docs'",
        mend="UPDATE retrieval.text_statistics SET refreshed_at = now()",
    ),
    # models and settings
    "a server of models that is away": Fault(
        "check language_model.base_url and its key",
        settings={"language_model": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": "x" * 20}},
    ),
    "an embedder that did not fill the corpora": Fault(
        "its vectors were made by the embedder lexical 1",
        settings={"embedder": {"kind": "local"}},
        level="problem",
        also="its vectors were made by the embedder lexical 1",
    ),
    "hybrid searches of a corpus that is not there": Fault(
        "hybrid.searches: there is no corpus dcos", settings={"hybrid": {"searches": {"dcos": 2}}}
    ),
}  # fmt: skip


@dataclass
class Site:
    """A database with the reference corpora.

    Attributes:
        admin: a superuser's connection.
        settings: makes the worker's settings, with changes.
        name: of the database.
    """

    admin: psycopg.Connection[Any]
    settings: Callable[..., Settings]
    name: str

    def run(self, statements: str) -> None:
        """Run them one by one, since some allow no transaction around them."""
        for one in re.split(r";\s*(?=[A-Z])", statements.replace("{db}", self.name)):
            self.admin.execute(one.encode())


@pytest.fixture
def place(stack: Stack, database: str, make_settings: Callable[..., Settings]) -> Iterator[Site]:
    """All is right."""
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as admin:
        admin.execute("ANALYZE")
        admin.execute(LEAKPROOF)
        admin.execute(f"ALTER ROLE {WORKER} IN DATABASE {database} SET synchronous_commit = on".encode())

        def make(
            docs: dict[str, Any] | None = None, documents: dict[str, Any] | None = None, **changes: Any
        ) -> Settings:
            corpora = read_values()["corpora"]
            changed = {"docs": corpora["docs"] | (docs or {}), "documents": corpora["documents"] | (documents or {})}
            return make_settings(database, corpora=corpora | changed, **changes)

        yield Site(admin, make, database)


def found(settings: Settings, **more: Any) -> set[Finding]:
    """The findings but those that say that all is well."""
    return {one for one in examine(settings, **more) if one.level != "ok"}


def only(news: set[Finding], says: str, also: str = "$^") -> Finding:
    """The one finding that is new, beside what follows from it."""
    named = [one for one in news if re.search(says, one.text)]
    assert named, news
    assert not [one for one in news if one not in named and not re.search(also, one.text)], news
    assert len({one.text for one in named}) == 1 or re.search(also, named[0].text), news
    return named[0]


def commands_of(sentence: str) -> str:
    """The SQL in a sentence."""
    end = r"(?=\. |; reload|; then|; corpus| \(and| \(docs|, or |, and |$)"
    return "; ".join(re.findall(rf"(?:ALTER|GRANT|CREATE INDEX|DROP INDEX|ANALYZE) .*?{end}", sentence))


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_sentence_whose_mend_ends_it(place: Site, fault: Fault) -> None:
    """Nothing else is new, and after the mend nothing is."""
    before = found(place.settings())
    try:
        if fault.sql:
            place.run(fault.sql)
        faulty = place.settings(fault.corpus, **fault.settings)
        told = only(found(faulty) - before, fault.says, fault.also)
        assert told.level == fault.level
        if fault.sql:
            place.run(fault.mend or commands_of(told.text))
            if "reload" in told.text:
                place.run("SELECT pg_reload_conf()")
                wait_for_reload(place)
            mended = faulty
        else:
            mended = place.settings()
        assert not [one for one in found(mended) - before if not re.search(fault.also, one.text)]
    finally:
        if fault.undo:
            place.run(fault.undo)


def wait_for_reload(place: Site) -> None:
    """Wait until a new session has what the server's files say."""
    for _ in range(100):
        with psycopg.connect(place.admin.info.dsn) as fresh:
            row = fresh.execute("SELECT current_setting('autovacuum') = 'on'").fetchone()
        if row == (True,):
            return
        time.sleep(0.05)


# --- Redis ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RedisFault:
    """A misconfigured Redis; in its texts {other} is the port of the results' Redis.

    Attributes:
        says: what the one sentence says, as a pattern.
        command: makes it, at the queues' Redis or, with ``results``, at that of the results.
        user: of the worker's URL of the queues.
        results: see `command`.
        mend: a command that does what the words say; default the one in the sentence.
        level: `problem` stops the start; `advice` does not.
    """

    says: str
    command: str = ""
    user: str = "admin"
    results: bool = False
    mend: str = ""
    level: str = "advice"


REDIS_FAULTS = {
    "no append-only file": RedisFault("appendonly is no: .*CONFIG SET", "CONFIG SET appendonly no"),
    "a file that is written later": RedisFault("appendfsync is everysec", "CONFIG SET appendfsync everysec"),
    "jobs that are evicted": RedisFault("maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy allkeys-lru"),
    "results that are evicted": RedisFault(
        "maxmemory-policy is allkeys-lru: a full Redis drops results",
        "CONFIG SET maxmemory-policy allkeys-lru",
        results=True,
    ),
    "full": RedisFault(
        "it is full .*maxmemory",
        "CONFIG SET maxmemory 1",
        user="worker",
        mend="CONFIG SET maxmemory 0",
        level="problem",
    ),
    "results' Redis full": RedisFault(
        "it is full .*maxmemory", "CONFIG SET maxmemory 1", results=True, mend="CONFIG SET maxmemory 0", level="problem"
    ),
    "a replica": RedisFault(
        "CELERY_BROKER_URL: .* replica, which takes no writes",
        "REPLICAOF 127.0.0.1 {other}",
        user="worker",
        mend="REPLICAOF NO ONE",
        level="problem",
    ),
    "a backend's user": RedisFault("the Redis user producer may not run EVAL", user="producer", level="problem"),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Redis, Redis]]:
    """The queues' Redis, and that of the results, as `up` starts them."""
    folder = tmp_path_factory.mktemp("redis")
    with (
        redis_server(folder / "queues", durable=True) as queues,
        redis_server(folder / "results", durable=True) as kept,
    ):
        yield queues, kept


@pytest.mark.parametrize("fault", REDIS_FAULTS.values(), ids=REDIS_FAULTS)
def test_a_fault_of_redis_is_one_sentence_whose_mend_ends_it(
    place: Site, pair: tuple[Redis, Redis], fault: RedisFault
) -> None:
    """As those of Postgres."""
    queues, kept = pair

    def settings(user: str) -> Settings:
        return place.settings(broker_url=queues.url(0, user), result_backend=kept.url(0))

    before = found(settings("admin"))
    with redis.Redis.from_url((kept if fault.results else queues).url()) as operator:
        try:
            if fault.command:
                operator.execute_command(*shlex.split(fault.command.format(other=kept.port)))
            told = only(found(settings(fault.user)) - before, fault.says)
            assert told.level == fault.level
            assert (told.subject == "results") == fault.results
            said = re.search(r"CONFIG SET [^,]+", told.text)
            if fault.command:
                operator.execute_command(*shlex.split(fault.mend or (said[0] if said else "")))
            assert found(settings(fault.user if fault.command else "worker")) <= before
        finally:
            for command in ("REPLICAOF NO ONE", "CONFIG SET maxmemory 0"):
                operator.execute_command(*shlex.split(command))


def test_results_beside_the_queues_are_one_sentence(place: Site) -> None:
    """Another database mends it."""
    before = found(place.settings())
    url = place.settings().broker_url.get_secret_value()
    only(found(place.settings(result_backend=url)) - before, "Set CELERY_RESULT_BACKEND to another database")


# --- what takes a server, a table, or a clock of its own -------------------------------------------


@pytest.mark.parametrize("late", [600, -600], ids=["behind", "ahead"])
def test_a_clock_that_is_wrong_is_one_sentence(place: Site, late: int) -> None:
    """By the servers' own; tokens are refused, or live too long. A right clock mends it."""
    before = found(place.settings())
    news = found(place.settings(), clock=lambda: time.time() - late) - before
    told = only(news, "the clock of this machine is 600 s (behind|ahead of) those of Postgres and Redis")
    assert ("behind" in told.text) == (late > 0)


def test_a_database_of_ascii_is_one_sentence(stack: Stack, place: Site, make_settings: Callable[..., Settings]) -> None:
    """As `initdb` makes one where no locale is set; the command makes one that is right."""
    sentence = "its words are those of ASCII only"
    for command in ("CREATE DATABASE {db} TEMPLATE template0 LOCALE 'C'", None):
        with own_database(stack, place, command or TOLD[0]) as name:
            told = [one for one in found(make_settings(name)) if sentence in one.text]
            assert len(told) == (1 if command else 0)
            TOLD[:] = [f"{commands_in(told[0].text)}" if told else ""]


TOLD = [""]


def commands_in(sentence: str) -> str:
    """The command that makes a database, by the name {db}."""
    said = re.search(r"CREATE DATABASE \S+ (.*?);", sentence)
    assert said, sentence
    return "CREATE DATABASE {db} " + said[1]


@contextlib.contextmanager
def own_database(stack: Stack, place: Site, command: str) -> Iterator[str]:
    """A database with the worker's schema and no rows."""
    name = f"{place.name}_own"
    place.admin.execute(command.replace("{db}", name).encode())
    try:
        with psycopg.connect(stack.postgres.dsn(name), autocommit=True) as connection:
            migrate(connection)
        yield name
    finally:
        place.admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_policy_that_shows_all_of_a_large_table_is_one_sentence(place: Site) -> None:
    """Counting ends before its rows do."""
    place.admin.execute(
        "ALTER TABLE public.document_chunks DROP COLUMN text_signature, DROP COLUMN text_search,"
        " DROP COLUMN chunk_hash;"
        "INSERT INTO public.document_chunks (id, document_id, text_content)"
        " SELECT 'row ' || n, (SELECT min(id) FROM public.documents WHERE visibility = 'private'), 'x'"
        " FROM generate_series(1, 150000) n;"
        "CREATE POLICY everybody ON public.document_chunks USING (true); ANALYZE public.document_chunks"
    )
    columns = read_values()["corpora"]["documents"]["columns"]
    left = {
        field: name for field, name in columns.items() if field not in {"text_search", "text_signature", "chunk_hash"}
    }
    made = place.settings(documents={"columns": left})
    assert [one for one in found(made) if OPEN in one.text]
    place.admin.execute("DROP POLICY everybody ON public.document_chunks")
    assert not [one for one in found(made) if OPEN in one.text]


GERMAN = """\
Die Fähre legt um zwölf Uhr ab und ist nach einer halben Stunde auf der anderen Seite, wenn der Wind nicht dreht.
Das Netzteil brummt, weil die Masse des Pults nicht an einem Punkt liegt, und das ist mit einem Kabel nicht zu beheben.
Wer den Regler zu weit aufdreht, hört ein Rauschen, das mit der Musik nichts zu tun hat und auch bei ihr bleibt.
Der Kanal ist stumm, solange die Taste nicht gedrückt wird, und die Lampe über ihm zeigt es an."""


def test_words_of_another_language_are_one_sentence(place: Site) -> None:
    """By the stop words of Postgres' own dictionaries among the most frequent words; no label, and no row is read."""
    from worker.adapters.postgres.text_statistics import refresh

    before = found(place.settings())
    place.admin.execute(
        "UPDATE public.doc_embeddings SET content = (%s::text[])[1 + abs(hashtext(id)) %% 4]", (GERMAN.splitlines(),)
    )
    refresh(place.admin, "docs", place.settings().corpora["docs"])
    told = only(found(place.settings()) - before, 'are of german, .*language = "german"', "embed|sentence")
    assert told.subject == "corpus docs"
    place.admin.execute(
        "DROP INDEX public.doc_embeddings_text_idx; ALTER TABLE public.doc_embeddings DROP COLUMN text_search;"
        " ALTER TABLE public.doc_embeddings ADD COLUMN text_search tsvector STORAGE MAIN GENERATED ALWAYS AS"
        " (to_tsvector('german'::regconfig, content)) STORED;"
        " CREATE INDEX doc_embeddings_text_idx ON public.doc_embeddings USING gin (text_search)"
    )
    german = place.settings({"language": "german"})
    refresh(place.admin, "docs", german.corpora["docs"])
    assert not [one for one in found(german) - before if not re.search("embed|sentence", one.text)]


GEORGIAN = "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"


def georgian(number: int, words: range) -> str:
    """A sentence of invented words."""
    letters = (range(number * 7 + word * 5, number * 7 + word * 5 + 4 + word % 3) for word in words)
    return " ".join("".join(GEORGIAN[letter % 33] for letter in word) for word in letters) + "."


ALIKE = "Channel {}. The meter shows no level at all while the desk is switched on and its fader is up."


@pytest.mark.parametrize(
    ("chunk", "sentence", "is_mended"),
    [
        (
            lambda n: f"{georgian(n, range(5))} {georgian(n, range(5, 9))}",
            r"(\d+) of \1 chunks are not of the languages of all-MiniLM-L6-v2-int8, .* set embedder.folder to",
            True,
        ),
        (ALIKE.format, "chunks by a sentence of their own .*: it may not know their language", False),
        (
            lambda n: f"The meter of channel {n} shows no level. " * 900,
            r"(\d+) of \1 chunks are longer than the 32,768 characters that all-MiniLM-L6-v2-int8 reads: their ends",
            True,
        ),
    ],
)
def test_a_model_that_does_not_tell_chunks_apart_is_one_sentence(
    place: Site, chunk: Callable[[int], str], sentence: str, is_mended: bool
) -> None:
    """It lacks their words, or their ends, which another model mends, or finds none by its own sentence."""

    def fill(settings: Settings) -> None:
        texts = [chunk(n) for n in range(111)]
        ids = place.admin.execute("SELECT id FROM public.doc_embeddings ORDER BY id").fetchall()
        vectors = make_embedder(settings.embedder).embed([text[:1000] for text in texts])
        for (chunk_id,), text, vector in zip(ids, texts, vectors, strict=True):
            place.admin.execute(
                "UPDATE public.doc_embeddings SET content = %s, embedding = %s::vector WHERE id = %s",
                (text, str(vector.tolist()), chunk_id),
            )

    place.admin.execute("TRUNCATE retrieval.embedders")
    corpus: dict[str, Any] = {"embed_with": []}
    lexical, local = place.settings(corpus), place.settings(corpus, embedder={"kind": "local"})
    fill(local)
    told = [one for one in found(local) if re.search(sentence, one.text)]
    assert [one.subject for one in told] == ["corpus docs"], found(local)
    fill(lexical)
    assert is_mended is not any(re.search(sentence, one.text) for one in found(lexical))


def test_too_few_rows_tell_nothing_of_a_model(place: Site) -> None:
    """That is said, so that nobody takes silence for a model that knows the language."""
    too_few = re.compile("^too few rows .* to tell whether lexical knows their language")

    def told(caller: Principal | None = None) -> list[tuple[str, bool]]:
        """The levels, and whether it is said how to name a caller."""
        findings = [one for one in examine(place.settings(), caller) if too_few.search(one.text)]
        return [(one.level, "--as" in one.text) for one in findings if one.subject == "corpus docs"]

    assert told() == []
    place.admin.execute("DELETE FROM public.doc_embeddings WHERE id NOT IN (SELECT id FROM doc_embeddings LIMIT 15)")
    assert told() == [("ok", True)]
    assert told(as_principal({"user_id": "alice"}, place.settings(), "--as")) == [("ok", False)]


# --- as one caller, and what the first installation lacks -------------------------------------------


def seen_by(settings: Settings, **claims: Any) -> dict[str, list[tuple[str, str]]]:
    """Findings about a caller, by corpus."""
    told: dict[str, list[tuple[str, str]]] = {}
    for one in examine(settings, as_principal(claims, settings, "--as")):
        if one.subject.startswith("caller in "):
            told.setdefault(one.subject.removeprefix("caller in "), []).append((one.level, one.text))
    return told


def test_a_caller_sees_numbers_and_one_search(place: Site) -> None:
    """And no more is said than is known."""
    told = seen_by(place.settings(), user_id="alice")
    assert told.keys() == {"documents", "docs", "examples"}
    (level, text), (searched, search) = told["documents"]
    assert (level, searched) == ("ok", "ok")
    with psycopg.connect(place.settings().database_connection_string.get_secret_value()) as worker:
        worker.execute("SELECT set_config('app.user_id', 'alice', true)")
        counted = worker.execute("SELECT count(*), count(DISTINCT document_id) FROM document_chunks").fetchone()
    assert counted
    assert text == f"sees {counted[0]} rows of {counted[1]} documents, each with an embedding"
    assert re.search(r"7 chunks in \d+ ms, number 1 holds it\. Whether answers are right is not judged$", search)
    place.admin.execute("UPDATE document_chunks SET embedding = NULL")
    (_, text), (_, search) = seen_by(place.settings(), user_id="alice")["documents"]
    assert text.startswith(f"sees {counted[0]} rows of {counted[1]} documents, {counted[0]} of them without an")
    assert search == "no search is made: no row that it sees has a text and a vector"
    place.run("DROP POLICY documents_visible ON public.documents")
    assert seen_by(place.settings(), user_id="alice")["documents"][0] == (
        "advice",
        "sees no row: its policies are asked with app.user_id = 'alice', app.tenant_id = '', app.roles = ''",
    )


def test_the_command_takes_a_caller_and_says_what_its_mends_lock(
    place: Site, worker_environment: Callable[..., dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """For people and as JSON."""
    place.run("DROP INDEX public.document_chunks_text_idx")
    typed = command_line(capsys, worker_environment())
    said = typed("doctor", "--as", "alice").stdout
    assert "caller in documents: sees" in said
    assert "CREATE INDEX CONCURRENTLY blocks neither reads nor writes" in said
    findings = json.loads(typed("doctor", "--json").stdout)["findings"]
    assert not [one for one in findings if one["subject"].startswith("caller")]
    (told,) = [one for one in findings if "no GIN index" in one["text"]]
    assert told["locks"].startswith("CREATE INDEX CONCURRENTLY blocks neither")


def test_an_owner_of_the_database_is_told_what_it_lacks(
    stack: Stack, place: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """To change the worker's role takes more than the database; with what is said, it may."""
    name = f"{place.name}_app"
    typed, migrate_it = command_line(capsys, {}), ("migrate", "--records-only", "--dsn", stack.postgres.dsn(name, name))
    place.run(f"CREATE ROLE {name} LOGIN; CREATE DATABASE {name} OWNER {name}")
    try:
        refused = typed(*migrate_it)
        assert refused.returncode == 78
        assert "connect as the owner" not in refused.stderr
        said = " ".join(refused.stderr.split())
        commands = re.search(rf"ALTER ROLE {name} CREATEROLE; GRANT {WORKER} TO {name} WITH ADMIN OPTION", said)
        assert commands, said
        place.run(commands[0])
        done = typed(*migrate_it)
        assert done.returncode == 0, done.stderr
    finally:
        place.run(f"DROP DATABASE {name} WITH (FORCE); REVOKE {WORKER} FROM {name}; DROP ROLE {name}")


def test_a_standby_in_place_of_its_primary_is_one_sentence(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    """No run can be recorded there; the primary's connection string mends it."""
    with postgres_server(tmp_path / "primary") as primary:
        with psycopg.connect(primary.dsn(), autocommit=True) as connection:
            migrate(connection)
        base_backup(primary, tmp_path / "standby")
        with postgres_server(tmp_path / "standby") as standby:
            told, right = (
                [one.level for one in found(settings) if "leads to a standby" in one.text]
                for server in (standby, primary)
                for settings in [make_settings(database_connection_string=server.dsn("postgres", WORKER))]
            )
    assert (told, right) == (["advice"], [])


def test_there_are_forty_eight() -> None:
    """As many as are named in the tables, and those that take a test of their own."""
    own = ("results beside queues", "clock", "ASCII", "large table", "words", "model", "owner", "standby")
    assert len(FAULTS) + len(REDIS_FAULTS) + len(own) >= 48
