// Live parts and keys. Pages work without this file.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // ---------------------------------------------------------- live parts: <div data-live="/address">
  const state = byId("live-state");
  const say = (text) => {
    if (state.textContent !== text) state.textContent = text;
    state.hidden = !text;
  };
  const apply = (parts) => {
    for (const [id, html] of Object.entries(parts)) {
      const old = byId(id);
      if (!old || old.contains(document.activeElement) && old !== document.activeElement && document.activeElement.matches("input, select, textarea")) continue;
      const holder = document.createElement("template");
      holder.innerHTML = html;
      const only = holder.content.childElementCount === 1 ? holder.content.firstElementChild : null;
      if (only && only.id === id) old.replaceWith(holder.content);
      else old.replaceChildren(holder.content);
    }
  };
  const open = new Map();
  const begin = () => {
    for (const element of document.querySelectorAll("[data-live]")) {
      if (open.has(element)) continue;
      const source = new EventSource(element.dataset.live);
      open.set(element, source);
      source.addEventListener("parts", (event) => { say(""); byId("cluster-trouble").replaceChildren(); apply(JSON.parse(event.data)); });
      source.addEventListener("trouble", (event) => say(JSON.parse(event.data).message));
      source.addEventListener("ended", (event) => { say(JSON.parse(event.data).message); source.close(); });
      source.addEventListener("error", () => say(source.readyState === EventSource.CLOSED ? "No longer live: load the page again." : "Reconnecting…"));
    }
  };
  const end = () => {
    for (const source of open.values()) source.close();
    open.clear();
  };
  // A page that nobody sees costs the cluster nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));
  window.addEventListener("pagehide", end);
  window.addEventListener("pageshow", begin);
  if (!document.hidden) begin();

  // ---------------------------------------------------------- keys
  const help = byId("help");
  const helpButton = byId("help-open");
  helpButton.hidden = false;
  helpButton.addEventListener("click", () => help.showModal());
  let afterG = 0;
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const typing = target.matches && target.matches("input, select, textarea, [contenteditable]");
    if (event.key === "Escape" && typing) { target.blur(); return; }
    if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      const search = byId("search") || document.querySelector('input[type="search"]');
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    } else if (event.key === "?") {
      event.preventDefault();
      help.showModal();
    } else if (Date.now() - afterG < 1500) {
      afterG = 0;
      const link = document.querySelector(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    } else if (event.key === "g") {
      afterG = Date.now();
    }
  });
})();
