"use strict";
/* Line charts as SVG, with words, a legend and the figures as a table. Needs page.js.

   Charts.line(container, {
     words: "what the chart shows, for those who cannot see it",
     x: { label, log, time, ticks, format, from, to }, y: the same, // all but label may be left out; time: days since 1970 (UTC)
     series: [{ name, method, colour, marker, dash, points: [[x, y] or [x, y, low, high]], steps }],
     marks: [{ x, y, text }], rules: [{ x or y, text }],
     height,                                                          // of the picture [px]
     legend: false                                                    // charts side by side may share one, Charts.legend(spec)
   })

   ``method`` gives a series the colour and the marker of its family (caribou.pages.palette). Called again for the same container,
   it draws anew. */
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARKERS = { votes: "o", caribou: "s", gap: "^", sage: "D", dpdgc: "v", lapgraph: "P", lpgnet: "X", progap: "<", mlp: "x" };
  const SHAPES = {
    o: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", s: "M-3.5 -3.5h7v7h-7z", "^": "M0 -4.5L4.5 3.5H-4.5z", v: "M0 4.5L4.5 -3.5H-4.5z",
    "<": "M-4.5 0L3.5 -4.5V4.5z", D: "M0 -4.5L4.5 0L0 4.5L-4.5 0z", P: "M-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    X: "M-4.5 -2.5L-2.5 -4.5L0 -2L2.5 -4.5L4.5 -2.5L2 0L4.5 2.5L2.5 4.5L0 2L-2.5 4.5L-4.5 2.5L-2 0z",
    x: "M-4 -3L-3 -4L0 -1L3 -4L4 -3L1 0L4 3L3 4L0 1L-3 4L-4 3L-1 0z", "": "",
  };
  const ROOM_FOR_LABELS = 560;
  const drawn = new WeakMap();

  function svg(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const family = (method) => method.split(/[-,]/)[0];

  /** Colour, marker and stroke of a series. */
  function look(series) {
    const known = series.method === undefined ? "" : family(series.method);
    const colour = series.colour ?? (known in MARKERS ? `var(--${known})` : "var(--other)");
    return { colour, marker: SHAPES[series.marker ?? MARKERS[known] ?? ""], dash: series.dash ?? "none" };
  }

  /** Round numbers from low to high, about ``count`` of them. */
  function roundTicks(low, high, count) {
    const raw = (high - low || 1) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= raw);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  }

  /** Powers of ten, with 2 and 5 between them where there are few. */
  function logTicks(low, high) {
    const decades = Math.log10(high / low);
    const every = Math.max(1, Math.ceil(decades / 6));
    const ticks = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++)
      for (const digit of decades < 2.5 ? [1, 2, 5] : [1]) {
        const tick = Number((digit * 10 ** k).toPrecision(1));
        if (k % every === 0 && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
      }
    return ticks;
  }

  const SECOND = 1 / 86400, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, MONTH = 30.4;
  const ROUND = [
    ...[1, 2, 5, 10, 15, 30].map((k) => ({ step: k * SECOND })), ...[1, 2, 5, 10, 15, 30].map((k) => ({ step: k * MINUTE })),
    ...[1, 2, 3, 6, 12].map((k) => ({ step: k * HOUR })), ...[1, 2, 7, 14].map((k) => ({ step: k })),
    ...[1, 3, 6, 12, 24, 60, 120, 240, 600].map((k) => ({ months: k })),
  ];
  const iso = (days, from, to) => new Date(Math.round(days * 86400) * 1000).toISOString().slice(from, to).replace("T", " ");

  /** Multiples of a step of days, or the beginnings of months. */
  function times(low, high, { step, months }) {
    const ticks = [];
    if (step !== undefined) {
      for (let k = Math.ceil(low / step - 1e-6); k * step <= high + 1e-6 * step; k++) ticks.push(k * step);
      return ticks;
    }
    const first = new Date(low * 86400000);
    for (let m = Math.floor((12 * first.getUTCFullYear() + first.getUTCMonth()) / months) * months; ; m += months) {
      const at = Date.UTC(Math.floor(m / 12), m % 12) / 86400000;
      if (at > high) return ticks;
      if (at >= low) ticks.push(at);
    }
  }

  /** Round times from low to high, about ``count`` of them but at least two, and how to write them so that no two look alike. */
  function timeTicks(low, high, count) {
    const found = ROUND.findIndex(({ step, months }) => (high - low) / (step ?? months * MONTH) <= count);
    let at = found < 0 ? ROUND.length - 1 : found;
    while (at > 0 && times(low, high, ROUND[at]).length < 2) at--;
    const { step } = ROUND[at], days = Math.floor(high) > Math.floor(low), clock = step < MINUTE ? 19 : 16;
    const format = (v) => (step === undefined ? iso(v, 0, 7) : step >= 1 ? iso(v, 0, 10) : iso(v, days ? 5 : 11, clock));
    return { ticks: times(low, high, ROUND[at]), format };
  }

  /** An axis: what it covers, where its ticks are, and a function from values to 0..1. */
  function axis(spec, values, count) {
    const usable = values.filter((v) => Number.isFinite(v) && (!spec.log || v > 0));
    let low = spec.from ?? Math.min(...usable), high = spec.to ?? Math.max(...usable);
    if (!(high > low)) {
      const room = spec.time ? MINUTE : 1;
      [low, high] = spec.log ? [low / 2, low * 2] : [low - room, low + room];
    }
    if (spec.time) return { ...spec, low, high, ...timeTicks(low, high, count), place: (v) => (v - low) / (high - low) };
    if (!spec.log && spec.to === undefined && !spec.ticks) high += 0.04 * (high - low);
    const ticks = spec.ticks ?? (spec.log ? logTicks(low, high) : roundTicks(low, high, count));
    const place = spec.log ? (v) => Math.log(v / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
    return { ...spec, low, high, ticks, place, format: spec.format ?? ((v) => Page.figure(v, 3)) };
  }

  /** A path through points; it breaks where a value is missing. */
  function path(points, steps) {
    let text = "", pen = false;
    points.forEach(([x, y]) => {
      if (!Number.isFinite(x) || !Number.isFinite(y)) return void (pen = false);
      if (pen && steps) text += `H${x.toFixed(1)}`;
      text += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = true;
    });
    return text;
  }

  /** Heights of labels that do not cover each other. */
  function spread(heights, gap, top, bottom) {
    const order = heights.map((h, k) => [h, k]).sort((a, b) => a[0] - b[0]);
    for (let k = 1; k < order.length; k++) order[k][0] = Math.max(order[k][0], order[k - 1][0] + gap);
    let limit = bottom;
    for (let k = order.length - 1; k >= 0; k--) limit = (order[k][0] = Math.min(order[k][0], limit)) - gap;
    const placed = [];
    for (const [height, k] of order) placed[k] = Math.max(top, height);
    return placed;
  }

  function frame(x, y, box) {
    const group = svg("g");
    for (const tick of y.ticks) {
      const at = box.y(tick);
      group.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }));
      group.append(svg("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, y.format(tick)));
    }
    let free = -Infinity;
    for (const tick of x.ticks) {
      const at = box.x(tick), words = x.format(tick), half = 3.6 * words.length;
      group.append(svg("line", { class: "tick", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4 }));
      if (at - half < free) continue; // no room beside the label before
      group.append(svg("text", { x: at, y: box.bottom + 18, "text-anchor": "middle" }, words));
      free = at + half + 4;
    }
    group.append(svg("path", { class: "axis", d: `M${box.left} ${box.top}V${box.bottom}H${box.right}` }));
    group.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle" }, x.label));
    group.append(svg("text", { x: box.left - 40, y: 14 }, y.label));
    return group;
  }

  function curve(series, box) {
    const { colour, marker, dash } = look(series), group = svg("g");
    const points = series.points.map(([x, y]) => [box.x(x), box.y(y)]);
    const band = series.points.filter((p) => p.length === 4 && Number.isFinite(p[2]));
    for (const [x, , low, high] of band) {
      const at = box.x(x).toFixed(1);
      const bar = `M${at} ${box.y(low).toFixed(1)}V${box.y(high).toFixed(1)}`;
      group.append(svg("path", { d: bar, stroke: colour, "stroke-width": 1.5, fill: "none", class: "interval" }));
    }
    group.append(svg("path", { d: path(points, series.steps), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash }));
    if (marker)
      points.forEach(([x, y]) => {
        if (Number.isFinite(x + y)) group.append(svg("path", { d: marker, fill: colour, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }));
      });
    return group;
  }

  function rules(spec, box) {
    return (spec.rules ?? []).map(({ x, y, text }) => {
      const group = svg("g");
      if (x !== undefined) {
        const at = box.x(x), end = at > (box.left + box.right) / 2;
        group.append(svg("line", { class: "rule", x1: at, x2: at, y1: box.top, y2: box.bottom }));
        group.append(svg("text", { class: "halo", x: at + (end ? -5 : 5), y: box.top + 12, "text-anchor": end ? "end" : "start" }, text));
      } else {
        const at = box.y(y);
        group.append(svg("line", { class: "rule", x1: box.left, x2: box.right, y1: at, y2: at }));
        group.append(svg("text", { class: "halo", x: box.left + 6, y: at + (at < box.top + 20 ? 15 : -5) }, text));
      }
      return group;
    });
  }

  /**
   * Dots with words: above to the left, where a line that rises leaves room, else below to the right. Words that would lie on
   * others or on the axis are left out, the lower ones first: the figures of the chart have them.
   */
  function marks(spec, box) {
    const taken = [];
    const dots = (spec.marks ?? []).map(({ x, y, text }) => ({ text, at: box.x(x), up: box.y(y), wide: 6.5 * text.length }));
    return dots.sort((a, b) => a.up - b.up).map(({ text, at, up, wide }) => {
      const left = at - 9 - wide > box.left && up > box.top + 12, from = left ? at - 8 - wide : at + 8, line = left ? up - 8 : up + 17;
      const free = line < box.bottom && taken.every((other) => Math.abs(other.line - line) > 14 || from > other.to || from + wide < other.from);
      const dot = svg("g", {}, svg("circle", { class: "mark", cx: at, cy: up, r: 5 }));
      if (!free) return dot;
      taken.push({ line, from, to: from + wide });
      dot.append(svg("text", { class: "halo", x: left ? at - 8 : from, y: line, "text-anchor": left ? "end" : "start" }, text));
      return dot;
    });
  }

  /** The names of lines at their right ends, where there is room. */
  function endLabels(spec, box) {
    const ends = spec.series.map((s) => s.points.filter(([x, y]) => Number.isFinite(box.x(x) + box.y(y))).at(-1));
    const shown = spec.series.map((s, k) => [s, ends[k]]).filter(([, end]) => end !== undefined);
    const heights = spread(shown.map(([, end]) => box.y(end[1]) + 4), 15, box.top + 4, box.bottom);
    return shown.map(([series], k) => {
      const key = svg("path", { d: "M0 -4h12", stroke: look(series).colour, "stroke-width": 3, "stroke-dasharray": look(series).dash, transform: `translate(${box.right + 6} ${heights[k]})` });
      return svg("g", {}, key, svg("text", { x: box.right + 22, y: heights[k] }, series.name));
    });
  }

  function legend(spec) {
    return Page.element("ul", { class: "legend" }, ...spec.series.map((series) => {
      const { colour, marker, dash } = look(series);
      const line = svg("path", { d: "M0 7H32", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash });
      const key = svg("svg", { viewBox: "0 0 32 14", "aria-hidden": "true" }, line, svg("path", { d: marker, fill: colour, transform: "translate(16 7)" }));
      return Page.element("li", {}, key, series.name);
    }));
  }

  /** What was drawn, as rows of text: titles first. */
  function rows(spec) {
    const wide = spec.series.some((s) => s.points.some((p) => p.length === 4));
    const head = ["line", spec.x.label, spec.y.label, ...(wide ? ["low", "high"] : [])];
    const body = spec.series.flatMap((s) => s.points.map((p) => [s.name, ...p.map((v, k) => (k === 0 && spec.x.time ? iso(v, 0, 19) : Page.figure(v, 6))), ...(wide && p.length < 4 ? ["", ""] : [])]));
    return [head, ...body];
  }

  /** The figures in a fold, which is filled when it is opened. */
  function fold(spec, open) {
    const details = Page.element("details", { class: "chart-data" }, Page.element("summary", {}, "Figures of this chart"));
    const fill = () => {
      if (details.open && details.children.length === 1) details.append(Page.copyButton("Copy as CSV", () => Page.csv(rows(spec))), Page.table(rows(spec), spec.words));
    };
    details.addEventListener("toggle", fill);
    details.open = open;
    fill();
    return details;
  }

  function picture(spec, width) {
    const labels = width >= ROOM_FOR_LABELS && spec.series.length > 1 && spec.legend !== false;
    const longest = Math.max(...spec.series.map((s) => s.name.length));
    const height = spec.height ?? Math.max(240, Math.min(340, 0.6 * width));
    const all = (k) => spec.series.flatMap((s) => s.points.flatMap((p) => (k === 1 && p.length === 4 ? [p[1], p[2], p[3]] : [p[k]])));
    const others = (key) => [...(spec.marks ?? []), ...(spec.rules ?? [])].map((m) => m[key]).filter((v) => v !== undefined);
    const x = axis(spec.x, [...all(0), ...others("x")], width / 90), y = axis(spec.y, [...all(1), ...others("y")], 5);
    const box = { left: 52, right: width - (labels ? 34 + 6.6 * longest : 22), top: 28, bottom: height - 46 };
    box.x = (v) => box.left + x.place(v) * (box.right - box.left);
    box.y = (v) => box.bottom - y.place(v) * (box.bottom - box.top);
    const image = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.words });
    image.append(frame(x, y, box), ...rules(spec, box), ...spec.series.map((s) => curve(s, box)), ...marks(spec, box));
    if (labels) image.append(...endLabels(spec, box));
    return labels || spec.series.length === 1 || spec.legend === false ? [image] : [image, legend(spec)];
  }

  function line(container, spec) {
    const open = container.querySelector("details")?.open ?? false;
    const draw = () => Page.element("div", {}, ...picture(spec, Math.max(260, Math.round(container.clientWidth))));
    container.classList.add("chart");
    container.replaceChildren(draw(), fold(spec, open));
    if (!drawn.has(container)) {
      const watch = new ResizeObserver(() => {
        const again = drawn.get(container);
        if (again.width !== container.clientWidth) {
          again.width = container.clientWidth;
          container.firstElementChild.replaceWith(again.draw());
        }
      });
      drawn.set(container, { draw, width: container.clientWidth });
      watch.observe(container);
    } else drawn.set(container, { draw, width: container.clientWidth });
  }

  return { line, rows, legend, timeTicks };
})();
