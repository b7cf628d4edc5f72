// Which part of a drawing one sees: zoom, drag, fit, and a box brought into view.

import { BOX } from "./dag_layout.js";

const LEAST = 0.05;
const MOST = 3;
const READABLE = 0.6; // a smaller graph is shown from its beginning instead
const LOW = 320; // pixels that a drawing may be high in any window
const HIGH = 600;
const TOOLS = 44; // pixels above the drawing
const EDGE = 24; // pixels that stay free around a box that was brought into view

export class Camera {
  #host; #svg; #view; #laid; #x = 0; #y = 0; #scale = 1; #sizes; #moved = false; #touched = false;

  constructor(host, svg, view, laid) {
    [this.#host, this.#svg, this.#view, this.#laid] = [host, svg, view, laid];
    this.#sizes = new ResizeObserver(() => this.#resized());
    this.#listen();
  }

  stop() {
    this.#sizes.disconnect();
  }

  /** Show the graph as one first sees it: all of it, or as much as can be read. */
  begin() {
    this.#start();
    this.#sizes.observe(this.#host);
  }

  #resized() {
    if (!this.#touched) this.#start();
  }

  #start() {
    const { width } = this.#room();
    const whole = Math.min(width / this.#laid.width, this.#height() / this.#laid.height);
    const scale = Math.min(1, Math.max(READABLE, whole));
    if (document.fullscreenElement !== this.#host) {
      const wanted = Math.ceil(this.#laid.height * scale) + TOOLS;
      this.#host.style.setProperty("--wanted", `${wanted}px`);
    }
    const room = this.#room();
    const spare = (room.width - this.#laid.width * scale) / 2;
    const [first] = this.#laid.boxes.values();
    const middle = room.width / 2 - (first.x + BOX.width / 2) * scale;
    this.#set(scale, spare >= 0 ? spare : Math.min(0, Math.max(2 * spare, middle)), 0);
  }

  fit() {
    const { width, height } = this.#room();
    const scale = Math.min(1.5, Math.max(LEAST, Math.min(width / this.#laid.width, height / this.#laid.height)));
    this.#touched = true;
    this.#set(scale, (width - this.#laid.width * scale) / 2, (height - this.#laid.height * scale) / 2);
  }

  /** Zoom by a factor; `point` of the drawing's room stays where it is, else its middle. */
  zoom(factor, point = null) {
    const { width, height } = this.#room();
    const at = point ?? { x: width / 2, y: height / 2 };
    const scale = Math.min(MOST, Math.max(LEAST, this.#scale * factor));
    const by = scale / this.#scale;
    this.#touched = true;
    this.#set(scale, at.x - (at.x - this.#x) * by, at.y - (at.y - this.#y) * by);
  }

  /** Move so that a component's box is inside what one sees. */
  reveal(name) {
    const box = this.#laid.boxes.get(name);
    const { width, height } = this.#room();
    const left = this.#x + box.x * this.#scale;
    const top = this.#y + box.y * this.#scale;
    const dx = shift(left, BOX.width * this.#scale, width);
    const dy = shift(top, BOX.height * this.#scale, height);
    if (dx || dy) this.#set(this.#scale, this.#x + dx, this.#y + dy);
  }

  /** The height that a drawing may have to be seen without scrolling, if the page begins with it. */
  #height() {
    const top = this.#host.getBoundingClientRect().top + window.scrollY;
    const below = window.innerHeight - top - EDGE;
    return (top > 0.75 * window.innerHeight ? HIGH : Math.min(HIGH, Math.max(LOW, below))) - TOOLS;
  }

  #room() {
    const { width, height } = this.#svg.getBoundingClientRect();
    return { width: Math.max(1, width), height: Math.max(1, height) };
  }

  #set(scale, x, y) {
    [this.#scale, this.#x, this.#y] = [scale, x, y];
    this.#view.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
  }

  #listen() {
    this.#svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const { left, top } = this.#svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - left, y: event.clientY - top });
    }, { passive: false });
    this.#svg.addEventListener("pointerdown", (event) => this.#drag(event));
    this.#svg.addEventListener("dragstart", (event) => event.preventDefault());
    this.#svg.addEventListener("click", (event) => {
      if (this.#moved) event.preventDefault(); // the end of a drag opens nothing
    }, true);
  }

  #drag(down) {
    if (down.button !== 0) return;
    this.#moved = false;
    const from = { x: this.#x - down.clientX, y: this.#y - down.clientY };
    const move = (event) => {
      if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > 4) this.#moved = this.#touched = true;
      if (this.#moved) this.#set(this.#scale, from.x + event.clientX, from.y + event.clientY);
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }
}

function shift(start, length, room) {
  if (start < EDGE) return EDGE - start;
  if (start + length > room - EDGE) return Math.max(EDGE - start, room - EDGE - start - length);
  return 0;
}
