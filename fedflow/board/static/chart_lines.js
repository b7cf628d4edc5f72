// Curves on a canvas, drawn by uPlot: zoom, a reading cursor, marks.

import { joined, numberText, styleOf } from "./chart_data.js";
import uPlot from "./vendor/uPlot.esm.js";

const MARKED = 60; // a curve of at most so many points shows each of them

/** Curves of one chart. `onRead` is told where the cursor stands. */
export class Lines {
  constructor(box, data, { width, height, hidden, colour, onRead }) {
    this.box = box;
    this.hidden = hidden;
    this.colour = colour;
    this.onRead = onRead;
    this.size = { width, height };
    this.make(data, null);
  }

  make(data, range) {
    this.plot?.destroy();
    this.data = data;
    const { columns, places } = joined(data.series);
    this.columns = columns;
    this.places = places;
    this.plot = new uPlot(this.options(data), columns, this.box);
    if (range) this.plot.setScale("x", { min: range[0], max: range[1] });
  }

  options(data) {
    const text = this.colour("--muted");
    const axis = (label, side, more = {}) => ({
      label, side, stroke: text, labelSize: 22, size: side === 2 ? 44 : 62, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
      grid: { stroke: this.colour("--line"), width: 1 }, ticks: { stroke: this.colour("--line"), width: 1 },
      values: (_, found) => found.map((value) => (value === null ? "" : numberText(value))), ...more,
    });
    return {
      ...this.size,
      scales: { x: { time: false }, y: { range: (_, low, high) => this.air(low, high) } },
      legend: { show: false },
      axes: [axis(data.xLabel, 2), axis(data.yLabel, 3)],
      series: [{}, ...data.series.map((one, place) => this.series(one, place))],
      cursor: {
        drag: { x: true, y: false, setScale: true },
        focus: { prox: -1 },
        dataIdx: (plot, series, hovered) => (series === 0 ? hovered : nearest(plot.data[series], hovered)),
      },
      hooks: {
        setCursor: [(plot) => this.read(plot)],
        draw: [(plot) => this.drawMarks(plot)],
      },
    };
  }

  air(low, high) {
    if (low === null || high === null) return [0, 1];
    const space = (high - low) / 20 || Math.abs(high) / 2 || 1;
    return [low - space, high + space];
  }

  series(one, place) {
    const style = styleOf(place);
    const stroke = this.colour(style.colour);
    return {
      label: one.name, stroke, width: 1.8, dash: style.dash, show: !this.hidden.has(place),
      fill: this.data.area && this.data.series.length === 1 ? `${stroke}22` : undefined,
      points: { show: one.x.length <= MARKED, size: 5, stroke, fill: stroke },
    };
  }

  /** Return the range that is shown if it is not all, else null. */
  zoomed() {
    const xs = this.plot.data[0];
    const range = this.range();
    return range && xs.length > 1 && (range[0] > xs[0] || range[1] < xs[xs.length - 1]) ? range : null;
  }

  range() {
    const { min, max } = this.plot.scales.x;
    return min === undefined || min === null ? null : [min, max];
  }

  /** Show other data; what is zoomed stays. */
  update(data) {
    const zoomed = this.zoomed();
    const same = data.series.length === this.data.series.length && data.series.every((one, i) => one.name === this.data.series[i].name);
    if (!same) {
      this.make(data, zoomed);
      return;
    }
    this.data = data;
    const { columns, places } = joined(data.series);
    this.places = places;
    this.plot.setData(columns, !zoomed);
    if (zoomed) this.plot.redraw();
  }

  restyle() {
    this.make(this.data, this.zoomed());
  }

  resize(width, height) {
    this.size = { width, height };
    this.plot.setSize(this.size);
  }

  toggle(place, isShown) {
    this.plot.setSeries(place + 1, { show: isShown });
  }

  /** Zoom by a factor around the cursor or the middle; 0 shows all. */
  zoom(factor) {
    const xs = this.plot.data[0];
    if (xs.length < 2) return;
    const first = xs[0];
    const last = xs[xs.length - 1];
    if (!factor) {
      this.plot.setScale("x", { min: first, max: last });
      return;
    }
    const [low, high] = this.range();
    const at = this.plot.cursor.idx === null || this.plot.cursor.idx === undefined ? (low + high) / 2 : xs[this.plot.cursor.idx];
    const half = ((high - low) * factor) / 2;
    const middle = Math.min(Math.max(at, first), last);
    this.plot.setScale("x", { min: Math.max(first, middle - half), max: Math.min(last, middle + half) });
  }

  /** Move the reading cursor by some points. */
  step(by) {
    const plot = this.plot;
    const xs = plot.data[0];
    if (!xs.length) return;
    const [low, high] = this.range();
    const now = plot.cursor.idx ?? (by > 0 ? -1 : xs.length);
    let next = Math.min(xs.length - 1, Math.max(0, now + by));
    if (xs[next] < low) next = xs.findIndex((x) => x >= low);
    if (xs[next] > high) next = xs.findLastIndex((x) => x <= high);
    plot.setCursor({ left: plot.valToPos(xs[next], "x"), top: plot.over.clientHeight / 2 });
  }

  read(plot) {
    const { idx, idxs } = plot.cursor;
    if (idx === null || idx === undefined || !idxs) {
      this.onRead(null);
      return;
    }
    this.onRead({
      x: plot.data[0][idx],
      values: this.data.series.map((one, place) => {
        const at = idxs[place + 1];
        const own = at === null || at === undefined ? undefined : this.places[place][at];
        return own === undefined ? null : { x: one.x[own], y: one.y[own], note: one.notes[own] ?? "" };
      }),
    });
  }

  drawMarks(plot) {
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.setLineDash([6, 6]);
    ctx.strokeStyle = this.colour("--muted");
    for (const mark of this.data.marks.slice(0, 20)) {
      const x = Math.round(plot.valToPos(mark.x, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    if (this.data.diagonal) {
      ctx.beginPath();
      ctx.moveTo(plot.valToPos(0, "x", true), plot.valToPos(0, "y", true));
      ctx.lineTo(plot.valToPos(1, "x", true), plot.valToPos(1, "y", true));
      ctx.stroke();
    }
    ctx.restore();
  }

  destroy() {
    this.plot.destroy();
  }
}

function nearest(values, place) {
  if (values[place] !== undefined && values[place] !== null) return place;
  for (let away = 1; away < values.length; away += 1) {
    const before = values[place - away];
    const after = values[place + away];
    if (before !== undefined && before !== null) return place - away;
    if (after !== undefined && after !== null) return place + away;
  }
  return place;
}
