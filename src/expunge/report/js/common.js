// Shared by all scripts: the data, creating elements, formatting numbers.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** An element with properties and children. Text goes in as text: nothing is parsed as HTML. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const DECIMALS = { "%": 1, points: 1, s: 1, AUC: 2 };

/** Format a number with the decimals of its unit, as _formatting.py does. */
function number(value, unit = "", decimals = undefined) {
  if (!isNumber(value)) return typeof value === "string" && value ? value : "–";
  if (Number.isInteger(value) && decimals === undefined && !(unit in DECIMALS)) {
    return value.toLocaleString("en-US").replace("-", "−");
  }
  const places = decimals ?? DECIMALS[unit] ?? 3;
  const tiny = value !== 0 && Math.abs(value) < 0.001 && !(unit in DECIMALS);
  const text = tiny
    ? String(Number(value.toPrecision(3)))
    : value.toLocaleString("en-US", {
        minimumFractionDigits: places,
        maximumFractionDigits: places,
      });
  return text.replace("-", "−");
}

/** Format a value with its interval, if it has one. */
function interval(estimate, unit) {
  if (!estimate || !isNumber(estimate.value)) return "–";
  const range = isNumber(estimate.low)
    ? ` (${number(estimate.low, unit)} to ${number(estimate.high, unit)})`
    : "";
  return number(estimate.value, unit) + range;
}

const percent = (share) => (isNumber(share) ? `${(100 * share).toFixed(1)} %` : "–");
const plural = (count, one) => `${count.toLocaleString("en-US")} ${one}${count === 1 ? "" : "s"}`;
const announce = (text) => {
  byId("announcement").textContent = text;
};
const sentenceCase = (name) => {
  const text = name.replaceAll("_", " ");
  return text[0].toUpperCase() + text.slice(1);
};

/** Smallest and largest of many numbers; Math.min(...) has a limit on how many. */
function extent(values) {
  let low = Infinity,
    high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
