// <ff-dag src="graph.json" states="{...}" base="/board/jobs/1/guest/9999/components/" label="...">
// The graph of a job: a box per component, its ports, what flows between them, and how it stands
// at each site. `states` changes while one looks; the boxes stay where they are. Of a job that is
// not submitted yet the attribute `graph` holds the graph itself, and changes while it is written.

import { Camera } from "./dag_camera.js";
import { draw, paint } from "./dag_draw.js";
import { sheet, toFile } from "./dag_style.js";
import { isSmall, layOut } from "./dag_layout.js";
import { neighbours, nextInDirection } from "./dag_walk.js";
import { element, save } from "./elements.js";
import { getJson } from "./requests.js";
import { t } from "./texts.js";

const STEPS = { ArrowDown: "down", ArrowUp: "up", ArrowLeft: "left", ArrowRight: "right", Home: "first", End: "last" };

class Dag extends HTMLElement {
  static observedAttributes = ["states", "graph"];

  #root = this.attachShadow({ mode: "open" });
  #graph = null;
  #laid = null;
  #camera = null;
  #boxes = new Map(); // component -> SVG link
  #seen = null;

  connectedCallback() {
    this.#root.adoptedStyleSheets = [sheet()];
    this.#say(t("The graph is being drawn."));
    this.#seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      this.#seen.disconnect();
      this.#load();
    });
    this.#seen.observe(this);
  }

  disconnectedCallback() {
    this.#seen?.disconnect();
    this.#camera?.stop();
  }

  attributeChangedCallback(name, before, after) {
    if (!this.#laid || before === after) return;
    if (name === "graph") this.#load();
    else this.#paint();
  }

  /** Ask for the graph and the library that lays it out, then draw. */
  async #load() {
    try {
      const given = this.getAttribute("graph");
      const graph = given ? JSON.parse(given) : await getJson(this.getAttribute("src"));
      const dagre = isSmall(graph) ? await import("./vendor/dagre.esm.js") : null;
      if (graph.nodes.length === 0) return this.#say(t("This job has no components."));
      this.#graph = graph;
      const begin = performance.now();
      this.#laid = layOut(graph, dagre);
      this.#draw();
      performance.measure("ff-dag", { start: begin, end: performance.now() });
      this.dataset.drawn = String(graph.nodes.length);
    } catch (error) {
      this.#say(t("The graph cannot be drawn: {why} The table below has all of it.", { why: error.message }));
    }
  }

  #say(text) {
    this.#root.replaceChildren(element("p", { class: "note" }, text));
  }

  #draw() {
    const { svg, view, boxes } = draw(this.#graph, this.#laid, this.getAttribute("base"));
    const count = this.#graph.nodes.length;
    svg.setAttribute("aria-label", t("Graph of {n} components. Arrow keys go from one to the next, Enter opens it.", { n: count }));
    this.#boxes = boxes;
    const stage = element("div", { class: "stage" }, svg); // an svg that listens to focus would take it
    this.#root.replaceChildren(this.#tools(), stage);
    this.#camera?.stop();
    this.#camera = new Camera(this, svg, view, this.#laid);
    this.#listen(stage);
    this.#setCurrent(this.#graph.nodes[0].name);
    this.#paint();
    this.#camera.begin();
  }

  #paint() {
    let states = { sites: [], of: {} };
    try {
      states = JSON.parse(this.getAttribute("states") || "null") ?? states;
    } catch {
      return; // half an attribute: the next answer has all of it
    }
    paint(this.#graph, this.#boxes, states);
  }

  // --- tools ---

  #tools() {
    const bar = element("div", { class: "tools", role: "toolbar", "aria-label": t("Graph") });
    const add = (sign, text, act) => {
      const button = element("button", { type: "button", title: text, "aria-label": text }, sign);
      button.addEventListener("click", act);
      bar.append(button);
    };
    add("+", t("Zoom in"), () => this.#camera.zoom(1.25));
    add("\u2212", t("Zoom out"), () => this.#camera.zoom(0.8));
    add(t("Fit"), t("Show the whole graph"), () => this.#camera.fit());
    if (this.requestFullscreen) add(t("Full screen"), t("Full screen"), () => this.#fullScreen());
    add("SVG", t("Save as SVG"), () => this.#save());
    return bar;
  }

  async #fullScreen() {
    if (document.fullscreenElement === this) await document.exitFullscreen();
    else await this.requestFullscreen().catch(() => {});
    this.#camera.fit();
  }

  #save() {
    const text = toFile(this.#root.querySelector("svg"), this.#laid, this);
    save(new Blob([text], { type: "image/svg+xml" }), this.getAttribute("file") || "dag.svg");
  }

  // --- walking ---

  #listen(stage) {
    stage.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      const box = event.target.closest?.("a.box");
      if (event.key === "+" || event.key === "=") return this.#camera.zoom(1.25);
      if (event.key === "-") return this.#camera.zoom(0.8);
      if (event.key === "0") return this.#camera.fit();
      if (!step || !box || event.ctrlKey || event.metaKey || event.altKey) return undefined;
      event.preventDefault();
      const next = nextInDirection(this.#graph, this.#laid, box.dataset.name, step);
      if (!next) return undefined;
      this.#setCurrent(next);
      this.#boxes.get(next).focus({ preventScroll: true });
      return undefined;
    });
    stage.addEventListener("focusin", (event) => {
      const box = event.target.closest?.("a.box");
      if (!box) return;
      this.#setCurrent(box.dataset.name);
      this.#light(box.dataset.name);
      this.#camera.reveal(box.dataset.name);
      if (event.target.matches(":focus-visible")) this.scrollIntoView({ block: "nearest" });
    });
    stage.addEventListener("focusout", () => this.#light(null));
    stage.addEventListener("pointerover", (event) => this.#light(event.target.closest?.("a.box")?.dataset.name ?? null));
    stage.addEventListener("pointerleave", () => this.#light(null));
  }

  /** One box at a time is reached by the Tab key. */
  #setCurrent(name) {
    for (const [other, box] of this.#boxes) box.setAttribute("tabindex", other === name ? "0" : "-1");
  }

  /** Show what a component takes from and gives to, and dim the rest. */
  #light(name) {
    const svg = this.#root.querySelector("svg");
    const near = name ? neighbours(this.#graph, name) : null;
    svg.classList.toggle("lit", near !== null);
    for (const [other, box] of this.#boxes) box.classList.toggle("near", near?.has(other) ?? false);
    for (const edge of svg.querySelectorAll("path.edge")) {
      edge.classList.toggle("near", name !== null && (edge.dataset.source === name || edge.dataset.target === name));
    }
  }
}

customElements.define("ff-dag", Dag);
