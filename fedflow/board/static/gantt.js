// The time line over the whole width: the server draws it for one width, this moves what it drew.

const LEAST = 360; // pixels of the axis in the narrowest window
const END = 60; // pixels behind the axis for the last marks and texts
const LETTER = 6.5;
const BETWEEN = 64; // pixels from one text of the axis to the next

const drawn = new WeakMap(); // element -> its attributes as the server drew them

function scale(of, by, names) {
  if (!drawn.has(of)) drawn.set(of, Object.fromEntries(names.map((name) => [name, Number(of.getAttribute(name))])));
  for (const [name, value] of Object.entries(drawn.get(of))) of.setAttribute(name, String(Math.round(value * by * 10) / 10));
}

function stretch(live) {
  const plot = live.querySelector(".gantt-plot");
  if (!plot) return;
  const axis = live.querySelector(".gantt-axis svg");
  const room = live.querySelector(".gantt").clientWidth - live.querySelector(".gantt-labels").offsetWidth - END;
  const width = Math.max(LEAST, room) * Number(plot.dataset.zoom);
  const by = width / Number(plot.dataset.width);
  for (const svg of [axis, plot]) svg.setAttribute("width", String(Math.floor(width + END)));
  for (const line of [...axis.querySelectorAll("line"), ...plot.querySelectorAll("line")]) scale(line, by, ["x1", "x2"]);
  let last = -Infinity;
  for (const text of axis.querySelectorAll("text")) {
    scale(text, by, ["x"]);
    if (!text.classList.contains("muted")) continue;
    const x = Number(text.getAttribute("x"));
    const fits = x < last || x - last >= BETWEEN; // the next epoch begins anew
    text.setAttribute("visibility", fits ? "visible" : "hidden");
    if (fits) last = x;
  }
  for (const lane of plot.querySelectorAll(".lane")) layOut(lane, by);
}

/** Move the bars of a lane, and each one's mark and duration with it. */
function layOut(lane, by) {
  const bars = [...lane.querySelectorAll("rect.bar")];
  for (const rect of lane.querySelectorAll("rect")) {
    scale(rect, by, ["x", "width"]);
    rect.setAttribute("width", String(Math.max(rect.classList.contains("waits") || rect.classList.contains("starts") ? 1 : 3, Number(rect.getAttribute("width")))));
  }
  let end = 0;
  let marked = false;
  for (const part of lane.children) {
    if (part.matches("rect.bar")) {
      end = Number(part.getAttribute("x")) + Number(part.getAttribute("width"));
      marked = false;
    } else if (part.matches("path")) {
      part.setAttribute("transform", part.getAttribute("transform").replace(/^translate\([\d.]+/, `translate(${end + 4}`));
      marked = true;
    } else if (part.matches("text")) {
      const bar = bars.findLast((other) => other.compareDocumentPosition(part) & Node.DOCUMENT_POSITION_FOLLOWING);
      const next = bars[bars.indexOf(bar) + 1];
      const long = part.textContent.length * LETTER + 8;
      const inside = Number(bar.getAttribute("width")) > Math.max(40, long);
      const free = !next || Number(next.getAttribute("x")) > end + long + 8;
      part.setAttribute("class", `duration ${inside ? "inside" : free ? "behind" : "none"}`);
      part.setAttribute("x", String(inside ? end - Number(bar.getAttribute("width")) + 4 : end + (marked ? 16 : 4)));
    }
  }
}

const live = document.getElementById("gantt-live");
new ResizeObserver(() => stretch(live)).observe(live);
document.body.addEventListener("htmx:afterSwap", () => {
  for (const of of live.querySelectorAll("svg *")) drawn.delete(of); // the server drew it again
  stretch(live);
});
