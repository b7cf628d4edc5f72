// <ff-dag src="graph.json" states="{...}" base="/board/jobs/1/guest/9999/components/" list="table">
// The graph of a job: a box per component, its ports, what flows between them, and how it stands
// at each site. `states` changes while one looks; the boxes stay where they are. Of a job that is
// not submitted yet the attribute `graph` holds the graph itself, and changes while it is written.
// `list` is a table with the same components, whose rows light up with the boxes.

import { Camera } from "./dag_camera.js";
import { draw, fill, paint, stateOf } from "./dag_draw.js";
import { Finder } from "./dag_find.js";
import { sheet, toFile } from "./dag_style.js";
import { isSmall, layOut } from "./dag_layout.js";
import { neighbours, nextByKey } from "./dag_walk.js";
import { element, save } from "./elements.js";
import { getJson } from "./requests.js";
import { t } from "./texts.js";

const MANY = 60; // components among which one searches

class Dag extends HTMLElement {
  static observedAttributes = ["states", "graph"];

  #root = this.attachShadow({ mode: "open" });
  #graph = null;
  #laid = null;
  #camera = null;
  #boxes = new Map(); // component -> SVG link
  #near = null; // path of the lines that are lit
  #finder = null;
  #states = { sites: [], of: {} };
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
    const { svg, view, boxes, near } = draw(this.#graph, this.#laid, this.getAttribute("base"));
    const count = this.#graph.nodes.length;
    svg.setAttribute("aria-label", t("Graph of {n} components. Arrow keys go from one to the next, Enter opens it.", { n: count }));
    [this.#boxes, this.#near] = [boxes, near];
    const stage = element("div", { class: "stage" }, svg); // an svg that listens to focus would take it
    this.#finder = count > MANY ? new Finder(this.#graph.nodes, (found) => this.#filter(found), (name) => this.#go(name)) : null;
    this.#root.replaceChildren(this.#tools(), stage);
    this.#camera?.stop();
    this.#camera = new Camera(this, svg, view, this.#laid, () => this.#fill());
    this.#listen(stage);
    this.#follow();
    this.#setCurrent(this.#graph.nodes[0].name);
    this.#paint();
    this.#camera.begin(this.#first());
  }

  /** Return the component at which one looks first: what failed, else what runs. */
  #first() {
    const names = this.#graph.nodes.map((node) => node.name);
    const found = (status) => names.find((name) => stateOf(this.#states, name).s === status);
    return found("failed") ?? found("timeout") ?? found("running") ?? names[0];
  }

  #paint() {
    try {
      this.#states = JSON.parse(this.getAttribute("states") || "null") ?? this.#states;
    } catch {
      return; // half an attribute: the next answer has all of it
    }
    paint(this.#graph, this.#laid, this.#boxes, this.#states);
    this.#finder?.count(this.#states.of);
  }

  /** Draw the boxes that came into view, or all. */
  #fill(names = this.#camera.seen(), isLegible = this.#camera.isLegible) {
    const wanted = new Set(names);
    for (const node of this.#graph.nodes) {
      if (wanted.has(node.name)) fill(node, this.#laid, this.#boxes.get(node.name), isLegible);
    }
    paint(this.#graph, this.#laid, this.#boxes, this.#states);
  }

  // --- tools ---

  #tools() {
    const bar = element("div", { class: "tools", role: "toolbar", "aria-label": t("Graph") });
    if (this.#finder) bar.append(this.#finder.bar);
    const add = (sign, text, act) => {
      const button = element("button", { type: "button", title: text, "aria-label": text }, sign);
      button.addEventListener("click", act);
      bar.append(button);
    };
    add("+", t("Zoom in"), () => this.#camera.zoom(1.25));
    add("\u2212", t("Zoom out"), () => this.#camera.zoom(0.8));
    add(t("Fit"), t("Show the whole graph"), () => this.#camera.fit());
    if (this.requestFullscreen) add(t("Full screen"), t("Full screen"), () => this.#fullScreen());
    const help = element("div", { class: "help", popover: "auto" }, t("A box is a component; round ports are data, square ones models. The small shapes with letters are the sites: a frame means that others wait for this site."));
    add("?", t("What the signs mean"), () => help.showPopover());
    add("SVG", t("Save as SVG"), () => this.#save());
    bar.append(help);
    return bar;
  }

  async #fullScreen() {
    if (document.fullscreenElement === this) await document.exitFullscreen();
    else await this.requestFullscreen().catch(() => {});
    this.#camera.fit();
  }

  #save() {
    this.#fill(this.#boxes.keys(), true);
    const text = toFile(this.#root.querySelector("svg"), this.#laid, this);
    save(new Blob([text], { type: "image/svg+xml" }), this.getAttribute("file") || "dag.svg");
  }

  // --- walking ---

  #listen(stage) {
    stage.addEventListener("keydown", (event) => {
      const box = event.target.closest?.("a.box");
      if (event.key === "+" || event.key === "=") return this.#camera.zoom(1.25);
      if (event.key === "-") return this.#camera.zoom(0.8);
      if (event.key === "0") return this.#camera.fit();
      if (!box || event.ctrlKey || event.metaKey || event.altKey) return undefined;
      if (!event.key.startsWith("Arrow") && event.key !== "Home" && event.key !== "End") return undefined;
      event.preventDefault();
      const next = nextByKey(this.#graph, this.#laid, box.dataset.name, event.key);
      if (next) this.#go(next);
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

  #go(name) {
    this.#setCurrent(name);
    this.#camera.reveal(name);
    this.#boxes.get(name).focus({ preventScroll: true });
  }

  // --- the list beside it ---

  get #rows() {
    return document.getElementById(this.getAttribute("list"))?.tBodies[0].rows ?? [];
  }

  /** A row that one points at, or enters by the Tab key, lights up its box. */
  #follow() {
    const list = document.getElementById(this.getAttribute("list"));
    if (!list) return;
    document.body.addEventListener("htmx:afterSwap", () => this.#finder?.count(this.#states.of)); // rows are new
    const nameOf = (event) => event.target.closest("tr")?.dataset.name ?? null;
    list.addEventListener("pointerover", (event) => this.#light(nameOf(event)));
    list.addEventListener("pointerleave", () => this.#light(null));
    list.addEventListener("focusin", (event) => {
      this.#light(nameOf(event));
      if (nameOf(event)) this.#camera.reveal(nameOf(event));
    });
    list.addEventListener("focusout", () => this.#light(null));
  }

  /** Show only the rows of components that were searched for, and dim the other boxes. */
  #filter(found) {
    for (const row of this.#rows) row.hidden = found !== null && !found.has(row.dataset.name);
    for (const [name, box] of this.#boxes) box.classList.toggle("out", found !== null && !found.has(name));
    if (found?.size) this.#camera.centre([...found][0]);
  }

  /** Show what a component takes from and gives to, and dim the rest. */
  #light(name) {
    const svg = this.#root.querySelector("svg");
    const near = name ? neighbours(this.#graph, name) : null;
    svg.classList.toggle("lit", near !== null);
    for (const [other, box] of this.#boxes) box.classList.toggle("near", near?.has(other) ?? false);
    const lines = this.#laid.edges.filter((_, place) => name && [this.#graph.edges[place].source, this.#graph.edges[place].target].includes(name));
    this.#near.setAttribute("d", lines.join(" "));
    for (const row of this.#rows) row.classList.toggle("near", row.dataset.name === name);
  }
}

customElements.define("ff-dag", Dag);
