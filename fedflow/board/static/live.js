// Parts of a page that change while one looks: htmx asks for them, this decides when, and says so
// if the server does not answer.

import { alertSignedOut, alertUser } from "./messages.js";
import { t } from "./texts.js";

const MOST_PAUSE_MS = 30_000;
const failures = new WeakMap(); // element -> { count, until }

function isLive(element) {
  return element instanceof Element && element.hasAttribute("data-live");
}

function mayAsk(element) {
  if (document.hidden || element.dataset.gone || element.contains(document.activeElement?.closest("input:not([type=hidden], [type=checkbox]), textarea, select"))) return false;
  if (element.querySelector(":popover-open, details[open] textarea, details[open] select, details[open] input:not([type=hidden])")) return false; // somebody writes
  const failed = failures.get(element);
  return !failed || performance.now() >= failed.until;
}

function failed(element) {
  const count = (failures.get(element)?.count ?? 0) + 1;
  failures.set(element, { count, until: performance.now() + Math.min(MOST_PAUSE_MS, 2000 * 2 ** (count - 1)) });
}

/** What a visitor opened, closed or ticked stays so when its part of the page changes. */
function keepDetails() {
  if (!window.Idiomorph) return;
  window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element) =>
    !((name === "open" && element instanceof HTMLDetailsElement) || (name === "checked" && element.type === "checkbox"));
}

export function watchLive() {
  keepDetails();
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (isLive(event.detail.elt) && !mayAsk(event.detail.elt)) event.preventDefault();
  });
  document.body.addEventListener("htmx:afterRequest", (event) => {
    const { elt, xhr, successful } = event.detail;
    if (!isLive(elt)) return;
    if (successful || xhr.status === 304) {
      if (failures.delete(elt)) alertUser("");
    }
  });
  document.body.addEventListener("htmx:sendError", (event) => {
    if (!isLive(event.detail.elt)) return;
    failed(event.detail.elt);
    alertUser(t("The server does not answer. What you see may be old; it is tried again."));
  });
  document.body.addEventListener("htmx:responseError", (event) => {
    const { elt, xhr } = event.detail;
    if (!isLive(elt)) return;
    failed(elt);
    if (xhr.status === 401) {
      alertSignedOut();
    } else if (xhr.status === 404) {
      alertUser(t("This no longer exists: it was deleted while this page was open."), { url: "/board/jobs", text: t("To the list of jobs") });
      elt.dataset.gone = "yes";
    } else {
      alertUser(t("The server could not answer (HTTP {status}). What you see may be old.", { status: xhr.status }));
    }
  });
}
