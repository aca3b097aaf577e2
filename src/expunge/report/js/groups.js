// Runs grouped into rows: those of a row agree in the chosen settings and differ in their seed.

const fieldValue = (record, field) => (field === "label" ? record.label : record.settings[field]);
const formatField = (value) =>
  value === null || value === undefined || value === "" ? "–" : String(value);

/** A metric of a run at an epoch; "last" is the last one that was scored. */
function valueAt(record, metric, epoch) {
  const row =
    epoch === "last"
      ? record.epochs.findLast((r) => r.scored)
      : record.epochs.find((r) => r.epoch === epoch);
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
  const each = Math.max(3, Math.floor((letters - 3 * (parts.length - 1)) / parts.length));
  return parts
    .map((part) => (part.length <= each ? part : `…${part.slice(part.length - each + 1)}`))
    .join(" · ");
}

/** The names of rows without the parts, between dots, that all of them share. */
function distinctNames(rows) {
  const parts = rows.map((row) => row.name.split(" · "));
  const common = new Set((parts[0] ?? []).filter((part) => parts.every((own) => own.includes(part))));
  return parts.map((own) => own.filter((part) => !common.has(part)).join(" · ") || own.join(" · "));
}

/** One row for each combination of the fields, in the order of the records. */
function grouped(records, fields) {
  const groups = new Map();
  for (const record of records) {
    const values = fields.map((field) => fieldValue(record, field));
    const key = JSON.stringify(values);
    if (!groups.has(key)) groups.set(key, { key, values, runs: [] });
    groups.get(key).runs.push(record);
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
