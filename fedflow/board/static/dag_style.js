// How a graph looks, on the page and in a file of its own.

import { SVG, svgElement } from "./elements.js";

const RULES = `
svg { display: block; width: 100%; height: 100%; background: var(--panel); cursor: grab; touch-action: pan-y; user-select: none; }
text { font-family: var(--font); fill: var(--text); }
.edge { fill: none; stroke: var(--muted); stroke-width: 1.4; opacity: 0.65; }
.edge.model { stroke: var(--series-4); stroke-dasharray: 6 3; }
.edge.cache { stroke: var(--series-6); stroke-dasharray: 2 3; }
.box { cursor: pointer; outline: none; text-decoration: none; --tone: var(--muted); }
.box.ok { --tone: var(--ok); } .box.bad { --tone: var(--bad); } .box.run { --tone: var(--run); } .box.wait { --tone: var(--wait); }
.frame { fill: var(--raised); stroke: var(--tone); stroke-width: 1.4; }
.done { fill: var(--tone); }
.elsewhere .frame { fill: none; stroke-dasharray: 4 3; stroke: var(--muted); }
.elsewhere .name { fill: var(--muted); }
.box:focus-visible .frame { stroke: var(--focus); stroke-width: 4; }
.name { font-size: 13px; font-weight: 600; }
.module, .word, .more { font-size: 11px; fill: var(--muted); }
.word { fill: var(--tone); }
.part text { font-size: 12px; fill: var(--muted); }
.shape path { fill: none; stroke: currentColor; stroke-width: 2; }
.shape.run path, .shape.stop path { fill: currentColor; }
.shape, .part { color: var(--muted); }
.shape.ok, .part.ok { color: var(--ok); } .shape.bad, .part.bad { color: var(--bad); }
.shape.run, .part.run { color: var(--run); } .shape.wait, .part.wait { color: var(--wait); }
.part path { fill: none; stroke: currentColor; stroke-width: 2; }
.part.run path, .part.stop path { fill: currentColor; }
.hold { fill: none; stroke: var(--warn); stroke-width: 1.6; }
.port { fill: var(--panel); stroke: var(--muted); stroke-width: 1.2; }
.port.model { stroke: var(--series-4); } .port.cache { stroke: var(--series-6); }
.lit .box:not(.near) { opacity: 0.4; }
.lit .edge:not(.near) { opacity: 0.15; }
.edge.near { opacity: 1; stroke-width: 2.4; }
.box.out { opacity: 0.2; }
`;
const FRAME = `
:host { display: flex; flex-direction: column; overflow: hidden; }
svg { mask: linear-gradient(to right, transparent, #000 var(--left, 0px), #000 calc(100% - var(--right, 0px)), transparent), linear-gradient(to bottom, transparent, #000 var(--top, 0px), #000 calc(100% - var(--bottom, 0px)), transparent); mask-composite: intersect; }
.tools { display: flex; flex-wrap: wrap; justify-content: flex-end; gap: 0.2rem; padding: 0.3rem 0.4rem; border-bottom: 1px solid var(--line); background: var(--panel); }
.tools button { font: inherit; font-size: 0.85rem; min-width: 1.9rem; padding: 0.1rem 0.45rem; color: var(--text); background: var(--panel); border: 1px solid var(--line); border-radius: 4px; cursor: pointer; }
.tools input { font: inherit; font-size: 0.85rem; width: 11rem; padding: 0.1rem 0.45rem; color: var(--text); background: var(--bg); border: 1px solid var(--line); border-radius: 4px; }
.tools [aria-pressed="true"] { border-color: var(--accent); color: var(--on-accent); background: var(--accent); }
.tools .find { display: flex; flex-wrap: wrap; gap: 0.2rem; margin-right: auto; }
.help { max-width: 26rem; margin: auto; padding: 0.7rem 1rem; color: var(--text); background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
.tools button:hover { border-color: var(--accent); }
.tools :focus-visible { outline: 2px solid var(--focus); outline-offset: 1px; }
.stage { flex: 1 1 0; min-height: 0; }
.note { margin: 0; padding: 1rem; color: var(--muted); }
`;
let made = null;

/** Return the style sheet of the element, the same for all of them. */
export function sheet() {
  if (made === null) {
    made = new CSSStyleSheet();
    made.replaceSync(FRAME + RULES);
  }
  return made;
}

/** Return the whole drawing as the text of an SVG file, in the colours of the page. */
export function toFile(svg, laid, host) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("viewBox", `0 0 ${Math.ceil(laid.width)} ${Math.ceil(laid.height)}`);
  copy.setAttribute("width", String(Math.ceil(laid.width)));
  copy.setAttribute("height", String(Math.ceil(laid.height)));
  copy.querySelector(".view").removeAttribute("transform");
  for (const box of copy.querySelectorAll("a.box")) box.setAttribute("href", new URL(box.getAttribute("href"), document.baseURI).href);
  const colours = getComputedStyle(host);
  const names = new Set(RULES.match(/var\((--[a-z0-9-]+)\)/g).map((found) => found.slice(4, -1)));
  names.delete("--tone");
  const values = [...names].map((name) => `${name}: ${colours.getPropertyValue(name).trim()};`).join(" ");
  copy.prepend(svgElement("style", {}, `svg { ${values} }\n${RULES}`));
  return new XMLSerializer().serializeToString(copy);
}
