// Types of jobs, answers, messages and records, written by `retrieval-worker contract` from the JSON Schemas beside
// this file. Those say more: limits of values.

/**
 * Job of `build_citations`: citations of used chunks, verified against the sources and stored with the run.
 *
 * Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not
 * listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. Also refused,
 * though valid by the schema:
 * - Neither or both of `records` and `cite`.
 * - `sections` without `cite`.
 * - With `run`, unless `store` is false: a `subject_id` or `run_id` that can't be the name of a folder: `.`, `..`, more
 * than 255 bytes of UTF-8, a character that can't be printed, or one of `/\:"<>|`.
 * - One hash of `sections` twice, in two forms (with `sha256:` and without, in capitals and not).
 * - `principal` beside `principal_token`.
 * - A known claim (`user_id`, `tenant_id`, `roles`) that is not null, a boolean, an integer, a text of at most 512
 * characters or a list of at most 1,000 such texts.
 * - A text or a field name of more than 1,000,000 characters, or with U+0000 or a lone surrogate (the escape `\ud800`
 * alone).
 * - A list of more than 10,000 items, an object of more than 1,000 fields, or more than 32 levels of them.
 * - A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.
 */
export interface BuildCitations {
  /** the caller's claims in plain form; only if the worker's settings trust the queue. */
  principal?: { [key: string]: Json };
  /** the caller's claims as a signed JWT, bound to this task, this id and this job. */
  principal_token?: string;
  /** record the job under this name. */
  run?: RunRef;
  /**
   * position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights. No server
   * that has not replayed it is asked.
   */
  min_lsn?: string;
  /** the chunks that were used, in their order. */
  records?: CitedChunk[];
  /** instead: a recorded run with these chunks. */
  cite?: CitedRun;
  /**
   * with `cite`: chunk hash → the section that uses it, or several; other chunks have those of the run's own answer.
   */
  sections?: { [key: string]: string | string[] };
  /** generated text with labels like `[S1]`. */
  answer?: string;
  /** label → hash of its chunk. */
  labels?: { [key: string]: string };
  /** words to check, one by one. */
  quotes?: Quote[];
  /** compare each citation with the corpora, with this caller's permissions. */
  verify?: boolean;
  /** store the document, with the conflicts, as `runs/{subject_id}/{run_id}/citations.json` of `run`. */
  store?: boolean;
}

/** Verification of one citation. */
export interface CitationCheck {
  /** the citation's hash. */
  chunk_hash: string;
  /** true if its text matches its hash. */
  integrity: boolean;
  /** true if this caller may see its source now; null if nothing was verified. */
  authorised: boolean | null;
  /**
   * state of the chunk, as in a replay; `tampered` if its text does not match its hash; `moved` also if it is in
   * another document than the citation's `source_id`.
   */
  verdict: string | null;
  /** its current document; null if it was not found. */
  document_id: string | null;
}

/** Answer of `build_citations`. */
export interface Citations {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  /** the document: `by_section`, `all_citations`, `total_count`, `source_ids`. */
  citations: { [key: string]: unknown };
  /** verification of each citation, in the order of `all_citations`. */
  verification: CitationCheck[];
  /** check of each quote. */
  quotes: QuoteCheck[];
  /** check of the answer's labels. */
  labels: LabelCheck;
  /** contradictions within or between citations. */
  conflicts: { [key: string]: unknown }[];
  /** path of the stored document, with the conflicts, below `artifacts.url`; or null. */
  artifact: string | null;
  trace: Trace;
}

/** A citation of an answer. */
export interface Cited {
  /** its label in the answer. */
  label: string;
  /** the chunk; null for a remote source. */
  chunk_id: string | null;
  /** its document. */
  source_path: string | null;
  /** its section. */
  heading: string | null;
  /** its page. */
  page_number: number | null;
  /** URL or DOI of the source. */
  url_or_doi: string | null;
  /** the words of the source that support the answer. */
  snippet: string;
  /** verdict of the quote check on the sentence that cites it. */
  quote: string | null;
  /** the section of the answer that cites it, if answers have sections. */
  section: string | null;
}

/** A chunk that was used. */
export interface CitedChunk {
  /** its document. */
  source_id: string;
  /** its text. */
  text: string;
  /** its weight, 0-1. */
  weight: number;
  /** the part of the output that used it, or null. */
  section?: string | null;
  /** the hash recorded for it; without one it is computed. */
  chunk_hash?: string;
  /** its id. */
  chunk_id?: string;
  /** page in the source. */
  page?: number | null;
  /** place on the page. */
  coordinates?: Json;
}

/** A recorded run, to be cited. */
export interface CitedRun {
  /** the run's subject. */
  subject_id: string;
  /** the run's name. */
  run_id: string;
  /** only the record of this step; without it, the whole run. */
  step?: string;
  /** `retrieved`: every chunk of the run; `cited`: only those that its recorded answers cite. */
  what?: "retrieved" | "cited";
}

