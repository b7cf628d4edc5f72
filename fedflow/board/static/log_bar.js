// The bar of the log viewer: search, levels, ways through the log. It only makes the elements.

import { element } from "./elements.js";
import { t } from "./texts.js";

const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/** Return the elements of the bar by name, and the two rows that hold them. */
export function makeBar() {
  const button = (text, attributes = {}) => element("button", { type: "button", ...attributes }, text);
  const made = {
    search: element("input", { type: "search", id: "q", maxlength: "200", autocomplete: "off", spellcheck: "false" }),
    previous: button(t("Previous match")),
    next: button(t("Next match")),
    only: element("input", { type: "checkbox", id: "only" }),
    first: button(t("To the beginning")),
    last: button(t("To the end")),
    follow: button(t("Follow"), { "aria-pressed": "false" }),
    wrap: button(t("Wrap lines"), { "aria-pressed": "false" }),
    position: element("input", { type: "range", id: "position", min: "1", max: "1", step: "1" }),
    line: element("input", { type: "text", inputmode: "numeric", id: "line", class: "line", maxlength: "15" }),
    copy: button(t("Copy link"), { disabled: true }),
    where: element("span", { class: "where muted" }),
    state: element("p", { class: "state", role: "status" }),
    levels: new Map(),
  };
  const levels = element("fieldset", { class: "row levels" }, element("legend", {}, t("Levels")));
  for (const level of LEVELS) {
    const input = element("input", { type: "checkbox", value: level });
    const count = element("span", { class: "muted" });
    made.levels.set(level, { input, count });
    levels.append(element("label", {}, input, ` ${level} `, count));
  }
  made.form = element(
    "form", { class: "bar", role: "search" },
    element("label", { for: "q" }, t("Search in the log")), made.search, made.previous, made.next,
    element("label", { for: "only" }, made.only, ` ${t("Only lines found")}`), levels,
  );
  made.ways = element(
    "div", { class: "bar" },
    made.first, element("label", { for: "position", class: "hidden-text" }, t("Position in the log")), made.position,
    made.last, made.follow, made.wrap,
    element("label", { for: "line" }, t("Line")), made.line, made.copy, made.where,
  );
  return made;
}
