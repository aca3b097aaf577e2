// The chosen rows over the epochs, each with a band of one standard deviation.

/** `rows`, `metric` and `ideal` are called at every redraw; `spread` formats mean ± std. */
function drawCurves({ epochs, rows, metric, spread, ideal }) {
  const chosenRows = () => rows().slice(0, SERIES.length);
  const points = (row) =>
    epochs
      .map((e) => [e, summary(row.runs.map((run) => valueAt(run, metric(), e)))])
      .filter(([, s]) => s.n);
  return draw(
    "curve-chart",
    (c) => {
      const found = chosenRows().map((row) => [row, points(row)]);
      const reference = ideal();
      byId("curve-key").replaceChildren(
        ...found.map(([row], k) => {
          const item = make("span", { text: row.name });
          item.style.color = `var(--${SERIES[k]})`;
          return item;
        }),
      );
      const [min, max] = axisRange(
        [...found.flatMap(([, list]) => list.flatMap(([, s]) => [s.low, s.high])), reference],
        0.06,
      );
      const shapes = ["circle", "diamond", "triangle", "rect"];
      return {
        grid: { left: 60, right: 28, top: 28, bottom: 76, outerBoundsMode: "none" },
        dataZoom:
          epochs.length > 2 ? zoom(c).map((z) => ({ ...z, filterMode: "none" })) : undefined,
        tooltip: {
          trigger: "axis",
          formatter: (list) => {
            const e = list[0].value[0];
            return tip(
              `Epoch ${e}`,
              found.map(([row, list]) => {
                const s = list.find(([at]) => at === e)?.[1];
                return [row.name, s ? spread(s) : "–"];
              }),
            );
          },
        },
        xAxis: {
          type: "value",
          name: "Epoch",
          min: epochs[0],
          max: epochs.at(-1),
          minInterval: 1,
          nameGap: 26,
          splitLine: { show: false },
        },
        yAxis: {
          type: "value",
          min,
          max,
          axisLabel: {
            showMinLabel: false,
            showMaxLabel: false,
            formatter: (v) => String(v).replace("-", "−"),
          },
        },
        series: [
          ...found.map(([row, list], k) => ({
            type: "line",
            name: row.name,
            data: list.map(([e, s]) => [e, s.mean]),
            symbol: shapes[k % 4],
            symbolSize: 8,
            lineStyle: { color: c[SERIES[k]], width: 2.2, type: k > 3 ? "dashed" : "solid" },
            itemStyle: { color: c[SERIES[k]] },
            markLine:
              k === 0 && reference !== null
                ? markLines([lineAt("yAxis", reference, c.target, "ideal")])
                : undefined,
          })),
          ...found.flatMap(([, list], k) => {
            const hidden = {
              type: "line",
              stack: `band${k}`,
              stackStrategy: "all",
              symbol: "none",
              silent: true,
              lineStyle: { opacity: 0 },
              tooltip: { show: false },
            };
            return [
              { ...hidden, data: list.map(([e, s]) => [e, s.low]) },
              {
                ...hidden,
                data: list.map(([e, s]) => [e, s.high - s.low]),
                areaStyle: { color: c[SERIES[k]], opacity: 0.08 },
              },
            ];
          }),
        ],
      };
    },
    {
      table: () => [
        ["Epoch", ...chosenRows().map((row) => row.name)],
        ...epochs.map((e) => [
          String(e),
          ...chosenRows().map((row) =>
            spread(summary(row.runs.map((run) => valueAt(run, metric(), e)))),
          ),
        ]),
      ],
      walk: () => (chosenRows().length ? points(chosenRows()[0]).length : 0),
    },
  );
}
