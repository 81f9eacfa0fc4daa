"""How full-text search reads texts and questions on a real Postgres: what is alike, what is a word, in which column."""

from __future__ import annotations

import contextlib
import json
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.command_line import command_line
from tests.integration.asking import asker

from worker.adapters.postgres.database import Database
from worker.adapters.postgres.fulltext import FullTextSearch
from worker.adapters.postgres.search import Corpus, search
from worker.adapters.postgres.text_reading import TextReading
from worker.adapters.postgres.text_statistics import refresh
from worker.cli.doctor import examine
from worker.cli.loader import migrate
from worker.cli.usage import WrongUsage
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from workbench.devstack.stack import Stack
    from worker.adapters.postgres.search import SearchResult
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]


def find(settings: Settings, text: str, corpus: str = "documents", *, web_search: bool = False) -> SearchResult:
    """All that zoe finds."""
    with contextlib.closing(Database(settings)) as database:
        searched = Corpus(corpus, settings.corpora[corpus], settings.search, database.types[corpus])
        query = FullTextSearch(searched, text, None, 500, NO_FILTERS, web_search=web_search)
        (found,) = search(database, asker("zoe"), [query])
    return found


def ids(settings: Settings, text: str, corpus: str = "documents", *, web_search: bool = False) -> list[str]:
    """Ids of what zoe finds of her own chunks, best first."""
    found = find(settings, text, corpus, web_search=web_search).candidates
    return [one.chunk.id for one in found if one.chunk.document_id == "of-zoe"]


def add(admin: Admin, texts: dict[str, str]) -> None:
    """A document of zoe whose chunks say this."""
    admin.execute("INSERT INTO documents (id, owner_id) VALUES ('of-zoe', 'zoe') ON CONFLICT DO NOTHING")
    rows = [(chunk_id, "of-zoe", text) for chunk_id, text in texts.items()]
    with admin.cursor() as cursor:
        cursor.executemany("INSERT INTO document_chunks (id, document_id, text_content) VALUES (%s, %s, %s)", rows)


def words(admin: Admin, text: str, language: str = "simple") -> list[str]:
    """Words that a text is found by."""
    statement = "SELECT tsvector_to_array(retrieval.text_vector(%s::regconfig, %s))"
    (found,) = admin.execute(statement, (f"retrieval.{language}", text)).fetchone() or ([],)
    return found


# --- folding ------------------------------------------------------------------------------------

ALIKE = {
    "accents": ("Résumé, naïveté; Ångström", "resume naivete angstrom"),
    "accents that are marks": ("e\u0301tude u\u0308ber", "etude uber"),
    "Greek accents": ("\u03ac\u03bb\u03c6\u03b1", "\u03b1\u03bb\u03c6\u03b1"),
    "strokes": ("Łódź Øresund đakovo", "lodz oresund dakovo"),
    "sharp s": ("Straße STRAẞE", "strasse STRASSE"),
    "ligatures": ("e\ufb03cient \ufb02ow Œuvre æther", "efficient flow oeuvre aether"),
    "soft hyphens": ("co\u00adoper\u00adate", "cooperate"),
    "what is invisible": ("co\u200boper\u2060ate\ufeff", "cooperate"),
    "directions": ("\u200ecoffee\u200f \u202bte\u202ca \u2067milk\u2069", "coffee tea milk"),
    "Arabic vowels": ("\u0645\u0650\u0635\u0631", "\u0645\u0635\u0631"),
    "Hebrew points": ("\ufb2a\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    "a hyphen at the end of a line": ("infor-\n    mation trans\u00ad\r\nport", "information transport"),
    "full width": ("\uff26\uff35\uff2c\uff2c\u3000\uff11\uff12", "full 12"),
    "half width": ("\uff8a\uff9d\uff76\uff78", "\u30cf\u30f3\u30ab\u30af"),
    "subscripts": ("CO\u2082 x\u00b2", "co2 x2"),
    "compounds": ("wi-fi, x/y, non\u2010zero", "wi fi x y non zero"),
    "abbreviations": ("the U.S.A., e.g. here", "the usa eg here"),
    "Hangul": (unicodedata.normalize("NFD", "한국어"), "한국어"),
    "marks in Japanese": (unicodedata.normalize("NFD", "がぎぐ"), "がぎぐ"),
}


@pytest.mark.parametrize(("text", "other"), ALIKE.values(), ids=ALIKE)
def test_texts_that_read_alike_have_the_same_words(admin: Admin, text: str, other: str) -> None:
    assert words(admin, text) == words(admin, other) != []


def test_what_is_another_letter_stays_one(admin: Admin) -> None:
    """Marks of other scripts are part of a letter; a hyphen within a line, or before a capital, joins nothing."""
    assert words(admin, "йод") == ["йод"]
    assert words(admin, "が") != words(admin, "か")
    assert words(admin, "left-\nRight well -\nknown") == ["known", "left", "right", "well"]


ANY = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60)


