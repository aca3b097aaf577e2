// The AUC of every attack with its bounds, as judged and after benign steps, against the margin.

if (byId("check-chart")) {
  const attacks = data.checks.filter((check) => check.name.startsWith("auc_"));
  const names = [...new Set(attacks.map((check) => check.name))];
  const moments = [...new Set(attacks.map((check) => check.moment))];
  const { margin } = attacks[0];
  const range = axisRange(
    attacks.flatMap((check) => [check.low, check.high, margin, 1 - margin]),
    0.1,
  );
  draw("check-chart", (c) => ({
    ...rowFrame("check-chart", names.map((name) => sentenceCase(name.slice(4))), range, "AUC"),
    tooltip: {
      trigger: "item",
      formatter: ({ seriesName, data: { item } }) =>
        tip(`Attack that ${item.label}`, [
          [seriesName, interval(item, "AUC")],
          ["margin", number(margin, "AUC")],
          ["result", item.result],
        ]),
    },
    series: moments.flatMap((moment, k) => {
      const at = (check) => names.indexOf(check.name) + (moments.length > 1 ? (0.34 * k) / (moments.length - 1) - 0.17 : 0);
      const items = attacks.filter((check) => check.moment === moment);
      const rows = items.map((check) => ({ ...check, at: at(check) }));
      const colour = k ? c.later : c.after;
      const frame = {
        markArea: shadedRange("xAxis", 1 - margin, margin, c.target),
        markLine: markLines([lineAt("xAxis", 0.5, c.target, "guessing", "start")]),
      };
      const name = k || JUDGED === "after" ? moment : JUDGED;
      const symbol = ["circle", "triangle", "diamond", "rect"][k];
      return [whiskers(rows, colour, k ? {} : frame), dots(rows, colour, { name, symbol })];
    }),
  }));
}
