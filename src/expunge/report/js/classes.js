// The accuracy lost per class; the chart shows the classes that changed most.

if (byId("class-table")) {
  const MAX_CLASSES = 30;
  const lost = (row) => (isNumber(row.before) && isNumber(row.after) ? row.before - row.after : null);
  const classes = data.classes;
  const checks = new Map((data.checks ?? []).map((check) => [check.name, check]));
  const checkOf = (row) => checks.get(`lost_${row.name}`);
  // Outside is what lost more than allowed even by the lower bound.
  const boundOf = (row) => checkOf(row)?.[checkOf(row).result === "outside" ? "low" : "high"];
  const resultOf = (row) => checkOf(row)?.result ?? "not counted";
  const STYLES = { inside: "good", outside: "bad", open: "open" };
  const drawn = classes.filter((row) => isNumber(row.before) || isNumber(row.after));
  if (drawn.length > MAX_CLASSES) {
    drawn.sort((a, b) => Math.abs(lost(b) ?? 0) - Math.abs(lost(a) ?? 0)).splice(MAX_CLASSES);
    byId("class-note").textContent =
      `The chart shows the ${MAX_CLASSES} of ${classes.length} classes that changed most; the table shows all.`;
  }
  const items = (side) => drawn.map((row, at) => ({ value: row[side], at, row }));
  const range = axisRange(
    drawn.flatMap((row) => [row.before, row.after]),
    0.06,
  );
  draw("class-chart", (c) => ({
    ...rowFrame("class-chart", drawn.map((row) => row.name), range, "accuracy on test records, %"),
    tooltip: {
      trigger: "item",
      formatter: (p) => {
        const r = p.data.item.row;
        return tip(r.name, [
          ["before", `${number(r.before, "%")} %`],
          [JUDGED, `${number(r.after, "%")} %`],
          ["test records", number(r.test)],
          ["forgotten", number(r.forgotten)],
        ]);
      },
    },
    series: [
      whiskers(
        drawn.map((row, at) => ({ low: row.before, high: row.after, at })),
        c.line,
        { symbol: "none" },
      ),
      dots(items("before"), c.before, { name: "before", symbol: "diamond" }),
      dots(items("after"), c.after, { name: JUDGED }),
    ],
  }));
  byId("class-table").after(make("div", { className: "pager", id: "class-pager" }));
  pagedTable({
    table: byId("class-table"),
    pager: byId("class-pager"),
    one: "row",
    size: 1000,
    text: (row) => row.name,
    columns: [
      { name: "Class", first: true, value: (row) => row.name, show: (row) => row.name },
      {
        name: "Forgotten",
        num: true,
        value: (row) => row.forgotten,
        show: (row) => number(row.forgotten),
      },
      { name: "Test", num: true, value: (row) => row.test, show: (row) => number(row.test) },
      {
        name: "Before, %",
        num: true,
        value: (row) => row.before,
        show: (row) => number(row.before, "%"),
      },
      {
        name: `${sentenceCase(JUDGED)}, %`,
        num: true,
        value: (row) => row.after,
        show: (row) => number(row.after, "%"),
      },
      {
        name: "Lost, points",
        num: true,
        value: lost,
        show: (row) => number(lost(row), "points"),
      },
      {
        name: "Its bound",
        num: true,
        value: boundOf,
        show: (row) => number(boundOf(row), "points"),
      },
      {
        name: "Limit",
        num: true,
        value: (row) => checkOf(row)?.margin,
        show: (row) => number(checkOf(row)?.margin, "points"),
      },
      {
        name: "Result",
        value: resultOf,
        show: (row) =>
          make("span", { className: `chip ${STYLES[resultOf(row)] ?? ""}`, text: resultOf(row) }),
      },
    ],
  }).show(classes);
  byId("class-pager").hidden = true;
}
