"use strict";
// Everything here is a convenience: pages are whole without it.
(() => {
  const $ = (selector) => document.querySelector(selector);
  document.documentElement.classList.add("js");

  const say = (text) => { $("#said").textContent = text; };
  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      say(what + " copied");
    } catch {
      say("The browser did not allow copying");
    }
  };

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(document.getElementById(button.dataset.copy).textContent, "Command");
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // Narrows what is on the page while typing; Enter asks the server, which knows all pages.
  const rowsOf = (target) => target.tBodies ? target.tBodies[0].rows : target.children;
  for (const input of document.querySelectorAll("[data-filter]")) {
    const target = document.getElementById(input.dataset.filter);
    if (!target) continue;
    const asked = input.value;
    const names = target.tHead ? [...target.tHead.rows].at(-1).cells : [];
    input.addEventListener("input", () => {
      const q = input.value.trim().toLowerCase();
      const free = q === "" || input.value === asked;
      const columns = [...names].map((cell) => cell.classList.contains("col") && cell.textContent.toLowerCase().includes(q));
      if (!free && columns.some(Boolean)) {
        for (const row of [target.tHead.rows[target.tHead.rows.length - 1], ...rowsOf(target)]) {
          [...row.cells].forEach((cell, i) => { cell.toggleAttribute("data-hidden", i > 2 && !columns[i]); });
          row.removeAttribute("data-hidden");
        }
        return;
      }
      for (const cell of target.querySelectorAll("[data-hidden]")) cell.removeAttribute("data-hidden");
      for (const row of rowsOf(target)) {
        row.toggleAttribute("data-hidden", !free && !row.textContent.toLowerCase().includes(q));
      }
    });
  }

  // Ages go on while the page stands; the server's words, so that both agree.
  const ageOf = (iso) => {
    const minutes = Math.floor((Date.now() - Date.parse(iso)) / 60000);
    if (minutes < 1) return "just now";
    if (minutes < 60) return minutes + " min ago";
    if (minutes < 48 * 60) return Math.floor(minutes / 60) + " h ago";
    return Math.floor(minutes / 1440) + " d ago";
  };
  setInterval(() => {
    if (document.hidden) return;
    for (const span of document.querySelectorAll("time > [data-age]")) {
      span.textContent = ageOf(span.parentElement.dateTime);
    }
  }, 30000);

  const step = (by) => {
    const failures = [...document.querySelectorAll("[data-fail]")].filter((e) => e.offsetParent !== null);
    if (failures.length === 0) return say("No failure on this page");
    const at = failures.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : failures.length - 1) : (at + by + failures.length) % failures.length;
    failures[next].focus();
    failures[next].scrollIntoView({block: "nearest"});
  };
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    f: () => { const input = $("[data-filter]") || $("#go"); input.focus(); input.select(); },
    l: () => { const log = $("[data-key=l]"); if (log) location.href = log.href; else say("No log is linked here"); },
    y: () => copy(location.href, "Address"),
    "?": () => { const list = $("#keys"); if (list.open) list.close(); else list.showModal(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });
})();
