// The boxes and lines of a graph as SVG, and how a state changes them.

import { BOX, portAt } from "./dag_layout.js";
import { svgElement as element } from "./elements.js";
import { t } from "./texts.js";

const MOST_PARTS = 10; // sites whose shapes fit into a box
const NAME = 23; // letters of a name that fit
const MODULE = 27;

function cut(text, length) {
  const letters = Array.from(text);
  return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}\u2026`;
}

/** Return { svg, view, boxes }: the drawing, its moving part, and component -> link. */
export function draw(graph, laid, base) {
  const svg = element("svg", { role: "group" });
  const view = element("g", { class: "view" });
  const lines = element("g", { class: "edges", "aria-hidden": "true" });
  graph.edges.forEach((edge, place) => {
    const line = element("path", { class: `edge ${edge.kind}`, d: laid.edges[place] });
    line.dataset.source = edge.source;
    line.dataset.target = edge.target;
    lines.append(line);
  });
  view.append(lines);
  const boxes = new Map();
  for (const [place, node] of graph.nodes.entries()) {
    const box = drawBox(node, laid.boxes.get(node.name), addressOf(node, place, base));
    boxes.set(node.name, box);
    view.append(box);
  }
  svg.append(view);
  return { svg, view, boxes };
}

/** A component that is not here has no page, but a row in the table. */
function addressOf(node, place, base) {
  return node.here || base.startsWith("#") ? base + encodeURIComponent(node.name) : `#component-${place + 1}`;
}

function drawBox(node, at, address) {
  const box = element("a", {
    class: "box", href: address, transform: `translate(${at.x} ${at.y})`, tabindex: "-1",
  });
  box.dataset.name = node.name;
  const origin = { x: 0, y: 0 };
  box.append(
    element("title"),
    element("rect", { class: "frame", width: BOX.width, height: BOX.height, rx: 6 }),
    element("rect", { class: "done", x: 0, y: BOX.height - 4, width: 0, height: 4 }),
    element("g", { class: "state" }),
    element("text", { class: "name", x: 28, y: 20 }, cut(node.name, NAME)),
    element("text", { class: "module", x: 28, y: 36 }, cut(node.module, MODULE)),
    element("text", { class: "word", x: 28, y: 52 }),
    element("g", { class: "parts" }),
  );
  node.inputs.forEach(([kind, name], place) => box.append(drawPort(kind, name, portAt(origin, node.inputs.length, place, 0), t("takes {name}", { name }))));
  node.outputs.forEach(([kind, name], place) => box.append(drawPort(kind, name, portAt(origin, node.outputs.length, place, BOX.height), t("gives {name}", { name }))));
  return box;
}

/** Data ports are round, those of models square, those of caches stand on a corner. */
function drawPort(kind, name, { x, y }, title) {
  const port = kind === "data" ? element("circle", { cx: x, cy: y, r: 4 }) : element("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7 });
  if (kind === "cache") port.setAttribute("transform", `rotate(45 ${x} ${y})`);
  port.setAttribute("class", `port ${kind}`);
  port.append(element("title", {}, title));
  return port;
}

// --- states ---

/** Show how every component stands; what has not changed is not touched. */
export function paint(graph, boxes, states) {
  for (const node of graph.nodes) {
    const box = boxes.get(node.name);
    const state = states.of[node.name] ?? { s: "", p: null, v: 0, parts: [] };
    const text = JSON.stringify(state);
    if (box.dataset.state === text) continue;
    box.dataset.state = text;
    paintBox(graph, node, box, state, states.sites);
  }
}

function paintBox(graph, node, box, state, sites) {
  const kind = kindOf(graph, state.s);
  const near = box.classList.contains("near") ? " near" : "";
  box.setAttribute("class", `box ${kind}${node.here ? "" : " elsewhere"}${near}`);
  const word = wordOf(state);
  box.querySelector(".word").textContent = cut(word, 26);
  box.querySelector(".done").setAttribute("width", String(Math.round(BOX.width * share(state))));
  box.querySelector(".state").replaceChildren(shape(graph, state.s, 8, 9, 14));
  const parts = box.querySelector(".parts");
  parts.replaceChildren(...paintParts(graph, state, sites));
  box.querySelector("title").textContent = describe(node, state, sites, word, "\n");
  box.setAttribute("aria-label", describe(node, state, sites, word, ", "));
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

function paintParts(graph, state, sites) {
  if (state.parts.length < 2) return [];
  const made = [];
  state.parts.slice(0, MOST_PARTS).forEach(([site, status], place) => {
    const part = shape(graph, status, 28 + place * 15, 58, 10);
    const held = state.held?.includes(site) ? " held" : "";
    part.setAttribute("class", `part ${kindOf(graph, status)}${held}`);
    if (held) part.append(element("rect", { class: "hold", x: -2, y: -2, width: 16, height: 16, rx: 3 }));
    part.append(element("title", {}, `${sites[site]}: ${t(status)}`));
    made.push(part);
  });
  const more = state.parts.length - MOST_PARTS;
  if (more > 0) made.push(element("text", { class: "more", x: 28 + MOST_PARTS * 15, y: 67 }, `+${more}`));
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
  if (!node.here && state.s) lines.push(t("no part of it runs at this server"));
  for (const [site, status] of state.parts) lines.push(`${sites[site]}: ${t(status)}`);
  if (state.held) lines.push(t("blocked by {sites}", { sites: state.held.map((site) => sites[site]).join(", ") }));
  if (state.why) lines.push(state.why);
  return lines.join(separator);
}
