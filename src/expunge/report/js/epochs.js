// The run over its epochs: one measure at a time, and the epoch that was chosen.

if (byId("epoch-chart")) {
  const NAMES = {
    ua: ["Accuracy on the forgotten data", "%"],
    val_alike: ["Accuracy on validation data alike", "%"],
    va: ["Accuracy on validation data", "%"],
    auc: ["AUC of the attack by the loss, against validation data", ""],
    objective: ["Loss that the method minimises", ""],
    constraint: ["Retaining loss", ""],
    keep: ["Share of the trained weights in the mixture", ""],
    seconds: ["Seconds so far", "s"],
    feasible: ["Share of feasible steps", ""],
    cosine: ["Cosine of the two gradients", ""],
    moved: ["Share of parameters moved", ""],
  };
  const HIDDEN = new Set(["epoch", "steps"]);
  const chosen = data.stopped.epoch;
  const metrics = new Map((data.metrics ?? []).map((m) => [m.name, m]));
  const names = [...new Set([...Object.keys(NAMES), ...data.epochs.flatMap(Object.keys)])].filter(
    (name) => !HIDDEN.has(name) && data.epochs.some((row) => isNumber(row[name])),
  );
  const about = (name) => NAMES[name] ?? [sentenceCase(name), ""];
  const before = Object.fromEntries(["ua", "va"].map((name) => [name, metrics.get(name)?.before?.value]));
  const select = byId("epoch-metric");
  select.append(...names.map((name) => make("option", { value: name, text: about(name)[0] })));

  /** The epochs, after the model from before where a measure is known of that. */
  const rowsOf = (name) =>
    isNumber(before[name]) ? [{ epoch: 0, ...before }, ...data.epochs] : data.epochs;

  const build = (c) => {
    const name = select.value;
    const [label, unit] = about(name);
    const rows = rowsOf(name);
    const values = rows.map((row) => row[name]);
    const last = rows.findIndex((row) => row.epoch === chosen);
    const [min, max] = axisRange([...values, name === "auc" ? 0.5 : null], 0.1);
    const marks = [];
    if (last >= 0) marks.push(lineAt("xAxis", last, c.ink, "chosen", "end"));
    if (name === "auc") marks.push(lineAt("yAxis", 0.5, c.target, "guessing", "insideStartTop"));
    return {
      grid: {
        left: 60,
        right: 28,
        top: 34,
        bottom: rows.length > 2 ? 76 : 48,
        outerBoundsMode: "none",
      },
      dataZoom: rows.length > 2 ? zoom(c) : undefined,
      tooltip: {
        trigger: "axis",
        formatter: (found) => {
          const row = rows[found[0].dataIndex];
          return tip(row.epoch ? `Epoch ${row.epoch}` : "Before", [[label, number(row[name], unit)]]);
        },
      },
      xAxis: {
        type: "category",
        name: "Epoch",
        data: rows.map((row) => String(row.epoch)),
        boundaryGap: rows.length < 2,
        nameGap: 26,
      },
      yAxis: {
        type: "value",
        min,
        max,
        axisLabel: {
          showMinLabel: false,
          showMaxLabel: false,
          formatter: (v) => number(v, unit, unit === "%" ? 0 : undefined),
        },
      },
      series: [
        {
          type: "line",
          symbol: "circle",
          lineStyle: { color: c.after, width: 2.5 },
          itemStyle: { color: c.after },
          showAllSymbol: rows.length < 60,
          data: values.map((value, k) => ({ value, symbolSize: k === last ? 13 : 8 })),
          markLine: markLines(marks),
        },
      ],
    };
  };
  const table = () => [
    ["Epoch", about(select.value)[0]],
    ...rowsOf(select.value).map((row) => [
      row.epoch ? String(row.epoch) : "before",
      number(row[select.value], about(select.value)[1]),
    ]),
  ];
  const walk = () => rowsOf(select.value).length;
  const picture = draw("epoch-chart", build, { table, walk });
  select.addEventListener("change", picture.update);
}