/** Usage and cost of one call of a model, as its provider counted it. */
export interface Cost {
  /** purpose: synthesis, rerank, hyde, transform or embed. */
  kind: string;
  /** the model's provider. */
  provider: string;
  /** its name. */
  model: string;
  /** tokens sent; null if unknown. */
  input_tokens: number | null;
  /** those of them found in the provider's prompt cache. */
  cached_tokens: number;
  /** tokens generated; null if unknown. */
  output_tokens: number | null;
  /** units that a reranker bills instead of tokens; null if it bills tokens. */
  search_units: number | null;
  /** a decimal number as text; null, never 0, if a price or a count is unknown. */
  cost: string | null;
}

/** Total usage and cost of all calls of models. */
export interface CostTotal {
  /** number of calls. */
  calls: number;
  /** tokens sent, as far as known. */
  input_tokens: number;
  /** those of them found in a provider's prompt cache. */
  cached_tokens: number;
  /** tokens generated, as far as known. */
  output_tokens: number;
  /** units that rerankers billed instead of tokens. */
  search_units: number;
  /** a decimal number as text; null if that of a call is unknown. */
  cost: string | null;
  /** sum of the known costs. */
  known_cost: string;
  /** number of calls without a known cost. */
  unpriced: number;
}

/** Destination of the message. Without it, a message can't be requeued. */
export interface DeliveryInfo {
  /** the default exchange. */
  exchange: "";
  /** name of the queue, which is the Redis list. */
  routing_key: "pipeline" | "retrieval";
}

/** A difference between a quote and the chunk. */
export interface Difference {
  /** its kind. */
  kind: "white_space" | "invisible" | "line_break_hyphen" | "typography" | "spacing" | "markup" | "entity" | "digits" | "first_letter" | "end_punctuation" | "case_style" | "dash" | "joined" | "punctuation" | "case" | "accents" | "look_alike" | "symbol" | "cut" | "words" | "order";
  /** the quote's characters. */
  quoted: string;
  /** the chunk's characters. */
  source: string;
  /** place of `quoted`, as (start, end) in code points of the quote. */
  quote_span: [number, number];
  /** place of `source`, as (start, end) in code points of the chunk's own text. */
  chunk_span: [number, number];
}

/** Limits of repetition in an answer. */
export interface Diversity {
  /** weight of relevance against similarity to chunks already chosen: 1, only relevance; 0, only difference. */
  lambda?: number;
  /** maximum number of chunks of one document. */
  per_document?: number;
}

/** Error of a job. */
export interface Error {
  /** class of the error, which determines the remedy. */
  exc_type: "DeadLettered" | "InternalError" | "InvalidJob" | "NotAuthorised" | "SettingsError" | "TimedOut" | "Unavailable";
  /** one readable sentence. */
  exc_message: string[];
  /** for Python clients; not part of the contract. */
  exc_module: string;
}

/** Result of a failed query, at its place in a batch. */
export interface FailedQuery {
  error: JobError;
}

/** The job failed and will not be retried. */
export interface FailureRecord {
  /** state of the job. */
  status: "FAILURE";
  /** the answer, or the error. */
  result: Error;
  /** always null: stack traces stay in the worker's log. */
  traceback: null;
  /** Celery's own; not part of the contract. */
  children: unknown[];
  /** time when the job ended (ISO 8601); null before. */
  date_done: string;
  /** the id that the sender chose. */
  task_id: string;
}

/** Answer of `record_feedback`. */
export interface FeedbackRecorded {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  /** number of the given hashes that are chunks of the run; the same when the feedback is sent again. */
  recorded: number;
  /** hashes that the run does not have, in the order given. */
  unknown: string[];
  /** trace of the answer. */
  trace: Trace;
}

/** Filters of a search. A list matches any of its items; `[]` matches nothing. */
export interface Filters {
  /** only chunks of these documents. */
  document_ids?: string[];
  /** only chunks in one of these sections. */
  sections?: string[];
  /** only chunks on one of these pages. */
  pages?: number[];
  /** only documents whose path contains one of these, case-sensitive. */
  path_contains?: string[];
  /** only documents whose path ends with one of these extensions, e.g. `.pdf`, in any letter case. */
  ext_allow?: string[];
  /** no documents whose path ends with one of these; `[]` denies none. */
  ext_deny?: string[];
  /** only chunks whose metadata has exactly this value at each of these keys. */
  metadata?: { [key: string]: Json };
}

/** A chunk of a hybrid answer. */
export interface FusedChunk {
  /** rank in the answer, from 1. */
  rank: number;
  /** the chunk's id, as a string whatever the column's type. */
  chunk_id: string;
  /** its document's id, likewise. */
  document_id: string;
  /** the chunk's text, as stored. */
  text: string;
  /** page number in the document; null if unknown. */
  page: number | null;
  /** section of the document; null if unknown. */
  section: string | null;
  /** place on the page, in the backend's own form; null if unknown. */
  coordinates: unknown;
  /** the chunk's metadata, and mapped columns without a field of their own. */
  metadata: { [key: string]: unknown };
  /** `sha256:` and the hex of the text's hash; see `hash-vectors.json`. */
  chunk_hash: string;
  /** version of the hash `chunk_hash`. */
  hash_version: number;
  /** cosine distance from the query, in [0, 2]; null if only full-text search found it. */
  distance: number | null;
  /** 1 − `distance`, or null. */
  similarity_score: number | null;
  /** scores of each leg and each later stage. */
  scores: Scores;
}

