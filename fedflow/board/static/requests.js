// Requests of the board's scripts to its own server.

/** What a server answered that is no success: `code`, `message` and `hint` are for people. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `HTTP ${status}`);
    this.status = status;
    this.code = body?.error?.name ?? "";
    this.hint = body?.error?.hint ?? "";
  }
}

/** Return what the server answers: success, or 304. Throws Refused, or TypeError if it does not. */
export async function ask(url, options = {}) {
  const headers = { "X-Requested-With": "board", Accept: "application/json", ...options.headers };
  const answer = await fetch(url, { ...options, headers, credentials: "same-origin" });
  if (!answer.ok && answer.status !== 304) throw new Refused(answer.status, await json(answer));
  return answer;
}

/** Return the JSON at `url`; null if it is none. Throws as `ask`. */
export async function getJson(url, options = {}) {
  return json(await ask(url, options));
}

async function json(answer) {
  return answer.headers.get("Content-Type")?.includes("json") ? answer.json() : null;
}
