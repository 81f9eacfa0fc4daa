// A ledger of jobs: no job is lost, none is answered twice. Node.js alone, 18 or newer; a file for each job remembers.
//
//   node ledger.mjs add < jobs.jsonl
//   node ledger.mjs run
//
// `add` writes jobs into the ledger and prints their ids. A line is `{"task": "retrieve_top_k", "job": {"query_embedding":
// "…"}, "claims": {"user_id": "alice"}}`; it may bring an `id` of its own, and adding that again changes nothing. `run`
// sends what is due, waits, sends again, until every job is closed; it may be killed and started again at any point.
// Why it is made so: docs/backends.md.
//
// CELERY_BROKER_URL, CELERY_RESULT_BACKEND: the two Redis databases. LEDGER: a folder (ledger), with `open` and `closed`
// in it, as ledger.sh has them. LEDGER_SECONDS: how long to wait for an answer before a job is sent again (30).
// LEDGER_SENDS: how often it is sent (3). TOKEN_KEY, TOKEN_KEY_ID: the secret (HS256) and its name (k1) for signed
// principals; without one they are sent plain, for workers that trust their queue. LEDGER_TOKEN_SECONDS: how long a
// token holds (600). One `run` at a time for a folder.

import { createHash, createHmac, randomUUID } from "node:crypto";
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis, RedisError } from "./redis.mjs";

const environment = process.env;
const SECONDS = Number(environment.LEDGER_SECONDS ?? 30);
const SENDS = Number(environment.LEDGER_SENDS ?? 3);
const TOKEN_SECONDS = Number(environment.LEDGER_TOKEN_SECONDS ?? 600);
const POLL_MILLISECONDS = 50;

// --- The ledger: open/ID.json, moved to closed/ID.json ------------------------------------------

const OPEN = join(environment.LEDGER ?? "ledger", "open");
const CLOSED = join(environment.LEDGER ?? "ledger", "closed");
const named = (folder, id) => join(folder, `${id}.json`);

// Written whole or not at all, and on disk before it returns.
function save(row) {
  const path = named(OPEN, row.id);
  onDisk(`${path}.new`, "w", (file) => writeSync(file, JSON.stringify(row)));
  renameSync(`${path}.new`, path);
  onDisk(OPEN, "r");
}

function onDisk(path, mode, write = () => {}) {
  const file = openSync(path, mode);
  write(file);
  fsyncSync(file);
  closeSync(file);
}

// The jobs without an answer; one whose end was written but not moved (a crash in between) is moved now.
function openRows() {
  const names = readdirSync(OPEN).filter((name) => name.endsWith(".json")).sort();
  const rows = names.map((name) => JSON.parse(readFileSync(join(OPEN, name), "utf8")));
  rows.filter((row) => row.status !== null).forEach(move);
  return rows.filter((row) => row.status === null);
}

function close(row, status, record) {
  const closed = { ...row, status, record };
  save(closed);
  move(closed);
}

function move(row) {
  renameSync(named(OPEN, row.id), named(CLOSED, row.id));
  onDisk(CLOSED, "r");
  console.log(row.id, row.status);
}

// --- What to do with a row ----------------------------------------------------------------------

// The status of a record that is the answer to this row; null while there is none.
function final(row, record, now) {
  const answer = JSON.parse(record ?? "{}");
  const ended = row.token_until !== null && now >= row.token_until;
  // Of a message that waited longer than its token held: the next one brings a new token.
  if (answer.status === "FAILURE" && answer.result.exc_type === "NotAuthorised" && ended) return null;
  return ["SUCCESS", "FAILURE", "REVOKED"].includes(answer.status) ? answer.status : null;
}

// Never pushed, or the answer's time is over (or the clock was set back).
const due = (row, now) => !(row.pushed_at <= now && now < row.pushed_at + SECONDS);

// --- Sending ------------------------------------------------------------------------------------

// RFC 8785: keys sorted by UTF-16 code units, no spaces; JavaScript writes strings and numbers as it asks.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

