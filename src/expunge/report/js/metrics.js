// The intervals of each measure, each on its own small axis.

/** The model that was judged: the one after the request, or one that was discarded. */
const JUDGED = data.verdict.status === "not achieved" && data.stopped.epoch ? "discarded" : "after";

(data.metrics ?? []).forEach((metric, k) => {
  draw(`metric-${k}`, (c) => {
    const { before, after, after_benign_steps: later, target, unit } = metric;
    const rows = [
      ["before", before, c.before, "diamond"],
      [JUDGED, after, c.after, "circle"],
      ["after benign steps", later, c.later, "triangle"],
    ].filter(([, estimate]) => estimate);
    const all = [before, after, later, target].filter(Boolean);
    const [min, max] = axisRange(
      all.flatMap((e) => [e.value, e.low, e.high]),
      0.12,
    );
    const alike = target && {
      markArea: shadedRange("xAxis", target.low, target.high, c.target),
      markLine: markLines([lineAt("xAxis", target.value, c.target)]),
    };
    return {
      grid: { left: 14, right: 14, top: 4, bottom: 20, outerBoundsMode: "none" },
      tooltip: {
        trigger: "item",
        formatter: (p) =>
          tip(metric.label, [
            [p.seriesName, interval(p.data.item, unit)],
            ...(target ? [["unseen data alike", interval(target, unit)]] : []),
          ]),
      },
      xAxis: {
        type: "value",
        min,
        max,
        splitLine: { show: false },
        interval: max - min,
        axisLabel: {
          fontSize: 11,
          showMinLabel: true,
          showMaxLabel: true,
          hideOverlap: false,
          formatter: (v) => number(v, unit, unit === "%" ? 0 : 2),
        },
      },
      yAxis: { type: "value", min: 0, max: rows.length + 1, inverse: true, show: false },
      series: rows.flatMap(([name, estimate, colour, symbol], at) => [
        whiskers([{ ...estimate, at: at + 1 }], colour, at ? {} : (alike ?? {})),
        dots([{ ...estimate, at: at + 1 }], colour, { name, symbolSize: 9, symbol }),
      ]),
    };
  });
});
