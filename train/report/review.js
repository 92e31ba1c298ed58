/* review.js - decisions of a curator on the page of `glofnd discover --html`, and the files that they make. The browser keeps them
 * under a key of the result. Three maps by row: a value of 0 or more accepts the proposal, -1 rejects it.
 *   duplicates  removal of a duplicate (also of a leak). Without a decision the row is removed
 *   outliers    removal of an outlier: 1, or 2 if the row is also a duplicate. Without a decision the row stays
 *   labels      another label: its number. Without a decision the label stays */
"use strict";
const gf_review = (meta) => {
  const key = "glofnd-review-" + meta.key, names = ["duplicates", "outliers", "labels"], REJECTED = -1;
  let maps = {}, past = [], kept_by_browser = true;

  const clear = () => { for (const name of names) maps[name] = new Map(); };
  function restore() {
    clear();
    try {
      const stored = JSON.parse(localStorage.getItem(key) || "{}");
      for (const name of names)
        for (const [row, value] of stored[name] || [])
          if (Number.isInteger(row) && Number.isInteger(value) && value >= REJECTED) maps[name].set(row, value);
    } catch { kept_by_browser = false; }
  }
  function save() {
    try {
      localStorage.setItem(key, JSON.stringify(Object.fromEntries(names.map((name) => [name, [...maps[name]]]))));
    } catch { kept_by_browser = false; }
  }
  restore();

  const get = (name, row) => maps[name].get(row);
  const put = (name, row, value) => (value === undefined ? maps[name].delete(row) : maps[name].set(row, value));

  /* Decisions for some rows, as one step: [[row, value] ...]; undefined takes a decision back. */
  function decide(name, values) {
    past.push(values.map(([row]) => [name, row, get(name, row)]));
    for (const [row, value] of values) put(name, row, value);
    save();
  }
  function forget() {
    past.push(names.flatMap((name) => [...maps[name]].map(([row, value]) => [name, row, value])));
    clear();
    save();
  }
  /* Takes the last step back. Returns the rows that it concerned, or null. */
  function undo() {
    const step = past.pop();
    if (!step) return null;
    for (const [name, row, value] of step) put(name, row, value);
    save();
    return step.map(([, row]) => row);
  }

  const accepted = (name) => [...maps[name].values()].filter((v) => v !== REJECTED).length;
  const rejected = (name) => [...maps[name].values()].filter((v) => v === REJECTED).length;
  const is_outlier = (row) => (get("outliers", row) ?? REJECTED) !== REJECTED;

  /* Is a row kept, if the search proposes so or not? */
  const stays = (row, proposed) => (proposed || get("duplicates", row) === REJECTED) && !is_outlier(row);
  function rows_kept() {
    let count = meta.keep;
    for (const [row, value] of maps.duplicates) count += value === REJECTED && !is_outlier(row);
    for (const value of maps.outliers.values()) count -= value === 1;
    return count;
  }

  /* ----- files: each(use) calls use(row, label, proposed to stay) for every row that was compared, in order ----- */

  const lines = (list) => (list.length ? list.join("\n") + "\n" : "");

  /* Kept rows as keep.txt has them; of a split as keep_1.txt ... have them: counted from its first row. */
  async function keep_text(each, split) {
    const [first, end] = split ? [split[1], split[1] + split[2]] : [0, Infinity], out = [];
    await each((row, label, proposed) => {
      if (row >= first && row < end && stays(row, proposed)) out.push(row - first);
    });
    return lines(out);
  }

  /* A table of all rows, also of those that were not compared: row, label (empty: unknown), and the class if there are names. */
  async function labels_text(each) {
    const total = meta.keep + meta.duplicates + meta.bad, named = meta.classes.some((name) => name !== "");
    const out = [named ? "row,label,class" : "row,label"], quoted = (text) => '"' + text.replaceAll('"', '""') + '"';
    const line = (row, label) => row + "," + (label < 0 ? "" : label) + (named ? "," + quoted(meta.classes[label] || "") : "");
    let next = 0;
    await each((row, label) => {
      for (; next < row; next++) out.push(line(next, -1));
      const fixed = get("labels", row) ?? REJECTED;
      out.push(line(next++, fixed === REJECTED ? label : fixed));
    });
    for (; next < total; next++) out.push(line(next, -1));
    return lines(out);
  }

  function save_file(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  return { REJECTED, get, decide, forget, undo, accepted, rejected, rows_kept, stays, keep_text, labels_text, save_file,
    lasting: () => kept_by_browser, steps: () => past.length };
};

