// Finding one of many components: a text, chips with how many stand how, the next that failed.

import { element } from "./elements.js";
import { t } from "./texts.js";

export class Finder {
  #names; #find; #go; #text; #chips = element("span", { class: "find" }); #status = ""; #of = {}; #failed = []; #last = null;

  /** `find` is told which components fit (a set, null: all), `go` leads to one. */
  constructor(nodes, find, go) {
    [this.#names, this.#find, this.#go] = [nodes.map((node) => [node.name, `${node.name} ${node.module}`.toLowerCase()]), find, go];
    this.#text = element("input", { type: "search", placeholder: t("Find a component"), "aria-label": t("Find a component") });
    this.#text.addEventListener("input", () => this.#search());
    this.#text.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") this.#step(this.#fitting());
    });
    this.bar = element("span", { class: "find" }, this.#text, this.#chips);
  }

  /** Show how many stand how; `of` is component -> state. */
  count(of) {
    this.#of = of;
    const by = new Map();
    for (const [name] of this.#names) {
      const { s } = of[name] ?? {};
      if (s) by.set(s, [...(by.get(s) ?? []), name]);
    }
    this.#failed = by.get("failed") ?? [];
    this.#chips.replaceChildren(...[...by].map(([status, { length }]) => {
      const chip = button(`${t(status === "pass" ? "passed" : status)} ${length}`, () => {
        this.#status = this.#status === status ? "" : status;
        this.count(of);
      });
      chip.setAttribute("aria-pressed", String(this.#status === status));
      return chip;
    }));
    if (this.#failed.length) this.#chips.append(button(t("next failed"), () => this.#step(this.#failed)));
    this.#search();
  }

  #fitting() {
    const text = this.#text.value.trim().toLowerCase();
    return this.#names
      .filter(([name, all]) => all.includes(text) && (!this.#status || this.#of[name]?.s === this.#status))
      .map(([name]) => name);
  }

  #search() {
    const all = !this.#text.value.trim() && !this.#status;
    this.#find(all ? null : new Set(this.#fitting()));
  }

  #step(names) {
    if (names.length === 0) return;
    this.#last = names[(names.indexOf(this.#last) + 1) % names.length];
    this.#go(this.#last);
  }
}

function button(text, act) {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", act);
  return made;
}
