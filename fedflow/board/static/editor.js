// A <textarea> as an editor of code: line numbers, indenting with Tab, and still a text field.
// Escape gives Tab its usual meaning back until the field is left.

const INDENT = "  ";

/** Replace what is selected so that the browser's undo knows it. */
function insert(area, text) {
  if (!document.execCommand("insertText", false, text)) area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
}

/** Indent the selected lines by one step, or take one step back. */
function shift(area, back) {
  const { value, selectionStart, selectionEnd } = area;
  if (!back && selectionStart === selectionEnd) return insert(area, INDENT);
  const begin = value.lastIndexOf("\n", selectionStart - 1) + 1;
  const lines = value.slice(begin, selectionEnd).split("\n");
  const changed = lines.map((line) => (back ? line.replace(/^( {1,2}|\t)/, "") : INDENT + line));
  area.setSelectionRange(begin, selectionEnd);
  insert(area, changed.join("\n"));
  area.setSelectionRange(begin, begin + changed.join("\n").length);
  return undefined;
}

/** Begin a new line as deep as this one, deeper after a bracket. */
function newLine(area) {
  const { value, selectionStart } = area;
  const line = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
  const deeper = /[[{]\s*$/.test(line) ? INDENT : "";
  insert(area, `\n${/^[ \t]*/.exec(line)[0]}${deeper}`);
}

/** Select characters of a field and bring them into sight. */
export function show(area, start, end) {
  area.focus();
  area.setSelectionRange(start, end);
  const height = parseFloat(getComputedStyle(area).lineHeight);
  const line = area.value.slice(0, start).split("\n").length - 1;
  area.scrollTop = Math.max(0, line * height - area.clientHeight / 3);
  const column = start - (area.value.lastIndexOf("\n", start - 1) + 1);
  area.scrollLeft = column > 60 ? area.scrollWidth * Math.min(1, (column - 20) / 400) : 0;
}

/** Make an editor of the text field in `box`. */
export function edit(box) {
  const area = box.querySelector("textarea");
  const numbers = box.querySelector(".lines");
  let count = 0;
  let leaves = false;

  function number() {
    let lines = 1;
    for (let at = area.value.indexOf("\n"); at >= 0; at = area.value.indexOf("\n", at + 1)) lines += 1;
    if (lines !== count) numbers.textContent = Array.from({ length: lines }, (_, i) => i + 1).join("\n");
    count = lines;
    follow();
  }

  function follow() {
    numbers.style.height = `${area.clientHeight}px`;
    numbers.scrollTop = area.scrollTop;
  }

  area.addEventListener("input", number);
  area.addEventListener("scroll", follow, { passive: true });
  new ResizeObserver(follow).observe(area);
  area.addEventListener("blur", () => { leaves = false; });
  area.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") leaves = true;
    else if (event.key === "Tab" && !leaves) {
      event.preventDefault();
      shift(area, event.shiftKey);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      newLine(area);
    } else if (event.key !== "Tab" && event.key !== "Shift") leaves = false;
  });
  number();
  return { area, set(text) { area.value = text; number(); } };
}
