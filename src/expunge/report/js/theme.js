// The light and dark themes, and their colours for the charts; print is always light.

const root = document.documentElement;
const COLOUR_NAMES = [
  "paper",
  "card",
  "ink",
  "quiet",
  "line",
  "soft",
  "before",
  "after",
  "later",
  "target",
  "forget",
  "val",
  "retain",
  "bad",
  "one",
  "two",
  "three",
  "four",
  "five",
  "six",
  "seven",
  "eight",
];
const SERIES = COLOUR_NAMES.slice(-8);
const redraws = [];
let palette = null;

/** The page's current colours, by name. */
function colours() {
  if (palette) return palette;
  const probe = document.body.appendChild(make("span", { hidden: true }));
  palette = {};
  for (const name of COLOUR_NAMES) {
    probe.style.color = `var(--${name})`;
    palette[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return palette;
}

function repaint() {
  palette = null;
  for (const redraw of redraws) redraw();
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

function showTheme() {
  byId("theme").setAttribute("aria-pressed", String(isDark()));
  repaint();
}

function storeTheme(theme) {
  try {
    localStorage.setItem("expunge-theme", theme);
  } catch {
    /* local files may have no storage */
  }
}

try {
  const stored = localStorage.getItem("expunge-theme");
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
} catch {
  /* see above */
}
byId("theme").setAttribute("aria-pressed", String(isDark()));
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  storeTheme(root.dataset.theme);
  showTheme();
});
prefersDark.addEventListener("change", showTheme);

let screenState = null;
/** Functions called with true before printing and with false afterwards. */
const printListeners = [];

function preparePrint() {
  if (screenState) return;
  const closed = [...document.querySelectorAll("details.part:not([open])")];
  screenState = { theme: root.dataset.theme, closed };
  for (const part of closed) part.open = true;
  root.dataset.theme = "light";
  root.classList.add("printing");
  for (const notify of printListeners) notify(true);
  repaint();
}

function restoreScreen() {
  if (!screenState) return;
  if (screenState.theme) root.dataset.theme = screenState.theme;
  else delete root.dataset.theme;
  for (const part of screenState.closed) part.open = false;
  screenState = null;
  root.classList.remove("printing");
  for (const notify of printListeners) notify(false);
  repaint();
}

addEventListener("beforeprint", preparePrint);
addEventListener("afterprint", restoreScreen);
matchMedia("print").addEventListener("change", (event) => (event.matches ? preparePrint() : restoreScreen()));
byId("print").addEventListener("click", () => print());
