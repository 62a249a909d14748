"use strict";
/* The page of a report: pictures, and notes of entries. Needs page.js and pictures.js. */
(() => {
  const { pictures, notes } = Page.data();
  Pictures.watch(pictures);

  /** A note shows where the pointer rests, and all notes of a table in its fold. */
  async function annotate() {
    const words = JSON.parse(await Pictures.unpack(notes));
    document.addEventListener("pointerover", ({ target }) => {
      const cell = target.closest?.("td[data-n]");
      if (cell) cell.title = words[cell.dataset.n];
    });
    for (const fold of document.querySelectorAll("details.notes")) {
      const table = fold.parentElement.querySelector("table");
      const cells = [...table.querySelectorAll("td[data-n]")];
      if (cells.length === 0) fold.remove();
      fold.addEventListener("toggle", () => fold.children.length === 1 && fold.append(listed(table, cells, words)));
    }
  }

  function listed(table, cells, words) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const group = (row) => {
      let at = row;
      while (at && !at.classList.contains("group")) at = at.previousElementSibling;
      return at?.textContent ?? "";
    };
    const rows = cells.map((cell) => [
      cell.parentElement.cells[0].textContent, group(cell.parentElement), heads[cell.cellIndex], words[cell.dataset.n],
    ]);
    return Page.table([["row", "group", "column", "note"], ...rows], "Notes on the entries");
  }

  annotate();
})();