/** Celery's headers, task protocol 2. Other headers are allowed. */
export interface Headers {
  /** name of the task. */
  task: "retrieve_top_k" | "pinned_replay" | "build_citations" | "retrieve_hybrid" | "run_pipeline" | "record_feedback";
  /** a new id (a UUID) for every job; the key of its answer. */
  id: string;
  /** after this time (ISO 8601, with an offset) no client waits for the answer. */
  expires?: string | null;
  /** not before this time (ISO 8601, with an offset). */
  eta?: string | null;
  /** refused, except for the nulls that Celery sends. */
  timelimit?: null[] | null;
  /** refused. */
  compression?: null;
  root_id?: string | null;
  parent_id?: string | null;
  /** whose turn the job takes, if it is not its caller's; Celery sends the id of a group. */
  group?: string | null;
  origin?: string | null;
  lang?: string | null;
  /** Celery's own count. */
  retries?: number | null;
  group_index?: number | null;
  replaced_task_nesting?: number | null;
  /** true: there is no record. */
  ignore_result?: boolean | null;
  /** seconds for which the worker has postponed the job during outages. */
  outage_seconds?: number | null;
}

/** Answer of `retrieve_hybrid`. */
export interface Hybrid {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  /** the method that combined the legs; null in records of earlier versions. */
  fusion: "similarity" | "rrf" | "weighted" | null;
  /** the query after its rewriting. */
  transformed_query: string;
  /** keywords that the second search added. */
  context_keywords: string[];
  /** corpus → its result. */
  results: { [key: string]: HybridAnswer };
  /** corpus → metrics of its legs. */
  metrics: { [key: string]: HybridMetrics };
  /** cost of each call of a model. */
  costs: Cost[];
  /** their sum. */
  costs_total: CostTotal;
  trace: Trace;
}

/** Result of one corpus. */
export interface HybridAnswer {
  /** `ok` with `top_k` chunks, `short` with fewer, `empty` with none. */
  status: "ok" | "short" | "empty";
  /**
   * null if `ok`; else `filters` were given, no more were found or kept by `diversity` (`visible_rows`), or recorded
   * chunks `changed`.
   */
  short_reason: "filters" | "visible_rows" | "changed" | null;
  /** the search's `top_k`. */
  top_k_requested: number;
  /** the same, clamped to 1-50. */
  top_k: number;
  /** the best first. */
  chunks: FusedChunk[];
}

/** Metrics of one corpus' legs. */
export interface HybridMetrics {
  /** state of the second search: `used`, `skipped` (no context) or `failed`. */
  contextual: "used" | "skipped" | "failed";
  /** the reason of its failure. */
  contextual_error: string | null;
  /** chunks that the primary leg found. */
  primary_count: number;
  /** chunks that the contextual leg found. */
  contextual_count: number;
  /** chunks that the sparse leg found. */
  sparse_count: number;
  /** chunks that any leg found, each once. */
  merged_count: number;
  /** number of results that an earlier leg had found. */
  duplicate_count: number;
  /** share of duplicates among all results, 0-1. */
  dedup_rate: number;
  /** leg → similarity of its best chunk; null if it found none. */
  top_similarity: { [key: string]: number | null };
  /** leg → mean similarity of its chunks; null if it found none. */
  mean_similarity: { [key: string]: number | null };
}

/** One corpus of a hybrid retrieval. */
export interface HybridSearch {
  /** a corpus named in the worker's settings. */
  corpus: string;
  /** number of chunks; any integer, clamped to 1-50. */
  top_k?: number;
  /** the filters of this search. */
  filters?: Filters;
}

/** A source whose chunks come with the job. */
export interface InlineSource {
  /** its id; without one its name, else `unknown`. */
  id?: string;
  /** used if there is no id. */
  name?: string;
  /** its weight, 0-1; default 0.5. */
  weight?: number;
  /**
   * texts, or `{"text": …, "chunk_id": …}`; other or blank items are skipped and counted, and so is a source without
   * this field.
   */
  chunks?: Json[];
}

/** Error of one query of a batch. */
export interface JobError {
  type: string;
  path: string;
  message: string;
}

/** Any JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Check of an answer's labels. */
export interface LabelCheck {
  used: UsedLabel[];
  unused: string[];
  unknown: UnknownLabel[];
  unreadable: UnreadableLabels[];
}

/** Text of the chunk that a quote omits with an ellipsis. */
export interface LeftOut {
  /** its place, as (start, end) in code points of the chunk's own text: all between two parts of the quote. */
  span: [number, number];
  /** the text. */
  text: string;
  /** true if a sentence of the chunk ends in it. */
  another_sentence: boolean;
}

/**
 * Score of a chunk in one leg: the leg's own score (higher is better) and its rank there, from 1.
 *
 * Under `weighted`, every leg scores every candidate: those that it did not find itself rank after those that it did.
 */
export interface LegScore {
  leg: string;
  score: number;
  rank: number;
}

/** A message of a conversation. */
export interface Message {
  /** `user` or `assistant`. */
  role: "user" | "assistant";
  /** the text. */
  content: string;
}

