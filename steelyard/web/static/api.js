// Talking to /api/v1: one function, one kind of error.

import { at, page } from "./page.js";
import { uuid } from "./uuid.js";

/** A problem document (RFC 9457), or a network that did not answer (status 0). */
export class Problem extends Error {
  /**
   * @param {{ code?: string, after?: number, foreign?: boolean }} more a word for programs; seconds the server asks for
   *   before the next attempt; whether something else than Steelyard answered (a proxy's own error page)
   */
  constructor(status, title, detail, { code = "", after = 0, foreign = false } = {}) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.code = code;
    this.after = after;
    this.foreign = foreign;
  }

  /** Whether the same request may succeed later by itself. */
  get passing() {
    if (this.status === 401) return false;
    return this.foreign || this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }

  /** Whether it is about who is asking, not about what was sent. */
  get personal() {
    return this.status === 401 || this.status === 421 || (this.status === 403 && Boolean(this.code));
  }
}

const WAITS = [500, 1500, 4000]; // ms; who changes something waits for it
const SECONDS = 60; // a server that took the request and never answers is as good as none

/**
 * Send a request and give its JSON (or null for none).
 *
 * A change has a name made here, and is sent again by that name when the reply was lost: the server makes it once.
 * @param {{ once?: boolean }} options once: whoever calls tries again by themselves (answers in the queue, pairs to show)
 * @throws {Problem}
 */
export async function call(method, path, { once = false, ...options } = {}) {
  if (method === "GET") return send(method, path, options);
  const key = uuid();
  for (const wait of once || options.keepalive ? [] : WAITS) {
    try {
      return await send(method, path, { ...options, key });
    } catch (problem) {
      if (!problem.passing || problem.status === 429) throw problem;
      await new Promise((resolve) => { setTimeout(resolve, wait); });
    }
  }
  return send(method, path, { ...options, key });
}

async function send(method, path, { body, form, etag, key, keepalive = false, again = false } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRF-Token"] = page.csrf ?? "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-Match"] = etag;
  if (key) headers["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(at(`/api/v1${path}`), {
      method, headers, keepalive, credentials: "same-origin", signal: keepalive ? AbortSignal.timeout(SECONDS * 1000) : undefined,
      body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
    });
  } catch {
    throw new Problem(0, "No answer", "The server cannot be reached.");
  }
  const kind = response.headers.get("Content-Type") ?? "";
  if (!response.ok) {
    const problem = kind.includes("json") ? await response.json().catch(() => ({})) : {};
    if (problem.code === "csrf" && !again) {
      // Signed in again in another tab: the session is new, and so is its token.
      const me = await call("GET", "/me");
      if (page.annotator && me.name !== page.annotator) {
        throw new Problem(401, "Somebody else", `${me.name} is signed in now; your answers wait for ${page.annotator}.`, { code: "login" });
      }
      page.csrf = me.csrf;
      return send(method, path, { body, form, etag, key, keepalive, again: true });
    }
    throw new Problem(response.status, problem.title ?? `Error ${response.status}`, problem.detail, {
      code: problem.code, after: Number(response.headers.get("Retry-After")) || 0, foreign: !kind.includes("problem+json"),
    });
  }
  if (response.status === 204) return null;
  try {
    return await (kind.includes("json") ? response.json() : response.arrayBuffer());
  } catch {
    throw new Problem(0, "No answer", "The connection broke in the middle of the reply.");
  }
}

export const pixels = (id, size = "view") => at(`/api/v1/images/${encodeURIComponent(id)}/pixels?size=${size}&study=${page.study}`);
