// What this file does can be done without it: pages link and forms post.
//
// An element with data-poll is fetched again from that address and replaced by the answer,
// until the answer has no data-poll any more or the page is left: every data-every seconds
// while it changes, more seldom while it does not. Its data-said is told to who hears the
// page. Where the connection is lost, the page says so and since when.
"use strict";
(() => {
  const most = 15, patience = 20; // seconds between two requests, and failures in a row

  const region = (role, id) => {
    const out = document.createElement("p");
    out.setAttribute("role", role);
    out.id = id;
    document.getElementById("main").prepend(out);
    return out;
  };

  const poll = (node) => {
    if (!node.dataset.poll) return;
    const every = Math.max(1, Number(node.dataset.every) || 2);
    const said = region("status", "said");
    said.className = "hidden";
    let wait = every, failures = 0, lost = null, since = new Date();

    const tell = (text) => { if (said.textContent !== text) said.textContent = text; };
    const back = () => { failures = 0; since = new Date(); lost?.remove(); lost = null; };
    const missing = () => {
      failures++;
      lost ??= region("alert", "lost");
      lost.className = "note warn";
      const seen = `The connection is lost. Shown is how it stood at ${since.toISOString().slice(11, 19)} UTC.`;
      if (failures < patience) { lost.textContent = `${seen} Trying again.`; return true; }
      lost.textContent = `${seen} `;
      const link = document.createElement("a");
      link.href = location.href;
      link.textContent = "Load the page again";
      lost.append(link);
      return false;
    };

    const ask = async () => {
      const answer = await fetch(node.dataset.poll, { credentials: "same-origin", headers: { accept: "text/html" }, signal: AbortSignal.timeout(30000) });
      if (answer.status === 401) { location.reload(); return false; }
      if (!answer.ok) throw new Error(String(answer.status));
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
      if (!next) throw new Error("nothing");
      back();
      if (next.outerHTML === node.outerHTML) { wait = Math.min(wait * 1.5, most); return true; }
      wait = every;
      const focused = node.contains(document.activeElement) ? document.activeElement.id : null;
      node.replaceWith(next);
      node = next;
      if (focused !== null) {
        const again = document.getElementById(focused) ?? document.getElementById("main");
        again.focus({ preventScroll: true });
      }
      tell(next.dataset.said ?? "");
      document.dispatchEvent(new CustomEvent("px:replaced", { detail: next }));
      return Boolean(next.dataset.poll);
    };

    const later = () => setTimeout(async () => {
      if (!node.isConnected) return;
      if (document.hidden) { document.addEventListener("visibilitychange", later, { once: true }); return; }
      let on;
      try { on = await ask(); } catch { wait = Math.min(wait * 1.5, most); on = missing(); }
      if (on) later();
    }, wait * 1000);
    later();
  };
  document.querySelectorAll("[data-poll]").forEach(poll);
})();
