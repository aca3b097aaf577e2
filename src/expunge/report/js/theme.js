// Light and dark, and the colours of either for the charts; paper is always light.

const root = document.documentElement;
const HUES = [
  "paper",
  "card",
  "ink",
  "quiet",
  "line",
  "soft",
  "before",
  "after",
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
const SERIES = HUES.slice(-8);
const redraws = [];
let palette = null;

/** The colours of the page as it is now, by name. */
function colours() {
  if (palette) return palette;
  const probe = document.body.appendChild(make("span", { hidden: true }));
  palette = {};
  for (const name of HUES) {
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

function remember(theme) {
  try {
    localStorage.setItem("expunge-theme", theme);
  } catch {
    /* files may have no storage */
  }
}

try {
  const kept = localStorage.getItem("expunge-theme");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
} catch {
  /* the same */
}
byId("theme").setAttribute("aria-pressed", String(isDark()));
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remember(root.dataset.theme);
  showTheme();
});
prefersDark.addEventListener("change", showTheme);

let kept = null;
/** Functions that are told whether the page goes to paper (true) or back to the screen (false). */
const papers = [];

function toPaper() {
  if (kept) return;
  const folded = [...document.querySelectorAll("details.part:not([open])")];
  kept = { theme: root.dataset.theme, folded };
  for (const part of folded) part.open = true;
  root.dataset.theme = "light";
  root.classList.add("printing");
  for (const tell of papers) tell(true);
  repaint();
}

function toScreen() {
  if (!kept) return;
  if (kept.theme) root.dataset.theme = kept.theme;
  else delete root.dataset.theme;
  for (const part of kept.folded) part.open = false;
  kept = null;
  root.classList.remove("printing");
  for (const tell of papers) tell(false);
  repaint();
}

addEventListener("beforeprint", toPaper);
addEventListener("afterprint", toScreen);
matchMedia("print").addEventListener("change", (event) => (event.matches ? toPaper() : toScreen()));
byId("print").addEventListener("click", () => print());
