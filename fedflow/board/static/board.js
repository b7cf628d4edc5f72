// What every page of the board does: times in the viewer's zone, live parts, and small comforts.

import { watchLive } from "./live.js";
import { localize } from "./times.js";

/** A question (<details>) closes with Escape, and when one clicks elsewhere. */
function closeDetails() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = document.activeElement?.closest("details.confirm[open]");
    if (!open) return;
    open.open = false;
    open.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll("details.confirm[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
}

/** A form is sent once, however often its button is pressed. */
function sendOnce() {
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });
}

localize(document);
watchLive();
closeDetails();
sendOnce();
document.body.addEventListener("htmx:afterSwap", (event) => localize(event.detail.target));
