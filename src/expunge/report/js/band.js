// Intervals and bands, put together from the library's lines and points.

/** Intervals as one line with gaps: `items` have low, high and their place on the other axis. */
function whiskers(items, colour, extra = {}) {
  const points = items
    .filter((item) => known(item.low) && known(item.high))
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
      .filter((item) => known(item.value))
      .map((item) => ({ value: [item.value, item.at], item })),
    ...extra,
  };
}

/** A shaded stretch between two values of an axis ("xAxis" or "yAxis"). */
function stretch(axis, low, high, colour, label = "") {
  return {
    silent: true,
    itemStyle: { color: colour, opacity: 0.16 },
    label: { show: Boolean(label), formatter: label, position: "insideTopLeft", color: colour },
    data: [[{ [axis]: low }, { [axis]: high }]],
  };
}

/** A dashed line across at a value of an axis. */
function across(axis, value, colour, text = "", position = "insideEndTop") {
  return {
    [axis]: value,
    lineStyle: { color: colour, type: "dashed", width: 1.5 },
    label: { show: Boolean(text), formatter: text, position, color: colour },
  };
}

const lines = (list) => ({ silent: true, symbol: "none", data: list });

/** The ends of an axis around values, with a little air. */
function room(values, share = 0.08) {
  const [low, high] = extent(values.filter(known));
  if (low > high) return [0, 1];
  const air = (high - low || Math.abs(high) || 1) * share;
  return [low - air, high + air];
}