/** The sources and the prompt of an answer. */
export interface Package {
  /** id to `resume` it by; null if the caller has no owner claim. */
  package_id: string | null;
  /** the sources, best first. */
  candidates: PipelineCandidate[];
  /** label → its source. */
  source_labels: { [key: string]: { [key: string]: string } };
  /** the model's input; null before that stage. */
  context_block: string | null;
  /** the model's instructions; null before that stage. */
  starting_prompt: string | null;
  /** results of remote sources. */
  remote_sources: Remote[];
}

/** Result of one pin. */
export interface Pinned {
  /** the pin's hash. */
  chunk_hash: string;
  /** its state; `tampered`: the text given with it does not have its hash. */
  verdict: "exact" | "normalised" | "moved" | "ambiguous" | "edited" | "missing" | "matched" | "tampered";
  /** the chunk that matches it, that was edited, or that a tampered pin names; null if missing. */
  chunk_id: string | null;
  /** that chunk's document. */
  document_id: string | null;
  /** that chunk's current hash. */
  found_hash: string | null;
  /** number of visible chunks with the same text now. */
  places: number;
}

/**
 * Job of `pinned_replay`: the same chunks again, by their content.
 *
 * Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not
 * listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. Also refused,
 * though valid by the schema:
 * - More than one of `required_chunk_hashes`, `runs` and `citations`, or none of them without `run`.
 * - `sources` or `run` beside `runs`.
 * - `citations` other than a document that `build_citations` answers or stores: a field that it does not have, or a
 * `by_section`, `total_count` or `source_ids` that does not follow from its `all_citations`.
 * - `principal` beside `principal_token`.
 * - A known claim (`user_id`, `tenant_id`, `roles`) that is not null, a boolean, an integer, a text of at most 512
 * characters or a list of at most 1,000 such texts.
 * - A text or a field name of more than 1,000,000 characters, or with U+0000 or a lone surrogate (the escape `\ud800`
 * alone).
 * - A list of more than 10,000 items, an object of more than 1,000 fields, or more than 32 levels of them.
 * - A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.
 */
export interface PinnedReplay {
  /** the caller's claims in plain form; only if the worker's settings trust the queue. */
  principal?: { [key: string]: Json };
  /** the caller's claims as a signed JWT, bound to this task, this id and this job. */
  principal_token?: string;
  /** record the job under this name. */
  run?: RunRef;
  /**
   * position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights. No server
   * that has not replayed it is asked.
   */
  min_lsn?: string;
  /** the chunks, in this order; the 64 hex digits, with or without `sha256:`. */
  required_chunk_hashes?: string[];
  /** instead: several recorded runs, each answered as if alone. */
  runs?: RunName[];
  /** instead: a citations document. */
  citations?: { [key: string]: Json };
  /** inline sources to search instead of the corpus. */
  sources?: InlineSource[];
  /** a corpus named in the worker's settings; default the first. */
  corpus?: string;
  /** number of chunks, any integer, clamped to 0-10,000; default the number of pins, or 5 without pins. */
  top_k?: number;
  /** order of the chunks that follow the pinned ones up to `top_k`: by `text`, by `hash`, or `none`. */
  fill?: "text" | "hash" | "none";
  /** accepted, and changes nothing. */
  query?: string;
  /** accepted, and changes nothing. */
  seed?: number;
}

/** Answer of `run_pipeline`. */
export interface PipelineAnswer {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  /** `empty`: nothing was found, and no model was called. */
  status: "ok" | "empty";
  /** `changed` if a recorded answer is held back, because a source changed or is not visible. */
  short_reason: "changed" | null;
  /** the text; null if `empty`, held back, or stopped before. */
  answer: string | null;
  /** the citations, by label. */
  citations: Cited[];
  /**
   * for each sentence of the answer, the share of its words that its cited sources contain, 0-1; 0 if it cites none,
   * null if it has no words to support.
   */
  supported: (number | null)[];
  /** labels in the answer without a source. */
  unknown_labels: string[];
  /** what else in the answer looks like a label and could not be read, as written. */
  unreadable_labels: string[];
  /** the sources and the prompt. */
  package: Package;
  /** cost of each call of a model. */
  costs: Cost[];
  /** their sum. */
  costs_total: CostTotal;
  /** id to continue the conversation. */
  conversation_id: string | null;
  /** id to continue from this answer. */
  response_id: string | null;
  trace: PipelineTrace;
}

/** A source of an answer, with its `corpus`. */
export interface PipelineCandidate {
  /** rank in the answer, from 1. */
  rank: number;
  /** the chunk's id, as a string whatever the column's type. */
  chunk_id: string;
  /** its document's id, likewise. */
  document_id: string;
  /** the chunk's text, as stored. */
  text: string;
  /** page number in the document; null if unknown. */
  page: number | null;
  /** section of the document; null if unknown. */
  section: string | null;
  /** place on the page, in the backend's own form; null if unknown. */
  coordinates: unknown;
  /** the chunk's metadata, and mapped columns without a field of their own. */
  metadata: { [key: string]: unknown };
  /** `sha256:` and the hex of the text's hash; see `hash-vectors.json`. */
  chunk_hash: string;
  /** version of the hash `chunk_hash`. */
  hash_version: number;
  /** cosine distance from the query, in [0, 2]; null if only full-text search found it. */
  distance: number | null;
  /** 1 − `distance`, or null. */
  similarity_score: number | null;
  /** scores of each leg and each later stage. */
  scores: Scores;
  corpus: string;
}

