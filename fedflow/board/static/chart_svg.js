// Charts as SVG: bars on the page, and every chart as a picture to save.

import { extent, numberText, styleOf, ticks } from "./chart_data.js";
import { SVG, svgElement as node } from "./elements.js";

const MARGIN = { top: 12, right: 16, bottom: 46, left: 64 };
const LETTER = 6.6;

function cut(text, letters) {
  return text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text;
}

/**
 * Return an SVG element of `data`. `hidden` is a set of places of series; `colour` gives the value of
 * a CSS variable; `range` the x values from and to which it is drawn; `legend` adds title and names.
 */
export function drawSvg(data, { width, height, hidden, colour, range = null, legend = false }) {
  const shown = data.series.map((one, place) => ({ ...one, place })).filter((one) => !hidden.has(one.place));
  const named = legend ? shown.slice(0, 24) : [];
  const head = legend ? 26 : 0;
  const foot = named.length * 18;
  const svg = node("svg", { xmlns: SVG, viewBox: `0 0 ${width} ${height + head + foot}`, width, height: height + head + foot, "font-family": "system-ui, sans-serif", "font-size": 12 });
  if (legend) {
    svg.append(node("rect", { width, height: height + head + foot, fill: colour("--panel") }));
    svg.append(node("text", { x: 12, y: 20, "font-size": 15, "font-weight": 600, fill: colour("--text") }, cut(data.title, Math.floor(width / 8))));
  }
  const second = shown.some((one) => one.axis === 1);
  const box = { x: MARGIN.left, y: MARGIN.top + head, w: width - MARGIN.left - (second ? 60 : MARGIN.right), h: height - MARGIN.top - MARGIN.bottom };
  const categories = data.categories;
  const isBars = categories.length > 0;
  const xRange = isBars ? [-0.5, categories.length - 0.5] : range ?? extent(shown.flatMap((one) => one.x));
  const inside = (one, i) => one.x[i] >= xRange[0] && one.x[i] <= xRange[1];
  const yOf = (axis) => {
    const [low, high] = extent(shown.filter((one) => one.axis === axis).flatMap((one) => one.y.filter((_, i) => inside(one, i))));
    return isBars ? [Math.min(0, low), Math.max(0, high)] : [low - (high - low) / 20, high + (high - low) / 20];
  };
  const yRanges = [yOf(0), second ? yOf(1) : [0, 1]];
  const px = (x) => box.x + ((x - xRange[0]) / (xRange[1] - xRange[0])) * box.w;
  const py = (y, axis) => box.y + box.h - ((y - yRanges[axis][0]) / (yRanges[axis][1] - yRanges[axis][0])) * box.h;
  axes(svg, data, { box, xRange, yRanges, px, py, second, colour });
  const bars = shown.filter((one) => !one.line);
  bars.forEach((one, nth) => drawBars(svg, one, { nth, of: bars.length, px, py, colour, categories, unit: box.w / (xRange[1] - xRange[0]) }));
  for (const one of shown.filter((o) => o.line)) drawLine(svg, one, { px, py, colour, inside });
  for (const mark of data.marks.slice(0, 10)) {
    if (mark.x < xRange[0] || mark.x > xRange[1]) continue;
    svg.append(node("line", { x1: px(mark.x), x2: px(mark.x), y1: box.y, y2: box.y + box.h, stroke: colour("--muted"), "stroke-dasharray": "4 4" }));
  }
  named.forEach((one, i) => {
    const y = height + head + i * 18 + 8;
    const style = styleOf(one.place);
    svg.append(node("line", { x1: 14, x2: 44, y1: y, y2: y, stroke: colour(style.colour), "stroke-width": 2, "stroke-dasharray": style.dash.join(" ") }));
    svg.append(node("text", { x: 52, y: y + 4, fill: colour("--text") }, cut(one.name, Math.floor((width - 60) / LETTER))));
  });
  return svg;
}

