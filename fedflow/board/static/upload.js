// Sends a form with a file and shows how far it is. Without this the browser sends the form itself.

import { tellQuietly } from "./messages.js";
import { t } from "./texts.js";

function send(form) {
  const progress = form.querySelector("progress");
  const problem = form.querySelector("[data-problem]");
  const button = form.querySelector("button");
  const show = (text) => {
    problem.textContent = text;
    problem.hidden = text === "";
    progress.hidden = text !== "";
    button.disabled = text === "";
    if (text !== "") delete form.dataset.sent;
  };
  show("");
  const request = new XMLHttpRequest();
  request.open("POST", form.action);
  request.setRequestHeader("X-Requested-With", "board");
  request.setRequestHeader("Accept", "application/json");
  request.responseType = "json";
  request.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return progress.removeAttribute("value");
    progress.value = event.loaded / event.total;
    if (event.loaded === event.total) tellQuietly(t("The file was sent."));
  });
  request.addEventListener("load", () => {
    const body = request.response;
    if (request.status < 300 && body?.url) location.assign(body.url);
    else show([body?.message ?? `HTTP ${request.status}`, body?.error?.hint ?? ""].join(" "));
  });
  request.addEventListener("error", () => show(t("The server did not take the file. Is it running?")));
  request.send(new FormData(form));
}

for (const form of document.querySelectorAll("form[data-upload]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
