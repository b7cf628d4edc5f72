// The cells of a heat map on a canvas: where they are, their colours, the frame around one.

const MOST_SIDE = 4096; // pixels of a canvas
const MOST_CELL = 32;
const NAMED_FROM = 13; // pixels of a cell: from here on names have room
const NAMES = 130; // pixels that names take
const LETTERS = 20; // of a name

export class Grid {
  constructor(host, canvas, found) {
    this.host = host;
    this.canvas = canvas;
    this.found = found;
    this.least = 0;
    this.cell = 8;
    this.order("given");
  }

  get rows() {
    return this.rowOrder.length;
  }

  get columns() {
    return this.columnOrder.length;
  }

  get margin() {
    return this.cell >= NAMED_FROM ? NAMES : 0;
  }

  /** Order rows and columns as they are stored, or by how much they are correlated. */
  order(how) {
    const { rows, columns, values } = this.found;
    this.rowOrder = rows.map((_, i) => i);
    this.columnOrder = columns.map((_, j) => j);
    if (how !== "size") return;
    const ofRow = rows.map((_, i) => values[i].reduce((sum, v) => sum + Math.abs(v), 0));
    const ofColumn = columns.map((_, j) => values.reduce((sum, line) => sum + Math.abs(line[j]), 0));
    this.rowOrder.sort((a, b) => ofRow[b] - ofRow[a]);
    this.columnOrder.sort((a, b) => ofColumn[b] - ofColumn[a]);
  }

  /** Make the cells so large that the map is as wide as its box, within limits. */
  fit(width) {
    const side = Math.max(this.rows, this.columns);
    const room = width / this.columns;
    const named = (width - NAMES) / this.columns;
    this.cell = this.#limited(named >= NAMED_FROM ? named : Math.min(room, NAMED_FROM - 1), side);
  }

  zoom(factor) {
    this.cell = this.#limited(this.cell * factor, Math.max(this.rows, this.columns));
  }

  #limited(cell, side) {
    const most = Math.min(MOST_CELL, (MOST_SIDE - NAMES) / side);
    return Math.max(1, Math.floor(Math.min(most, Math.max(2, cell))));
  }

  /** Return the cell at a point of the canvas, null beside the map. */
  cellAt(x, y) {
    const column = Math.floor((x - this.margin) / this.cell);
    const row = Math.floor((y - this.margin) / this.cell);
    const inside = row >= 0 && column >= 0 && row < this.rows && column < this.columns;
    return inside ? [row, column] : null;
  }

  read([row, column]) {
    const i = this.rowOrder[row];
    const j = this.columnOrder[column];
    return { row: this.found.rows[i], column: this.found.columns[j], value: this.found.values[i][j] };
  }

  reveal([row, column]) {
    const box = this.canvas.parentElement;
    const x = this.margin + column * this.cell;
    const y = this.margin + row * this.cell;
    if (x < box.scrollLeft + this.margin) box.scrollLeft = x - this.margin;
    else if (x + this.cell > box.scrollLeft + box.clientWidth) box.scrollLeft = x + this.cell - box.clientWidth;
    if (y < box.scrollTop + this.margin) box.scrollTop = y - this.margin;
    else if (y + this.cell > box.scrollTop + box.clientHeight) box.scrollTop = y + this.cell - box.clientHeight;
  }

  paint(at) {
    const { cell, margin } = this;
    const wide = margin + cell * this.columns;
    const high = margin + cell * this.rows;
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    const pen = this.canvas.getContext("2d");
    const colours = this.#colours();
    pen.clearRect(0, 0, wide, high);
    const gap = cell >= 6 ? 1 : 0;
    this.rowOrder.forEach((i, row) => {
      const line = this.found.values[i];
      this.columnOrder.forEach((j, column) => {
        const value = line[j];
        if (Math.abs(value) < this.least) return;
        pen.fillStyle = colours.of(value);
        pen.fillRect(margin + column * cell, margin + row * cell, cell - gap, cell - gap);
      });
    });
    if (margin) this.#names(pen, colours.text);
    pen.strokeStyle = colours.text;
    pen.lineWidth = 2;
    pen.strokeRect(margin + at[1] * cell, margin + at[0] * cell, cell, cell);
  }

  paintScale(canvas) {
    const pen = canvas.getContext("2d");
    const colours = this.#colours();
    for (let x = 0; x < canvas.width; x += 1) {
      pen.fillStyle = colours.of((2 * x) / (canvas.width - 1) - 1);
      pen.fillRect(x, 0, 1, canvas.height);
    }
  }

  #names(pen, colour) {
    pen.fillStyle = colour;
    pen.font = `${Math.min(12, this.cell - 2)}px sans-serif`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const short = (name) => (name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name);
    this.rowOrder.forEach((i, row) => pen.fillText(short(this.found.rows[i]), NAMES - 5, NAMES + (row + 0.5) * this.cell, NAMES - 8));
    pen.textAlign = "left";
    this.columnOrder.forEach((j, column) => {
      pen.save();
      pen.translate(NAMES + (column + 0.5) * this.cell, NAMES - 5);
      pen.rotate(-Math.PI / 2);
      pen.fillText(short(this.found.columns[j]), 0, 0, NAMES - 8);
      pen.restore();
    });
  }

  /** Colours of the page's theme: one hue for negative values, another for positive ones. */
  #colours() {
    const style = getComputedStyle(this.host);
    const hues = { low: style.getPropertyValue("--series-2"), high: style.getPropertyValue("--series-1") };
    const ground = toNumbers(style.getPropertyValue("--panel"));
    const steps = [...Array(101)].map((_, n) => {
      const share = Math.abs(n - 50) / 50;
      return mixed(ground, toNumbers(n < 50 ? hues.low : hues.high), share);
    });
    return { text: style.getPropertyValue("--text"), of: (value) => steps[Math.round(50 + 50 * Math.max(-1, Math.min(1, value)))] };
  }
}

function toNumbers(colour) {
  const digits = colour.trim().replace("#", "");
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16) || 0);
}

function mixed(from, to, share) {
  const parts = from.map((part, i) => Math.round(part + (to[i] - part) * share));
  return `rgb(${parts.join(" ")})`;
}
