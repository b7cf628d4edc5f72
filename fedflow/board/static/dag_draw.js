// The boxes and lines of a graph as SVG, and how a state changes them.

import { portAt } from "./dag_layout.js";
import { svgElement as element } from "./elements.js";
import { t } from "./texts.js";

const KINDS = ["data", "model", "cache"];
const MARK = 24; // pixels of a site's shape with the letter of its role
const LETTER = 7.4; // pixels of a letter of a name
const SMALL_LETTER = 5.9;

function cut(text, length) {
  const letters = Array.from(text);
  return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}\u2026`;
}

/** Return { svg, view, boxes, near }: the drawing, its moving part, component -> link, and the path
 * of the lines that are lit. Boxes are empty until `fill`. */
export function draw(graph, laid, base) {
  const svg = element("svg", { role: "group" });
  const view = element("g", { class: "view" });
  for (const kind of KINDS) {
    const lines = laid.edges.filter((_, place) => graph.edges[place].kind === kind);
    if (lines.length) view.append(element("path", { class: `edge ${kind}`, d: lines.join(" "), "aria-hidden": "true" }));
  }
  const near = element("path", { class: "edge near", d: "", "aria-hidden": "true" });
  view.append(near);
  const boxes = new Map();
  for (const [place, node] of graph.nodes.entries()) {
    const at = laid.boxes.get(node.name);
    const box = element("a", {
      class: "box", href: addressOf(node, place, base), transform: `translate(${at.x} ${at.y})`, tabindex: "-1",
    });
    box.dataset.name = node.name;
    boxes.set(node.name, box);
    view.append(box);
  }
  svg.append(view);
  return { svg, view, boxes, near };
}

/** A component that is not here has no page, but a row in the table. */
function addressOf(node, place, base) {
  return node.here || base.startsWith("#") ? base + encodeURIComponent(node.name) : `#component-${place + 1}`;
}

/** Draw a box that is seen, with its texts if they can be read, once; `paint` comes after. */
export function fill(node, laid, box, isLegible) {
  const { width, height } = laid.box;
  if (box.childElementCount === 0) box.append(element("rect", { class: "frame", width, height, rx: 6 }));
  if (box.childElementCount > 1 || !isLegible) return;
  box.append(
    element("title"),
    element("rect", { class: "done", x: 0, y: height - 4, width: 0, height: 4 }),
    element("g", { class: "state" }),
    element("text", { class: "name", x: 28, y: 20 }, cut(node.name, Math.floor((width - 34) / LETTER))),
    element("text", { class: "module", x: 28, y: 36 }),
    element("text", { class: "word", x: 28, y: 52 }),
    element("g", { class: "parts" }),
  );
  node.inputs.forEach(([kind, name], place) => box.append(drawPort(kind, portAt(laid, node.inputs.length, place, false), t("takes {name}", { name }))));
  node.outputs.forEach(([kind, name], place) => box.append(drawPort(kind, portAt(laid, node.outputs.length, place, true), t("gives {name}", { name }))));
  delete box.dataset.state;
}

/** Data ports are round, those of models square, those of caches stand on a corner. */
function drawPort(kind, { x, y }, title) {
  const port = kind === "data" ? element("circle", { cx: x, cy: y, r: 4 }) : element("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7 });
  if (kind === "cache") port.setAttribute("transform", `rotate(45 ${x} ${y})`);
  port.setAttribute("class", `port ${kind}`);
  port.append(element("title", {}, title));
  return port;
}

// --- states ---

/** Show how every component stands; what has not changed is not touched. */
export function paint(graph, laid, boxes, states) {
  for (const node of graph.nodes) {
    const box = boxes.get(node.name);
    const state = stateOf(states, node.name);
    const text = JSON.stringify(state);
    if (box.dataset.state === text) continue;
    box.dataset.state = text;
    paintBox(graph, laid, node, box, state, states.sites);
  }
}

/** Return how one component stands. */
export function stateOf(states, name) {
  return states.of[name] ?? { s: "", p: null, v: 0, parts: [] };
}

function paintBox(graph, laid, node, box, state, sites) {
  const kept = ["near", "out"].filter((name) => box.classList.contains(name)).join(" ");
  box.setAttribute("class", `box ${kindOf(graph, state.s)}${node.here ? "" : " elsewhere"} ${kept}`);
  const word = wordOf(state);
  const text = (separator) => describe(node, state, sites, word, separator);
  box.setAttribute("aria-label", text(", "));
  if (box.childElementCount < 2) return;
  const { width } = laid.box;
  const letters = Math.floor((width - 34) / SMALL_LETTER);
  const took = state.t ? ` \u00b7 ${state.t}` : "";
  box.querySelector(".module").textContent = cut(node.module, letters - took.length) + took;
  box.querySelector(".word").textContent = cut(state.n && state.s === "success" ? state.n : word, letters);
  box.querySelector(".done").setAttribute("width", String(Math.round(width * share(state))));
  box.querySelector(".state").replaceChildren(shape(graph, state.s, 8, 9, 14));
  box.querySelector(".parts").replaceChildren(...paintParts(graph, state, sites, Math.floor((width - 34) / MARK)));
  box.querySelector("title").textContent = text("\n");
}

function share(state) {
  if (state.s === "running") return Math.min(1, Math.max(0, state.p ?? 0));
  return state.s === "success" || state.s === "pass" ? 1 : 0;
}

function wordOf(state) {
  if (!state.s) return state.word ?? t("does not run at this site");
  const word = t(state.s === "pass" ? "passed" : state.s);
  const attempt = state.v ? ` \u00b7 ${t("attempt {n}", { n: state.v })}` : "";
  return state.s === "running" && state.p ? `${word} ${Math.round(100 * state.p)} %${attempt}` : `${word}${attempt}`;
}

function paintParts(graph, state, sites, most) {
  if (state.parts.length < 2) return [];
  const made = [];
  state.parts.slice(0, most).forEach(([site, status], place) => {
    const part = shape(graph, status, 28 + place * MARK, 57, 10);
    const held = state.held?.includes(site) ? " held" : "";
    part.setAttribute("class", `part ${kindOf(graph, status)}${held}`);
    part.append(element("text", { x: 14, y: 10.5 }, sites[site].slice(0, 1).toUpperCase()));
    if (held) part.append(element("rect", { class: "hold", x: -2, y: -2, width: 26, height: 16, rx: 3 }));
    part.append(element("title", {}, `${sites[site]}: ${t(status)}`));
    made.push(part);
  });
  const more = state.parts.length - most;
  if (more > 0) made.push(element("text", { class: "more", x: 28 + most * MARK, y: 67 }, `+${more}`));
  return made;
}

function shape(graph, status, x, y, size) {
  const kind = kindOf(graph, status);
  const holder = element("g", { class: `shape ${kind}`, transform: `translate(${x} ${y}) scale(${size / 12})` });
  holder.append(element("path", { d: graph.shapes[kind] }));
  return holder;
}

function kindOf(graph, status) {
  return graph.kinds[status] ?? "off";
}

/** Return what a box says to those who do not see it. */
function describe(node, state, sites, word, separator) {
  const lines = [node.name, node.module, word];
  if (state.n) lines.push(state.n);
  if (state.t) lines.push(state.t);
  if (!node.here && state.s) lines.push(t("no part of it runs at this server"));
  for (const [site, status] of state.parts) lines.push(`${sites[site]}: ${t(status)}`);
  if (state.held) lines.push(t("blocked by {sites}", { sites: state.held.map((site) => sites[site]).join(", ") }));
  if (state.why) lines.push(state.why);
  return lines.join(separator);
}
