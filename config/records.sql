-- The worker's role, its functions, and its records of runs. Idempotent: `retrieval-worker migrate` runs it.
-- Needs a role that may create roles and schemas (it is not the worker's role).

-- The worker's login role. It owns nothing, is no superuser and can't bypass row-level security: the
-- worker refuses to start as a role that could. Give it a password, or authenticate it by certificate.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'retrieval_worker') THEN
    CREATE ROLE retrieval_worker LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOINHERIT;
  END IF;
END $$;
-- A query that nobody waits for any more must end; a transaction left open must not hold VACUUM back.
ALTER ROLE retrieval_worker SET statement_timeout = '30s';
ALTER ROLE retrieval_worker SET lock_timeout = '5s';
ALTER ROLE retrieval_worker SET idle_in_transaction_session_timeout = '30s';

-- The worker's own schema: its functions, and its records.
CREATE SCHEMA IF NOT EXISTS retrieval;
GRANT USAGE ON SCHEMA retrieval TO retrieval_worker;

-- hash_chunk, version 1: SHA-256 over UTF-8 of the text with every run of Unicode white space as one
-- space, ends stripped. The 29 code points are those of Python's str.split(); `\s` misses eight of them.
-- Never changed: a later normaliser is hash_chunk_v2 beside it.
-- convert_to() is only STABLE (it depends on the database's encoding), so the function is declared
-- IMMUTABLE here on the strength of UTF-8 being asked for by name.
-- Names in a body that is not text are looked up now, not by the search_path of whoever calls it.
CREATE OR REPLACE FUNCTION retrieval.hash_chunk_v1(chunk text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN sha256(convert_to(
  btrim(
    regexp_replace(
      chunk,
      E'[\u0009-\u000D\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]+',
      ' ', 'g'),
    ' '),
  'UTF8'));

CREATE OR REPLACE FUNCTION retrieval.text_signature_bit(word text) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT get_byte(hashed.hash, 0) + 256 * (get_byte(hashed.hash, 1) & 7)
    FROM (SELECT sha256(convert_to(word, 'UTF8'))) AS hashed (hash);
END;

-- Which words a text may hold, as one of 2,048 bits for each: a B-tree can keep it beside the ids, so that full-text
-- search under row-level security, where a GIN index is out of reach, reads only the chunks that may match. As
-- unchangeable as hash_chunk_v1: stored columns were made by it.
CREATE OR REPLACE FUNCTION retrieval.text_signature(document tsvector) RETURNS bit(2048)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  signature bit(2048) := repeat('0', 2048)::bit(2048);
  word text;
BEGIN
  FOREACH word IN ARRAY tsvector_to_array(document) LOOP
    signature := set_bit(signature, retrieval.text_signature_bit(word), 1);
  END LOOP;
  RETURN signature;
END $$;

-- --- words of full-text search --------------------------------------------------------------------

-- A text search configuration beside each that Postgres has, of the same name, with the same stemmer, and without stop
-- words: texts keep them, for questions that have no other words. `grams` is for languages without a stemmer.
DO $$
DECLARE
  stock record;
BEGIN
  FOR stock IN
    SELECT d.dictname, substring(d.dictinitoption FROM $option$language = '(\w+)'$option$) AS language
      FROM pg_ts_dict d JOIN pg_ts_template t ON t.oid = d.dicttemplate
     WHERE d.dictnamespace = 'pg_catalog'::regnamespace AND t.tmplname = 'snowball'
       AND NOT EXISTS (SELECT FROM pg_ts_dict own
                        WHERE own.dictnamespace = 'retrieval'::regnamespace AND own.dictname = d.dictname)
  LOOP
    EXECUTE format('CREATE TEXT SEARCH DICTIONARY retrieval.%I (TEMPLATE = pg_catalog.snowball, Language = %L)',
                   stock.dictname, stock.language);
  END LOOP;
  FOR stock IN
    SELECT c.oid, names.own, c.cfgname AS name
      FROM pg_ts_config c, LATERAL (VALUES (c.cfgname), ('grams')) AS names (own)
     WHERE c.cfgnamespace = 'pg_catalog'::regnamespace AND (names.own = c.cfgname OR c.cfgname = 'simple')
       AND NOT EXISTS (SELECT FROM pg_ts_config own
                        WHERE own.cfgnamespace = 'retrieval'::regnamespace AND own.cfgname = names.own)
  LOOP
    EXECUTE format('CREATE TEXT SEARCH CONFIGURATION retrieval.%I (COPY = pg_catalog.%I)', stock.own, stock.name);
    EXECUTE coalesce((
      SELECT string_agg(format('ALTER TEXT SEARCH CONFIGURATION retrieval.%I ALTER MAPPING REPLACE pg_catalog.%I WITH '
                               'retrieval.%I', stock.own, d.dictname, d.dictname), ';')
        FROM (SELECT DISTINCT mapdict FROM pg_ts_config_map WHERE mapcfg = stock.oid) AS mapped
        JOIN pg_ts_dict d ON d.oid = mapped.mapdict WHERE d.dictname LIKE '%\_stem'), 'SELECT');
  END LOOP;
END $$;

-- Words as runs of characters: each two neighbours of Chinese, Japanese and Korean ones, and each four of those that
-- match a regular expression. A shorter run stays whole. Only the first 50,000 characters, of which a tsvector can hold
-- any grams.
CREATE OR REPLACE FUNCTION retrieval.text_grams(content text, of_four text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT string_agg(
           CASE WHEN size = 0 THEN letter
                WHEN is_first OR (size = 2 AND second <> '') OR fourth <> ''
                THEN concat(' ', letter, second, CASE size WHEN 4 THEN third || fourth END, ' ') END,
           '' ORDER BY place) || substr(content, 50001)
    FROM (
      SELECT place, letter, size, lag(size) OVER neighbours IS NULL AS is_first,
             coalesce(lead(letter) OVER neighbours, '') AS second,
             coalesce(lead(letter, 2) OVER neighbours, '') AS third,
             coalesce(lead(letter, 3) OVER neighbours, '') AS fourth
        FROM (
          SELECT place, letter, size, place - row_number() OVER (PARTITION BY size ORDER BY place) AS run
            FROM (
              SELECT place, letter,
                     CASE WHEN letter ~ '[\u3005-\u3007\u3041-\u30FA\u30FC-\u318F\u31A0-\u31FF\u3400-\u9FFF]'
                            OR letter ~ '[\uAC00-\uD7A3\U00020000-\U0003FFFF]' THEN 2
                          WHEN letter ~ of_four THEN 4 ELSE 0 END AS size
                FROM string_to_table(left(content, 50000), NULL) WITH ORDINALITY AS letters (letter, place)
            ) AS sized
        ) AS runs
      WINDOW neighbours AS (PARTITION BY size, run ORDER BY place)
    ) AS grams;
END;

-- Letters without their accents, in Unicode's compatibility form. Marks that are seldom written go, too: Hebrew points,
-- Arabic vowels. Those of other scripts are part of a letter.
CREATE OR REPLACE FUNCTION retrieval.text_without_accents(content text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN normalize(
  replace(replace(replace(translate(
    regexp_replace(
      regexp_replace(normalize(content, NFKD), '([A-Za-z\u0370-\u03FF])[\u0300-\u036F]+', '\1', 'g'),
      '[\u0591-\u05BD\u05BF\u05C1\u05C2\u05C4\u05C5\u05C7\u0610-\u061A\u0640\u064B-\u0652\u0670]', '', 'g'),
    E'\u00C6\u0152\u1E9E\u00D8\u00F8\u0141\u0142\u0110\u0111\u0126\u0127\u0166\u0167\u0131',
    E'\u00E6\u0153\u00DFOoLlDdHhTti'),
    E'\u00DF', 'ss'), E'\u00E6', 'ae'), E'\u0153', 'oe'),
  NFKC);

-- A text as full-text search reads it, in the index and in the query alike: its words without accents, in Unicode's
-- compatibility form (ligatures, widths, subscripts), without invisible characters, and joined where a hyphen ends a
-- line. A compound is its parts, and an abbreviation one word; of names with dots or underscores, as in code, the whole
-- follows. What the language's stemmer does not know is cut into runs: text without spaces, alphabets other than its
-- own, and with `grams` all words. A hyphen before a quotation mark excludes, in web search syntax, and stays. Never
-- changed, like hash_chunk_v1.
--
-- Postgres orders the marks of a letter in quadratic time, so what could be a long run of them is normalised in pieces.
-- OFFSET 0 keeps it from computing the same several times.
CREATE OR REPLACE FUNCTION retrieval.search_text(language regconfig, content text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
  SELECT concat(
           CASE WHEN words ~ concat('[\u3005-\u9FFF\uAC00-\uD7A3\U00020000-\U0003FFFF]|', of_four)
                THEN retrieval.text_grams(words, of_four) ELSE words END,
           ' ', names)
    FROM (
      SELECT regexp_replace(plain, '[+./<>@&_]|-(?!")', ' ', 'g') AS words,
             (SELECT string_agg(translate(name[1], '._', E'\u02D1\u02D1'), ' ' ORDER BY place)
                FROM regexp_matches(plain, '[A-Za-z0-9]+(?:[._]+[A-Za-z0-9]+)+', 'g') WITH ORDINALITY
                  AS matches (name, place)) AS names,
             CASE WHEN language = 'retrieval.grams'::regconfig THEN '[\w\u0E01-\u0ECF\u1000-\u109F\u1780-\u17D3]'
                  WHEN language IN (
                    'retrieval.arabic'::regconfig, 'retrieval.armenian'::regconfig, 'retrieval.greek'::regconfig,
                    'retrieval.hindi'::regconfig, 'retrieval.nepali'::regconfig, 'retrieval.russian'::regconfig,
                    'retrieval.serbian'::regconfig, 'retrieval.simple'::regconfig, 'retrieval.tamil'::regconfig,
                    'retrieval.yiddish'::regconfig)
                  THEN '[\u0E01-\u0E4E\u0E81-\u0ECF\u1000-\u103F\u1050-\u109F\u1780-\u17D3]'
                  ELSE '[\u0370-\u1CFF\u2C80-\u2DFF\uA640-\uA6FF\uA800-\uAB2F\uAB70-\uABFF\uFB1D-\uFDFF]'
                  END AS of_four
        FROM (
          SELECT regexp_replace(
                   CASE WHEN octet_length(joined) = char_length(joined) THEN joined
                        WHEN joined ~ '[^\u0001-\u007F]{100}' THEN (
                          SELECT string_agg(retrieval.text_without_accents(piece[1]), '' ORDER BY place)
                            FROM regexp_matches(joined, '.{1,200}(?![\u0300-\u036F\u3099\u309A])', 'g') WITH ORDINALITY
                              AS matches (piece, place))
                        ELSE retrieval.text_without_accents(joined) END,
                   '(\m[A-Za-z])\.(?=[A-Za-z]\M)', '\1', 'g') AS plain
            FROM (
              SELECT translate(
                       regexp_replace(
                         content,
                         '([a-z\u00DF-\uFFFF])[-\u00AD\u2010][ \t]*\r?\n[ \t]*(?=[a-z\u00DF-\uFFFF])', '\1', 'g'),
                       E'\u00AD\u061C\u200B\u200C\u200D\u200E\u200F\u202A\u202B\u202C\u202D\u202E\u2060\u2066\u2067\u2068\u2069\uFEFF',
                       '') AS joined
              OFFSET 0
            ) AS lines OFFSET 0
        ) AS plains OFFSET 0
    ) AS parts;
END;

CREATE OR REPLACE FUNCTION retrieval.text_vector(language regconfig, content text) RETURNS tsvector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN to_tsvector(language, retrieval.search_text(language, content));

-- --- records of runs ------------------------------------------------------------------------------
-- A run is (owner, subject_id, run_id); it holds one record for each (task, step). Nothing here is a secret:
-- no principal, no token, and of the caller's claims only a fingerprint.

CREATE TABLE IF NOT EXISTS retrieval.runs (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner      text COLLATE "C" NOT NULL,
  subject_id text COLLATE "C" NOT NULL,
  run_id     text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (owner, subject_id, run_id)
);

CREATE TABLE IF NOT EXISTS retrieval.run_records (
  run             bigint NOT NULL REFERENCES retrieval.runs ON DELETE CASCADE,
  task            text COLLATE "C" NOT NULL,
  step            text COLLATE "C" NOT NULL DEFAULT '',
  sequence        bigint GENERATED ALWAYS AS IDENTITY,  -- the order in which they were made
  job             jsonb NOT NULL,   -- without principal, token and embedding
  job_sha256      bytea NOT NULL,   -- of the whole job without its token
  claims_sha256   bytea NOT NULL,
  answer          json NOT NULL,    -- what the answer said besides its chunks; json keeps the order of its fields
  models          jsonb NOT NULL DEFAULT '{}',
  query_embedding bytea,            -- little-endian float32, as it was searched; several one after another
  created_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run, task, step)
);

CREATE TABLE IF NOT EXISTS retrieval.run_pins (
  run          bigint NOT NULL,
  task         text COLLATE "C" NOT NULL,
  step         text COLLATE "C" NOT NULL,
  rank         integer NOT NULL,
  corpus       text NOT NULL,
  chunk_hash   bytea NOT NULL,
  hash_version smallint NOT NULL,
  raw_hash     bytea NOT NULL,
  chunk_id     text COLLATE "C" NOT NULL,
  document_id  text COLLATE "C" NOT NULL,
  score        double precision,   -- cosine similarity; NULL where only the full text was compared
  PRIMARY KEY (run, task, step, rank),
  FOREIGN KEY (run, task, step) REFERENCES retrieval.run_records ON DELETE CASCADE
);

ALTER TABLE retrieval.run_pins ALTER COLUMN score DROP NOT NULL;
ALTER TABLE retrieval.run_records ALTER COLUMN answer TYPE json;

CREATE TABLE IF NOT EXISTS retrieval.run_events (
  run      bigint NOT NULL REFERENCES retrieval.runs ON DELETE CASCADE,
  sequence bigint GENERATED ALWAYS AS IDENTITY,
  at       timestamptz NOT NULL DEFAULT now(),
  kind     text NOT NULL,
  data     jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (run, sequence)
);

-- What the last check of a run against its corpora found; see `retrieval-worker verify`.
CREATE TABLE IF NOT EXISTS retrieval.run_checks (
  run        bigint PRIMARY KEY REFERENCES retrieval.runs ON DELETE CASCADE,
  checked_at timestamptz NOT NULL DEFAULT now(),
  counts     jsonb NOT NULL   -- verdict → pins
);
CREATE INDEX IF NOT EXISTS run_checks_checked_at_idx ON retrieval.run_checks (checked_at, run);

-- Which embedder filled a table of chunks: written by `retrieval-worker load`, compared by workers.
CREATE TABLE IF NOT EXISTS retrieval.embedders (
  relation    text COLLATE "C" PRIMARY KEY,  -- the table, as SQL
  name        text NOT NULL,
  version     text NOT NULL,
  dimensions  integer NOT NULL,
  fingerprint bytea NOT NULL,                -- little-endian float32: the vectors of three fixed texts
  loaded_at   timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON retrieval.embedders TO retrieval_worker;

-- --- conversations of the pipeline ------------------------------------------------------------------
-- Packages hold what was found as pins: texts are read again under the rights of whoever goes on with them.

CREATE TABLE IF NOT EXISTS retrieval.packages (
  owner         text COLLATE "C" NOT NULL,
  package_id    text COLLATE "C" NOT NULL,
  stage         text NOT NULL,          -- the last stage that it went through
  content       json NOT NULL,
  claims_sha256 bytea NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, package_id)
);

CREATE TABLE IF NOT EXISTS retrieval.responses (
  owner                text COLLATE "C" NOT NULL,
  response_id          text COLLATE "C" NOT NULL,
  conversation_id      text COLLATE "C" NOT NULL,
  sequence             bigint GENERATED ALWAYS AS IDENTITY,
  mode                 text NOT NULL,
  provider             text NOT NULL,
  model                text NOT NULL,
  claims_sha256        bytea NOT NULL,
  provider_response_id text,            -- what the provider goes on from
  starting_prompt      text NOT NULL,
  question             text NOT NULL,
  answer               text,
  package_id           text COLLATE "C",
  created_at           timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, response_id)
);
CREATE INDEX IF NOT EXISTS responses_conversation_idx
  ON retrieval.responses (owner, conversation_id, sequence);

-- Which chunks of a recorded answer were used, and which were not; see `retrieval-worker tune`.
CREATE TABLE IF NOT EXISTS retrieval.run_feedback (
  run      bigint NOT NULL,
  task     text COLLATE "C" NOT NULL,
  step     text COLLATE "C" NOT NULL,
  corpus   text COLLATE "C" NOT NULL,
  chunk_id text COLLATE "C" NOT NULL,
  used     boolean NOT NULL,
  at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run, task, step, corpus, chunk_id),
  FOREIGN KEY (run, task, step) REFERENCES retrieval.run_records ON DELETE CASCADE
);

-- A foreign run is an unknown run: the owner is stated inside each transaction, like the caller of a search.
-- `retrieval.audit` is stated by the check of all runs and by `tune` alone, which tell figures and no content.
ALTER TABLE retrieval.runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrieval.run_records ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrieval.run_pins ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrieval.run_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrieval.run_checks ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrieval.run_feedback ENABLE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS own ON retrieval.runs;
CREATE POLICY own ON retrieval.runs
  USING (runs.owner = (SELECT nullif(current_setting('retrieval.owner', true), '')));
DROP POLICY IF EXISTS audit ON retrieval.runs;
CREATE POLICY audit ON retrieval.runs FOR SELECT
  USING ((SELECT current_setting('retrieval.audit', true)) = 'on');
-- EXISTS, not IN: the planner may then ask for the one run instead of hashing all of an owner's.
DROP POLICY IF EXISTS own ON retrieval.run_records;
CREATE POLICY own ON retrieval.run_records
  USING (EXISTS (SELECT FROM retrieval.runs WHERE runs.id = run_records.run));
DROP POLICY IF EXISTS own ON retrieval.run_pins;
CREATE POLICY own ON retrieval.run_pins
  USING (EXISTS (SELECT FROM retrieval.runs WHERE runs.id = run_pins.run));
DROP POLICY IF EXISTS own ON retrieval.run_events;
CREATE POLICY own ON retrieval.run_events
  USING (EXISTS (SELECT FROM retrieval.runs WHERE runs.id = run_events.run));
DROP POLICY IF EXISTS own ON retrieval.run_checks;
CREATE POLICY own ON retrieval.run_checks
  USING (EXISTS (SELECT FROM retrieval.runs WHERE runs.id = run_checks.run));
DROP POLICY IF EXISTS own ON retrieval.run_feedback;
CREATE POLICY own ON retrieval.run_feedback
  USING (EXISTS (SELECT FROM retrieval.runs WHERE runs.id = run_feedback.run));

ALTER TABLE retrieval.packages ENABLE ROW LEVEL SECURITY;
ALTER TABLE retrieval.responses ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own ON retrieval.packages;
CREATE POLICY own ON retrieval.packages
  USING (packages.owner = (SELECT nullif(current_setting('retrieval.owner', true), '')));
DROP POLICY IF EXISTS own ON retrieval.responses;
CREATE POLICY own ON retrieval.responses
  USING (responses.owner = (SELECT nullif(current_setting('retrieval.owner', true), '')));
GRANT SELECT, INSERT ON retrieval.packages, retrieval.responses TO retrieval_worker;

GRANT SELECT, INSERT ON retrieval.runs, retrieval.run_records, retrieval.run_pins, retrieval.run_events,
  retrieval.run_checks, retrieval.run_feedback TO retrieval_worker;
GRANT UPDATE (checked_at, counts) ON retrieval.run_checks TO retrieval_worker;
GRANT UPDATE (used, at) ON retrieval.run_feedback TO retrieval_worker;

-- --- statistics of full-text search ---------------------------------------------------------------
-- How many chunks hold a word, for each corpus and, where the settings name a tenant column, for each tenant ('' is the
-- whole corpus). `retrieval-worker statistics` counts all rows, whoever may see them (docs/full-text.md says what that
-- shows a caller), so the worker's role only reads here.

CREATE TABLE IF NOT EXISTS retrieval.text_statistics (
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  corpus       text COLLATE "C" NOT NULL,
  tenant       text COLLATE "C" NOT NULL DEFAULT '',
  chunks       bigint NOT NULL,            -- with a text
  terms        bigint NOT NULL,            -- different words
  mean_length  double precision NOT NULL,  -- words of a chunk
  refreshed_at timestamptz NOT NULL,
  UNIQUE (corpus, tenant)
);

CREATE TABLE IF NOT EXISTS retrieval.term_statistics (
  statistics bigint NOT NULL REFERENCES retrieval.text_statistics ON DELETE CASCADE,
  term       text COLLATE "C" NOT NULL,
  chunks     bigint NOT NULL,  -- that hold it
  PRIMARY KEY (statistics, term)
);

GRANT SELECT ON retrieval.text_statistics, retrieval.term_statistics TO retrieval_worker;