@examples(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=10 * examples.default.max_examples,
    deadline=None,
)
@given(ANY | st.text(st.sampled_from('ae\u0301\u0323öß-\n\u00ad ._"中文のงก'), max_size=60))
def test_no_text_is_told_from_its_composed_form(admin: Admin, text: str) -> None:
    """Whoever wrote it, by whatever keyboard: any text has the words of its canonical forms, in each language."""
    for language in ("english", "grams"):
        for form in ("NFC", "NFD"):
            assert words(admin, text, language) == words(admin, unicodedata.normalize(form, text), language)


LONG = {
    "marks": "a" + "\u0301\u0323" * 30_000,
    "marks of another script": "\u05d0" + "\u05b0\u05bc" * 30_000,
    "hyphens": "a-" * 30_000,
    "hyphens before spaces": "a-" + " " * 60_000,
    "dots": "a." * 30_000,
    "Chinese": "\u4e2d" * 60_000,
    "Thai": "\u0e01\u0e31" * 30_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_any_text_is_read_in_linear_time(admin: Admin, text: str) -> None:
    """A hundred times the longest chunk of sense takes seconds; in quadratic time it would be minutes."""
    admin.execute("SET statement_timeout = '20s'")
    assert words(admin, text) != ["nothing"]


def test_a_question_finds_what_is_written_otherwise(settings: Settings, admin: Admin) -> None:
    """In both directions, and in web search syntax, where a compound stays together."""
    add(admin, {"b1": "The zithér stands in a Straßencafé.", "b2": "A zither stands in a strassencafe."})
    assert {*ids(settings, "zither strassencafé")} == {*ids(settings, "ZITHÉR straßencafe")} == {"b1", "b2"}
    add(admin, {"b3": "The zither-gurdy of a gurdy.", "b4": "A gurdy zither."})
    assert ids(settings, "gurdy -zither-gurdy", web_search=True) == ["b4"]


# --- words --------------------------------------------------------------------------------------


def test_a_compound_counts_once(settings: Settings, admin: Admin) -> None:
    """However it is spelled, in the text and in the question."""
    add(admin, {"c1": "A zither-gurdy.", "c2": "A zither gurdy."})
    first, second = find(settings, "zither-gurdy").scores or ()
    assert first == second
    assert find(settings, "zither gurdy").scores == [first, second]


def test_the_one_chunk_that_holds_a_name_is_first(settings: Settings, admin: Admin) -> None:
    """A name of code is found by its parts, and best as a whole."""
    add(admin, {"i1": "join(path): os.path, join.path, os.join", "i2": "It calls os.path.join on what it has there."})
    assert ids(settings, "What is os.path.join?") == ["i2", "i1"]
    assert ids(settings, "join a path") == ["i1", "i2"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("zither drone -os.path", ["n1"]),
        ("os.path or zither", ["n1", "n2", "n3"]),
        ("os.path", ["n3"]),
        ('"calls os_path"', ["n3"]),
    ],
)
def test_a_name_of_code_is_one_term_of_a_web_search(
    settings: Settings, admin: Admin, text: str, found: list[str]
) -> None:
    """An excluded one is not required too, nor is one of two alternatives."""
    add(admin, {"n1": "A zither, a drone.", "n2": "A zither alone.", "n3": "A zither and a drone: it calls os.path."})
    assert sorted(ids(settings, text, web_search=True)) == found


def test_a_question_of_stop_words_is_searched_for_with_them(settings: Settings, admin: Admin) -> None:
    """As a phrase; where no chunk has it, by any of them. Beside another word they count for nothing."""
    add(admin, {"w1": "Then The Who played.", "w2": "He who was there was the one.", "w3": "A zither."})
    assert ids(settings, "The Who") == ["w1"]
    assert ids(settings, '"the who"', web_search=True) == ["w1"]
    assert {*ids(settings, "who the")} == {"w1", "w2"}
    assert ids(settings, "the who zither") == ["w3"]


