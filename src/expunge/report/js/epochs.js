// The run over its epochs: one measure at a time, its target, the stop, and rollbacks.

if (byId("epoch-chart")) {
  const NAMES = {
    ua: ["Accuracy on the forgotten data", "%"],
    va: ["Accuracy on validation data", "%"],
    ta: ["Accuracy on test data", "%"],
    gap: ["Accuracy on the forgotten data minus the target", "points"],
    distance: ["Distance from unseen data (up to 1: explained by chance)", ""],
    utility: ["Accuracy on validation data of the kept classes", "%"],
    mean_confidence: ["Mean confidence on the forgotten data", ""],
    mean_entropy: ["Mean entropy on the forgotten data", ""],
    confidence_ks: ["Confidence: distance from unseen data (KS)", ""],
    entropy_ks: ["Entropy: distance from unseen data (KS)", ""],
    lr: ["Learning rate", ""],
    alpha: ["Strength of forgetting α", ""],
    seconds: ["Seconds so far", "s"],
    objective: ["Forgetting loss", ""],
    constraint: ["Retaining loss", ""],
    feasible: ["Share of feasible steps", ""],
    cosine: ["Cosine of the two gradients", ""],
    agreement: ["Agreement", ""],
    moved: ["Share of parameters moved", ""],
  };
  const HIDDEN = new Set(["epoch", "target_low", "target_high", "steps", "best_epoch"]);
  const ACTIONS = {
    "go on": "continued",
    faster: "sped up",
    mend: "slowed down to recover accuracy",
    "rolled back": "rolled back, then continued more slowly",
    stop: "stopped",
  };
  const action = (row) => ACTIONS[row.action] ?? row.action ?? "";
  const target = data.target ?? {};
  const stopped = data.stopped ?? {};
  const metrics = new Map((data.metrics ?? []).map((m) => [m.name, m]));
  const rows = data.epochs.some((row) => row.epoch === 0)
    ? data.epochs
    : [
        {
          epoch: 0,
          action: "before",
          ...Object.fromEntries([...metrics].map(([name, m]) => [name, m.before?.value])),
        },
        ...data.epochs,
      ];
  const names = Object.keys(NAMES)
    .concat(Object.keys(Object.assign({}, ...data.epochs)))
    .filter(
      (name, k, all) =>
        all.indexOf(name) === k && !HIDDEN.has(name) && data.epochs.some((row) => isNumber(row[name])),
    );
  const about = (name) => {
    if (name.startsWith("auc_"))
      return [`Attack by ${name.slice(4).replaceAll("_", " ")} (AUC)`, ""];
    const metric = metrics.get(name);
    return metric ? [metric.label, metric.unit ?? ""] : (NAMES[name] ?? [sentenceCase(name), ""]);
  };
  const select = byId("epoch-metric");
  select.append(...names.map((name) => make("option", { value: name, text: about(name)[0] })));

  /** Low and high of the target of a measure, or null. */
  const targetRange = (name) => {
    if (!isNumber(target.low)) return null;
    if (name === "ua") return [target.low, target.high];
    return name === "gap" ? [target.low - target.value, target.high - target.value] : null;
  };
  const floorOf = (name) => {
    const start = metrics.get("va")?.before?.value;
    return name === "va" && isNumber(start) && isNumber(data.config?.floor)
      ? start - data.config.floor
      : null;
  };
  const undone = (row) => row.action === "rolled back";
  let last = -1;
  rows.forEach((row, k) => {
    if (row.epoch === stopped.epoch && !undone(row)) last = k;
  });

  const build = (c) => {
    const name = select.value;
    const [label, unit] = about(name);
    const band = targetRange(name),
      floor = floorOf(name);
    const values = rows.map((row) => row[name]);
    const [min, max] = axisRange(
      [...values, ...(band ?? []), floor, name.startsWith("auc_") ? 0.5 : null],
      0.1,
    );
    const marks = [];
    if (last >= 0) marks.push(lineAt("xAxis", last, c.ink, stopped.epoch ? "stopped" : "kept", "end"));
    if (floor !== null)
      marks.push(lineAt("yAxis", floor, c.bad, "lowest accepted", "insideStartTop"));
    if (name.startsWith("auc_"))
      marks.push(lineAt("yAxis", 0.5, c.target, "guessing", "insideStartTop"));
    byId("epoch-band-key").hidden = !band;
    byId("epoch-undone-key").hidden = !rows.some(undone);
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
          return tip(row.action === "before" ? "Before" : `Epoch ${row.epoch}`, [
            [label, number(row[name], unit)],
            ...(band ? [["Target", `${number(band[0], unit)} to ${number(band[1], unit)}`]] : []),
            ...(row.action && row.action !== "before" ? [["Then", action(row)]] : []),
          ]);
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
          symbolSize: 8,
          symbol: "circle",
          lineStyle: { color: c.after, width: 2.5 },
          itemStyle: { color: c.after },
          showAllSymbol: rows.length < 60,
          data: values.map((value, k) =>
            undone(rows[k])
              ? {
                  value,
                  symbol: "diamond",
                  symbolSize: 15,
                  itemStyle: { color: c.paper, borderColor: c.bad, borderWidth: 2.5 },
                }
              : { value, symbolSize: k === last ? 13 : 8 },
          ),
          markArea: band ? shadedRange("yAxis", band[0], band[1], c.target, "target") : undefined,
          markLine: markLines(marks),
        },
      ],
    };
  };
  const table = () => [
    ["Epoch", about(select.value)[0], "Then the run"],
    ...rows.map((row) => [
      String(row.epoch),
      number(row[select.value], about(select.value)[1]),
      row.action === "before" ? "before" : action(row),
    ]),
  ];
  const picture = draw("epoch-chart", build, { table, walk: () => rows.length });
  select.addEventListener("change", picture.update);
}
