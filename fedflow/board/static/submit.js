// The submit page: checks what is typed, opens files in place, leads to the place of a mistake.

import { edit, show } from "./editor.js";
import { alertSignedOut, alertUser, tellQuietly } from "./messages.js";
import { getJson } from "./requests.js";
import { t } from "./texts.js";

const PAUSE_MS = 400;
const form = document.getElementById("submit-form");
const findings = document.getElementById("findings");

function begin() {
  const editors = new Map();
  for (const box of form.querySelectorAll("[data-editor]")) {
    const one = edit(box);
    editors.set(one.area.name, one);
  }
  let timer = 0;
  let told = "";
  let failed = false; // the last look at the texts
  let signedOut = false; // then buttons send the form: the page that asks to sign in keeps it

  function look() {
    clearTimeout(timer);
    say(t("Checking …"));
    htmx.trigger(findings, "look");
  }

  function say(text) {
    document.getElementById("check-state").textContent = text;
  }

  const texts = [...editors.values()].map((one) => one.area);
  if (texts.some((area) => area.value !== area.defaultValue)) timer = setTimeout(look, PAUSE_MS); // typed before this ran

  form.addEventListener("input", (event) => {
    if (!event.target.matches("textarea")) return;
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE_MS);
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button[name=do]");
    if (signedOut || (button?.value !== "check" && button?.value !== "ask")) return;
    event.preventDefault();
    if (button.value === "check") look();
    else {
      clearTimeout(timer);
      say(t("The parties are asked …"));
      htmx.ajax("POST", findings.getAttribute("hx-post"), { source: findings, target: findings, swap: "morph:innerHTML", values: { do: "ask" } });
    }
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.jump");
    if (!link) return;
    event.preventDefault();
    show(editors.get(link.dataset.field).area, Number(link.dataset.start), Number(link.dataset.end));
  });
  findings.addEventListener("click", (event) => {
    const box = event.composedPath().find((one) => one instanceof Element && one.matches?.("a.box"));
    if (box) document.getElementById("steps").open = true;
  });

  findings.addEventListener("htmx:afterSwap", () => {
    if (failed) alertUser("");
    failed = false;
    const line = findings.querySelector("[data-count]");
    const text = line?.textContent.trim() ?? "";
    say("");
    if (text !== told) tellQuietly(text);
    told = text;
  });
  for (const kind of ["htmx:sendError", "htmx:responseError"]) {
    findings.addEventListener(kind, (event) => {
      say("");
      failed = true;
      const status = event.detail.xhr?.status;
      signedOut = status === 401 || status === 403;
      if (signedOut) alertSignedOut();
      else if (status) alertUser(t("The server could not check the job (HTTP {status}).", { status }));
      else alertUser(t("The server does not answer: the job was not checked. Your text is not lost."));
    });
  }

  const files = document.getElementById("files");
  files.addEventListener("change", async () => {
    if (files.files.length === 0) return;
    const body = new FormData();
    body.append("csrf", form.elements.csrf.value);
    for (const file of files.files) body.append("files", file);
    try {
      const opened = await getJson(`${form.getAttribute("action")}/open`, { method: "POST", body });
      for (const [name, text] of Object.entries(opened.texts)) editors.get(name).set(text);
      alertUser(opened.faults.join(" "));
    } catch (error) {
      alertUser(t("The files could not be opened: {why}", { why: error.message }));
    }
    files.value = ""; // the same file may be chosen again
    look();
  });
  document.documentElement.classList.add("scripted");
}

if (form) begin();
