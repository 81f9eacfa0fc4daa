// Redis in as much as ledger.mjs needs it, without a dependency: RESP over node:net. A backend uses its own client.

import { readFileSync } from "node:fs";
import net from "node:net";
import tls from "node:tls";

const SECONDS = 10; // a half-open connection must not hang: a command without a reply by then fails

// Redis is away, or refuses: to be tried again.
export class RedisError extends Error {}

// One connection, made by the first command and, after a fault, by the next; replies come in the order of commands.
export class Redis {
  #url; #socket = null; #buffer = Buffer.alloc(0); #waiting = [];

  constructor(url) {
    this.#url = new URL(url);
  }

  // Resolves with Redis' reply (a string, a number, null or a list), rejects with its error or the connection's.
  command(...words) {
    if (this.#socket === null) this.#connect();
    return this.#send(words);
  }

  close() {
    this.#socket?.destroy();
  }

  #connect() {
    const { protocol, hostname, port, username, password, pathname, searchParams } = this.#url;
    const where = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 6379) };
    const socket = protocol === "rediss:" ? tls.connect({ ...where, ...certificates(searchParams) }) : net.connect(where);
    socket.setTimeout(SECONDS * 1000, () => {
      if (this.#waiting.length > 0) socket.destroy(new RedisError(`no reply within ${SECONDS} s`));
    });
    socket.on("data", (bytes) => this.#read(bytes));
    let reason = "the connection was closed";
    socket.on("error", (error) => (reason = error.code ?? error.message)); // "close" follows, and tells who waits
    socket.on("close", () => {
      const failed = this.#waiting;
      this.#socket = null;
      this.#waiting = [];
      this.#buffer = Buffer.alloc(0);
      for (const { reject } of failed) reject(new RedisError(reason));
    });
    this.#socket = socket;
    const refused = (error) => socket.destroy(error); // a wrong password or database: no command may follow
    if (password) {
      this.#send(["AUTH", decodeURIComponent(username || "default"), decodeURIComponent(password)]).catch(refused);
    }
    if (pathname.length > 1) this.#send(["SELECT", pathname.slice(1)]).catch(refused);
  }

  #send(words) {
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    this.#socket.write(`*${words.length}\r\n${parts.join("")}`);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #read(bytes) {
    this.#buffer = Buffer.concat([this.#buffer, bytes]);
    for (let found; (found = parse(this.#buffer, 0)) !== null; ) {
      const [reply, next] = found;
      this.#buffer = this.#buffer.subarray(next);
      const { resolve, reject } = this.#waiting.shift();
      if (reply instanceof RedisError) reject(reply);
      else resolve(reply);
    }
  }
}

// What a rediss:// URL says as redis-py reads it; the server must always show a certificate of the authority.
function certificates(options) {
  const file = (name) => (options.has(name) ? readFileSync(options.get(name)) : undefined);
  return { ca: file("ssl_ca_certs"), cert: file("ssl_certfile"), key: file("ssl_keyfile") };
}

// [reply, where the next one starts], or null while a part of it is still on its way.
function parse(buffer, at) {
  const end = buffer.indexOf("\r\n", at);
  if (end < 0) return null;
  const line = buffer.toString("utf8", at + 1, end);
  const start = end + 2;
  switch (String.fromCharCode(buffer[at])) {
    case "+": return [line, start];
    case "-": return [new RedisError(line), start];
    case ":": return [Number(line), start];
    case "$": {
      if (line === "-1") return [null, start];
      const stop = start + Number(line);
      return buffer.length < stop + 2 ? null : [buffer.toString("utf8", start, stop), stop + 2];
    }
    case "*": {
      const items = [];
      let next = start;
      while (items.length < Number(line)) {
        const found = parse(buffer, next);
        if (found === null) return null;
        items.push(found[0]);
        next = found[1];
      }
      return [items, next];
    }
    default: return [new RedisError("what answers there is no Redis"), buffer.length];
  }
}
