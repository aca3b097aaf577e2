// Before, after and target of each measure as intervals, each on its own small axis.

(data.metrics ?? []).forEach((metric, k) => {
  draw(`metric-${k}`, (c) => {
    const { before, after, target, unit } = metric;
    const all = [before, after, target].filter(Boolean).flatMap((e) => [e.value, e.low, e.high]);
    const [min, max] = axisRange(all, 0.12);
    const row = (estimate, at) => (estimate ? [{ ...estimate, at }] : []);
    const band =
      target && isNumber(target.low) ? shadedRange("xAxis", target.low, target.high, c.target) : undefined;
    const targetLine =
      target && isNumber(target.value) ? markLines([lineAt("xAxis", target.value, c.target)]) : undefined;
    const places = unit === "%" ? 0 : max - min > 5 ? 0 : 2;
    return {
      grid: { left: 14, right: 14, top: 4, bottom: 20, outerBoundsMode: "none" },
      tooltip: {
        trigger: "item",
        formatter: (p) =>
          tip(metric.label, [
            [p.seriesName, interval(p.data.item, unit)],
            ...(target ? [["target", interval(target, unit)]] : []),
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
          formatter: (v) => number(v, unit, places),
        },
      },
      yAxis: { type: "value", min: 0, max: 3, show: false },
      series: [
        whiskers(row(before, 2), c.before, { markArea: band, markLine: targetLine }),
        whiskers(row(after, 1), c.after),
        dots(row(before, 2), c.before, { name: "before", symbolSize: 9, symbol: "diamond" }),
        dots(row(after, 1), c.after, { name: "after", symbolSize: 9 }),
      ],
    };
  });
});
