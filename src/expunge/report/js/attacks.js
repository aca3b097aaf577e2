// AUC of every attack, before and after, around one half.

if (byId("attack-chart")) {
  const attacks = data.attacks;
  byId("attack-chart").style.height = `${attacks.length * 42 + 64}px`;
  const items = (side, shift) =>
    attacks.map((attack, k) => ({
      ...attack[side]?.auc,
      at: k + shift,
      name: attack.name,
      verdict: attack[side]?.verdict,
    }));
  draw("attack-chart", (c) => {
    const before = items("before", -0.17),
      after = items("after", 0.17);
    const [min, max] = axisRange(
      [...before, ...after].flatMap((e) => [e.low, e.high, e.value]).concat([0.45, 0.55]),
      0.05,
    );
    const narrow = byId("attack-chart").clientWidth < 560;
    return {
      grid: { left: narrow ? 108 : 190, right: 24, top: 26, bottom: 42, outerBoundsMode: "none" },
      tooltip: {
        trigger: "item",
        formatter: (p) =>
          tip(p.data.item.name, [
            [p.seriesName, interval(p.data.item, "")],
            ["verdict", p.data.item.verdict ?? "–"],
          ]),
      },
      xAxis: {
        type: "value",
        min,
        max,
        name: "AUC",
        nameGap: 26,
        axisLabel: { showMinLabel: false, showMaxLabel: false, formatter: (v) => v.toFixed(2) },
      },
      yAxis: {
        type: "value",
        min: -0.5,
        max: attacks.length - 0.5,
        inverse: true,
        splitLine: { show: false },
        interval: 1,
        axisLine: { show: false, onZero: false },
        axisLabel: {
          show: true,
          customValues: attacks.map((_, k) => k),
          formatter: (v) => attacks[v]?.name ?? "",
          width: narrow ? 96 : 176,
          overflow: "truncate",
          hideOverlap: false,
        },
        axisTick: { show: false },
      },
      series: [
        whiskers(before, c.before, {
          markLine: markLines([lineAt("xAxis", 0.5, c.target, "guessing", "start")]),
        }),
        whiskers(after, c.after),
        dots(before, c.before, { name: "before", symbol: "diamond" }),
        dots(after, c.after, { name: "after" }),
      ],
    };
  });
}