// A token that lets these claims ask exactly this job, under this id.
function sign({ id, task, job, claims }, exp) {
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const header = { alg: "HS256", typ: "JWT", kid: environment.TOKEN_KEY_ID ?? "k1" };
  const digest = createHash("sha256").update(canonical(job)).digest("hex");
  const bound = { exp, aud: "retrieval-worker", task, jti: id, args_sha256: digest };
  const token = `${encode(header)}.${encode({ ...claims, ...bound })}`;
  return `${token}.${createHmac("sha256", environment.TOKEN_KEY).update(token).digest("base64url")}`;
}

// Push a job, under its id; resolves, with when its token ends, once Redis has acknowledged it.
async function push(broker, row, now) {
  const until = environment.TOKEN_KEY ? Math.floor(now) + TOKEN_SECONDS : null;
  const who = until !== null ? { principal_token: sign(row, until) } : { principal: row.claims };
  const asks = until !== null || Object.keys(row.claims).length > 0;
  const queue = row.task === "run_pipeline" ? "pipeline" : "retrieval";
  await broker.command("LPUSH", queue, JSON.stringify({
    body: JSON.stringify([[asks ? { ...row.job, ...who } : row.job], {}, {}]),
    "content-type": "application/json",
    "content-encoding": "utf-8",
    headers: { task: row.task, id: row.id }, // no `expires`: an old copy that expires would answer for a new one
    properties: { delivery_tag: randomUUID(), delivery_info: { exchange: "", routing_key: queue } },
  }));
  return until;
}

// Read the answers that are there, and send what is due; resolves with how many jobs were given up.
async function step(rows, broker, results) {
  let givenUp = 0;
  const records = await results.command("MGET", ...rows.map((row) => `celery-task-meta-${row.id}`));
  for (const [index, row] of rows.entries()) {
    const now = Date.now() / 1000;
    let status = final(row, records[index], now);
    if (status === null && due(row, now)) {
      if (row.sends < SENDS) {
        const until = await push(broker, row, now);
        save({ ...row, sends: row.sends + 1, pushed_at: Date.now() / 1000, token_until: row.token_until ?? until });
        continue;
      }
      status = "GIVEN_UP";
      givenUp += 1;
    }
    if (status !== null) close(row, status, records[index]);
  }
  return givenUp;
}

// Until every job is closed; resolves with how many were given up.
async function run() {
  const broker = new Redis(environment.CELERY_BROKER_URL);
  const results = new Redis(environment.CELERY_RESULT_BACKEND);
  let givenUp = 0;
  for (let rows; (rows = openRows()).length > 0; ) {
    try {
      givenUp += await step(rows, broker, results);
      await sleep(POLL_MILLISECONDS);
    } catch (error) {
      if (!(error instanceof RedisError)) throw error;
      console.error(`ledger: Redis is away (${error.message}), trying again`);
      await sleep(1000);
    }
  }
  broker.close();
  results.close();
  return givenUp;
}

// One job a line; its id is printed once it is in the ledger, and so will be answered.
async function add(lines) {
  let number = 0;
  for await (const line of lines) {
    number += 1;
    const { task, job, claims = {}, id = randomUUID() } = parsed(line);
    const validId = typeof id === "string" && /^[0-9A-Za-z-]{1,64}$/.test(id);
    if (typeof task !== "string" || !isObject(job) || !isObject(claims) || !validId) {
      stop(`line ${number}: expected {"task": "…", "job": {…}, "claims": {…}, "id": "a UUID"}`);
    }
    if (!existsSync(named(OPEN, id)) && !existsSync(named(CLOSED, id))) {
      save({ id, task, job, claims, sends: 0, pushed_at: 0, token_until: null, status: null, record: null });
    }
    console.log(id);
  }
}

function parsed(line) {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}

function stop(reason) {
  console.error(`ledger: ${reason}`);
  process.exit(1);
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

mkdirSync(OPEN, { recursive: true });
mkdirSync(CLOSED, { recursive: true });
const [command] = process.argv.slice(2);
if (command === "add") {
  await add(createInterface({ input: process.stdin }));
} else if (command === "run") {
  for (const name of ["CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"]) {
    if (!/^redis:\/\/./.test(environment[name] ?? "")) stop(`${name}: expected redis://host:port/database`);
  }
  process.exitCode = (await run()) > 0 ? 1 : 0;
} else {
  stop("usage: ledger.mjs add < jobs.jsonl | ledger.mjs run");
}
