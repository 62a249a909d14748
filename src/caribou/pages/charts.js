"use strict";
/* Line charts as SVG that follow the controls of a page, with words, a legend and the figures as a table. Needs page.js.

   Charts.line(container, {
     words: "what the chart shows, for those who cannot see it",
     x: { label, log, ticks, format, from, to }, y: the same,         // all but label may be left out
     series: [{ name, method, colour, marker, dash, points: [[x, y]] }],
     marks: [[x, y]], rules: [{ x, text }],
   })

   ``method`` gives a series the colour and the marker of its family (caribou.pages.palette). Called again for the same container,
   it draws anew. */
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARKERS = Page.data().markers;
  const SHAPES = {
    o: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", s: "M-3.5 -3.5h7v7h-7z", "^": "M0 -4.5L4.5 3.5H-4.5z", v: "M0 4.5L4.5 -3.5H-4.5z",
    "<": "M-4.5 0L3.5 -4.5V4.5z", D: "M0 -4.5L4.5 0L0 4.5L-4.5 0z", P: "M-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    X: "M-4.5 -2.5L-2.5 -4.5L0 -2L2.5 -4.5L4.5 -2.5L2 0L4.5 2.5L2.5 4.5L0 2L-2.5 4.5L-4.5 2.5L-2 0z",
    x: "M-4 -3L-3 -4L0 -1L3 -4L4 -3L1 0L4 3L3 4L0 1L-3 4L-4 3L-1 0z", "": "",
  };
  const drawn = new WeakMap();

  function svg(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** Colour, marker and stroke of a series. */
  function look(series) {
    const family = (series.method ?? "").split(/[-,]/)[0];
    const colour = series.colour ?? (family in MARKERS ? `var(--${family})` : "var(--other)");
    return { colour, marker: SHAPES[series.marker ?? MARKERS[family] ?? ""], dash: series.dash ?? "none" };
  }

  /** Round numbers from low to high, about ``count`` of them. */
  function roundTicks(low, high, count) {
    const raw = (high - low || 1) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= raw), ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
    return ticks;
  }

  /** Powers of ten. */
  function logTicks(low, high) {
    const ticks = [];
    for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k++) ticks.push(Number((10 ** k).toPrecision(1)));
    return ticks;
  }

  /** An axis: what it covers, where its ticks are, and a function from values to 0..1. */
  function axis(spec, values) {
    let low = spec.from ?? Math.min(...values), high = spec.to ?? Math.max(...values);
    if (!(high > low)) [low, high] = spec.log ? [low / 2, low * 2] : [low, low + 1];
    if (!spec.log && spec.to === undefined) high += 0.04 * (high - low);
    const place = spec.log ? (v) => Math.log(v / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
    return { format: (v) => Page.figure(v), ...spec, place, ticks: spec.ticks ?? (spec.log ? logTicks(low, high) : roundTicks(low, high, 5)) };
  }

  function frame(x, y, box) {
    const group = svg("g");
    for (const tick of y.ticks) {
      group.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: box.y(tick), y2: box.y(tick) }));
      group.append(svg("text", { x: box.left - 6, y: box.y(tick) + 4, "text-anchor": "end" }, y.format(tick)));
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
    const points = series.points.map(([x, y]) => `${box.x(x).toFixed(1)} ${box.y(y).toFixed(1)}`);
    group.append(svg("path", { d: `M${points.join("L")}`, fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash }));
    if (marker) group.append(...points.map((at) => svg("path", { d: marker, fill: colour, transform: `translate(${at})` })));
    return group;
  }

  /** An upright line with words, on the side where there is more room. */
  function rule({ x, text }, box) {
    const at = box.x(x), end = at > (box.left + box.right) / 2;
    const words = svg("text", { class: "halo", x: at + (end ? -5 : 5), y: box.top + 12, "text-anchor": end ? "end" : "start" }, text);
    return svg("g", {}, svg("line", { class: "rule", x1: at, x2: at, y1: box.top, y2: box.bottom }), words);
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
    const head = ["line", spec.x.label, spec.y.label];
    return [head, ...spec.series.flatMap((s) => s.points.map((p) => [s.name, ...p.map((v) => Page.figure(v, 6))]))];
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
    const height = Math.max(240, Math.min(340, 0.6 * width)), points = spec.series.flatMap((s) => s.points);
    const x = axis(spec.x, [...points.map((p) => p[0]), ...(spec.rules ?? []).map((r) => r.x)]), y = axis(spec.y, points.map((p) => p[1]));
    const box = { left: 52, right: width - 22, top: 28, bottom: height - 46 };
    box.x = (v) => box.left + x.place(v) * (box.right - box.left);
    box.y = (v) => box.bottom - y.place(v) * (box.bottom - box.top);
    const marks = spec.marks.map(([a, b]) => svg("circle", { class: "mark", cx: box.x(a), cy: box.y(b), r: 5 }));
    const image = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.words });
    image.append(frame(x, y, box), ...(spec.rules ?? []).map((r) => rule(r, box)), ...spec.series.map((s) => curve(s, box)), ...marks);
    return image;
  }

  function line(container, spec) {
    const open = container.querySelector("details")?.open ?? false, draw = () => picture(spec, Math.max(260, Math.round(container.clientWidth)));
    container.classList.add("chart");
    container.replaceChildren(draw(), legend(spec), fold(spec, open));
    if (!drawn.has(container))
      new ResizeObserver(() => {
        const last = drawn.get(container);
        if (last.width === container.clientWidth) return;
        last.width = container.clientWidth;
        container.firstElementChild.replaceWith(last.draw());
      }).observe(container);
    drawn.set(container, { draw, width: container.clientWidth });
  }

  return { line };
})();
