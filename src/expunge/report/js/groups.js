// Runs grouped into rows: those of a row agree in the chosen settings and differ in their seed.

const fieldValue = (result, field) => (field === "label" ? result.label : result.settings[field]);
const formatField = (value) =>
  value === null || value === undefined || value === "" ? "–" : String(value);

/** A metric of a run at an epoch; "last" is the last one that was scored. */
function valueAt(result, metric, epoch) {
  const row =
    epoch === "last"
      ? result.epochs.findLast((r) => r.scored)
      : result.epochs.find((r) => r.epoch === epoch);
  return isNumber(row?.[metric]) ? row[metric] : null;
}

/** n, mean, and the standard deviation of a sample (divided by n − 1; null for one). */
function summary(values) {
  const found = values.filter(isNumber);
  const n = found.length;
  if (!n) return { n, mean: null, std: null, low: null, high: null };
  const mean = found.reduce((sum, v) => sum + v, 0) / n;
  const std =
    n > 1 ? Math.sqrt(found.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (n - 1)) : null;
  const [least, most] = extent(found);
  return { n, mean, std, least, most, low: mean - (std ?? 0), high: mean + (std ?? 0) };
}

/**
 * A name in about so many letters. What tells SRL-AND from SRL-FOCUS is its end, and of a name in
 * several parts, between dots, the end of each.
 */
function keepEnd(name, letters) {
  if (name.length <= letters) return name;
  const parts = name.split(" · ");
  const room = parts.map((part) => part.length);
  const needed = () => room.reduce((sum, each) => sum + each, 3 * (parts.length - 1));
  while (needed() > letters && Math.max(...room) > 3) room[room.indexOf(Math.max(...room))] -= 1;
  return parts
    .map((part, k) => (part.length <= room[k] ? part : `…${part.slice(part.length - room[k] + 1)}`))
    .join(" · ");
}

const pen = document.createElement("canvas").getContext("2d");

/** The width of a text in pixels. */
function textWidth(text, size) {
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** As much of the end of a name as fits into so many pixels. */
function fitEnd(name, pixels, size = 12) {
  let letters = name.length;
  while (letters > 4 && textWidth(keepEnd(name, letters), size) > pixels) letters -= 1;
  return keepEnd(name, letters);
}

const OBVIOUS = /^(dataset|arch|scenario|method|addon|moments|aggregate|block) /;

/** The names of rows without what all of them share, and without words that their values imply. */
function distinctNames(rows) {
  const parts = rows.map((row) => row.name.split(" · ").map((part) => part.replace(OBVIOUS, "")));
  const common = new Set((parts[0] ?? []).filter((part) => parts.every((own) => own.includes(part))));
  return parts.map((own) => own.filter((part) => !common.has(part)).join(" · ") || own.join(" · "));
}

/** One row for each combination of the fields, in the order of the results. */
function grouped(results, fields) {
  const groups = new Map();
  for (const result of results) {
    const values = fields.map((field) => fieldValue(result, field));
    const key = JSON.stringify(values);
    if (!groups.has(key)) groups.set(key, { key, values, runs: [] });
    groups.get(key).runs.push(result);
  }
  for (const group of groups.values()) {
    const apart = fields
      .map((field, k) => [field, formatField(group.values[k])])
      .filter(([, value]) => value !== "–");
    group.name =
      apart
        .map(([field, value]) =>
          field === "label" || fields.length === 1 ? value : `${field.replace("_", " ")} ${value}`,
        )
        .join(" · ") || "–";
    group.mixed = data.fields.filter(
      (f) => !fields.includes(f) && new Set(group.runs.map((r) => fieldValue(r, f))).size > 1,
    );
    group.diverged = group.runs.filter((r) => r.diverged).length;
    group.reference = group.runs.every((r) => r.settings.model && r.settings.model !== "unlearned");
  }
  return [...groups.values()];
}