/** Trace of an answer. */
export interface PipelineTrace {
  /** the stages, in order, with durations in milliseconds. */
  stages: Stage[];
  /**
   * `index` or `exact` if a search was made, and its parameters; of fused legs the `weights` that they had, by corpus
   * in `retrieve_hybrid`.
   */
  search: { [key: string]: unknown };
  /** models (and their versions) that were used. */
  models: { [key: string]: string };
  /** version of this project. */
  worker_version: string;
  /**
   * `hit` if the results of an equal job were reused, with their chunks read again; `miss` if there were none; null if
   * the cache was not used.
   */
  cache: "hit" | "miss" | null;
  /** dropped candidates, each with the stage and the reason. */
  left: { [key: string]: string }[];
  /** leg → its query. */
  queries: { [key: string]: string };
  /** hypothetical answers that a model wrote, used as queries. */
  hyde: string[];
  /** failures of optional parts. */
  warnings: string[];
}

/** Kombu's properties. Other properties are allowed. */
export interface Properties {
  /** a new id (a UUID) for every push, which makes it a message of its own. */
  delivery_tag: string;
  /** destination of the message. */
  delivery_info: DeliveryInfo;
  /** `base64` if the body is base64 of the JSON text; null or absent if it is the text. */
  body_encoding?: "base64" | null;
  /** the task id again. */
  correlation_id?: string | null;
  /** refused, except 0. */
  priority?: 0 | null;
}

/** Words in brackets that a quote has and the chunk does not. */
export interface PutIn {
  /** the words, without their brackets. */
  text: string;
  /** the chunk's words that they replace; empty if they were only added. */
  replaces: string;
}

/** Words quoted from a chunk. */
export interface Quote {
  /** the chunk. */
  chunk_hash: string;
  /** the words. */
  quote: string;
}

/** Check of one quote. */
export interface QuoteCheck {
  /** the claimed chunk. */
  claimed_hash: string;
  /** the words. */
  quote: string;
  /** result of the check: characters, not meaning. */
  verdict: "verbatim" | "normalised" | "altered" | "elided" | "misattributed" | "not_found" | "not_checked";
  /** the chunk that contains it; null if none does. */
  chunk_hash: string | null;
  /** index in `all_citations` of that chunk's text (texts that differ only in white space have one hash). */
  citation: number | null;
  /** its places, as (start, end) in code points of that text. */
  spans: [number, number][];
  /** all differences from that text, in order. */
  differences: Difference[];
  /** the rest of the chunk's sentence before it, at most 200 characters; null if it begins with a sentence. */
  before: string | null;
  /** the rest of the chunk's sentence after it, at most 200 characters; null if it ends with a sentence. */
  after: string | null;
  /** of an elided quote, the text between its parts, one for each mark between two of them. */
  left_out: LeftOut[];
  /** of an elided quote, the words that it has in brackets. */
  put_in: PutIn[];
  /** hashes of the chunks that contain it, if it is misattributed. */
  found_in: string[];
  /** the reason why it was not checked; null if it was. */
  reason: string | null;
}

/** A chunk of a `retrieve_top_k` answer. */
export interface RankedChunk {
  /** rank in the answer, from 1. */
  rank: number;
  /** the chunk's id, as a string whatever the column's type. */
  chunk_id: string;
  /** its document's id, likewise. */
  document_id: string;
  /** the chunk's text, as stored. */
  text: string;
  /** page number in the document; null if unknown. */
  page: number | null;
  /** section of the document; null if unknown. */
  section: string | null;
  /** place on the page, in the backend's own form; null if unknown. */
  coordinates: unknown;
  /** the chunk's metadata, and mapped columns without a field of their own. */
  metadata: { [key: string]: unknown };
  /** `sha256:` and the hex of the text's hash; see `hash-vectors.json`. */
  chunk_hash: string;
  /** version of the hash `chunk_hash`. */
  hash_version: number;
  /** cosine distance from the query, in [0, 2]. */
  distance: number;
  /** 1 − `distance`. */
  similarity_score: number;
}

/**
 * Job of `record_feedback`: the chunks of a run that were used, and a rating of its answer.
 *
 * Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not
 * listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. Also refused,
 * though valid by the schema:
 * - `principal` beside `principal_token`.
 * - A known claim (`user_id`, `tenant_id`, `roles`) that is not null, a boolean, an integer, a text of at most 512
 * characters or a list of at most 1,000 such texts.
 * - A text or a field name of more than 1,000,000 characters, or with U+0000 or a lone surrogate (the escape `\ud800`
 * alone).
 * - A list of more than 10,000 items, an object of more than 1,000 fields, or more than 32 levels of them.
 * - A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.
 */
export interface RecordFeedback {
  /** the caller's claims in plain form; only if the worker's settings trust the queue. */
  principal?: { [key: string]: Json };
  /** the caller's claims as a signed JWT, bound to this task, this id and this job. */
  principal_token?: string;
  /** the caller's run; with `step`, only what was recorded under it. `reuse` changes nothing. */
  run: RunRef;
  /**
   * position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights. No server
   * that has not replayed it is asked.
   */
  min_lsn?: string;
  /** hashes of chunks that were used. */
  used?: string[];
  /** hashes of chunks that were not used; a hash in both lists was used. */
  not_used?: string[];
  /** -1, 0 or 1. */
  rating?: number;
  /** a remark, at most 2,000 characters. */
  note?: string;
}

