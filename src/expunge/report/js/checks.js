// The AUC of every attack with its bounds, as judged and after benign steps, against the margin.

if (byId("check-chart")) {
  const attacks = data.checks.filter((check) => check.name.startsWith("auc_"));
  const labels = [...new Map(attacks.map((check) => [check.name, check.label]))];
  const names = labels.map(([name]) => name);
  const moments = [...new Set(attacks.map((check) => check.moment))];
  const { margin } = attacks[0];
  byId("check-chart").style.height = `${labels.length * 42 + 64}px`;
  const items = (moment, shift) =>
    attacks
      .filter((check) => check.moment === moment)
      .map((check) => ({ ...check, at: names.indexOf(check.name) + shift }));
  const short = (name) => sentenceCase(name.slice(4));
  draw("check-chart", (c) => {
    const rows = moments.map((moment, k) => items(moment, moments.length > 1 ? 0.34 * k - 0.17 : 0));
    const [min, max] = axisRange(
      attacks.flatMap((check) => [check.low, check.high, margin, 1 - margin]),
      0.1,
    );
    const narrow = byId("check-chart").clientWidth < 560;
    const frame = {
      markArea: shadedRange("xAxis", 1 - margin, margin, c.target),
      markLine: markLines([lineAt("xAxis", 0.5, c.target, "guessing", "start")]),
    };
    return {
      grid: { left: narrow ? 108 : 150, right: 24, top: 26, bottom: 42, outerBoundsMode: "none" },
      tooltip: {
        trigger: "item",
        formatter: (p) => {
          const check = p.data.item;
          return tip(`Attack that ${check.label}`, [
            [p.seriesName, number(check.value, "AUC")],
            ["bounds", `${number(check.low, "AUC")} to ${number(check.high, "AUC")}`],
            ["margin", number(margin, "AUC")],
            ["result", check.result],
          ]);
        },
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
        max: labels.length - 0.5,
        inverse: true,
        splitLine: { show: false },
        interval: 1,
        axisLine: { show: false, onZero: false },
        axisLabel: {
          show: true,
          customValues: names.map((_, k) => k),
          formatter: (v) => (names[v] ? short(names[v]) : ""),
          width: narrow ? 96 : 136,
          overflow: "truncate",
          hideOverlap: false,
        },
        axisTick: { show: false },
      },
      series: rows.flatMap((row, k) => {
        const colour = k ? c.relearned : c.after;
        const name = k || JUDGED === "after" ? moments[k] : JUDGED;
        const symbol = k ? "triangle" : "circle";
        return [whiskers(row, colour, k ? {} : frame), dots(row, colour, { name, symbol })];
      }),
    };
  });
}
