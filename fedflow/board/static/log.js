// <ff-log>: a log of any length. The part one looks at is loaded by line numbers; what is appended
// is asked for every two seconds; searches go through the log part by part.

import { element } from "./elements.js";
import { makeBar } from "./log_bar.js";
import { CHUNK, LogWindow } from "./log_rows.js";
import { AllLines, asLine, FoundLines, LogServer } from "./log_source.js";
import { alertSignedOut, alertUser } from "./messages.js";
import { t } from "./texts.js";

const PAUSE_MS = 2000;
const SILENT_MS = 5000; // between polls of a log to which nothing was added for a while
const SILENT_AFTER = 5; // polls
const COUNTING_MS = 300;
const MOST_PAUSE_MS = 30_000;
const WHOLE_EVERY = 10; // polls after which an answer is wanted even if nothing was added

const number = (value) => new Intl.NumberFormat(document.documentElement.lang).format(value);

class FfLog extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    this.server = new LogServer(this.getAttribute("src"), this.getAttribute("query"));
    this.all = new AllLines(this.server);
    this.found = null; // FoundLines while something is looked for
    this.isFollowing = !this.hasAttribute("line");
    this.isFinal = false;
    this.polls = 0;
    this.silent = 0; // polls without news
    this.failures = 0;
    this.hit = -1;
    this.draw();
    this.listen();
    this.open();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
    this.stopped = true;
  }

  get isFiltered() {
    return this.found !== null && (this.found.levels.length > 0 || this.bar.only.checked);
  }

  get source() {
    return this.isFiltered ? this.found : this.all;
  }

  // --- drawing ---------------------------------------------------------------------------------

  draw() {
    const root = this.attachShadow({ mode: "open" });
    for (const href of (this.getAttribute("styles") ?? "").split(" ")) {
      if (href) root.append(element("link", { rel: "stylesheet", href }));
    }
    this.bar = makeBar();
    this.scroller = element("div", { class: "log-lines", tabindex: "0", role: "region", "aria-label": this.getAttribute("label") });
    this.viewer = element("div", { class: "viewer" }, this.bar.form, this.bar.ways, this.bar.state, this.scroller);
    this.viewer.hidden = true; // until the first lines are there, the page shows its own
    this.fallback = element("slot");
    root.append(this.viewer, this.fallback);
    this.view = new LogWindow(this.scroller, (line) => this.link(line), () => this.tell());
    this.bar.search.value = this.getAttribute("q") ?? "";
    const levels = (this.getAttribute("levels") ?? "").split(",");
    for (const [level, { input }] of this.bar.levels) input.checked = levels.includes(level);
  }

  reveal() {
    this.viewer.hidden = false;
    this.fallback.remove();
    this.replaceChildren();
  }

  link(line) {
    const query = new URLSearchParams(this.getAttribute("page") ?? "");
    if (line !== null) query.set("line", line);
    return `${location.pathname}?${query}`;
  }

  /** Say where one is. */
  tell() {
    const { begin, end } = this.view;
    const { total } = this.source;
    this.bar.follow.setAttribute("aria-pressed", String(this.isFollowing));
    this.bar.follow.disabled = this.isFinal;
    this.bar.copy.disabled = this.view.current === null;
    if (total === null) return;
    this.bar.position.max = String(Math.max(1, total));
    const middle = this.isFollowing || this.view.isAtEnd ? end : begin + this.rowInSight();
    if (this.shadowRoot.activeElement !== this.bar.position) this.bar.position.value = String(middle);
    this.bar.position.setAttribute("aria-valuetext", t("line {n} of {m}", { n: number(middle), m: number(total) }));
    this.bar.where.textContent = total === 0 ? "" : t("{n} of {m}", { n: number(middle), m: number(total) });
  }

  rowInSight() {
    const { children } = this.view.list;
    let low = 0;
    let high = children.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (children[middle].offsetTop + children[middle].offsetHeight > this.scroller.scrollTop) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  say(text, isBad = false) {
    if (this.bar.state.textContent !== text) this.bar.state.textContent = text;
    this.bar.state.classList.toggle("bad", isBad);
  }

  // --- what people do --------------------------------------------------------------------------

  listen() {
    const { bar } = this;
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.scroller.addEventListener("wheel", (event) => { if (event.deltaY < 0) this.letGo(); }, { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.pressed(event));
    this.scroller.addEventListener("click", (event) => {
      const anchor = event.target.closest("a.n");
      if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.choose(Number(anchor.textContent));
      this.copy();
    });
    bar.form.addEventListener("submit", (event) => { event.preventDefault(); this.step(1); });
    bar.search.addEventListener("input", () => this.searchSoon());
    bar.search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.step(event.shiftKey ? -1 : 1);
    });
    for (const { input } of bar.levels.values()) input.addEventListener("change", () => this.look());
    bar.only.addEventListener("change", () => this.guard(this.refresh()));
    bar.previous.addEventListener("click", () => this.step(-1));
    bar.next.addEventListener("click", () => this.step(1));
    bar.first.addEventListener("click", () => this.goTo(1));
    bar.last.addEventListener("click", () => this.toEnd());
    bar.follow.addEventListener("click", () => (this.isFollowing ? this.letGo() : this.toEnd()));
    bar.wrap.addEventListener("click", () => this.toggleWrap());
    bar.position.addEventListener("change", () => this.goTo(Number(bar.position.value)));
    bar.line.addEventListener("keydown", (event) => { if (event.key === "Enter") this.toLine(); });
    bar.copy.addEventListener("click", () => this.copy());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.poll(); });
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const does = {
      Home: () => this.goTo(1),
      End: () => this.toEnd(),
      "/": () => this.bar.search.focus(),
      n: () => this.step(1),
      N: () => this.step(-1),
      w: () => this.toggleWrap(),
    }[event.key];
    if (["ArrowUp", "PageUp"].includes(event.key)) this.letGo();
    if (!does) return;
    event.preventDefault();
    does();
  }

  scrolled() {
    const isAtEnd = this.view.isAtEnd && this.view.end >= (this.source.total ?? 0);
    if (!isAtEnd && this.isFollowing && this.scroller.scrollTop < this.lastTop) this.isFollowing = false;
    if (isAtEnd && !this.isFinal && !this.isFiltered) this.isFollowing = true;
    this.lastTop = this.scroller.scrollTop;
    this.tell();
    this.guard(this.view.fill());
  }

  letGo() {
    this.isFollowing = false;
    this.tell();
  }

  toggleWrap() {
    const isOn = this.scroller.classList.toggle("wrap");
    this.bar.wrap.setAttribute("aria-pressed", String(isOn));
    if (this.isFollowing) this.view.toEnd();
  }

  goTo(position) {
    this.isFollowing = false;
    this.guard(this.view.show(this.source, position, 0).then(() => {
      this.scroller.scrollTop = 0;
      return this.view.fill();
    }));
  }

  toEnd() {
    this.isFollowing = !this.isFiltered && !this.isFinal;
    this.silent = 0;
    this.guard(this.view.showEnd(this.source));
  }

  toLine() {
    const line = Number(this.bar.line.value.replace(/\D/g, ""));
    if (!line || this.all.total === null) return;
    this.bar.only.checked = false;
    this.choose(Math.min(line, this.all.total));
  }

  /** Mark a line, load it if need be, and put it into the address. */
  async choose(line) {
    this.isFollowing = false;
    if (!this.view.select(line)) {
      if (this.isFiltered) return;
      await this.guard(this.view.show(this.all, line));
      this.view.select(line);
    }
    this.bar.line.value = String(line);
    history.replaceState(null, "", this.link(line));
    this.tell();
  }

  async copy() {
    const line = this.view.current;
    if (line === null) return;
    try {
      await navigator.clipboard.writeText(new URL(this.link(line), location.href).href);
      this.say(t("The link to line {n} is copied.", { n: number(line) }));
    } catch {
      this.say(t("The address bar has the link to line {n}.", { n: number(line) }));
    }
  }

  // --- search ----------------------------------------------------------------------------------

  searchSoon() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.look(), 250);
  }

  /** Begin a search for what the bar says. */
  look() {
    clearTimeout(this.typing);
    const text = this.bar.search.value;
    const levels = [...this.bar.levels].filter(([, { input }]) => input.checked).map(([level]) => level);
    this.hit = -1;
    this.view.wanted = text.toLowerCase();
    this.found = text || levels.length ? new FoundLines(this.server, text, levels) : null;
    if (this.found === null) this.say("");
    return this.guard(this.refresh().then(() => this.searchOn()));
  }

  /** Show the lines that the bar asks for, from their beginning or where one was. */
  async refresh() {
    if (this.isFiltered) {
      this.isFollowing = false;
      await this.view.show(this.found, 1, 0);
      this.scroller.scrollTop = 0;
    } else if (this.view.current !== null) {
      await this.view.show(this.all, this.view.current);
      this.view.select(this.view.current);
    } else {
      await this.view.showEnd(this.all);
    }
  }

  /** Search until the end of the log, or until enough is found. */
  async searchOn() {
    const { found } = this;
    if (found === null || found.isSearching) return;
    found.isSearching = true;
    try {
      do {
        const before = found.total;
        await found.more();
        if (found !== this.found || this.stopped) return;
        this.sayFound();
        if (this.isFiltered) await this.showFound(before);
        else if (before === 0 && found.total > 0 && this.hit < 0 && found.text) await this.step(1);
      } while (!found.isDone && !found.isFull);
    } finally {
      found.isSearching = false;
    }
    this.sayFound();
  }

  async showFound(before) {
    if (this.found.total < before) await this.view.show(this.found, 1, 0);
    else if (before === 0 || this.view.end === before) await this.view.fill();
    if (this.view.end === 0 && this.found.total > 0) await this.view.show(this.found, 1, 0);
    this.tell();
  }

  sayFound() {
    const { found } = this;
    const values = { n: number(found.total), k: number(this.hit + 1) };
    if (found.isFull) this.say(t("The first {n} lines that were found.", values));
    else if (!found.isDone) this.say(t("{n} lines found so far, {part} % searched.", { ...values, part: Math.floor((100 * found.searched) / Math.max(1, found.size)) }));
    else if (found.total === 0) this.say(t("Nothing was found."));
    else if (this.hit >= 0) this.say(t("{k} of {n} lines found.", values));
    else this.say(t("{n} lines found.", values));
  }

  /** Go to the next (1) or previous (-1) line that was found. */
  async step(direction) {
    if (this.found === null || this.found.total === 0) return;
    this.hit = (this.hit + direction + this.found.total) % this.found.total;
    if (this.hit < 0) this.hit = this.found.total - 1;
    const line = this.found.lines[this.hit].number;
    if (this.isFiltered && !this.view.row(line)) await this.guard(this.view.show(this.found, this.hit + 1));
    await this.choose(line);
    this.sayFound();
  }

  // --- loading, and what is appended -----------------------------------------------------------

  async open() {
    await this.guard(this.start());
    this.again(this.all.total === null ? COUNTING_MS : PAUSE_MS);
  }

  async start() {
    const line = Number(this.getAttribute("line") ?? 0);
    const asked = line ? { begin: Math.max(1, line - CHUNK / 2), count: 2 * CHUNK } : { count: CHUNK };
    const page = await this.server.ask("lines", asked);
    this.took(page);
    this.view.source = this.all;
    this.isFollowing = !line && !this.isFinal;
    this.putPage(page);
    this.reveal();
    if (line && page.total !== null) {
      this.view.select(Math.min(line, page.total));
      this.bar.line.value = String(line);
    } else {
      this.view.toEnd();
    }
    this.tell();
    this.countLevels(page);
    if (this.bar.search.value || [...this.bar.levels.values()].some(({ input }) => input.checked)) this.look();
  }

  putPage(page) {
    const lines = page.lines.map(asLine);
    this.view.put(lines, lines[0]?.number ?? 1);
    if (page.total === null) this.sayCounting(page);
    else if (page.total === 0) this.say(this.isFinal ? t("The log is empty.") : t("The log is empty. Lines appear as soon as something is logged."));
  }

  sayCounting(page) {
    this.say(t("Counting the lines: {part} %.", { part: Math.floor((100 * page.counted) / Math.max(1, page.size)) }));
  }

  took(page) {
    this.all.total = page.total;
    this.isFinal = page.final;
    if (page.levels) this.showLevels(page.levels);
  }

  showLevels(levels) {
    for (const [level, { count }] of this.bar.levels) count.textContent = number(levels[level] ?? 0);
  }

  async countLevels(page) {
    for (let left = 1000; page.levels === null && left > 0 && !this.stopped; left -= 1) {
      try {
        page = await this.server.ask("levels");
      } catch {
        return; // the counts stay empty; the poll says what is wrong
      }
    }
    if (page.levels) this.showLevels(page.levels);
  }

  again(pause) {
    clearTimeout(this.timer);
    if (!this.stopped && !(this.isFinal && this.all.total !== null)) this.timer = setTimeout(() => this.poll(), pause);
  }

  async poll() {
    if (this.stopped || document.hidden || this.isPolling || (this.isFinal && this.all.total !== null)) return this.again(PAUSE_MS);
    this.isPolling = true;
    await this.guard(this.askForMore());
    this.isPolling = false;
    const silent = Math.max(0, this.silent - SILENT_AFTER);
    const pause = this.all.total === null ? COUNTING_MS : Math.min(SILENT_MS, PAUSE_MS + 500 * silent);
    this.again(this.failures ? Math.min(MOST_PAUSE_MS, PAUSE_MS * 2 ** this.failures) : pause);
  }

  async askForMore() {
    if (this.all.total === null) return this.start();
    const isShown = this.isFollowing && !this.isFiltered && this.view.end === this.all.total;
    const begin = Math.max(1, this.all.total);
    this.polls += 1;
    const page = await this.server.ask("lines", { begin, count: isShown ? 2 * CHUNK : 1 }, this.polls % WHOLE_EVERY !== 0);
    this.silent = page === null || page.total === this.all.total ? this.silent + 1 : 0;
    if (page === null) return;
    const before = this.all.total;
    this.took(page);
    if (page.total === null) return;
    if (page.total < before) await this.replaced();
    else if (isShown) await this.follow(page, begin);
    else this.tell();
    if (page.total !== before && this.found?.isDone) await this.searchOn();
    if (page.levels === null) await this.countLevels(page);
  }

  async follow(page, begin) {
    if (page.total - begin >= 2 * CHUNK) return this.view.showEnd(this.all);
    if (page.total === this.view.end && page.lines.length === 1 && this.polls % WHOLE_EVERY === 0) return;
    this.view.extend(page.lines.map(asLine), begin);
    if (this.bar.state.textContent && page.total > 0 && this.found === null && !this.bar.state.classList.contains("bad")) this.say("");
    this.view.toEnd();
  }

  async replaced() {
    this.view.current = null;
    await this.view.showEnd(this.all);
    this.say(t("The log was started again from its beginning."));
  }

  /** Wait for `work`; say what went wrong. */
  async guard(work) {
    try {
      await work;
      if (this.failures) {
        this.failures = 0;
        this.say("");
      }
    } catch (error) {
      this.failed(error);
    }
  }

  failed(error) {
    if (error.status === undefined && !(error instanceof TypeError)) throw error;
    this.failures = Math.min(this.failures + 1, 5);
    if (error.status === 404) {
      this.isFollowing = false;
      this.say(t("This log does not exist, or no longer exists: it may have been deleted while this page was open."), true);
      if (!this.viewer.hidden) this.stopped = true;
    } else if (error.status === 401) {
      alertSignedOut();
    } else if (error.status !== undefined) {
      this.say(`${error.message} ${error.hint ?? ""}`, true);
    } else {
      this.say(t("The server does not answer. What you see may be old; it is tried again."), true);
    }
  }
}

customElements.define("ff-log", FfLog);
