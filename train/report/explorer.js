/* explorer.js - script of the page of `glofnd discover --html`. The data comes in pieces (see explorer.c): elements of the
 * page, or files of the folder next to it, each loaded when it is needed. Decisions and files made of them: review.js. */
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const meta = JSON.parse($("d-meta").textContent);
  const n = meta.n, top = meta.top, NEAR = 10000;                     /* NEAR: scale of the similarities */
  const review = gf_review(meta);
  const number = (x) => x.toLocaleString("en");
  const plural = (x) => (x === 1 ? "" : "s");

  /* ----- pieces ----- */

  const pieces = new Map(), waiting = {};
  globalThis.GF = (id, value) => waiting[id](value);
  function load(id) {
    return new Promise((done, failed) => {
      const inside = $("c-" + id);
      if (inside) return done(JSON.parse(inside.textContent));
      const e = document.createElement("script");
      waiting[id] = (value) => (e.remove(), done(value));
      e.onerror = () => failed(new Error(meta.folder + "/" + id + ".js cannot be loaded; it belongs beside this page"));
      e.src = meta.folder + "/" + id + ".js";
      document.head.append(e);
    });
  }
  function piece(id, make) {
    if (!pieces.has(id)) pieces.set(id, load(id).then(make));
    return pieces.get(id);
  }

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < out.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }
  const place = (i) => [Math.floor(i / meta.each), i % meta.each];
  const light = (k) => piece("a" + k, ([numbers, names]) => {
    const all = new Int32Array(bytes(numbers).buffer), m = all.length / 4;
    return { row: all.subarray(0, m), label: all.subarray(m, 2 * m), slot: all.subarray(2 * m, 3 * m), kept: all.subarray(3 * m),
      name: meta.names ? new TextDecoder().decode(bytes(names)).split("\n") : null };
  });
  const heavy = (k) => piece("n" + k, ([numbers, others, near]) => {
    const raw = bytes(numbers).buffer, m = raw.byteLength / 24, ints = new Int32Array(raw);
    const column = (c) => ints.subarray(c * m, (c + 1) * m);
    return { lambda: new Float32Array(raw, 0, m), above: column(1), mutual: column(2), part: column(3), group: column(4),
      copy: column(5), other: new Int32Array(bytes(others).buffer), near: new Int16Array(bytes(near).buffer) };
  });
  const list = (kind, k) => piece(kind + k, (x) => x);

  /* An anchor: its place, row, label, picture, decision, name. */
  const of_list = (a) => ({ i: a[0], row: a[1], label: a[2], slot: a[3], removed: a[4] !== null, near: a[4], name: a[5] });
  async function anchor(i) {
    const [k, at] = place(i), x = await light(k);
    return { i, row: x.row[at], label: x.label[at], slot: x.slot[at], removed: x.kept[at] !== i, kept: x.kept[at],
      name: x.name ? x.name[at] : undefined };
  }
  const anchors = (list) => Promise.all(list.map(anchor));

  /* Neighbours: the anchor, its similarity, above the threshold of i, above both thresholds. */
  async function neighbours(x, at) {
    const found = [];
    for (let k = at * top; k < (at + 1) * top && x.other[k] !== -1; k++)
      found.push({ i: x.other[k] & 0x3fffffff, s: x.near[k] / NEAR, above: (x.other[k] & 0x40000000) !== 0,
        mutual: (x.other[k] & 0x80000000) !== 0 });
    const of = await anchors(found.map((p) => p.i));
    return found.map((p, k) => ({ ...p, of: of[k] }));
  }

  const nameOf = (a) => a.name || "row " + a.row;
  const className = (y) => (y >= 0 ? meta.classes[y] || String(y) : "");
  const labelOf = (a) => className(a.label);
  const gone = (a) => !review.stays(a.row, !a.removed);               /* by proposal and decision */
  const describe = (a) => (a.name ? a.name + ", " : "") + "row " + a.row + (labelOf(a) ? ", " + labelOf(a) : "") +
    (gone(a) ? ", to be removed" : "");

  /* ----- elements ----- */

  function make(tag, className, text) {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  const sheets = [];
  function sheet(k) {
    const inside = $("c-s" + k);
    if (!sheets[k] && !inside) sheets[k] = meta.folder + "/s" + k + ".jpg";
    if (!sheets[k]) sheets[k] = URL.createObjectURL(new Blob([bytes(JSON.parse(inside.textContent))], { type: "image/jpeg" }));
    return sheets[k];
  }

  function tile(a, side, title) {
    const e = make("button", "tile" + (a.removed ? " removed" : ""));
    e.style.setProperty("--side", side + "px");
    e.title = title;
    e.setAttribute("aria-label", title);
    if (a.slot >= 0) {
      const across = meta.across, each = across * across, at = a.slot % each;
      e.style.backgroundImage = "url(" + sheet(Math.floor(a.slot / each)) + ")";
      e.style.backgroundSize = across * side + "px " + across * side + "px";
      e.style.backgroundPosition = -(at % across) * side + "px " + -Math.floor(at / across) * side + "px";
      e.style.backgroundOrigin = "border-box";
    } else e.textContent = (a.name && a.name.split("/").pop().slice(-40)) || a.row;
    e.onclick = () => show(a.i, true);
    return e;
  }

  function cell(a, side, caption, title) {
    const e = make("div", "cell");
    e.style.setProperty("--side", side + "px");
    e.append(tile(a, side, title || describe(a)), typeof caption === "string" ? make("div", "", caption) : caption);
    return e;
  }

  function link(text, go) {
    const e = make("a", "", text);
    e.href = "#";
    e.onclick = (event) => (event.preventDefault(), go());
    return e;
  }
  const small = (...parts) => {
    const p = make("p", "small");
    p.append(...parts);
    return p;
  };
  const chip = (text, kind) => make("span", "chip " + (kind || ""), text);

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
  function plot(list, lambda, above) {
    const h = 132, left = 44, bottom = 8, { svg, w } = drawing("anchor", h, "similarities of the neighbours and the threshold");
    const values = list.map((x) => x.s).concat(lambda), high = Math.max(...values), low = Math.min(...values);
    const pad = Math.max(0.002, (high - low) * 0.08), from = low - pad, to = high + pad;
    const last = list.filter((p) => p.above).length, gap = above > last ? 2 : 0;  /* neighbours that are not listed */
    const x = (k) => left + ((k + 0.5 + (k >= last ? gap : 0)) * (w - left)) / Math.max(list.length + gap, 1);
    const y = (v) => 6 + ((h - bottom - 6) * (to - v)) / (to - from);
    for (const v of [from + pad, (from + to) / 2, to - pad]) {
      shape(svg, "line", { class: "axis", x1: left, x2: w, y1: y(v), y2: y(v) });
      words(svg, left - 5, y(v) + 4, "end", v.toFixed(3));
    }
    const cut = y(lambda);
    shape(svg, "line", { class: "level", x1: left, x2: w, y1: cut, y2: cut }, "threshold " + lambda.toFixed(4));
    list.forEach((p, k) => {
      const rank = number(k + 1 + (k >= last ? above - last : 0));
      const title = "neighbour " + rank + ": " + describe(p.of) + ", similarity " + p.s.toFixed(4);
      shape(svg, "circle", { class: p.above ? "up" : "down", cx: x(k), cy: y(p.s), r: 4 }, title);
    });
    if (gap) words(svg, (x(last - 1) + x(last)) / 2, y((from + to) / 2) - 4, "middle", "… " + number(above - last) + " …");
    return [svg, make("p", "soft small caption",
      "cosine similarity of the neighbours, nearest first; dashed: threshold " + lambda.toFixed(4))];
  }

  function histogram() {
    const h = 200, left = 56, bottom = 24, { svg, w } = drawing("statistics", h, "histogram of the thresholds");
    const count = w < 500 ? meta.bins.filter((_, k) => k % 2 === 0).map((c, k) => c + meta.bins[2 * k + 1]) : meta.bins;
    const bins = count.length, { low, span } = meta, max = Math.max(...count, 1), wide = (w - left) / bins;
    for (const share of [0, 0.5, 1]) {
      const y = 8 + (h - bottom - 8) * (1 - share);
      shape(svg, "line", { class: "axis", x1: left, x2: w, y1: y, y2: y });
      words(svg, left - 5, y + 4, "end", number(Math.round(share * max)));
    }
    count.forEach((c, b) => {
      const tall = ((h - bottom - 8) * c) / max, from = low + (span * b) / bins;
      const title = from.toFixed(4) + " to " + (from + span / bins).toFixed(4) + ": " + number(c) + " rows";
      shape(svg, "rect", { class: "bin", x: left + b * wide + 0.5, y: h - bottom - tall, width: wide - 1, height: tall }, title);
    });
    words(svg, left, h - bottom + 17, "start", low.toFixed(4));
    words(svg, (left + w) / 2, h - bottom + 17, "middle", (low + span / 2).toFixed(4));
    words(svg, w, h - bottom + 17, "end", (low + span).toFixed(4));
    return [svg, make("p", "soft small caption", "horizontal: threshold (cosine similarity); vertical: rows")];
  }

  /* ----- anchor ----- */

  let current = -1, wish = 0;                       /* wish: of several anchors that are asked for the last is shown */

  const fact = (text, ...value) => small(make("span", "soft", text + " "), ...value);

  function identity(a, x, at) {
    const box = make("div", "who"), text = make("div"), chips = make("p");
    box.append(tile(a, 128, describe(a)), text);
    text.append(make("h2", "", nameOf(a)));
    if (meta.names) chips.append(chip("row " + a.row), " ");
    if (labelOf(a)) chips.append(chip(labelOf(a)), " ");
    if (gone(a)) chips.append(chip("remove", "wrong"));
    text.append(chips, fact("threshold", x.lambda[at].toFixed(4)));
    const others = x.above[at] === 1 ? " other, " : " others, ";
    text.append(fact("above it", number(x.above[at]) + others + number(x.mutual[at]) + " mutual"));
    if (x.part[at] >= 0) text.append(fact("component", link("#" + x.part[at], () => open("components", x.part[at]))));
    const g = x.group[at];
    if (g >= 0) text.append(fact("duplicates", link("group " + g, () => open("duplicates", meta.order.indexOf(g)))));
    if (a.removed && gone(a)) text.append(fact("instead of it", link("this one is kept", () => show(a.kept, true))));
    return box;
  }

  function row_of(a, list, className) {
    const box = make("div", "tiles " + className);
    for (const p of list) {
      const known = a.label >= 0 && p.of.label >= 0, same = known && a.label === p.of.label;
      const caption = make("div", "", (known ? (same ? "✓ " : "✗ ") : "") + p.s.toFixed(4) + (p.mutual ? " ⇄" : ""));
      if (known) caption.className = same ? "right" : "wrong";
      const title = describe(p.of) + "\nsimilarity " + p.s.toFixed(4) + (p.above ? "," : ", not") + " above the threshold" +
        (p.mutual ? ", mutual" : "") + (known ? (same ? "\nsame label" : "\ndifferent label") : "");
      box.append(cell(p.of, 76, caption, title));
    }
    return box;
  }

  async function show(i, scroll) {
    const mine = ++wish, [k, at] = place(i), box = $("anchor");
    const [a, x] = await Promise.all([anchor(i), heavy(k)]), list = await neighbours(x, at);
    if (mine !== wish) return;
    const up = list.filter((p) => p.above), down = list.filter((p) => !p.above), more = x.above[at] - up.length;
    current = i;
    box.replaceChildren(identity(a, x, at));
    if (list.length) box.append(...plot(list, x.lambda[at], x.above[at]));
    box.append(make("h2", "", "Above the threshold"));
    if (up.length) box.append(row_of(a, up, "above"));
    else box.append(make("p", "soft small", x.above[at] ? "none listed" : "no sample is above it"));
    if (more > 0) box.append(make("p", "soft small", "and " + number(more) + " more; --top lists more"));
    box.append(make("div", "cut", "threshold " + x.lambda[at].toFixed(4)), make("h2", "", "Below the threshold"));
    if (down.length) box.append(row_of(a, down, "below"));
    else box.append(make("p", "soft small", "none listed"));
    box.append(make("p", "soft small", "⇄ mutual pair" + (meta.labels ? "; ✓ same label, ✗ different label" : "")));
    $("side").scrollTop = 0;
    if (scroll) {
      history.replaceState(null, "", "#row=" + a.row);
      if (matchMedia("(max-width: 900px)").matches) $("side").scrollIntoView({ block: "start" });
    }
  }

  /* ----- decisions ----- */

  const items = [];                       /* what the gallery shows: { box, map, rows, value, paint } */
  let selected = -1;

  /* Values of an item's rows: 1 all accepted, -1 all rejected, 0 some, undefined without a decision. */
  function state(item) {
    const values = item.rows.map((row) => review.get(item.map, row)), known = values.filter((v) => v !== undefined);
    if (!known.length) return undefined;
    const rejected = known.filter((v) => v === review.REJECTED).length;
    return known.length < values.length || (rejected && rejected < values.length) ? 0 : rejected ? -1 : 1;
  }
  function paint(item) {
    const now = item.map ? state(item) : undefined;
    item.box.classList.toggle("accepted", now === 1);
    item.box.classList.toggle("rejected", now === -1);
    item.box.classList.toggle("mixed", now === 0);
    for (const button of item.box.querySelectorAll(".choice button"))
      button.setAttribute("aria-pressed", String(now === Number(button.dataset.value)));
    if (item.paint) item.paint();
  }
  function repaint(rows) {
    const changed = new Set(rows);
    for (const item of items) if (!rows || item.rows.some((row) => changed.has(row))) paint(item);
    todo();
  }
  async function choose(item, accept) {
    if (!item || !item.map) return;
    if (item.rest) item.rows.push(...await item.rest());        /* members that were not shown yet */
    item.rest = undefined;
    review.decide(item.map, item.rows.map((row) => [row, accept ? item.value : review.REJECTED]));
    repaint(item.rows);
  }
  function select(k, by_key) {
    if (items[selected]) items[selected].box.classList.remove("on");
    selected = Math.max(0, Math.min(k, items.length - 1));
    const item = items[selected];
    if (!item) return;
    item.box.classList.add("on");
    if (!by_key) return;
    item.box.scrollIntoView({ block: "nearest" });
    show(item.first, false).catch(complain);
  }
  async function move(step) {
    if (step > 0 && selected + 1 >= items.length && extend) await extend();
    select(selected + step, true);
  }
  let extend = null;                      /* shows more items of the opened list */

  const keys = {
    j: () => move(1), ArrowDown: () => move(1), ArrowRight: () => move(1),
    k: () => move(-1), ArrowUp: () => move(-1), ArrowLeft: () => move(-1),
    a: () => choose(items[selected], true).then(() => move(1)),
    r: () => choose(items[selected], false).then(() => move(1)),
    u: () => { const rows = review.undo(); if (rows) repaint(rows); },
  };
  let busy = Promise.resolve();           /* keys act one after another, however fast they come */
  function wire_keys() {
    if (!meta.decided) return;
    for (const [key, what] of [["j", ""], ["k", "or arrows: move"], ["a", "accept"], ["r", "reject"], ["u", "undo"]])
      $("keys").append(make("kbd", "", key), " " + what + " ");
    addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      event.preventDefault();
      busy = busy.then(act).catch(complain);
    });
  }

  /* Every row that was compared, in order. */
  async function each(use) {
    for (let k = 0; k < meta.first.length; k++) {
      const x = await light(k);
      for (let at = 0; at < x.row.length; at++) use(x.row[at], x.label[at], x.kept[at] === k * meta.each + at);
    }
  }
  const save_keep = async () => {
    review.save_file("keep.txt", await review.keep_text(each));
    for (let k = 0; k < meta.splits.length; k++)
      review.save_file("keep_" + (k + 1) + ".txt", await review.keep_text(each, meta.splits[k]));
  };
  const save_labels = async () => review.save_file("labels_fixed.csv", await review.labels_text(each));

  /* What to do first: a card per list, and the files that the decisions make. */
  function card(name, title, count, words, decided) {
    const e = make("button", "card");
    e.append(make("b", "", title + " " + number(count)), make("span", "soft small", words),
      make("span", "small", decided));
    e.onclick = () => open(name).catch(complain);
    return e;
  }
  const decided = (name, yes) => number(review.accepted(name)) + " " + yes + ", " + number(review.rejected(name)) + " rejected";
  function todo() {
    if (!meta.decided) return;
    const box = $("todo"), out = [], gone = meta.keep + meta.duplicates + meta.bad - review.rows_kept();
    if (!tabs.leaks.off && meta.leaks)
      out.push(card("leaks", "Remove leaks:", meta.leaks, "pairs of duplicates in two splits", decided("duplicates", "accepted")));
    out.push(card("duplicates", "Remove:", meta.duplicates, "duplicates" + (meta.otherlabel ? ", " + number(meta.otherlabel) +
      " with another label than the row that stays" : " of a row that stays"), decided("duplicates", "accepted")));
    if (!tabs.labels.off)
      out.push(card("labels", "Relabel:", meta.issues, "labels that the neighbours contradict", decided("labels", "relabelled")));
    out.push(card("outliers", "Look:", meta.found, "outliers, unlike all other rows", decided("outliers", "removed")));
    const save = make("div", "card save"), buttons = make("div", "nav");
    const button = (text, act) => {
      const e = make("button", "", text);
      e.onclick = () => Promise.resolve(act()).catch(complain);
      buttons.append(e);
    };
    button("keep.txt", save_keep);
    if (meta.labels) button("labels_fixed.csv", save_labels);
    button("undo", keys.u);
    button("start again", () => (review.forget(), repaint()));
    save.append(make("b", "", "Export"), make("span", "soft small", "keep " + number(review.rows_kept()) + ", remove " +
      number(gone) + (meta.labels ? ", relabel " + number(review.accepted("labels")) : "")), buttons);
    if (!review.lasting()) save.append(make("span", "wrong small", "This browser forgets decisions: export before you leave."));
    box.replaceChildren(...out, save);
  }

  /* ----- items of lists ----- */

  const TILE = 92;
  const lastName = (a) => labelOf(a) || nameOf(a).split("/").pop();

  function item(box, map, rows, value, yes, no, first) {
    const it = { box, map, rows, value, first }, choice = make("div", "choice");
    for (const [text, accept] of meta.decided && rows.length ? [[yes, true], [no, false]] : []) {
      const e = make("button", accept ? "yes" : "no", text);
      e.dataset.value = accept ? 1 : -1;
      e.onclick = () => (select(items.indexOf(it), false), choose(it, accept).catch(complain));
      choice.append(e);
    }
    if (choice.children.length) box.append(choice);
    else it.map = undefined;
    return it;
  }

  /* Tile of a duplicate: its class, and the similarity to the row that stays; the caption of a removed row switches the row. */
  function duplicate(a, paints) {
    const caption = make(a.removed ? "button" : "div", a.removed ? "toggle" : "right"), e = cell(a, TILE, make("div", "", lastName(a)));
    const near = a.near === undefined || a.near === null ? "" : " " + a.near.toFixed(4);
    e.append(caption);
    if (!a.removed) caption.textContent = "keep";
    else {
      caption.title = "similarity to the row that stays;\nclick: remove or keep this row alone";
      caption.onclick = () => {
        review.decide("duplicates", [[a.row, review.get("duplicates", a.row) === review.REJECTED ? 1 : review.REJECTED]]);
        repaint([a.row]);
      };
      paints.push(() => {
        const stays = review.stays(a.row, false);
        caption.textContent = (stays ? "keep" : "remove") + near;
        caption.classList.toggle("right", stays);
        e.firstChild.classList.toggle("removed", !stays);
      });
    }
    return e;
  }

  /* A group or component: [number, members, pairs, exact, labels differ, anchors, further positions] */
  function set(word, is_group) {
    return ([id, count, pairs, exact, differ, first, rest]) => {
      const box = make("div", "group"), tiles = make("div", "tiles"), paints = [], known = first.map(of_list);
      const links = is_group ? "" : ", " + number(pairs) + " mutual pair" + plural(pairs), shown = first.length + rest.length;
      const p = small(word + " " + number(id) + ": " + number(count) + " rows" + links);
      if (is_group && differ) p.append(" ", chip("labels differ", "wrong"));
      if (is_group && exact) p.append(" ", chip("exact copies", "exact"));
      const put = (a) => tiles.append(is_group && meta.decided ? duplicate(a, paints) : cell(a, TILE, lastName(a)));
      known.forEach(put);
      box.append(p, tiles);
      const all = make("button", "", "show " + (count > shown ? "the first " : "all ") + number(shown));
      if (rest.length) box.append(all);
      const rows = is_group ? known.filter((a) => a.removed).map((a) => a.row) : [];
      const it = item(box, "duplicates", rows, 1, "remove", "keep all", known[0].i);
      if (rest.length && it.map)
        it.rest = async () => (await anchors(rest)).filter((a) => a.removed).map((a) => a.row);
      all.onclick = async () => {
        all.remove();
        (await anchors(rest)).forEach(put);
        it.paint();
      };
      it.paint = () => paints.forEach((f) => f());
      return it;
    };
  }

  function two(a, b, words, chips, draw) {
    const box = make("div", "group"), tiles = make("div", "tiles");
    tiles.append(draw(a), draw(b));
    box.append(small(words, ...chips.flatMap((c) => [" ", c])), tiles);
    return box;
  }
  const plain = (a) => cell(a, TILE, lastName(a));
  function outlier([a, near, s, lambda, is]) {
    const x = of_list(a);
    const box = two(x, of_list(near), "mean similarity " + s.toFixed(4), is ? [chip("outlier", "wrong")] : [], plain);
    return item(box, "outliers", [x.row], x.removed ? 2 : 1, "remove", "keep", x.i);
  }
  function leak([a, b, s, exact, u, v]) {
    const paints = [], both = [of_list(a), of_list(b)], rows = both.filter((x) => x.removed).map((x) => x.row);
    const box = two(both[0], both[1], meta.splits[u][0] + " – " + meta.splits[v][0] + ": " + s.toFixed(4),
      exact ? [chip("exact copy", "exact")] : [], (x) => duplicate(x, paints));
    const it = item(box, "duplicates", rows, 1, "remove", "keep", both[0].i);
    it.paint = () => paints.forEach((f) => f());
    return it;
  }
  function issue([a, suggested, probability, votes, best, own]) {
    const box = make("div", "group"), x = of_list(a);
    box.append(small(chip(className(x.label), "wrong"), " → ", chip(className(suggested), "right")),
      cell(x, TILE, (100 * probability).toFixed(1) + " %"));
    box.title = "probability of " + className(suggested) + ": " + probability.toFixed(4) + "\n" + best + " of " + votes +
      " mutual neighbours have this label, " + own + " the label of the row";
    return item(box, "labels", [x.row], suggested, "relabel", "keep label", x.i);
  }

  /* The list that a tab shows: pieces of meta.items items. */
  const tabs = {
    overview: { name: "Overview" },
    duplicates: { name: "Duplicates", kind: "g", count: meta.groups, glance: 12, draw: set("group", true),
      none: "No two rows are similar enough.", file: "duplicate_groups.tsv",
      about: () => "Rows that are dimmed are removed; the number is their similarity to the row that stays." },
    leaks: { name: "Leaks", kind: "k", count: meta.leaks || 0, glance: 8, draw: leak, none: "No duplicates in two splits.",
      file: "leaks.tsv", off: !meta.splits || !meta.splits.length },
    labels: { name: "Label issues", kind: "l", count: meta.issues || 0, glance: 12, draw: issue,
      none: "All labels agree with the neighbours.", file: "label_issues.tsv", off: !meta.decided || !meta.labels,
      about: () => "Label, suggested label and its probability by the mutual neighbours." },
    outliers: { name: "Outliers", kind: "o", count: meta.outliers || 0, total: meta.found, glance: 8, draw: outlier,
      none: "No neighbours are listed.", file: "outliers.tsv", off: !meta.decided,
      about: () => "Rows by the mean similarity of their nearest ones, lowest first; outliers are below " + meta.limit.toFixed(4) + "." },
    components: { name: "Components", kind: "p", count: meta.components, glance: 4, draw: set("component", false),
      none: "No mutual pairs, so nothing is connected.", file: "components.tsv" },
  };

  const about = (tab) => (tab.about && tab.count ? [make("p", "soft small", tab.about())] : []);
  const STEP = 20;                        /* items at a time */
  async function gallery(tab, first, step, still) {
    const box = make("div", "groups"), more = make("button", "more", "show more"), end = Math.min(tab.count, meta.listed);
    let at = Math.max(0, first);
    const next = async () => {
      for (const stop = Math.min(at + step, end); at < stop; at++) {
        const it = tab.draw((await list(tab.kind, Math.floor(at / meta.items)))[at % meta.items]);
        if (!still()) return;
        items.push(it);
        paint(it);
        more.before(it.box);
      }
      more.hidden = at >= end;
      if (at >= end && tab.count > end) more.before(make("p", "soft", number(end) + " are on this page, all in " + tab.file));
    };
    more.onclick = () => next().catch(complain);
    box.append(more);
    if (!tab.count) box.append(make("p", "soft", tab.none));
    if (first >= end && tab.count) box.append(make("p", "soft", "It is not on this page; see " + tab.file + "."));
    await next();
    extend = step === STEP ? next : null;
    return box;
  }

  /* Rows of a split with a duplicate in each split. */
  function matrix() {
    const table = make("table", "matrix"), head = make("tr"), names = meta.splits.map((s) => s[0]);
    head.append(make("th", "", "rows of"), make("th", "", "rows"), ...names.map((s) => make("th", "", "in " + s)));
    table.append(head);
    meta.splits.forEach((s, a) => {
      const line = make("tr");
      line.append(make("th", "", s[0]), make("td", "", number(s[2])));
      names.forEach((_, b) => {
        const rows = s[3 + 2 * b], exact = s[4 + 2 * b], cell = make("td", rows && a !== b ? "wrong" : "", number(rows));
        if (exact) cell.append(make("span", "soft", " (" + number(exact) + " exact)"));
        line.append(cell);
      });
      table.append(line);
    });
    return [make("h2", "", "Duplicates between splits"), table,
      make("p", "soft small", "rows of a split whose group of duplicates has a row of that split; (exact: of equal bytes)")];
  }

  function decision() {
    const box = make("p", "decision");
    box.append("proposed: ", make("b", "right", "keep " + number(meta.keep)), ", ",
      make("b", "wrong", "remove " + number(meta.duplicates + meta.bad)), ": " + number(meta.duplicates) + " duplicate" + plural(meta.duplicates) + ", " +
      number(meta.bad) + " bad row" + plural(meta.bad) + ". Each removed duplicate has a similar row that stays (--keep " + meta.rule + "): ",
      make("code", "", "keep.txt"), ", ", make("code", "", "remove.txt"), ".");
    const some = (meta.keep + meta.duplicates + meta.bad) / 4;
    if (meta.copies > some)
      box.append(make("b", "wrong", " Caution:"), " more than a quarter of the rows are exact copies. Did you give a file twice?");
    else if (meta.duplicates > some)
      box.append(make("b", "wrong", " Caution:"), " at this --dup the embeddings hardly separate different rows. " +
        "Look at the groups first, or use a higher limit.");
    return box;
  }

  async function overview(still) {
    const out = [];
    if (meta.decided) out.push(make("h2", "", "Decision"), decision());
    if (!tabs.leaks.off) out.push(...matrix());
    for (const tab of Object.values(tabs)) {
      if (!tab.kind || tab.off || (!tab.count && tab !== tabs.duplicates)) continue;
      out.push(make("h2", "", tab.name), ...about(tab), await gallery(tab, 0, tab.glance, still));
    }
    return out;
  }

  let asked = 0;                          /* of several lists that are asked for the last is shown */
  async function open(name, id) {
    const tab = tabs[name], box = $("gallery");
    const mine = ++asked, still = () => mine === asked;
    items.length = 0, selected = -1, extend = null;
    for (const [key, t] of Object.entries(tabs)) if (t.button) t.button.setAttribute("aria-selected", String(key === name));
    const parts = name === "overview" ? await overview(still)
      : [make("h2", "", tab.name), ...about(tab), ...(name === "leaks" ? matrix() : []), await gallery(tab, id || 0, STEP, still)];
    if (!still()) return;
    box.replaceChildren(...parts);
    select(0, false);
    if (id !== undefined) box.scrollIntoView({ block: "start" });
  }

  function complain(error) {
    $("gallery").prepend(make("p", "wrong", String(error.message || error)));
  }

  /* ----- search ----- */

  /* Position of a row; -1: none. */
  async function find_row(row) {
    let k = meta.first.length - 1;
    while (k > 0 && meta.first[k] > row) k--;
    const at = (await light(k)).row.indexOf(row);
    return at < 0 ? -1 : k * meta.each + at;
  }

  /* Anchors by row, part of a name or label, piece by piece; `still` ends it. */
  async function candidates(text, still, draw) {
    const out = [], wanted = text.trim().toLowerCase();
    if (!wanted) return draw(out, true);
    if (/^#?\d+$/.test(wanted)) {
      const i = await find_row(Number(wanted.replace("#", "")));
      if (i >= 0) out.push(await anchor(i)), draw(out, false);
    }
    for (let k = 0; k < meta.first.length && out.length < 12 && (meta.names || meta.labels) && still(); k++) {
      const x = await light(k), before = out.length;
      for (let at = 0; at < x.row.length && out.length < 12; at++) {
        const hit = (x.name && x.name[at].toLowerCase().includes(wanted)) || className(x.label[at]).toLowerCase() === wanted;
        if (hit && !out.some((a) => a.i === k * meta.each + at)) out.push(await anchor(k * meta.each + at));
      }
      if (out.length > before && still()) draw(out, false);
    }
    if (still()) draw(out, true);
  }

  function wire_search() {
    const box = $("find"), list = $("hits");
    let found = [], on = 0, asked = 0;
    const draw = () => list.replaceChildren(...found.map((a, k) => {
      const li = make("li", k === on ? "on" : "", describe(a));
      li.onmousedown = () => pick(k);
      return li;
    }));
    const pick = (k) => {
      if (!found[k]) return;
      show(found[k].i, true).catch(complain);
      found = [];
      asked++;
      draw();
    };
    box.oninput = () => {
      const mine = ++asked;
      on = 0;
      candidates(box.value, () => mine === asked, (out, end) => {
        found = out.slice();
        draw();
        if (end && box.value.trim() && !found.length) list.append(make("li", "soft", "no such row or name"));
      }).catch(complain);
    };
    box.onkeydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && found.length) on = (on + step + found.length) % found.length, draw(), event.preventDefault();
      else if (event.key === "Enter") pick(on);
      else if (event.key === "Escape") found = [], asked++, draw();
    };
    box.onblur = () => list.replaceChildren();
  }

  /* Redraws when the width of the window changes; phones change the height all the time. */
  function wire_width() {
    let wide = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === wide) return;
      wide = innerWidth;
      $("histogram").replaceChildren(...histogram());
      show(current, false);
    });
  }

  async function start() {
    for (const [name, tab] of Object.entries(tabs)) {
      if (tab.off) continue;
      const count = tab.total === undefined ? tab.count : tab.total;
      tab.button = make("button", "", tab.name + (tab.kind ? " (" + number(count) + ")" : ""));
      tab.button.onclick = () => open(name).catch(complain);
      tab.button.setAttribute("role", "tab");
      $("tabs").append(tab.button);
    }
    const go = (i) => show(i, true).catch(complain);
    $("random").onclick = () => go(Math.floor(Math.random() * n));
    $("previous").onclick = () => go((current + n - 1) % n);
    $("next").onclick = () => go((current + 1) % n);
    wire_search();
    wire_width();
    wire_keys();
    todo();
    $("histogram").replaceChildren(...histogram());
    await open("overview");
    const asked = /^#row=(\d+)$/.exec(location.hash), at = asked ? await find_row(Number(asked[1])) : -1;
    await show(at >= 0 ? at : meta.start, false);
    document.documentElement.dataset.ready = "1";
  }
  start().catch(complain);
})();
