#!/usr/bin/env bash
# A ledger of jobs: no job is lost, none is answered twice. bash 5, redis-cli and jq; openssl to sign.
#
#   ./ledger.sh add < jobs.jsonl
#   ./ledger.sh run
#
# `add` writes jobs into the ledger and prints their ids. A line is `{"task": "retrieve_top_k", "job": {"query_embedding":
# "…"}, "claims": {"user_id": "alice"}}`; it may bring an `id` of its own, and adding that again changes nothing. `run`
# sends what is due, waits, sends again, until every job is closed; it may be killed and started again at any point.
# Why it is made so: docs/backends.md.
#
# CELERY_BROKER_URL, CELERY_RESULT_BACKEND: the two Redis databases; a password belongs into REDISCLI_AUTH, since others
# can read a command line. LEDGER: a folder (ledger), with `open` and `closed` in it, as ledger.mjs has them.
# LEDGER_SECONDS: how long to wait for an answer before a job is sent again (30). LEDGER_SENDS: how often it is sent (3).
# TOKEN_KEY_FILE, TOKEN_KEY_ID: a private RSA key in PEM (RS256: openssl takes no HS256 secret but from its command
# line) and its name (k1) for signed principals; without one they are sent plain, for workers that trust their queue.
# LEDGER_TOKEN_SECONDS: how long a token holds (600). One `run` at a time for a folder.
set -uo pipefail
shopt -s nullglob
export LC_ALL=C # for the point in $EPOCHREALTIME

LEDGER=${LEDGER:-ledger}
LEDGER_SECONDS=${LEDGER_SECONDS:-30}
LEDGER_SENDS=${LEDGER_SENDS:-3}
LEDGER_TOKEN_SECONDS=${LEDGER_TOKEN_SECONDS:-600}
TOKEN_KEY_FILE=${TOKEN_KEY_FILE:-}
TOKEN_KEY_ID=${TOKEN_KEY_ID:-k1}
POLL_SECONDS=0.1

# What to do with a row, given the record under its id (or none): its status if that is its end, `push`, or `wait`.
DECIDE='
  ($record[0] // {}) as $answer
  # Of a message that waited longer than its token held: the next one brings a new token.
  | (.token_until != null and $now >= .token_until) as $ended
  | ($answer.status == "FAILURE" and $answer.result.exc_type == "NotAuthorised" and $ended) as $stale
  # Never pushed, or the time of the answer is over (or the clock was set back).
  | (.pushed_at <= $now and $now < .pushed_at + $seconds | not) as $due
  | if .status != null then .status
    elif ($answer.status | . == "SUCCESS" or . == "FAILURE" or . == "REVOKED") and ($stale | not) then $answer.status
    elif $due | not then "wait"
    elif .sends < $sends then "push"
    else "GIVEN_UP" end'

# No `expires`: an old copy that expires would answer for a new one.
MESSAGE='
  (if env.TOKEN != "" then .job + {principal_token: env.TOKEN}
   elif .claims != {} then .job + {principal: .claims}
   else .job end) as $job
  | {body: ([[$job], {}, {}] | tojson), "content-type": "application/json", "content-encoding": "utf-8",
     headers: {task, id},
     properties: {delivery_tag: $tag, delivery_info: {exchange: "", routing_key: $queue}}}'

stop() { # reason: what can't be mended by trying again.
  echo "ledger: $1" >&2
  exit 1
}

redis() { # URL, command: Redis' reply. Half-open connections must not hang.
  timeout 10 redis-cli -u "$1" "${@:2}" 2>/dev/null
}

save() { # path, then as jq: written whole or not at all, and on disk before it returns.
  jq -c "${@:2}" > "$1.new" && sync "$1.new" && mv "$1.new" "$1" && sync "${1%/*}" || stop "$1 can't be written"
}

base64url() {
  openssl base64 -A | tr '+/' '-_' | tr -d '='
}

sign() { # row, exp: a token that lets its claims ask exactly this job, under this id.
  local digest token
  # RFC 8785, for jobs of strings and whole numbers (`add` refuses others): jq writes other numbers in another way.
  digest=$(jq -cSj '.job | walk(if type == "number" then floor else . end)' "$1" | sha256sum) || return
  token=$(jq -cnj --arg kid "$TOKEN_KEY_ID" '{alg: "RS256", typ: "JWT", kid: $kid}' | base64url).$(
    jq -cj --argjson exp "$2" --arg digest "${digest%% *}" \
      '.claims + {exp: $exp, aud: "retrieval-worker", task, jti: .id, args_sha256: $digest}' "$1" | base64url
  ) || return
  printf '%s.%s' "$token" "$(printf %s "$token" | openssl dgst -sha256 -sign "$TOKEN_KEY_FILE" | base64url)"
}

push() { # row, now: push a job, under its id; it counts once Redis has acknowledged it.
  local row=$1 now=$2 until=null queue reply tag
  local -x TOKEN="" # not as an argument: others can read a command line
  if [[ $TOKEN_KEY_FILE ]]; then
    until=$((${now%.*} + LEDGER_TOKEN_SECONDS))
    TOKEN=$(sign "$row" "$until") || stop "TOKEN_KEY_FILE: expected a private RSA key in PEM"
  fi
  queue=$(jq -r 'if .task == "run_pipeline" then "pipeline" else "retrieval" end' "$row")
  tag=$(cat /proc/sys/kernel/random/uuid)
  reply=$(jq -cj --arg tag "$tag" --arg queue "$queue" "$MESSAGE" "$row" | redis "$CELERY_BROKER_URL" -x LPUSH "$queue")
  [[ $reply =~ ^[0-9]+$ ]] || return # an error of Redis is a reply as well
  save "$row" --argjson now "$EPOCHREALTIME" --argjson until "$until" \
    '.sends += 1 | .pushed_at = $now | .token_until = (.token_until // $until)' < "$row"
}

step() { # row: read its answer, or send it if it is due. Fails where Redis is away.
  local row=$1 id=${1##*/} now=$EPOCHREALTIME record=$LEDGER/record.$$ action
  id=${id%.json}
  redis "$CELERY_RESULT_BACKEND" GET "celery-task-meta-$id" > "$record" || return
  action=$(jq -r --slurpfile record "$record" --argjson now "$now" --argjson seconds "$LEDGER_SECONDS" \
    --argjson sends "$LEDGER_SENDS" "$DECIDE" "$row" 2>/dev/null) || return # an error of Redis is not JSON
  case $action in
    wait) ;;
    push) push "$row" "$now" ;;
    *) finish "$row" "$id" "$action" "$record" ;;
  esac
}

