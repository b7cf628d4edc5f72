// Times in the viewer's zone: <time datetime="..."> comes from the server in UTC.

import { t } from "./texts.js";

const zone = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit",
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

/** Return a point in time (milliseconds since the epoch) in the viewer's zone. */
export function localTime(ms) {
  const part = Object.fromEntries(zone.formatToParts(new Date(ms)).map((p) => [p.type, p.value]));
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second}`;
}

/** Return how long ago a point in time was, in the page's language. */
function timeAgo(ms) {
  const gone = Math.max(0, (Date.now() - ms) / 1000);
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, s]) => gone >= s) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(document.documentElement.lang, { style: "short" }).format(-Math.floor(gone / size), unit);
}

/** Write all times below `root` in the viewer's zone; those with `data-ago` as how long ago. */
export function localize(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(element.dateTime);
    if (Number.isNaN(at)) continue;
    const ago = "ago" in element.dataset;
    const text = ago ? timeAgo(at) : localTime(at);
    if (element.textContent !== text) element.textContent = text;
    const utc = t("{time} UTC", { time: element.dateTime.replace("T", " ").replace("Z", "") });
    element.title = ago ? `${localTime(at)}, ${utc}` : utc;
  }
}
