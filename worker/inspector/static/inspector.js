// Answers to htmx may name the page to go to, which takes this one's place in the history.
// Keys n and p go from citation to citation; its source comes into view in the pane beside it.
(() => {
  "use strict";
  const cites = () => [...document.querySelectorAll("a.cite")];
  const show = (link) => {
    document.querySelectorAll(".current").forEach((one) => one.classList.remove("current"));
    link.classList.add("current");
    const source = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!source) return;
    source.classList.add("current");
    (source.querySelector("mark") || source).scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const page = event.detail.xhr.getResponseHeader("x-go-to");
    if (page) location.replace(page);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.cite");
    if (!link) return;
    event.preventDefault();
    history.replaceState(null, "", link.hash);
    show(link);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const step = { n: 1, p: -1 }[event.key];
    const all = cites();
    if (!step || !all.length) return;
    const at = all.findIndex((link) => link.classList.contains("current"));
    const next = all[(at < 0 ? (step > 0 ? 0 : -1) : at + step + all.length) % all.length] || all[all.length - 1];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    show(next);
  });
})();
