// Seconds of the request beside seconds of retraining.

if (byId("cost-chart")) {
  const bars = [
    ["Retraining (estimate)", data.preflight.cost.retraining_seconds, "before"],
    ["The whole request", data.seconds.wall.total, "after"],
  ].filter(([, value]) => isNumber(value));
  draw(
    "cost-chart",
    (c) => ({
      grid: { left: 150, right: 84, top: 6, bottom: 40, outerBoundsMode: "none" },
      tooltip: {
        trigger: "item",
        formatter: (p) => tip(p.name, [["seconds", number(p.value, "s")]]),
      },
      xAxis: { type: "value", name: "seconds", nameGap: 24 },
      yAxis: { type: "category", data: bars.map(([name]) => name), axisLabel: { color: c.ink } },
      series: [
        {
          type: "bar",
          barMaxWidth: 30,
          data: bars.map(([, value, hue]) => ({ value, itemStyle: { color: c[hue] } })),
          itemStyle: { borderRadius: [0, 4, 4, 0] },
          label: {
            show: true,
            position: "right",
            color: c.ink,
            formatter: (p) => `${number(p.value, "s")} s`,
          },
        },
      ],
    }),
    { walk: () => bars.length },
  );
}
