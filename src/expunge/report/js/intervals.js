// Intervals, bands and marks, composed of the library's lines and points.

/** Intervals as one line with gaps; `items` have low, high and a position `at` on the other axis. */
function whiskers(items, colour, extra = {}) {
  const points = items
    .filter((item) => isNumber(item.low) && isNumber(item.high))
    .flatMap((item) => [
      [item.low, item.at],
      [item.high, item.at],
      [null, null],
    ]);
  return {
    type: "line",
    data: points,
    connectNulls: false,
    silent: true,
    symbol: "rect",
    symbolSize: [2, 9],
    showAllSymbol: true,
    lineStyle: { color: colour, width: 2.5 },
    itemStyle: { color: colour },
    z: 2,
    ...extra,
  };
}

/** The values of the same items as points. */
function dots(items, colour, extra = {}) {
  return {
    type: "scatter",
    symbolSize: 11,
    itemStyle: { color: colour },
    z: 3,
    data: items
      .filter((item) => isNumber(item.value))
      .map((item) => ({ value: [item.value, item.at], item })),
    ...extra,
  };
}

/** A shaded range between two values of an axis ("xAxis" or "yAxis"). */
function shadedRange(axis, low, high, colour, label = "") {
  return {
    silent: true,
    itemStyle: { color: colour, opacity: 0.16 },
    label: { show: Boolean(label), formatter: label, position: "insideTopLeft", color: colour },
    data: [[{ [axis]: low }, { [axis]: high }]],
  };
}

/** A dashed line at a value of an axis. */
function lineAt(axis, value, colour, text = "", position = "insideEndTop") {
  return {
    [axis]: value,
    lineStyle: { color: colour, type: "dashed", width: 1.5 },
    label: { show: Boolean(text), formatter: text, position, color: colour },
  };
}

const markLines = (list) => ({ silent: true, symbol: "none", data: list });

/** The ends of an axis around values, with a margin. */
function axisRange(values, margin = 0.08) {
  const [low, high] = extent(values.filter(isNumber));
  if (low > high) return [0, 1];
  const space = (high - low || Math.abs(high) || 1) * margin;
  return [low - space, high + space];
}

/** The frame of a chart with a row for each name, and values along x. */
function rowFrame(id, names, [min, max], title) {
  const left = byId(id).clientWidth < 560 ? 122 : 150;
  byId(id).style.height = `${Math.max(1, names.length) * 30 + 68}px`;
  return {
    grid: { left, right: 24, top: 26, bottom: 42, outerBoundsMode: "none" },
    xAxis: {
      type: "value",
      min,
      max,
      name: title,
      nameGap: 26,
      axisLabel: { showMinLabel: false, showMaxLabel: false },
    },
    yAxis: {
      type: "value",
      min: -0.6,
      max: names.length - 0.4,
      inverse: true,
      splitLine: { show: false },
      axisLine: { show: false, onZero: false },
      axisLabel: {
        customValues: names.map((_, k) => k),
        formatter: (v) => names[v] ?? "",
        width: left - 14,
        overflow: "truncate",
        hideOverlap: false,
      },
    },
  };
}
