"use strict";
/* What the planner needs: its data, figures in words, elements, and copy buttons. */
const Page = (() => {
  /** The values that Python put into the page. */
  const data = () => JSON.parse(document.getElementById("page-data").textContent);

  /** A number with so many significant digits, without noughts at its end; "∞" and "–" where there is none. */
  function figure(value, digits = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) {
      const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
      return `${Number(mantissa)}e${Number(exponent)}`;
    }
    return String(Number(value.toPrecision(digits)));
  }

  /** A share as a percentage. */
  const percent = (share, digits = 3) => `${figure(100 * share, digits)} %`;

  /** An element with attributes and children; text is text, never markup. */
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** A table of rows of text; the first row has the titles, the first column names the rows. */
  function table(rows, caption = "") {
    const [head, ...body] = rows;
    const made = element("table", {}, ...(caption ? [element("caption", {}, caption)] : []));
    made.append(element("thead", {}, element("tr", {}, ...head.map((title) => element("th", { scope: "col" }, title)))));
    const lines = body.map(([first, ...rest]) =>
      element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((cell) => element("td", {}, cell)))
    );
    made.append(element("tbody", {}, ...lines));
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || head.join(", ") }, made);
  }

  /** Rows as comma-separated values. */
  const csv = (rows) =>
    rows.map((row) => row.map((cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell)).join(",")).join("\n") + "\n";

  /** Copy text; also where a browser keeps the clipboard from files. */
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = element("textarea", { "aria-label": "text to copy" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  /** A button that copies what ``text()`` returns, and says that it did. */
  function copyButton(label, text) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", async () => {
      await copy(text());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = label), 1500);
    });
    return button;
  }

  return { data, figure, percent, element, table, csv, copy, copyButton };
})();
