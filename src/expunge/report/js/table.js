// A table with search, sorting and pages, so that ten thousand rows cost no more than fifty.
// In print all rows are shown, or a thousand of them.

const MAX_PRINTED = 1000;

/**
 * columns: [{ name, value(row) for sorting, show(row) for the cell, num, first }]; `text(row)` is
 * the text to search. Returns { show(rows), search(text), rows() }.
 */
function pagedTable({ table, pager, columns, text, size = 50, one = "row", sort = null }) {
  const body = make("tbody");
  const state = { all: [], found: [], page: 0, query: "", by: sort, texts: [], paper: false };
  const heads = columns.map((column, k) =>
    header(column, () => {
      const down = state.by?.column === k ? !state.by.down : Boolean(column.num);
      state.by = { column: k, down };
      apply();
      announce(`Sorted by ${column.name}, ${down ? "highest" : "lowest"} first`);
    }),
  );
  table.replaceChildren(make("thead", {}, make("tr", {}, ...heads)), body);
  const turn = pageControls(pager, (page) => {
    state.page = page;
    paint();
  });

  function apply() {
    const query = state.query.trim().toLowerCase();
    const places = state.all
      .map((_, k) => k)
      .filter((k) => !query || state.texts[k].includes(query));
    if (state.by) order(places, columns[state.by.column], state.by.down, state.all);
    state.found = places.map((k) => state.all[k]);
    state.page = 0;
    heads.forEach((head, k) => {
      if (state.by?.column === k)
        head.setAttribute("aria-sort", state.by.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    paint();
  }

  printListeners.push((paper) => {
    state.paper = paper;
    paint();
  });

  function paint() {
    const pages = Math.max(1, Math.ceil(state.found.length / size));
    state.page = Math.min(Math.max(0, state.page), pages - 1);
    const start = state.paper ? 0 : state.page * size;
    const shown = state.found.slice(start, start + (state.paper ? MAX_PRINTED : size));
    body.replaceChildren(
      ...shown.map((row) => make("tr", {}, ...columns.map((column) => cell(column, row)))),
    );
    if (!shown.length)
      body.append(
        make(
          "tr",
          {},
          make("td", { colSpan: columns.length, className: "quiet", text: "No rows match." }),
        ),
      );
    let status = shown.length
      ? `${start + 1} to ${start + shown.length} of ${plural(state.found.length, one)}`
      : `0 of ${plural(state.all.length, one)}`;
    const left = state.all.length - shown.length;
    if (state.paper && left)
      status += `; ${left.toLocaleString("en-US")} are not printed`;
    turn(state.page, pages, status);
  }

  return {
    show(rows) {
      state.all = rows;
      state.texts = rows.map((row) => text(row).toLowerCase());
      apply();
    },
    search(query) {
      state.query = query;
      apply();
    },
    rows: () => state.found,
  };
}

function header(column, click) {
  const head = make("th", { scope: "col", className: column.num ? "num" : "" });
  head.append(
    column.value
      ? make("button", { type: "button", className: "sort", text: column.name, onclick: click })
      : column.name,
  );
  return head;
}

function cell(column, row) {
  const shown = column.show(row);
  const element = make(column.first ? "th" : "td", {
    className: column.num ? "num" : "",
    scope: column.first ? "row" : null,
    "data-name": column.name,
  });
  element.append(...(Array.isArray(shown) ? shown : [shown]));
  return element;
}

/** Sort indices into `all`; missing values come last either way, equal ones keep their order. */
function order(places, column, down, all) {
  const values = new Map(places.map((k) => [k, column.value(all[k])]));
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  places.sort((a, b) => {
    const [x, y] = [values.get(a), values.get(b)];
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
    const side =
      typeof x === "number" && typeof y === "number" ? x - y : compare(String(x), String(y));
    return (down ? -side : side) || a - b;
  });
}

function pageControls(place, go) {
  const now = { page: 0, pages: 1 };
  const status = make("span", { role: "status" });
  const moves = [
    ["First", () => 0],
    ["Previous", () => now.page - 1],
    ["Next", () => now.page + 1],
    ["Last", () => now.pages - 1],
  ];
  const buttons = moves.map(([text, page]) =>
    make("button", {
      type: "button",
      text,
      onclick: (event) => {
        if (event.currentTarget.getAttribute("aria-disabled") !== "true") go(page());
      },
    }),
  );
  place.replaceChildren(buttons[0], buttons[1], status, buttons[2], buttons[3]);
  return (page, pages, text) => {
    Object.assign(now, { page, pages });
    status.textContent = text;
    buttons.forEach((button, k) => {
      button.setAttribute("aria-disabled", String(k < 2 ? page === 0 : page === pages - 1));
      button.hidden = pages === 1;
    });
  };
}
