// Which part of a drawing one sees: zoom, drag, fit, and a box brought into view.

const LEAST = 0.05;
const MOST = 3;
const READABLE = 11 / 13; // names are 13 pixels high; a smaller graph is cut off instead
const LOW = 320; // pixels that a drawing may be high in any window
const HIGH = 600;
const LEGIBLE = 0.35; // boxes that are smaller have no texts
const TOOLS = 44; // pixels above the drawing
const FADE = "28px"; // how wide an edge fades behind which there is more
const EDGE = 24; // pixels that stay free around a box that was brought into view

export class Camera {
  #host; #svg; #view; #laid; #moved; #first; #x = 0; #y = 0; #scale = 1; #sizes; #dragged = false; #touched = false;

  /** `moved` is called whenever one sees another part. */
  constructor(host, svg, view, laid, moved) {
    [this.#host, this.#svg, this.#view, this.#laid, this.#moved] = [host, svg, view, laid, moved];
    this.#sizes = new ResizeObserver(() => this.#resized());
    this.#listen();
  }

  stop() {
    this.#sizes.disconnect();
  }

  /** Show the graph as one first sees it: all of it, or what can be read around a component. */
  begin(name) {
    this.#first = name;
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
    this.#set(scale, 0, 0);
    this.centre(this.#first);
  }

  /** Bring a component's box to the middle, as far as the drawing fills its room. */
  centre(name) {
    const { width, height } = this.#room();
    const { box, boxes } = this.#laid;
    const at = boxes.get(name);
    const scale = this.#scale;
    const x = kept(width / 2 - (at.x + box.width / 2) * scale, this.#laid.width * scale, width);
    const y = kept(height / 2 - (at.y + box.height / 2) * scale, this.#laid.height * scale, height);
    this.#set(scale, x, y);
  }

  /** Tell whether texts in boxes can be read. */
  get isLegible() {
    return this.#scale >= LEGIBLE;
  }

  /** Return the components whose boxes can be seen. */
  seen() {
    const { width, height } = this.#room();
    const { box, boxes } = this.#laid;
    const isSeen = ([, at]) => {
      const [left, top] = [this.#x + at.x * this.#scale, this.#y + at.y * this.#scale];
      return left < width && top < height && left + box.width * this.#scale > 0 && top + box.height * this.#scale > 0;
    };
    return [...boxes].filter(isSeen).map(([name]) => name);
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
    const at = this.#laid.boxes.get(name);
    const { width, height } = this.#room();
    const left = this.#x + at.x * this.#scale;
    const top = this.#y + at.y * this.#scale;
    const dx = shift(left, this.#laid.box.width * this.#scale, width);
    const dy = shift(top, this.#laid.box.height * this.#scale, height);
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
    const { width, height } = this.#room();
    const over = { left: -x, right: x + this.#laid.width * scale - width, top: -y, bottom: y + this.#laid.height * scale - height };
    for (const [side, by] of Object.entries(over)) this.#svg.style.setProperty(`--${side}`, by > EDGE / 2 ? FADE : "0px");
    this.#moved();
  }

  #listen() {
    this.#svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return this.#scroll(event);
      event.preventDefault();
      const { left, top } = this.#svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - left, y: event.clientY - top });
      return undefined;
    }, { passive: false });
    this.#svg.addEventListener("pointerdown", (event) => this.#drag(event));
    this.#svg.addEventListener("dragstart", (event) => event.preventDefault());
    this.#svg.addEventListener("click", (event) => {
      if (this.#dragged) event.preventDefault(); // the end of a drag opens nothing
    }, true);
  }

  /** Sideways wheels move the drawing; with the others the page scrolls. */
  #scroll(event) {
    const length = this.#laid.width * this.#scale;
    const { width } = this.#room();
    const x = kept(this.#x - event.deltaX, length, width);
    if (length <= width || Math.abs(event.deltaX) <= Math.abs(event.deltaY) || x === this.#x) return;
    event.preventDefault();
    this.#touched = true;
    this.#set(this.#scale, x, this.#y);
  }

  #drag(down) {
    if (down.button !== 0) return;
    this.#dragged = false;
    const from = { x: this.#x - down.clientX, y: this.#y - down.clientY };
    const move = (event) => {
      if (Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > 4) this.#dragged = this.#touched = true;
      if (this.#dragged) this.#set(this.#scale, from.x + event.clientX, from.y + event.clientY);
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

/** Return the offset that is nearest to a wanted one and leaves no room empty that could be filled. */
function kept(wanted, length, room) {
  return length <= room ? (room - length) / 2 : Math.min(0, Math.max(room - length, wanted));
}

function shift(start, length, room) {
  if (start < EDGE) return EDGE - start;
  if (start + length > room - EDGE) return Math.max(EDGE - start, room - EDGE - start - length);
  return 0;
}