/** A result of a remote source. */
export interface Remote {
  provider: string;
  title: string;
  url: string;
  snippet: string;
  score: number | null;
  date: string | null;
  metadata: { [key: string]: unknown };
}

/** Answer of `pinned_replay`. */
export interface Replay {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  /** the pinned ones in the requested order, then the fill. */
  chunks: ReplayedChunk[];
  /** result of each pin. */
  pins: Pinned[];
  /** pins answered with a chunk. */
  matched: number;
  /** pins gone, or not visible to this caller. */
  missing: number;
  /** chunks that were not pinned. */
  filled: number;
  /** pins beyond `top_k`. */
  truncated: number;
  /** inline chunks that are no text or blank, and inline sources without chunks. */
  skipped: number;
  /** two replays are the same if their digests are. */
  digest: string;
  trace: Trace;
}

/** Answer of `pinned_replay` to `runs`: one entry per run, in their order. */
export interface ReplayBatch {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  results: (Replay | FailedQuery)[];
  trace: Trace;
}

/** A chunk of a replay; the fields from `rank` on exist if a corpus was searched. */
export interface ReplayedChunk {
  chunk_hash: string;
  text: string;
  source_id: string;
  weight: number;
  pinned: boolean;
  rank?: number | null;
  chunk_id?: string | null;
  document_id?: string | null;
  page?: number | null;
  section?: string | null;
  coordinates?: unknown;
  metadata?: { [key: string]: unknown } | null;
  hash_version?: number | null;
}

/**
 * Job of `retrieve_hybrid`: several searches at once over several corpora, fused into one ranking per corpus.
 *
 * Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not
 * listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. Also refused,
 * though valid by the schema:
 * - An embedding of only zeros.
 * - Base64 of a NaN or an infinity.
 * - A `query` of white space only.
 * - One of the `legs` twice, or `contextual` alone.
 * - Two `searches` of one corpus.
 * - `weights` of 0 for each leg that searches, but for `fusion` `similarity`; `contextual` searches only with a
 * `context`.
 * - `principal` beside `principal_token`.
 * - A known claim (`user_id`, `tenant_id`, `roles`) that is not null, a boolean, an integer, a text of at most 512
 * characters or a list of at most 1,000 such texts.
 * - A text or a field name of more than 1,000,000 characters, or with U+0000 or a lone surrogate (the escape `\ud800`
 * alone).
 * - A list of more than 10,000 items, an object of more than 1,000 fields, or more than 32 levels of them.
 * - A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.
 */
export interface RetrieveHybrid {
  /** the caller's claims in plain form; only if the worker's settings trust the queue. */
  principal?: { [key: string]: Json };
  /** the caller's claims as a signed JWT, bound to this task, this id and this job. */
  principal_token?: string;
  /** record the job under this name. */
  run?: RunRef;
  /**
   * position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights. No server
   * that has not replayed it is asked.
   */
  min_lsn?: string;
  /** the user's query. */
  query: string;
  /**
   * As many finite numbers as the corpus has dimensions, 768 by default: a list, or base64 of little-endian float32.
   * Any norm but zero; scaled to unit length before use.
   */
  query_embedding?: number[] | string;
  /** the text that the user is working on; its keywords widen the second search. Empty: no second search. */
  context?: string;
  /** the corpora, each once; default those of the worker's settings. */
  searches?: HybridSearch[];
  /**
   * `primary` (the query), `contextual` (query and keywords), `sparse` (full text); default all, but without `sparse`
   * for a corpus without a column of full text.
   */
  legs?: ("primary" | "contextual" | "sparse")[];
  /**
   * method that combines the legs: `similarity`, reciprocal ranks (`rrf`), or `weighted` scores; default the worker's
   * `hybrid.fusion`.
   */
  fusion?: "similarity" | "rrf" | "weighted";
  /** constant of `rrf`: a chunk at rank r of a leg gets its weight / (rrf_k + r). Others ignore it. */
  rrf_k?: number;
  /** leg → its weight, for `rrf` and `weighted`; missing legs have the weights of the worker's settings. */
  weights?: { [key in "primary" | "contextual" | "sparse"]?: number };
  /**
   * rewriting of the query before the search: `none`, `glossary` (adds the corpus's words), `llm` (a language model
   * rewrites it). An embedding given with the query is used unchanged.
   */
  transform?: "none" | "glossary" | "llm";
  /** null: none. */
  diversity?: Diversity | null;
  /** `sparse` reads the query in web search syntax: `"a phrase"`, `or`, `-without`. Else these are words. */
  web_search?: boolean;
}

/**
 * Job of `retrieve_top_k`: the nearest 10–15 chunks by cosine distance that the caller may see.
 *
 * Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not
 * listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. Also refused,
 * though valid by the schema:
 * - Neither or both of `query_embedding` and `query_embeddings`.
 * - `run` beside `query_embeddings`.
 * - An embedding of only zeros.
 * - Base64 of a NaN or an infinity.
 * - `principal` beside `principal_token`.
 * - A known claim (`user_id`, `tenant_id`, `roles`) that is not null, a boolean, an integer, a text of at most 512
 * characters or a list of at most 1,000 such texts.
 * - A text or a field name of more than 1,000,000 characters, or with U+0000 or a lone surrogate (the escape `\ud800`
 * alone).
 * - A list of more than 10,000 items, an object of more than 1,000 fields, or more than 32 levels of them.
 * - A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.
 */
