/* explorer.js - script of the page of `glofnd discover --html`. The data is in the page as base64 (see explorer.c). */
"use strict";
(() => {
  const meta = JSON.parse(document.getElementById("d-meta").textContent);
  const $ = (id) => document.getElementById(id);

  /* ----- data ----- */

  function bytes(id) {
    const element = $(id), text = element ? atob(element.textContent) : "";
    const out = new Uint8Array(text.length);
    for (let i = 0; i < out.length; i++) out[i] = text.charCodeAt(i);
    return out;
  }
  const ints = (id) => new Int32Array(bytes(id).buffer);
  const row = ints("d-row"), above = ints("d-above"), mutual = ints("d-mutual"), part = ints("d-part"), group = ints("d-group");
  const copy = ints("d-copy"), label = ints("d-label"), other = ints("d-other"), slot = ints("d-slot");
  const lambda = new Float32Array(bytes("d-lambda").buffer), near = new Int16Array(bytes("d-near").buffer);
  const names = meta.names ? new TextDecoder().decode(bytes("d-names")).split("\n") : null;
  const n = row.length, top = meta.top;
  const NEAR = 10000;                     /* scale of the similarities */

  /* Neighbour k of anchor i: position, similarity, above the threshold of i, above both thresholds. */
  function neighbour(i, k) {
    const at = i * top + k, packed = other[at];
    if (packed === -1) return null;
    const above_i = (packed & 0x40000000) !== 0, both = (packed & 0x80000000) !== 0;
    return { i: packed & 0x3fffffff, s: near[at] / NEAR, above: above_i, mutual: both };
  }
  function neighbours(i) {
    const out = [];
    for (let k = 0; k < top; k++) {
      const x = neighbour(i, k);
      if (!x) break;
      out.push(x);
    }
    return out;
  }
  const nameOf = (i) => (names ? names[i] : "row " + row[i]);
  const labelOf = (i) => (label.length && label[i] >= 0 ? meta.classes[label[i]] || String(label[i]) : "");
  const number = (x) => x.toLocaleString("en");

  /* Positions of the members of every component or group. */
  function members(of, count) {
    const out = Array.from({ length: count }, () => []);
    for (let i = 0; i < n; i++) if (of[i] >= 0) out[of[i]].push(i);
    return out;
  }
  const parts = members(part, meta.components), groups = members(group, meta.groups);
  const isCopy = (list) => list.some((i) => copy[i] !== i);
  const groupOrder = groups.map((_, g) => g).sort((a, b) => isCopy(groups[b]) - isCopy(groups[a]) || a - b);

  /* ----- elements ----- */

  function make(tag, className, text) {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  const sheets = [];
  function sheet(k) {
    if (!sheets[k]) sheets[k] = URL.createObjectURL(new Blob([bytes("d-sheet-" + k)], { type: "image/jpeg" }));
    return sheets[k];
  }

  function tile(i, side, title) {
    const e = make("button", "tile");
    e.style.setProperty("--side", side + "px");
    e.title = title;
    e.setAttribute("aria-label", title);
    if (slot.length && slot[i] >= 0) {
      const across = meta.across, each = across * across, at = slot[i] % each;
      e.style.backgroundImage = "url(" + sheet(Math.floor(slot[i] / each)) + ")";
      e.style.backgroundSize = across * side + "px " + across * side + "px";
      e.style.backgroundPosition = -(at % across) * side + "px " + -Math.floor(at / across) * side + "px";
      e.style.backgroundOrigin = "border-box";
    } else e.textContent = names ? nameOf(i).split("/").pop().slice(-40) : row[i];
    e.onclick = () => show(i, true);
    return e;
  }

  function describe(i) {
    const l = labelOf(i);
    return (names ? nameOf(i) + ", " : "") + "row " + row[i] + (l ? ", " + l : "");
  }

  function cell(i, side, caption, title) {
    const e = make("div", "cell");
    e.style.setProperty("--side", side + "px");
    e.append(tile(i, side, title || describe(i)), caption);
    return e;
  }

  function link(text, go) {
    const e = make("a", "", text);
    e.href = "#";
    e.onclick = (event) => {
      event.preventDefault();
      go();
    };
    return e;
  }

  /* ----- plots ----- */

  const SVG = "http://www.w3.org/2000/svg";
  function shape(parent, tag, attributes, title) {
    const e = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (title !== undefined) e.appendChild(document.createElementNS(SVG, "title")).textContent = title;
    parent.appendChild(e);
    return e;
  }
  function words(parent, x, y, anchor, text) {
    shape(parent, "text", { x, y, "text-anchor": anchor }).textContent = text;
  }

  /* A drawing as wide as its panel, so that its text has the size of all other text, also on a phone. */
  function drawing(panel, h, label) {
    const svg = document.createElementNS(SVG, "svg"), w = Math.max(240, $(panel).clientWidth - 34);
    svg.setAttribute("viewBox", "0 0 " + w + " " + h);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    return { svg, w };
  }

  /* Similarities by rank, and the threshold. */
  function plot(i, list) {
    const h = 132, left = 44, bottom = 8, { svg, w } = drawing("anchor", h, "similarities of the neighbours and the threshold");
    const values = list.map((x) => x.s).concat(lambda[i]), high = Math.max(...values), low = Math.min(...values);
    const pad = Math.max(0.002, (high - low) * 0.08), from = low - pad, to = high + pad;
    const last = list.filter((p) => p.above).length, gap = above[i] > last ? 2 : 0;  /* neighbours that are not listed */
    const x = (k) => left + ((k + 0.5 + (k >= last ? gap : 0)) * (w - left)) / Math.max(list.length + gap, 1);
    const y = (v) => 6 + ((h - bottom - 6) * (to - v)) / (to - from);
    for (const v of [from + pad, (from + to) / 2, to - pad]) {
      shape(svg, "line", { class: "axis", x1: left, x2: w, y1: y(v), y2: y(v) });
      words(svg, left - 5, y(v) + 4, "end", v.toFixed(3));
    }
    const cut = y(lambda[i]);
    shape(svg, "line", { class: "level", x1: left, x2: w, y1: cut, y2: cut }, "threshold " + lambda[i].toFixed(4));
    list.forEach((p, k) => {
      const rank = number(k + 1 + (k >= last ? above[i] - last : 0));
      const title = "neighbour " + rank + ": " + describe(p.i) + ", similarity " + p.s.toFixed(4);
      shape(svg, "circle", { class: p.above ? "up" : "down", cx: x(k), cy: y(p.s), r: 4 }, title);
    });
    if (gap) words(svg, (x(last - 1) + x(last)) / 2, y((from + to) / 2) - 4, "middle", "… " + number(above[i] - last) + " …");
    return [svg, make("p", "soft small caption",
      "cosine similarity of the neighbours, nearest first; dashed: threshold " + lambda[i].toFixed(4))];
  }

  function histogram() {
    const h = 200, left = 48, bottom = 24, { svg, w } = drawing("gallery", h, "histogram of the thresholds");
    const bins = w < 500 ? 30 : 50;
    const count = new Array(bins).fill(0);
    let low = Infinity, high = -Infinity;
    for (const v of lambda) low = Math.min(low, v), high = Math.max(high, v);
    const span = high - low || 1e-6;
    for (const v of lambda) count[Math.min(bins - 1, Math.floor(((v - low) / span) * bins))]++;
    const max = Math.max(...count, 1), wide = (w - left) / bins;
    for (const share of [0, 0.5, 1]) {
      const y = 8 + (h - bottom - 8) * (1 - share);
      shape(svg, "line", { class: "axis", x1: left, x2: w, y1: y, y2: y });
      words(svg, left - 5, y + 4, "end", number(Math.round(share * max)));
    }
    count.forEach((c, b) => {
      const tall = ((h - bottom - 8) * c) / max, from = low + (span * b) / bins;
      const title = from.toFixed(4) + " to " + (from + span / bins).toFixed(4) + ": " + number(c) + " anchors";
      shape(svg, "rect", { class: "bin", x: left + b * wide + 0.5, y: h - bottom - tall, width: wide - 1, height: tall }, title);
    });
    words(svg, left, h - bottom + 17, "start", low.toFixed(4));
    words(svg, (left + w) / 2, h - bottom + 17, "middle", (low + span / 2).toFixed(4));
    words(svg, w, h - bottom + 17, "end", (low + span).toFixed(4));
    return [svg, make("p", "soft small caption", "horizontal: threshold (cosine similarity); vertical: anchors")];
  }

  /* ----- anchor ----- */

  let current = -1;

  function fact(text, value) {
    const p = make("p", "small");
    p.append(make("span", "soft", text + " "), value);
    return p;
  }

  function identity(i) {
    const box = make("div", "who"), text = make("div");
    box.append(tile(i, 128, describe(i)), text);
    text.append(make("h2", "", nameOf(i)));
    const chips = make("p");
    if (names) chips.append(make("span", "chip", "row " + row[i]), " ");
    if (labelOf(i)) chips.append(make("span", "chip", labelOf(i)));
    text.append(chips, fact("threshold", lambda[i].toFixed(4)));
    const others = above[i] === 1 ? " other, " : " others, ";
    text.append(fact("above it", number(above[i]) + others + number(mutual[i]) + " mutual"));
    if (part[i] >= 0) {
      const words = "#" + part[i] + ", " + number(parts[part[i]].length) + " images";
      text.append(fact("component", link(words, () => open("components", part[i]))));
    }
    if (group[i] >= 0) {
      const count = groups[group[i]].length - 1, exact = isCopy(groups[group[i]].filter((j) => copy[j] === copy[i]));
      const words = count + (count === 1 ? " duplicate" : " duplicates") + (exact ? ", an exact copy among them" : "");
      text.append(fact("", link(words, () => open("duplicates", group[i]))));
    }
    return box;
  }

  function row_of(i, list, className) {
    const box = make("div", "tiles " + className);
    for (const p of list) {
      const known = label.length && label[i] >= 0 && label[p.i] >= 0, same = known && label[i] === label[p.i];
      const caption = make("div", "", (known ? (same ? "✓ " : "✗ ") : "") + p.s.toFixed(4) + (p.mutual ? " ⇄" : ""));
      if (known) caption.className = same ? "right" : "wrong";
      const title = describe(p.i) + "\nsimilarity " + p.s.toFixed(4) + (p.above ? "," : ", not") + " above the threshold" +
        (p.mutual ? ", mutual" : "") + (known ? (same ? "\nsame label" : "\ndifferent label") : "");
      box.append(cell(p.i, 76, caption, title));
    }
    return box;
  }

  function show(i, scroll) {
    const box = $("anchor"), list = neighbours(i), up = list.filter((p) => p.above), down = list.filter((p) => !p.above);
    current = i;
    box.replaceChildren(identity(i));
    if (list.length) box.append(...plot(i, list));
    const more = above[i] - up.length;
    box.append(make("h2", "", "Above the threshold"));
    if (up.length) box.append(row_of(i, up, "above"));
    else box.append(make("p", "soft small", above[i] ? "none listed" : "no sample is above it"));
    if (more > 0) box.append(make("p", "soft small", "and " + number(more) + " more; --top lists more"));
    box.append(make("div", "cut", "threshold " + lambda[i].toFixed(4)), make("h2", "", "Below the threshold"));
    if (down.length) box.append(row_of(i, down, "below"));
    else box.append(make("p", "soft small", "none listed"));
    box.append(make("p", "soft small", "⇄ mutual pair" + (label.length ? "; ✓ same label, ✗ different label" : "")));
    box.scrollTop = 0;
    if (scroll) {
      history.replaceState(null, "", "#row=" + row[i]);
      if (matchMedia("(max-width: 900px)").matches) box.scrollIntoView({ block: "start" });
    }
  }

  /* ----- galleries ----- */

  const STEP = 20, FEW = 24;              /* groups at a time; images of a group before "show all" */
  const LIMIT = 2000;                     /* images of a group */
  const GLIMPSE = 16;                     /* images of a group in the overview */

  function one_group(list, title, exact, few) {
    const box = make("div", "group"), tiles = make("div", "tiles"), p = make("p", "small");
    p.append(title);
    if (exact) p.append(" ", make("span", "chip exact", "exact copies"));
    if (exact && list.some((i) => labelOf(i) !== labelOf(list[0]))) p.append(" ", make("span", "chip wrong", "labels differ"));
    box.append(p, tiles);
    const put = (from, to) => {
      for (const i of list.slice(from, to)) tiles.append(cell(i, 76, labelOf(i) || nameOf(i).split("/").pop()));
    };
    put(0, few);
    if (list.length > few) {
      const all = make("button", "", list.length > LIMIT ? "show the first " + number(LIMIT) : "show all " + number(list.length));
      all.onclick = () => {
        put(few, LIMIT);
        all.remove();
      };
      box.append(all);
    }
    return box;
  }

  const tabs = {
    overview: { name: "Overview" },
    duplicates: {
      name: "Duplicates", glance: 16, order: groupOrder, none: "No two rows are similar enough.",
      make: (g, few) => one_group(groups[g], "group " + g + ": " + number(groups[g].length) + " images", isCopy(groups[g]), few),
    },
    components: {
      name: "Components", glance: 5, order: parts.map((_, k) => k), none: "No mutual pairs, so nothing is connected.",
      make: (k, few) => one_group(parts[k], "component " + k + ": " + number(parts[k].length) + " images, " +
        number(meta.part_pairs[k] || 0) + " mutual pairs", false, few),
    },
    thresholds: { name: "Thresholds" },
  };

  function gallery(tab, first, step, few) {
    const box = make("div", "groups"), more = make("button", "more", "show more");
    let at = Math.max(0, first);
    more.onclick = () => {
      for (const end = Math.min(at + step, tab.order.length); at < end; at++) more.before(tab.make(tab.order[at], few));
      more.hidden = at >= tab.order.length;
    };
    box.append(more);
    if (!tab.order.length) box.append(make("p", "soft", tab.none));
    more.click();
    return box;
  }

  function thresholds() {
    const box = make("div");
    box.id = "histogram";
    box.append(...histogram());
    return [make("h2", "", "Thresholds of all anchors"), box];
  }

  /* Duplicates first. */
  function overview() {
    const out = [];
    for (const tab of [tabs.duplicates, tabs.components])
      out.push(make("h2", "", tab.name), gallery(tab, 0, tab.glance, GLIMPSE));
    return out.concat(thresholds());
  }

  function open(name, id) {
    const tab = tabs[name], box = $("gallery");
    for (const [key, t] of Object.entries(tabs)) t.button.setAttribute("aria-selected", String(key === name));
    if (name === "overview") box.replaceChildren(...overview());
    else if (name === "thresholds") box.replaceChildren(...thresholds());
    else box.replaceChildren(make("h2", "", tab.name), gallery(tab, id === undefined ? 0 : tab.order.indexOf(id), STEP, FEW));
    if (id !== undefined) box.scrollIntoView({ block: "start" });
  }

  /* ----- search ----- */

  function candidates(text) {
    const out = [], wanted = text.trim().toLowerCase();
    if (!wanted) return out;
    if (/^#?\d+$/.test(wanted)) {
      const i = row.indexOf(Number(wanted.replace("#", "")));
      if (i >= 0) out.push(i);
    }
    for (let i = 0; i < n && out.length < 12; i++) {
      const hit = (names && names[i].toLowerCase().includes(wanted)) || labelOf(i).toLowerCase() === wanted;
      if (hit && !out.includes(i)) out.push(i);
    }
    return out;
  }

  function wire_search() {
    const box = $("find"), list = $("hits");
    let found = [], on = 0;
    const draw = () => list.replaceChildren(...found.map((i, k) => {
      const li = make("li", k === on ? "on" : "", describe(i));
      li.onmousedown = () => pick(k);
      return li;
    }));
    const pick = (k) => {
      if (found[k] === undefined) return;
      show(found[k], true);
      found = [];
      draw();
    };
    box.oninput = () => {
      found = candidates(box.value);
      on = 0;
      draw();
      if (box.value.trim() && !found.length) list.append(make("li", "soft", "no such row or name"));
    };
    box.onkeydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && found.length) on = (on + step + found.length) % found.length, draw(), event.preventDefault();
      else if (event.key === "Enter") pick(on);
      else if (event.key === "Escape") found = [], draw();
    };
    box.onblur = () => list.replaceChildren();
  }

  /* Redraws when the width of the window changes; phones change the height all the time. */
  function wire_width() {
    let wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === wide) return;
      wide = innerWidth;
      if ($("histogram")) $("histogram").replaceChildren(...histogram());
      show(current, false);
    });
  }

  function start() {
    for (const [name, tab] of Object.entries(tabs)) {
      tab.button = make("button", "", tab.name + (tab.order ? " (" + number(tab.order.length) + ")" : ""));
      tab.button.onclick = () => open(name);
      tab.button.setAttribute("role", "tab");
      $("tabs").append(tab.button);
    }
    $("random").onclick = () => show(Math.floor(Math.random() * n), true);
    $("previous").onclick = () => show((current + n - 1) % n, true);
    $("next").onclick = () => show((current + 1) % n, true);
    wire_search();
    wire_width();
    open("overview");
    const asked = /^#row=(\d+)$/.exec(location.hash), at = asked ? row.indexOf(Number(asked[1])) : -1;
    show(at >= 0 ? at : groups.length ? groups[groupOrder[0]][0] : parts.length ? parts[0][0] : 0, false);
    document.documentElement.dataset.ready = "1";
  }
  start();
})();
