// Buttons that copy a document: <button data-copy="its address" hidden>.

import { alertUser, tellQuietly } from "./messages.js";
import { ask } from "./requests.js";
import { t } from "./texts.js";

async function copy(button) {
  const text = await (await ask(button.dataset.copy)).text();
  if (navigator.clipboard && window.isSecureContext) await navigator.clipboard.writeText(text);
  else copyByHand(text);
}

/** Pages that come without TLS have no clipboard of their own. */
function copyByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden-text";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error(t("the browser does not allow it"));
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  const name = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await copy(button);
      button.textContent = t("Copied");
      tellQuietly(t("Copied"));
      setTimeout(() => { button.textContent = name; }, 2000);
    } catch (error) {
      alertUser(t("It could not be copied: {why}", { why: error.message }));
    }
  });
}
