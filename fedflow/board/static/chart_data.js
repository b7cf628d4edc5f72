// What drawings of charts have in common: colours, dashes, joined x values, numbers as text.

/** Dashes and markers tell curves apart where colours do not. */
const DASHES = [[], [8, 4], [2, 3], [9, 3, 2, 3], [14, 4], [5, 2, 1, 2, 1, 2], [3, 6], [12, 3, 4, 3]];
const COLOURS = 8;

/** Return the dash and the name of the colour of the series at `place`. */
export function styleOf(place) {
  const round = Math.floor(place / COLOURS);
  return { colour: `--series-${(place % COLOURS) + 1}`, dash: DASHES[(place + round) % DASHES.length] };
}

/** Return a number as text of at most five digits. */
export function numberText(value) {
  if (value === null || value === undefined) return "-";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  return size >= 1e6 || size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

/**
 * Put series with x values of their own side by side, as uPlot wants them: one ascending list of x,
 * and a list of y per series, undefined where it has no point. An x that a series has twice (a step)
 * stands twice. Also returns for each series the place of its points in its own lists.
 */
export function joined(series) {
  const most = new Map();
  for (const one of series) {
    const own = new Map();
    for (const x of one.x) own.set(x, (own.get(x) ?? 0) + 1);
    for (const [x, count] of own) if (count > (most.get(x) ?? 0)) most.set(x, count);
  }
  const keys = [...most.keys()].sort((a, b) => a - b);
  const xs = [];
  const start = new Map();
  for (const x of keys) {
    start.set(x, xs.length);
    for (let i = 0; i < most.get(x); i += 1) xs.push(x);
  }
  const columns = [xs];
  const places = [];
  for (const one of series) {
    const ys = new Array(xs.length).fill(undefined);
    const own = new Array(xs.length).fill(undefined);
    const seen = new Map();
    one.x.forEach((x, i) => {
      const nth = seen.get(x) ?? 0;
      seen.set(x, nth + 1);
      ys[start.get(x) + nth] = one.y[i];
      own[start.get(x) + nth] = i;
    });
    columns.push(ys);
    places.push(own);
  }
  return { columns, places };
}

/** Return least and greatest value of visible series of one axis, with some air; [0, 1] if none. */
export function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || value === undefined) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (low === high) return low === 0 ? [-1, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
  return [low, high];
}

/** Return about `count` round values between low and high. */
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? power * 10;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6 && found.length < 50; at += step) {
    found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  }
  return found;
}
