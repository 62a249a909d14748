"use strict";
/* What the theme leaves out for those who use keys or a screen reader: it wraps tables and code when a page is open, so this watches. */
(() => {
  const label = (element, words) => element.getAttribute("aria-label") === words || element.setAttribute("aria-label", words);
  function mend() {
    document.querySelectorAll(".md-search").forEach((box) => label(box, "Search"));
    document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap, k) => {
      wrap.tabIndex = 0;
      wrap.setAttribute("role", "region");
      label(wrap, `Table ${k + 1}, scrolls sideways`);
    });
    document.querySelectorAll(".md-typeset pre > code").forEach((code) => {
      if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
      else code.removeAttribute("tabindex");
    });
    document.querySelectorAll(".md-code__nav").forEach((nav, k) => label(nav, `Code block ${k + 1}`));
  }
  /** The button of the menu is a label, which keys pass by. */
  function menuByKeys() {
    const menu = document.querySelector("label.md-header__button[for=__drawer]"), toggle = document.getElementById("__drawer");
    if (menu === null || toggle === null) return;
    menu.tabIndex = 0;
    menu.title = "Menu";
    menu.addEventListener("keydown", (event) => {
      if (event.key !== " ") return; // the theme itself sees to Enter
      event.preventDefault();
      toggle.click();
    });
    addEventListener("keydown", (event) => event.key === "Escape" && toggle.checked && toggle.click());
  }
  addEventListener("DOMContentLoaded", () => {
    menuByKeys();
    new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
    new ResizeObserver(mend).observe(document.body);
    mend();
  });
})();
