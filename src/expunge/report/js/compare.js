// Rows compared at an epoch, and over the epochs.

if (byId("compare-table")) {
  const MAX_ROWS = 40;
  const metricBox = byId("metric"),
    epochBox = byId("epoch");
  const names = Object.keys(data.metrics);
  metricBox.append(
    ...names.map((name) => make("option", { value: name, text: data.metrics[name].label })),
  );
  if (names.includes("abs_rua")) metricBox.value = "rua";
  const epochs = [
    ...new Set(
      data.results.flatMap((r) => r.epochs.filter((row) => row.scored).map((row) => row.epoch)),
    ),
  ].sort((a, b) => a - b);
  epochBox.append(
    make("option", { value: "last", text: "last" }),
    ...epochs.map((e) => make("option", { value: e, text: String(e) })),
  );

  const fields = new Set(data.rows_by);
  byId("fields").append(
    ...data.fields.map((field) =>
      make(
        "label",
        {},
        make("input", {
          type: "checkbox",
          value: field,
          checked: fields.has(field),
          onchange: (event) => {
            if (event.target.checked) fields.add(field);
            else fields.delete(field);
            ticked = null;
            regroup();
          },
        }),
        field.replace("_", " "),
      ),
    ),
  );

  let rows = [],
    shown = [],
    ticked = null,
    table = null;
  const metric = () => data.metrics[metricBox.value];
  const epoch = () => (epochBox.value === "last" ? "last" : Number(epochBox.value));
  const text = (value) => number(value, metric().unit, metric().decimals);
  const spread = (row) =>
    row.n === 0 ? "–" : row.std === null ? text(row.mean) : `${text(row.mean)} ± ${text(row.std)}`;
  const ideal = () =>
    metric().reference
      ? summary(
          data.results
            .filter((r) => r.settings.model === "ideal")
            .map((r) => valueAt(r, metricBox.value, "last")),
        ).mean
      : null;

  /** The rows drawn at first: one method with its add-ons, if a method has several rows. */
  function family(candidates) {
    const method = (row) => row.runs[0].settings.method;
    const first = candidates.find(
      (row) => candidates.filter((other) => method(other) === method(row)).length > 2,
    );
    return candidates.filter((row) => !first || method(row) === method(first)).slice(0, 5);
  }

  function regroup() {
    const chosen = data.fields.filter((field) => fields.has(field));
    rows = grouped(data.results, chosen);
    ticked ??= new Set(family(rows.filter((row) => !row.reference)).map((row) => row.key));
    table = pagedTable({
      table: byId("compare-table"),
      pager: byId("compare-pager"),
      size: 100,
      text: (row) => row.name + "\n" + row.values.join("\n"),
      columns: [
        { name: "Curve", show: (row) => tick(row) },
        ...chosen.map((field, k) => ({
          name: field === "lr" ? "Learning rate" : sentenceCase(field),
          first: k === 0,
          num: rows.some((row) => typeof row.values[k] === "number"),
          value: (row) => row.values[k],
          show: (row) => formatField(row.values[k]),
        })),
        ...(chosen.length ? [] : [{ name: "Row", first: true, show: () => "all runs" }]),
        { name: "n", num: true, value: (row) => row.n, show: (row) => String(row.n) },
        {
          name: "Mean ± std",
          num: true,
          value: (row) => row.mean,
          show: (row) =>
            make("span", {
              className: "value",
              text: spread(row),
              "data-mean": row.mean,
              "data-std": row.std,
            }),
        },
        { name: "Min", num: true, value: (row) => row.least, show: (row) => text(row.least) },
        { name: "Max", num: true, value: (row) => row.most, show: (row) => text(row.most) },
        {
          name: "Note",
          show: (row) =>
            [
              row.mixed.length ? `mixes ${row.mixed.join(", ").replaceAll("_", " ")}` : "",
              row.diverged ? `${row.diverged} diverged` : "",
            ]
              .filter(Boolean)
              .join("; "),
        },
      ],
    });
    measure();
  }

  function tick(row) {
    return make("input", {
      type: "checkbox",
      checked: ticked.has(row.key),
      "aria-label": `Draw the curve of ${row.name}`,
      onchange: (event) => {
        if (event.target.checked) ticked.add(row.key);
        else ticked.delete(row.key);
        curves.update();
      },
    });
  }

  function measure() {
    for (const row of rows)
      Object.assign(
        row,
        { least: null, most: null },
        summary(row.runs.map((run) => valueAt(run, metricBox.value, epoch()))),
      );
    byId("metric-words").textContent = metric().about
      ? `${metric().label}: ${metric().about}.`
      : metric().label;
    table.show(rows);
    search();
    curves.update();
  }

  function search() {
    table.search(byId("row-search").value);
    const all = table.rows().filter((row) => row.n);
    shown = all.slice(0, MAX_ROWS);
    byId("compare-note").textContent =
      all.length > MAX_ROWS ? `The chart shows the first ${MAX_ROWS} of ${all.length} rows.` : "";
    byId("compare-chart").style.height = `${Math.max(2, shown.length) * (isNarrow() ? 40 : 24) + 60}px`;
    bars.chart.resize();
    bars.update();
  }

  /** On a phone, names stand above their bars. */
  const isNarrow = () => byId("compare-chart").clientWidth < 560;
  const bars = draw(
    "compare-chart",
    (c) => {
      const names = distinctNames(shown);
      const longest = Math.max(0, ...names.map((name) => textWidth(name, 12)));
      const wide = byId("compare-chart").clientWidth;
      const left = isNarrow() ? 8 : Math.min(longest + 20, wide * 0.42);
      const above = { inside: true, align: "left", verticalAlign: "bottom", padding: [0, 0, 9, 0], margin: 0 };
      const reference = ideal();
      const [min, max] = axisRange([...shown.flatMap((row) => [row.low, row.high]), reference], 0.06);
      const items = shown.map((row, at) => ({
        value: row.mean,
        low: row.low,
        high: row.high,
        at,
        row,
      }));
      return {
        grid: { left, right: 28, top: 26, bottom: 42, outerBoundsMode: "none" },
        tooltip: {
          trigger: "item",
          formatter: (p) =>
            tip(p.data.item.row.name, [
              [metric().label, spread(p.data.item.row)],
              ["n", String(p.data.item.row.n)],
            ]),
        },
        xAxis: {
          type: "value",
          min,
          max,
          name: `${metric().label}${metric().unit ? `, ${metric().unit}` : ""}`,
          nameGap: 26,
          axisLabel: {
            showMinLabel: false,
            showMaxLabel: false,
            formatter: (v) => String(v).replace("-", "−"),
          },
        },
        yAxis: {
          type: "value",
          min: -0.6,
          max: Math.max(1, shown.length) - 0.4,
          z: 5,
          inverse: true,
          splitLine: { show: false },
          axisLine: { show: false, onZero: false },
          axisLabel: {
            customValues: shown.map((_, k) => k),
            formatter: (v) => fitEnd(names[v] ?? "", isNarrow() ? wide - 44 : left - 12),
            ...(isNarrow() ? above : {}),
            hideOverlap: false,
            color: c.ink,
          },
        },
        series: [
          dots(items, c.after, {
            markLine:
              reference === null
                ? undefined
                : markLines([lineAt("xAxis", reference, c.target, "ideal", "start")]),
          }),
          whiskers(
            items.filter((item) => item.row.std !== null),
            c.after,
          ),
        ],
      };
    },
    { walk: () => shown.length },
  );

  const curves = drawCurves({
    epochs,
    rows: () => rows.filter((row) => ticked?.has(row.key)),
    metric: () => metricBox.value,
    spread,
    ideal,
  });

  metricBox.addEventListener("change", measure);
  epochBox.addEventListener("change", measure);
  byId("row-search").addEventListener("input", search);
  regroup();
}
