// What scripts have to say: an alert that stays until it is over, a quiet line for screen readers.

import { t } from "./texts.js";

/** Show `text` above the page; an optional link leads on. An empty text hides it. */
export function alertUser(text, link = null) {
  const place = document.getElementById("ff-alert");
  if (!place || (place.dataset.text ?? "") === text) return;
  place.dataset.text = text;
  place.replaceChildren();
  place.hidden = text === "";
  if (text === "") return;
  place.append(text);
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link.url;
    anchor.textContent = link.text;
    place.append(" ", anchor);
  }
}

/** Say that nobody is signed in any more, with the way back to this page; who has written something
 * here keeps it by sending it, as the sign-in page takes it along. */
export function alertSignedOut() {
  if ([...document.querySelectorAll("main textarea")].some(isWritten)) {
    alertUser(t("Your session has ended. You can still send what you have written: you will sign in first, and nothing is lost."));
    return;
  }
  const next = encodeURIComponent(location.pathname + location.search);
  alertUser(t("Your session has ended."), { url: `/board/sign-in?next=${next}`, text: t("Sign in again") });
}

/** Tell screen readers what changed. */
export function tellQuietly(text) {
  const place = document.getElementById("ff-status");
  if (place) place.textContent = text;
}

function isWritten(area) {
  const cameBack = area.form?.id === "submit-form" && location.search === ""; // it was sent before
  return area.value !== area.defaultValue || (cameBack && area.value !== "");
}