SPACELESS = {
    "zh": "第十八通道的嗡嗡声 变压器",
    "ja": "カタカナとひらがな、漢字",
    "th": "เสียงฮัมของช่อง",
    "ko": "한국어에는 띄어쓰기가 있다",
    "short": "茶",
    "ru": "Трансформаторы гудят",
    "el": "\u039f\u03b9 \u03bc\u03b5\u03c4\u03b1\u03c3\u03c7\u03b7\u03bc\u03b1\u03c4\u03b9\u03c3\u03c4\u03ad\u03c2",
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("嗡嗡声", "zh"),
        ("变压器有什么声音?", "zh"),
        ("ひらがな", "ja"),
        ("漢字とは", "ja"),
        ("เสียง", "th"),
        ("띄어쓰기는", "ko"),
        ("茶", "short"),
        ("трансформатора", "ru"),
        ("\u03bc\u03b5\u03c4\u03b1\u03c3\u03c7\u03b7\u03bc\u03b1\u03c4\u03b9\u03c3\u03c4\u03ae", "el"),
    ],
)
def test_words_that_no_stemmer_knows_are_found_by_their_parts(
    settings: Settings, admin: Admin, text: str, found: str
) -> None:
    """Texts without spaces, and alphabets other than that of the corpus's language."""
    add(admin, SPACELESS)
    assert ids(settings, text) == [found]
    assert ids(settings, text, web_search=True) == [found]


def test_a_stemmer_reads_its_own_alphabet(admin: Admin) -> None:
    assert words(admin, "Трансформаторы", "russian") == ["трансформатор"]
    assert words(admin, "Трансформаторы", "simple") == ["трансформаторы"]


def test_what_is_excluded_of_a_text_without_spaces_is_excluded_whole(settings: Settings, admin: Admin) -> None:
    add(admin, {"zh1": "嗡嗡声", "zh2": "嗡嗡 叫声"})
    assert ids(settings, "嗡嗡 -嗡嗡声", web_search=True) == ["zh2"]


PAGES = """
CREATE TABLE pages (id text PRIMARY KEY, doc text NOT NULL, body text NOT NULL, vec vector(768));
GRANT SELECT ON pages TO retrieval_worker;
INSERT INTO pages VALUES ('p1', 'of-zoe', 'Handel książkami z-a\u017c'), ('p2', 'of-zoe', 'Nic innego');
"""
CORPUS = {
    "table": "public.pages",
    "public": True,
    "columns": {"id": "id", "document_id": "doc", "text": "body", "embedding": "vec"},
}


def test_a_language_without_a_stemmer_is_read_by_four_letters(
    make_settings: MakeSettings, database: str, admin: Admin
) -> None:
    """`grams`, which `migrate` makes: other forms of a word are found."""
    admin.execute(PAGES)
    grams = make_settings(database, corpora={"pages": CORPUS | {"language": "grams"}})
    assert ids(grams, "książka", "pages") == ["p1"]
    refresh(admin, "pages", grams.corpora["pages"])
    assert ids(grams, "książka", "pages") == ["p1"]
    simple = make_settings(database, corpora={"pages": CORPUS | {"language": "simple"}})
    assert ids(simple, "książka", "pages") == []


def test_migrate_makes_the_reference_tables_of_a_language(
    make_settings: MakeSettings, settings: Settings, database: str, admin: Admin
) -> None:
    """Of one that is known; forms of a word are found, and the signatures have them."""
    admin.execute("DROP TABLE documents, document_grants, document_chunks")
    with pytest.raises(WrongUsage, match=r"--language klingon: expected one of arabic, .*, grams, "):
        migrate(admin, language="klingon")
    migrate(admin, language="german")
    migrate(admin)
    add(admin, {"g1": "Die Saiten der Zither", "g2": "Saitenhalter"})
    documents = settings.corpora["documents"].model_dump() | {"language": "german"}
    german = make_settings(database, corpora={"documents": documents})
    refresh(admin, "documents", german.corpora["documents"])
    assert ids(german, "Welche Saite?") == ["g1"]
    assert not [found.text for found in examine(german) if "is made by" in found.text]


def words_of_chunks(admin: Admin) -> list[tuple[str, str]]:
    """Columns and indexes of the words of the chunks, each with its definition."""
    return admin.execute(
        "SELECT attname::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute"
        " ON attrelid = adrelid AND attnum = adnum WHERE attname IN ('text_search', 'text_signature')"
        " AND adrelid = 'document_chunks'::regclass UNION ALL"
        " SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%document_chunks%text\\_s%' ORDER BY 1"
    ).fetchall()


