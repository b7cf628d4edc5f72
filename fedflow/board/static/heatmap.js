// <ff-heatmap src="map.json" label="..."> draws {rows, columns, values} with values from -1 to 1.
// Arrow keys move a frame over the cells; the line below says which pair it is. A slider leaves out
// what is small, a choice orders the columns by how much they are correlated.

import { element } from "./elements.js";
import { Grid } from "./heatmap_grid.js";
import { tellQuietly } from "./messages.js";
import { getJson } from "./requests.js";
import { t } from "./texts.js";

const STYLE = `
:host { display: block; }
.tools { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: center; margin-bottom: 0.6rem; }
.tools label { display: flex; gap: 0.4rem; align-items: center; color: var(--muted); }
button, select { font: inherit; color: var(--text); background: var(--raised); border: 1px solid var(--line); border-radius: 4px; padding: 0.15rem 0.6rem; cursor: pointer; }
button:focus-visible, select:focus-visible, input:focus-visible, canvas:focus-visible { outline: 2px solid var(--focus); outline-offset: 1px; }
.box { overflow: auto; max-height: 75vh; border: 1px solid var(--line); border-radius: 6px; background: var(--panel); }
canvas { display: block; cursor: crosshair; }
.said { margin: 0.5rem 0 0; min-height: 1.5em; overflow-wrap: anywhere; }
.scale { display: flex; align-items: center; gap: 0.4rem; color: var(--muted); }
.scale canvas { width: 120px; height: 12px; cursor: default; }
.note { color: var(--muted); }
`;
const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

class HeatMap extends HTMLElement {
  #root = this.attachShadow({ mode: "open" });
  #grid = null;
  #at = [0, 0];
  #seen = null;
  #themes = null;
  #said = null;

  connectedCallback() {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    this.#root.adoptedStyleSheets = [sheet];
    this.#note(t("The map is being drawn."));
    this.#seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      this.#seen.disconnect();
      this.#load();
    });
    this.#seen.observe(this);
    this.#themes = window.matchMedia("(prefers-color-scheme: dark)");
    this.#themes.addEventListener("change", this.#paint);
  }

  disconnectedCallback() {
    this.#seen?.disconnect();
    this.#themes?.removeEventListener("change", this.#paint);
  }

  #paint = () => this.#grid?.paint(this.#at);

  async #load() {
    try {
      const begin = performance.now();
      const found = await getJson(this.getAttribute("src"));
      this.#build(found);
      performance.measure("ff-heatmap", { start: begin, end: performance.now() });
      this.dataset.drawn = `${found.rows.length}x${found.columns.length}`;
    } catch (error) {
      this.#note(t("The map cannot be drawn: {why} The table of pairs has its numbers.", { why: error.message }));
    }
  }

  #note(text) {
    this.#root.replaceChildren(element("p", { class: "note" }, text));
  }

  #build(found) {
    const label = t("{title}: {n} by {m} values. Arrow keys go from one to the next.", { title: this.getAttribute("label") ?? "", n: found.rows.length, m: found.columns.length });
    const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.#grid = new Grid(this, canvas, found);
    const box = element("div", { class: "box" }, canvas);
    this.#said = element("p", { class: "said" });
    this.#root.replaceChildren(this.#tools(box), box, this.#said);
    canvas.addEventListener("keydown", (event) => this.#moved(event));
    canvas.addEventListener("pointermove", (event) => this.#pointed(event));
    canvas.addEventListener("pointerdown", (event) => this.#pointed(event));
    this.#grid.fit(box.clientWidth);
    this.#show();
  }

  #tools(box) {
    const least = element("input", { type: "range", min: "0", max: "1", step: "0.05", value: "0" });
    const out = element("output", {}, "0");
    least.addEventListener("input", () => {
      out.textContent = least.value;
      this.#grid.least = Number(least.value);
      this.#paint();
    });
    const order = element(
      "select", {},
      element("option", { value: "given" }, t("as stored")), element("option", { value: "size" }, t("most correlated first")),
    );
    order.addEventListener("change", () => {
      this.#grid.order(order.value);
      this.#show();
    });
    const zoom = (text, name, factor) => {
      const button = element("button", { type: "button", "aria-label": name }, text);
      button.addEventListener("click", () => {
        this.#grid.zoom(factor);
        this.#paint();
      });
      return button;
    };
    const whole = element("button", { type: "button" }, t("Whole map"));
    whole.addEventListener("click", () => {
      this.#grid.fit(box.clientWidth);
      this.#paint();
    });
    return element(
      "div", { class: "tools" },
      element("label", {}, t("At least"), least, out), element("label", {}, t("Order"), order),
      zoom("+", t("Larger"), 1.4), zoom("-", t("Smaller"), 1 / 1.4), whole, this.#scale(),
    );
  }

  #scale() {
    const canvas = element("canvas", { width: 120, height: 12, role: "img", "aria-label": t("Colours from -1 to 1") });
    this.#grid.paintScale(canvas);
    return element("span", { class: "scale" }, "-1", canvas, "1");
  }

  #moved(event) {
    const step = STEPS[event.key];
    const ends = { Home: [0, 0], End: [this.#grid.rows - 1, this.#grid.columns - 1] }[event.key];
    if (!step && !ends) return;
    event.preventDefault();
    const [row, column] = ends ?? [this.#at[0] + step[0], this.#at[1] + step[1]];
    this.#at = [clamp(row, this.#grid.rows - 1), clamp(column, this.#grid.columns - 1)];
    this.#show();
    this.#grid.reveal(this.#at);
    tellQuietly(this.#said.textContent);
  }

  #pointed(event) {
    const found = this.#grid.cellAt(event.offsetX, event.offsetY);
    if (!found || (found[0] === this.#at[0] && found[1] === this.#at[1])) return;
    this.#at = found;
    this.#show();
  }

  #show() {
    this.#paint();
    const { row, column, value } = this.#grid.read(this.#at);
    this.#said.textContent = t("{row} and {column}: {value}", { row, column, value });
  }
}

function clamp(value, most) {
  return Math.max(0, Math.min(most, value));
}

if (!customElements.get("ff-heatmap")) customElements.define("ff-heatmap", HeatMap);
