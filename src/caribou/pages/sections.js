"use strict";
/* Draws the charts of a page of sections. Needs page.js and charts.js. Formats go by name, because JSON holds no functions. */
(() => {
  const FORMATS = {
    percent: (share) => Page.percent(share, 3),
  };
  const axis = (given) => (given.format ? { ...given, format: FORMATS[given.format] } : given);
  const specs = Page.data().charts;
  for (const place of document.querySelectorAll("[data-chart]")) {
    const spec = specs[place.dataset.chart];
    Charts.line(place, { ...spec, x: axis(spec.x), y: axis(spec.y) });
  }
})();