export interface RetrieveTopK {
  /** the caller's claims in plain form; only if the worker's settings trust the queue. */
  principal?: { [key: string]: Json };
  /** the caller's claims as a signed JWT, bound to this task, this id and this job. */
  principal_token?: string;
  /** record the job under this name. */
  run?: RunRef;
  /**
   * position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights. No server
   * that has not replayed it is asked.
   */
  min_lsn?: string;
  /**
   * As many finite numbers as the corpus has dimensions, 768 by default: a list, or base64 of little-endian float32.
   * Any norm but zero; scaled to unit length before use.
   */
  query_embedding?: number[] | string;
  /** instead, up to 64 queries, each answered as if alone. */
  query_embeddings?: (number[] | string | Json)[];
  /** number of chunks; any integer, clamped to 10–15. */
  k?: number;
  /** a corpus named in the worker's settings; default the first. */
  corpus?: string;
  /** the filters of the search. */
  filters?: Filters;
  /** cosine distance in [0, 2]; farther chunks are left out. */
  max_distance?: number;
  /** search without an approximate index. */
  exact?: boolean;
}

/** Not final: a service was unavailable, and the worker will retry. Keep waiting. */
export interface RetryRecord {
  /** state of the job. */
  status: "RETRY";
  /** the answer, or the error. */
  result: Error;
  /** always null: stack traces stay in the worker's log. */
  traceback: null;
  /** Celery's own; not part of the contract. */
  children: unknown[];
  /** time when the job ended (ISO 8601); null before. */
  date_done: null;
  /** the id that the sender chose. */
  task_id: string;
}

/** A recorded run, to be read. */
export interface RunName {
  /** the run's subject. */
  subject_id: string;
  /** the run's name. */
  run_id: string;
  /** only the record of this step; without it, the whole run. */
  step?: string;
}

/**
 * Job of `run_pipeline`: from a question to an answer with citations.
 *
 * Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not
 * listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. Also refused,
 * though valid by the schema:
 * - Neither `question` nor `resume`.
 * - A `question` of white space only.
 * - Beside `resume`: `run`, or a field of this task but `stop_after` and `require_model`. The package has them.
 * - Two `searches` of one corpus.
 * - With `run` in a mode with sections (`lyrics`): a `subject_id` or `run_id` that can't be the name of a folder, as in
 * `build_citations`.
 * - `principal` beside `principal_token`.
 * - A known claim (`user_id`, `tenant_id`, `roles`) that is not null, a boolean, an integer, a text of at most 512
 * characters or a list of at most 1,000 such texts.
 * - A text or a field name of more than 1,000,000 characters, or with U+0000 or a lone surrogate (the escape `\ud800`
 * alone).
 * - A list of more than 10,000 items, an object of more than 1,000 fields, or more than 32 levels of them.
 * - A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.
 */
export interface RunPipeline {
  /** the caller's claims in plain form; only if the worker's settings trust the queue. */
  principal?: { [key: string]: Json };
  /** the caller's claims as a signed JWT, bound to this task, this id and this job. */
  principal_token?: string;
  /** record the job under this name. */
  run?: RunRef;
  /**
   * position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights. No server
   * that has not replayed it is asked.
   */
  min_lsn?: string;
  /** the question. */
  question?: string;
  /** a mode of the worker's settings; default the first. */
  mode?: string;
  /** a search profile of the worker's settings; default the mode's. */
  profile?: string;
  /** the filters of every corpus. */
  filters?: Filters;
  /** number of sources; any integer, clamped to 1-50; default the mode's. */
  k?: number;
  /** instructions to the model in place of the mode's. */
  starting_prompt?: string;
  /** continues this conversation, or begins one of that name. */
  conversation_id?: string;
  /** continues from this answer. */
  prior_response_id?: string;
  /** earlier messages, if the backend stores them. */
  conversation_history?: Message[];
  /** `single`: an independent question; `chat`: each answer continues from the last. */
  chat_mode?: "single" | "chat";
  /** hashes of chunks that come first among the sources. */
  pinned_chunks?: string[];
  /** the text that the user is working on. */
  context?: string;
  /** corpora to search instead of the mode's. */
  searches?: HybridSearch[];
  /** passed on to the model that writes the answer, and recorded. */
  seed?: number;
  /** likewise. */
  temperature?: number;
  /** stop after this stage; the answer is a package, to inspect and to `resume`. */
  stop_after?: "build_sources" | "synthesize_context";
  /** instead of a question: the id of a package to continue. */
  resume?: string;
  /** fail as `Unavailable` if the language model fails, instead of answering without it. */
  require_model?: boolean;
}

/** Record this job, so that it can be replayed and cited. */
export interface RunRef {
  /** the run's subject, e.g. `song-1`; owner, subject and `run_id` identify a run. */
  subject_id: string;
  /** the run's name, unique to its subject. */
  run_id: string;
  /** name of this record; a run has one record for each task and step. */
  step?: string;
  /** replay the run if it exists, else search and record. */
  reuse?: boolean;
}