function axes(svg, data, { box, xRange, yRanges, px, py, second, colour }) {
  const line = colour("--line");
  const text = colour("--muted");
  for (const at of ticks(...yRanges[0], 5)) {
    svg.append(node("line", { x1: box.x, x2: box.x + box.w, y1: py(at, 0), y2: py(at, 0), stroke: line }));
    svg.append(node("text", { x: box.x - 6, y: py(at, 0) + 4, "text-anchor": "end", fill: text }, numberText(at)));
  }
  if (second) {
    for (const at of ticks(...yRanges[1], 5)) svg.append(node("text", { x: box.x + box.w + 6, y: py(at, 1) + 4, fill: text }, numberText(at)));
    const x = box.x + box.w + 50;
    svg.append(node("text", { x, y: box.y + box.h / 2, "text-anchor": "middle", fill: text, transform: `rotate(90 ${x} ${box.y + box.h / 2})` }, data.rightLabel));
  }
  const count = data.categories.length;
  if (count) {
    const letters = Math.floor(box.w / Math.min(count, 12) / LETTER);
    const every = Math.ceil(count / 12);
    data.categories.forEach((name, i) => {
      if (i % every) return;
      const label = node("text", { x: px(i), y: box.y + box.h + 16, "text-anchor": "middle", fill: text }, cut(name, letters));
      label.append(node("title", {}, name));
      svg.append(label);
    });
  } else {
    for (const at of ticks(...xRange, 7)) svg.append(node("text", { x: px(at), y: box.y + box.h + 16, "text-anchor": "middle", fill: text }, numberText(at)));
  }
  svg.append(node("path", { d: `M${box.x} ${box.y} V${box.y + box.h} H${box.x + box.w}`, fill: "none", stroke: text }));
  svg.append(node("text", { x: box.x + box.w / 2, y: box.y + box.h + 36, "text-anchor": "middle", fill: text }, data.xLabel));
  svg.append(node("text", { x: 14, y: box.y + box.h / 2, "text-anchor": "middle", fill: text, transform: `rotate(-90 14 ${box.y + box.h / 2})` }, data.yLabel));
}

function drawBars(svg, one, { nth, of, px, py, colour, categories, unit }) {
  const style = styleOf(one.place);
  const width = Math.max(1, (unit * 0.8) / of);
  const group = node("g", { fill: colour(style.colour), "data-series": one.place });
  one.x.forEach((x, i) => {
    if (one.y[i] === null) return;
    const top = py(Math.max(0, one.y[i]), one.axis);
    const bottom = py(Math.min(0, one.y[i]), one.axis);
    const left = px(x) - unit * 0.4 + nth * width;
    const bar = node("rect", { x: left, y: top, width: Math.max(1, width - 1), height: Math.max(1, bottom - top) });
    bar.append(node("title", {}, `${categories[x] ?? x}: ${one.name} ${numberText(one.y[i])}`));
    group.append(bar);
    if (one.place % 4 && width > 4) {
      const step = 2 + (one.place % 4) * 3;
      for (let y = bottom - step; y > top; y -= step) group.append(node("line", { x1: left, x2: left + width - 1, y1: y, y2: y, stroke: colour("--panel"), "stroke-width": 1 }));
    }
  });
  svg.append(group);
}

function drawLine(svg, one, { px, py, colour, inside }) {
  const style = styleOf(one.place);
  let path = "";
  let down = false;
  const dots = node("g", { fill: colour(style.colour) });
  one.x.forEach((x, i) => {
    if (one.y[i] === null || !inside(one, i)) {
      down = false;
      return;
    }
    path += `${down ? "L" : "M"}${px(x).toFixed(1)} ${py(one.y[i], one.axis).toFixed(1)}`;
    down = true;
    if (one.x.length <= 60) {
      const dot = node("circle", { cx: px(x), cy: py(one.y[i], one.axis), r: 2.2 });
      dot.append(node("title", {}, `${one.name}: ${numberText(x)}, ${numberText(one.y[i])}`));
      dots.append(dot);
    }
  });
  svg.append(node("path", { d: path, fill: "none", stroke: colour(style.colour), "stroke-width": 1.8, "stroke-dasharray": style.dash.join(" "), "data-series": one.place }));
  if (dots.childElementCount) svg.append(dots);
}

/** Return an SVG element as the text of a file. */
export function svgText(svg) {
  return new XMLSerializer().serializeToString(svg);
}

/** Return an SVG element as a PNG blob, twice its size. */
export async function pngBlob(svg) {
  const url = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Number(svg.getAttribute("width")) * 2;
    canvas.height = Number(svg.getAttribute("height")) * 2;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => { canvas.toBlob(done, "image/png"); });
  } finally {
    URL.revokeObjectURL(url);
  }
}
