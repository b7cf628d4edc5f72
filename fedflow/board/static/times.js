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

/** Write all times below `root` in the viewer's zone. */
export function localize(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(element.dateTime);
    if (Number.isNaN(at)) continue;
    const text = localTime(at);
    if (element.textContent !== text) element.textContent = text;
    element.title = t("{time} UTC", { time: element.dateTime.replace("T", " ").replace("Z", "") });
  }
}
