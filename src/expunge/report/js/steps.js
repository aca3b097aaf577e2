// Feasibility and other diagnostics over the steps.

if (byId("step-charts")) {
  const steps = data.steps;
  const count = Math.max(...Object.values(steps).map((values) => values?.length ?? 0));
  const epochOf = (k) => steps.epoch?.[k];

  /** Feasible steps and all steps of each epoch. */
  const byEpoch = new Map();
  (steps.feasible ?? []).forEach((value, k) => {
    if (!isNumber(Number(value)) || value === null) return;
    const [feasible, all] = byEpoch.get(epochOf(k) ?? 1) ?? [0, 0];
    byEpoch.set(epochOf(k) ?? 1, [feasible + Number(value), all + 1]);
  });
  const epochs = [...byEpoch.keys()];
  const shares = epochs.map((epoch) => (100 * byEpoch.get(epoch)[0]) / byEpoch.get(epoch)[1]);
  const done = [...byEpoch.values()].reduce(
    (sum, [good, all]) => [sum[0] + good, sum[1] + all],
    [0, 0],
  );
  byId("step-words").textContent = done[1]
    ? `${done[0].toLocaleString("en-US")} of ${plural(done[1], "step")} were feasible (${percent(done[0] / done[1])}).`
    : `${plural(count, "step")}; feasibility is not defined for this method.`;

  draw(
    "step-feasible",
    (c) => ({
      grid: { left: 52, right: 16, top: 12, bottom: 40, outerBoundsMode: "none" },
      tooltip: {
        trigger: "axis",
        formatter: ([p]) =>
          tip(`Epoch ${epochs[p.dataIndex]}`, [
            ["feasible", `${number(shares[p.dataIndex], "%")} %`],
            ["steps", number(byEpoch.get(epochs[p.dataIndex])[1])],
          ]),
      },
      xAxis: { type: "category", data: epochs.map(String), name: "Epoch", nameGap: 24 },
      yAxis: {
        type: "value",
        min: 0,
        max: 100,
        interval: 25,
        axisLabel: { formatter: "{value} %" },
      },
      series: [
        {
          type: "bar",
          data: shares,
          barMaxWidth: 28,
          itemStyle: { color: c.after, borderRadius: [3, 3, 0, 0] },
        },
      ],
    }),
    {
      table: () => [
        ["Epoch", "Feasible, %"],
        ...epochs.map((epoch, k) => [String(epoch), number(shares[k], "%")]),
      ],
      walk: () => epochs.length,
    },
  );

  const curve = (id, names) => {
    const present = Object.entries(names).filter(([name]) => steps[name]?.some(isNumber));
    draw(
      `step-${id}`,
      (c) => ({
        grid: { left: 60, right: 16, top: 12, bottom: 62, outerBoundsMode: "none" },
        dataZoom:
          count > 2
            ? zoom(c).map((z) => ({
                ...z,
                ...(z.type === "slider" ? { height: 12, bottom: 4 } : {}),
              }))
            : undefined,
        tooltip: {
          trigger: "axis",
          formatter: (found) => {
            const k = found[0].dataIndex;
            return tip(
              `Step ${k + 1}${epochOf(k) === undefined ? "" : `, epoch ${epochOf(k)}`}`,
              present.map(([name, label]) => [label, number(steps[name][k])]),
            );
          },
        },
        xAxis: {
          type: "category",
          data: Array.from({ length: count }, (_, k) => String(k + 1)),
          name: "Step",
          nameGap: 22,
        },
        yAxis: {
          type: "value",
          scale: true,
          splitNumber: 3,
          axisLabel: {
            formatter: (v) =>
              v === 0
                ? "0"
                : Math.abs(v) < 0.01
                  ? v.toExponential(0).replace("-", "−")
                  : String(Number(v.toPrecision(3))).replace("-", "−"),
          },
        },
        series: present.map(([name, label], k) => ({
          type: "line",
          name: label,
          data: steps[name].map((v) => (isNumber(v) ? v : null)),
          sampling: "lttb",
          symbol: "none",
          lineStyle: { color: k ? c.forget : c.after, width: 1.5, type: k ? "dashed" : "solid" },
          itemStyle: { color: k ? c.forget : c.after },
          markLine:
            k || id === "moved" || id === "agreement"
              ? undefined
              : markLines([lineAt("yAxis", 0, c.quiet)]),
        })),
      }),
      {
        table: () => [
          ["Step", ...present.map(([, label]) => label)],
          ...Array.from({ length: count }, (_, k) => [
            String(k + 1),
            ...present.map(([name]) => number(steps[name][k])),
          ]),
        ],
        walk: () => count,
      },
    );
  };
  curve("cosine", { cosine: "cosine" });
  curve("agreement", { agreement: "agreement" });
  curve("moved", { moved: "share moved" });
  curve("alignment", {
    objective_alignment: "with forgetting (solid)",
    constraint_alignment: "with keeping (dashed)",
  });
}
