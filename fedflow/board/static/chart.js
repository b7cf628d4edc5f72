// <ff-chart src label csv name>: curves and bars with a legend that shows and hides them, zoom, full
// screen, pictures to save. Data and the drawing library are asked for once the chart is seen; when
// `src` changes the data is asked for again, and zoom and hidden curves stay as they are.

import { numberText, styleOf } from "./chart_data.js";
import { element, save, svgElement } from "./elements.js";
import { getJson } from "./requests.js";
import { t } from "./texts.js";

const sheet = (path) => element("link", { rel: "stylesheet", href: new URL(path, import.meta.url).href });
const READ_MOST = 6;

class Chart extends HTMLElement {
  static observedAttributes = ["src"];

  connectedCallback() {
    if (this.shadowRoot) return;
    this.hidden_ = new Set();
    this.data = null;
    this.root = this.attachShadow({ mode: "open" });
    this.root.append(sheet("./css/chart.css"));
    this.tools = element("div", { class: "tools", role: "toolbar", "aria-label": t("Drawing") });
    this.box = element("div", { class: "plot", role: "img", tabindex: "0", "aria-label": this.getAttribute("label") ?? "" });
    this.readout = element("p", { class: "readout", role: "status" });
    this.filters = element("div", { class: "filters" });
    this.legend = element("div", { class: "legend", role: "group", "aria-label": t("Legend") });
    this.note = element("p", { class: "note" }, t("The drawing is being loaded."));
    this.root.append(this.tools, this.note, this.box, this.readout, this.filters, this.legend);
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.seen = new IntersectionObserver((found) => {
      if (!found.some((one) => one.isIntersecting)) return;
      this.seen.disconnect();
      this.load();
    }, { rootMargin: "100px" });
    this.seen.observe(this);
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this);
    this.theme = () => this.restyle();
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", this.theme);
  }

  disconnectedCallback() {
    queueMicrotask(() => {
      if (this.isConnected) return; // it was only moved
      this.seen.disconnect();
      this.sizes.disconnect();
      this.dark.removeEventListener("change", this.theme);
      this.lines?.destroy();
    });
  }

  attributeChangedCallback(_, old, now) {
    if (old !== null && old !== now && this.data) this.load();
  }

  async load() {
    const src = this.getAttribute("src");
    try {
      const data = await getJson(src);
      if (src !== this.getAttribute("src")) return this.load();
      await this.show(data);
      this.note.hidden = true;
    } catch (error) {
      this.failed(error);
    }
    return undefined;
  }

  failed(error) {
    this.note.hidden = false;
    this.note.replaceChildren(`${t("The drawing could not be loaded.")} ${error.message} `);
    const again = element("button", { type: "button" }, t("Try again"));
    again.addEventListener("click", () => this.load());
    this.note.append(again);
  }

  async show(data) {
    const names = data.series.map((one) => one.name).join("\n");
    const isNew = names !== this.names;
    if (isNew && this.data) {
      const hidden = new Set([...this.hidden_].map((place) => this.data.series[place].name));
      this.hidden_.clear();
      data.series.forEach((one, place) => hidden.has(one.name) && this.hidden_.add(place));
    }
    this.names = names;
    this.data = data;
    this.bars = data.categories.length > 0 || data.series.some((one) => !one.line);
    if (this.bars) this.svg_ = await import("./chart_svg.js");
    if (isNew) {
      this.makeTools();
      this.makeLegend();
    }
    await this.draw();
  }

  colour = (name) => getComputedStyle(this).getPropertyValue(name).trim() || "#888888";

  area() {
    const full = document.fullscreenElement === this;
    const width = Math.max(240, Math.floor(this.clientWidth));
    return { width, height: full ? Math.max(240, window.innerHeight - 220) : Math.round(Math.min(380, Math.max(230, width * 0.5))) };
  }

  async draw() {
    if (!this.data.series.some((one) => one.x.length)) {
      this.box.replaceChildren(element("p", { class: "note" }, t("There are no points to draw.")));
      return;
    }
    if (this.bars) {
      this.box.replaceChildren(this.svg_.drawSvg(this.data, { ...this.area(), hidden: this.hidden_, colour: this.colour }));
      return;
    }
    if (this.lines) {
      this.lines.update(this.data);
      return;
    }
    const { Lines } = await import("./chart_lines.js");
    if (this.lines) return;
    this.root.prepend(sheet("./vendor/uPlot.min.css"));
    this.box.replaceChildren();
    this.lines = new Lines(this.box, this.data, {
      ...this.area(), hidden: this.hidden_, colour: this.colour, onRead: (found) => this.read(found),
    });
  }

  fit() {
    if (!this.data) return;
    const { width, height } = this.area();
    if (this.fitted === `${width} ${height}`) return;
    this.fitted = `${width} ${height}`;
    if (this.lines) this.lines.resize(width, height);
    else if (this.bars) this.draw();
  }

  restyle() {
    if (!this.data) return;
    if (this.lines) this.lines.restyle();
    else if (this.bars) this.draw();
  }

  // --- tools ---

  makeTools() {
    const tool = (text, act) => {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", act);
      return made;
    };
    const zooms = this.bars ? [] : [
      tool(t("Zoom in"), () => this.lines?.zoom(0.5)), tool(t("Zoom out"), () => this.lines?.zoom(2)), tool(t("Show all"), () => this.lines?.zoom(0)),
    ];
    const csv = element("a", { class: "button", href: this.getAttribute("csv") ?? "#" }, "CSV");
    this.tools.replaceChildren(
      ...zooms, tool(t("Full screen"), () => this.fullScreen()), tool("PNG", () => this.saveAs("png")), tool("SVG", () => this.saveAs("svg")),
      ...(this.hasAttribute("csv") ? [csv] : []),
    );
  }

  fullScreen() {
    if (document.fullscreenElement === this) document.exitFullscreen();
    else this.requestFullscreen?.().catch(() => {});
  }

  async saveAs(kind) {
    this.svg_ ??= await import("./chart_svg.js");
    const range = this.lines?.zoomed() ?? null;
    const svg = this.svg_.drawSvg(this.data, { width: 900, height: 480, hidden: this.hidden_, colour: this.colour, range, legend: true });
    const name = `${this.getAttribute("name") ?? "chart"}.${kind}`;
    if (kind === "svg") save(new Blob([this.svg_.svgText(svg)], { type: "image/svg+xml" }), name);
    else save(await this.svg_.pngBlob(svg), name);
  }

  key(event) {
    if (!this.lines || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowRight: () => this.lines.step(event.shiftKey ? 10 : 1), ArrowLeft: () => this.lines.step(event.shiftKey ? -10 : -1),
      "+": () => this.lines.zoom(0.5), "-": () => this.lines.zoom(2), 0: () => this.lines.zoom(0), Escape: () => this.lines.zoom(0),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // --- legend ---

  makeLegend() {
    const { series } = this.data;
    this.buttons = series.map((one, place) => {
      const button = element("button", { type: "button", "aria-pressed": String(!this.hidden_.has(place)) });
      button.append(swatch(place, one.line), element("span", { class: "name" }, one.name), element("span", { class: "value" }));
      button.addEventListener("click", () => this.toggle([place], this.hidden_.has(place)));
      return button;
    });
    this.legend.replaceChildren(...(series.length > 1 ? this.buttons : this.buttons.slice(0, 1)));
    this.filters.replaceChildren(...this.filter("model", this.data.groupsLabel || t("Models")), ...this.filter("part", t("Parts")));
  }

  /** Return buttons that show and hide all series of one model, or of one part. */
  filter(member, label) {
    const groups = new Map();
    this.data.series.forEach((one, place) => groups.set(one[member], [...(groups.get(one[member]) ?? []), place]));
    if (groups.size < 2 || groups.size === this.data.series.length || groups.size > 60) return [];
    const box = element("div", { class: "filter", role: "group", "aria-label": label });
    box.append(element("span", { class: "what" }, `${label}:`));
    for (const [name, places] of groups) {
      const button = element("button", { type: "button", "aria-pressed": "true" }, name || "-");
      button.addEventListener("click", () => {
        const show = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(show));
        this.toggle(places, show);
      });
      box.append(button);
    }
    return [box];
  }

  toggle(places, show) {
    for (const place of places) {
      if (show) this.hidden_.delete(place);
      else this.hidden_.add(place);
      this.buttons[place].setAttribute("aria-pressed", String(show));
      this.lines?.toggle(place, show);
    }
    if (this.bars) this.draw();
  }

  read(found) {
    const told = [];
    this.data.series.forEach((one, place) => {
      const value = found?.values[place] ?? null;
      const note = value?.note ? ` (${this.data.noteLabel} ${value.note})` : "";
      const text = value ? `${numberText(value.y)}${note}` : "";
      this.buttons[place].querySelector(".value").textContent = text;
      if (value && !this.hidden_.has(place)) told.push(`${one.name} ${text}`);
    });
    this.readout.textContent = found ? `${this.data.xLabel || "x"} ${numberText(found.x)}: ${told.slice(0, READ_MOST).join("; ")}` : "";
  }
}

function swatch(place, isLine) {
  const style = styleOf(place);
  const svg = svgElement("svg", { viewBox: "0 0 30 10", width: 30, height: 10, "aria-hidden": "true" });
  svg.append(svgElement("path", {
    d: isLine ? "M0 5 H30" : "M0 0 H30 V10 H0 Z",
    class: `series-${(place % 8) + 1} ${isLine ? "line" : "bar"}`,
    "stroke-dasharray": isLine ? style.dash.join(" ") : null,
  }));
  for (let x = 6; !isLine && place % 4 && x < 30; x += 2 + (place % 4) * 2) {
    svg.append(svgElement("path", { d: `M${x} 0 V10`, class: "hatch" }));
  }
  return svg;
}

/** Charts are drawn anew when the page gets another theme. */
new MutationObserver(() => {
  for (const chart of document.querySelectorAll("ff-chart")) chart.restyle();
}).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });

customElements.define("ff-chart", Chart);