def test_migrate_says_how_tables_get_another_language(
    make_settings: MakeSettings, settings: Settings, database: str, admin: Admin
) -> None:
    """It changes no column that is there; without the option it says nothing of languages."""
    assert (migrate(admin), migrate(admin, language="english")) == ([], [])
    steps = migrate(admin, language="danish")
    assert [step.partition(": where")[0] for step in steps] == [
        f"public.{table} keeps the words of english"
        for table in ("document_chunks", "doc_embeddings", "example_strudels")
    ]
    fresh = [tuple(part.replace("english", "danish") for part in row) for row in words_of_chunks(admin)]
    for step in steps:
        command, _, rest = step.partition(" run ")[2].partition(", then ")
        assert rest.startswith("'retrieval-worker migrate --language danish'")
        admin.execute(command.encode())
    assert migrate(admin, language="danish") == []
    assert words_of_chunks(admin) == fresh
    corpora = {name: corpus.model_dump() | {"language": "danish"} for name, corpus in settings.corpora.items()}
    danish = make_settings(database, corpora=corpora)
    assert not [found.text for found in examine(danish) if "is made by" in found.text]


def test_migrate_prints_what_is_left_to_do(
    stack: Stack, database: str, admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step a line, in its order; the same as JSON."""
    steps = migrate(admin, language="danish")
    typed = command_line(capsys, {"MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database)})
    printed = typed("migrate", "--language", "danish").stdout.splitlines()
    assert printed == ["the schema is installed", *(f"still to do: {step}" for step in steps)]
    assert json.loads(typed("migrate", "--language", "danish", "--json").stdout)["remaining"] == steps


# --- columns ------------------------------------------------------------------------------------

EARLIER = """
ALTER TABLE document_chunks DROP COLUMN text_search, DROP COLUMN text_signature;
ALTER TABLE document_chunks ADD COLUMN text_search tsvector STORAGE MAIN GENERATED ALWAYS AS (
  setweight(to_tsvector('english'::regconfig, coalesce(section, '')), 'A')
  || to_tsvector('english'::regconfig, text_content)) STORED;
CREATE INDEX document_chunks_text_idx ON document_chunks USING gin (text_search);
"""


def reading(settings: Settings, corpus: str = "documents") -> TextReading | None:
    """How a worker reads a corpus."""
    with contextlib.closing(Database(settings)) as database:
        return database.types[corpus].reading


def test_a_column_that_was_made_before_is_asked_as_it_was_made(settings: Settings, admin: Admin) -> None:
    """`migrate` leaves it; the doctor says how to make it again, and the next worker reads it so."""
    admin.execute(EARLIER)
    add(admin, {"e1": "A naïve zither-gurdy.", "e2": "A naive zither."})
    migrate(admin)
    assert reading(settings) == TextReading("english", "english")
    assert (ids(settings, "naïve"), ids(settings, "naive")) == (["e1"], ["e2"])
    assert find(settings, "zither-gurdy").scores == find(settings, "zither gurdy").scores
    (advice,) = [found.text for found in examine(settings) if "SET EXPRESSION" in found.text]
    admin.execute(advice[advice.index("ALTER TABLE") : advice.index(". It writes")].encode())
    assert reading(settings) == TextReading("retrieval.english", "english", is_folded=True)
    assert {*ids(settings, "naïve")} == {*ids(settings, "naive")} == {"e1", "e2"}
    assert not [found.text for found in examine(settings) if "SET EXPRESSION" in found.text]


def test_migrate_says_what_an_older_database_needs(settings: Settings, admin: Admin) -> None:
    """Columns of words, which it leaves as they are, and then new counts; where none were counted, nothing."""
    older = "DROP FUNCTION retrieval.text_vector CASCADE"
    refresh(admin, "documents", settings.corpora["documents"])
    assert migrate(admin) == []
    admin.execute(f"{older}; {EARLIER.partition(';')[2]}".encode())
    workers, alter, count = migrate(admin)
    assert "older version" in workers
    assert alter.endswith("names for public.document_chunks")
    assert [found.subject for found in examine(settings) if "SET EXPRESSION" in found.text] == ["corpus documents"]
    assert "'retrieval-worker statistics'" in count
    assert migrate(admin) == [workers, alter, count]
    admin.execute(older.encode())
    assert migrate(admin, records_only=True) == [workers, count]
    admin.execute(f"{older}; TRUNCATE retrieval.text_statistics CASCADE".encode())
    assert migrate(admin, records_only=True) == []


def test_signatures_of_texts_that_were_read_otherwise_are_not_used(settings: Settings, admin: Admin) -> None:
    """They would lack words of their chunks, which no search would find; the doctor says so."""
    admin.execute(
        "ALTER TABLE document_chunks DROP COLUMN text_signature;"
        "ALTER TABLE document_chunks ADD COLUMN text_signature bit(2048) STORAGE PLAIN GENERATED ALWAYS AS "
        "(retrieval.text_signature(to_tsvector('english'::regconfig, text_content))) STORED"
    )
    with contextlib.closing(Database(settings)) as database:
        types = database.types["documents"]
        searched = Corpus("documents", settings.corpora["documents"], settings.search, types)
        assert (types.reading is None, searched.statements.signature) == (False, None)
    (advice,) = [found.text for found in examine(settings) if "was not made of the words of text_search" in found.text]
    admin.execute(advice[advice.index("ALTER TABLE") : advice.index(". It writes")].encode())
    assert not [found.text for found in examine(settings) if "was not made of" in found.text]


def test_the_doctor_has_one_command_for_words_and_signatures_of_before(settings: Settings, admin: Admin) -> None:
    """It says what the command locks; words are counted then, which signatures of other words refuse."""
    admin.execute(
        f"{EARLIER} ALTER TABLE document_chunks ADD COLUMN text_signature bit(2048) STORAGE PLAIN GENERATED ALWAYS AS "
        "(retrieval.text_signature(to_tsvector('english'::regconfig, text_content))) STORED"
    )
    add(admin, {"e1": "A naïve zither-gurdy."})
    (advice,) = [found.text for found in examine(settings) if "SET EXPRESSION" in found.text]
    assert "ACCESS EXCLUSIVE" in advice
    admin.execute(advice[advice.index("ALTER TABLE") : advice.index(". It writes")].encode())
    refresh(admin, "documents", settings.corpora["documents"])
    assert reading(settings) == TextReading("retrieval.english", "english", is_folded=True)
    assert not [found.text for found in examine(settings) if "SET EXPRESSION" in found.text]


def test_the_doctor_has_the_command_for_signatures_that_are_missing(settings: Settings, admin: Admin) -> None:
    """Where the settings map them; where they are there, it doesn't advise to add them."""
    (leakproof,) = [found.text for found in examine(settings) if "LEAKPROOF" in found.text]
    assert "The column text_signature narrows it. Where" in leakproof
    admin.execute("ALTER TABLE document_chunks DROP COLUMN text_signature")
    (missing,) = [found.text for found in examine(settings) if "LEAKPROOF" in found.text]
    admin.execute(missing[missing.index("ALTER TABLE") : missing.index(", which writes")].encode())
    assert leakproof in [found.text for found in examine(settings)]
    refresh(admin, "documents", settings.corpora["documents"])
    ((definition,),) = admin.execute(
        "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%(document_id) INCLUDE (id, text_signature)'"
    ).fetchall()
    assert "document_chunks" in definition


def test_an_empty_table_with_a_column_of_before_gets_no_signatures_of_now(admin: Admin) -> None:
    """They would lack the words that the column has."""
    admin.execute(f"TRUNCATE documents CASCADE; {EARLIER}")
    migrate(admin)
    found = admin.execute(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'document_chunks'::regclass AND attname = 'text_signature'"
    ).fetchone()
    assert found == (0,)


def test_a_view_is_read_as_the_table_below(make_settings: MakeSettings, database: str, admin: Admin) -> None:
    """Also where it calls the column otherwise."""
    admin.execute(PAGES)
    admin.execute(
        "ALTER TABLE pages ADD COLUMN own tsvector"
        " GENERATED ALWAYS AS (retrieval.text_vector('retrieval.english'::regconfig, body)) STORED;"
        "CREATE VIEW shown WITH (security_invoker = true) AS SELECT id, doc, body, vec, own AS found_by FROM pages;"
        "GRANT SELECT ON shown TO retrieval_worker"
    )
    columns = CORPUS["columns"] | {"text_search": "found_by"}
    shown = make_settings(database, corpora={"shown": CORPUS | {"table": "public.shown", "columns": columns}})
    assert reading(shown, "shown") == TextReading("retrieval.english", "english", is_folded=True)
    assert ids(shown, "KSIAZKAMI", "shown") == ["p1"]


def test_a_database_that_was_not_migrated_is_searched_as_before(
    make_settings: MakeSettings, database: str, admin: Admin
) -> None:
    admin.execute(PAGES + "DROP FUNCTION retrieval.text_vector(regconfig, text) CASCADE")
    pages = make_settings(database, corpora={"pages": CORPUS})
    assert reading(pages, "pages") == TextReading("english", "english")
    assert (ids(pages, "książkami", "pages"), ids(pages, "ksiazkami", "pages")) == (["p1"], [])
