"use strict";
/* Unpacks pictures when they come near the screen, and all of them before the page is printed. Needs page.js. */
const Pictures = (() => {
  /** A text as `packed` of caribou.pages.pictures wrote it. */
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  async function show(place, packed) {
    if (place.dataset.shown) return;
    place.dataset.shown = "yes";
    place.innerHTML = await unpack(packed);
  }

  /** Show every element with data-picture, its content by name. */
  function watch(pictures) {
    const places = [...document.querySelectorAll("[data-picture]")];
    const near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen)
        if (isIntersecting) {
          near.unobserve(target);
          show(target, pictures[target.dataset.picture]);
        }
    }, { rootMargin: "800px" });
    places.forEach((place) => near.observe(place));
    addEventListener("beforeprint", () => places.forEach((place) => show(place, pictures[place.dataset.picture])));
  }

  return { unpack, watch };
})();
