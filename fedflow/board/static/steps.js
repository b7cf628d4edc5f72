// <ff-steps src first name>: tables of which a slider chooses one step. Without scripts the first one
// stands in the page; the others are asked for once the element is seen.

import { element } from "./elements.js";
import { getJson } from "./requests.js";
import { t } from "./texts.js";

const SHEET = new URL("./css/chart.css", import.meta.url).href;
const MOST_ROWS = 300;
let count = 0;

class Steps extends HTMLElement {
  static observedAttributes = ["src"];

  connectedCallback() {
    if (this.seen) return;
    this.at = null; // where the visitor put the slider
    this.seen = new IntersectionObserver((found) => {
      if (!found.some((one) => one.isIntersecting)) return;
      this.seen.disconnect();
      this.load();
    }, { rootMargin: "100px" });
    this.seen.observe(this);
  }

  attributeChangedCallback(_, old, now) {
    if (old !== null && old !== now && this.data) this.load();
  }

  async load() {
    try {
      this.data = await getJson(this.getAttribute("src"));
    } catch {
      return; // the first step stands in the page
    }
    if (!this.shadowRoot) this.make();
    this.show();
  }

  make() {
    const root = this.attachShadow({ mode: "open" });
    count += 1;
    const id = `steps-${count}`;
    this.label = element("label", { for: id });
    this.slider = element("input", { type: "range", id, min: "0", step: "1" });
    this.output = element("output", { for: id });
    this.tables = element("div");
    const row = element("p", { class: "slider" });
    row.append(this.label, this.slider, this.output);
    root.append(element("link", { rel: "stylesheet", href: SHEET }), row, this.tables);
    this.slider.addEventListener("input", () => {
      this.at = Number(this.slider.value);
      this.show();
    });
  }

  show() {
    const { labels, frames, what } = this.data;
    const last = frames.length - 1;
    const at = Math.max(0, Math.min(last, this.at ?? Number(this.getAttribute("first") ?? 0)));
    this.label.textContent = what;
    this.slider.max = String(Math.max(0, last));
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", labels[at] ?? "");
    this.output.textContent = labels[at] ?? "";
    this.tables.replaceChildren(...(frames[at] ?? []).map(table));
  }
}

function table(grid) {
  const box = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": grid.title || t("Table") });
  const made = element("table");
  if (grid.title) made.append(element("caption", {}, grid.title));
  const head = element("tr");
  head.append(...grid.columns.map((name) => element("th", { scope: "col" }, name)));
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const row of grid.rows.slice(0, MOST_ROWS)) {
    const line = element("tr");
    line.append(...row.map((cell, i) => (i ? element("td", {}, cell) : element("th", { scope: "row" }, cell))));
    body.append(line);
  }
  made.append(top, body);
  box.append(made);
  return box;
}

customElements.define("ff-steps", Steps);
