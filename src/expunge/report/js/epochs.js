// The run over its epochs: one measure at a time, its target, where it stopped, what was undone.

if (byId("epoch-chart")) {
  const NAMES = {
    ua: ["Accuracy on the forgotten data", "%"],
    va: ["Accuracy on held-out data", "%"],
    ta: ["Accuracy on test data", "%"],
    gap: ["Accuracy on them, minus the target", "points"],
    distance: ["How far from unseen data (1: what chance explains)", ""],
    utility: ["Accuracy on held-out data of the classes kept", "%"],
    mean_confidence: ["Mean confidence on the forgotten data", ""],
    mean_entropy: ["Mean entropy on the forgotten data", ""],
    confidence_ks: ["Confidence: distance from unseen data (KS)", ""],
    entropy_ks: ["Entropy: distance from unseen data (KS)", ""],
    lr: ["Learning rate", ""],
    alpha: ["Strength of forgetting α", ""],
    seconds: ["Seconds so far", "s"],
    objective: ["Loss that forgets", ""],
    constraint: ["Loss that keeps", ""],
    feasible: ["Share of feasible steps", ""],
    cosine: ["Cosine of the two gradients", ""],
    agreement: ["Agreement", ""],
    moved: ["Share of parameters moved", ""],
  };
  const HIDDEN = new Set(["epoch", "target_low", "target_high", "steps", "best_epoch"]);
  const ACTIONS = {
    "go on": "went on as before",
    faster: "went on faster",
    mend: "slowed down, to win back accuracy",
    "rolled back": "rolled back, to go on more slowly",
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
        all.indexOf(name) === k && !HIDDEN.has(name) && data.epochs.some((row) => known(row[name])),
    );
  const about = (name) => {
    if (name.startsWith("auc_"))
      return [`Attack by ${name.slice(4).replaceAll("_", " ")} (AUC)`, ""];
    const own = metrics.get(name);
    return own ? [own.label, own.unit ?? ""] : (NAMES[name] ?? [words(name), ""]);
  };
  const select = byId("epoch-metric");
  select.append(...names.map((name) => make("option", { value: name, text: about(name)[0] })));

  /** Low and high of what is aimed at, or null. */
  const aim = (name) => {
    if (!known(target.low)) return null;
    if (name === "ua") return [target.low, target.high];
    return name === "gap" ? [target.low - target.value, target.high - target.value] : null;
  };
  const floorOf = (name) => {
    const start = metrics.get("va")?.before?.value;
    return name === "va" && known(start) && known(data.config?.floor)
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
    const band = aim(name),
      floor = floorOf(name);
    const values = rows.map((row) => row[name]);
    const [min, max] = room(
      [...values, ...(band ?? []), floor, name.startsWith("auc_") ? 0.5 : null],
      0.1,
    );
    const marks = [];
    if (last >= 0) marks.push(across("xAxis", last, c.ink, stopped.epoch ? "stopped" : "kept", "end"));
    if (floor !== null)
      marks.push(across("yAxis", floor, c.bad, "lowest accepted", "insideStartTop"));
    if (name.startsWith("auc_"))
      marks.push(across("yAxis", 0.5, c.target, "guessing", "insideStartTop"));
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
          markArea: band ? stretch("yAxis", band[0], band[1], c.target, "target") : undefined,
          markLine: lines(marks),
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
