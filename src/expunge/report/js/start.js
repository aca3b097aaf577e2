// What all parts share: the data, making elements, writing numbers.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const known = (value) => typeof value === "number" && Number.isFinite(value);

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

const DECIMALS = { "%": 1, points: 1, s: 1 };

/** A number with the decimals of its unit, as words.py writes it. */
function number(value, unit = "", decimals = undefined) {
  if (!known(value)) return typeof value === "string" && value ? value : "–";
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

/** A value with its interval, as far as there is one. */
function interval(estimate, unit) {
  if (!estimate || !known(estimate.value)) return "–";
  const range = known(estimate.low)
    ? ` (${number(estimate.low, unit)} to ${number(estimate.high, unit)})`
    : "";
  return number(estimate.value, unit) + range;
}

const percent = (share) => (known(share) ? `${(100 * share).toFixed(1)} %` : "–");
const many = (count, one) => `${count.toLocaleString("en-US")} ${one}${count === 1 ? "" : "s"}`;
const say = (text) => {
  byId("said").textContent = text;
};
const words = (name) => {
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