/** Scores that determine a chunk's rank. */
export interface Scores {
  /** scores of each leg that found it. */
  legs: LegScore[];
  /** score of the fusion. */
  fused: number | null;
  /**
   * score of the rerank stage, to be compared within one answer only; null without one. With a `rerank_weight` below 1:
   * its sum with `fused`, both scaled to 0-1. With 1 the reranker's own: of `lexical` BM25 (0 or more), of `llm` 0-10,
   * of `http` and `cross_encoder` the model's, on any scale.
   */
  rerank: number | null;
  /** recency by the profile's half-life; null if it has no weight. */
  temporal: number | null;
}

/** One stage of a job: its name, its duration and its counts. */
export interface Stage {
  stage: string;
  duration_ms: number;
  counts: { [key: string]: number };
}

/** The job was answered; `result` follows the task's result schema. */
export interface SuccessRecord {
  /** state of the job. */
  status: "SUCCESS";
  /** the answer, or the error. */
  result: unknown;
  /** always null: stack traces stay in the worker's log. */
  traceback: null;
  /** Celery's own; not part of the contract. */
  children: unknown[];
  /** time when the job ended (ISO 8601); null before. */
  date_done: string;
  /** the id that the sender chose. */
  task_id: string;
}

/**
 * Message that a backend pushes (`LPUSH`) to a queue, as JSON: a Celery task message, protocol 2.
 *
 * Also refused, though valid by the schema:
 * - An `eta` or `expires` that is no ISO 8601 time.
 * - An id with a character beyond ASCII that can't be printed, e.g. U+200B.
 * - A message of more than 12582912 bytes, or of 500000 commas, colons and opening brackets, or an integer of more than
 * 4300 digits.
 */
export interface TaskMessage {
  /** JSON text of `[[job], {}, {}]`. */
  body: string;
  /** the only accepted one. */
  "content-type": "application/json";
  /** the body's character set. */
  "content-encoding": "utf-8";
  /** the task and its id. */
  headers: Headers;
  /** the delivery. */
  properties: Properties;
}

/** Answer of `retrieve_top_k` to one query. */
export interface TopK {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  /** `ok` with `k` chunks, `short` with fewer, `empty` with none, which is not an error. */
  status: "ok" | "short" | "empty";
  /**
   * null if `ok`; else the first that applies: `max_distance` removed a chunk, `filters` were given, no more rows are
   * visible (`visible_rows`), or recorded chunks `changed`.
   */
  short_reason: "max_distance" | "filters" | "visible_rows" | "changed" | null;
  /** the job's `k`. */
  k_requested: number;
  /** the same, clamped to 10–15. */
  k: number;
  /** the corpus that was searched. */
  corpus: string;
  /** the nearest first. */
  chunks: RankedChunk[];
  /** trace of the answer; differs between repetitions. */
  trace: Trace;
}

/** Answer of `retrieve_top_k` to `query_embeddings`: one entry per query, in their order. */
export interface TopKBatch {
  /** version of this contract. */
  schema_version: 1;
  /**
   * codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`, `embedder_language`
   * (the question, or the chunks, are not of the embedder's languages), `remote:<name>`; empty if nothing is missing.
   */
  degraded: string[];
  results: (TopK | FailedQuery)[];
  trace: Trace;
}

/** Trace of an answer. It differs between repetitions of a job. */
export interface Trace {
  /** the stages, in order, with durations in milliseconds. */
  stages: Stage[];
  /**
   * `index` or `exact` if a search was made, and its parameters; of fused legs the `weights` that they had, by corpus
   * in `retrieve_hybrid`.
   */
  search: { [key: string]: unknown };
  /** models (and their versions) that were used. */
  models: { [key: string]: string };
  /** version of this project. */
  worker_version: string;
  /**
   * `hit` if the results of an equal job were reused, with their chunks read again; `miss` if there were none; null if
   * the cache was not used.
   */
  cache: "hit" | "miss" | null;
}

/** A label in the answer that was not given. */
export interface UnknownLabel {
  text: string;
  span: [number, number];
}

/** Text in brackets, code, a tag or a comment that looks like a label but is in no form that is read. */
export interface UnreadableLabels {
  text: string;
  span: [number, number];
}

/** A label that the answer uses. */
export interface UsedLabel {
  label: string;
  chunk_hash: string;
  spans: [number, number][];
}

/** Each task: the queue to push its job to, and what answers it. */
export interface Tasks {
  retrieve_top_k: { queue: "retrieval"; job: RetrieveTopK; answer: TopK | TopKBatch };
  pinned_replay: { queue: "retrieval"; job: PinnedReplay; answer: Replay | ReplayBatch };
  build_citations: { queue: "retrieval"; job: BuildCitations; answer: Citations };
  retrieve_hybrid: { queue: "retrieval"; job: RetrieveHybrid; answer: Hybrid };
  run_pipeline: { queue: "pipeline"; job: RunPipeline; answer: PipelineAnswer };
  record_feedback: { queue: "retrieval"; job: RecordFeedback; answer: FeedbackRecorded };
}
