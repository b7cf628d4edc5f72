// Where the lines of a log come from: the server, by number; or what a search has found so far.

import { ask } from "./requests.js";

const MOST_FOUND = 5000; // lines of a search that are kept

/** A line as the server sends it: [number, level, begins, time, text, size if it is cut]. */
export function asLine([number, level, begins, at, text, size]) {
  return { number, level, begins: begins === 1, at, text, size };
}

/** Asks the server about one log. */
export class LogServer {
  constructor(src, query) {
    this.src = src;
    this.query = query;
    this.tags = new Map(); // what was asked last, and the tag of the answer
  }

  /** Return what `path` answers; null if `known` and nothing has changed since. Throws Refused. */
  async ask(path, values = {}, known = false) {
    const asked = new URLSearchParams(this.query);
    for (const [name, value] of Object.entries(values)) {
      for (const one of [value].flat()) asked.append(name, one);
    }
    const url = `${this.src}/${path}?${asked}`;
    const headers = known && this.tags.has(url) ? { "If-None-Match": this.tags.get(url) } : {};
    const answer = await ask(url, { headers, cache: "no-store" });
    if (answer.status === 304) return null;
    this.tags.clear();
    if (answer.headers.has("ETag")) this.tags.set(url, answer.headers.get("ETag"));
    return answer.json();
  }
}

/** All lines of a log; `total` is null while they are being counted. */
export class AllLines {
  constructor(server) {
    this.server = server;
    this.total = null;
  }

  async get(begin, count) {
    const found = await this.server.ask("lines", { begin, count });
    this.total = found.total;
    return found.lines.map(asLine);
  }
}

/** The lines that a search has found; it is told by `more` to go on. */
export class FoundLines {
  constructor(server, text, levels) {
    this.server = server;
    this.text = text;
    this.levels = levels;
    this.start();
  }

  start() {
    this.lines = [];
    this.cursor = "";
    this.isDone = false;
    this.searched = 0;
    this.size = 0;
  }

  get total() {
    return this.lines.length;
  }

  get isFull() {
    return this.lines.length >= MOST_FOUND;
  }

  async get(begin, count) {
    return this.lines.slice(begin - 1, begin - 1 + count);
  }

  /** Search a further part of the log. */
  async more() {
    const found = await this.server.ask("search", { q: this.text, level: this.levels, cursor: this.cursor });
    if (found.new) this.start();
    for (const line of found.lines) {
      const made = asLine(line);
      if (made.number !== this.lines.at(-1)?.number) this.lines.push(made);
    }
    this.cursor = found.cursor;
    this.isDone = found.done;
    this.searched = found.searched;
    this.size = found.size;
  }
}