finish() { # row, id, status, record: the first end that is written stays, also if a crash kept it from being moved.
  local row=$1
  save "$row" --arg status "$3" --rawfile record "$4" \
    'if .status == null then .status = $status | .record = ($record | rtrimstr("\n") | if . == "" then null else . end)
     else . end' < "$row"
  mv "$row" "$LEDGER/closed/" && sync "$LEDGER/closed" || stop "$LEDGER/closed can't be written"
  echo "$2 $3"
  [[ $3 != GIVEN_UP ]] || given_up=1
}

run() { # Until every job is closed; fails if one was given up.
  local given_up=0 rows row
  while rows=("$LEDGER"/open/*.json) && ((${#rows[@]})); do
    for row in "${rows[@]}"; do
      step "$row" || { echo "ledger: Redis is away, trying again" >&2; sleep 1; break; }
    done
    sleep "$POLL_SECONDS"
  done
  rm -f "$LEDGER/record.$$"
  return "$given_up"
}

add() { # One job a line; its id is printed once it is in the ledger, and so will be answered.
  local line number=0 id
  while IFS= read -r line; do
    number=$((number + 1))
    id=$(jq -re --arg new "$(cat /proc/sys/kernel/random/uuid)" \
      'select((.task | type) == "string" and (.job | type) == "object" and (.claims // {} | type) == "object")
       | .id // $new | select(test("^[0-9A-Za-z-]{1,64}$"))' <<< "$line" 2>/dev/null) || {
      stop "line $number: expected"' {"task": "…", "job": {…}, "claims": {…}, "id": "a UUID"}'
    }
    if [[ $TOKEN_KEY_FILE ]] && jq -e '[.job | .. | numbers | select(. != floor)] != []' <<< "$line" > /dev/null; then
      stop "line $number: job: expected whole numbers; ledger.py and ledger.mjs sign others too"
    fi
    if [[ ! -e $LEDGER/open/$id.json && ! -e $LEDGER/closed/$id.json ]]; then
      save "$LEDGER/open/$id.json" --arg id "$id" \
        '{id: $id, task, job, claims: (.claims // {}), sends: 0, pushed_at: 0, token_until: null, status: null,
          record: null}' <<< "$line"
    fi
    echo "$id"
  done
}

mkdir -p "$LEDGER/open" "$LEDGER/closed"
case ${1:-} in
  add) add ;;
  run)
    for name in CELERY_BROKER_URL CELERY_RESULT_BACKEND; do
      [[ ${!name:-} =~ ^rediss?://. ]] || stop "$name: expected redis://host:port/database"
    done
    run
    ;;
  *) stop "usage: ledger.sh add < jobs.jsonl | ledger.sh run" ;;
esac
