// What this file does can be done without it: pages link and forms post.
//
// An element with data-poll is fetched again every so many seconds (data-every, 2) from
// that address and replaced by the answer, until the answer has no data-poll any more or
// the page is left.
"use strict";
(() => {
  const poll = (node) => {
    const address = node.dataset.poll;
    if (!address) return;
    const every = Math.max(1, Number(node.dataset.every) || 2) * 1000;
    let failures = 0;
    const again = () => setTimeout(async () => {
      if (!node.isConnected) return;
      if (document.hidden) return again();
      try {
        const answer = await fetch(address, { credentials: "same-origin", headers: { accept: "text/html" } });
        if (answer.status === 401) return location.reload();
        if (!answer.ok) throw new Error(String(answer.status));
        const text = await answer.text();
        const next = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
        failures = 0;
        if (!next) return again();
        if (next.outerHTML === node.outerHTML) return again();
        const focused = node.contains(document.activeElement) ? document.activeElement.id : "";
        node.replaceWith(next);
        if (focused) document.getElementById(focused)?.focus();
        document.dispatchEvent(new CustomEvent("px:replaced", { detail: next }));
        poll(next);
      } catch {
        failures++;
        if (failures < 30) again();
      }
    }, every * Math.min(1 + failures, 8));
    again();
  };
  document.querySelectorAll("[data-poll]").forEach(poll);
})();
