// Talking to /api/v1: one function, one kind of error.

import { page } from "./page.js";

/** A problem document (RFC 9457), or a network that did not answer (status 0). */
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }

  /** Whether the same request may succeed later by itself. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/**
 * Send a request and give its JSON (or null for none).
 * @throws {Problem}
 */
export async function call(method, path, { body, form, etag, keepalive = false, again = false } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRF-Token"] = page.csrf ?? "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-Match"] = etag;
  let response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method, headers, keepalive, credentials: "same-origin",
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
      page.csrf = (await call("GET", "/me")).csrf;
      return call(method, path, { body, form, etag, keepalive, again: true });
    }
    throw new Problem(response.status, problem.title ?? `Error ${response.status}`, problem.detail);
  }
  if (response.status === 204) return null;
  return kind.includes("json") ? response.json() : response.arrayBuffer();
}

export const pixels = (id, size = "view") => `/api/v1/images/${encodeURIComponent(id)}/pixels?size=${size}&study=${page.study}`;
