// How lines of a log are drawn, and the part of them that is on the page: a window that grows at
// its ends while one scrolls, and lets go of what is far away.

import { element } from "./elements.js";
import { t } from "./texts.js";
import { localTime } from "./times.js";

export const CHUNK = 200; // lines that are loaded at once
const MOST = 1000; // lines on the page
const NEAR = 400; // pixels from an end at which more is loaded

const LEVELS = new Set(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]);

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Append `text` to `place`, with what is looked for marked. */
function mark(place, text, wanted) {
  const lower = text.toLowerCase();
  let at = 0;
  // a letter whose small form is longer would shift places: such a line is not marked
  if (wanted && lower.length === text.length) {
    for (let found = lower.indexOf(wanted); found >= 0; found = lower.indexOf(wanted, at)) {
      place.append(text.slice(at, found), element("mark", {}, text.slice(found, found + wanted.length)));
      at = found + wanted.length;
    }
  }
  place.append(text.slice(at));
}

function drawn(line, link, wanted, isCurrent) {
  const row = element("li", { class: LEVELS.has(line.level) ? line.level : "NONE" });
  row.classList.toggle("current", isCurrent);
  row.dataset.number = line.number ?? "";
  row.append(
    line.number
      ? element("a", { class: "n", href: link(line.number), tabindex: "-1" }, String(line.number))
      : element("span", { class: "n" }, "-"),
    element("span", { class: "level" }, line.begins ? line.level : ""),
    line.at === null
      ? element("span", { class: "at" })
      : element("time", { datetime: new Date(line.at).toISOString() }, localTime(line.at)),
  );
  const text = element("code");
  mark(text, line.text, wanted);
  row.append(text);
  if (line.size) row.append(element("span", { class: "cut" }, t("cut: the line has {size}", { size: size(line.size) })));
  return row;
}

/** The lines of a source between two positions, in a list that scrolls within `scroller`. */
export class LogWindow {
  constructor(scroller, link, changed) {
    this.scroller = scroller;
    this.list = element("ol", { class: "lines" });
    scroller.append(this.list);
    this.link = link;
    this.changed = changed;
    this.wanted = "";
    this.current = null; // number of the line that is marked
    this.source = null;
    this.begin = 1;
    this.end = 0;
    this.turn = 0; // counts changes of what is shown: late answers to earlier ones are dropped
    this.loading = false;
  }

  get isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    return scrollTop + clientHeight >= scrollHeight - 4;
  }

  rows(lines) {
    return lines.map((line) => drawn(line, this.link, this.wanted, line.number !== null && line.number === this.current));
  }

  /** Show `lines`, the first of which has the position `begin`. */
  put(lines, begin) {
    this.turn += 1;
    this.loading = false;
    this.begin = begin;
    this.end = begin + lines.length - 1;
    this.list.replaceChildren(...this.rows(lines));
    this.changed();
  }

  /** Show the lines of `source` around a position. */
  async show(source, position, before = CHUNK / 2) {
    this.source = source;
    const turn = (this.turn += 1);
    const begin = Math.max(1, position - before);
    const lines = await source.get(begin, before + CHUNK);
    if (turn === this.turn) this.put(lines, begin);
  }

  /** Show the end of `source`. */
  async showEnd(source) {
    await this.show(source, Math.max(1, (source.total ?? 0) - CHUNK + 1), 0);
    this.toEnd();
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** Replace the last line, which may have grown, and add those behind it. */
  extend(lines, begin) {
    if (this.end >= begin) this.list.lastElementChild?.remove();
    this.list.append(...this.rows(lines));
    this.end = begin + lines.length - 1;
    this.dropOldest();
    this.changed();
  }

  /** Load what is missing near the ends of what one sees. */
  async fill() {
    if (this.loading || this.source === null) return;
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    const isOlder = scrollTop < NEAR && this.begin > 1;
    const isNewer = scrollTop + clientHeight > scrollHeight - NEAR && this.end < (this.source.total ?? 0);
    if (!isOlder && !isNewer) return;
    this.loading = true;
    const turn = this.turn;
    try {
      await (isOlder ? this.older(turn) : this.newer(turn));
    } finally {
      if (turn === this.turn) this.loading = false;
    }
    if (turn === this.turn) this.changed();
  }

  async older(turn) {
    const begin = Math.max(1, this.begin - CHUNK);
    const lines = await this.source.get(begin, this.begin - begin);
    if (turn !== this.turn) return;
    const height = this.scroller.scrollHeight;
    this.list.prepend(...this.rows(lines));
    this.scroller.scrollTop += this.scroller.scrollHeight - height;
    this.begin = begin;
    while (this.list.childElementCount > MOST) {
      this.list.lastElementChild.remove();
      this.end -= 1;
    }
  }

  async newer(turn) {
    const lines = await this.source.get(this.end + 1, CHUNK);
    if (turn !== this.turn) return;
    this.list.append(...this.rows(lines));
    this.end += lines.length;
    this.dropOldest();
  }

  dropOldest() {
    const height = this.scroller.scrollHeight;
    const top = this.scroller.scrollTop;
    const many = this.list.childElementCount - MOST;
    for (let n = 0; n < many; n += 1) this.list.firstElementChild.remove();
    if (many <= 0) return;
    this.begin += many;
    this.scroller.scrollTop = top - (height - this.scroller.scrollHeight);
  }

  row(number) {
    return this.list.querySelector(`li[data-number="${number}"]`);
  }

  /** Mark the line with a number, and bring it into sight; false if it is not on the page. */
  select(number) {
    this.current = number;
    for (const row of this.list.querySelectorAll(".current")) row.classList.remove("current");
    const row = this.row(number);
    if (!row) return false;
    row.classList.add("current");
    this.scroller.scrollIntoView({ block: "nearest" });
    this.scroller.scrollTop = row.offsetTop - this.scroller.clientHeight / 3;
    return true;
  }
}
